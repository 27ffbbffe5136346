"""The progress of a command's long work: one line at the terminal that changes, and nothing elsewhere."""

import sys
import time
from typing import Final, Self

from handspan.cli.render import render_size

_PAUSE: Final = 0.1
"""Seconds between two changes of the line."""


class ProgressLine:
    """A line on standard error, if that is a terminal. It is gone when the block ends."""

    def __init__(self, what: str, total: int) -> None:
        """`total` is in bytes."""
        self._what = what
        self._total = total
        self._done = 0
        self._shown_at: float | None = None
        self._width = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._write("")

    def add(self, count: int) -> None:
        """Count these bytes as done, and show the line again."""
        self._done += count
        now = time.monotonic()
        if sys.stderr.isatty() and (self._shown_at is None or now - self._shown_at >= _PAUSE):
            self._shown_at = now
            part = min(1.0, self._done / self._total) if self._total else 1.0
            self._write(f"{self._what}: {part:.0%} of {render_size(self._total)}")

    def _write(self, text: str) -> None:
        """Write the text over the one before. Spaces clear the rest: every terminal has them."""
        if text or self._width:
            clear = " " * (self._width - len(text))
            sys.stderr.write(f"\r{text}{clear}" + ("" if text else "\r"))
            sys.stderr.flush()
        self._width = len(text)
