"""Starts of calls that only read, kept back for a moment: most such calls end first, and are then written once."""

import asyncio
from collections.abc import Callable
from typing import Final

from handspan.core.calls import CallRecord

_SECONDS: Final = 0.02
"""How long a start is kept back. A process that dies loses the start; no client has heard of that call."""


class LateStarts:
    """Keeps starts back. Writes those that were not dropped when the time is over."""

    def __init__(self, write: Callable[[CallRecord], None]) -> None:
        self._write = write
        self._starts: dict[str, CallRecord] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __contains__(self, call_id: str) -> bool:
        return call_id in self._starts

    def add(self, record: CallRecord) -> None:
        """Keep the start of this call back."""
        self._starts[record.id] = record
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_SECONDS, self.write_all)

    def drop(self, call_id: str) -> None:
        """Forget the start of a call that has its result: one write stores both."""
        self._starts.pop(call_id, None)

    def write(self, call_id: str) -> None:
        """Write this start now, if it is kept back."""
        if call_id in self._starts:
            self._write(self._starts.pop(call_id))

    def write_all(self) -> None:
        """Write all starts that are kept back."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for call_id in [*self._starts]:
            self.write(call_id)
