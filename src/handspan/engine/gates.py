"""How many calls may run at once: for each origin, and one by one for serial tools (SPEC E3)."""

import asyncio
import time
from collections import deque
from collections.abc import Mapping
from weakref import WeakValueDictionary

from handspan.core.errors import ToolError
from handspan.core.principals import Origin, OriginKind
from handspan.registry.entry import Entry

DEFAULT_CAPACITY = 64


class Gate:
    """Lets so many through at once; the others wait in the order they came. It may stand before another gate."""

    __slots__ = ("__weakref__", "_beyond", "_waiting", "capacity", "inside", "what")

    def __init__(self, capacity: int, what: str, beyond: "Gate | None" = None) -> None:
        self.capacity = capacity
        self.what = what
        self.inside = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._beyond = beyond

    def try_enter(self) -> bool:
        """Go in if there is room and nobody waits."""
        if self.inside >= self.capacity or self._waiting or (self._beyond is not None and not self._beyond.try_enter()):
            return False
        self.inside += 1
        return True

    async def enter(self, patience: float | None) -> None:
        """Go in when it is this one's turn; `busy` when that takes longer than the patience."""
        began = time.monotonic()
        if self.inside < self.capacity and not self._waiting:
            self.inside += 1
        else:
            await self._wait(patience)
        if self._beyond is not None:
            left = None if patience is None else max(0.0, patience - (time.monotonic() - began))
            try:
                await self._beyond.enter(left)
            except BaseException:
                self._leave()
                raise

    def leave(self) -> None:
        """Make room; the next one waiting goes in."""
        if self._beyond is not None:
            self._beyond.leave()
        if self._waiting:
            self._leave()
        else:
            self.inside -= 1

    async def _wait(self, patience: float | None) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            async with asyncio.timeout(patience):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self._leave()  # the turn came while we gave up: the next one gets it
            elif turn in self._waiting:  # whoever left meanwhile may have passed over it and thrown it away
                self._waiting.remove(turn)
            if isinstance(error, TimeoutError):
                message = (
                    f"{self.what} is busy: no turn within {patience:g} s ({self.capacity} at once). Try again later."
                )
                raise ToolError("busy", message) from None
            raise

    def _leave(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.inside -= 1


class Gates:
    """The gate of every origin, and before it the gate of each serial tool."""

    def __init__(self, capacities: Mapping[OriginKind, int] | None = None) -> None:
        self._capacities = capacities or {}
        self._of_origins: WeakValueDictionary[Origin, Gate] = WeakValueDictionary()

    def gate(self, entry: Entry) -> Gate:
        """The gate that calls of this tool go through."""
        gate = self._of_origin(entry.origin)
        if entry.spec.annotations.serial:
            gate = Gate(1, f"Tool {entry.spec.name!r}, which runs one call at a time,", beyond=gate)
        return gate

    def is_busy(self) -> bool:
        """Whether any call is running."""
        # Asked from the watchdog's thread: `valuerefs` is one step, iterating would meet changes half-way.
        gates = (ref() for ref in self._of_origins.valuerefs())
        return any(gate is not None and gate.inside for gate in gates)

    def _of_origin(self, origin: Origin) -> Gate:
        gate = self._of_origins.get(origin)
        if gate is None:
            capacity = self._capacities.get(origin.kind, DEFAULT_CAPACITY)
            gate = self._of_origins[origin] = Gate(capacity, str(origin))
        return gate
