"""A queue of steps that run in their order: at once where that is possible, else in a task."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Generic, TypeVar

_S = TypeVar("_S")
_K = TypeVar("_K")


class StepQueue(Generic[_S]):
    """Runs steps in order. A step that needs no waiting runs when it is added; `serve` runs the others."""

    def __init__(self, do_now: Callable[[_S], bool], do_slowly: Callable[[_S], Awaitable[None]]) -> None:
        """`do_now` does a step. It returns False, and does nothing, when the step has to wait: then `do_slowly` does.

        Steps may add others at the end.
        """
        self._do_now = do_now
        self._do_slowly = do_slowly
        self._steps: deque[_S] = deque()
        self._is_working = False
        """The queue is being worked off: a step that is added now runs when it is next."""
        self._has_slow_step = asyncio.Event()
        """Set when the next step has to wait for something."""
        self._failure: Exception | None = None

    def __len__(self) -> int:
        return len(self._steps)

    def __iter__(self) -> Iterator[_S]:
        return iter(tuple(self._steps))

    def add(self, steps: Iterable[_S]) -> None:
        """Add these steps, and do those that need no waiting."""
        self._steps.extend(steps)
        if not self._is_working:
            self._work()

    def add_later(self, steps: Iterable[_S]) -> None:
        """Add steps that `serve` runs, not this call: so the caller can see by `len` how many wait."""
        self._steps.extend(steps)
        if self._steps and not self._is_working:
            self._is_working = True
            self._has_slow_step.set()

    def remove(self, kind: type[_K]) -> list[_K]:
        """Remove and return the steps of this kind."""
        removed = [step for step in self._steps if isinstance(step, kind)]
        self._steps = deque(step for step in self._steps if not isinstance(step, kind))
        return removed

    def stop(self) -> None:
        """Run no more steps: the caller does what is left."""
        self._is_working = True

    async def serve(self) -> None:
        """Do the steps from one that has to wait on, whenever there is one. Raises the error of a step."""
        while True:
            await self._has_slow_step.wait()
            self._has_slow_step.clear()
            if self._failure is not None:
                raise self._failure
            while self._steps:
                step = self._steps.popleft()
                if not self._do_now(step):
                    await self._do_slowly(step)
            self._is_working = False

    def _work(self) -> None:
        """Do the steps that need no waiting, up to the first that does."""
        self._is_working = True
        try:
            while self._steps:
                step = self._steps.popleft()
                if not self._do_now(step):
                    self._steps.appendleft(step)
                    self._has_slow_step.set()
                    return
        except Exception as error:  # the caller that added the step can't help it: the error ends `serve`
            self._failure = error
            self._has_slow_step.set()
            return
        self._is_working = False
