"""Runs of clients over HTTP: begun, suspended at calls of the client's tools, and gone on with (graph.md 4, 5)."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from msgspec import Struct, structs

from handspan.agent.conversation import Conversation
from handspan.agent.refusals import SessionBusy
from handspan.agent.session import GIVEN_UP, NOTHING_TO_DO, Equip
from handspan.agent.sessions import Sessions
from handspan.agent.tasks import Tasks
from handspan.core.artifacts import Artifacts
from handspan.core.errors import NotYours
from handspan.core.events import Ended, EndReason
from handspan.core.messages import UserMessage
from handspan.core.principals import Principal
from handspan.core.store import Store
from handspan.engine.engine import Engine
from handspan.gateway.entry.auth import Admitted
from handspan.gateway.graph.following import Following, Out
from handspan.gateway.graph.results import AnsweredCall, Results, is_of
from handspan.gateway.graph.saying import message_of
from handspan.gateway.graph.shown import Numbers, Shower
from handspan.gateway.graph.toolbook import ToolBook, ToolSet, set_of
from handspan.gateway.http.refusals import Refusal
from handspan.sources.graph import GraphTools
from handspan.wire.graph.answers import Meta, RunStatus
from handspan.wire.graph.requests import Asked

_CLIENT: Final = 16
"""So much of a token's hash names its client: enough to tell all apart, and nothing that opens anything."""
_WITHIN: Final = 0.05
"""Seconds in which what was said is on the disk, however long the model thinks."""
_STATUS: Final[dict[EndReason, RunStatus]] = {"pending": "interrupted", "limit": "limit", "aborted": "stopped"}


class GraphClient(Struct, frozen=True):
    """Who asks: a person's token, which is all that a request shows of a client."""

    who: Principal
    id: str

    @classmethod
    def of(cls, admitted: Admitted) -> "GraphClient":
        """Who was let in."""
        admitted.require("chat")
        return cls(admitted.who, admitted.token[:_CLIENT])


class RunState(Struct, frozen=True):
    """How a run stands when a request is over."""

    meta: Meta


