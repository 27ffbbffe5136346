"""Names the tool or the hook that blocks the event loop (SPEC T3).

While calls run, a thread asks the loop to run a callback. When the callback does not run in time, the code that runs
blocks the loop: the runner and the hooks note the name of theirs while it runs (`Reaper.working`).
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

BlockerKind: TypeAlias = Literal["Tool", "The hook"]
"""What blocks the loop, for the log."""

_log = logging.getLogger(__name__)


class Watchdog:
    """Watches one event loop from its own thread."""

    def __init__(
        self,
        is_busy: Callable[[], bool],
        find_working: Callable[[], tuple[BlockerKind, str] | None],
        seconds: float = 1.0,
    ) -> None:
        """`is_busy`: whether a call runs; `seconds`: how long the loop may be blocked before that is logged.

        `find_working`: returns the kind and the name of the code that runs on the loop now, if it is a tool or a hook.
        """
        self._is_busy = is_busy
        self._find_working = find_working
        self._seconds = seconds
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self.blocked: dict[str, int] = {}
        """How often each tool or hook has blocked the loop."""

    def open(self) -> None:
        """Begin to watch the running loop."""
        args = (asyncio.get_running_loop(),)
        self._thread = threading.Thread(target=self._watch, args=args, name="handspan-watchdog", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop watching."""
        self._closing.set()

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look on a thread whether the loop answers in time while code of a tool runs; report each block once."""
        while not self._closing.wait(self._seconds):
            if not self._is_busy():
                continue
            answered = threading.Event()
            try:
                loop.call_soon_threadsafe(answered.set)
            except RuntimeError:  # the loop is closed
                return
            if not answered.wait(self._seconds):
                self._report()
                while not answered.wait(self._seconds) and not self._closing.is_set() and not loop.is_closed():
                    pass  # report each block once; a loop that is closed never answers

    def _report(self) -> None:
        """Log which tool or hook blocks the loop, and count it."""
        found = self._find_working()
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


_REMEDIES: Final[dict[BlockerKind, str]] = {
    "Tool": "make it a plain function, or move it aside with @tool(thread=True)",
    "The hook": "make its methods plain functions, which run on threads",
}
