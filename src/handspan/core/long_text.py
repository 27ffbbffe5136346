"""What a model sees of a text that is too long: head and tail, cut at lines, and how to read the rest (SPEC X3)."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from handspan.core.values import Json

_MARK_ROOM: Final = 640
"""Bytes of a shown text that are left for the mark between head and tail."""
_SHORT_MARK_ROOM: Final = 80
_LEAST_ROOM: Final = 64
_ENCODER: Final = msgspec.json.Encoder()


class LongText(Struct, frozen=True):
    """A text, and where all of it is stored. If not all of it is in memory: its beginning and its end."""

    head: str
    """The text from its beginning on, as far as it is in memory."""
    tail: str
    """The text up to its end, as far as it is in memory. If that is all of it, head and tail are the same text."""
    size: int
    """Bytes of the whole text."""
    lines: int
    artifact: str = ""
    """The id of the artifact with the text; empty when it is not stored."""
    stored: int = 0
    """Bytes of the text that the artifact has, from the first one on."""
    problem: str = ""
    """Why the text is not stored, or not all of it."""

    @property
    def is_whole(self) -> bool:
        """Whether `head` is the whole text, and no artifact was needed."""
        return not self.artifact and not self.problem and len(self.head.encode()) == self.size

    def render(self, room: int) -> str:
        """Return head, mark and tail. Their JSON form has at most `room` bytes, if `room` is at least 1 KB."""
        room = max(room - _MARK_ROOM, _LEAST_ROOM)
        tail = _cut_head_off(self.tail, room // 4)
        head = _cut_tail_off(self.head, room - room // 4)
        return f"{head}{'' if head.endswith(chr(10)) or not head else chr(10)}{self._mark(head, tail)}\n{tail}"

    def shorten(self, room: int) -> str:
        """Return head and tail as `render` does, with a short mark: for a text inside a value that is stored whole."""
        room = max(room - _SHORT_MARK_ROOM, _LEAST_ROOM)
        head, tail = _cut_tail_off(self.head, room - room // 4), _cut_head_off(self.tail, room // 4)
        left_out = self.size - len(head.encode()) - len(tail.encode())
        return f"{head}[… {left_out} of {self.size} bytes left out …]{tail}"

    def _mark(self, head: str, tail: str) -> str:
        begin = len(head.encode())
        left_out = self.size - begin - len(tail.encode())
        first, last = head.count("\n") + 1, self.lines - count_lines(tail)
        lines = f", lines {first} to {last} of {self.lines}" if head.endswith("\n") and first < last else ""
        return f"[… {left_out} of {self.size} bytes left out here{lines}. {self._how_to_read(begin)} …]"

    def _how_to_read(self, begin: int) -> str:
        """Return how to read on after the place `begin`, or why that is not possible."""
        if not self.artifact:
            return f"The whole could not be kept{f' ({self.problem})' if self.problem else ''}. Ask for smaller parts."
        read = (
            f"Call read_artifact with id {self.artifact!r} and offset {begin} to read on, or with query to search it."
        )
        if self.problem:
            return f"{self.problem} {read}"
        return f"The whole is kept. {read}"


KeepText: TypeAlias = Callable[[str, str], Awaitable[tuple[str, str]]]
"""(name, text) → the id of the artifact that has the text now, or "" and why it could not be kept."""


async def fit_texts(texts: Mapping[str, LongText], room: int, keep: KeepText) -> dict[str, str]:
    """Return the texts, cut so that together they have at most `room` bytes as JSON.

    Each may take an equal part of what the shorter texts leave.
    """
    shown: dict[str, str] = {}
    for place, (name, text) in enumerate(sorted(texts.items(), key=lambda item: item[1].size)):
        share = room // (len(texts) - place)
        if text.is_whole and json_size(text.head) <= share:
            shown[name] = text.head
        else:
            stored = whole_text(text.head, *await keep(name, text.head)) if text.is_whole else text
            shown[name] = stored.render(share)
        room -= json_size(shown[name])
    return shown


def whole_text(text: str, artifact: str = "", problem: str = "") -> LongText:
    """Return a `LongText` of a text that is wholly in memory."""
    size = len(text.encode())
    lines, stored = count_lines(text), size if artifact else 0
    return LongText(text, text, size, lines, artifact=artifact, stored=stored, problem=problem)


def count_lines(text: str) -> int:
    """Return the number of lines. A line break at the end begins no further line."""
    return text.count("\n") + (not text.endswith("\n")) if text else 0


def json_size(value: Json) -> int:
    """Return the bytes of the value's JSON form."""
    return len(_ENCODER.encode(value))


def _cut_tail_off(text: str, room: int) -> str:
    """Return the beginning that fits, up to the end of a line; of a very long line as much as fits."""
    text = text[:room]
    while (size := json_size(text)) > room:
        text = text[: len(text) * room // size]
    line_end = text.rfind("\n") + 1
    return text[:line_end] if line_end > len(text) // 2 else text


def _cut_head_off(text: str, room: int) -> str:
    """Return the end that fits, from the beginning of a line on; of a very long line as much as fits."""
    text = text[-room:]
    while (size := json_size(text)) > room:
        text = text[len(text) - len(text) * room // size :]
    line_begin = text.find("\n") + 1
    return text[line_begin:] if 0 < line_begin < len(text) // 2 else text
