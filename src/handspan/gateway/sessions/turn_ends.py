"""A listener that waits for the end of a turn which may wait for a person meanwhile."""

import asyncio

from handspan.agent.turn_events import SessionEvent
from handspan.core.events import Ended


class TurnEnds:
    """A listener that waits for the end of one turn."""

    def __init__(self) -> None:
        self._ends: dict[str, asyncio.Future[Ended]] = {}

    def __call__(self, event: SessionEvent, turn: str) -> None:
        """Note the end of a turn that does not wait any more."""
        if isinstance(event, Ended) and event.reason != "pending" and not self._of(turn).done():
            self._of(turn).set_result(event)

    async def wait(self, turn: str) -> Ended:
        """Return the end of this turn."""
        return await self._of(turn)

    def _of(self, turn: str) -> "asyncio.Future[Ended]":
        return self._ends.setdefault(turn, asyncio.get_running_loop().create_future())
