"""How far a long work is, on one line of a terminal; nothing where standard error is no terminal."""

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Final, Self

_EVERY: Final = 0.5
_CLEAR: Final = "\r\x1b[K"


class Steps:
    """Steps of a work: `with Steps(3) as steps:` and then, for each, `with steps.step("name"):`."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._done = 0
        self._name = ""
        self._began = self._step_began = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._show, daemon=True)

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
            sys.stderr.write(_CLEAR)

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Show that this step is at work."""
        self._name, self._step_began = name, time.monotonic()
        try:
            yield
        finally:
            self._done += 1

    def clear(self) -> None:
        """Make room for lines that others print."""
        if self._thread.is_alive():
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()

    def line(self) -> str:
        """What the terminal shows."""
        now = time.monotonic()
        at = min(self._done + 1, self._count)
        return f"[{at}/{self._count}] {self._name} {now - self._step_began:.0f} s, {now - self._began:.0f} s in all"

    def _show(self) -> None:
        while not self._over.wait(_EVERY):
            sys.stderr.write(f"{_CLEAR}{self.line()}")
            sys.stderr.flush()
