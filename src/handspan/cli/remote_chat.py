"""A conversation with an agent of a gateway that runs: its words, its questions, its end (SPEC A2, A4, P5)."""

import asyncio
import signal
from types import TracebackType
from typing import Any, Final, Self

from msgspec import Struct

from handspan.agent.loading import LAST, usage_lines
from handspan.cli.conversation import tool_line
from handspan.cli.remote import Remote, RemoteRefused, segment
from handspan.cli.remote_agents import RemoteAgent, agent_called, skill_notes
from handspan.cli.remote_call import ask_here
from handspan.cli.remote_tools import tools_of
from handspan.cli.shown import Show
from handspan.client.chat import Chat
from handspan.client.client import Client
from handspan.core.errors import HandspanError
from handspan.core.events import CallFinished, Ended, QuestionAsked
from handspan.core.questions import Question, Questions
from handspan.core.records import UsageSum

_CLOSED: Final = Ended("error", "The gateway has ended this conversation. Begin it again: what was said is kept there.")

_PATIENCE: Final = 1.0
_NO_WORD: Final = "(no word from the gateway yet; Ctrl-C again does not wait for it)"


class _Session(Struct, frozen=True):
    session_id: str
    persona: str = ""


class _Sessions(Struct, frozen=True):
    sessions: list[_Session]


class ChosenModel(Struct, frozen=True):
    """A model that the gateway would use."""

    model: str
    why: str


class _Usage(Struct, frozen=True):
    usage: list[UsageSum]


def model_called(remote: Remote, name: str) -> ChosenModel:
    """The model of this name; `RemoteRefused` when there is none."""
    return remote.get("/api/models/which", ChosenModel, model=name)


def model_of_agent(remote: Remote, name: str) -> ChosenModel:
    """The model that this agent, or the default one, answers with."""
    return remote.get("/api/models/which", ChosenModel, agent=agent_called(remote, name).name)


class RemoteTalk:
    """A conversation at a terminal, over the gateway. What the link does meanwhile is not its concern."""

    def __init__(self, remote: Remote, show: Show, questions: Questions) -> None:
        self._remote = remote
        self._show = show
        self._questions = questions
        self._client = Client(remote.url, remote.token, tls=remote.tls)
        self._chat: Chat | None = None
        self._agent: RemoteAgent
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
        await self._leave()
        self._remote.close()

    async def open(self, agent: str | None, session_id: str | None) -> None:
        """Begin a session, or go on with one: with the agent that it has, unless another is named."""
        session = await asyncio.to_thread(self._find, session_id) if session_id else None
        self._agent = await asyncio.to_thread(self._find_agent, agent, session)
        chosen = await asyncio.to_thread(model_of_agent, self._remote, self._agent.name)
        await self._enter(session.session_id if session else "", agent or "")
        self._show.opened(self._session_id, self._agent.name, chosen.why)
        for note in await asyncio.to_thread(skill_notes, self._remote, self._agent.skills):
            self._show.told(f"({note})")

    async def say(self, text: str) -> Ended:
        """One turn; Ctrl-C aborts it, a second one does not wait for the gateway to say so."""
        if self._is_lost or self._chat is None:
            await self._go_over(self._named)
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
            return self._ended(Ended("aborted"))
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            await _cancel(*aborting)

    async def command(self, name: str, argument: str) -> list[str]:
        """The lines that answer a command."""
        match name:
            case "/tools":
                found = await asyncio.to_thread(tools_of, self._remote, self._agent.name, self._session_id)
                return [tool_line(tool.name, tool.description) for tool in found]
            case "/agent":
                if argument:
                    await self._change_agent(argument)
                return [self._agent.name]
            case "/skill":
                if argument:
                    raise HandspanError(
                        "At a gateway skills are switched on for an agent: "
                        f"handspan agents edit {self._agent.name} --skills {argument}"
                    )
                return list(self._agent.skills)
            case _:
                return usage_lines(await asyncio.to_thread(self._usage))

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
            ended = self._ended(_CLOSED)
        return ended

    async def _ask(self, question: Question) -> None:
        """Ask the person here, until the question is over: it may be answered elsewhere first."""
        asking = asyncio.create_task(ask_here(question, self._questions))
        over = asyncio.create_task(self._talking.closed(question.id))
        try:
            await asyncio.wait((asking, over), return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                answer = asking.result()
                assert answer.decision != "expired"
                await self._talking.answer(question.id, answer.decision, always=answer.always, value=answer.value)
        finally:
            await _cancel(asking, over)

    async def _abort(self, turn: asyncio.Task[Ended]) -> None:
        waiting = asyncio.get_running_loop().call_later(_PATIENCE, self._show.told, _NO_WORD)
        try:
            if not await self._talking.abort():  # nothing runs there, whatever this end waits for
                turn.cancel()
        finally:
            waiting.cancel()

    def _ended(self, ended: Ended) -> Ended:
        self._show(ended)
        return ended

    # The session.

    @property
    def _talking(self) -> Chat:
        assert self._chat is not None  # `say` sees to it
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
        self._agent = await asyncio.to_thread(agent_called, self._remote, name)
        await self._go_over(name)

    async def _go_over(self, agent: str) -> None:
        """Go on with the session on another connection."""
        await self._leave()
        await self._enter(self._session_id, agent)
        self._is_lost = False

    def _find(self, session_id: str) -> _Session:
        if session_id != LAST:
            return self._remote.get(f"/api/sessions/{segment(session_id)}", _Session)
        found = self._remote.get("/api/sessions", _Sessions, limit="1").sessions
        if not found:
            raise HandspanError("There is no session yet to go on with: begin one.")
        return found[0]

    def _find_agent(self, named: str | None, session: _Session | None) -> RemoteAgent:
        try:
            return agent_called(self._remote, named or (session.persona if session else ""))
        except RemoteRefused as refused:
            if named or session is None:
                raise
            text = f"{refused} The session was with that one: name another (--agent)."
            raise RemoteRefused(refused.status, text) from None

    def _usage(self) -> list[UsageSum]:
        return self._remote.get("/api/usage", _Usage, by="model", session=self._session_id).usage


async def _cancel(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
