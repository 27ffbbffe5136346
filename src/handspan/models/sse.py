"""Server-sent events out of bytes that arrive in any pieces (WHATWG HTML, 9.2); lines of bare JSON are taken too."""

import re
from typing import Final, TypeAlias

import msgspec

from handspan.core.errors import WireError

SseEvent: TypeAlias = tuple[str, str]
"""The event's name (empty where it has none) and its data."""

MAX_EVENT_BYTES: Final = 64 * 1024 * 1024

_LINE_END: Final = re.compile(rb"\r\n|\r|\n")
_BOM: Final = b"\xef\xbb\xbf"


class SseReader:
    """Reads one stream. Keeps bytes, not text, so that a character may be split between two pieces."""

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._limit = max_event_bytes
        self._line: list[bytes] = []
        """The pieces of a line whose end has not arrived."""
        self._name = ""
        self._data: list[str] = []
        self._held = 0
        """Bytes of the line and the event that are not finished."""
        self._after_cr = False
        self._at_start = True

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """The events that this piece completes; `WireError` for one that is longer than any model's."""
        if self._after_cr and chunk.startswith(b"\n"):  # the other half of a CRLF
            chunk, self._after_cr = chunk[1:], False
        if not chunk:
            return []
        self._after_cr = chunk.endswith(b"\r")
        first, *others = _LINE_END.split(chunk)
        events: list[SseEvent] = []
        self._hold(first)
        for piece in others:
            self._end_line(events)
            self._hold(piece)
        return events

    def close(self) -> list[SseEvent]:
        """The event that only lacked its blank line. One that was cut in the middle of its data is dropped."""
        events: list[SseEvent] = []
        self._end_line(events)
        if self._data and _is_whole("\n".join(self._data)):
            self._dispatch(events)
        return events

    def _hold(self, piece: bytes) -> None:
        if piece:
            self._line.append(piece)
            self._held += len(piece)
            if self._held > self._limit:
                raise WireError(f"An event of the stream is longer than {self._limit} bytes.")

    def _end_line(self, events: list[SseEvent]) -> None:
        raw = b"".join(self._line)
        self._line.clear()
        if self._at_start:
            raw, self._at_start = raw.removeprefix(_BOM), False
        line = raw.decode("utf-8", "replace")
        name, _, value = line.partition(":")
        if not line:
            self._dispatch(events)
        elif name == "data":
            self._data.append(value.removeprefix(" "))
            return  # the only line that is kept, and so counted on
        elif name == "event":
            self._name = value.removeprefix(" ")
        elif line.startswith("{") and _is_whole(line):  # JSON on a line by itself: some servers stream so
            self._dispatch(events)
            events.append(("", line))
        self._held = max(0, self._held - len(raw))

    def _dispatch(self, events: list[SseEvent]) -> None:
        if self._data:
            events.append((self._name, "\n".join(self._data)))
        self._name, self._held = "", 0
        self._data.clear()


def _is_whole(data: str) -> bool:
    """Whether this can be all that was to come: what is cut off is no JSON any more."""
    if data == "[DONE]":
        return True
    try:
        msgspec.json.decode(data)
    except (ValueError, RecursionError):
        return False
    return True
