"""Calls as rows: the works that enter, start, suspend and finish one, so that each gets one result (SPEC E2)."""

from typing import Final

from msgspec import Struct

from handspan.core.calls import CallRecord
from handspan.core.errors import ToolError
from handspan.core.results import ToolResult
from handspan.store.tables.database import TableConnection, Work
from handspan.store.tables.rows import ENTRY, OUTCOME, Row, entry_values, marks, outcome_values

_ENTER: Final = (
    f"INSERT INTO calls ({ENTRY}, state, run, expires_at) VALUES ({marks(ENTRY)}, ?, ?, ?) ON CONFLICT (id) DO NOTHING"
)
_ENTER_DONE: Final = (
    f"INSERT INTO calls ({ENTRY}, state, {OUTCOME}) VALUES ({marks(ENTRY)}, 'done', {marks(OUTCOME)})"
    " ON CONFLICT (id) DO NOTHING"
)
_START: Final = (
    "UPDATE calls SET state = 'started', tool = ?, arguments = ?, arguments_form = ?, run = ?, expires_at = ?,"
    " waited = ?, is_edited = ?"
    " WHERE id = ? AND state = 'accepted'"
)
_SUSPEND: Final = "UPDATE calls SET state = 'pending', expires_at = ? WHERE id = ? AND state IN ('started', 'pending')"
# A call that was refused because its id was used must not change the call that used the id first.
FINISH: Final = (
    f"UPDATE calls SET state = 'done', run = NULL, size = ?, ({OUTCOME}) = ({marks(OUTCOME)})"
    " WHERE id = ? AND at = ? AND owner = ? AND state <> 'done'"
)
# The start of a read-only call may be missing: the engine did not wait for its write.
FINISH_OR_ENTER: Final = (
    f"INSERT INTO calls ({ENTRY}, state, {OUTCOME}) VALUES ({marks(ENTRY)}, 'done', {marks(OUTCOME)})"
    " ON CONFLICT (id) DO UPDATE SET state = 'done', run = NULL, size = excluded.size, "
    + ", ".join(f"{column} = excluded.{column}" for column in OUTCOME.split(", "))
    + " WHERE calls.at = excluded.at AND calls.owner = excluded.owner AND calls.state <> 'done'"
)
_FIND_RESULT: Final = "SELECT result FROM calls WHERE id = ? AND at = ? AND owner = ?"


class EnterCall(Struct, frozen=True):
    """The work that enters a new call. Raises `ToolError` for a used id."""

    call_id: str
    values: Row
    """The values of `ENTRY`, then state, lease and expiry."""

    async def __call__(self, connection: TableConnection) -> None:
        if await connection.execute(_ENTER, self.values) == 0:
            raise used_id_error(self.call_id)


async def enter_done(record: CallRecord, result: ToolResult, connection: TableConnection) -> None:
    """Enter a call together with its result."""
    await EnterDone((*entry_values(record), *outcome_values(record, result)))(connection)


class EnterDone(Struct, frozen=True):
    """The work that enters a call together with its result. It returns False if the id is used."""

    values: Row

    async def __call__(self, connection: TableConnection) -> bool:
        return await connection.execute(_ENTER_DONE, self.values) == 1


class StartCall(Struct, frozen=True):
    """The work that starts an accepted call. Raises `ToolError` (`busy`) when the call has another state by now."""

    call_id: str
    values: Row
    """Tool, arguments and their form, lease, expiry, waited, is_edited; then the call's id."""

    async def __call__(self, connection: TableConnection) -> None:
        if await connection.execute(_START, self.values) == 0:
            raise ToolError("busy", f"The call {self.call_id!r} was started elsewhere, or has its result: look there.")


def start_call(record: CallRecord, lease: str) -> StartCall:
    """Return the work that starts this call."""
    call_id, _, _, _, _, tool, arguments, form, *_ = entry_values(record)
    consent = (record.waited, record.is_edited)
    return StartCall(record.id, (tool, arguments, form, lease, record.expires_at, *consent, call_id))


async def suspend_call(expires_at: float | None, call_id: str, connection: TableConnection) -> None:
    """Record that the outcome of a call comes later."""
    await connection.execute(_SUSPEND, (expires_at, call_id))


class FinishCall(Struct, frozen=True):
    """The work that stores a result. It returns False if the call has a result already."""

    statement: str
    values: Row
    key: Row
    """Id, time and owner of the call."""
    is_again: bool = False
    """Whether an earlier try failed: it may have stored this result all the same."""

    async def __call__(self, connection: TableConnection) -> bool:
        if await connection.execute(self.statement, self.values) == 1:
            return True
        row = await connection.fetch_one(_FIND_RESULT, self.key)
        # Without a row, the call was deleted with its session, or its id belongs to another call. The caller still gets
        # the result.
        return row is None or (self.is_again and row[0] is not None and bytes(row[0]) in self.values)


async def require_first(work: Work[bool], call_id: str, connection: TableConnection) -> None:
    """Store a result. Raise `ToolError` (`busy`) when the call has a result already."""
    if not await work(connection):
        raise ToolError("busy", f"The call {call_id!r} got its result elsewhere: load the session again.")


def used_id_error(call_id: str) -> ToolError:
    """Return the error for a call whose id was used before."""
    return ToolError("invalid_arguments", f"The call id {call_id!r} was used before: every call needs its own.")
