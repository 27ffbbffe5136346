"""Calls that outlive the request that asked for them: whoever asks again finds them at work."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from handspan.core.questions import Question
from handspan.core.results import Pending, ToolResult
from handspan.core.values import Json
from handspan.gateway.rest.call_events import CallAsks, CallReported, CallStream

Outcome: TypeAlias = ToolResult | Pending


class RunningCall:
    """One call that runs now, and who hears of it."""

    def __init__(self, call_id: str, owner: str) -> None:
        self.id = call_id
        self.owner = owner
        self.task: asyncio.Task[Outcome]
        self.questions: list[str] = []
        """What a person is asked for it."""
        self.asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when a person is asked for the first time."""
        self._streams: set[CallStream] = set()

    @property
    def streams(self) -> list[CallStream]:
        """Those that somebody still listens to."""
        self._streams = {stream for stream in self._streams if not stream.is_over}
        return list(self._streams)

    def report(self, value: Json) -> None:
        """The tool reports."""
        for stream in self.streams:
            stream.put(CallReported(value))

    def ask(self, question: Question) -> None:
        """The call puts a question to a person."""
        self.questions.append(question.id)
        if not self.asked.done():
            self.asked.set_result(None)
        for stream in self.streams:
            stream.put(CallAsks(question.id))

    def watch(self, stream: CallStream) -> None:
        """Let this one hear what happens from now on, and its end."""
        for question in self.questions:
            stream.put(CallAsks(question))
        self._streams.add(stream)
        self.task.add_done_callback(lambda _: stream.done())


class CallsAtWork:
    """The calls of REST that run now, by id."""

    def __init__(self) -> None:
        self._calls: dict[str, RunningCall] = {}
        self.is_open = True
        """Not any more when the gateway stops: what runs may end, and nothing new begins (SPEC G3)."""

    def begin(
        self, call_id: str, owner: str, work: Callable[[RunningCall], Coroutine[Any, Any, Outcome]]
    ) -> RunningCall:
        """Let it run until it ends, whoever waits."""
        call = self._calls[call_id] = RunningCall(call_id, owner)
        call.task = asyncio.create_task(work(call))
        call.task.add_done_callback(lambda done: self._ended(call_id, done))
        return call

    def find(self, call_id: str) -> RunningCall | None:
        """The call of this id, while it runs."""
        return self._calls.get(call_id)

    def drop(self, token: str) -> None:
        """The token (its hash) was revoked: whoever came with it hears nothing more. The calls go on."""
        for call in self._calls.values():
            for stream in call.streams:
                if stream.token == token:
                    stream.end()

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

    def _ended(self, call_id: str, done: "asyncio.Task[Outcome]") -> None:
        del self._calls[call_id]
        if not done.cancelled():
            done.exception()  # the engine raises nothing; should it all the same, nobody else would look


async def first_of(*waited: "asyncio.Future[Any]", seconds: float) -> None:
    """Wait until one of these is done, and not longer than that. None of them is stopped by it."""
    await asyncio.wait(waited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
