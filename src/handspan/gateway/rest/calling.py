"""One tool, called by a program: the same engine, the same policy, the envelope as the answer."""

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct, UnsetType
from starlette.responses import Response

from handspan.core.agents import Agent
from handspan.core.calls import CallRecord, ToolCall, new_call_id
from handspan.core.errors import StoreError
from handspan.core.results import Pending, ToolResult, encode_envelope
from handspan.core.values import Json
from handspan.engine.caller import Caller
from handspan.gateway.rest.agents import agent_called
from handspan.gateway.rest.at_work import RunningCall, first_of
from handspan.gateway.rest.call_events import CallBegan, CallEnded, CallEvent, CallStream, CallWaits
from handspan.gateway.rest.envelopes import Envelope, as_envelope
from handspan.gateway.rest.errors import Problem
from handspan.gateway.rest.idempotency import fingerprint
from handspan.gateway.rest.route import Family, Reply, Visit
from handspan.gateway.rest.shown import SessionId
from handspan.gateway.rest.streaming import Streamed, StreamKind, wanted_stream

family: Final = Family("tools")
_MOMENT: Final = 0.25
"""Seconds that a question may take which a rule answers, and nobody is asked."""

Key = Annotated[str, Meta(max_length=200, description="The same key and the same request: run once.")]


class CallBody(Struct, frozen=True, forbid_unknown_fields=True):
    """What to call it with, and for whom."""

    args: dict[str, Json] = {}
    agent: Annotated[str, Meta(max_length=100)] = ""
    """The agent whose tools and mode count; empty: the default one."""
    session: SessionId = ""
    """With the tools of this session, and in its journal."""


class CallHeaders(Struct, frozen=True, rename=lambda name: name.replace("_", "-")):
    """How a request that is sent again is known."""

    idempotency_key: Key = ""


class PendingCall(Struct, frozen=True):
    """The call has no result yet: look for it at `/api/calls/{call_id}`."""

    status: Literal["pending"]
    call_id: str
    questions: list[str]
    """What a person is asked for it."""


@family.post(
    "/api/tools/{name}/call", also={202: PendingCall}, also_refuses=(409, 503), size="large", streams=CallEvent
)
async def call_tool(visit: Visit, name: str, body: CallBody, headers: CallHeaders) -> Envelope | Reply | Response:
    """Run one tool. 200 with the envelope, for an error of the tool too; 202 when its result comes later.

    With an `Idempotency-Key` the same request gets the stored result, even after a restart; another request under
    the same key is refused with 409. A call that was refused keeps its key: a new try needs a new one.

    With `Accept: text/event-stream` or `application/x-ndjson` the answer is a stream: `began`, then `progress` and
    `question` as they come, and at the end `result` or `pending`. It waits as long as the call takes, for a person
    too. Who goes away before does not stop the call.
    """
    agent = await agent_called(visit, body.agent)
    if body.session:
        await visit.doors.store.conversations.get(body.session, owner=visit.owner)
    if headers.idempotency_key:
        found = await _once(visit, name, body, agent, headers.idempotency_key)
    else:
        found = _begin(visit, name, body, agent, new_call_id())
    kind = wanted_stream(visit.request.headers.get("accept", ""))
    if kind is not None:
        return _stream(visit, found, kind)
    return await _answer(visit, found) if isinstance(found, RunningCall) else _stored(visit, found, [])


async def _once(visit: Visit, name: str, body: CallBody, agent: Agent, key: str) -> RunningCall | CallRecord:
    """The call of this key: at work, or over, or begun now."""
    ids, ledger = visit.doors.call_ids, visit.doors.store.ledger
    call_id = await ids.of(visit.owner, key)
    wanted = fingerprint([name, body.args, agent.name, body.session])
    record = await ledger.find(call_id)
    running = visit.doors.at_work.find(call_id)
    before = ids.asked(call_id)
    if (before is not None and before != wanted) or (
        before is None and record is not None and not _is_same(record, name, body, agent)
    ):
        text = f"The key {key!r} was used for another call. Use a new one for this."
        raise Problem(409, "idempotency_conflict", text)
    if running is not None or record is not None:
        found = running or record
        assert found is not None
        return found
    begun = _begin(visit, name, body, agent, call_id)
    ids.remember(call_id, wanted)
    return begun


def _begin(visit: Visit, name: str, body: CallBody, agent: Agent, call_id: str) -> RunningCall:
    if not visit.doors.at_work.is_open:
        raise Problem(503, "stopping", "The gateway is being stopped: come back in a moment.")
    app, who = visit.doors.app, visit.who
    box = app.registry.toolbox(agent, who, body.session)
    call = ToolCall(name, body.args, call_id)
    return visit.doors.at_work.begin(
        call_id,
        who.owner,
        lambda running: app.engine.call(call, Caller(who, agent, box, body.session, running.report, running.ask)),
    )


# As one answer.


async def _answer(visit: Visit, running: RunningCall) -> Reply:
    """The result, if it comes while the request can wait; a person is not waited for."""
    task = running.task
    await first_of(task, running.asked, seconds=visit.doors.patience)
    if not task.done() and running.asked.done():
        await first_of(task, seconds=_MOMENT)
    if task.cancelled():
        raise Problem(503, "stopping", f"The gateway stops, and the call {running.id} was cancelled. Try again later.")
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
    return Streamed(stream, kind, _where(visit, found.id))


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


def _is_same(record: CallRecord, name: str, body: CallBody, agent: Agent) -> bool:
    asked = (name, body.args, agent.name, body.session)
    return (record.name, record.arguments, record.agent, record.session) == asked
