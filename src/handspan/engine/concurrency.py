"""How many calls may run at once, in parallel: so many slots for each origin, one slot for a serial tool (SPEC E3).

The setting `tools.concurrency` has the numbers. A call takes a slot before its tool runs, and releases it afterwards.
"""

import asyncio
import time
from collections import deque
from collections.abc import Mapping
from typing import Final

from handspan.core.errors import ToolError
from handspan.core.principals import Origin, OriginKind, ToolScope
from handspan.core.values import round_seconds
from handspan.registry.entry import Entry

DEFAULT_CAPACITY = 64
_MANY: Final = 1000
"""From so many slots on, those without a call are forgotten."""


class Slots:
    """Lets `capacity` calls run at once; the others wait in their order."""

    __slots__ = ("_next", "_waiting", "capacity", "taken", "what")

    def __init__(self, capacity: int, what: str, next_slots: "Slots | None" = None) -> None:
        """`what`: whose slots they are, for messages. `next_slots`: each call takes a slot of these, too."""
        self.capacity = capacity
        self.what = what
        self.taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._next = next_slots

    @property
    def is_used(self) -> bool:
        """Whether a call has a slot or waits for one."""
        return self.taken > 0 or bool(self._waiting)

    def try_take(self) -> bool:
        """Take a slot if one is free and no call waits. Return whether a slot was taken."""
        if self.taken >= self.capacity or self._waiting or (self._next is not None and not self._next.try_take()):
            return False
        self.taken += 1
        return True

    async def take(self, seconds: float | None) -> None:
        """Wait for this call's turn, then take a slot. Raises `ToolError` (`busy`) after so many seconds."""
        began = time.monotonic()
        if self.taken < self.capacity and not self._waiting:
            self.taken += 1
        else:
            await self._wait(seconds)
        if self._next is not None:
            left = None if seconds is None else max(0.0, seconds - (time.monotonic() - began))
            try:
                await self._next.take(left)
            except BaseException:
                self._pass_turn()
                raise

    def release(self) -> None:
        """Give the slot back. The call that has waited longest takes it."""
        if self._next is not None:
            self._next.release()
        if self._waiting and self.taken <= self.capacity:  # after `resize`, more slots may be taken than there are
            self._pass_turn()
        else:
            self.taken -= 1

    def resize(self, capacity: int) -> None:
        """Change how many calls run at once. With more slots, waiting calls take them at once."""
        self.capacity = capacity
        while self._waiting and self.taken < capacity:
            self.taken += 1
            self._pass_turn()

    async def _wait(self, seconds: float | None) -> None:
        """Wait for a slot, in the order in which calls came. Raises `ToolError` (`busy`) when none is free in time."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            async with asyncio.timeout(seconds):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self._pass_turn()  # the turn came at the same time: the next call gets it
            elif turn in self._waiting:  # `_pass_turn` may have removed the turn already
                self._waiting.remove(turn)
            if isinstance(error, TimeoutError):
                message = (
                    f"{self.what} is busy: no turn within {round_seconds(seconds or 0.0)} ({self.capacity} at once). "
                    "Try again later."
                )
                raise ToolError("busy", message) from None
            raise

    def _pass_turn(self) -> None:
        """Pass a taken slot to the call that has waited longest. When no call waits, the slot becomes free."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.taken -= 1


class SlotsByOrigin:
    """The slots of every origin. A call of a serial tool takes the one slot of its tool, and then one of its origin."""

    def __init__(self, capacities: Mapping[OriginKind, int] | None = None) -> None:
        self._capacities = capacities or {}
        self._by_origin: dict[Origin, Slots] = {}
        self._of_serial: dict[tuple[Origin, ToolScope, str], Slots] = {}
        """The slot of each serial tool. A tool that is registered again finds its slot here while a call holds it."""

    def use(self, capacities: Mapping[OriginKind, int]) -> None:
        """Let so many calls run at once from now on. Calls that run go on, and waiting calls begin as others end."""
        self._capacities = capacities
        for origin, slots in self._by_origin.items():
            slots.resize(capacities.get(origin.kind, DEFAULT_CAPACITY))

    def of_tool(self, entry: Entry) -> Slots:
        """Return the slots that calls of this tool take."""
        if entry.spec.annotations.serial:
            return self._of_serial_tool(entry)
        return self._by_origin.get(entry.origin) or self._make(entry.origin)

    def is_busy(self) -> bool:
        """Whether any call is running."""
        # The watchdog's thread calls this: to make the list is atomic, a loop over the dictionary is not.
        return any(slots.taken for slots in list(self._by_origin.values()))

    def _of_serial_tool(self, entry: Entry) -> Slots:
        key = (entry.origin, entry.scope, entry.spec.name)
        slots = self._of_serial.get(key)
        if slots is None:
            of_origin = self._by_origin.get(entry.origin) or self._make(entry.origin)
            what = f"Tool {entry.spec.name!r}, which runs one call at a time,"
            slots = self._of_serial[key] = Slots(1, what, next_slots=of_origin)
        return slots

    def _make(self, origin: Origin) -> Slots:
        """Return new slots of this origin. If there are many, those without a call are forgotten."""
        if len(self._by_origin) + len(self._of_serial) >= _MANY:  # both at once: a serial tool has those of its origin
            self._of_serial = {key: slots for key, slots in self._of_serial.items() if slots.is_used}
            self._by_origin = {key: slots for key, slots in self._by_origin.items() if slots.is_used}
        capacity = self._capacities.get(origin.kind, DEFAULT_CAPACITY)
        slots = self._by_origin[origin] = Slots(capacity, str(origin))
        return slots
