"""The journal: every call of the caller, with its result and what was heard of it later (SPEC E8)."""

import asyncio
from datetime import datetime
from typing import Final

from msgspec import UnsetType, structs

from handspan.core.calls import CallRecord
from handspan.core.results import Failure, ToolResult
from handspan.core.values import Json
from handspan.gateway.http.calls import wait_for_first
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.http.routing import moment
from handspan.gateway.rest.call_events import as_envelope
from handspan.gateway.rest.route import Family, Visit
from handspan.wire.rest.calls import (
    CallEnvelope,
    CallPage,
    CallQuery,
    ListedCall,
    ShownCallRecord,
    ShownNote,
    WaitQuery,
)

family: Final = Family("calls")

_MOMENT: Final = 0.25
"""Seconds that a call may take from its request to the ledger."""


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
        await wait_for_first(running.task, seconds=query.wait or _MOMENT)  # the ledger will know it, but does not yet
    record = await ledger.get(call_id, owner=visit.owner)
    if query.wait and record.state != "done":
        await _wait(visit, call_id, query.wait)
        record = await ledger.get(call_id, owner=visit.owner)
    return await _shown(visit, record)


async def _wait(visit: Visit, call_id: str, seconds: float) -> None:
    running = visit.doors.at_work.find(call_id)
    if running is not None:
        await wait_for_first(running.task, seconds=seconds)
        return
    waiting = asyncio.ensure_future(visit.doors.app.engine.result(call_id))
    try:
        await wait_for_first(waiting, seconds=seconds)
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
        raise Refusal(422, "invalid_request", text)
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


def _envelope(result: ToolResult | UnsetType) -> CallEnvelope | None:
    return None if isinstance(result, UnsetType) else as_envelope(result)


def _arguments(record: CallRecord) -> Json:
    match record.arguments:
        case bytes():
            return record.arguments.decode(errors="replace")
        case str():
            return record.arguments
        case _:
            return dict(record.arguments)
