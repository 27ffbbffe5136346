"""One thing that a request asks for: its words, corrected, and what people mean by such a sentence."""

import re
from collections.abc import Sequence, Set
from functools import cached_property
from typing import Final, final

from msgspec import Struct

from handspan.models.offline_text import Piece
from handspan.models.offline_words import (
    FILLER_STEMS,
    MEANINGS,
    NEGATIONS,
    PRONOUNS,
    REQUEST_STARTS,
    SAID,
    WEAK_STEMS,
    meanings,
    nearest,
    stem,
    word_set,
)


@final
class Intent(Struct, frozen=True):
    """A form of sentence, and the words that tools for it have."""

    form: str
    """A pattern, compiled when the first sentence is read: starting must not wait for it."""
    means: tuple[str, ...]


def _intent(means: str, *forms: str) -> Intent:
    return Intent("|".join(forms), tuple(map(stem, means.split())))


# The first form that fits counts. Literals stand in a sentence as <path>, <url>, <quoted> …
INTENTS: Final = (
    _intent(
        "memory read",
        r"\b(?:what|which|anything|something|everything|do you)\b[^<]*\b(?:remember|know|memory)\b",
        r"\brecall\b",
        r"\b(?:read|show|search)(?: your| the| my| long-term)* memory\b",
        r"\b(?:weißt|erinnerst) du\b",
    ),
    _intent(
        "memory write",
        r"^(?:and |please |also )*(?:remember|memorize|note that|keep in mind|(?:don't|do not) forget|merke? dir)\b",
        r"\b(?:add|write|save|put|store)\b.*\b(?:to|in|into)\b(?: your| the| my| long-term)* memory\b",
    ),
    _intent(
        "http request",
        r"^(?:and |please |also )*(?:post|put|delete)(?: <(?:quoted|json|code)>)?(?: to| at)? <url>"
        r"(?: with\b.*| <pair>.*)?$",
        r"\bhttp request\b",
    ),
    _intent(
        "web fetch",
        r"\b(?:fetch|get|open|download|load|read|show|visit|browse|see|hole?|lade?|öffne|zeige?)\b.*<(?:url|host)>",
        r"^<url>$",
    ),
    _intent(
        "web search",
        r"\b(?:search|google|look up|find|suche?)\b.*\b(?:web|internet|online|net|netz)\b",
        r"^(?:google|web search|search for|suche nach)\b",
    ),
    _intent("exec shell command", r"^(?:and |please |also )*(?:run|execute|exec|führe?)\b", r"\bshell command\b"),
    _intent("write file append", r"\b(?:append|add|attach|hänge?|füge?)\b.*\b(?:to|in|into|an|zu)\b.*<path>"),
    _intent("edit file", r"\b(?:replace|change|substitute|swap|edit|ersetze?|ändere?)\b.*<(?:path|quoted)>"),
    _intent(
        "write file",
        r"\b(?:write|save|put|store|create|schreibe?|speichere?)\b.*\b(?:to|in|into|as|file|called|named|nach|datei)\b.*"
        r"(?:<path>|<quoted>$)",
        r"\b(?:write|save|create|schreibe?)\b(?: a| the| eine| die)? (?:file|datei)\b",
    ),
    _intent(
        "list directory",
        r"\b(?:list|show|which|what|see|view|zeige?|welche|liste)\b.*\b(?:files|folders?|director(?:y|ies)|dateien|ordner)\b",
        r"\b(?:show|what's|what is|list|see)\b.*\b(?:workspace|here)$",
        r"^(?:ls|dir)\b",
        r"^list <path>$",
    ),
    _intent(
        "read file",
        r"\b(?:show|open|display|print|view|cat|read|see|lies|lese|zeige?|öffne)\b.*(?:<path>|\bfile\b|\bdatei\b)",
        r"\bwhat(?:'s| is| does)\b.*<path>",
        r"^(?:and |please |also )*(?:show|open|display|print|cat|read|lies) (?:me )?(?:it|that|this|es)"
        r"(?: (?:again|back|out))?$",
    ),
    _intent(
        "current time",
        r"\b(?:what|what's|tell|current|give|show|which|know|check|get|say|print)\b.*\b(?:time|date|day|hour)\b",
        r"^(?:the )?(?:time|date)(?: (?:in|now|please)\b.*)?$",
        r"\b(?:uhrzeit|wie spät|wieviel uhr|wie viel uhr)\b",
    ),
    _intent(
        "camera photo", r"\b(?:take|make|shoot|snap|mach|mache)\b.*\b(?:photo|picture|selfie|snapshot|foto|bild)\b"
    ),
    _intent("location gps", r"\bwhere am i\b", r"\bmy (?:location|position)\b", r"\bwo bin ich\b"),
)

