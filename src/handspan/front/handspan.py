"""`Handspan`: an agent with tools inside a Python program (SPEC U5).

    async with Handspan(tools=[get_weather], model="offline") as hands:
        answer = await hands.ask("What is the weather in Paris?")

`docs/embedding.md` explains every option with programs that run.
"""

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Generator, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, Self, TypeVar, overload

from handspan.agent.turn_events import SessionEvent
from handspan.config.settings import Settings
from handspan.core.agents import Agent
from handspan.core.calls import ToolCall, new_call_id
from handspan.core.events import Event
from handspan.core.function_tool import refuse_second_run
from handspan.core.principals import OPERATOR
from handspan.core.results import Pending, ToolResult
from handspan.core.schedules import TO_NOWHERE, At, Schedule, SchedulePlan
from handspan.core.values import Arguments
from handspan.front.answer_types import read_answer_type
from handspan.front.answers import AgentAnswer, UsageError
from handspan.front.loop_thread import LoopThread, check_may_wait, iterate_in, run_in
from handspan.front.open_agent import OpenAgent, new_session_id
from handspan.front.options import HandspanOptions, ToolLike, read_builtins, read_tool
from handspan.front.questions import AnswerQuestion
from handspan.models.model import Model

T = TypeVar("T")

_CLOSED: Final = (
    "This Handspan is not open: use `async with Handspan(…) as hands:`, or `with` in a program without asyncio."
)
_LOOP_ENDED: Final = (
    "The event loop that opened this Handspan has ended: make another one, and open, use and close it in one loop."
)


