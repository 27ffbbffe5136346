"""What happens to the unfinished work of a process that is gone (SPEC A2, E2).

- An accepted call without an open question never ran: it gets `interrupted`.
- A started call gets `unknown_outcome`, unless its client can come back with the outcome: then it stays open. A started
  call that only reads and waits for a person stays open, too: it runs again from its beginning when the person has
  answered, and gets the answer under the same id.
- A call that waits for a client, a person or a page stays open until its time is over. While a person is asked to log
  in for a client's call, the time of that call stands still.
- What a request to a model has reserved of a budget is released.
- A question that a request to a model waited for, as for more money, is over: no request waits for its answer.
- The runs of schedules go on in this process (SPEC J1).
- A running turn is closed, not continued, and has an end that says so (SPEC L7); or it waits for its open calls.
"""

from collections import defaultdict
from collections.abc import AsyncIterator, Container, Set
from typing import Final

import msgspec

from handspan.core.calls import UNKNOWN_TOOL, CallRecord, can_wait
from handspan.core.events import GATEWAY_LOST, TurnEnd
from handspan.core.messages import AssistantMessage, CallPart, CallResult, Message, ResultsMessage, UserMessage
from handspan.core.records import Recovery
from handspan.core.results import Failure, ToolResult, encode_envelope
from handspan.core.schedules import ClaimedRun
from handspan.core.titles import make_title
from handspan.core.values import encode, sanitize
from handspan.store.tables.budgets import RELEASE_LOST
from handspan.store.tables.calls import enter_done
from handspan.store.tables.database import TableConnection
from handspan.store.tables.messages import append_messages
from handspan.store.tables.questions import EXPIRED, expire_questions
from handspan.store.tables.rows import RECORD, decode_record
from handspan.store.tables.schedules import take_over_runs
from handspan.store.tables.turns import store_end

_EXPIRE_WITHOUT_CALL: Final = (
    "UPDATE questions SET answer = ?, answered_at = ? WHERE session = ? AND call_id = '' AND answer IS NULL"
)
_message: Final = msgspec.json.Decoder(Message)


