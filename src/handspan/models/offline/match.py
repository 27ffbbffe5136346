"""Which tool a text means: the pieces of the text, and how well its words fit each tool's name and description."""

import re
from collections.abc import Sequence
from functools import cached_property
from itertools import islice
from typing import Final, final

from msgspec import Struct

from handspan.core.names import split_name
from handspan.core.tool import ToolSpec
from handspan.core.values import JsonObject

_MOST_TEXT: Final = 100_000
_MOST_PIECES: Final = 2000
_MOST_COUNTED: Final = 40
"""Bounds: reading a text takes time in proportion to its length, whatever it holds."""
_TOKEN: Final = r"""
    `(?P<code>[^`]+)` | "(?P<double>[^"]*)" | (?<!\w)'(?P<single>.*?)'(?!\w)
  | (?P<url>(?i:https?)://[^\s<>"'`]*[^\s<>"'`.,;:!?)])
  | (?P<pair>[^\W\d][\w-]{0,63}=(?:"[^"]*"|'[^']*'|[^\s;=>,][^\s;]*))
  | (?P<number>(?<![\w.])[+-]?\d{1,300}(?:\.\d{1,300})?(?![\w:/-]|\.\w))
  | (?P<path>(?:~|\.{1,2})?/(?:[^\s"'`,;?!]*[\w/])? | [\w.@+-]{1,254}(?:/[\w.@+-]*\w)+/? | [\w.@+-]{1,254}/(?=\s|$)
           | (?<!\S)\.{1,2}(?=\s|$) | \w[\w+-]{0,254}(?:\.[\w-]+)*\.[a-zA-Z]\w{0,9}(?!\w))
  | (?P<word>\w(?:[\w'-]*\w)?) | (?P<mark>\n|\S)
    """


def word_set(text: str) -> frozenset[str]:
    """The words of a text as a set."""
    return frozenset(text.split())


FILLERS: Final = word_set(
    """a an the this that these those my your our me you i we us it is are was be do does did can could would will
    should please just now so of in on at to from for with by as into about there what what's which who when where how
    why some any all and then also too want need like tell give get take show make use call tool named called have find
    see look up today system current"""
)
"""Words that do not say which tool is meant."""
NEGATIONS: Final = word_set("no not don't never without")
PRONOUNS: Final = word_set("it that this them result results output")
_QUESTION_WORDS: Final = word_set("what what's which who where when how why is are does did should")
_STATEMENT_WORDS: Final = word_set("the a an my your our i we you he she it this that there they")
_WISHES: Final = word_set("want need would will can could")

_SYNONYMS: Final = {
    "read": "show open print display view",
    "write": "save put store append add remember",
    "edit": "replace change",
    "list": "ls show",
    "directory": "folder file here workspace",
    "exec": "run execute",
    "shell": "run execute command",
    "fetch": "get open download",
    "request": "fetch post",
    "search": "google",
    "memory": "remember recall",
    "time": "date clock",
    "camera": "photo picture selfie",
    "device": "computer laptop phone",
}
"""Word of a tool's name → what people say for it."""
_MEANINGS: Final = {
    said: frozenset(name for name, words in _SYNONYMS.items() if said in words.split())
    for all_said in _SYNONYMS.values()
    for said in all_said.split()
}


@final
class TextPiece(Struct, frozen=True):
    """A piece of a text: a word, a mark, or a literal (quoted, code, pair, url, path, number)."""

    kind: str
    text: str
    """What is inside of quotes; else as it is written."""
    start: int
    end: int


def split_pieces(text: str) -> list[TextPiece]:
    """The pieces of a text, in order."""
    kinds = {"double": "quoted", "single": "quoted"}
    tokens = islice(re.finditer(_TOKEN, text[:_MOST_TEXT], re.VERBOSE | re.DOTALL), _MOST_PIECES)
    named = ((token, token.lastgroup or "") for token in tokens)
    return [TextPiece(kinds.get(name, name), token[name], token.start(), token.end()) for token, name in named]


