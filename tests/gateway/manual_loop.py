"""A loop whose time stands still, for `ReadingTurns`: a test gives the turns that the clock would give."""

import asyncio
from collections.abc import Callable
from typing import cast


class ManualLoop:
    """The part of an event loop that `ReadingTurns` uses."""

    def __init__(self) -> None:
        self.now = 0.0
        self.delays: list[float] = []
        """The seconds of every timer that was set."""
        self._timer: Callable[[], object] | None = None
        self._soon: list[Callable[[], object]] = []

    @property
    def as_loop(self) -> asyncio.AbstractEventLoop:
        """The same as the type that is wanted."""
        return cast(asyncio.AbstractEventLoop, self)

    def time(self) -> float:
        return self.now

    def call_soon(self, callback: Callable[[], object]) -> None:
        """In a test with a real loop that is a turn later; without one, in `run_soon`."""
        try:
            asyncio.get_running_loop().call_soon(callback)
        except RuntimeError:
            self._soon.append(callback)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> object:
        assert self._timer is None, "one timer is enough for all connections"
        self.delays.append(seconds)
        self._timer = callback
        return self

    @property
    def has_timer(self) -> bool:
        return self._timer is not None

    def run_soon(self) -> None:
        """Run what was to be called soon."""
        soon, self._soon = self._soon, []
        for callback in soon:
            callback()

    def fire(self) -> None:
        """Let the timer's time come."""
        timer, self._timer = self._timer, None
        assert timer is not None, "nothing waits"
        timer()