class Handspan:
    """An agent with tools. `async with` opens it, `with` too in a program without an event loop."""

    def __init__(
        self,
        tools: Iterable[ToolLike] = (),
        *,
        model: str | Model | Sequence[str | Model] = "",
        instructions: str | None = None,
        agent: Agent | str = "",
        builtins: bool | Sequence[str] = False,
        state: str | os.PathLike[str] | None = None,
        workspace: str | os.PathLike[str] | None = None,
        questions: AnswerQuestion | None = None,
        settings: Settings | None = None,
    ) -> None:
        """Take the options; `open` opens. Raises `DefinitionError` when one of `tools` can't be a tool.

        `model`: a name as on the command line, or a `Model`. Empty: the first model that is found. A list: the first
        one answers, and while it can't, the next one.
        `instructions`: what the model reads first. `agent`: an `Agent`, or the name of one in the settings.
        `builtins`: the tools that come with Handspan: all, none, or those whose names match these globs.
        `state`: the folder for sessions and calls. Without it they end with this object.
        `workspace`: the folder for tools that work on files. Without it the folder is temporary.
        `questions`: answers the questions of tools. Without it calls that ask are refused.
        `settings`: everything else. To read a settings file, give `load_settings()` here.
        """
        self._options = HandspanOptions(
            tools=tuple(read_tool(tool) for tool in tools),
            model=model,
            builtins=read_builtins(builtins),
            state=None if state is None else Path(state).absolute(),
            workspace=None if workspace is None else Path(workspace).absolute(),
            agent=agent,
            instructions=instructions,
            settings=settings,
        )
        self._questions = questions
        self._use = threading.Lock()
        """Held from `open` to `close`: whichever loop or thread comes second is refused."""
        self._agent: OpenAgent | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop that opened it."""
        self._thread: LoopThread | None = None

    # Asking.

    @overload
    async def ask(self, text: str, *, session: str = "", timeout: float | None = None) -> AgentAnswer[str]: ...

    @overload
    async def ask(
        self, text: str, *, answer_type: type[T], session: str = "", timeout: float | None = None
    ) -> AgentAnswer[T]: ...

    async def ask(
        self, text: str, *, answer_type: type[Any] = str, session: str = "", timeout: float | None = None
    ) -> AgentAnswer[Any]:
        """Return the agent's answer. Each call is a new conversation, unless `session` names one to continue.

        `answer_type`: the type of `answer.value`. `timeout`: seconds until the turn stops and this raises
        `TimeoutError`. The turn stops when the caller is cancelled, too. Raises `AskFailed` when there is no answer.
        """
        agent = self._open_agent()
        session_id = session or new_session_id()
        try:
            async with asyncio.timeout(timeout) as timer:
                if answer_type is str:
                    return await agent.ask(text, session_id)
                return await agent.ask_typed(text, session_id, read_answer_type(answer_type))
        except TimeoutError as error:
            if not timer.expired():
                raise
            raise TimeoutError(f"There was no answer within {timeout} seconds: the turn was stopped.") from error

    async def stream(self, text: str, *, session: str = "") -> AsyncGenerator[Event, None]:
        """Yield what happens while the agent answers; the last event is `Ended`. To stop iterating stops the turn."""
        agent = self._open_agent()
        events: asyncio.Queue[Event | None] = asyncio.Queue()

        def take(event: SessionEvent, turn: str) -> None:
            if isinstance(event, Event):
                events.put_nowait(event)

        end = asyncio.ensure_future(agent.say(text, session or new_session_id(), take).wait_for_end())
        end.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
            await end
        finally:
            end.cancel()
            await asyncio.gather(end, return_exceptions=True)

    async def call(self, tool: str, arguments: Arguments | None = None) -> ToolResult | Pending:
        """Run one tool as the agent would, and return its result. A `Failure` is a result too."""
        app = self._open_agent().app
        return await app.engine.call(ToolCall(tool, arguments or {}, new_call_id()), app.caller())

    async def schedule(
        self, text: str, when: str, *, zone: str = "", agent: str = "", session: str = "", deliver: str = TO_NOWHERE
    ) -> Schedule:
        """Let the agent be told this text at its times, while this object is open, and return the schedule.

        `when`: `30 7 * * 1-5`, `@daily`, `every 30m`, `at 2026-12-01T09:00` or `in 20m`, in this time zone; empty: that
        of this computer. `session`: the one that goes on; empty: a fresh one each time. `deliver`: `none`, or
        `CHANNEL:CHAT`. With a `state` folder it is there in the next program, too. Raises `ToolError` for wrong ones.
        """
        plan = SchedulePlan(At(0.0), text, zone, agent=agent, session=session, deliver=deliver)
        return await self._open_agent().schedule(plan, when)

    async def unschedule(self, schedule: str) -> None:
        """Remove the schedule of this id. Raises `ToolError` when there is none."""
        await self._open_agent().app.store.schedules.remove(schedule, owner=OPERATOR.owner)

    # The same for threads without an event loop.

    @overload
    def ask_sync(self, text: str, *, session: str = "", timeout: float | None = None) -> AgentAnswer[str]: ...

    @overload
    def ask_sync(
        self, text: str, *, answer_type: type[T], session: str = "", timeout: float | None = None
    ) -> AgentAnswer[T]: ...

    def ask_sync(
        self, text: str, *, answer_type: type[Any] = str, session: str = "", timeout: float | None = None
    ) -> AgentAnswer[Any]:
        """Return the answer as `ask` does, for threads without an event loop."""
        loop = self._find_loop("await hands.ask(…)")
        return run_in(loop, self.ask(text, answer_type=answer_type, session=session, timeout=timeout))

    def stream_sync(self, text: str, *, session: str = "") -> Generator[Event, None, None]:
        """Yield what `stream` yields, for threads without an event loop."""
        return iterate_in(self._find_loop("async for event in hands.stream(…)"), self.stream(text, session=session))

    def call_sync(self, tool: str, arguments: Arguments | None = None) -> ToolResult | Pending:
        """Return the result as `call` does, for threads without an event loop."""
        return run_in(self._find_loop("await hands.call(…)"), self.call(tool, arguments))

    # Opening and closing.

    async def open(self) -> None:
        """Open the agent. Raises `ConfigError` when an option can't be used, such as an unknown model."""
        refuse_second_run()
        if not self._use.acquire(blocking=False):
            raise UsageError("This Handspan is open already: open each one once, and share it.")
        try:
            self._agent = await OpenAgent.open(self._options, self._questions)
        except BaseException:
            self._use.release()
            raise
        self._loop = asyncio.get_running_loop()

    async def close(self) -> None:
        """Stop all turns and close the agent. A closed Handspan can be opened again."""
        agent, self._agent = self._agent, None
        if agent is not None:
            try:
                await agent.close()
            finally:
                self._use.release()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __enter__(self) -> Self:
        """Open it on a thread with an event loop of its own."""
        check_may_wait("async with Handspan(…)")
        thread = LoopThread()
        try:
            run_in(thread.loop, self.open())
        except BaseException:
            thread.stop()
            raise
        self._thread = thread
        return self

    def __exit__(self, *_: object) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            try:
                run_in(thread.loop, self.close())
            finally:
                thread.stop()

    # Checks.

    def _open_agent(self) -> OpenAgent:
        """Return the agent. Raises `UsageError` when it is not open, or belongs to another event loop."""
        agent, loop = self._check_open()
        if loop is not asyncio.get_running_loop():
            other = "open one here, or use `await asyncio.to_thread(hands.ask_sync, …)`"
            raise UsageError(f"This Handspan was opened in another event loop: {other}.")
        return agent

    def _find_loop(self, instead: str) -> asyncio.AbstractEventLoop:
        check_may_wait(instead)
        return self._check_open()[1]

    def _check_open(self) -> tuple[OpenAgent, asyncio.AbstractEventLoop]:
        if self._agent is None or self._loop is None:
            raise UsageError(_CLOSED)
        if self._loop.is_closed():
            raise UsageError(_LOOP_ENDED)
        return self._agent, self._loop
