"""Reads server-sent events from a stream of bytes (WHATWG HTML, 9.2). Lines of JSON without `data:` count too."""

import re
from typing import Final, TypeAlias

from msgspec import UNSET

from handspan.core.errors import WireError
from handspan.models.json_values import parse_json

SseEvent: TypeAlias = tuple[str, str]
"""The event's name (empty where it has none) and its data."""

MAX_EVENT_BYTES: Final = 64 * 1024 * 1024

_LINE_END: Final = re.compile(rb"\r\n|\r|\n")
_BOM: Final = b"\xef\xbb\xbf"


class SseReader:
    """Reads one stream. It holds bytes, not text, because a character may be split between two chunks."""

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._limit = max_event_bytes
        self._line: list[bytes] = []
        """The pieces of the line that is not finished."""
        self._name = ""
        self._data: list[str] = []
        self._held = 0
        """The number of bytes in the unfinished line and event."""
        self._after_cr = False
        self._at_start = True

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Return the events that this chunk completes. Raises `WireError` for an event above the limit."""
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
        """Return the last event if only its blank line is missing. An event that was cut in its data is dropped."""
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
        """Take a whole line. An empty one ends the event."""
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
            return  # data stays in memory, so its bytes stay counted
        elif name == "event":
            self._name = value.removeprefix(" ")
        elif line.startswith("{") and _is_whole(line):  # some servers stream JSON lines
            self._dispatch(events)
            events.append(("", line))
        self._held = max(0, self._held - len(raw))

    def _dispatch(self, events: list[SseEvent]) -> None:
        if self._data:
            events.append((self._name, "\n".join(self._data)))
        self._name, self._held = "", 0
        self._data.clear()


def _is_whole(data: str) -> bool:
    """Return whether the data is complete: JSON that was cut off can't be decoded."""
    return data == "[DONE]" or parse_json(data) is not UNSET