class UnfinishedWork:
    """The open calls and turns, in one transaction. The column `run` holds the lease of the process at work."""

    def __init__(
        self,
        connection: TableConnection,
        now: float,
        lost: Set[str | None],
        ids_with_result: Container[str] = (),
        own: str = "",
    ) -> None:
        """`lost`: the leases of processes that are gone (`lost_leases`). `own`: that of this process.

        `ids_with_result`: the calls whose result this process is about to write. They are left alone.
        """
        self._connection = connection
        self._now = now
        self._lost = lost
        self._ids_with_result = ids_with_result
        self._own = own

    async def recover(self) -> Recovery:
        """Close everything that no process works on."""
        found = defaultdict[str, list[str]](list)
        """Ids by the fields of `Recovery`."""
        for record, lease in await self._open_calls():
            failure = await self._failure_of(record, lease)
            if failure is None:
                if record.state != "started" or await self._let_wait(record, lease):
                    found["waiting"].append(record.id)
                continue
            await self._close(record, failure)
            if failure.code == "interrupted":
                found["interrupted"].append(record.id)
            elif record.state == "started":
                found["unknown_outcome"].append(record.id)
                if record.tool.read_only:
                    found["repeatable"].append(record.id)
            else:
                found["expired"].append(record.id)
        for session, owner, length in await self._abandoned_sessions():
            await self._connection.execute(_EXPIRE_WITHOUT_CALL, (encode(EXPIRED), self._now, session))
            if await self._close_turn(session, owner, length):
                found["closed"].append(session)
        runs: list[ClaimedRun] = []
        for lease in self._lost:
            if lease is not None:
                await self._connection.execute(RELEASE_LOST, (lease,))
                runs += await take_over_runs(lease, self._own, self._connection)
        answered = tuple([one async for one in self._answered_sessions()])
        return Recovery(**{field: tuple(ids) for field, ids in found.items()}, answered=answered, runs=tuple(runs))

    async def expire(self) -> tuple[str, ...]:
        """Close only the calls that waited too long, and return their ids."""
        late = [
            (record, failure)
            for record, lease in await self._open_calls()
            if record.state != "started"
            and (failure := await self._failure_of(record, lease)) is not None
            and failure.code != "interrupted"
        ]
        for record, failure in late:
            await self._close(record, failure)
        return tuple(record.id for record, _ in late)

    async def _open_calls(self) -> list[tuple[CallRecord, str | None]]:
        """Return every call without a result, with its lease. Leave out calls whose result is about to be written."""
        sql = f"SELECT {RECORD}, run AS lease FROM calls WHERE state <> 'done' ORDER BY at, id"
        rows = await self._connection.fetch_all(sql)
        found = [(decode_record(tuple(fields)), lease) for *fields, lease in rows]
        return [(record, lease) for record, lease in found if record.id not in self._ids_with_result]

    def _is_alive(self, lease: str | None) -> bool:
        return lease is not None and lease not in self._lost

    async def _failure_of(self, record: CallRecord, lease: str | None) -> Failure | None:
        """Return the failure with which this call ends; None if it stays open."""
        if record.state == "accepted":
            return await self._failure_of_accepted(record, lease)
        # Any process may end a call that waits too long for its client: all compare with the same stored time.
        is_for_any = record.state == "pending" and record.tool.answered_by == "connection"
        if self._is_alive(lease) and not is_for_any:  # the process at work ends the call itself
            return None
        is_late = record.expires_at is not None and record.expires_at <= self._now
        if can_wait(record, is_late=is_late):
            return None
        if can_wait(record, is_late=is_late, is_asking=await self._is_asking(record)):
            return None
        return _unknown_outcome(record) if record.state == "started" else _too_late(record)

    async def _let_wait(self, record: CallRecord, lease: str | None) -> bool:
        """Let a started call of a lost process wait for its client, or for a person.

        Return False, and change nothing, if its process lives.
        """
        if self._is_alive(lease):
            return False
        state = "pending" if record.tool.outlives else "accepted"
        await self._connection.execute("UPDATE calls SET state = ? WHERE id = ?", (state, record.id))
        return True

    async def _is_asking(self, record: CallRecord) -> bool:
        """Whether the call waits for a person."""
        sql = "SELECT 1 FROM questions WHERE call_id = ? AND answer IS NULL AND expires_at > ?"
        return await self._connection.fetch_one(sql, (record.id, self._now)) is not None

    async def _failure_of_accepted(self, record: CallRecord, lease: str | None) -> Failure | None:
        """Return the failure of a call that never began; None while it waits for a person, or its process lives."""
        sql = "SELECT answer IS NULL AND expires_at <= ? FROM questions WHERE call_id = ?"
        has_expired = [row[0] for row in await self._connection.fetch_all(sql, (self._now, record.id))]
        if any(has_expired):
            text = f"No person answered in time whether {record.name!r} may run: it did not run."
            return Failure("question_expired", text)
        waits = can_wait(record, is_asking=bool(has_expired)) or self._is_alive(lease)
        return None if waits else _interrupted_failure(record.name)

    async def _close(self, record: CallRecord, failure: Failure) -> None:
        """End a call with this failure, and close its questions."""
        sql = "UPDATE calls SET state = 'done', run = NULL, result = ? WHERE id = ?"
        await self._connection.execute(sql, (encode_envelope(failure), record.id))
        await expire_questions(record.id, self._now, self._connection)

    # Turns.

    async def _abandoned_sessions(self) -> list[tuple[str, str, int]]:
        """Return id, owner and length of the sessions whose turn no process runs."""
        rows = await self._connection.fetch_all("SELECT id, owner, length, run FROM sessions WHERE state = 'running'")
        return [(session, owner, length) for session, owner, length, lease in rows if lease in self._lost]

    async def _answered_sessions(self) -> AsyncIterator[tuple[str, str]]:
        """Yield id and owner of the sessions that wait for calls which all have their results.

        Their process ended between the last result and the rest of the turn. A turn that waits for a page is left to
        that page, which sends its results again (graph.md 5.6).
        """
        sql = "SELECT id, owner, open_calls FROM sessions WHERE state = 'waiting' AND open_calls IS NOT NULL"
        for session, owner, opened in await self._connection.fetch_all(sql):
            records = [await self._find_record(call, owner) for call in msgspec.json.decode(opened)]
            if all(one is not None and one.state == "done" and one.tool.answered_by != "request" for one in records):
                yield session, owner

    async def _close_turn(self, session: str, owner: str, length: int) -> bool:
        """Add the results of the last calls, and end the turn.

        Return False if some calls are still open: then the turn waits for them.
        """
        last = await self._find_message(session, length)
        calls = last.calls if isinstance(last, AssistantMessage) else ()
        results = [await self._find_result(call, session, owner) for call in calls]
        is_waiting = None in results
        if calls and not is_waiting:
            answers = ResultsMessage(
                tuple(map(_call_result, calls, (result for result in results if result is not None)))
            )
            await append_messages(session, (answers,), owner, self._now)(self._connection)
        state = "waiting" if is_waiting else "idle"
        await self._connection.execute("UPDATE sessions SET state = ?, run = NULL WHERE id = ?", (state, session))
        if not is_waiting and (calls or isinstance(last, UserMessage | ResultsMessage)):  # no whole answer
            await store_end(session, owner, TurnEnd("aborted", self._now, fault=GATEWAY_LOST), self._connection)
            await self._name(session)
        return not is_waiting

    async def _find_message(self, session: str, seq: int) -> Message | None:
        """Return the message with this sequence number; None if there is none."""
        sql = "SELECT body FROM messages WHERE session = ? AND seq = ?"
        row = await self._connection.fetch_one(sql, (session, seq))
        return None if row is None else _message.decode(row[0])

    async def _name(self, session: str) -> None:
        """Name a session that has no name by its first message, as at every end of a turn."""
        first = await self._find_message(session, 1)
        title = "" if first is None else make_title([first])
        sql = "UPDATE sessions SET name = ?, name_indexed = FALSE WHERE id = ? AND name = ''"
        await self._connection.execute(sql, (sanitize(title), session))

    async def _find_result(self, call: CallPart, session: str, owner: str) -> ToolResult | None:
        """Return the stored result, or None while the call is open.

        A call that the ledger does not know never ran: enter it as interrupted.
        """
        stored = await self._find_record(call.id, owner)
        if stored is None:
            failure = _interrupted_failure(call.name)
            record = CallRecord(
                call.id, call.name, UNKNOWN_TOOL, call.arguments, owner=owner, session=session, agent="", at=self._now
            )
            await enter_done(record, failure, self._connection)
            await expire_questions(call.id, self._now, self._connection)
            return failure
        return None if isinstance(stored.result, msgspec.UnsetType) else stored.result

    async def _find_record(self, call: str, owner: str) -> CallRecord | None:
        row = await self._connection.fetch_one(f"SELECT {RECORD} FROM calls WHERE id = ? AND owner = ?", (call, owner))
        return None if row is None else decode_record(row)


def _call_result(call: CallPart, result: ToolResult) -> CallResult:
    is_error = isinstance(result, Failure)
    attachments = () if isinstance(result, Failure) else result.attachments
    text = encode_envelope(result).decode()
    return CallResult(call.id, call.name, text, is_error, attachments=attachments)


def _interrupted_failure(name: str) -> Failure:
    return Failure("interrupted", f"The gateway stopped before {name!r} was run: it is safe to call it again.")


def _unknown_outcome(record: CallRecord) -> Failure:
    text = f"The gateway stopped while {record.name!r} was running: its outcome is unknown."
    return Failure("unknown_outcome", f"{text} {_advice(record)}")


def _too_late(record: CallRecord) -> Failure:
    if record.tool.answered_by == "connection":  # ws.md 6.7 j: the client may have run it
        text = (
            f"{record.name!r} was sent to the program that runs it, and no answer came in time: its outcome is unknown."
        )
        return Failure("unknown_outcome", f"{text} {_advice(record)}")
    return Failure("timeout", f"No outcome of {record.name!r} came in time: the gateway does not wait for it any more.")


def _advice(record: CallRecord) -> str:
    return "It only reads: call it again." if record.tool.read_only else "Look before you call it again."
