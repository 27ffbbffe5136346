"""The words of a text as a search compares them: the same for what is stored and for what is searched.

Letters are small, without accents (`Café` is `cafe`). A script without spaces between words (Chinese, Japanese, Thai)
has a word for every two neighbouring characters, and one for the last character: so any part of its text can be found.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

_LONGEST: Final = 40
"""Characters of a word that count. PostgreSQL takes no word of more than 2046 bytes."""
_MOST_BYTES: Final = 400_000
"""Bytes of all words of one text. PostgreSQL takes 1 MiB of them."""
_MOST_SEARCHED: Final = 16
"""Words of a search that count: more make it slower, and hardly better."""

_SPACELESS: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
# Marks that are part of words, and characters without a shape: Python's \w has neither.
_MARKS: Final = (
    "\u00ad\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed"
    "\u0711\u0730-\u074a\u0900-\u0963\u0971-\u0dff\u0f71-\u0f84\u200c\u200d\u2060\ufeff"
)
_ASCII_WORD: Final = re.compile(r"[a-z0-9]+")
_WORD: Final = re.compile(rf"[{_SPACELESS}]+|(?:(?![{_SPACELESS}])(?:[^\W_]|[{_MARKS}]))+")
_IS_SPACELESS: Final = re.compile(f"[{_SPACELESS}]")
_LEFT_OUT: Final = re.compile("[\u00ad\u0300-\u036f\u200c\u200d\u2060\ufeff]|[\\x00-\\x2f\\x3a-\\x60\\x7b-\\x7f]")
_LIKE: Final = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "ð": "d", "æ": "ae", "œ": "oe", "þ": "th", "ı": "i"})


class MarkedPart(Struct, frozen=True):
    """A part of a text that was searched."""

    text: str
    is_found: bool


def words_of(text: str) -> list[str]:
    """Return the words of a text, each once. A very long text has more words than are returned."""
    if text.isascii():
        found = dict.fromkeys(word[:_LONGEST] for word in _ASCII_WORD.findall(text.lower()))
    else:
        found = dict.fromkeys(word for match in _WORD.finditer(text) for word in _fold(match[0], is_searched=False))
    words = list(found)
    if len(text) * 4 > _MOST_BYTES:
        words = _as_far_as_stored(words)
    return words


def searched_words(query: str) -> tuple[str, ...]:
    """Return the words of a search; none if the query has no letter and no digit."""
    found = (word for match in _WORD.finditer(query[:10_000]) for word in _fold(match[0], is_searched=True))
    return tuple(dict.fromkeys(found))[:_MOST_SEARCHED]


def is_beginning(word: str) -> bool:
    """Whether this word of a search finds longer words that begin with it. One letter of ASCII finds itself alone."""
    return len(word) > 1 or not word.isascii()


def find_excerpt(text: str, searched: Sequence[str], around: int = 60) -> list[MarkedPart]:
    """Return the text around the first of these words, on one line, in parts: the words are marked.

    Empty when the text has none of them.
    """
    marks = _find_marks(text, searched)
    first = next(marks, None)
    if first is None:
        return []
    begin, end = max(0, first[0] - around), min(len(text), first[1] + around)
    parts, place = ["…"] if begin else [""], begin
    for left, right in _join((first, *_until(marks, end))):
        parts[-1] += text[place:left]
        parts += [text[left : min(right, end)], ""]
        place = min(right, end)
    parts[-1] += text[place:end] + ("…" if end < len(text) else "")
    cut = (MarkedPart(re.sub(r"\s+", " ", part), bool(at % 2)) for at, part in enumerate(parts))
    return [part for part in cut if part.text]


def _fold(word: str, *, is_searched: bool) -> list[str]:
    """Return the words that stand for one run of letters. `is_searched`: for a search, not for a text."""
    if word.isascii():
        return [word.lower()[:_LONGEST]]
    folded = _fold_letters(word)
    if not _IS_SPACELESS.match(word):
        return [folded[:_LONGEST]] if folded else []
    pairs = [folded[at : at + 2] for at in range(len(folded) - 1)]
    return pairs if is_searched and pairs else [*pairs, *folded[-1:]]


def _fold_letters(word: str) -> str:
    """Return the small letters of a word, without accents."""
    small = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", word).casefold())
    return unicodedata.normalize("NFC", _LEFT_OUT.sub("", small).translate(_LIKE))


def _as_far_as_stored(words: list[str]) -> list[str]:
    """Return the first words that have `_MOST_BYTES` together."""
    size = 0
    for count, word in enumerate(words):
        size += len(word.encode()) + 1
        if size > _MOST_BYTES:
            return words[:count]
    return words


def _find_marks(text: str, searched: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each place that has one of these words."""
    for match in _WORD.finditer(text):
        begin, run = match.start(), match[0]
        if not _IS_SPACELESS.match(run):
            if any(_is_found(word, searched) for word in _fold(run, is_searched=False)):
                yield match.span()
            continue
        for at, pair in enumerate(_fold(run, is_searched=False)):
            if length := max((len(one) for one in searched if pair.startswith(one)), default=0):
                yield min(begin + at, match.end()), min(begin + at + length, match.end())


def _is_found(word: str, searched: Sequence[str]) -> bool:
    return any(word == one or (is_beginning(one) and word.startswith(one)) for one in searched)


def _until(marks: Iterator[tuple[int, int]], end: int) -> Iterator[tuple[int, int]]:
    """Yield the marks that begin before this place."""
    for mark in marks:
        if mark[0] >= end:
            return
        yield mark


def _join(marks: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the marks; those that touch are one."""
    begin, end = marks[0]
    for left, right in marks[1:]:
        if left > end:
            yield begin, end
            begin = left
        end = max(end, right)
    yield begin, end
