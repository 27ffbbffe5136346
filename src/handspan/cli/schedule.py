"""`handspan schedule`: what agents are told by themselves, and when (SPEC J1)."""

import click

from handspan.cli.door import RequestGroup, ask_gateway, change, fetch
from handspan.cli.options import completes
from handspan.cli.render import one_line, print_done, print_list, render_time
from handspan.cli.requests import Requests, segment
from handspan.core.schedules import DAY, TO_PAGE
from handspan.wire.rest.schedules import RemovedSchedule, ScheduleDetails, ScheduleList, ScheduleRunView, ScheduleView

_ID = click.argument("schedule_id", metavar="ID", shell_complete=completes("schedules"))


@click.group("schedule", cls=RequestGroup)
def command() -> None:
    """List the schedules: id, name, when, the next time, how the last run ended."""
    print_list(
        ("id", "name", "when", "next", "last"),
        fetch("/api/schedules", ScheduleList).schedules,
        lambda one: (one.id, _name(one), one.when, _state(one), _last(one)),
        "No schedule yet: `handspan schedule add 'every 30m' 'Look whether …'` makes one.",
    )


@command.command("add")
@click.argument("when")
@click.argument("text")
@click.option("--zone", default="", help="The time zone of WHEN, such as Europe/Berlin; default: the gateway's.")
@click.option("--name", default="", help="A few words for lists.")
@click.option("--agent", default="", help="The agent that does it.", shell_complete=completes("agents"))
@click.option(
    "--session", default="", help="Go on in this session; default: a fresh one.", shell_complete=completes("sessions")
)
@click.option("--deliver", default=TO_PAGE, help="Where the answer goes: page, none, or CHANNEL:CHAT.")
@click.option(
    "--catch-up", type=click.FloatRange(min=0), default=DAY, help="Seconds for which a missed time still runs once."
)
def add(when: str, text: str, **given: object) -> None:
    """Tell an agent TEXT by itself, at each time of WHEN.

    WHEN: '30 7 * * 1-5' (five fields of cron), '@daily', 'every 30m', 'at 2026-12-01T09:00' or 'in 20m'.
    """

    async def work(requests: Requests) -> ScheduleView:
        return await requests.change("POST", "/api/schedules", ScheduleView, {"when": when, "text": text, **given})

    made = ask_gateway(work)
    print_done(made, "\n".join([f"The schedule {made.id} is made: {made.when}. Next:", *_times(made)]))


@command.command("show")
@_ID
def show(schedule_id: str) -> None:
    """Show the schedule ID with its next times and its runs."""
    found = fetch(f"/api/schedules/{segment(schedule_id)}", ScheduleDetails)
    print_done(found, "\n".join([*_describe(found.schedule), *map(_describe_run, found.runs)]))


@command.command("pause")
@_ID
def pause(schedule_id: str) -> None:
    """Pause the schedule ID. A run that has begun goes on."""
    print_done(_post(schedule_id, "pause"), f"The schedule {schedule_id} is paused.")


@command.command("resume")
@_ID
def resume(schedule_id: str) -> None:
    """Let the schedule ID run again, from its next time on."""
    found = _post(schedule_id, "resume")
    print_done(found, "\n".join([f"The schedule {schedule_id} runs again. Next:", *_times(found)]))


@command.command("run")
@_ID
def run(schedule_id: str) -> None:
    """Let the schedule ID be due now, beside its times."""
    print_done(
        _post(schedule_id, "run"), f"The schedule {schedule_id} is due now. `handspan schedule show` has its runs."
    )


@command.command("remove")
@_ID
def remove(schedule_id: str) -> None:
    """Remove the schedule ID. The chats of its runs stay."""
    done = change("DELETE", f"/api/schedules/{segment(schedule_id)}", RemovedSchedule)
    print_done(done, f"The schedule {done.removed} is removed.")


def _post(schedule_id: str, what: str) -> ScheduleView:
    return change("POST", f"/api/schedules/{segment(schedule_id)}/{what}", ScheduleView)


def _name(one: ScheduleView) -> str:
    return one_line(one.name or one.text)[:40]


def _state(one: ScheduleView) -> str:
    return "paused" if one.paused else "over" if one.next is None else render_time(one.next)


def _last(one: ScheduleView) -> str:
    return "" if one.last is None else one.last.end or "running"


def _times(one: ScheduleView) -> list[str]:
    return [f"  {time}" for time in one.next_words]


def _describe(one: ScheduleView) -> list[str]:
    state = [f"Paused: {one.paused}"] if one.paused else ["Next:", *_times(one)] if one.next else ["It is over."]
    where = f"session {one.session}" if one.session else "a fresh session each time"
    agent = f"agent {one.agent}" if one.agent else "the default agent"
    return [f"{_name(one)}: {one.when}", *state, one.text, f"{agent}, {where}, answers to: {one.deliver}", ""]


def _describe_run(run: ScheduleRunView) -> str:
    missed = f" (since {render_time(run.since)})" if run.since != run.due else ""
    chat = f", session {run.session}" if run.session else ""
    told = f": {one_line(run.text)[:200]}" if run.text else ""
    problem = f" Not delivered: {run.problem}" if run.problem else ""
    return f"{render_time(run.due)}{missed} {run.end or 'running'}{chat}{told}{problem}"
