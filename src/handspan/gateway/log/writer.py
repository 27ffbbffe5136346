"""The thread that writes the log: no request waits for a slow terminal, a full pipe or a disk."""

import contextlib
import logging
import os
import queue
import threading
import time
from collections.abc import Callable
from typing import Final

_KEPT: Final = 10_000
"""Records that may wait to be written; further ones are counted."""
_TOGETHER: Final = 500
"""The most records that are written at once."""
_LAST_SECONDS: Final = 2.0
_MOST_OF_A_KIND: Final = 20
"""Lines of one kind in a second; further ones are counted. A flood must not fill a disk."""
_MANY_KINDS: Final = 1000
"""Kinds that are counted apart in a second; further ones count together, for each logger."""


class LogWriter(logging.Handler):
    """A handler that hands records to its thread. Its caller never waits, whatever the disk does."""

    def __init__(
        self, formatter: logging.Formatter, write: Callable[[bytes], None], most_of_a_kind: int | None = _MOST_OF_A_KIND
    ):
        """`most_of_a_kind`: how many lines of one kind are written in a second; None: all."""
        super().__init__()
        self.setFormatter(formatter)
        self._write = write
        self._most_of_a_kind = most_of_a_kind
        self._queue: queue.Queue[logging.LogRecord | None] = queue.Queue(_KEPT)
        self._dropped = 0
        self._second = 0
        self._counts: dict[tuple[str, object], int] = {}
        self._thread = threading.Thread(target=self._run, name="handspan-log", daemon=True)

    def open(self) -> None:
        """Begin to write."""
        self._thread.start()

    def close(self) -> None:
        """Write what waits, for two seconds at most: the reader of a pipe may be gone, or stopped."""
        with contextlib.suppress(queue.Full):
            self._queue.put_nowait(None)
        self._thread.join(_LAST_SECONDS)
        super().close()

    def emit(self, record: logging.LogRecord) -> None:
        """Take a record. Never waits; `Handler.handle` calls this under its lock."""
        if not self._may_pass(record):
            return
        # Formatted now: the arguments may change before the record is written.
        record.msg, record.args = record.getMessage(), None
        self._put(record)

    def _put(self, record: logging.LogRecord) -> None:
        try:
            self._queue.put_nowait(record)
        except queue.Full:
            self._dropped += 1

    def _may_pass(self, record: logging.LogRecord) -> bool:
        """Count the record, and return whether it is written: too many of a kind in a second are left out.

        A kind is a logger and a text before formatting.
        """
        if self._most_of_a_kind is None:
            return True
        second = int(time.monotonic())
        if second != self._second:
            self._begin_second(second)
        kind = (record.name, record.msg if len(self._counts) < _MANY_KINDS else "")
        count = self._counts[kind] = self._counts.get(kind, 0) + 1
        return count <= self._most_of_a_kind

    def _begin_second(self, second: int) -> None:
        """Count from zero again, and tell how many lines of the second before were left out."""
        self._second = second
        counts, self._counts = self._counts, {}
        for (name, text), count in counts.items():
            if count > (self._most_of_a_kind or 0):
                more = f"{count - (self._most_of_a_kind or 0)} more lines like this one were left out: {text}"
                self._put(logging.LogRecord(name, logging.WARNING, "", 0, more, None, None))

    # In the thread.

    def _run(self) -> None:
        """Write records until None comes, as many together as wait."""
        while (record := self._queue.get()) is not None:
            lines = [self._line(record)]
            while len(lines) < _TOGETHER and not self._queue.empty():
                record = self._queue.get()
                if record is None:
                    self._write_lines(lines)
                    return
                lines.append(self._line(record))
            self._write_lines(lines)

    def _line(self, record: logging.LogRecord) -> str:
        try:
            return self.format(record)
        except Exception as error:  # what a record shows may be code that is not ours
            return f"A line of {record.name} can't be written: {type(error).__name__}"

    def _write_lines(self, lines: list[str]) -> None:
        if dropped := self._dropped:
            self._dropped -= dropped
            text = f"{dropped} lines were not written: they came faster than they could be"
            lines.append(self._line(logging.LogRecord(__name__, logging.WARNING, "", 0, text, None, None)))
        self._write("".join(f"{line}\n" for line in lines).encode(errors="replace"))


def write_to_stderr(data: bytes) -> None:
    """Write to standard error. One that is closed is no reason to stop serving."""
    with contextlib.suppress(OSError):
        while data:
            data = data[os.write(2, data) :]
