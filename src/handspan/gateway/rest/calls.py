"""The journal: every call of the caller, with its result and what was heard of it later (SPEC E8)."""

import asyncio
from datetime import datetime
from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, structs

from handspan.core.calls import CallRecord, CallState
from handspan.core.records import CallStatus
from handspan.core.results import Failure, ToolResult
from handspan.core.values import Json
from handspan.gateway.rest.at_work import first_of
from handspan.gateway.rest.envelopes import Envelope, as_envelope
from handspan.gateway.rest.errors import Problem
from handspan.gateway.rest.route import Family, Visit
from handspan.gateway.rest.shown import After, Limit, SessionId, moment

family: Final = Family("calls")

_MOMENT: Final = 0.25
"""Seconds that a call may take from its request to the ledger."""
Instant = Annotated[str, Meta(max_length=64, extra_json_schema={"format": "date-time"})]


class CallQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which calls."""

    session: SessionId = ""
    tool: Annotated[str, Meta(max_length=200)] = ""
    status: Literal[""] | CallStatus = ""
    """`error` is every code."""
    since: Instant | UnsetType = UNSET
    """Those that began then or later."""
    until: Instant | UnsetType = UNSET
    """Those that began earlier."""
    limit: Limit = 50
    after: After = ""


class ListedCall(Struct, frozen=True):
    """One call in a list."""

    id: str
    tool: str
    origin: str
    """As `device(phone)`; empty where there was no such tool."""
    version: str
    session: str
    agent: str
    state: CallState
    status: str
    """`success`, the code of its error, or `open`."""
    at: str
    duration: float
    """Seconds."""


class CallPage(Struct, frozen=True):
    """Calls, the last one first."""

    calls: list[ListedCall]
    next: str | None
    """Where the next page begins; null at the end."""


class ShownNote(Struct, frozen=True):
    """What was heard after the call had ended."""

    at: str
    text: str


class ShownCallRecord(Struct, frozen=True):
    """All that is known of one call."""

    id: str
    tool: str
    origin: str
    version: str
    session: str
    agent: str
    state: CallState
    status: str
    at: str
    duration: float
    arguments: Json
    """An object; the text as it came where it was none."""
    result: Envelope | None
    """Null while the call is open."""
    true_result: Envelope | None
    """What the tool answered, where a hook put something else in its place."""
    expires_at: str | None
    notes: list[ShownNote]


class WaitQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """How long to wait for a call that is still open."""

    wait: Annotated[float, Meta(ge=0, le=25, description="Seconds.")] = 0.0


@family.get("/api/calls")
async def calls(visit: Visit, query: CallQuery) -> CallPage:
    """The caller's calls, the last one first."""
    found, after = await visit.doors.store.ledger.page(
        owner=visit.owner,
        session=query.session or None,
        tool=query.tool or None,
        status=query.status or None,
        since=_seconds(query.since, "since"),
        until=_seconds(query.until, "until"),
        limit=query.limit,
        after=query.after or None,
    )
    return CallPage([_listed(record) for record in found], after)


@family.get("/api/calls/{call_id}")
async def call(visit: Visit, call_id: str, query: WaitQuery) -> ShownCallRecord:
    """One call; with `wait` its result, if that comes in time."""
    ledger, running = visit.doors.store.ledger, visit.doors.at_work.find(call_id)
    if running is not None and running.owner == visit.owner and await ledger.find(call_id) is None:
        await first_of(running.task, seconds=query.wait or _MOMENT)  # the ledger will know it, but does not yet
    record = await ledger.get(call_id, owner=visit.owner)
    if query.wait and record.state != "done":
        await _wait(visit, call_id, query.wait)
        record = await ledger.get(call_id, owner=visit.owner)
    return await _shown(visit, record)


async def _wait(visit: Visit, call_id: str, seconds: float) -> None:
    running = visit.doors.at_work.find(call_id)
    if running is not None:
        await first_of(running.task, seconds=seconds)
        return
    waiting = asyncio.ensure_future(visit.doors.app.engine.result(call_id))
    try:
        await first_of(waiting, seconds=seconds)
    finally:
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


def _seconds(instant: str | UnsetType, of: str) -> float | None:
    if isinstance(instant, UnsetType):
        return None
    try:
        read = datetime.fromisoformat(instant)
    except ValueError:
        read = None
    if read is None or read.tzinfo is None:
        text = f"{of!r} has to be a time with its zone, as 2026-01-31T12:00:00Z, not {instant!r}."
        raise Problem(422, "invalid_request", text)
    return read.timestamp()


def _status(record: CallRecord) -> str:
    if isinstance(record.result, UnsetType):
        return "open"
    return record.result.code if isinstance(record.result, Failure) else "success"


def _listed(record: CallRecord) -> ListedCall:
    return ListedCall(
        record.id,
        record.name,
        str(record.tool.origin or ""),
        record.tool.version,
        record.session,
        record.agent,
        record.state or "done",
        _status(record),
        moment(record.at),
        record.duration,
    )


async def _shown(visit: Visit, record: CallRecord) -> ShownCallRecord:
    listed = structs.asdict(_listed(record))
    notes = await visit.doors.store.ledger.notes(record.id, owner=visit.owner)
    return ShownCallRecord(
        **listed,
        arguments=_arguments(record),
        result=_envelope(record.result),
        true_result=_envelope(record.true_result),
        expires_at=None if record.expires_at is None else moment(record.expires_at),
        notes=[ShownNote(moment(note.at), note.text) for note in notes],
    )


def _envelope(result: ToolResult | UnsetType) -> Envelope | None:
    return None if isinstance(result, UnsetType) else as_envelope(result)


def _arguments(record: CallRecord) -> Json:
    match record.arguments:
        case bytes():
            return record.arguments.decode(errors="replace")
        case str():
            return record.arguments
        case _:
            return dict(record.arguments)
