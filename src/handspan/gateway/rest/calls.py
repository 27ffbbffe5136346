"""The journal of calls (SPEC E8), the cancel of a call that runs, and the tokens that models used (SPEC M6).

`calling.py` runs a call.
"""

import asyncio
from datetime import datetime
from typing import Final

from msgspec import UnsetType, structs

from handspan.core.calls import AskingModel, CallRecord
from handspan.core.children import asking_call
from handspan.core.records import CallFilter
from handspan.core.results import Failure, Success, ToolResult
from handspan.core.values import Json, strip_invisible
from handspan.gateway.http.calls import wait_for_first
from handspan.gateway.http.files import BINARY
from handspan.gateway.http.message import AsgiResponse
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.http.routing import moment
from handspan.gateway.rest.artifacts import respond_attachment
from handspan.gateway.rest.call_events import render_result
from handspan.gateway.rest.route import Family, RestRequest
from handspan.wire.rest import calls as wire

family: Final = Family("calls")

_NO_MODEL: Final = AskingModel("")
_MOMENT: Final = 0.25
"""Seconds until a call that has begun is in the ledger."""


@family.get("/api/calls")
async def calls(request: RestRequest, query: wire.CallQuery) -> wire.CallPage:
    """The caller's calls, the newest first."""
    wanted = CallFilter(
        session=query.session or None,
        tool=query.tool or None,
        origin=query.origin or None,
        status=query.status or None,
        since=_seconds(query.since, "since"),
        until=_seconds(query.until, "until"),
    )
    found, after = await request.store.ledger.page(
        wanted, owner=request.owner, limit=query.limit, after=query.after or None
    )
    return wire.CallPage([_render_listed(record) for record in found], after)


@family.get("/api/calls/timings")
async def timings(request: RestRequest, query: wire.TimingQuery) -> wire.TimingList:
    """How long each tool took, over all calls of the caller that are in the journal."""
    wanted = CallFilter(query.session or None, query.tool or None, query.origin or None)
    return wire.TimingList(list(await request.store.ledger.timings(wanted, owner=request.owner)))


@family.get("/api/calls/{call_id}")
async def call(request: RestRequest, call_id: str, query: wire.WaitQuery) -> wire.CallRecordView:
    """One call. With `wait`, the answer waits so many seconds for the call's result."""
    ledger, running = request.store.ledger, request.rest.running_calls.find(call_id)
    if running is not None and running.owner == request.owner and await ledger.find(call_id) is None:
        # The call has begun, and is not in the ledger yet.
        await wait_for_first(running.task, seconds=query.wait or _MOMENT)
    record = await ledger.get(call_id, owner=request.owner)
    if query.wait and record.state != "done":
        await _wait(request, call_id, query.wait)
        record = await ledger.get(call_id, owner=request.owner)
    return await _render_record(request, record)


@family.get("/api/calls/{call_id}/files/{index}", media_type=BINARY)
async def call_file(request: RestRequest, call_id: str, index: str) -> AsgiResponse:
    """An image, a sound or a file of the call's result: `attachments` of the result lists them, counted from 0."""
    result = (await request.store.ledger.get(call_id, owner=request.owner)).result
    return await respond_attachment(request, result.attachments if isinstance(result, Success) else (), index)


@family.post("/api/calls/{call_id}/cancel", also_refuses=(409,))
async def cancel(request: RestRequest, call_id: str) -> wire.CallRecordView:
    """Cancel a call that a request began, also while it waits for a person. A call that is over stays as it ended.

    The call of a turn is refused (409): it ends with its turn, which `/api/sessions/{session_id}/abort` stops.
    """
    ledger, running = request.store.ledger, request.rest.running_calls.find(call_id)
    if running is not None and running.owner == request.owner:
        running.task.cancel()
        await asyncio.wait([running.task], timeout=request.rest.wait_seconds)
        return await _render_record(request, await ledger.get(call_id, owner=request.owner))
    record = await ledger.get(call_id, owner=request.owner)
    if isinstance(record.result, UnsetType) and record.session:
        text = f"The call {call_id} belongs to a turn: stop that with POST /api/sessions/{record.session}/abort."
        raise Refusal(409, "call_of_a_turn", text)
    if isinstance(record.result, UnsetType):
        open_questions = await request.parts.questions.open_for(owner=request.owner, session="")
        await request.app.engine.cancel(call_id)
        record = await ledger.get(call_id, owner=request.owner)
        if record.state == "done":
            request.parts.questions.withdraw([one for one in open_questions if one.call_id == call_id])
    return await _render_record(request, record)


@family.get("/api/usage", tag="usage")
async def usage(request: RestRequest, query: wire.UsageQuery) -> wire.UsageList:
    """The tokens that replies to the caller used, summed by session, model, agent or day."""
    sums = await request.store.usage.sums(
        query.by, owner=request.owner, session=query.session or None, since=query.since
    )
    return wire.UsageList(query.by, list(sums))


async def _wait(request: RestRequest, call_id: str, seconds: float) -> None:
    """Wait so many seconds for the result of a call, which may run here or wait in the ledger."""
    running = request.rest.running_calls.find(call_id)
    if running is not None:
        await wait_for_first(running.task, seconds=seconds)
        return
    waiting = asyncio.ensure_future(request.app.engine.result(call_id))
    try:
        await wait_for_first(waiting, seconds=seconds)
    finally:
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


def _seconds(instant: str | UnsetType, of: str) -> float | None:
    """Return a time in seconds since 1970; None when it is not given. Raises `Refusal` for a wrong one."""
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


def _render_listed(record: CallRecord) -> wire.ListedCall:
    """Return the call as the list shows it."""
    asked_by = record.asked_by or _NO_MODEL
    return wire.ListedCall(
        record.id,
        record.name,
        str(record.tool.origin or ""),
        record.tool.version,
        session=record.session,
        parent=asking_call(record.session),
        agent=record.agent,
        state=record.state or "done",
        status=_status(record),
        at=moment(record.at),
        duration=record.duration,
        waited=record.waited,
        model=strip_invisible(asked_by.model),
        in_place_of=asked_by.in_place_of,
        reason=strip_invisible(asked_by.reason),
    )


async def _render_record(request: RestRequest, record: CallRecord) -> wire.CallRecordView:
    """Return the whole call, with its arguments, its result and what came after it."""
    listed = structs.asdict(_render_listed(record))
    notes = await request.store.ledger.notes(record.id, owner=request.owner)
    return wire.CallRecordView(
        **listed,
        arguments=_arguments(record),
        result=_envelope(record.result),
        true_result=_envelope(record.true_result),
        expires_at=None if record.expires_at is None else moment(record.expires_at),
        notes=[wire.NoteView(moment(note.at), note.text) for note in notes],
        internal=record.tool.internal,
    )


def _envelope(result: ToolResult | UnsetType) -> wire.CallEnvelope | None:
    return None if isinstance(result, UnsetType) else render_result(result)


def _arguments(record: CallRecord) -> Json:
    match record.arguments:
        case bytes():
            return record.arguments.decode(errors="replace")
        case str():
            return record.arguments
        case _:
            return dict(record.arguments)
