"""Which tool a text means: the pieces of the text, and how well its words fit each tool's name and description."""

import re
from collections.abc import Sequence
from itertools import islice, takewhile
from typing import Final

from msgspec import Struct

from handspan.core.names import split_name
from handspan.core.tool import ToolSpec
from handspan.core.values import JsonObject

_MAX_TEXT: Final = 100_000
_MAX_PIECES: Final = 2000
_MAX_COUNTED: Final = 40
"""Bounds: reading a text takes time in proportion to its length, whatever it holds."""
_ESCAPED: Final = r'"(?:[^"\\]++|\\.){0,1000}+"'  # \" is a quote of the text
_TOKEN: Final = rf"""
    (?P<code>`[^`]+`) | (?P<quoted>{_ESCAPED} | "[^"]*" | (?<!\w)'.*?'(?!\w))
  | (?P<url>(?i:https?)://[^\s<>"'`]*[^\s<>"'`.,;:!?)])
  | (?P<pair>[^\W\d][\w-]{{0,63}}=(?:{_ESCAPED}|'[^']*'|[^\s;=>,][^\s;]*))
  | (?P<number>(?<![\w.])[+-]?\d{{1,300}}(?:\.\d{{1,300}})?(?![\w:/-]|\.\w))
  | (?P<path>(?:~|\.{{1,2}})?/(?:[^\s"'`,;?!]*[\w/])? | [\w.@+-]{{1,254}}(?:/[\w.@+-]*\w)+/?
           | [\w.@+-]{{1,254}}/(?=\s|$) | (?<!\S)\.{{1,2}}(?=\s|$)
           | \w[\w+-]{{0,254}}(?:\.[\w-]+)*\.[a-zA-Z]\w{{0,9}}(?!\w))
  | (?P<word>\w(?:[\w'-]*\w)?) | (?P<mark>\n|\S)
    """


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
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
_DOUBTS: Final = word_set("could would should might maybe")
_QUESTION_WORDS: Final = word_set("what what's which who where when how why is are does did should")
_STATEMENT_WORDS: Final = word_set("the a an my your our i we you he she it this that there they")
_WISHES: Final = word_set("want need would will can could")

_SYNONYMS: Final = {  # word of a tool's name → words that people use for it
    "read": word_set("show open print display view"),
    "write": word_set("save put store append add remember"),
    "edit": word_set("replace change"),
    "list": word_set("ls show"),
    "directory": word_set("folder file here workspace"),
    "exec": word_set("run execute"),
    "shell": word_set("run execute command"),
    "fetch": word_set("get open download"),
    "request": word_set("fetch post"),
    "search": word_set("google"),
    "memory": word_set("remember recall"),
    "time": word_set("date clock"),
    "camera": word_set("photo picture selfie"),
    "device": word_set("computer laptop phone"),
}


class TextPiece(Struct, frozen=True):
    """A piece of a text: a word, a mark, or a literal (quoted, code, pair, url, path, number)."""

    kind: str
    text: str  # without its quotes
    start: int
    end: int


def split_pieces(text: str) -> list[TextPiece]:
    """Return the pieces of a text, in order."""
    tokens = islice(re.finditer(_TOKEN, text[:_MAX_TEXT], re.VERBOSE | re.DOTALL), _MAX_PIECES)
    kinds = ((token, token.lastgroup or "") for token in tokens)
    inner = ((token, kind, unquote(token[0]) if kind in ("code", "quoted") else token[0]) for token, kind in kinds)
    return [TextPiece(kind, piece, token.start(), token.end()) for token, kind, piece in inner]


def unquote(text: str) -> str:
    """Return a quoted text without its quotes; `\\"` in double quotes is a quote."""
    return text[1:-1].replace('\\"', '"') if text[0] == '"' else text[1:-1]


