"""A program calls one tool: same engine and policy as for a model, the result's envelope as the answer."""

import asyncio
import time
from typing import Final, TypeAlias

from msgspec import UnsetType

from handspan.core.calls import CallRecord, ToolCall, new_call_id
from handspan.core.errors import StoreError
from handspan.core.questions import Question, waiting_text
from handspan.core.results import Pending, ToolResult, encode_envelope
from handspan.core.values import Json
from handspan.engine.caller import Caller
from handspan.gateway.http.calls import RunningCall, wait_for_first
from handspan.gateway.http.idempotency import fingerprint
from handspan.gateway.http.message import AsgiResponse
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.http.routing import PRIVATE
from handspan.gateway.http.streams import EVENTS, HEARTBEAT_SECONDS, StreamedResponse, StreamKind, preferred_stream
from handspan.gateway.rest.agents import find_agent
from handspan.gateway.rest.call_events import CallStream, render_result
from handspan.gateway.rest.route import Family, Reply, RestRequest
from handspan.wire.rest import calls as wire

family: Final = Family("tools")
_MOMENT: Final = 0.25
"""Seconds to wait after a question: a rule may answer it without a person. After so long, the ledger is asked again."""

_Wanted: TypeAlias = tuple[str, dict[str, Json], str, str]
"""Tool, arguments, agent and session."""


@family.post(
    "/api/tools/{name}/call",
    "tools",
    also={202: wire.PendingCall},
    also_refuses=(409, 503),
    size="large",
    streams=wire.CallEvent,
)
async def call_tool(
    request: RestRequest, name: str, body: wire.CallBody, headers: wire.CallHeaders
) -> wire.CallEnvelope | Reply | AsgiResponse:
    """Run one tool. 200 with the envelope, for an error of the tool too; 202 when its result comes later.

    With an `Idempotency-Key` the same request gets the stored result, even after a restart; another request under
    the same key is refused with 409. A call that was refused keeps its key: a new try needs a new one.

    With `Accept: text/event-stream` or `application/x-ndjson` the answer is a stream: `began`, then `progress` and
    `question` as they come, and at the end `result` or `pending`. It waits as long as the call takes, for a person
    too. When the client disconnects, the call is cancelled; it goes on with an `Idempotency-Key`, or with
    `Prefer: respond-async`.
    """
    agent, parts = await find_agent(request, body.agent), request.parts
    if body.session:
        await parts.sessions.find_record(body.session, request.owner)
    found: RunningCall | CallRecord | None = None
    call_id, key = new_call_id(), headers.idempotency_key
    wanted = (name, body.args, agent.name, body.session)
    if key:
        call_id = await parts.store.idempotency.call_id(request.owner, key)
        found = await _same_call(request, call_id, key, wanted)
    if found is None:
        if not request.rest.running_calls.is_open:
            raise Refusal(503, "stopping", "The gateway is being stopped: come back in a moment.")
        found = RunningCall(call_id, request.owner)
        box = parts.app.registry.toolbox(agent, request.who, body.session)
        known = box.find(name)
        if known is None or known.origin.kind == "plugin":
            await parts.app.refresh_tools()  # the tool's file may have come, or changed, a moment ago
        is_closing = request.rest.running_calls.is_closing
        caller = Caller(
            request.who,
            agent,
            box,
            body.session,
            progress=found.report,
            on_question=found.ask,
            goes_on_elsewhere=is_closing,
        )
        call = ToolCall(name, body.args, call_id, request=fingerprint(list(wanted)).hex() if key else "")
        found.task = asyncio.create_task(parts.app.engine.call(call, caller))
        request.rest.running_calls.add(found)
    kind = preferred_stream(request.asgi.headers.get("accept", ""))
    if kind is not None:
        return _stream(request, found, kind, goes_on=bool(key) or _prefers_async(headers.prefer))
    if isinstance(found, RunningCall):
        return await _answer(request, found)
    return _stored_reply(request, await _wait_for_result(request, found), [])


async def _same_call(request: RestRequest, call_id: str, key: str, wanted: _Wanted) -> RunningCall | CallRecord | None:
    """Return the call that this key began, at work or over; None: the call may begin.

    Raises `Refusal` when the key was used for another call.
    """
    known, mark = request.rest.asked_calls, fingerprint(list(wanted))
    record = await request.store.ledger.find(call_id)
    running = request.rest.running_calls.find(call_id)
    before = known.get(call_id)
    is_same = before == mark if before is not None else record is None or _is_request_of(record, wanted, mark)
    if not is_same:
        text = f"The key {key!r} was used for another call. Use a new one for this."
        raise Refusal(409, "idempotency_conflict", text)
    if running is None and record is None:
        known[call_id] = mark
    return running or record


