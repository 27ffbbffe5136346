"""Schedules: made, listed, paused, resumed, run now and removed (SPEC J1)."""

from typing import Final

from handspan.core.errors import ToolError
from handspan.core.schedule_times import (
    describe_moment,
    describe_when,
    make_plan,
    new_schedule,
    next_time,
    next_times,
    offset_of,
)
from handspan.core.schedules import At, Maker, Schedule, ScheduledRun, SchedulePlan
from handspan.gateway.entry.auth import check_agent
from handspan.gateway.entry.operator_token import is_operator_label
from handspan.gateway.http.routing import moment
from handspan.gateway.rest.agents import find_agent
from handspan.gateway.rest.route import Family, RestRequest
from handspan.wire.rest import schedules as wire

family: Final = Family("schedules")
_PAUSED: Final = "You paused it."


@family.get("/api/schedules")
async def schedules(request: RestRequest) -> wire.ScheduleList:
    """The caller's schedules, the next due one first."""
    book = request.store.schedules
    last = await book.last_runs(owner=request.owner)
    found = await book.all(owner=request.owner)
    return wire.ScheduleList([_render(request, one, last.get(one.id)) for one in found])


@family.post("/api/schedules", status=201, size="large", also_refuses=(404,))
async def create_schedule(request: RestRequest, body: wire.NewSchedule) -> wire.ScheduleView:
    """Make a schedule. Its turns have the tools and the mode of their agent."""
    settings, now = request.app.settings.schedules, request.store.ledger.now()
    if body.agent or not body.session:
        await find_agent(request, body.agent)
    if body.session:
        check_agent(request.who, (await request.find_session(body.session)).agent)
    plan = SchedulePlan(
        At(now),
        body.text,
        zone=body.zone or settings.zone_name,
        name=body.name,
        agent=body.agent,
        session=body.session,
        deliver=body.deliver,
        catch_up=body.catch_up,
    )
    plan = make_plan(plan, body.when, now)
    await request.app.delivery.check(plan.deliver, request.owner)
    made = new_schedule(plan, Maker(request.owner, request.who.scopes, await _token(request)), now, settings.spread)
    await request.store.schedules.add(made)
    return _publish(request, made)


@family.get("/api/schedules/{schedule_id}")
async def schedule(request: RestRequest, schedule_id: str) -> wire.ScheduleDetails:
    """One schedule, with its runs."""
    book = request.store.schedules
    found = await book.get(schedule_id, owner=request.owner)
    runs = await book.runs(schedule_id, owner=request.owner)
    return wire.ScheduleDetails(_render(request, found, runs[0] if runs else None), [_render_run(one) for one in runs])


@family.post("/api/schedules/{schedule_id}/pause")
async def pause_schedule(request: RestRequest, schedule_id: str) -> wire.ScheduleView:
    """Pause a schedule. A run that has begun goes on."""
    return _publish(request, await request.store.schedules.pause(schedule_id, _PAUSED, owner=request.owner))


@family.post("/api/schedules/{schedule_id}/resume")
async def resume_schedule(request: RestRequest, schedule_id: str) -> wire.ScheduleView:
    """Let a paused schedule run again, from its next time on."""
    book, now = request.store.schedules, request.store.ledger.now()
    found = await book.get(schedule_id, owner=request.owner)
    when = found.plan.when
    due = next_time(when, now, offset_of(found.id, when, request.app.settings.schedules.spread))
    if due is None:
        raise ToolError("invalid_arguments", "Its time is over. Run it now, or make a new one.")
    return _publish(request, await book.resume(schedule_id, due, await _token(request), owner=request.owner))


@family.post("/api/schedules/{schedule_id}/run")
async def run_schedule(request: RestRequest, schedule_id: str) -> wire.ScheduleView:
    """Let a schedule be due now, beside its times; also one that is paused or over."""
    return _publish(request, await request.store.schedules.make_due(schedule_id, owner=request.owner))


@family.delete("/api/schedules/{schedule_id}")
async def remove_schedule(request: RestRequest, schedule_id: str) -> wire.RemovedSchedule:
    """Remove a schedule with the list of its runs. Their chats stay."""
    book = request.store.schedules
    found = await book.get(schedule_id, owner=request.owner)
    await book.remove(schedule_id, owner=request.owner)
    request.app.publish_schedule(found)
    return wire.RemovedSchedule(schedule_id)


async def _token(request: RestRequest) -> str:
    """Return the token whose end pauses the schedule. The operator's changes with each node: it counts as any."""
    record = await request.store.tokens.find(request.token_hash) if request.token_hash else None
    return "" if record is None or is_operator_label(record.label) else record.hash


def _publish(request: RestRequest, changed: Schedule) -> wire.ScheduleView:
    request.app.publish_schedule(changed)
    return _render(request, changed, None)


def _render(request: RestRequest, schedule: Schedule, last: ScheduledRun | None) -> wire.ScheduleView:
    plan, maker = schedule.plan, schedule.maker
    times = [] if schedule.next is None else [schedule.next, *next_times(plan.when, schedule.next, 2)]
    return wire.ScheduleView(
        id=schedule.id,
        name=plan.name,
        when=describe_when(plan.when, plan.zone),
        zone=plan.zone,
        text=plan.text,
        agent=plan.agent,
        session=plan.session,
        deliver=plan.deliver,
        catch_up=plan.catch_up,
        next=None if schedule.next is None else moment(schedule.next),
        next_words=[describe_moment(at, plan.zone) for at in times],
        paused=schedule.paused,
        failures=schedule.failures,
        tools=None if maker.tools is None else [*maker.tools],
        mode=maker.mode,
        last=None if last is None else _render_run(last),
    )


def _render_run(run: ScheduledRun) -> wire.ScheduleRunView:
    return wire.ScheduleRunView(
        due=moment(run.due),
        since=moment(run.since),
        began=moment(run.began),
        ended=None if run.ended is None else moment(run.ended),
        session=run.session,
        state=run.state,
        end=run.end,
        text=run.text,
        problem=run.problem,
    )