def split_words(text: str) -> list[str]:
    """Return the words of a name or a sentence in lower case, without a plural `s`."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)
    return [re.sub(r"(?<=\w\w[^s])s$", "", word.lower()) for word in re.findall(r"[^\W_]+", spaced)]


def plain_name(name: str) -> str:
    """Return the form of a name for comparison: case, `-` and `_` make no difference."""
    return name.casefold().replace("-", "_")


class Clause:
    """A part of the request that asks for one thing."""

    def __init__(self, text: str, pieces: Sequence[TextPiece], given: JsonObject | None = None) -> None:
        self.given = given or {}  # arguments that are written as JSON
        self.text, self.pieces = text, tuple(pieces)
        self.source = text[pieces[0].start : pieces[-1].end] if pieces else ""
        # Made from a list: Python keeps 2,000 freed tuples of each length, and one made from a generator reuses none.
        self.words = tuple([piece.text.lower() if piece.kind == "word" else "" for piece in pieces])
        said = [word for word in self.words if word not in ("", "and", "then", "also", "please", "hello")]
        first, lead = said[0] if said else "", set(takewhile((FILLERS | _DOUBTS).__contains__, said))
        self.is_question = first in _QUESTION_WORDS
        self.is_statement = first in _STATEMENT_WORDS and _WISHES.isdisjoint(said[:2])  # "I want" is a request
        self.is_order = not (self.is_statement or self.is_question or lead & _DOUBTS)  # "we could write" is none
        self.is_negated = next((word for word in said if word not in FILLERS), "") in NEGATIONS
        self.has_pronoun = not PRONOUNS.isdisjoint(" ".join(said).replace("is it", "").split())
        counted = [part for word in said if word not in FILLERS | NEGATIONS for part in split_words(word)]
        asks_for_file = self.is_question and not counted and any(piece.kind == "path" for piece in pieces)
        if asks_for_file or (self.has_pronoun and counted == ["read"]):
            counted = ["read", "file"]  # "what's in notes.txt?", "read it"
        self.counted = tuple(dict.fromkeys(counted))[:_MAX_COUNTED]  # the words that can say which tool is meant


class KnownTool:
    """An offered tool, with the words that are compared with a request."""

    def __init__(self, spec: ToolSpec) -> None:
        self.spec, self.name = spec, spec.name
        namespace, self.own_name = split_name(spec.name)
        self.namespace = frozenset(split_words(namespace))
        words = split_words(self.own_name)
        self.name_words = frozenset(words) - FILLERS or frozenset(words)
        self.described = frozenset(split_words(re.split(r"[.;\n]\s", spec.description[:200], maxsplit=1)[0])) - FILLERS
        reads_by_name = words[:1] in (["get"], ["read"], ["list"], ["search"])
        self.is_harmless = spec.annotations.read_only or (reads_by_name and not spec.annotations.claims_destructive)
        """The tool claims to be read-only; or its name begins with a verb that reads, and no claim contradicts it."""

    def find_in_name(self, words: Sequence[str]) -> set[str]:
        """Return the words of the tool's name that are among these words, also as synonyms."""
        said = set(words)
        return {name for name in self.name_words if name in said or said & _SYNONYMS.get(name, frozenset())}

    def knows(self, word: str) -> bool:
        """Whether the word is in the tool's name (also as a synonym), namespace or description."""
        return word in self.described or word in self.namespace or bool(self.find_in_name([word]))

    def score(self, words: Sequence[str]) -> float:
        """Return how well the words fit: 3 for a word of the name, 2 for a synonym, 1 for another known word."""
        known = [word for word in words if self.knows(word)]
        points = sum(3 if word in self.name_words else 1 + bool(self.find_in_name([word])) for word in known)
        share = len(self.find_in_name(known)) / max(len(self.name_words), 1)
        return points + 2 * share + 0.5 * (not self.namespace) if known else 0


def find_absent(clause: Clause, tools: Sequence[KnownTool]) -> str:
    """Return the written name of a tool of a server or device that is not offered, or "".

    Such a name counts where a tool is named, and anywhere if another place offers a tool of the same own name: the
    words of that name do not mean the other tool.
    """
    offered, own_names = {plain_name(tool.name) for tool in tools}, {plain_name(tool.own_name) for tool in tools}
    for piece, last in zip(clause.pieces, ("use", *clause.words), strict=False):
        namespace, own = split_name(plain_name(piece.text)) if piece.kind == "word" else ("", "")
        is_meant = last in ("use", "call", "run", "the", "tool", "please") or own in own_names
        if namespace and own and is_meant and plain_name(piece.text) not in offered:
            return piece.text
    return ""


def find_named(clause: Clause, tools: Sequence[KnownTool]) -> list[KnownTool]:
    """Return the tools whose exact name is written. A name of one word counts at the start or after "use"."""
    pairs = zip(clause.words, ("use", *clause.words), strict=False)
    said = {plain_name(word) for word, last in pairs if "_" in word or "-" in word or last in ("use", "call", "the")}
    full = [tool for tool in tools if plain_name(tool.name) in said]
    written = {piece.text for piece in clause.pieces}
    full = [tool for tool in full if tool.name in written] or full  # two names may differ only in case
    own = [tool for tool in tools if tool.namespace and plain_name(tool.own_name) in said and "_" in tool.own_name]
    return full or [tool for tool in own if not tool.namespace.isdisjoint(clause.counted)] or own
