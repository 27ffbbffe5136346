"""What the code of a client's tool may know of the call that it runs for."""

import threading
from collections.abc import Callable
from typing import TypeAlias

from handspan.core.context import Deadline, Progress
from handspan.core.values import Arguments

Deadlines: TypeAlias = Callable[[], Deadline | None]


class CallContext:
    """One call, as its code sees it."""

    __slots__ = ("_cancelled", "_deadline", "_making", "arguments", "call_id", "progress", "tool")

    def __init__(self, call_id: str, tool: str, arguments: Arguments, progress: Progress, deadline: Deadlines) -> None:
        self.call_id = call_id
        self.tool = tool
        """The tool's own name."""
        self.arguments = arguments
        self.progress = progress
        """Shows a value to whoever watches, and lets the call's time begin anew. From any thread; never blocks."""
        self._deadline = deadline
        self._cancelled: threading.Event | None = None
        self._making = threading.Lock()

    @property
    def cancelled(self) -> threading.Event:
        """Set when nobody waits any more. Async code is cancelled besides; code on a thread has to look."""
        with self._making:  # by whoever asks first: most calls end before anybody does, and it is not cheap
            if self._cancelled is None:
                self._cancelled = threading.Event()
            return self._cancelled

    @property
    def deadline(self) -> Deadline | None:
        """When the call will be given up, on this process's monotonic clock. Progress moves it."""
        return self._deadline()
