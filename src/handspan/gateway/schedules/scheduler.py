"""When schedules are due: sleeps until the next one that this node knows, claims what is due, and runs it (SPEC J1).

Nothing is asked of the store while nothing is due. An event tells of new schedules; where it may be lost, the regular
look of a node brings the next due time (`note_next`).
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Final

from handspan.config.schedule_settings import ScheduleSettings
from handspan.core.bus import Bus, ScheduleChanged
from handspan.core.errors import StoreError
from handspan.core.nodes import Nodes
from handspan.core.schedules import ClaimedRun
from handspan.core.store import Store
from handspan.core.tasks import Tasks, wait_for
from handspan.gateway.schedules.turns import ScheduledTurns

_MOST_AT_ONCE: Final = 100
"""Schedules of one claim: other nodes take the others."""
_LONGEST_SLEEP: Final = 30.0
"""Seconds after which the clock is read again: it may be set, and stands still for a computer that sleeps."""
_STEP_SECONDS: Final = 60.0
"""A clock that goes back by less was only corrected."""
_PAUSE: Final = 1.0
"""Seconds until the next try when the store is away."""
_log = logging.getLogger(__name__)


class Scheduler:
    """The schedules of all owners, as this node runs them."""

    def __init__(self, store: Store, turns: ScheduledTurns, nodes: Nodes, settings: ScheduleSettings) -> None:
        self._store = store
        self._book = store.schedules
        self._turns = turns
        self._nodes = nodes
        self._bus: Bus = nodes.bus
        self._settings = settings
        self._changed = asyncio.Event()
        self._next: float | None = None
        """When the next schedule is due, as far as this node knows."""
        self._was_set_back = False
        """Whether the clock was set back since the last claim."""
        self._waiting: asyncio.Task[None] | None = None
        self._running = Tasks()
        nodes.bus.subscribe(ScheduleChanged, lambda event: self.note_next(event.next))

    async def open(self, runs: Sequence[ClaimedRun] = ()) -> None:
        """Begin. `runs`: those that a lost process has left. Raises `StoreError`."""
        self.take_over(runs)
        self._next = await self._book.next_due()
        self._waiting = asyncio.create_task(self._run())

    def take_over(self, runs: Sequence[ClaimedRun]) -> None:
        """Go on with the runs of a lost process."""
        for one in runs:
            self._running.start(self._turns.run(one))

    def note_next(self, due: float | None) -> None:
        """Note when a schedule is due, which may be earlier than those that this node knows."""
        if due is not None and (self._next is None or due < self._next):
            self._next = due
            self._changed.set()

    async def stop(self) -> None:
        """Begin no more runs: the gateway stops."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)

    async def close(self) -> None:
        """Stop, after the last turn has ended. What waits goes on in the next process."""
        await self.stop()
        await self._running.close()
        await self._turns.close()

    async def _run(self) -> None:
        while True:
            await self._sleep()
            if self._nodes.is_draining:  # other nodes run what is due
                return
            try:
                await self._claim()
            except StoreError as error:
                _log.warning("What is due could not be claimed: %s", error)
                await asyncio.sleep(_PAUSE)
            except Exception:  # one schedule that can't be read stops no others for ever
                _log.exception("What is due could not be claimed")
                await asyncio.sleep(_PAUSE)

    async def _sleep(self) -> None:
        """Return when a schedule is due, or when the clock was set back."""
        while self._next is None or self._next > self._store.ledger.now():
            before, began = self._store.ledger.now(), time.monotonic()
            left = _LONGEST_SLEEP if self._next is None else self._next - before
            self._changed.clear()
            await wait_for(min(left, _LONGEST_SLEEP), self._changed)
            if self._store.ledger.now() - before < time.monotonic() - began - _STEP_SECONDS:
                self._was_set_back = True
                return

    async def _claim(self) -> None:
        """Claim what is due, and begin it."""
        known, self._next = self._next, None
        try:
            if self._was_set_back:
                self.note_next(await self._book.realign(self._settings.spread))
                self._was_set_back = False
            claim = await self._book.claim(_MOST_AT_ONCE, self._settings.spread)
        except BaseException:
            self.note_next(known)
            raise
        self.note_next(claim.next)  # beside what an event has told meanwhile
        for one in claim.runs:
            self._running.start(self._turns.run(one))
        for missed in claim.missed:
            _log.warning("The schedule %s did not run: %s", missed.schedule.id, missed.run.text)
            self._bus.publish(ScheduleChanged(missed.schedule.maker.owner, missed.schedule.id, None))