class GraphRuns:
    """Begins runs and goes on with them. A run belongs to the gateway: it does not end with its request."""

    def __init__(
        self,
        store: Store,
        engine: Engine,
        artifacts: Artifacts,
        sessions: Sessions,
        tools: GraphTools,
        book: ToolBook,
    ) -> None:
        self._store = store
        self._engine = engine
        self._artifacts = artifacts
        self._sessions = sessions
        self._tools = tools
        self._book = book
        self._results = Results(store.ledger, artifacts)
        self._tasks = Tasks()
        self.start = self._tasks.start
        """Lets work go on whatever becomes of the request for it."""
        self.keep = self._tasks.add
        """The same for a task that has begun."""

    async def close(self) -> None:
        """Wait until those are over whose turns have ended."""
        left = set(self._tasks.left)
        if left:
            _, left = await asyncio.wait(left, timeout=1.0)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def run(self, client: GraphClient, asked: Asked, out: Out) -> RunState:
        """Do what a request asks, and show it; how the run stands then. `Refusal`, `TurnRefused`, `BodyError`.

        What a run writes is committed as one where it can be: a request then waits for the disk once, at its end.
        """
        async with self._store.unit_of_work(_WITHIN):
            if asked.results:
                following, ended = await self._go_on(client, asked, out)
            else:
                message, following, equip = await self._prepare(client, asked, out)
                session, agent = self._sessions.get(following.thread, client.who.owner), asked.config.agent
                handle = session.say(client.who, message, following.hear, agent=agent, equip=equip, gives_up=True)
                ended = await handle.end()
        return await self._run(client, following, ended)

    async def stop(self, client: GraphClient, thread: str) -> bool:
        """End what runs or waits in this thread; False when nothing does, or it is not the owner's. Then it is over."""
        was_running = self._sessions.abort(thread, client.who.owner)
        try:
            if await self._store.conversations.find(thread, owner=client.who.owner) is None:
                return was_running
        except NotYours:
            return False
        try:  # what was stopped before it had begun to go on still waits
            session = self._sessions.get(thread, client.who.owner)
            return await session.give_up(client.who).end() is GIVEN_UP or was_running
        except SessionBusy:
            if was_running:
                return True
            raise

    async def open_calls(self, client: GraphClient, thread: str) -> list[str]:
        """The ids of the calls that wait for this client in this thread."""
        records = await self._store.ledger.open_calls(owner=client.who.owner, session=thread)
        return [record.id for record in records if record.state == "pending" and is_of(record, client.id)]

    async def _prepare(self, client: GraphClient, asked: Asked, out: Out) -> tuple[UserMessage, Following, Equip]:
        """What is said, what hears the answer, and the tools for it."""
        who, config = client.who, asked.config
        message = await message_of(asked.said, self._artifacts, who.owner)
        bound = await self._sessions.bind(config.thread_id or None, who, agent=config.agent)
        thread = bound.session_id
        tools = await self._book.of_run(client.id, asked.tools)
        numbers = await self._numbers(thread, who.owner, bound.removed)
        following = Following(Shower(thread), numbers, out, resumes=False)
        following.is_new = bound.message_count == 0
        return message, following, self._equipment(client, thread, tools, asked, following)

    async def _go_on(self, client: GraphClient, asked: Asked, out: Out) -> tuple[Following, Ended]:
        who = client.who
        thread, answered = await self._results.read(asked, owner=who.owner, client=client.id)
        begun_with = set_of(answered[0].record.tool.origin)
        tools = await self._book.of_run(client.id, asked.tools, begun_with)
        known = await self._store.conversations.get(thread, owner=who.owner)
        numbers = await self._numbers(thread, who.owner, known.removed)
        following = Following(Shower(thread), numbers, out, resumes=True)
        equipment = self._equipment(client, thread, tools, asked, following)
        are_taken = False

        async def take() -> bool:
            nonlocal are_taken
            are_taken = await self._settle(answered)
            return are_taken

        ended = await self._sessions.get(thread, who.owner).resume(who, following.hear, equipment, take).end()
        if ended is NOTHING_TO_DO and not are_taken:
            await self._results.read(asked, owner=who.owner, client=client.id)  # it tells which, and why
            text = "Another request has answered one of these calls meanwhile: each can be answered only once."
            raise Refusal(422, "GRAPH_ANSWERED_CALL", text)
        return following, ended

    async def _numbers(self, thread: str, owner: str, removed: int) -> Numbers:
        return Numbers(await self._store.threads.numbers(thread, owner=owner), removed) if removed else Numbers()

    async def _settle(self, answered: Sequence[AnsweredCall]) -> bool:
        """Give the calls their results, all or none (graph.md 5.3); False when one of them waits no more."""
        if len(answered) > 1:  # one alone is refused by the engine
            for one in answered:
                record = await self._store.ledger.find(one.record.id)
                if record is None or record.state != "pending":
                    return False
        results = [await self._engine.settle(one.record.id, one.outcome) for one in answered]
        return None not in results

    def _equipment(self, client: GraphClient, thread: str, has: ToolSet, asked: Asked, following: Following) -> Equip:
        origin = has.origin(client.id, thread)

        @contextmanager
        def equip(conversation: Conversation) -> Iterator[None]:
            limits = conversation.limits
            with self._tools.register(has.tools, conversation.agent.nodes, origin, thread) as lent:
                conversation.limits = structs.replace(limits, rounds=_fewer(limits.rounds, asked.recursion_limit))
                following.equip(conversation, lent)
                try:
                    yield
                finally:
                    conversation.limits = limits

        return equip

    async def _run(self, client: GraphClient, following: Following, ended: Ended) -> RunState:
        if ended.reason == "error":
            raise Refusal(500, "GRAPH_ERROR", ended.text)
        thread, owner = following.thread, client.who.owner
        await following.suspend(self._store.ledger, client.id)
        opened = following.open
        if ended.reason == "pending" and not opened:  # some of the round are still missing (graph.md 5.4)
            opened = await self.open_calls(client, thread)
        known = await self._store.conversations.find(thread, owner=owner)
        status = _STATUS.get(ended.reason, "completed")
        if ended is NOTHING_TO_DO and (known is None or known.state != "waiting"):
            status = "stopped"  # somebody ended the run before it could go on
        meta = Meta(
            is_new_thread=following.is_new,
            thread_id=thread,
            thread_name=(known.name or None) if known else None,
            run_id=following.run or following.waited,
            status=status,
            open_calls=opened,
        )
        return RunState(meta)


def _fewer(own: int | None, asked: int) -> int:
    """SPEC H1: the smaller one ends the run."""
    return asked if own is None else min(own, asked)
