"""A conversation with an agent of a gateway: its words, its questions, its end (SPEC A2, A4, P5)."""

import asyncio
import signal
from types import TracebackType
from typing import Any, Final, Self

from handspan.agent.loading import LAST, usage_lines
from handspan.cli.conversation import tool_line
from handspan.cli.render_chat import Show
from handspan.cli.requests import RemoteRefused, Requests, find_agent, segment
from handspan.cli.terminal_questions import TerminalQuestions, ask_here
from handspan.client.chat import Chat
from handspan.core.errors import HandspanError
from handspan.core.events import CallFinished, Ended, QuestionAsked
from handspan.core.questions import Question, Questions
from handspan.wire.rest.agents import AgentView
from handspan.wire.rest.sessions import SessionList, SessionView
from handspan.wire.rest.status import ChosenModel, SessionSkills, UsageList

_CLOSED: Final = Ended(
    "error", "The gateway has ended this conversation. Begin it again: its messages are stored there."
)
_PATIENCE: Final = 1.0
_NO_WORD: Final = "(no word from the gateway yet; Ctrl-C again does not wait for it)"


class TerminalChat:
    """A conversation at a terminal. The link to the gateway comes back by itself."""

    def __init__(self, requests: Requests, show: Show, questions: Questions, model: str = "") -> None:
        """`model` is the one that answers for every agent, where there is one."""
        self._requests = requests
        self._show = show
        self._questions = questions
        self._model = model
        self._client = requests.client()
        self._chat: Chat | None = None
        self._agent: AgentView
        self._choosing: asyncio.Task[ChosenModel] | None = None
        """Which model answers, where a better one is still looked for (SPEC M5)."""
        self._chosen: ChosenModel
        self._session_id = self._named = ""
        self._asking: dict[tuple[str, str], asyncio.Task[None]] = {}
        """By the ids of the call and of the question."""
        self._is_lost = False
        """The last turn was left without its end: the connection would wait for that before it begins another."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._choosing is not None:
            await _cancel(self._choosing)
        await self._leave()

    async def open(self, agent: str | None, session_id: str | None, *, waits: bool) -> None:
        """Begin a session, or go on with one: with the agent that it has, unless another is named.

        `waits`: until it is known whether a local model answers. That is worth it for a single question; a conversation
        begins without knowing.
        """
        session = await self._find(session_id) if session_id else None
        self._agent = await self._find_agent(agent, session)
        self._chosen = await self._choose(at_once=not waits)
        if not waits:
            self._choosing = asyncio.create_task(self._choose())
        await self._enter(session.session_id if session else "", agent or "")
        self._show.begin(self._session_id, self._agent.name, self._chosen.why)
        if self._agent.skills:
            for note in (await self._skills()).notes:
                self._show.note(f"({note})")

    async def say(self, text: str) -> Ended:
        """Run one turn and return its end. Ctrl-C aborts it; a second one does not wait for the gateway to say so."""
        if isinstance(self._questions, TerminalQuestions):
            self._questions.note_typed()
        if self._is_lost or self._chat is None:
            await self._go_over(self._named)
        await self._await_choice()
        loop = asyncio.get_running_loop()
        turn = asyncio.create_task(self._turn(text))
        aborting: list[asyncio.Task[None]] = []

        def abort() -> None:
            if aborting:
                turn.cancel()
            else:
                aborting.append(asyncio.create_task(self._abort(turn)))

        loop.add_signal_handler(signal.SIGINT, abort)
        try:
            return await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                raise
            self._is_lost = True
            return self._show_end(Ended("aborted"))
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            await _cancel(*aborting)

    async def command(self, name: str, argument: str) -> list[str]:
        """Return the lines that answer a command."""
        match name:
            case "/tools":
                return [tool_line(tool.name, tool.description) for tool in (await self._skills()).tools]
            case "/agent":
                if argument:
                    await self._change_agent(argument)
                return [self._agent.name]
            case "/skill":
                if argument:
                    is_on = not argument.startswith("-")
                    body = {"name": argument.removeprefix("-").strip(), "on": is_on, "agent": self._named}
                    return (await self._requests.change("POST", self._skills_path(), SessionSkills, body)).skills
                return (await self._skills()).skills
            case _:
                path, session = "/api/usage", self._session_id
                return usage_lines((await self._requests.get(path, UsageList, by="model", session=session)).usage)

    # The turn.

    async def _turn(self, text: str) -> Ended:
        ended: Ended | None = None
        try:
            async for event in self._talking.send(text):
                self._show(event)
                match event:
                    case QuestionAsked(question=question):
                        self._asking[question.call_id, question.id] = asyncio.create_task(self._ask(question))
                    case CallFinished(id=call_id):  # the link may have dropped when its questions were closed
                        await _cancel(*(self._asking.pop(key) for key in [*self._asking] if key[0] == call_id))
                    case Ended():
                        ended = event
        finally:
            await _cancel(*self._asking.values())
            self._asking.clear()
        if ended is None:
            self._is_lost = True
            ended = self._show_end(_CLOSED)
        return ended

    async def _ask(self, question: Question) -> None:
        """Ask the person here, until the question is over: it may be answered elsewhere first."""
        asking = asyncio.create_task(ask_here(question, self._questions))
        over = asyncio.create_task(self._talking.closed(question.id))
        try:
            await asyncio.wait((asking, over), return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                await self._talking.give(question.id, asking.result())
        finally:
            await _cancel(asking, over)

    async def _abort(self, turn: asyncio.Task[Ended]) -> None:
        waiting = asyncio.get_running_loop().call_later(_PATIENCE, self._show.note, _NO_WORD)
        try:
            if not await self._talking.abort():  # nothing runs there, whatever this end waits for
                turn.cancel()
        finally:
            waiting.cancel()

    def _show_end(self, ended: Ended) -> Ended:
        self._show(ended)
        return ended

    # The session.

    @property
    def _talking(self) -> Chat:
        assert self._chat is not None  # `say` opens it
        return self._chat

    async def _enter(self, session_id: str, agent: str) -> None:
        self._session_id, self._named = session_id, agent
        self._chat = await self._client.chat(session_id or None, agent or None).__aenter__()
        self._session_id = self._chat.session_id

    async def _leave(self) -> None:
        chat, self._chat = self._chat, None
        if chat is not None:
            await chat.__aexit__(None, None, None)

    async def _change_agent(self, name: str) -> None:
        """The session goes on under another agent: a connection says at its beginning which one it is for."""
        self._agent = await find_agent(self._requests, name)
        await self._go_over(name)

    async def _go_over(self, agent: str) -> None:
        """Go on with the session on another connection."""
        await self._leave()
        await self._enter(self._session_id, agent)
        self._is_lost = False

    async def _find(self, session_id: str) -> SessionView:
        if session_id != LAST:
            return await self._requests.get(f"/api/sessions/{segment(session_id)}", SessionView)
        found = (await self._requests.get("/api/sessions", SessionList, limit="1")).sessions
        if not found:
            raise HandspanError("There is no session yet to go on with: begin one.")
        return found[0]

    async def _find_agent(self, named: str | None, session: SessionView | None) -> AgentView:
        try:
            return await find_agent(self._requests, named or (session.persona if session else ""))
        except RemoteRefused as refused:
            if named or session is None:
                raise
            text = f"{refused} The session was with that one: name another (--agent)."
            raise RemoteRefused(refused.status, text) from None

    # The model and the skills.

    async def _choose(self, *, at_once: bool = False) -> ChosenModel:
        of = {"model": self._model} if self._model else {"agent": self._agent.name}
        return await self._requests.get("/api/models/which", ChosenModel, **of, at_once="true" if at_once else "")

    async def _await_choice(self) -> None:
        """Say so if a better model was found since the conversation was opened."""
        if self._choosing is not None:
            choosing, self._choosing = self._choosing, None
            found = await choosing
            if found.model != self._chosen.model:
                self._show.note(f"Model: {found.why}")

    async def _skills(self) -> SessionSkills:
        return await self._requests.get(self._skills_path(), SessionSkills, agent=self._named)

    def _skills_path(self) -> str:
        return f"/api/sessions/{segment(self._session_id)}/skills"


async def _cancel(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