def split_words(text: str) -> list[str]:
    """The words of a name or a sentence in lower case, without a plural `s`."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)
    return [re.sub(r"(?<=\w\w[^s])s$", "", word.lower()) for word in re.findall(r"[^\W_]+", spaced)]


def plain_name(name: str) -> str:
    """A name as it is compared: in any case, with `-` or `_`."""
    return name.casefold().replace("-", "_")


class Clause:
    """A part of the request that asks for one thing."""

    def __init__(self, text: str, pieces: Sequence[TextPiece], given: JsonObject | None = None) -> None:
        self.given = given or {}
        """Arguments that are written as JSON."""
        self.text, self.pieces = text, tuple(pieces)
        self.source = text[pieces[0].start : pieces[-1].end] if pieces else ""
        self.words = tuple(piece.text.lower() if piece.kind == "word" else "" for piece in pieces)
        said = [word for word in self.words if word not in ("", "and", "then", "also", "please", "hello")]
        first = said[0] if said else ""
        self.is_question = first in _QUESTION_WORDS
        self.is_statement = first in _STATEMENT_WORDS and _WISHES.isdisjoint(said[:2])
        """Whether it begins as no request does: "the", "my", "I" …; "I want" is a request."""
        self.is_negated = next((word for word in said if word not in FILLERS), "") in NEGATIONS
        self.has_pronoun = not PRONOUNS.isdisjoint(" ".join(said).replace("is it", "").split())

    @cached_property
    def counted(self) -> tuple[str, ...]:
        """The words that can say which tool is meant."""
        said = [part for word in self.words if word not in FILLERS | NEGATIONS for part in split_words(word)]
        asks_for_file = self.is_question and not said and any(piece.kind == "path" for piece in self.pieces)
        if asks_for_file or (self.has_pronoun and said == ["read"]):
            said = ["read", "file"]  # "what's in notes.txt?", "read it"
        return tuple(dict.fromkeys(said))[:_MOST_COUNTED]


class KnownTool:
    """An offered tool, with the words that are compared with those of a request."""

    def __init__(self, spec: ToolSpec) -> None:
        self.spec, self.name = spec, spec.name
        namespace, self.own_name = split_name(spec.name)
        self.namespace = frozenset(split_words(namespace))
        words = split_words(self.own_name)
        self.name_words = frozenset(words) - FILLERS or frozenset(words)
        self.described = frozenset(split_words(re.split(r"[.;\n]\s", spec.description[:200], maxsplit=1)[0])) - FILLERS
        self.is_harmless = spec.annotations.read_only or words[:1] in (["get"], ["read"], ["list"], ["search"])
        """It says so; or it says nothing of its effects, and its name begins like that of a tool that reads."""

    def knows(self, word: str) -> bool:
        """Whether the word is one of the tool's own."""
        own = self.name_words | self.described | self.namespace
        return word in own or not self.name_words.isdisjoint(_MEANINGS.get(word, ()))

    def is_whole(self, words: Sequence[str]) -> bool:
        """Whether the words say the whole name."""
        return self.name_words - {"file"} <= {meant for word in words for meant in (word, *_MEANINGS.get(word, ()))}

    def score(self, words: Sequence[str]) -> float:
        """How well the words fit: 3 for a word of the name, 2 for a synonym, 1 for the description or namespace."""
        found, in_name = 0.0, set[str]()
        for word in words:
            meant = self.name_words & {word, *_MEANINGS.get(word, ())}
            in_name |= meant
            found += 3 if word in meant else 2 if meant else 1 if self.knows(word) else 0
        found += 2 * len(in_name) / max(len(self.name_words), 1)
        return found + 0.5 if found and not self.namespace else found


def find_named(clause: Clause, tools: Sequence[KnownTool]) -> list[KnownTool]:
    """The tools whose exact name is written; a name without `_` or `-` counts at the start or after "use" or "call"."""
    pairs = zip(clause.words, ("use", *clause.words), strict=False)
    said = {plain_name(word) for word, last in pairs if "_" in word or "-" in word or last in ("use", "call", "the")}
    full = [tool for tool in tools if plain_name(tool.name) in said]
    own = [tool for tool in tools if tool.namespace and plain_name(tool.own_name) in said and "_" in tool.own_name]
    return full or [tool for tool in own if not tool.namespace.isdisjoint(clause.counted)] or own
