"""One tool, called by a program: the same engine, the same policy, the envelope as the answer."""

import asyncio
from typing import Final, TypeAlias

from msgspec import UnsetType

from handspan.core.calls import CallRecord, ToolCall, new_call_id
from handspan.core.errors import StoreError
from handspan.core.results import Pending, ToolResult, encode_envelope
from handspan.core.values import Json
from handspan.engine.caller import Caller
from handspan.gateway.http.calls import RunningCall, first_of
from handspan.gateway.http.idempotency import fingerprint
from handspan.gateway.http.message import AsgiResponse
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.http.routing import PRIVATE
from handspan.gateway.http.streams import Streamed, StreamKind, wanted_stream
from handspan.gateway.rest.agents import agent_called
from handspan.gateway.rest.call_events import CallStream, as_envelope
from handspan.gateway.rest.route import Family, Reply, Visit
from handspan.wire.rest.calls import (
    CallBegan,
    CallBody,
    CallEnded,
    CallEnvelope,
    CallEvent,
    CallHeaders,
    CallWaits,
    PendingCall,
)

family: Final = Family("tools")
_MOMENT: Final = 0.25
"""Seconds that a question may take which a rule answers, and nobody is asked."""

_Asked: TypeAlias = tuple[str, dict[str, Json], str, str]
"""Tool, arguments, agent and session."""


@family.post(
    "/api/tools/{name}/call", also={202: PendingCall}, also_refuses=(409, 503), size="large", streams=CallEvent
)
async def call_tool(
    visit: Visit, name: str, body: CallBody, headers: CallHeaders
) -> CallEnvelope | Reply | AsgiResponse:
    """Run one tool. 200 with the envelope, for an error of the tool too; 202 when its result comes later.

    With an `Idempotency-Key` the same request gets the stored result, even after a restart; another request under
    the same key is refused with 409. A call that was refused keeps its key: a new try needs a new one.

    With `Accept: text/event-stream` or `application/x-ndjson` the answer is a stream: `began`, then `progress` and
    `question` as they come, and at the end `result` or `pending`. It waits as long as the call takes, for a person
    too. Who goes away before does not stop the call.
    """
    agent, doors = await agent_called(visit, body.agent), visit.doors
    if body.session:
        await doors.store.conversations.get(body.session, owner=visit.owner)
    found: RunningCall | CallRecord | None = None
    call_id, key = new_call_id(), headers.idempotency_key
    if key:
        call_id = await doors.store.idempotency.call_id(visit.owner, key)
        found = await _same_call(visit, call_id, key, (name, body.args, agent.name, body.session))
    if found is None:
        if not doors.at_work.is_open:
            raise Refusal(503, "stopping", "The gateway is being stopped: come back in a moment.")
        found = RunningCall(call_id, visit.owner)
        box = doors.app.registry.toolbox(agent, visit.who, body.session)
        caller = Caller(visit.who, agent, box, body.session, found.report, found.ask)
        found.task = asyncio.create_task(doors.app.engine.call(ToolCall(name, body.args, call_id), caller))
        doors.at_work.add(found)
    kind = wanted_stream(visit.request.headers.get("accept", ""))
    if kind is not None:
        return _stream(visit, found, kind)
    return await _answer(visit, found) if isinstance(found, RunningCall) else _stored(visit, found, [])


async def _same_call(visit: Visit, call_id: str, key: str, asked: _Asked) -> RunningCall | CallRecord | None:
    """The call of this key, at work or over; None when there is none yet, and it may begin."""
    known, wanted = visit.doors.asked_calls, fingerprint(list(asked))
    record = await visit.doors.store.ledger.find(call_id)
    running = visit.doors.at_work.find(call_id)
    before = known.find(call_id)
    if (before is not None and before != wanted) or (
        before is None and record is not None and asked != (record.name, record.arguments, record.agent, record.session)
    ):
        text = f"The key {key!r} was used for another call. Use a new one for this."
        raise Refusal(409, "idempotency_conflict", text)
    if running is None and record is None:
        known.remember(call_id, wanted)
    return running or record


# As one answer.


async def _answer(visit: Visit, running: RunningCall) -> Reply:
    """The result, if it comes while the request can wait; a person is not waited for."""
    task = running.task
    await first_of(task, running.asked, seconds=visit.doors.patience)
    if not task.done() and running.asked.done():
        await first_of(task, seconds=_MOMENT)
    if task.cancelled():
        raise Refusal(503, "stopping", f"The gateway stops, and the call {running.id} was cancelled. Try again later.")
    record = await visit.doors.store.ledger.find(running.id)
    if record is not None:  # what is kept is what counts: another process may have had this id first
        return _stored(visit, record, running.questions)
    outcome = task.result() if task.done() else Pending()
    if isinstance(outcome, Pending):
        return _pending(visit, running.id, running.questions)
    return _enveloped(visit, running.id, outcome)


def _stored(visit: Visit, record: CallRecord, questions: list[str]) -> Reply:
    if isinstance(record.result, UnsetType):
        return _pending(visit, record.id, questions)
    return _enveloped(visit, record.id, record.result)


def _enveloped(visit: Visit, call_id: str, result: ToolResult) -> Reply:
    return Reply(encode_envelope(result), headers=_where(visit, call_id))


def _pending(visit: Visit, call_id: str, questions: list[str]) -> Reply:
    return Reply(PendingCall("pending", call_id, questions), 202, _where(visit, call_id))


def _where(visit: Visit, call_id: str) -> dict[str, str]:
    return {"location": f"{visit.request.scope.get('root_path', '')}/api/calls/{call_id}"}


# As a stream.


def _stream(visit: Visit, found: RunningCall | CallRecord, kind: StreamKind) -> Streamed:
    """What happens in the call from now on, and its end."""
    assert visit.admitted is not None

    async def last() -> CallEnded | CallWaits:
        return await _end_of(visit, found)

    stream = CallStream(kind, visit.admitted.token, last)
    stream.put(CallBegan(found.id))
    if isinstance(found, RunningCall):
        found.watch(stream)
    else:
        stream.done()
    return Streamed(stream, kind, {**PRIVATE, **_where(visit, found.id)})


async def _end_of(visit: Visit, found: RunningCall | CallRecord) -> CallEnded | CallWaits:
    try:
        record = await visit.doors.store.ledger.find(found.id)
    except StoreError:  # the answer has begun: it can't be refused any more
        record = None
    if record is not None and not isinstance(record.result, UnsetType):
        return CallEnded(as_envelope(record.result))
    if isinstance(found, RunningCall) and record is None and not found.task.cancelled():
        outcome = found.task.result()
        if not isinstance(outcome, Pending):
            return CallEnded(as_envelope(outcome))
    return CallWaits(found.id, found.questions if isinstance(found, RunningCall) else [])
