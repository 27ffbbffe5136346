"""Finding text in something large: lines, or pieces of very long lines, with their places."""

import io
import re
from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import Struct

_MAX_MATCHES: Final = 100
_LONG_LINE: Final = 400
_AROUND: Final = 120
"""Characters shown on each side of a match in a long line."""
_STRIDE: Final = 64 * 1024
"""Characters searched at once: other threads get their turn in between."""


class Match(Struct, frozen=True):
    """A line that holds the query, or the surroundings of the query in a long line."""

    line: int
    """Counted from 1."""
    offset: int
    """The byte of the whole at which `text` begins."""
    text: str


class SearchMatches(Struct, frozen=True):
    """What a search gave."""

    matches: list[Match]
    more: int
    """How many further matches there are."""
    next_offset: int | None
    """Where to search on for them."""


def search(data: bytes, query: str, offset: int = 0, *, room: int) -> SearchMatches:
    """The first matches from `offset` on, as many as fit into `room` bytes, and how many more there are."""
    pattern = re.compile(re.escape(query), re.IGNORECASE)
    matches = _matches(data, pattern, len(query), offset)
    shown: list[Match] = []
    for match in matches:
        room -= _written_size(match)
        if len(shown) == _MAX_MATCHES or (shown and room < 0):
            return SearchMatches(shown, 1 + sum(1 for _ in matches), match.offset)
        shown.append(match)
    return SearchMatches(shown, 0, None)


def _written_size(match: Match) -> int:
    """Bytes that a match takes in an answer, its place included."""
    return len(msgspec.json.encode(match.text.encode("utf-8", "replace").decode())) + 64


def _matches(data: bytes, pattern: re.Pattern[str], length: int, offset: int) -> Iterator[Match]:
    lines = io.BytesIO(data)
    lines.seek(offset)
    at = offset
    for number, raw in enumerate(lines, data.count(b"\n", 0, offset) + 1):
        line = raw.decode("utf-8", "surrogateescape").rstrip("\r\n")
        if len(line) > _LONG_LINE:
            yield from _pieces(line, pattern, length, number, at)
        elif pattern.search(line):
            yield Match(number, at, line)
        at += len(raw)


def _pieces(line: str, pattern: re.Pattern[str], length: int, number: int, at: int) -> Iterator[Match]:
    """The surroundings of each match of a long line; matches that one piece shows already count once."""
    position = seen = counted = 0
    while position < len(line):
        hit = pattern.search(line, position, position + _STRIDE + length)
        if hit is None:
            position += _STRIDE
            continue
        begin, seen = max(hit.start() - _AROUND, seen), hit.end() + _AROUND
        at += len(line[counted:begin].encode("utf-8", "surrogateescape"))
        yield Match(number, at, line[begin:seen])
        position, counted = seen, begin
