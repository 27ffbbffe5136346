"""What words mean: the forms of a word, what people say for what tools are called, typos."""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD: Final = re.compile(r"[^\W_]+")


def word_set(text: str) -> frozenset[str]:
    """The words of a text as a set."""
    return frozenset(text.split())


FILLERS: Final = word_set(
    """a an the this that these those my your our his her its their me you i we us it is are was be been do does did
    can could would will shall should may might must please kindly just now so well ok okay hey also and or but if
    of in on at to from for with by as into onto about there here what which who whom whose when how why some any
    all no not want need like let lets let's i'd i'm it's what's that's want's tell give us them then than too
    up out off over under via using use call tool named called run's mir mich bitte der die das den dem ein eine
    einen einem in im ist und oder ich du es zu auf mit von für was wie wer kannst könntest mal doch noch aus an
    hello hi thanks thank contents current currently available"""
)
"""Words that say nothing about which tool is meant."""

WEAK_VERBS: Final = word_set(
    "take get give show tell make do use call find see check look have has let bring know go try start set want say "
    "zeig zeige mach mache gib nimm sag"
)
"""Verbs that fit any tool: that one of these is not in a tool's words does not speak against it."""

REQUEST_STARTS: Final = word_set(
    "what what's whats which who where when how why can could would will please i'd let's do does is are was "
    "wie wer wo welche kannst könntest bitte and then also now"
)
"""Words that a request or a question begins with."""

PRONOUNS: Final = word_set("it that this them those result results output answer es das ergebnis")

_MEANINGS: Final = {
    "read": "read show display print view open cat see lies lese les zeige zeig öffne",
    "write": "write save store put schreib schreibe speicher speichere",
    "append": "append add attach anhängen hänge häng füge füg",
    "edit": "edit replace change substitute swap modify ersetze ersetz ändere",
    "replace": "replace substitute swap change ersetze ersetz",
    "list": "list ls dir enumerate liste auflisten",
    "directory": "directory folder dir ordner verzeichnis workspace",
    "file": "file document datei dateien",
    "exec": "run execute exec launch führe führ starte",
    "run": "run execute exec launch führe führ starte",
    "shell": "shell terminal bash console",
    "fetch": "fetch download load visit browse hole hol lade lad",
    "search": "search google lookup suche such",
    "web": "web internet online page site website netz webseite",
    "time": "time clock date day today hour uhrzeit uhr spät zeit datum",
    "camera": "camera photo picture selfie snapshot foto kamera",
    "photo": "photo picture selfie snapshot foto",
    "image": "image picture photo bild",
    "memory": "memory remember recall memorize gedächtnis",
    "message": "message send text notify nachricht",
    "send": "send sende schick schicke",
    "sum": "sum add plus summe",
    "delete": "delete remove erase lösche lösch",
    "remove": "delete remove erase lösche",
    "create": "create make new erstelle",
    "move": "move rename verschiebe",
    "location": "location position where gps standort wo",
    "info": "info information details informationen",
    "device": "device phone computer laptop tablet machine handy gerät rechner",
    "contact": "contact contacts kontakt kontakte",
    "sensor": "sensor sensors",
    "environment": "environment env",
    "convert": "convert translate umrechnen",
    "commit": "commit",
    "status": "status state",
}


@lru_cache(maxsize=8192)
def stem(word: str) -> str:
    """A form that all forms of a word share, near enough: files, file → fil; running, run → run."""
    word = word.casefold().replace("’", "'").removesuffix("'s")
    if len(word) > 4 and word.endswith("ies"):
        word = f"{word[:-3]}y"
    elif len(word) > 4 and word.endswith(("ches", "shes", "sses", "xes", "oes")):
        word = word[:-2]
    elif len(word) > 3 and word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    for suffix in ("ly", "ing", "ed"):
        if len(word) > len(suffix) + 3 and word.endswith(suffix):
            word = word.removesuffix(suffix)
            word = word[:-1] if word[-1] == word[-2] and word[-1] not in "ls" else word
            break
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


def split_words(name: str) -> list[str]:
    """The words of a name or a text: snake_case, kebab-case and camelCase come apart."""
    return _WORD.findall(_CAMEL.sub(" ", name))


def stems(text: str) -> frozenset[str]:
    """The stems of all words in a text."""
    return frozenset(map(stem, split_words(text)))


def _by_said_word() -> dict[str, frozenset[str]]:
    meant: dict[str, set[str]] = {}
    for word, said in _MEANINGS.items():
        for synonym in said.split():
            meant.setdefault(stem(synonym), set()).add(stem(word))
    return {said: frozenset(words) for said, words in meant.items()}


MEANINGS: Final = _by_said_word()
"""Stem of what people say → stems of what tools are called."""

SAID: Final = frozenset(synonym for said in _MEANINGS.values() for synonym in said.split())
"""All that people say, as it is written."""
FILLER_STEMS: Final = frozenset(map(stem, FILLERS))
WEAK_STEMS: Final = frozenset(map(stem, WEAK_VERBS))


def meanings(word_stem: str) -> frozenset[str]:
    """The word itself and all that it can stand for."""
    return MEANINGS.get(word_stem, frozenset()) | {word_stem}


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The one known word that this is a small typo of; None when there is none, or more than one."""
    if len(word) < 4:
        return None
    found = {stem(other): other for other in known if abs(len(other) - len(word)) <= 1 and _is_typo(word, other)}
    return next(iter(found.values())) if len(found) == 1 else None


def _is_typo(word: str, other: str) -> bool:
    """One letter too many, too few, or two in the wrong order; one wrong letter only in a longer word. Never the first:
    bread is no read."""
    if word[0] != other[0]:
        return False
    start = 1
    while start < min(len(word), len(other)) and word[start] == other[start]:
        start += 1
    if len(word) < len(other):
        return len(other) > 3 and word[start:] == other[start + 1 :]
    if len(word) > len(other):
        return len(other) > 3 and word[start + 1 :] == other[start:]
    is_swapped = word[start : start + 2] == other[start : start + 2][::-1] and word[start + 2 :] == other[start + 2 :]
    return word != other and (is_swapped or (len(word) > 4 and word[start + 1 :] == other[start + 1 :]))


def plain_name(name: str) -> str:
    """A name as it is compared: in any case, with `-` or `_`."""
    return name.casefold().replace("-", "_")


NEGATIONS: Final = word_set("no not don't dont do-not never without kein keine nicht niemals ohne")