_MOST_SHOWN: Final = 400
_LONG: Final = 6
_ASKS: Final = word_set("what what's whats which who where when how why is are was wer wo welche does did if should")
_STATES: Final = word_set(
    "the a an my your our his her its their i we you he she it this that these those there they der die das mein ich "
    "du wir"
)
_MOST_WORDS: Final = 40
"""That count, and that are looked at for typos: who writes more than that has said what to do before."""
_IN_INTENTS: Final = frozenset(word for intent in INTENTS for word in re.findall(r"[a-zäöüß]{4,}", intent.form))
_SAID: Final = SAID | _IN_INTENTS
_SAID_STEMS: Final = frozenset(map(stem, _SAID)) | frozenset(MEANINGS) | FILLER_STEMS | WEAK_STEMS


@final
class Term(Struct, frozen=True):
    """A word of the request that may say which tool is meant."""

    stem: str
    meanings: frozenset[str]
    is_doubtful: bool = False
    """A short word that was taken for a typo of another one."""


class Clause:
    """A stretch of the request's text."""

    def __init__(self, text: str, pieces: Sequence[Piece], end: int, known: Set[str]) -> None:
        """`known`: the words of all tools' names, which a typo may stand for. `end`: where it ends in the text."""
        self.text = text
        self.pieces = tuple(pieces)
        self.end = end
        self._known = known

    @property
    def source(self) -> str:
        """The words as they were written."""
        return self.text[self.pieces[0].start : self.end].strip() if self.pieces else ""

    @cached_property
    def words(self) -> tuple[str, ...]:
        """For each piece its word in lower case, small typos corrected; empty for literals and marks."""
        return tuple(self._word(place, piece) for place, piece in enumerate(self.pieces))

    def _word(self, place: int, piece: Piece) -> str:
        if piece.kind != "word":
            return ""
        word = piece.text.lower().replace("’", "'")
        if place > _MOST_WORDS or stem(word) in _SAID_STEMS or word in self._known or stem(word) in self._known:
            return word
        return nearest(word, _SAID | self._known) or word

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """The words that count, in order."""
        found: dict[str, Term] = {}
        for piece, word in zip(self.pieces, self.words, strict=True):
            word_stem = stem(word)
            if word and word_stem not in FILLER_STEMS and word_stem not in found:
                is_doubtful = len(word) < _LONG and word != piece.text.lower().replace("’", "'")
                found[word_stem] = Term(word_stem, meanings(word_stem), is_doubtful)
        return tuple(found.values())[:_MOST_WORDS]

    @cached_property
    def intent(self) -> tuple[str, ...]:
        """The words of the tools that such a sentence is for."""
        shown = " ".join(
            word or (f"<{piece.kind}>" if piece.kind != "mark" else "")
            for piece, word in zip(self.pieces, self.words, strict=True)
        )
        shown = re.sub(r" {2,}", " ", shown).strip()[:_MOST_SHOWN]
        return next((intent.means for intent in INTENTS if re.search(intent.form, shown)), ())

    @property
    def has_pronoun(self) -> bool:
        """Whether it speaks of something from before."""
        return any(word in PRONOUNS for word in self.words)

    @property
    def is_negated(self) -> bool:
        """Whether it says what not to do: a negation stands before the first word that counts."""
        for word in self.words:
            if word in NEGATIONS:
                return "forget" not in self.words
            if word and stem(word) not in FILLER_STEMS:
                return False
        return False

    @property
    def is_request(self) -> bool:
        """Whether it begins as requests and questions do: "what", "please", "show" …"""
        first = next(filter(None, self.words), "")
        return first in REQUEST_STARTS or stem(first) in WEAK_STEMS

    @property
    def is_order(self) -> bool:
        """Whether it tells to do something: no question about it, and nothing said of somebody."""
        return next(filter(None, self.words), "") not in _ASKS and not self.is_statement

    @property
    def is_statement(self) -> bool:
        """Whether it begins as no request does: "the", "my", "I" … and is not a wish."""
        first, second = (*filter(None, self.words), "", "")[:2]
        return first in _STATES and second not in ("want", "need", "would", "will", "möchte")

    @property
    def has_strong_verb(self) -> bool:
        """Whether its first word that counts is a verb (or a thing) of its own, which a tool should have too."""
        return bool(self.terms) and self.terms[0].stem not in WEAK_STEMS
