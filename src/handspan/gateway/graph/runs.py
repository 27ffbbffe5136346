"""Runs of clients over HTTP: begun, suspended at calls of the client's tools, and resumed (graph.md 4, 5)."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from msgspec import Struct, structs

from handspan.agent.conversation import Conversation
from handspan.agent.refusals import SessionBusy
from handspan.agent.requests import GIVEN_UP, NOTHING_TO_DO, AddForTurn
from handspan.agent.sessions import Sessions
from handspan.core.artifacts import Artifacts
from handspan.core.calls import CallRecord
from handspan.core.errors import NotYours
from handspan.core.events import Ended, EndReason
from handspan.core.messages import UserMessage
from handspan.core.principals import Principal
from handspan.core.question_rights import person
from handspan.core.store import Store
from handspan.core.tasks import Tasks
from handspan.core.titles import make_title
from handspan.engine.engine import Engine
from handspan.gateway.entry.auth import Admitted
from handspan.gateway.graph.listener import RunListener, RunOutput
from handspan.gateway.graph.renderer import MessageNumbers, MessageRenderer
from handspan.gateway.graph.requests import AnsweredCall, ResultReader, is_call_of, read_history, read_user_message
from handspan.gateway.graph.tool_sets import ToolSet, ToolSets, tool_set_id
from handspan.gateway.http.refusals import Refusal
from handspan.sources.graph import GraphTools
from handspan.wire.graph.answers import Meta, RunStatus
from handspan.wire.graph.faults import BodyError, Detail
from handspan.wire.graph.messages import WRONG_ROLE
from handspan.wire.graph.requests import RunRequest

_ID_LENGTH: Final = 16
"""Characters of a token's hash that make the client's id: enough to tell clients apart, and useless as a token."""
_COMMIT_SECONDS: Final = 0.05
"""The person's message is on the disk after this time, however long the model takes."""
_LAST_SECONDS: Final = 1.0
"""How long work that is nearly done may take when the gateway is closed."""
_STATUS: Final[dict[EndReason, RunStatus]] = {
    "pending": "interrupted",
    "limit": "limit",
    "errors": "limit",
    "aborted": "stopped",
}


class GraphClient(Struct, frozen=True):
    """The client of a request: the owner of its token, and an id made from the token."""

    who: Principal
    id: str

    @classmethod
    def of(cls, admitted: Admitted) -> "GraphClient":
        """Return the client that authentication let in. Raises `Refusal` when its token may not chat."""
        admitted.require("chat")
        return cls(admitted.who, admitted.token[:_ID_LENGTH])


class RunState(Struct, frozen=True):
    """The state of a run when its request is over."""

    meta: Meta


