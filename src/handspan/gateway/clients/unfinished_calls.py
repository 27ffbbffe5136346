"""Calls that an earlier process of this gateway, or a lost node, had sent to a client (ws.md 6.7 i, j).

The client of such a call can come back, or is an MCP server that another node runs.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import structs

from handspan.core.artifacts import Artifacts
from handspan.core.calls import CallRecord
from handspan.core.context import Deadline, ToolContext, no_progress
from handspan.core.errors import ToolError
from handspan.core.principals import Principal
from handspan.core.questions import Answer, Question, ToolQuestion
from handspan.core.results import Failure, ToolResult
from handspan.core.store import Store
from handspan.core.tasks import Tasks
from handspan.engine.engine import Engine
from handspan.engine.questions import QUESTION_TIMEOUT
from handspan.gateway.sessions.questions import AwaitedQuestions
from handspan.sources.ws.calls import LostCall, Outcome, RemoteCall, RemoteCalls
from handspan.sources.ws.logins import await_login
from handspan.sources.ws.outcome import read_outcome

_log = logging.getLogger(__name__)

ResumeTurn = Callable[[str, str], Awaitable[None]]
"""Resumes the turn of a session: session, owner."""


class UnfinishedCalls:
    """Waits for the clients of unfinished calls, until the call's own deadline or the end of the grace time.

    A call whose person was asked to log in waits for that first, as long as the question does.
    """

    def __init__(
        self,
        engine: Engine,
        store: Store,
        questions: AwaitedQuestions,
        artifacts: Artifacts,
        workspace: Path,
        resume_turn: ResumeTurn,
    ) -> None:
        self._engine = engine
        self._store = store
        self._questions = questions
        self._artifacts = artifacts
        self._workspace = workspace
        self._resume_turn = resume_turn
        self._calls: dict[str, list[tuple[RemoteCall, float | None]]] = {}
        """For each peer its calls, each with the time when the call expires; by the peer's id."""
        self._taken_over: dict[str, RemoteCalls] = {}
        """For each call whose client is back, all calls of that client; by the id of the call."""
        self._tasks = Tasks()
        self._in_login: set[asyncio.Task[Any] | None] = set()
        """The tasks that wait for a person."""
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._known: set[str] = set()
        """The ids of all calls that wait here."""

    async def open(self, grace: float) -> Sequence[CallRecord]:
        """Wait for the outcomes of the calls that other processes left open. Return those that are new here."""
        taken = await self._store.ledger.take_over_calls()
        records = [record for record in taken if record.id not in self._known]
        self._known.update(record.id for record in records)
        logins = await self._open_logins({record.owner for record in records})
        for record in records:
            assert record.tool.origin is not None
            left = grace if record.expires_at is None else min(grace, record.expires_at - self._store.ledger.now())
            arguments = record.arguments if isinstance(record.arguments, dict) else {}
            call = RemoteCall(record.id, "", arguments, None)
            call.known_as, call.owner = record.name, record.owner
            call.outcome.add_done_callback(partial(self._on_outcome, call, record))
            self._calls.setdefault(record.tool.origin.connection, []).append((call, record.expires_at))
            if record.id in logins:
                call.is_in_login = True
                self._tasks.start(self._await_earlier_login(call, record, logins[record.id]))
            else:
                call.was_sent = True  # only the earlier process knew: this one must assume it
                self._set_deadline(call, left)
        return records

    @property
    def awaited_peers(self) -> Sequence[str]:
        """The ids of the peers that calls wait for."""
        return tuple(self._calls)

    def take_over(self, peer: str, calls: RemoteCalls) -> None:
        """Let a client that is back answer its calls."""
        for call in self.take(peer):
            self._taken_over[call.id] = calls
            call.outcome.add_done_callback(partial(_forget, calls, call))
            calls.ask(call)

    def take(self, peer: str) -> Sequence[RemoteCall]:
        """Return the calls that wait for this client, which is back. From now on only their own time limits them."""
        waiting = [(call, until) for call, until in self._calls.pop(peer, ()) if not call.outcome.done()]
        for call, until in waiting:
            if not call.is_in_login:
                self._cancel_timer(call)
                call.deadline = None
                if until is not None:
                    self._set_deadline(call, until - self._store.ledger.now())
        return [call for call, _ in waiting]

    async def close(self) -> None:
        """Stop waiting. The calls stay open in the ledger."""
        for timer in self._timers.values():
            timer.cancel()
        self._calls.clear()
        for task in self._in_login:
            if task is not None:
                task.cancel()
        await self._tasks.wait()

    def _set_deadline(self, call: RemoteCall, seconds: float) -> Deadline:
        """End the call after this time, if it has no answer then."""
        call.deadline = Deadline(time.monotonic() + seconds, "the tool's own limit")
        lost = partial(_lose, call)
        self._cancel_timer(call)
        self._timers[call.id] = asyncio.get_running_loop().call_later(max(0.0, seconds), lost)
        return call.deadline

    def _cancel_timer(self, call: RemoteCall) -> None:
        timer = self._timers.pop(call.id, None)
        if timer is not None:
            timer.cancel()

    # The outcome.

    def _on_outcome(self, call: RemoteCall, record: CallRecord, _: object) -> None:
        self._cancel_timer(call)
        if not call.outcome.cancelled():
            self._tasks.start(self._settle(call, record))

    async def _settle(self, call: RemoteCall, record: CallRecord) -> None:
        try:
            await self._store_result(record, await self._result(call, record))
        except Exception:  # such as a model's fault or a full disk: the call stays open, and expires
            _log.exception("The call %s of %r could not be settled", record.id, record.name)

    async def _store_result(self, record: CallRecord, result: ToolResult) -> None:
        self._taken_over.pop(record.id, None)
        self._known.discard(record.id)
        await self._engine.settle(record.id, result)
        if record.session:
            await self._resume_turn(record.session, record.owner)

    async def _result(self, call: RemoteCall, record: CallRecord) -> ToolResult:
        """Return the result of a call that goes on, once its client answers."""
        ctx = ToolContext(
            record.id,
            Principal(record.owner),
            record.session,
            None,
            progress=no_progress,
            artifacts=self._artifacts,
            workspace=self._workspace,
        )
        try:
            return await read_outcome(await self._answer_after_login(call, record), record.name, ctx)
        except ToolError as error:
            return Failure(error.code, error.message)

    # Logins (ws.md 5.13).

    async def _answer_after_login(self, call: RemoteCall, record: CallRecord) -> Outcome:
        """Return the client's answer. If it wants a login, the person is asked first."""
        answer, calls = call.outcome.result(), self._taken_over.get(call.id)
        if calls is None or not calls.wants_login(answer):
            return answer

        async def ask(tool_question: ToolQuestion) -> Answer:
            answer = await self._questions.ask(_question(record, tool_question, call.retry))
            if answer.decision == "allow":
                await self._prolong(record)
            return answer

        try:
            with self._waits_for_person():
                deadline = partial(self._set_deadline, call, _allowance(record))
                return await await_login(answer, call, calls, record.name, ask=ask, deadline=deadline)
        finally:
            self._cancel_timer(call)
            calls.forget(call)

    async def _await_earlier_login(self, call: RemoteCall, record: CallRecord, question: Question) -> None:
        """Wait for the answer to a question that an earlier process asked; then the client runs the call again."""
        with self._waits_for_person():
            answer = await self._questions.ask(question)
        if call.outcome.done():  # the client is gone for good
            return
        if answer.decision == "allow":
            await self._prolong(record)
            deadline = self._set_deadline(call, _allowance(record))
            calls = self._taken_over.get(call.id)
            if calls is None:  # the client is not back yet: it gets the call when it connects
                call.leave_login(deadline)
            else:
                calls.retry(call, deadline)
        else:
            hint = "" if question.action is None else question.action.hint
            call.is_in_login = False
            call.outcome.cancel()
            await self._store_result(record, Failure("auth_required", f"{question.subject} — {hint}"))

    async def _prolong(self, record: CallRecord) -> None:
        """Let the call expire later: the time of the person does not count."""
        await self._store.ledger.suspend(
            structs.replace(record, expires_at=self._store.ledger.now() + _allowance(record))
        )

    @contextmanager
    def _waits_for_person(self) -> Iterator[None]:
        """Open a block in which the task waits for a person: `close` cancels the task then."""
        task = asyncio.current_task()
        self._in_login.add(task)
        try:
            yield
        finally:
            self._in_login.discard(task)

    async def _open_logins(self, owners: Set[str]) -> dict[str, Question]:
        """Return the open questions for a login, by the id of their call."""
        open_questions = [one for owner in owners for one in await self._questions.open_for(owner=owner)]
        return {
            question.call_id: question for question in open_questions if question.kind == "login" and question.call_id
        }


def _lose(call: RemoteCall) -> None:
    call.end(LostCall(call.was_sent, "The gateway was restarted, and no answer came in time"))


def _allowance(record: CallRecord) -> float:
    """Return the seconds that the client has for the call after a login: as many as it had for the call before."""
    return QUESTION_TIMEOUT if record.expires_at is None else max(1.0, record.expires_at - record.at)


def _question(record: CallRecord, tool_question: ToolQuestion, retry: int) -> Question:
    """Return the question whether the person will log in, for a call that goes on after a restart."""
    return Question(
        id=f"{record.id}/login/again/{retry}",
        kind=tool_question.kind,
        call_id=record.id,
        tool=record.name,
        arguments=record.arguments if isinstance(record.arguments, dict) else {},
        subject=tool_question.subject,
        owner=record.owner,
        session=record.session,
        fingerprint="",
        expires_in=QUESTION_TIMEOUT,
        action=tool_question.action,
        agent=record.agent,
    )


def _forget(calls: RemoteCalls, call: RemoteCall, _: object) -> None:
    calls.forget(call)
