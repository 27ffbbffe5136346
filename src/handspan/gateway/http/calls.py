"""Calls that outlive the request that asked for them: a request that comes later finds them at work."""

import asyncio
from typing import Any, Protocol, TypeAlias

from handspan.core.questions import Question
from handspan.core.results import Pending, ToolResult
from handspan.core.values import Json

Outcome: TypeAlias = ToolResult | Pending


class CallListener(Protocol):
    """A client that hears of a call while it runs. Nothing here waits for it."""

    token: str
    """The hash of the token that the client came with."""
    is_over: bool

    def report(self, value: Json) -> None:
        """The tool reports."""
        ...

    def ask(self, question_id: str) -> None:
        """A person is asked."""
        ...

    def done(self) -> None:
        """The call is at work no more."""
        ...

    def end(self) -> None:
        """The client went away, or may listen no more."""
        ...


class RunningCall:
    """One call that runs now, and its listeners."""

    def __init__(self, call_id: str, owner: str) -> None:
        self.id = call_id
        self.owner = owner
        self.task: asyncio.Task[Outcome]
        self.questions: list[str] = []
        """What a person is asked for it."""
        self.asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when a person is asked for the first time."""
        self._listeners: list[CallListener] = []

    @property
    def listeners(self) -> list[CallListener]:
        """Those that still listen."""
        self._listeners = [listener for listener in self._listeners if not listener.is_over]
        return self._listeners

    def report(self, value: Json) -> None:
        """The tool reports."""
        for listener in self.listeners:
            listener.report(value)

    def ask(self, question: Question) -> None:
        """The call puts a question to a person."""
        self.questions.append(question.id)
        if not self.asked.done():
            self.asked.set_result(None)
        for listener in self.listeners:
            listener.ask(question.id)

    def watch(self, listener: CallListener) -> None:
        """Let this one hear what happens from now on, and its end."""
        for question in self.questions:
            listener.ask(question)
        self._listeners.append(listener)
        self.task.add_done_callback(lambda _: listener.done())


class RunningCalls:
    """The calls that run now, by id."""

    def __init__(self) -> None:
        self._calls: dict[str, RunningCall] = {}
        self.is_open = True
        """Not any more when the gateway stops: what runs may end, and nothing new begins (SPEC G3)."""

    def add(self, call: RunningCall) -> None:
        """Keep a call whose task has begun, until it ends."""
        self._calls[call.id] = call
        call.task.add_done_callback(lambda done: self._remove(call.id, done))

    def find(self, call_id: str) -> RunningCall | None:
        """The call of this id, while it runs."""
        return self._calls.get(call_id)

    def drop(self, token: str) -> None:
        """The token (its hash) was revoked: clients that came with it hear nothing more. The calls go on."""
        for call in self._calls.values():
            for listener in call.listeners:
                if listener.token == token:
                    listener.end()

    async def wait(self, seconds: float) -> None:
        """Let them end for so long."""
        if tasks := self._tasks():
            await asyncio.wait(tasks, timeout=seconds)

    async def close(self) -> None:
        """Stop them; the engine gives each its result."""
        tasks = self._tasks()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _tasks(self) -> list[asyncio.Task[Outcome]]:
        return [call.task for call in self._calls.values()]

    def _remove(self, call_id: str, done: "asyncio.Task[Outcome]") -> None:
        del self._calls[call_id]
        if not done.cancelled():
            done.exception()  # the engine raises nothing; should it all the same, no other code would look


async def wait_for_first(*waited: "asyncio.Future[Any]", seconds: float) -> None:
    """Wait until one of these is done, and not longer than that. None of them is stopped by it."""
    await asyncio.wait(waited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
