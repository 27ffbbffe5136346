"""What the code of a client's tool can read of its call, and tell the gateway."""

import threading
from collections.abc import Callable
from typing import TypeAlias

from handspan.core.context import Deadline, Progress
from handspan.core.values import Arguments

ReadDeadline: TypeAlias = Callable[[], Deadline | None]


class CallContext:
    """One call, for the code that runs it."""

    __slots__ = ("_cancelled", "_lock", "_read_deadline", "arguments", "call_id", "progress", "tool")

    def __init__(
        self, call_id: str, tool: str, arguments: Arguments, progress: Progress, deadline: ReadDeadline
    ) -> None:
        self.call_id = call_id
        self.tool = tool
        """The tool's own name, without the label of the device."""
        self.arguments = arguments
        self.progress = progress
        """Reports a value to the listeners of the call and restarts its timeout. From any thread; never blocks."""
        self._read_deadline = deadline
        self._cancelled: threading.Event | None = None
        self._lock = threading.Lock()

    @property
    def cancelled(self) -> threading.Event:
        """Set when the call was cancelled. Async code is also cancelled as a task; code on a thread has to check."""
        with self._lock:  # made on first use: it is not cheap, and most calls end without it
            if self._cancelled is None:
                self._cancelled = threading.Event()
            return self._cancelled

    @property
    def deadline(self) -> Deadline | None:
        """When the call times out, on this process's monotonic clock. Progress moves it."""
        return self._read_deadline()
