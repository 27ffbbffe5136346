"""The turns in which connections without a token are read on: so many a second, of all of them together.

A request costs its client far less than it costs the gateway. Without a bound, connections that show no token, or send
without waiting for answers, would keep the event loop busy all the time: good calls wait for the loop then, and the
thread that writes the database waits for the interpreter (SPEC S7).
"""

import asyncio
from typing import Protocol

from uvicorn.protocols.http.flow_control import FlowControl


class WaitingConnection(Protocol):
    """A connection that reads nothing until it has its turn."""

    def read_on(self) -> None:
        """Read on: the connection has its turn."""


class ReadingTurns:
    """Gives connections their turns in the order in which they began to wait."""

    def __init__(self, per_second: int, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """`per_second`: turns a second; after a quiet second, as many are free at once."""
        self._loop = loop or asyncio.get_running_loop()
        self._per_second = per_second
        self._free = float(per_second)
        """Turns that could be taken at once, when they were counted last."""
        self._counted_at = self._loop.time()
        self._waiting: dict[WaitingConnection, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def take(self) -> bool:
        """Take a turn at once, if one is free and no connection waits. Return whether that was so."""
        if self._waiting:
            return False
        now = self._loop.time()
        self._free = min(self._free + (now - self._counted_at) * self._per_second, self._per_second)
        self._counted_at = now
        if self._free < 1:
            return False
        self._free -= 1
        return True

    def wait(self, connection: WaitingConnection) -> None:
        """Call `read_on` of the connection when it has its turn; never before this returns."""
        if self.take():
            self._loop.call_soon(connection.read_on)
        else:
            self._waiting[connection] = None
            self._set_timer()

    def remove(self, connection: WaitingConnection) -> None:
        """Note that this connection is gone."""
        self._waiting.pop(connection, None)

    def _set_timer(self) -> None:
        if self._waiting and self._timer is None:
            self._timer = self._loop.call_later(1 / self._per_second, self._give_turn)

    def _give_turn(self) -> None:
        """Give one turn, also when the loop is late: turns that it had no time for must not come all at once."""
        self._timer = None
        self._counted_at = self._loop.time()
        connection = next(iter(self._waiting), None)
        if connection is not None:
            del self._waiting[connection]
            connection.read_on()
        self._set_timer()


class ReadingFlow(FlowControl):
    """uvicorn's flow control, which can also be held. A request can't resume reading while it is held."""

    _is_held = False

    def hold(self) -> None:
        """Read nothing until `release`."""
        self._is_held = True
        self.pause_reading()

    def release(self) -> None:
        """Read on."""
        self._is_held = False
        self.resume_reading()

    def resume_reading(self) -> None:
        """Read on, unless it is held."""
        if not self._is_held:
            super().resume_reading()
