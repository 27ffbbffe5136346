"""The calls of a door that run now. Some outlive their request: a later request finds them while they run."""

import asyncio
from collections.abc import Awaitable
from typing import Any, Protocol, TypeAlias

from handspan.core.questions import Question
from handspan.core.results import Pending, ToolResult
from handspan.core.values import Json, strip_all

Outcome: TypeAlias = ToolResult | Pending


class CallListener(Protocol):
    """A client that listens to a running call. Its methods never block."""

    token: str
    """The hash of the client's access token."""
    is_over: bool

    def report(self, value: Json) -> None:
        """Take the tool's progress."""

    def ask(self, question: Question) -> None:
        """Note that a person is asked."""

    def on_done(self) -> None:
        """Note that the call is over."""

    def end(self) -> None:
        """Stop: the client left, or its token was revoked."""


class RunningCall:
    """One call that runs now, and its listeners."""

    def __init__(self, call_id: str, owner: str) -> None:
        self.id = call_id
        self.owner = owner
        self.task: asyncio.Task[Outcome]
        self.questions: list[Question] = []
        """Its questions to a person."""
        self.first_question: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the first question is open."""
        self._listeners: list[CallListener] = []

    @property
    def listeners(self) -> list[CallListener]:
        """The listeners that are not over."""
        self._listeners = [listener for listener in self._listeners if not listener.is_over]
        return self._listeners

    def report(self, value: Json) -> None:
        """Pass the tool's progress to the listeners, without invisible characters (SPEC S4)."""
        listeners = self.listeners
        shown = strip_all(value) if listeners else value
        for listener in listeners:
            listener.report(shown)

    def ask(self, question: Question) -> None:
        """Tell the listeners that the call asks a person."""
        self.questions.append(question)
        if not self.first_question.done():
            self.first_question.set_result(None)
        for listener in self.listeners:
            listener.ask(question)

    def watch(self, listener: CallListener) -> None:
        """Add a listener. It also gets the questions that were asked before."""
        for question in self.questions:
            listener.ask(question)
        self._listeners.append(listener)
        self.task.add_done_callback(lambda _: listener.on_done())


class RunningCalls:
    """The calls of one door that run now, each in a task of its own or in that of its request."""

    def __init__(self) -> None:
        self._calls: dict[str, RunningCall] = {}
        """The calls that outlive their request, by id."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self.is_open = True
        """False when the gateway stops: running calls may end, and no new one begins (SPEC G3)."""
        self._is_closing = False

    def __len__(self) -> int:
        return len(self._tasks)

    def add(self, call: RunningCall) -> None:
        """Hold a call whose task has begun, until it ends."""
        self._calls[call.id] = call
        self._tasks.add(call.task)
        call.task.add_done_callback(lambda done: self._remove(call.id, done))

    async def run(self, call: Awaitable[Outcome]) -> Outcome:
        """Run a call in the task of its request, as another task would cost time. Return its outcome.

        It is `Pending` when `close` has ended the wait for the call.
        """
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            return await call
        except asyncio.CancelledError:
            if not self._is_closing:  # the client has left
                raise
            task.uncancel()
            return Pending()
        finally:
            self._tasks.discard(task)

    def find(self, call_id: str) -> RunningCall | None:
        """Return the call of this id while it runs."""
        return self._calls.get(call_id)

    def drop(self, token: str) -> None:
        """End the listeners of a revoked token (its hash). The calls go on."""
        for call in self._calls.values():
            for listener in call.listeners:
                if listener.token == token:
                    listener.end()

    async def wait(self, seconds: float) -> None:
        """Wait at most so long for the calls to end."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)

    def is_closing(self) -> bool:
        """Whether `close` cancels the calls: those that can wait stay open for the next process."""
        return self._is_closing

    async def close(self) -> None:
        """Cancel the calls; the engine gives each its result, or leaves it open if it can wait without this process."""
        self._is_closing = True
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _remove(self, call_id: str, done: "asyncio.Task[Outcome]") -> None:
        del self._calls[call_id]
        self._tasks.discard(done)
        if not done.cancelled():
            done.exception()  # mark it as read: the engine raises nothing, and no other code looks at it


async def wait_for_first(*waited: "asyncio.Future[Any]", seconds: float) -> None:
    """Wait until one of these is done, at most so many seconds. None of them is cancelled."""
    await asyncio.wait(waited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
