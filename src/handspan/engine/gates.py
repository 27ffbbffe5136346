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
    """Lets `capacity` calls run at once; the others wait in their order. `next_gate` comes after it."""

    __slots__ = ("__weakref__", "_next", "_waiting", "capacity", "inside", "what")

    def __init__(self, capacity: int, what: str, next_gate: "Gate | None" = None) -> None:
        self.capacity = capacity
        self.what = what
        self.inside = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._next = next_gate

    def try_enter(self) -> bool:
        """Enter if there is capacity and no call waits. Return whether it did."""
        if self.inside >= self.capacity or self._waiting or (self._next is not None and not self._next.try_enter()):
            return False
        self.inside += 1
        return True

    async def enter(self, patience: float | None) -> None:
        """Enter when it is this call's turn. Raises `ToolError` (`busy`) after `patience` seconds."""
        began = time.monotonic()
        if self.inside < self.capacity and not self._waiting:
            self.inside += 1
        else:
            await self._wait(patience)
        if self._next is not None:
            left = None if patience is None else max(0.0, patience - (time.monotonic() - began))
            try:
                await self._next.enter(left)
            except BaseException:
                self._pass_turn()
                raise

    def leave(self) -> None:
        """Leave; the next waiting call enters."""
        if self._next is not None:
            self._next.leave()
        if self._waiting and self.inside <= self.capacity:  # there may be too many inside since `resize`
            self._pass_turn()
        else:
            self.inside -= 1

    def resize(self, capacity: int) -> None:
        """Change how many calls run at once. With more of them, waiting calls enter at once."""
        self.capacity = capacity
        while self._waiting and self.inside < capacity:
            self.inside += 1
            self._pass_turn()

    async def _wait(self, patience: float | None) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            async with asyncio.timeout(patience):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self._pass_turn()  # the turn came at the same time: the next call gets it
            elif turn in self._waiting:  # `_leave` may have removed it already
                self._waiting.remove(turn)
            if isinstance(error, TimeoutError):
                message = (
                    f"{self.what} is busy: no turn within {round(patience or 0.0, 3):g} s ({self.capacity} at once). "
                    "Try again later."
                )
                raise ToolError("busy", message) from None
            raise

    def _pass_turn(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.inside -= 1


class Gates:
    """The gates of all origins. A serial tool has its own gate before that of its origin."""

    def __init__(self, capacities: Mapping[OriginKind, int] | None = None) -> None:
        self._capacities = capacities or {}
        self._by_origin: WeakValueDictionary[Origin, Gate] = WeakValueDictionary()

    def use(self, capacities: Mapping[OriginKind, int]) -> None:
        """Let so many calls run at once from now on. Calls that run go on, and waiting ones enter as others leave."""
        self._capacities = capacities
        for origin, gate in list(self._by_origin.items()):
            gate.resize(capacities.get(origin.kind, DEFAULT_CAPACITY))

    def gate(self, entry: Entry) -> Gate:
        """Return the gate that calls of this tool pass."""
        gate = self._origin_gate(entry.origin)
        if entry.spec.annotations.serial:
            gate = Gate(1, f"Tool {entry.spec.name!r}, which runs one call at a time,", next_gate=gate)
        return gate

    def is_busy(self) -> bool:
        """Whether any call is running."""
        # The watchdog's thread calls this: `valuerefs` is atomic, a loop over the dictionary is not.
        gates = (ref() for ref in self._by_origin.valuerefs())
        return any(gate is not None and gate.inside for gate in gates)

    def _origin_gate(self, origin: Origin) -> Gate:
        gate = self._by_origin.get(origin)
        if gate is None:
            capacity = self._capacities.get(origin.kind, DEFAULT_CAPACITY)
            gate = self._by_origin[origin] = Gate(capacity, str(origin))
        return gate
