"""A request in pieces: its words, and what stands in it literally (quotes, code, JSON, URLs, paths, numbers, pairs)."""

import json
import re
from collections.abc import Iterator
from typing import Final, Literal, TypeAlias, final

from msgspec import Struct

from handspan.core.errors import WireError
from handspan.core.values import Json
from handspan.wire import strict_json

Kind: TypeAlias = Literal["word", "quoted", "code", "json", "url", "host", "path", "number", "clock", "pair", "mark"]


@final
class Piece(Struct, frozen=True):
    """One piece of a text and its place."""

    kind: Kind
    text: str
    """Quoted, code: what is inside. Pair: the key. Host: the name. Else as it stands."""
    start: int
    end: int
    value: Json = None
    """JSON: the value. Pair: the value, as text unless it was JSON. Number: the number."""


MOST_PIECES: Final = 2000
_MOST_JSON: Final = 50
"""Attempts to read JSON in one text: each may look at all of it."""

_CLOSERS: Final = {"'": "'", '"': '"', "“": "”", "„": "“", "«": "»", "‘": "’", "`": "`"}
_PAIR: Final = re.compile(r"([^\W\d][\w-]*)=(?![=>\s])")
_BARE_VALUE: Final = re.compile(r"[^\s;]+")
_HOSTS: Final = "com|org|net|io|dev|edu|gov|info|de|at|ch|eu|uk|fr"
_TOKEN: Final = rf"""
    (?P<url>(?i:https?)://[^\s<>"'`]+)
  | (?P<clock>\d{{1,2}}:\d\d(?::\d\d)?(?![\w:]))
  | (?P<number>(?<![\w.])[+-]?\d+(?:\.\d+)?(?![\w:/-]|\.\w))
  | (?P<host>(?:www\.)?[a-zA-Z][\w-]*(?:\.[\w-]+)*\.(?:{_HOSTS})(?![\w.]\w|\w)(?:/[^\s"'`,;]*)?)
  | (?P<path>(?:~|\.{{1,2}})?/[^\s"'`,;?!]*
           | [\w.@][\w.@+-]{{0,254}}(?:/[\w.@+-]+)+/?
           | [\w.@][\w.@+-]{{0,254}}/(?=\s|$)
           | (?<!\S)\.{{1,2}}(?=\s|$)
           | (?<!\S)\.[a-zA-Z][\w.-]*\w
           | \w[\w+-]{{0,254}}(?:\.[\w-]+)*\.[a-zA-Z][a-zA-Z0-9]{{0,9}}(?!\w))
  | (?P<word>\w(?:[\w'’-]*\w)?)
  | (?P<mark>\n|\S)
    """
_BLANK: Final = re.compile(r"[^\S\n]+")
_NO_PATHS: Final = frozenset({"e.g", "i.e", "z.b", "u.a", "a.m", "p.m", "and/or"})


def pieces_of(text: str) -> tuple[Piece, ...]:
    """The first `MOST_PIECES` pieces, in order. Takes time in proportion to the text."""
    return tuple(piece for piece, _ in zip(_Scanner(text), range(MOST_PIECES), strict=False))


class _Scanner:
    """Walks through a text once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._hopeless: set[str] = set()
        """Closing quotes that stand nowhere in what is left: without this a row of opening ones costs a square."""
        self._json_left = _MOST_JSON
        self._match_token = re.compile(_TOKEN, re.VERBOSE).match  # compiled once, at the first text

    def __iter__(self) -> Iterator[Piece]:
        at = 0
        while at < len(self._text):
            blank = _BLANK.match(self._text, at)
            if blank:
                at = blank.end()
                continue
            piece = self._literal(at) or self._pair(at) or self._token(at)
            yield piece
            at = piece.end

    def _literal(self, at: int) -> Piece | None:
        char = self._text[at]
        if char in "{[":
            return self._json(at)
        if self._text.startswith("```", at):
            return self._fenced(at)
        return self._quote(at, char) if char in _CLOSERS else None

    def _quote(self, at: int, opening: str) -> Piece | None:
        text, closing = self._text, _CLOSERS[opening]
        if closing in self._hopeless or (at and text[at - 1].isalnum()):  # an apostrophe, as in don't
            return None
        end = text.find(closing, at + 1)
        while end >= 0 and closing in "'’" and text[end + 1 : end + 2].isalnum():
            end = text.find(closing, end + 1)
        if end < 0:
            self._hopeless.add(closing)
            return None
        return Piece("code" if opening == "`" else "quoted", text[at + 1 : end], at, end + 1)

    def _fenced(self, at: int) -> Piece | None:
        end = -1 if "```" in self._hopeless else self._text.find("```", at + 3)
        if end < 0:
            self._hopeless.add("```")
            return None
        inside = self._text[at + 3 : end]
        language, newline, rest = inside.partition("\n")
        return Piece("code", (rest if newline and " " not in language else inside).strip("\n"), at, end + 3)

    def _json(self, at: int) -> Piece | None:
        if self._json_left == 0:
            return None
        self._json_left -= 1
        try:
            _, end = json.JSONDecoder().raw_decode(self._text, at)
            return Piece("json", self._text[at:end], at, end, strict_json.parse(self._text[at:end]))
        except (ValueError, RecursionError, WireError):
            return None

    def _pair(self, at: int) -> Piece | None:
        found = _PAIR.match(self._text, at)
        if not found or found.end() >= len(self._text):
            return None
        start = found.end()
        literal = self._literal(start)
        if literal:
            value = literal.value if literal.kind == "json" else literal.text
            return Piece("pair", found[1], at, literal.end, value)
        bare = _BARE_VALUE.match(self._text, start)
        if not bare:
            return None
        shown = bare[0].rstrip(",?!.)") or bare[0]
        return Piece("pair", found[1], at, start + len(shown), shown)

    def _token(self, at: int) -> Piece:
        found = self._match_token(self._text, at)
        assert found is not None and found.lastgroup is not None, "a mark is any character"
        shown, kind = found[0], found.lastgroup
        if kind in ("url", "host", "path"):
            shown = _without_punctuation(shown)
            kind = "word" if shown.lower() in _NO_PATHS else kind
        return Piece(_KINDS[kind], shown, at, at + len(shown), _number(shown) if kind == "number" else None)


_KINDS: Final[dict[str, Kind]] = {
    "url": "url",
    "clock": "clock",
    "number": "number",
    "host": "host",
    "path": "path",
    "word": "word",
    "mark": "mark",
}


def _without_punctuation(shown: str) -> str:
    """What is left when the sentence's own punctuation is taken off the end; dots of `..` and `./` are the path's."""
    cut = shown.rstrip(",;:!?")
    if cut.endswith(")") and "(" not in cut:
        cut = cut[:-1]
    if cut.endswith(".") and cut.strip("./~"):
        cut = cut.rstrip(".")
    return cut or shown


def _number(shown: str) -> int | float | None:
    try:
        return float(shown) if "." in shown else int(shown)
    except ValueError:  # int() refuses more than 4,300 digits
        return None
