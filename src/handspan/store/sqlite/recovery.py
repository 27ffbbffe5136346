"""Closing honestly what a process left half done (SPEC A2, E2).

Accepted and no question open: never handed out, `interrupted`. Started: `unknown_outcome`, unless it was handed to
somebody who can come back with the outcome. What waits for such a one, a person or a browser stays open until its time
is over. A turn that was running is closed, not continued, or waits with its calls.
"""

import sqlite3
from collections.abc import Iterable, Set
from typing import Final

import msgspec

from handspan.core.calls import UNKNOWN_TOOL, CallRecord
from handspan.core.messages import AssistantMessage, CallPart, CallResult, Message, ResultsMessage
from handspan.core.records import Recovery
from handspan.core.results import Failure, ToolResult, encode_envelope
from handspan.store.sqlite.conversations import append_work
from handspan.store.sqlite.ledger import enter_done
from handspan.store.sqlite.questions import expire_questions
from handspan.store.sqlite.rows import RECORD, record_of

_message: Final = msgspec.json.Decoder(Message)


class Closing:
    """One pass over everything that is open, within one transaction."""

    def __init__(self, connection: sqlite3.Connection, now: float, lost: Set[str]) -> None:
        """`lost`: the leases whose processes are gone (`lost_leases`)."""
        self._connection = connection
        self._now = now
        self._lost = lost

    def recover(self) -> Recovery:
        """Close all that nobody works on any more."""
        interrupted, unknown, repeatable, expired, waiting = [], [], [], [], []
        for record, run in self._open_calls():
            failure = self._verdict(record, run)
            if failure is None:
                if record.state != "started" or self._let_wait(record, run):
                    waiting.append(record.id)
                continue
            self._close(record, failure)
            if failure.code == "interrupted":
                interrupted.append(record.id)
            elif record.state == "started":
                unknown.append(record.id)
                repeatable += [record.id] if record.tool.read_only else []
            else:
                expired.append(record.id)
        closed = [session for session in self._abandoned_sessions() if self._close_turn(*session)]
        return Recovery(
            tuple(interrupted),
            tuple(unknown),
            tuple(repeatable),
            tuple(expired),
            tuple(waiting),
            tuple(session for session, _, _ in closed),
        )

    def expire(self) -> tuple[str, ...]:
        """Close only what waited too long; the ids of the calls."""
        late = [
            (record, failure)
            for record, run in self._open_calls()
            if record.state != "started"
            and (failure := self._verdict(record, run)) is not None
            and failure.code != "interrupted"
        ]
        for record, failure in late:
            self._close(record, failure)
        return tuple(record.id for record, _ in late)

    def _open_calls(self) -> list[tuple[CallRecord, str | None]]:
        rows = self._connection.execute(f"SELECT {RECORD}, run FROM calls WHERE state <> 'done' ORDER BY at, id")
        return [(record_of(row[:-1]), row[-1]) for row in rows.fetchall()]

    def _is_alive(self, run: str | None) -> bool:
        return run is not None and run not in self._lost

    def _verdict(self, record: CallRecord, run: str | None) -> Failure | None:
        """How this call ends; None when it goes on."""
        if record.state == "accepted":
            return self._unless_answerable(record, run)
        is_late = record.expires_at is not None and record.expires_at <= self._now
        if (
            record.state == "pending" and record.tool.answered_by == "connection"
        ):  # one clock for whoever waits for its client
            return _came_too_late(record) if is_late else None
        if self._is_alive(run):  # it has a clock of its own there
            return None
        if record.state == "started":
            return None if record.tool.outlives and not is_late else _unknown_outcome(record)
        return _came_too_late(record) if is_late else None

    def _let_wait(self, record: CallRecord, run: str | None) -> bool:
        """A started call whose process is gone: who was asked may still answer. False when its process lives."""
        if self._is_alive(run):
            return False
        self._connection.execute("UPDATE calls SET state = 'pending' WHERE id = ?", (record.id,))
        return True

    def _unless_answerable(self, record: CallRecord, run: str | None) -> Failure | None:
        sql = "SELECT answer IS NULL AND expires_at <= ? FROM questions WHERE call_id = ?"
        late = [row[0] for row in self._connection.execute(sql, (self._now, record.id))]
        if any(late):
            return Failure("question_expired", f"Nobody answered in time whether {record.name!r} may run: it did not.")
        return None if late or self._is_alive(run) else _interrupted(record.name)

    def _close(self, record: CallRecord, failure: Failure) -> None:
        sql = "UPDATE calls SET state = 'done', run = NULL, result = ? WHERE id = ?"
        self._connection.execute(sql, (encode_envelope(failure), record.id))
        expire_questions(record.id, self._now, self._connection)

    # Turns.

    def _abandoned_sessions(self) -> list[tuple[str, str, int]]:
        """Id, owner and length of the sessions whose turn nobody runs any more."""
        rows = self._connection.execute(
            "SELECT id, owner, length, run FROM sessions WHERE state = 'running'"
        ).fetchall()
        return [(session, owner, length) for session, owner, length, run in rows if not self._is_alive(run)]

    def _close_turn(self, session: str, owner: str, length: int) -> bool:
        """Pair the conversation again. False when some of its calls are still open: the turn waits for them."""
        calls = self._last_calls(session, length)
        results = [self._result(call, session, owner) for call in calls]
        is_waiting = None in results
        if calls and not is_waiting:
            answers = ResultsMessage(tuple(map(_answer, calls, (result for result in results if result is not None))))
            append_work(session, (answers,), owner, self._now)(self._connection)
        state = "waiting" if is_waiting else "idle"
        self._connection.execute("UPDATE sessions SET state = ?, run = NULL WHERE id = ?", (state, session))
        return not is_waiting

    def _last_calls(self, session: str, length: int) -> Iterable[CallPart]:
        sql = "SELECT body FROM messages WHERE session = ? AND seq = ?"
        row = self._connection.execute(sql, (session, length)).fetchone()
        last = None if row is None else _message.decode(row[0])
        return last.calls if isinstance(last, AssistantMessage) else ()

    def _result(self, call: CallPart, session: str, owner: str) -> ToolResult | None:
        """What the ledger has; a call that nobody knows was never handed out, and is known from now on."""
        sql = f"SELECT {RECORD} FROM calls WHERE id = ? AND owner = ?"
        row = self._connection.execute(sql, (call.id, owner)).fetchone()
        if row is None:
            failure = _interrupted(call.name)
            record = CallRecord(call.id, call.name, UNKNOWN_TOOL, call.arguments, owner, session, "", self._now)
            enter_done(record, failure, self._connection)
            expire_questions(call.id, self._now, self._connection)
            return failure
        result = record_of(row).result
        return None if isinstance(result, msgspec.UnsetType) else result


def _answer(call: CallPart, result: ToolResult) -> CallResult:
    is_error = isinstance(result, Failure)
    attachments = () if isinstance(result, Failure) else result.attachments
    return CallResult(call.id, call.name, encode_envelope(result).decode(), is_error, attachments)


def _interrupted(name: str) -> Failure:
    return Failure("interrupted", f"The gateway stopped before {name!r} was run: it is safe to call it again.")


def _unknown_outcome(record: CallRecord) -> Failure:
    text = f"The gateway stopped while {record.name!r} was running, and nobody knows what came of it."
    return Failure("unknown_outcome", f"{text} {_advice(record)}")


def _came_too_late(record: CallRecord) -> Failure:
    if record.tool.answered_by == "connection":  # ws.md 6.7 j: it was handed out, and may have run
        text = f"{record.name!r} was handed to its client, and no answer came in time: nobody knows what came of it."
        return Failure("unknown_outcome", f"{text} {_advice(record)}")
    return Failure("timeout", f"No outcome of {record.name!r} came in time: nobody waits for it any more.")


def _advice(record: CallRecord) -> str:
    return "It only reads: call it again." if record.tool.read_only else "Look before you call it again."
