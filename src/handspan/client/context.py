"""What the code of a client's tool may know of the call that it runs for."""

import threading
from collections.abc import Callable
from typing import TypeAlias

from handspan.core.context import Progress
from handspan.core.deadlines import Deadline
from handspan.core.values import Arguments

Deadlines: TypeAlias = Callable[[], Deadline | None]


class CallContext:
    """One call, as its code sees it."""

    __slots__ = ("_deadline", "arguments", "call_id", "cancelled", "progress", "tool")

    def __init__(self, call_id: str, tool: str, arguments: Arguments, progress: Progress, deadline: Deadlines) -> None:
        self.call_id = call_id
        self.tool = tool
        """The tool's own name."""
        self.arguments = arguments
        self.progress = progress
        """Shows a value to whoever watches, and lets the call's time begin anew. From any thread; never blocks."""
        self.cancelled = threading.Event()
        """Set when nobody waits any more. Async code is cancelled besides; code on a thread has to look."""
        self._deadline = deadline

    @property
    def deadline(self) -> Deadline | None:
        """When the call will be given up, on this process's monotonic clock. Progress moves it."""
        return self._deadline()
