"""What is left of a clause while its literals and words are taken, one after another, as arguments."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from handspan.models.offline_clause import Clause
from handspan.models.offline_text import Kind, Piece
from handspan.models.offline_tools import KnownTool, Slot
from handspan.models.offline_words import FILLER_STEMS, WEAK_STEMS, meanings, stem, word_set

INTO: Final = word_set("to in into onto from of at inside file folder directory named called by with nach aus")
_WITHIN: Final = word_set("in of from under inside aus von")
_LEADING: Final = word_set("please the a an me us following text words bitte : -- dir mir ,")
_COMMON_IN_NAMES: Final = frozenset(map(stem, word_set("id name text type value format old new")))
_NOUNS: Final = word_set("file folder directory dir datei ordner verzeichnis")
_NO_NAMES: Final = word_set("here there contents content list listing system")
_FILE_NAMES: Final = word_set("README LICENSE Makefile Dockerfile CHANGELOG")
_LAST_PLEASE: Final = r"(?i)[\s,]+(?:please|bitte)[.!]?$"


class Leftover:
    """Each piece of the clause is taken once."""

    def __init__(self, clause: Clause, tool: KnownTool) -> None:
        self._clause = clause
        self._own = tool.alike | set(tool.named) | set(clause.intent)
        self._taken: set[int] = set()
        self.takes_rest = False
        """Something got all the words to the end."""

    def free(self, *kinds: Kind) -> Iterator[tuple[int, Piece]]:
        """The pieces of these kinds that nobody took, with their places."""
        for place, piece in enumerate(self._clause.pieces):
            if piece.kind in kinds and place not in self._taken:
                yield place, piece

    def take(self, places: Iterable[int]) -> None:
        """Take the pieces at these places."""
        self._taken.update(places)

    def take_first(self, *kinds: Kind) -> str | None:
        """The text of the first piece of these kinds."""
        for place, piece in self.free(*kinds):
            self._taken.add(place)
            return piece.text
        return None

    def word_before(self, place: int) -> str:
        """The word just before this place."""
        return self._clause.words[place - 1] if place else ""

    def take_path_name(self, slot: Slot) -> str | None:
        """`the folder src`, `file README`, `read Makefile`, `the files in src`."""
        for place, word, following in self._pairs():
            if following.kind == "word":
                is_name = stem(following.text) not in FILLER_STEMS and following.text.lower() not in _NO_NAMES
                is_last = place + 2 == len(self._clause.pieces) and word in _WITHIN and slot.is_for_folders
                if ((word in _NOUNS or is_last) and is_name) or following.text in _FILE_NAMES:
                    self._taken.add(place + 1)
                    return following.text
        return None

    def take_after_name(self, slot: Slot) -> str | None:
        """`chat 42`, `encoding latin-1`: the parameter's own word and then a value."""
        for place, word, following in self._pairs():
            if word and stem(word) in slot.stems - _COMMON_IN_NAMES:
                is_word = following.kind == "word" and stem(following.text) not in FILLER_STEMS
                if is_word or following.kind in ("number", "quoted", "code", "path"):
                    self._taken.add(place + 1)
                    return following.text
        return None

    def _pairs(self) -> Iterator[tuple[int, str, Piece]]:
        """Each word with the free piece that follows it."""
        for place, word in enumerate(self._clause.words[:-1]):
            if place + 1 not in self._taken:
                yield place, word, self._clause.pieces[place + 1]

    def after_marker(self, markers: frozenset[str], *, is_query: bool = False) -> str:
        """The text after the first such word; empty without one."""
        for place, word in enumerate(self._clause.words[:-1]):
            if word in markers and place not in self._taken:
                return self._text_from(place + 1, is_query)
        return ""

    def after_lead(self, *, is_query: bool = False) -> str:
        """The text after the verb and the tool's own words, up to the place where it should go."""
        pieces, words = self._clause.pieces, self._clause.words
        start = 0
        while start < len(pieces) and not self._is_own(start) and stem(words[start]) in FILLER_STEMS | WEAK_STEMS:
            start += 1
        if start < len(pieces) and not self._is_own(start) and not is_query:
            start = 0
        while start < len(pieces) and (self._is_own(start) or pieces[start].text.lower() in _LEADING):
            start += 1
        return self._text_from(start, is_query)

    def _is_own(self, place: int) -> bool:
        """Whether the word there is the tool's, not the argument's."""
        word = self._clause.words[place]
        return bool(word) and not self._own.isdisjoint(meanings(stem(word)))

    def _without_tool_at_end(self, start: int, end: int) -> int:
        """Where a query ends that goes on with `in my contacts`, `on the web`."""
        first = end
        while first > start and (self._is_own(first - 1) or stem(self._clause.words[first - 1]) in FILLER_STEMS):
            first -= 1
        return first if any(self._is_own(place) for place in range(first, end)) and first > start else end

    def _text_from(self, start: int, is_query: bool) -> str:
        """The first text from this piece on that nobody took: `hello` of `hello to notes.txt`; takes it."""
        for first, last in self._gaps(start):
            end = self._without_tool_at_end(first, last) if is_query else last
            is_all = end == len(self._clause.pieces)
            self.takes_rest = self.takes_rest or is_all
            self._taken.update(range(first, end))
            return re.sub(_LAST_PLEASE, "", self._text(first, end)).strip()
        return ""

    def _gaps(self, start: int) -> Iterator[tuple[int, int]]:
        """The stretches between what was taken, without the prepositions that lead to it or away from it."""
        words, count = self._clause.words, len(self._clause.pieces)
        taken = sorted(place for place in self._taken if place >= start)
        begins, ends = [start, *(place + 1 for place in taken)], [*taken, count]
        for begin, end in zip(begins, ends, strict=True):
            first, last = begin, end
            while first < last and first > start and words[first] in INTO:
                first += 1
            while last > first and last < count and words[last - 1] in INTO | _LEADING:
                last -= 1
            if first < last:
                yield first, last

    def _text(self, first: int, end: int) -> str:
        pieces = self._clause.pieces
        return self._clause.text[pieces[first].start : self._clause.end if end == len(pieces) else pieces[end - 1].end]
