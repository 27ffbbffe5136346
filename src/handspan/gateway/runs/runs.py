"""Runs of clients that may have tools of their own: begun, suspended at their calls, resumed, stopped (SPEC F1)."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Final, Protocol, TypeAlias

from msgspec import Struct

from handspan.agent.conversation import Conversation
from handspan.agent.refusals import SessionBusy
from handspan.agent.requests import GIVEN_UP, NOTHING_TO_DO, AddForTurn
from handspan.agent.sessions import Sessions
from handspan.agent.turn_events import SessionEvent
from handspan.core.calls import CallRecord
from handspan.core.errors import HandspanError, NotYours
from handspan.core.events import Ended
from handspan.core.messages import AssistantMessage, UserMessage
from handspan.core.store import Store
from handspan.core.tasks import Tasks
from handspan.core.titles import make_title
from handspan.engine.engine import Engine
from handspan.gateway.runs.client import RunClient
from handspan.gateway.runs.results import AnsweredCall, GivenResult, ResultReader, ResultsRefused
from handspan.gateway.runs.tool_sets import NO_TOOLS, ToolSet, ToolSets, tool_names, tool_set_id
from handspan.gateway.runs.wishes import RunWishes, turn_as_wished
from handspan.registry.registry import Registry
from handspan.sources.graph import GraphTool, GraphTools
from handspan.sources.offers import OfferRules

_COMMIT_SECONDS: Final = 0.05
"""The person's message is on the disk after this time, however long the model takes."""
_LAST_SECONDS: Final = 1.0
"""How long work that is nearly done may take when the gateway is closed."""


class RunPlace(Struct, frozen=True):
    """Where a run takes place."""

    session: str
    removed: int
    """How many messages were removed from the session so far."""
    is_new: bool = False
    """Whether the session begins with this run."""
    resumes: bool = False
    """Whether the run goes on after calls of the client."""


class RunListener(Protocol):
    """Listens to a run, for one request. Its methods never block."""

    def begin(self, conversation: Conversation, tools: Mapping[str, GraphTool]) -> None:
        """Note the conversation and the client's tools, by their names for models, of the turn that begins."""

    def on_event(self, event: SessionEvent, turn: str) -> None:
        """Take one event of the session."""


ListenTo: TypeAlias = Callable[[RunPlace], Awaitable[RunListener]]
"""Returns the listener of a run, before the run begins."""


class HistoryRefused(HandspanError):
    """A session that has messages takes no history of a client (SPEC H1)."""


