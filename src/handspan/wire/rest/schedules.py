"""Schedules in REST (SPEC J1). Times are in UTC, as 2026-01-31T12:00:00Z."""

from typing import Annotated

from msgspec import Meta, Struct

from handspan.core.agents import Mode
from handspan.core.schedules import DAY, TO_PAGE, RunEnd, RunState
from handspan.wire.rest.fields import SOMETHING, SessionId

_Seconds = Annotated[float, Meta(ge=0, le=366 * DAY)]


class ScheduleRunView(Struct, frozen=True):
    """One due time of a schedule, and what came of it."""

    due: str
    since: str
    """The first due time for which this run stands: earlier than `due` when some were missed."""
    began: str
    ended: str | None
    session: str
    """Where its chat is; empty if no turn began."""
    state: RunState
    end: RunEnd
    """How its turn ended. `missed`: none began. Empty: it has not ended."""
    text: str
    """The answer, or why there is none."""
    problem: str
    """Why the answer was not delivered; empty if it was."""


class ScheduleView(Struct, frozen=True):
    """A schedule."""

    id: str
    name: str
    when: str
    """In words."""
    zone: str
    text: str
    agent: str
    """Empty: that of the session, or the default agent."""
    session: str
    """The session that goes on; empty: each run has a fresh one."""
    deliver: str
    """Where the answer goes: `page`, `none`, or `CHANNEL:CHAT`."""
    catch_up: float
    """A missed time still runs once if it is no older than so many seconds."""
    next: str | None
    """When it is due; null: never again, or it is paused."""
    next_words: list[str]
    """The next three times in words."""
    paused: str
    """Why it is paused; empty: it is not."""
    failures: int
    """How many runs have failed in a row."""
    tools: list[str] | None
    """The tools that its turns may use at most; null: those of its agent."""
    mode: Mode
    last: ScheduleRunView | None


class ScheduleList(Struct, frozen=True):
    """The caller's schedules, the next due one first."""

    schedules: list[ScheduleView]


class ScheduleDetails(Struct, frozen=True):
    """A schedule with its runs, the newest first."""

    schedule: ScheduleView
    runs: list[ScheduleRunView]


class NewSchedule(Struct, frozen=True, forbid_unknown_fields=True):
    """A schedule to make."""

    when: Annotated[str, Meta(max_length=300)]
    """`30 7 * * 1-5` (five fields of cron), `@daily`, `every 30m`, `at 2026-12-01T09:00` or `in 20m`."""
    text: Annotated[str, Meta(pattern=SOMETHING, max_length=20_000)]
    """What the agent is told."""
    zone: Annotated[str, Meta(max_length=60)] = ""
    """Empty: that of the setting `schedules.zone`, or of the gateway's computer."""
    name: Annotated[str, Meta(max_length=80)] = ""
    agent: Annotated[str, Meta(max_length=200)] = ""
    session: SessionId = ""
    deliver: Annotated[str, Meta(max_length=300)] = TO_PAGE
    catch_up: _Seconds = DAY


class RemovedSchedule(Struct, frozen=True):
    """The answer to the removal of a schedule."""

    removed: str
