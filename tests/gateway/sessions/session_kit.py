"""A kit whose sessions are talked to: a real store, a scripted model, and fronts that listen."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from handspan.agent.agents import Agents, KnownAgent
from handspan.agent.children import Children
from handspan.agent.session import Session
from handspan.agent.sessions import Sessions
from handspan.agent.turn_events import SessionEvent
from handspan.config.load import load_settings
from handspan.core.agents import Agent
from handspan.core.events import Ended
from handspan.core.function_tool import tool
from handspan.core.images import ImageReader
from handspan.core.messages import Message, Text, UserMessage, check_all
from handspan.core.principals import OPERATOR, Origin, Principal
from handspan.core.store import Store
from handspan.core.tool import ToolSpec
from handspan.core.values import Json, JsonObject
from handspan.gateway.app import App
from handspan.gateway.one_node import OneNode
from handspan.gateway.sessions.questions import AwaitedQuestions
from handspan.gateway.sessions.resumable_calls import ResumableCalls
from handspan.gateway.stores import make_store
from handspan.models.choice import Choice
from handspan.models.kept_messages import KeptMessages
from handspan.models.model import Model, ModelEvent, Projection
from handspan.models.scripted import ModelRequest, Scripted, ScriptTurn
from handspan.net.guard import NetGuard
from tests.waiting import soon

STRANGER = Principal("stranger")
CAREFUL = Agent("Careful", mode="ask_always")

_T = TypeVar("_T")


def said(text: str, message_id: str = "") -> UserMessage:
    return UserMessage((Text(text),), message_id)


async def all_of(*tasks: "asyncio.Future[_T]") -> list[_T]:
    """What they give, in their order, within bounds."""
    return list(await soon(asyncio.gather(*tasks)))


def words(messages: Sequence[Message]) -> list[str]:
    """The words of a conversation; calls and results by their names."""
    return [
        part.text if isinstance(part, Text) else f"<{part.name}>"
        for message in messages
        for part in getattr(message, "parts", ()) or getattr(message, "results", ())
    ]


class ChosenAgents(Agents):
    """The agents that a test chooses, in place of stored ones. The first one is the default."""

    def __init__(self, app: App, *agents: Agent) -> None:
        super().__init__(app.settings, app.store.agents)
        self._chosen = agents

    async def find(self, name: str | None = None, *, owner: str = "") -> KnownAgent:
        """Return the agent of this name, or the default."""
        return KnownAgent(next((one for one in self._chosen if one.name == name), self._chosen[0]), False)


async def open_session(app: App, choice: Choice, *agents: Agent, session: str = "s") -> Session:
    """Return a loaded session of these agents and this model, as a process of its own has it."""

    async def choose(_: str, then: tuple[str, ...] | None = None, /) -> Choice:
        return choice

    nodes = OneNode(app.settings.state)
    sessions = Sessions(app.store.conversations, app.loader, ChosenAgents(app, *agents), choose, nodes)
    opened = sessions.get(session, OPERATOR.owner)
    await sessions.open(opened, OPERATOR, agent=agents[0].name)
    return opened


class RecordingListener:
    """Records the events that it gets."""

    def __init__(self) -> None:
        self.heard: list[SessionEvent] = []
        self.turns: list[str] = []
        """The turn of each event, in the same order."""

    def __call__(self, event: SessionEvent, turn: str) -> None:
        self.heard.append(event)
        self.turns.append(turn)

    def of(self, kind: type[_T]) -> list[_T]:
        """What was heard of this kind."""
        return [one for one in self.heard if isinstance(one, kind)]

    @property
    def ends(self) -> list[Ended]:
        return self.of(Ended)


class Player:
    """A model whose script can be put in place while it is in use."""

    name = "scripted"

    def __init__(self, turns: Sequence[ScriptTurn]) -> None:
        self.script = Scripted(turns)

    def projection(self, instructions: str = "") -> KeptMessages:
        return self.script.projection(instructions)

    def reply(
        self, projection: Projection, specs: Sequence[ToolSpec], artifacts: ImageReader | None = None
    ) -> AsyncIterator[ModelEvent]:
        return self.script.reply(projection, specs, artifacts)


class SessionKit:
    """App, questions and turns, put together as the gateway does it."""

    def __init__(
        self, folder: Path, turns: Sequence[ScriptTurn] = (), wait_seconds: float = 30.0, **chosen: Json
    ) -> None:
        """`chosen`: settings besides the two folders."""
        folders: JsonObject = {"workspace": str(folder / "ws"), "state": str(folder / "st"), **chosen}
        settings = load_settings(None, {"HOME": str(folder)}, folders)
        nodes = self.nodes = OneNode(settings.state)
        guard = NetGuard(settings.tools.url_policy)
        self.bus = nodes.bus
        self.store: Store = make_store(settings, guard, is_alone=False)
        self.questions = AwaitedQuestions(
            nodes, self.store.questions, lambda question: self.resumable.resume_answered(question)
        )
        self.app = App(settings, self.questions, store=self.store, guard=guard, nodes=nodes)
        self.model: Model = Player(turns)
        self.chosen: list[str] = []
        """The names of the models that were asked for."""
        loader, agents, kept = self.app.loader, self.app.agents, self.store.conversations
        self.sessions = Sessions(kept, loader, agents, self.choose_model, nodes, wait_seconds)
        children = Children(self.store, self.app.engine, agents, self.sessions, self.app.registry)
        self.resumable = ResumableCalls(self.store, self.app.engine, loader, agents, self.sessions, children)
        self.runs: list[str] = []
        self.reached = asyncio.Event()
        self.may_end = asyncio.Event()

    async def choose_model(self, named: str, then: tuple[str, ...] | None = None, /) -> Choice:
        """The model of this name, and a note of it."""
        self.chosen.append(named)
        if named and named != "scripted":
            return await self.app.choices.choose(named)
        return Choice(self.model, "for a test")

    def plays(self, *turns: ScriptTurn) -> Scripted:
        """Let the model say this from now on."""
        assert isinstance(self.model, Player)
        self.model.script = Scripted(turns)
        return self.model.script

    @property
    def requests(self) -> list[ModelRequest]:
        """What the model was sent."""
        assert isinstance(self.model, Player)
        return self.model.script.requests

    async def __aenter__(self) -> "SessionKit":
        await self.app.open()
        self.add_tools()
        await self.app.agents.create(CAREFUL)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.sessions.drain(0)
        await self.app.close()

    def add_tools(self) -> None:
        """Tools that wait, and tools that do something."""

        @tool
        async def slow() -> str:
            """Take a while."""
            self.reached.set()
            await self.may_end.wait()
            return "slow is done"

        @tool
        async def note(text: str) -> str:
            """Note something."""
            self.runs.append(text)
            return f"noted {text}"

        for made in (slow, note):
            self.app.registry.register(made, Origin("plugin", "test"))

    async def say(
        self,
        text: str,
        listener: RecordingListener | None = None,
        session: str = "s",
        message_id: str = "",
        **more: Any,
    ) -> Ended:
        message = said(text, message_id)
        return await soon(
            self.sessions.get(session, OPERATOR.owner)
            .say(OPERATOR, message, listener or RecordingListener(), **more)
            .wait_for_end()
        )

    def start(
        self, text: str, listener: RecordingListener | None = None, session: str = "s", **more: Any
    ) -> "asyncio.Task[Ended]":
        """A turn that runs beside the test."""
        return asyncio.create_task(self.say(text, listener, session, **more))

    async def kept(self, session: str = "s") -> list[Message]:
        messages = await soon(self.store.conversations.load(session, owner=OPERATOR.owner))
        check_all(messages)
        return messages

    async def texts(self, session: str = "s") -> list[str]:
        """The words of the conversation; a call or a result by its name."""
        return words(await self.kept(session))
