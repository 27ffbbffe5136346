"""`Handspan`: an agent with tools inside a Python program (SPEC U5).

    async with Handspan(tools=[get_weather], model="offline") as hands:
        answer = await hands.ask("What is the weather in Paris?")

`docs/embedding.md` explains every option with programs that run.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Generator, Iterable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar, overload

from msgspec import Struct, structs

from handspan.agent.session import Equip
from handspan.agent.sessions import Sessions
from handspan.agent.turn import Handle, Listener
from handspan.agent.turn_events import Happening
from handspan.bus.memory import MemoryBus
from handspan.config.settings import Settings
from handspan.core.agents import Agent
from handspan.core.calls import ToolCall, new_call_id
from handspan.core.events import Ended, Event
from handspan.core.messages import Text, UserMessage
from handspan.core.principals import OPERATOR
from handspan.core.results import Pending, ToolResult
from handspan.core.values import Arguments
from handspan.front.answer_types import FINAL_ANSWER, AnswerType, read_answer_type
from handspan.front.answers import AgentAnswer, AnswerMismatch, TurnRecorder, UsageError, check_ended
from handspan.front.final_answer import MOST_TRIES, FinalAnswer, ModelWithFinalAnswer
from handspan.front.loop_thread import LoopThread, check_may_wait, iterate_in, run_in
from handspan.front.options import Options, ToolLike, read_builtins, read_tool
from handspan.front.person import AnswerQuestion, CallbackQuestions
from handspan.gateway.app import App
from handspan.models.choice import Choice
from handspan.models.model import Model

T = TypeVar("T")

_PATIENCE: Final = 24 * 3600.0
"""Seconds that an `ask` waits for others in its session: a program sets a timeout of its own."""
_CLOSED: Final = (
    "This Handspan is not open: use `async with Handspan(…) as hands:`, or `with` in a program without asyncio."
)
_REMINDER: Final = f"Give your answer by calling the tool {FINAL_ANSWER!r}, and write nothing else."


class _OpenParts(Struct, frozen=True):
    app: App
    sessions: Sessions
    loop: asyncio.AbstractEventLoop
    resources: AsyncExitStack


class Handspan:
    """An agent with tools. `async with` opens it, `with` too in a program without an event loop."""

    def __init__(
        self,
        tools: Iterable[ToolLike] = (),
        *,
        model: str | Model = "",
        instructions: str | None = None,
        agent: Agent | str = "",
        builtins: bool | Sequence[str] = False,
        state: str | os.PathLike[str] | None = None,
        workspace: str | os.PathLike[str] | None = None,
        questions: AnswerQuestion | None = None,
        settings: Settings | None = None,
    ) -> None:
        """Nothing is opened yet. Raises `DefinitionError` when a tool can't be one.

        `model`: a name as the command line takes it, or a `Model`; empty: the first that is found.
        `instructions`: what the model is told first. `agent`: an `Agent`, or the name of one of the settings.
        `builtins`: the tools that come with Handspan: all, none, or those that these globs name.
        `state`: the folder that keeps sessions and calls; without it they end with this object.
        `workspace`: the folder for the tools that work on files. `questions`: answers the questions of tools.
        `settings`: everything else. A settings file is only read where `load_settings()` is given here.
        """
        self._options = Options(
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
        self._parts: _OpenParts | None = None
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
        """The agent's answer. Each call is a conversation of its own, unless `session` names one to go on with.

        `answer_type`: the type of `answer.value`. `timeout`: seconds until this raises `TimeoutError`; the turn is
        stopped then, as it is when the caller is cancelled. Raises `AskFailed` when there is no answer.
        """
        parts = self._open_parts()
        session_id = session or os.urandom(12).hex()
        try:
            async with asyncio.timeout(timeout) as timer:
                if answer_type is str:
                    return await self._ask(parts, text, session_id)
                return await self._ask_typed(parts, text, session_id, read_answer_type(answer_type))
        except TimeoutError as error:
            if not timer.expired():
                raise
            raise TimeoutError(f"There was no answer within {timeout} seconds: the turn was stopped.") from error

    async def stream(self, text: str, *, session: str = "") -> AsyncGenerator[Event, None]:
        """What happens while the agent answers; the last event is `Ended`. To leave the loop early stops the turn."""
        parts = self._open_parts()
        happened: asyncio.Queue[Event | None] = asyncio.Queue()

        def hear(happening: Happening, turn: str) -> None:
            if isinstance(happening, Event):
                happened.put_nowait(happening)

        end = asyncio.ensure_future(_say(parts, text, session or os.urandom(12).hex(), hear).end())
        end.add_done_callback(lambda _: happened.put_nowait(None))
        try:
            while (event := await happened.get()) is not None:
                yield event
            await end
        finally:
            end.cancel()
            await asyncio.gather(end, return_exceptions=True)

    async def call(self, tool: str, arguments: Arguments | None = None) -> ToolResult | Pending:
        """The result of one tool, run as the agent would run it; a `Failure` is a result too."""
        app = self._open_parts().app
        return await app.engine.call(ToolCall(tool, arguments or {}, new_call_id()), app.caller())

    # The same for a program without an event loop.

    @overload
    def ask_sync(self, text: str, *, session: str = "", timeout: float | None = None) -> AgentAnswer[str]: ...

    @overload
    def ask_sync(
        self, text: str, *, answer_type: type[T], session: str = "", timeout: float | None = None
    ) -> AgentAnswer[T]: ...

    def ask_sync(
        self, text: str, *, answer_type: type[Any] = str, session: str = "", timeout: float | None = None
    ) -> AgentAnswer[Any]:
        """`ask`, for a program without an event loop and for the worker threads of one with a loop."""
        loop = self._loop_to_wait_for("await hands.ask(…)")
        return run_in(loop, self.ask(text, answer_type=answer_type, session=session, timeout=timeout))

    def stream_sync(self, text: str, *, session: str = "") -> Generator[Event, None, None]:
        """`stream`, for a program without an event loop."""
        loop = self._loop_to_wait_for("async for event in hands.stream(…)")
        return iterate_in(loop, self.stream(text, session=session))

    def call_sync(self, tool: str, arguments: Arguments | None = None) -> ToolResult | Pending:
        """`call`, for a program without an event loop."""
        return run_in(self._loop_to_wait_for("await hands.call(…)"), self.call(tool, arguments))

    # Opening and closing.

    async def open(self) -> None:
        """Make everything ready; raises `ConfigError` for what can't be used, such as an unknown model."""
        if self._parts is not None:
            raise UsageError("This Handspan is open already: open each one once, and share it.")
        async with AsyncExitStack() as resources:
            settings, bus = resources.enter_context(self._options.folders()), MemoryBus()
            app = App(
                settings,
                CallbackQuestions(self._questions, bus),
                durable=True,
                bus=bus,
                sources=self._options.sources,
            )
            await resources.enter_async_context(app)
            sessions = await self._open_sessions(app, bus)
            resources.push_async_callback(sessions.drain, 0)
            self._parts = _OpenParts(app, sessions, asyncio.get_running_loop(), resources.pop_all())

    async def close(self) -> None:
        """Stop what runs and let go of everything. A closed Handspan can be opened again."""
        parts, self._parts = self._parts, None
        if parts is not None:
            await parts.resources.aclose()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __enter__(self) -> Self:
        check_may_wait("async with Handspan(…)")
        thread = LoopThread()
        try:
            run_in(thread.loop, self.open())
        except BaseException:
            thread.stop()
            raise
        self._thread = thread
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            try:
                run_in(thread.loop, self.close())
            finally:
                thread.stop()

    # Inside.

    async def _open_sessions(self, app: App, bus: MemoryBus) -> Sessions:
        given = self._options.model
        chosen: Choice | None = None
        if not isinstance(given, str):
            chosen = Choice(given, f"The model is {given.name!r}, which the program gave.")
        elif given:  # a wrong name is told here, not by the first answer
            chosen = await app.choose_model(given)

        async def choose(named: str) -> Choice:
            choice = chosen or await app.choose_model(named)
            return structs.replace(choice, model=ModelWithFinalAnswer(choice.model))

        assert app.store is not None
        return Sessions(app.store.conversations, app.loader(), app.agents, choose, bus, _PATIENCE)

    async def _ask(self, parts: _OpenParts, text: str, session: str) -> AgentAnswer[str]:
        recorder = TurnRecorder()
        ended = check_ended(await _say(parts, text, session, recorder.hear).end(), session)
        return _answer(ended.text, ended, session, recorder)

    async def _ask_typed(
        self, parts: _OpenParts, text: str, session: str, answer_type: AnswerType[T]
    ) -> AgentAnswer[T]:
        recorder, final = TurnRecorder(), FinalAnswer(answer_type)
        for _ in range(MOST_TRIES):
            handle = _say(parts, text, session, recorder.hear, final.equip(parts.app.registry))
            ended = check_ended(await handle.end(), session)
            value = final.find(ended.text)
            if value is not None:
                return _answer(value, ended, session, recorder)
            wrong = [call.result for call in recorder.calls if call.name == FINAL_ANSWER]
            if len(wrong) >= MOST_TRIES:
                break
            text = _REMINDER
        said = wrong[-1] if wrong else f"it did not call the tool {FINAL_ANSWER!r}, and said {ended.text[:200]!r}"
        raise AnswerMismatch(
            f"The model gave no {answer_type.name!r} in {MOST_TRIES} tries: {said} Ask another model, or for a simpler "
            "type.",
            ended,
            session,
        )

    def _open_parts(self) -> _OpenParts:
        """What an `ask` needs; raises `UsageError` when it is not there for this loop."""
        if self._parts is None:
            raise UsageError(_CLOSED)
        if self._parts.loop is not asyncio.get_running_loop():
            raise UsageError(
                "This Handspan was opened in another event loop: open one here, or use `hands.ask_sync(…)`."
            )
        return self._parts

    def _loop_to_wait_for(self, instead: str) -> asyncio.AbstractEventLoop:
        check_may_wait(instead)
        if self._parts is None:
            raise UsageError(_CLOSED)
        return self._parts.loop


def _say(parts: _OpenParts, text: str, session: str, listener: Listener, equip: Equip | None = None) -> Handle:
    message = UserMessage((Text(text),))
    found = parts.sessions.get(session, OPERATOR.owner)
    if equip is None:
        return found.say(OPERATOR, message, listener)
    return found.say(OPERATOR, message, listener, equip=equip)


def _answer(value: T, ended: Ended, session: str, recorder: TurnRecorder) -> AgentAnswer[T]:
    calls = tuple(call for call in recorder.calls if call.name != FINAL_ANSWER)
    return AgentAnswer(value, ended.text, session, calls, recorder.usage, ended.reason)