class Runs:
    """Begins and resumes runs. A run belongs to the gateway: it does not end with its request."""

    def __init__(
        self, store: Store, engine: Engine, sessions: Sessions, registry: Registry, *, rules: OfferRules, expires: float
    ) -> None:
        """`rules`: what clients may offer. `expires`: seconds for a call of a tool without a timeout of its own."""
        self._store, self._engine, self._sessions, self._registry = store, engine, sessions, registry
        self.tools = GraphTools(registry, rules, expires)
        self.tool_sets = ToolSets(store.browser_tools, self.tools, rules.limits.tools)
        self._results = ResultReader(store.ledger)
        self._tasks = Tasks()
        self.start = self._tasks.start
        """Starts work that goes on when its request ends."""
        self.hold = self._tasks.hold
        """Lets a task that has begun go on when its request ends."""

    async def close(self) -> None:
        """Wait a second for work that is nearly done, and cancel the rest."""
        await self._tasks.close(_LAST_SECONDS)

    # Writes of a short run are committed together: a request waits for the disk once, at its end.

    async def say(
        self,
        client: RunClient,
        wishes: RunWishes,
        message: UserMessage,
        listen: ListenTo,
        *,
        history: Sequence[UserMessage | AssistantMessage] = (),
        before: Sequence[UserMessage] = (),
        replaces: int = 0,
        join: bool = False,
    ) -> Ended:
        """Run the turn that answers this message, after calls of an earlier one are given up. Return its end.

        `history`: messages that a new session begins with. `before`, `replaces` and `join` are those of `Session.say`.
        Raises `HistoryRefused`, `OffersRefused` or `TurnRefused`.
        """
        # A unit of work does not collect the removal of messages.
        async with nullcontext() if replaces else self._store.unit_of_work(_COMMIT_SECONDS):
            bound = await self._sessions.bind(wishes.session or None, client.who, agent=wishes.agent)
            if history and bound.message_count:
                raise HistoryRefused("A history is taken only where a session begins.")
            place = RunPlace(bound.session_id, bound.removed, is_new=bound.message_count == 0)
            tools = await self._tools_of(client, wishes)
            listener = await listen(place)
            # No step between these two may wait: see `Chats`.
            handle = self._sessions.get(place.session, client.owner).say(
                client.who,
                message,
                listener.on_event,
                agent=wishes.agent,
                name=make_title([message]) if history else "",
                kind=wishes.kind,
                join=join,
                add_for_turn=self._add_for_turn(client, wishes, place.session, listener, tools=tools),
                gives_up=True,
                history=history,
                before=before,
                replaces=replaces,
            )
            return await handle.wait_for_end()

    async def retry(self, client: RunClient, wishes: RunWishes, listen: ListenTo) -> Ended:
        """Answer the person's last message of the session again, and return the end. Raises as `say` does.

        It removes messages, which no unit of work collects.
        """
        known = await self._store.conversations.get(wishes.session, owner=client.owner)
        tools = await self._tools_of(client, wishes)
        listener = await listen(RunPlace(known.id, known.removed))
        add_for_turn = self._add_for_turn(client, wishes, known.id, listener, tools=tools)
        session = self._sessions.get(known.id, client.owner)
        return await session.regenerate(client.who, listener.on_event, add_for_turn=add_for_turn).wait_for_end()

    async def resume(
        self, client: RunClient, wishes: RunWishes, results: Sequence[GivenResult], listen: ListenTo
    ) -> Ended:
        """Give the calls their results, and resume their run. Return its end.

        Results that are repeated, because their answer was lost with an earlier process, resume their run too
        (graph.md 5.6). Raises `ResultsRefused`, `OffersRefused` or `TurnRefused`.
        """
        async with self._store.unit_of_work(_COMMIT_SECONDS):
            try:
                answered = await self._results.read(results, client, wishes.session)
            except ResultsRefused as refused:
                return await self._resume_cut_off(client, wishes, results, refused, listen=listen)
            return await self._resume_answered(client, wishes, results, answered, listen=listen)

    async def go_on(self, client: RunClient, session_id: str, wishes: RunWishes, listen: ListenTo) -> Ended:
        """Run the rest of a turn that was cut off or has failed, and return its end. Raises as `say` does."""
        known = await self._store.conversations.get(session_id, owner=client.owner)
        tools = await self._tools_of(client, wishes)
        listener = await listen(RunPlace(known.id, known.removed, resumes=True))
        add_for_turn = self._add_for_turn(client, wishes, known.id, listener, tools=tools)
        session = self._sessions.get(known.id, client.owner)
        return await session.resume(client.who, listener.on_event, add_for_turn, cut_off=True).wait_for_end()

    async def stop(self, client: RunClient, session_id: str) -> bool:
        """End the run of this session, at work or suspended. Return False when there is none of this owner."""
        was_running = await self._sessions.abort_anywhere(session_id, client.owner)
        try:
            if await self._store.conversations.find(session_id, owner=client.owner) is None:
                return was_running
        except NotYours:
            return False
        try:  # a run that was stopped before it resumed is still suspended
            session = self._sessions.get(session_id, client.owner)
            return await session.give_up(client.who).wait_for_end() is GIVEN_UP or was_running
        except SessionBusy:
            if was_running:
                return True
            raise

    async def open_calls(self, client: RunClient, session_id: str) -> list[CallRecord]:
        """Return the calls that wait for this client in this session."""
        records = await self._store.ledger.open_calls(owner=client.owner, session=session_id)
        return [record for record in records if record.state == "pending" and client.runs(record)]

    async def own_name(self, client: RunClient, record: CallRecord) -> str:
        """Return the client's own name of the tool of this call, which was sent to the client."""
        tools = await self.tool_sets.of_run(client.id, None, tool_set_id(record.tool.origin))
        return tool_names(tools.tools).get(record.name, record.name)

    async def _resume_answered(
        self,
        client: RunClient,
        wishes: RunWishes,
        results: Sequence[GivenResult],
        answered: Sequence[AnsweredCall],
        *,
        listen: ListenTo,
    ) -> Ended:
        """Resume the turn that waits for these calls with their results. Raises `ResultsRefused` if another has."""
        place, listener, add_for_turn = await self._prepare_resumed(client, wishes, answered[0].record, listen)
        are_taken = False

        async def take() -> bool:
            nonlocal are_taken
            are_taken = await self._settle(answered)
            return are_taken

        session = self._sessions.get(place.session, client.owner)
        ended = await session.resume(client.who, listener.on_event, add_for_turn, take).wait_for_end()
        if ended is NOTHING_TO_DO and not are_taken:
            await self._results.read(results, client, wishes.session)  # its refusal names the call
            text = "Another request has answered one of these calls meanwhile: each can be answered only once."
            raise ResultsRefused("answered", text)
        return ended

    async def _resume_cut_off(
        self,
        client: RunClient,
        wishes: RunWishes,
        results: Sequence[GivenResult],
        refused: ResultsRefused,
        *,
        listen: ListenTo,
    ) -> Ended:
        """Resume a run that the end of an earlier process cut off. Raises `refused` when there is no such run."""
        repeated = await self._results.find_repeated(results, client)
        if repeated is None or not self._sessions.may_be_cut_off(repeated.session):
            raise refused
        place, listener, add_for_turn = await self._prepare_resumed(client, wishes, repeated, listen)
        session = self._sessions.get(place.session, client.owner)
        ended = await session.resume(client.who, listener.on_event, add_for_turn, cut_off=True).wait_for_end()
        if ended is NOTHING_TO_DO:
            raise refused
        return ended

    async def _prepare_resumed(
        self, client: RunClient, wishes: RunWishes, record: CallRecord, listen: ListenTo
    ) -> tuple[RunPlace, RunListener, AddForTurn]:
        """Return the place and the listener of a run that goes on after this call, and what its turn gets."""
        known = await self._store.conversations.get(record.session, owner=client.owner)
        place = RunPlace(known.id, known.removed, resumes=True)
        tools = await self._tools_of(client, wishes, tool_set_id(record.tool.origin))
        listener = await listen(place)
        return place, listener, self._add_for_turn(client, wishes, known.id, listener, tools=tools)

    async def _settle(self, answered: Sequence[AnsweredCall]) -> bool:
        """Give the calls their results, all or none (graph.md 5.3). Return False when one of them is closed."""
        if len(answered) > 1:  # the engine itself refuses a single one
            for one in answered:
                record = await self._store.ledger.find(one.record.id)
                if record is None or record.state != "pending":
                    return False
        results = [await self._engine.settle(one.record.id, one.outcome) for one in answered]
        return None not in results

    async def _tools_of(self, client: RunClient, wishes: RunWishes, begun_with: str = "") -> ToolSet:
        """Return the client's tools. `begun_with`: the id of the set with which a resumed run has begun."""
        if wishes.tools is not None and not len(wishes.tools):
            return NO_TOOLS
        return await self.tool_sets.of_run(client.id, wishes.tools, begun_with)

    def _add_for_turn(
        self, client: RunClient, wishes: RunWishes, session_id: str, listener: RunListener, *, tools: ToolSet
    ) -> AddForTurn:
        """Return a block that registers the client's tools for one turn, which is as the client wishes."""
        origin = tools.origin(client.id, session_id)

        @contextmanager
        def add_for_turn(conversation: Conversation) -> Iterator[None]:
            with (
                self.tools.register(tools.tools, conversation.agent.nodes, origin, session_id) as registered,
                self._add_answer(wishes, session_id),
                turn_as_wished(conversation, wishes, registered),
            ):
                listener.begin(conversation, registered)
                yield

        return add_for_turn

    @contextmanager
    def _add_answer(self, wishes: RunWishes, session_id: str) -> Iterator[None]:
        """Open a block in which the session's turn has the tool for its final answer, if the client wants a form."""
        if wishes.answer is None:
            yield
            return
        with wishes.answer.registered(self._registry, session_id):
            yield
