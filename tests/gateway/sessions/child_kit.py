"""A gateway with agents that ask each other, and tools that wait and that change things."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from handspan.core.calls import CallRecord
from handspan.core.events import Ended
from handspan.core.function_tool import tool
from handspan.core.messages import AssistantMessage
from handspan.core.principals import OPERATOR, Origin
from handspan.core.records import CallFilter, SessionRecord
from handspan.core.tool import Annotations
from handspan.testing.gateway import RunningGateway, running_gateway
from handspan.testing.spoken import Spoken
from tests.gateway.sessions.session_kit import RecordingListener, said
from tests.postgres_engine import schema_url
from tests.waiting import soon, until

OWNER: Final = OPERATOR.owner
AGENTS: Final[dict[str, Any]] = {
    "boss": {"may_ask": ["*"], "description": "Decides."},
    "reader": {"description": "Reads what there is."},
    "twin": {"may_ask": ["boss", "twin"]},
    "careful": {"may_ask": ["reader"], "mode": "ask_always"},
}


class Talk:
    """A gateway that is talked to, with tools that wait and that change things."""

    def __init__(self, running: RunningGateway) -> None:
        self.running = running
        self.reached = asyncio.Event()
        self.may_end = asyncio.Event()
        self.changed: list[str] = []
        self.add_tools()

    @property
    def parts(self) -> Any:
        return self.running.gateway.parts

    def add_tools(self) -> None:
        @tool(annotations=Annotations(read_only=True))
        async def slow() -> str:
            """Take a while."""
            self.reached.set()
            await self.may_end.wait()
            return "slow is done"

        @tool(annotations=Annotations(destructive=True))
        async def change(what: str) -> str:
            """Change something."""
            self.changed.append(what)
            return f"changed {what}"

        for made in (slow, change):
            self.parts.app.registry.register(made, Origin("plugin", "test"))

    async def restart(self) -> None:
        await soon(self.running.restart())
        self.add_tools()

    async def say(self, text: str, listener: Any = None, session: str = "s", agent: str = "boss", **more: Any) -> Ended:
        asked = self.parts.sessions.get(session, OWNER)
        handle = asked.say(OPERATOR, said(text), listener or RecordingListener(), agent=agent, **more)
        ended: Ended = await soon(handle.wait_for_end())
        return ended

    def start(self, text: str, *more: Any, **words: Any) -> "asyncio.Task[Ended]":
        return asyncio.create_task(self.say(text, *more, **words))

    async def calls(self, **wanted: Any) -> list[CallRecord]:
        """The calls of the journal, the oldest first."""
        page, _ = await self.parts.store.ledger.page(CallFilter(**wanted), owner=OWNER, limit=100)
        return list(reversed(page))

    async def children(self) -> list[SessionRecord]:
        page = await self.parts.store.conversations.page(owner=OWNER)
        return [one for one in page.sessions if one.kind == "child"]

    async def find(self, session: str) -> SessionRecord:
        found: SessionRecord = await self.parts.store.conversations.get(session, owner=OWNER)
        return found


@asynccontextmanager
async def talking(folder: Path, **settings: Any) -> AsyncIterator[Talk]:
    async with running_gateway(folder, model=Spoken(), **{"agents": AGENTS, **settings}) as running:
        yield Talk(running)


def on_postgres(folder: Path) -> dict[str, Any]:
    """The settings of a gateway whose store is a PostgreSQL."""
    return {"store": {"url": schema_url(folder / "state"), "timeout": 30}}


def ask(task: str, agent: str = "reader") -> str:
    """A line that makes the model ask another agent."""
    return f"call ask_agent {msgspec.json.encode({'agent': agent, 'task': task}).decode()}"


def then(*rounds: str) -> str:
    return "\nthen\n".join(rounds)


async def last_text(talk: Talk, session: str = "s") -> str:
    """What the model has said last, once no session works any more."""
    await until(lambda: all_idle(talk, 2))
    await until(lambda: is_answered(talk, session))
    return str((await talk.parts.store.conversations.load(session, owner=OWNER))[-1].text)


async def all_idle(talk: Talk, count: int) -> bool:
    """Whether there are so many sessions, and none works."""
    states = [one.state for one in (await talk.parts.store.conversations.page(owner=OWNER)).sessions]
    return states == ["idle"] * count


async def is_answered(talk: Talk, session: str) -> bool:
    """Whether the last message of the session is an answer: a turn that goes on after a start is idle before it."""
    last = (await talk.parts.store.conversations.load(session, owner=OWNER))[-1]
    return isinstance(last, AssistantMessage) and not last.calls
