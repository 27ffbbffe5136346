"""The signals that a serving process gets, and what each asks of it (SPEC G3)."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Final

_END_SECONDS: Final = 11.8
"""From the first signal to the end of the process, even if something hangs: the limit is 12 s. A node has more."""
_SAME_REQUEST_SECONDS: Final = 0.5
"""A second SIGTERM within this time is the same request to stop."""
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class Stopping:
    """Listens for SIGTERM and SIGINT: the first one sets `is_stopping`, the second one ends the process.

    A second SIGTERM that comes at once is the same request: `timeout` sends it to the process, and then to the whole
    group. A second Ctrl-C always counts.

    SIGHUP has two meanings. A person or a service manager asks for new settings with it; and the system sends it when
    the terminal of the process is closed, which is a request to end. `nohup` takes that second meaning away.
    """

    def __init__(self, on_reload: Callable[[], None] | None, leaving_seconds: float) -> None:
        """`leaving_seconds`: what a stop may take before it ends the gateway's own work."""
        self.is_stopping = asyncio.Event()
        self._longest = _END_SECONDS + leaving_seconds
        self._asked_at = 0.0
        self._on_reload = on_reload
        self._streams = _streams_at_terminal()
        """The standard streams that were at a terminal at the start."""
        is_heard = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
        self._had_terminal = is_heard and (_has_terminal() or bool(self._streams))

    def open(self) -> None:
        """Listen for signals until the process ends, so that a second one always counts."""
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._on_signal, number)
        if self._on_reload is not None:
            loop.add_signal_handler(signal.SIGHUP, self._on_hangup)

    def _on_hangup(self) -> None:
        """End if the terminal was closed; else ask for new settings."""
        is_closed = not _has_terminal() or self._streams != _streams_at_terminal()
        if self._had_terminal and is_closed:
            if not self.is_stopping.is_set():  # a shell sends it to its jobs a second time: that does not ask for haste
                self._on_signal(signal.SIGHUP)
        elif self._on_reload is not None:
            self._on_reload()

    def _on_signal(self, number: signal.Signals) -> None:
        """Ask for the stop at the first signal, end the process at the second."""
        now = time.monotonic()
        if self.is_stopping.is_set():
            if number != signal.SIGTERM or now - self._asked_at > _SAME_REQUEST_SECONDS:
                os._exit(1)
            return
        self.is_stopping.set()
        self._asked_at = now
        last = threading.Timer(self._longest, os._exit, (1,))  # a thread: the event loop may hang
        last.daemon = True
        last.start()


def _has_terminal() -> bool:
    """Whether the process has a terminal that controls it, and it is still open."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError:
        return False
    return True


def _streams_at_terminal() -> list[int]:
    """Return which of the standard streams are at a terminal that is open."""
    return [stream for stream in (0, 1, 2) if os.isatty(stream)]
