"""One tool, called by a program: the same engine, the same policy, the envelope as the answer."""

import asyncio
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct, UnsetType

from handspan.core.agents import Agent
from handspan.core.calls import CallRecord, ToolCall, new_call_id
from handspan.core.questions import Question
from handspan.core.results import Pending, ToolResult, encode_envelope
from handspan.core.values import Json
from handspan.engine.caller import Caller
from handspan.gateway.rest.agents import agent_called
from handspan.gateway.rest.at_work import Outcome, first_of
from handspan.gateway.rest.envelopes import Envelope
from handspan.gateway.rest.errors import Problem
from handspan.gateway.rest.idempotency import fingerprint
from handspan.gateway.rest.route import Family, Reply, Visit
from handspan.gateway.rest.shown import SessionId

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


class _Asked(Struct):
    """Questions that the call put to a person."""

    first: "asyncio.Future[None]"
    ids: list[str]

    def hear(self, question: Question) -> None:
        self.ids.append(question.id)
        if not self.first.done():
            self.first.set_result(None)


@family.post("/api/tools/{name}/call", also={202: PendingCall}, also_refuses=(409,), size="large")
async def call_tool(visit: Visit, name: str, body: CallBody, headers: CallHeaders) -> Envelope | Reply:
    """Run one tool. 200 with the envelope, for an error of the tool too; 202 when its result comes later.

    With an `Idempotency-Key` the same request gets the stored result, even after a restart; another request under
    the same key is refused with 409. A call that was refused keeps its key: a new try needs a new one.
    """
    agent = await agent_called(visit, body.agent)
    if body.session:
        await visit.doors.store.conversations.get(body.session, owner=visit.owner)
    if headers.idempotency_key:
        return await _once(visit, name, body, agent, headers.idempotency_key)
    call_id = new_call_id()
    asked, running = _begin(visit, name, body, agent, call_id)
    return await _answer(visit, call_id, running, asked)


async def _once(visit: Visit, name: str, body: CallBody, agent: Agent, key: str) -> Reply:
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
    if running is None and record is None:
        ids.remember(call_id, wanted)
        asked, running = _begin(visit, name, body, agent, call_id)
        return await _answer(visit, call_id, running, asked)
    if running is not None:
        return await _answer(visit, call_id, running, None)
    assert record is not None
    return _stored(visit, record)


def _begin(
    visit: Visit, name: str, body: CallBody, agent: Agent, call_id: str
) -> tuple[_Asked, "asyncio.Task[Outcome]"]:
    if not visit.doors.at_work.is_open:
        raise Problem(503, "stopping", "The gateway is being stopped: come back in a moment.")
    app, who = visit.doors.app, visit.who
    asked = _Asked(asyncio.get_running_loop().create_future(), [])
    box = app.registry.toolbox(agent, who, body.session)
    caller = Caller(who, agent, box, body.session, asked=asked.hear)
    call = ToolCall(name, body.args, call_id)
    return asked, visit.doors.at_work.begin(call_id, app.engine.call(call, caller))


async def _answer(visit: Visit, call_id: str, running: "asyncio.Task[Outcome]", asked: _Asked | None) -> Reply:
    """The result, if it comes while the request can wait; a person is not waited for."""
    waits = [running] if asked is None else [running, asked.first]
    await first_of(*waits, seconds=visit.doors.patience)
    if not running.done() and asked is not None and asked.first.done():
        await first_of(running, seconds=_MOMENT)
    if running.cancelled():
        raise Problem(503, "stopping", f"The gateway stops, and the call {call_id} was cancelled. Try again later.")
    outcome = running.result() if running.done() else Pending()
    record = await visit.doors.store.ledger.find(call_id)
    if record is not None:  # what is kept is what counts: another process may have had this id first
        return _stored(visit, record, asked)
    return _pending(visit, call_id, asked) if isinstance(outcome, Pending) else _enveloped(visit, call_id, outcome)


def _stored(visit: Visit, record: CallRecord, asked: _Asked | None = None) -> Reply:
    if isinstance(record.result, UnsetType):
        return _pending(visit, record.id, asked)
    return _enveloped(visit, record.id, record.result)


def _enveloped(visit: Visit, call_id: str, result: ToolResult) -> Reply:
    return Reply(encode_envelope(result), headers=_where(visit, call_id))


def _pending(visit: Visit, call_id: str, asked: _Asked | None) -> Reply:
    return Reply(PendingCall("pending", call_id, asked.ids if asked else []), 202, _where(visit, call_id))


def _where(visit: Visit, call_id: str) -> dict[str, str]:
    return {"location": f"{visit.request.scope.get('root_path', '')}/api/calls/{call_id}"}


def _is_same(record: CallRecord, name: str, body: CallBody, agent: Agent) -> bool:
    asked = (name, body.args, agent.name, body.session)
    return (record.name, record.arguments, record.agent, record.session) == asked