class GraphRuns:
    """Begins and resumes runs. A run belongs to the gateway: it does not end with its request."""

    def __init__(
        self,
        store: Store,
        engine: Engine,
        artifacts: Artifacts,
        sessions: Sessions,
        tools: GraphTools,
        book: ToolSets,
    ) -> None:
        self._store = store
        self._engine = engine
        self._artifacts = artifacts
        self._sessions = sessions
        self._tools = tools
        self._tool_sets = book
        self._results = ResultReader(store.ledger, artifacts)
        self._tasks = Tasks()
        self.start = self._tasks.start
        """Starts work that goes on when its request ends."""
        self.hold = self._tasks.hold
        """Lets a task that has begun go on when its request ends."""

    async def close(self) -> None:
        """Wait a second for work that is nearly done, and cancel the rest."""
        await self._tasks.close(_LAST_SECONDS)

    async def run(self, client: GraphClient, run_request: RunRequest, out: RunOutput) -> RunState:
        """Begin or resume a run, and send its messages to `out`. Return the state of the run.

        Raises `Refusal`, `TurnRefused` or `BodyError`. Writes of a short run are committed together: the request
        waits for the disk once, at its end.
        """
        if run_request.config.retry and not run_request.results:  # it removes messages, which no unit of work collects
            return await self._finish(client, *await self._retry(client, run_request, out))
        async with self._store.unit_of_work(_COMMIT_SECONDS):
            if run_request.results:
                listener, ended = await self._resume(client, run_request, out)
            else:
                message, listener, add_for_turn = await self._prepare(client, run_request, out)
                history = await read_history(run_request.history, self._artifacts, client.who.owner)
                session = self._sessions.get(listener.thread, client.who.owner)
                handle = session.say(
                    client.who,
                    message,
                    listener.on_event,
                    agent=run_request.config.agent,
                    name=make_title([message]) if history else "",
                    add_for_turn=add_for_turn,
                    gives_up=True,
                    history=history,
                )
                ended = await handle.end()
        return await self._finish(client, listener, ended)

    async def stop(self, client: GraphClient, thread: str) -> bool:
        """End the run of this thread, at work or suspended. Return False when there is none of this owner."""
        was_running = await self._sessions.abort_anywhere(thread, client.who.owner)
        try:
            if await self._store.conversations.find(thread, owner=client.who.owner) is None:
                return was_running
        except NotYours:
            return False
        try:  # a run that was stopped before it resumed is still suspended
            session = self._sessions.get(thread, client.who.owner)
            return await session.give_up(client.who).end() is GIVEN_UP or was_running
        except SessionBusy:
            if was_running:
                return True
            raise

    async def open_calls(self, client: GraphClient, thread: str) -> list[str]:
        """Return the ids of the calls that wait for this client in this thread."""
        records = await self._store.ledger.open_calls(owner=client.who.owner, session=thread)
        return [record.id for record in records if record.state == "pending" and is_call_of(record, client.id)]

    async def _prepare(
        self, client: GraphClient, run_request: RunRequest, out: RunOutput
    ) -> tuple[UserMessage, RunListener, AddForTurn]:
        """Return the person's message, the listener of its turn, and the tools of the turn."""
        who, config = client.who, run_request.config
        message = await read_user_message(run_request.user_content, self._artifacts, who.owner)
        bound = await self._sessions.bind(config.thread_id or None, who, agent=config.agent)
        thread = bound.session_id
        if run_request.history and bound.message_count:
            raise _history_refusal(run_request)
        tools = await self._tool_sets.of_run(client.id, run_request.tools)
        numbers = await self._numbers(thread, who.owner, bound.removed)
        listener = RunListener(MessageRenderer(thread), numbers, out, person(who), resumes=False)
        listener.is_new = bound.message_count == 0
        return message, listener, self._tools_for_turn(client, thread, tools, run_request, listener)

    async def _retry(self, client: GraphClient, run_request: RunRequest, out: RunOutput) -> tuple[RunListener, Ended]:
        """Answer the person's last message of the thread again (graph.md 4.10). Return its listener and its end."""
        thread, owner = run_request.config.thread_id, client.who.owner
        known = await self._store.conversations.get(thread, owner=owner)
        messages = await self._store.conversations.load(thread, owner=owner)
        left = max((seq for seq, message in enumerate(messages, 1) if isinstance(message, UserMessage)), default=0)
        # What follows the person's message is removed: new messages get numbers after those.
        stay = (await self._store.threads.numbers(thread, owner=owner))[:left]
        numbers = MessageNumbers(stay, known.removed + known.length - left)
        tools = await self._tool_sets.of_run(client.id, run_request.tools)
        listener = RunListener(MessageRenderer(thread), numbers, out, person(client.who), resumes=False)
        add_for_turn = self._tools_for_turn(client, thread, tools, run_request, listener)
        session = self._sessions.get(thread, owner)
        return listener, await session.regenerate(client.who, listener.on_event, add_for_turn=add_for_turn).end()

    async def _resume(self, client: GraphClient, run_request: RunRequest, out: RunOutput) -> tuple[RunListener, Ended]:
        """Give the calls their results and resume their run. Return its listener and its end."""
        who = client.who
        try:
            thread, answered = await self._results.read(run_request, owner=who.owner, client=client.id)
        except Refusal as refused:
            return await self._resume_cut_off(client, run_request, out, refused)
        listener, add_for_turn = await self._prepare_resumed(client, run_request, out, thread, answered[0].record)
        are_taken = False

        async def take() -> bool:
            nonlocal are_taken
            are_taken = await self._settle(answered)
            return are_taken

        ended = await self._sessions.get(thread, who.owner).resume(who, listener.on_event, add_for_turn, take).end()
        if ended is NOTHING_TO_DO and not are_taken:
            await self._results.read(run_request, owner=who.owner, client=client.id)  # its refusal names the call
            text = "Another request has answered one of these calls meanwhile: each can be answered only once."
            raise Refusal(422, "GRAPH_ANSWERED_CALL", text)
        return listener, ended

    async def _resume_cut_off(
        self, client: GraphClient, run_request: RunRequest, out: RunOutput, refused: Refusal
    ) -> tuple[RunListener, Ended]:
        """Resume a run that the end of an earlier process cut off, for a client that repeats its results.

        Raises `refused` when there is no such run (graph.md 5.6).
        """
        repeated = await self._results.read_repeated(run_request, owner=client.who.owner, client=client.id)
        if repeated is None or not self._sessions.may_be_cut_off(repeated[0]):
            raise refused
        thread, record = repeated
        listener, add_for_turn = await self._prepare_resumed(client, run_request, out, thread, record)
        session = self._sessions.get(thread, client.who.owner)
        ended = await session.resume(client.who, listener.on_event, add_for_turn, cut_off=True).end()
        if ended is NOTHING_TO_DO:
            raise refused
        return listener, ended

    async def _prepare_resumed(
        self, client: GraphClient, run_request: RunRequest, out: RunOutput, thread: str, record: CallRecord
    ) -> tuple[RunListener, AddForTurn]:
        """Return the listener of a run that goes on after this call, and the tools that it began with."""
        tools = await self._tool_sets.of_run(client.id, run_request.tools, tool_set_id(record.tool.origin))
        known = await self._store.conversations.get(thread, owner=client.who.owner)
        numbers = await self._numbers(thread, client.who.owner, known.removed)
        listener = RunListener(MessageRenderer(thread), numbers, out, person(client.who), resumes=True)
        return listener, self._tools_for_turn(client, thread, tools, run_request, listener)

    async def _numbers(self, thread: str, owner: str, removed: int) -> MessageNumbers:
        return (
            MessageNumbers(await self._store.threads.numbers(thread, owner=owner), removed)
            if removed
            else MessageNumbers()
        )

    async def _settle(self, answered: Sequence[AnsweredCall]) -> bool:
        """Give the calls their results, all or none (graph.md 5.3). Return False when one of them is closed."""
        if len(answered) > 1:  # the engine itself refuses a single one
            for one in answered:
                record = await self._store.ledger.find(one.record.id)
                if record is None or record.state != "pending":
                    return False
        results = [await self._engine.settle(one.record.id, one.outcome) for one in answered]
        return None not in results

    def _tools_for_turn(
        self, client: GraphClient, thread: str, tools: ToolSet, run_request: RunRequest, listener: RunListener
    ) -> AddForTurn:
        """Return a block that registers the client's tools for one turn, and limits its rounds as the client wants."""
        origin = tools.origin(client.id, thread)

        @contextmanager
        def add_for_turn(conversation: Conversation) -> Iterator[None]:
            limits = conversation.limits
            with self._tools.register(tools.tools, conversation.agent.nodes, origin, thread) as registered:
                conversation.limits = structs.replace(
                    limits, rounds=_smaller(limits.rounds, run_request.recursion_limit)
                )
                listener.begin(conversation, registered)
                try:
                    yield
                finally:
                    conversation.limits = limits

        return add_for_turn

    async def _finish(self, client: GraphClient, listener: RunListener, ended: Ended) -> RunState:
        """Send the open calls, and return the state of the run. Raises `Refusal` for a run that failed."""
        if ended.reason == "error":
            raise Refusal(500, "GRAPH_ERROR", ended.text)
        thread, owner = listener.thread, client.who.owner
        await listener.suspend(self._store.ledger, client.id)
        opened = listener.open
        if ended.reason == "pending" and not opened:  # other results of the round are still missing (graph.md 5.4)
            opened = await self.open_calls(client, thread)
        known = await self._store.conversations.find(thread, owner=owner)
        status = _STATUS.get(ended.reason, "completed")
        if ended is NOTHING_TO_DO and (known is None or known.state != "waiting"):
            status = "stopped"  # another request ended the run before it could resume
        meta = Meta(
            is_new_thread=listener.is_new,
            thread_id=thread,
            thread_name=(known.name or None) if known else None,
            run_id=listener.run or listener.resumed_run,
            status=status,
            open_calls=opened,
        )
        return RunState(meta)


def _history_refusal(run_request: RunRequest) -> BodyError:
    """Return why a thread that has messages takes no history (SPEC H1)."""
    roles = [message.role for message in run_request.history]
    place, role = next((place, role) for place, role in enumerate(roles) if role != "user")
    text = f"{WRONG_ROLE.format(role=role)} A history is taken only where a thread begins."
    return BodyError([Detail(["body", run_request.key, str(place), "role"], text, "value_error")])


def _smaller(own: int | None, other: int) -> int:
    """Return the smaller limit of rounds (SPEC H1)."""
    return other if own is None else min(own, other)
