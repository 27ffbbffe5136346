"""Pages of a text file: as many whole lines as a model can take, and a note that says how to read on (SPEC B)."""

from collections.abc import Iterator
from typing import Final

from handspan.core.context import Deadline
from handspan.core.errors import ToolError
from handspan.core.long_text import count_lines, json_size
from handspan.tools.decoding import FileEncoding, decode_chunks
from handspan.tools.paths import check_deadline, quote_path
from handspan.tools.workspace import OpenedFile

_LONGEST_LINE: Final = 16 * 1024 * 1024
"""The most characters of one line. A line that is too long for a model is returned whole: the engine stores it."""
_MAX_COUNTED: Final = 64 * 1024 * 1024
"""The most bytes of a file whose lines are counted for the note."""
_NOTE_ROOM: Final = 256
"""Bytes for the note."""


class PageReader:
    """Reads pages of one open file."""

    def __init__(
        self, file: OpenedFile, encoding: FileEncoding, path: str, room: int, deadline: Deadline | None = None
    ) -> None:
        """`room`: the most bytes of a page in JSON."""
        self._file = file
        self._encoding = encoding
        self._path = path
        self._room = room - _NOTE_ROOM
        self._deadline = deadline
        self._chunks = self._read_chunks()
        self._next_chunk = ""
        """A chunk that `_at_end` has read to see whether the file goes on."""

    def read(self, first: int, max_lines: int | None) -> str:
        """Return the lines from `first` on (1 is the first line). A page that is not the last page ends with a note."""
        page = self._fill(self._skip_lines(first), max_lines)
        end = len(page) if max_lines is None else _end_of_lines(page, max_lines)
        end = self._end_of_fitting(page[:end])
        if not end:
            page = self._read_line_to_its_end(page)
            end = _end_of_lines(page, 1)
        if end == len(page) and self._at_end():
            return page
        text = page[:end]
        last = first + count_lines(text) - 1
        return f"{text}{'' if text.endswith(chr(10)) else chr(10)}{self._note(first, last)}"

    def _read_chunks(self) -> Iterator[str]:
        for chunk in decode_chunks(self._file, self._encoding, self._path):
            check_deadline(self._deadline)
            if chunk:
                yield chunk

    def _skip_lines(self, first: int) -> str:
        """Return the text from the line `first` on, as far as its chunk goes.

        Raises `invalid_arguments` when the file has fewer lines.
        """
        skipped, chunk = 0, ""
        for chunk in self._chunks:
            breaks = chunk.count("\n")
            if skipped + breaks >= first - 1:
                rest = chunk.split("\n", first - 1 - skipped)[-1]
                if rest or first == 1 or not self._at_end():
                    return rest
            skipped += breaks
        if first == 1:
            return ""
        lines = skipped + (bool(chunk) and not chunk.endswith("\n"))
        text = f"offset {first} is behind the end of {quote_path(self._path)}, which has {lines} lines."
        raise ToolError("invalid_arguments", text)

    def _at_end(self) -> bool:
        """Whether the file has no more text."""
        if not self._next_chunk:
            self._next_chunk = next(self._chunks, "")
        return not self._next_chunk

    def _fill(self, page: str, max_lines: int | None) -> str:
        """Return the page with more chunks, until it has `max_lines` lines or more text than fits."""
        while len(page) <= self._room and (max_lines is None or page.count("\n") < max_lines) and not self._at_end():
            page, self._next_chunk = page + self._next_chunk, ""
        return page

    def _end_of_fitting(self, page: str) -> int:
        """Return where the last line ends that fits; 0 when not even the first line fits."""
        if json_size(page) <= self._room:
            return len(page)
        text = page[: self._room]
        while (size := json_size(text)) > self._room:
            text = text[: len(text) * self._room // size]
        return text.rfind("\n") + 1

    def _read_line_to_its_end(self, page: str) -> str:
        """Return the page with more chunks, until its first line is complete. Raises `file_too_large`."""
        while "\n" not in page and len(page) < _LONGEST_LINE and not self._at_end():
            page, self._next_chunk = page + self._next_chunk, ""
        if "\n" not in page and not self._at_end():
            raise ToolError(
                "file_too_large",
                f"A line of {quote_path(self._path)} has more than {_LONGEST_LINE} characters. "
                "search_files finds places in it, and exec_shell can cut it.",
            )
        return page

    def _note(self, first: int, last: int) -> str:
        size = self._file.size
        whole = f"a file of {size} bytes"
        if self._encoding.unit == 1 and size <= _MAX_COUNTED:
            breaks = sum(chunk.count(b"\n") for chunk in self._file.chunks())
            whole = str(breaks + (self._file.read(size - 1, 1) != b"\n"))
        return f"[Lines {first} to {last} of {whole}. Read on with offset={last + 1}.]"


def _end_of_lines(text: str, count: int) -> int:
    """Return where this many lines of the text end."""
    end = 0
    for _ in range(count):
        place = text.find("\n", end)
        if place < 0:
            return len(text)
        end = place + 1
    return end
