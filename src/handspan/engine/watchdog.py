"""Names the tool or the hook that blocks the event loop (SPEC T3).

While calls run, a thread asks the loop to run a callback. When the callback does not run in time, the thread reads the
name from the stack of the loop's thread: so a call does not have to note its name anywhere.
"""

import asyncio
import logging
import sys
import threading
from collections.abc import Callable
from typing import Final

from handspan.engine.hooks import NamedHook
from handspan.registry.entry import Entry

_log = logging.getLogger(__name__)


class Watchdog:
    """Watches one event loop from its own thread."""

    def __init__(self, is_busy: Callable[[], bool], seconds: float = 1.0) -> None:
        """`is_busy`: whether a call runs; `seconds`: how long the loop may be blocked before that is logged."""
        self._is_busy = is_busy
        self._seconds = seconds
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self.blocked: dict[str, int] = {}
        """How often each tool or hook has blocked the loop."""

    def open(self) -> None:
        """Begin to watch the running loop."""
        args = (asyncio.get_running_loop(), threading.get_ident())
        self._thread = threading.Thread(target=self._watch, args=args, name="handspan-watchdog", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop watching."""
        self._closing.set()

    def _watch(self, loop: asyncio.AbstractEventLoop, loop_thread: int) -> None:
        while not self._closing.wait(self._seconds):
            if not self._is_busy():
                continue
            answered = threading.Event()
            try:
                loop.call_soon_threadsafe(answered.set)
            except RuntimeError:  # the loop is closed
                return
            if not answered.wait(self._seconds):
                self._report(loop_thread)
                while not answered.wait(self._seconds) and not self._closing.is_set() and not loop.is_closed():
                    pass  # report each block once; a loop that is closed never answers

    def _report(self, loop_thread: int) -> None:
        found = _find_on_stack(loop_thread)
        if found is None:
            return
        kind, name = found
        _log.warning(
            "%s %r blocks the event loop for more than %g s, and everything waits: %s",
            kind,
            name,
            self._seconds,
            _REMEDIES[kind],
        )
        self.blocked[name] = self.blocked.get(name, 0) + 1


_REMEDIES: Final = {
    "Tool": "make it a plain function, or move it aside with @tool(thread=True)",
    "The hook": "make its methods plain functions, which run on threads",
}


def _find_on_stack(thread: int) -> tuple[str, str] | None:
    """Return the kind and the name of what blocks this thread. A hook is found before the tool that it checks.

    The search reads local variables of the frames: `named` in `hooks.py`, `entry` in `runner.py`.
    """
    frame = sys._current_frames().get(thread)
    while frame is not None:
        named, entry = frame.f_locals.get("named"), frame.f_locals.get("entry")
        if isinstance(named, NamedHook):
            return "The hook", named.name
        if isinstance(entry, Entry):
            return "Tool", entry.spec.name
        frame = frame.f_back
    return None
