"""Schedules that an agent proposes and the person confirms: `schedule` (SPEC J2)."""

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from msgspec import Struct

from handspan.core.context import ToolContext
from handspan.core.errors import ToolError
from handspan.core.questions import ToolQuestion
from handspan.core.schedule_times import describe_moment, describe_next, describe_when, make_plan, new_schedule
from handspan.core.schedules import TO_PAGE, At, Maker, Schedule, ScheduleBook, SchedulePlan
from handspan.core.tool import Annotations, Handling, ToolSpec, boolean, parameters, string
from handspan.core.values import Arguments, Json, JsonObject

_YES: Final = "Yes"
_NO: Final = "No"
_ANSWER: Final[JsonObject] = {"type": "string", "enum": [_YES, _NO]}
_NOT_YET: Final = At(0.0)


class SchedulingParts(Struct, frozen=True):
    """What the tool works with."""

    book: ScheduleBook
    publish: Callable[[Schedule], None]
    """Lets all nodes know that a schedule has changed."""
    zone: str
    """The time zone of schedules that name none."""
    spread: float
    check_delivery: Callable[[str, str], Awaitable[None]]
    """Raises `ToolError` if a schedule of this owner can't deliver there."""
    clock: Callable[[], float] = time.time


class ScheduleTurns:
    """Lets the agent be told something later, or again and again, once the person has confirmed it."""

    spec: Final = ToolSpec(
        name="schedule",
        description=(
            "Run a task later or regularly: you will be told `text` at each time, in a new conversation, and your"
            " answer goes to the person, who is asked to confirm first. Also lists and cancels schedules."
        ),
        parameters=parameters(
            "action",
            action={"type": "string", "enum": ["create", "list", "cancel"], "description": "What to do."},
            when=string(
                "create: five fields of cron ('30 7 * * 1-5'), '@daily', 'every 30m', 'in 20m', or"
                " 'at 2026-12-01T09:00'."
            ),
            text=string("create: what you shall do then, complete in itself."),
            zone=string("create: IANA time zone of `when`; the person's own by default."),
            name=string("create: a few words for lists."),
            deliver=string("create: where the answer goes: 'page' (default), 'none', or 'CHANNEL:CHAT'."),
            here=boolean("create: each run goes on in this conversation."),
            id=string("cancel: the id of the schedule."),
        ),
        annotations=Annotations(),
    )

    def __init__(self, parts: SchedulingParts | None = None) -> None:
        self._parts = parts
        self.handling = Handling(
            needs_turn=True,  # else a client that may only call tools could give itself turns, and say the yes to it
            asks=self._make_question,
            is_read_only=lambda arguments: arguments.get("action") == "list",
            missing="" if parts is not None else "nothing runs schedules here",
        )

    def _make_question(self, arguments: Arguments) -> ToolQuestion | None:
        """Return the question whether to make this schedule, with its next times; None for another action."""
        if self._parts is None or arguments.get("action") != "create":
            return None
        plan = self._plan(arguments, "")
        times = "; ".join(describe_next(plan, self._parts.clock()))
        told = f"Tell the agent {describe_when(plan.when, plan.zone)}: {plan.text!r}?"
        return ToolQuestion("input", f"{told} Next: {times}. The answer goes to: {plan.deliver}.", _ANSWER)

    async def run(self, arguments: Mapping[str, Json], ctx: ToolContext) -> Json:
        """Make, list or cancel schedules of the caller's owner."""
        parts = self._parts
        if parts is None:  # the engine runs no tool whose `handling.missing` has a text
            raise ToolError("tool_not_available", self.handling.missing)
        match arguments["action"]:
            case "create":
                return await self._create(parts, arguments, ctx)
            case "cancel":
                return await self._cancel(parts, str(arguments.get("id", "")), ctx)
            case _:
                return [_describe(one) for one in await parts.book.all(owner=ctx.who.owner)]

    async def _create(self, parts: SchedulingParts, arguments: Mapping[str, Json], ctx: ToolContext) -> Json:
        if ctx.answer != _YES:
            return {"status": "declined", "note": "The person does not want this schedule."}
        rights, now = ctx.tools.rights, parts.clock()
        plan = self._plan(arguments, ctx.session if arguments.get("here") else "", rights.agent)
        await parts.check_delivery(plan.deliver, ctx.who.owner)
        maker = Maker(ctx.who.owner, ctx.who.scopes, tools=rights.tools, mode=rights.mode)
        made = new_schedule(plan, maker, now, parts.spread)
        await parts.book.add(made)
        parts.publish(made)
        return {"status": "created", "id": made.id, "next": [*describe_next(plan, now)]}

    async def _cancel(self, parts: SchedulingParts, schedule_id: str, ctx: ToolContext) -> Json:
        owner = ctx.who.owner
        found = await parts.book.get(schedule_id, owner=owner)
        what = found.plan.name or found.plan.text
        subject = f"Remove the schedule {what!r} ({describe_when(found.plan.when, found.plan.zone)})?"
        answer = await ctx.ask("input", subject, schema=_ANSWER)
        if answer.decision != "allow" or answer.value != _YES:
            return {"status": "declined", "note": "The person wants to keep this schedule."}
        await parts.book.remove(schedule_id, owner=owner)
        parts.publish(found)
        return {"status": "cancelled", "id": schedule_id}

    def _plan(self, arguments: Mapping[str, Json], session: str, agent: str = "") -> SchedulePlan:
        """Return the plan of these arguments. Raises `ToolError` for wrong ones."""
        assert self._parts is not None
        texts = {name: str(arguments.get(name) or "") for name in ("text", "zone", "name", "deliver", "when")}
        plan = SchedulePlan(
            _NOT_YET,
            texts["text"],
            texts["zone"] or self._parts.zone,
            texts["name"],
            agent=agent,
            session=session,
            deliver=texts["deliver"] or TO_PAGE,
        )
        return make_plan(plan, texts["when"], self._parts.clock())


def _describe(schedule: Schedule) -> JsonObject:
    plan = schedule.plan
    due = "" if schedule.next is None else describe_moment(schedule.next, plan.zone)
    state = f"paused: {schedule.paused}" if schedule.paused else "over" if schedule.is_finished else "active"
    about: JsonObject = {"id": schedule.id, "name": plan.name, "when": describe_when(plan.when, plan.zone)}
    return {**about, "text": plan.text, "next": due, "state": state}