def _is_request_of(record: CallRecord, wanted: _Wanted, mark: bytes) -> bool:
    """Whether this request began the call of the record. Records of earlier versions have only what ran."""
    if record.tool.request:
        return record.tool.request == mark.hex()
    return wanted == (record.name, record.arguments, record.agent, record.session)


async def _wait_for_result(request: RestRequest, record: CallRecord) -> CallRecord:
    """Return the record of a call that runs on another node, with its result if that comes while the request waits."""
    end, nodes = time.monotonic() + request.rest.wait_seconds, request.parts.nodes
    while record.state == "started" and time.monotonic() < end and await nodes.pause(_MOMENT):
        record = await request.store.ledger.find(record.id) or record
    return record


# As one answer.


async def _answer(request: RestRequest, running: RunningCall) -> Reply:
    """Return the result, if it comes while the request waits. The request does not wait for a person."""
    task = running.task
    await wait_for_first(task, running.first_question, seconds=request.rest.wait_seconds)
    if not task.done() and running.first_question.done():
        await wait_for_first(task, seconds=_MOMENT)
    record = await request.store.ledger.find(running.id)
    is_left = record is not None and record.state != "done"
    if task.cancelled() and not request.rest.running_calls.is_open and not is_left:
        raise Refusal(503, "stopping", f"The gateway stops, and the call {running.id} was cancelled. Try again later.")
    if record is not None:  # the ledger decides: another process may have used this id first
        if task.done():
            record = await _wait_for_result(request, record)
        return _stored_reply(request, record, running.questions)
    outcome = task.result() if task.done() and not task.cancelled() else Pending()
    if isinstance(outcome, Pending):
        return _pending_reply(request, running.id, running.questions)
    return _result_reply(request, running.id, outcome)


def _stored_reply(request: RestRequest, record: CallRecord, questions: list[Question]) -> Reply:
    if isinstance(record.result, UnsetType):
        return _pending_reply(request, record.id, questions)
    return _result_reply(request, record.id, record.result)


def _result_reply(request: RestRequest, call_id: str, result: ToolResult) -> Reply:
    return Reply(encode_envelope(result), headers=_location(request, call_id))


def _pending_reply(request: RestRequest, call_id: str, questions: list[Question]) -> Reply:
    waiting_for = [waiting_text(question) for question in questions]
    pending = wire.PendingCall("pending", call_id, _ids(questions), waiting_for)
    return Reply(pending, 202, _location(request, call_id))


def _ids(questions: list[Question]) -> list[str]:
    return [question.id for question in questions]


def _location(request: RestRequest, call_id: str) -> dict[str, str]:
    return {"location": f"{request.asgi.scope.get('root_path', '')}/api/calls/{call_id}"}


# As a stream.


def _prefers_async(prefer: str) -> bool:
    """Whether the header `Prefer` has `respond-async` (RFC 7240)."""
    return "respond-async" in (part.partition(";")[0].strip().lower() for part in prefer.split(","))


def _stream(
    request: RestRequest, found: RunningCall | CallRecord, kind: StreamKind, *, goes_on: bool
) -> StreamedResponse:
    """Return a stream of the call's events from now on. `goes_on`: the call goes on when the client leaves."""

    async def last() -> wire.CallEnded | wire.CallWaits:
        return await _last_event(request, found)

    stream = CallStream(kind, request.token_hash, last)
    stream.put(wire.CallBegan(found.id))
    if isinstance(found, RunningCall):
        found.watch(stream)
    else:
        stream.on_done()
    headers = {**PRIVATE, **_location(request, found.id)}
    leave = found.task.cancel if isinstance(found, RunningCall) and not goes_on else None
    heartbeat = HEARTBEAT_SECONDS if kind == EVENTS else None
    return StreamedResponse(stream, kind, headers, on_leave=leave, heartbeat=heartbeat)


async def _last_event(request: RestRequest, found: RunningCall | CallRecord) -> wire.CallEnded | wire.CallWaits:
    """Return the last event of a stream: the result, or that it comes later."""
    try:
        record = await request.store.ledger.find(found.id)
    except StoreError:  # the response has begun: its status can't change any more
        record = None
    if record is not None and not isinstance(record.result, UnsetType):
        return wire.CallEnded(render_result(record.result))
    if isinstance(found, RunningCall) and record is None and not found.task.cancelled():
        outcome = found.task.result()
        if not isinstance(outcome, Pending):
            return wire.CallEnded(render_result(outcome))
    return wire.CallWaits(found.id, _ids(found.questions) if isinstance(found, RunningCall) else [])
