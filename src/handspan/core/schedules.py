"""Schedules: what an agent is told by itself and when, the runs that come of it, and their Protocol (SPEC J1, J2).

Times are in seconds since 1970, by the store's clock. A due time is whole milliseconds, so that ids can be made of it.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal, Protocol, TypeAlias

from msgspec import Struct

from handspan.core.agents import Mode
from handspan.core.events import EndReason

SCHEDULED: Final = "scheduled-"
"""How the ids of scheduled messages and of the fresh sessions of runs begin."""
MAX_SCHEDULES: Final = 1000
"""Schedules of one owner. Finished ones go first."""
MAX_RUNS: Final = 100
"""Runs of one schedule that are kept."""
MAX_FAILURES: Final = 5
"""So many failed runs in a row pause a schedule."""
DAY: Final = 24 * 3600.0
TO_PAGE: Final = "page"
TO_NOWHERE: Final = "none"

RunState: TypeAlias = Literal["running", "delivering", "done"]
"""`delivering` is stored before the answer is sent to a channel: after a crash it is not sent again."""
RunEnd: TypeAlias = EndReason | Literal["missed", ""]
"""How the turn of a run ended. `missed`: no turn began. Empty: it has not ended."""
FAILED: Final[frozenset[RunEnd]] = frozenset(("error", "errors", "refusal"))


class At(Struct, frozen=True, tag="at"):
    """Once."""

    at: float


class Every(Struct, frozen=True, tag="every"):
    """Again and again, with so many seconds between."""

    seconds: float
    since: float
    """The beginning of the first interval."""


class Cron(Struct, frozen=True, tag="cron"):
    """At the times that five fields of cron name, in a time zone."""

    fields: str
    zone: str


When: TypeAlias = At | Every | Cron


class SchedulePlan(Struct, frozen=True):
    """What a person, a program or a model wants of a schedule."""

    when: When
    text: str
    """What the agent is told."""
    zone: str = "UTC"
    """The time zone in which its times are shown."""
    name: str = ""
    agent: str = ""
    """Empty: that of the session, or the default agent."""
    session: str = ""
    """The session that goes on; empty: each run has a fresh one."""
    deliver: str = TO_PAGE
    """Where the answer goes: `page`, `none`, or `CHANNEL:CHAT`."""
    catch_up: float = DAY
    """A time that was missed still runs once if it is no older than so many seconds; 0: never."""


class Maker(Struct, frozen=True):
    """On whose behalf a schedule runs, and what its turns may do at most."""

    owner: str
    scopes: tuple[str, ...] = ()
    token: str = ""
    """The hash of the token with which it was made. Empty: no single token; all of the owner's count."""
    tools: tuple[str, ...] | None = None
    """The names of the tools that the turn had which made it; None: a person made it, and the agent's own count."""
    mode: Mode = "automatic"
    """The mode of that turn."""


class Schedule(Struct, frozen=True):
    """A schedule as it is stored."""

    id: str
    plan: SchedulePlan
    maker: Maker
    created: float
    next: float | None
    """When it is due; None: never again, or it is paused."""
    paused: str = ""
    """Why it is paused; empty: it is not."""
    failures: int = 0
    """How many runs have failed in a row."""

    @property
    def is_finished(self) -> bool:
        """Whether it has run for the last time."""
        return self.next is None and not self.paused


class ScheduledRun(Struct, frozen=True):
    """One due time of a schedule, and what came of it."""

    schedule: str
    due: float
    since: float
    """The first due time for which this run stands: earlier than `due` when some were missed."""
    began: float
    session: str
    """Where the turn is; empty if none began."""
    state: RunState = "running"
    ended: float | None = None
    end: RunEnd = ""
    text: str = ""
    """The answer, or why there is none."""
    problem: str = ""
    """Why the answer was not delivered."""

    @property
    def message_id(self) -> str:
        """The id of the message that the agent gets: the same in each try, so that it is said once."""
        return f"{SCHEDULED}{self.schedule}-{_milliseconds(self.due)}"


class ClaimedRun(Struct, frozen=True):
    """A run that this process has to do."""

    schedule: Schedule
    run: ScheduledRun


class Claim(Struct, frozen=True):
    """What a look for due schedules found."""

    runs: tuple[ClaimedRun, ...]
    """What this process has to run now."""
    missed: tuple[ClaimedRun, ...]
    """Due times that are not run."""
    next: float | None
    """When the next schedule is due."""


class RunOutcome(Struct, frozen=True):
    """What the end of a run did to its schedule."""

    paused: str
    """Why the schedule is paused since this run; empty: it is not."""


def fresh_session(schedule: str, due: float) -> str:
    """Return the id of the session that a run makes: the same in each try."""
    return f"{SCHEDULED}{schedule}-{_milliseconds(due)}"


def schedule_of(message_id: str) -> str:
    """Return the id of the schedule that says this message; empty for any other message."""
    return message_id.removeprefix(SCHEDULED).partition("-")[0] if message_id.startswith(SCHEDULED) else ""


def _milliseconds(due: float) -> int:
    return round(due * 1000)


class ScheduleBook(Protocol):
    """Schedules and their runs. Raises `ToolError` (`file_not_found`) for a schedule that the owner does not have."""

    async def add(self, schedule: Schedule) -> None:
        """Store a new schedule. Raises `ToolError` (`invalid_arguments`) when the owner has `MAX_SCHEDULES`."""

    async def get(self, schedule: str, *, owner: str) -> Schedule:
        """Return this schedule."""

    async def find(self, schedule: str, *, owner: str) -> Schedule | None:
        """Return this schedule, or None."""

    async def all(self, *, owner: str) -> Sequence[Schedule]:
        """Return the owner's schedules: the next due one first, finished ones last."""

    async def runs(self, schedule: str, *, owner: str, limit: int = MAX_RUNS) -> Sequence[ScheduledRun]:
        """Return the runs of this schedule, the newest first."""

    async def last_runs(self, *, owner: str) -> Mapping[str, ScheduledRun]:
        """Return the last run of each of the owner's schedules that has one."""

    async def pause(self, schedule: str, reason: str, *, owner: str) -> Schedule:
        """Pause this schedule and return it. A run that has begun goes on."""

    async def resume(self, schedule: str, next_due: float | None, token: str, *, owner: str) -> Schedule:
        """Let it be due then, forget its failures, and return it. `token`: of the person who resumes it."""

    async def make_due(self, schedule: str, *, owner: str) -> Schedule:
        """Let it be due now, once more and also while it is paused, and return it."""

    async def remove(self, schedule: str, *, owner: str) -> None:
        """Remove this schedule with its runs. Their sessions stay."""

    async def next_due(self) -> float | None:
        """Return when the next schedule of any owner is due."""

    async def realign(self, spread: float = 0.0) -> float | None:
        """Let schedules that wait too long, because the clock was set back, be due at their next times again.

        A time that has a run does not run again. Return when the next schedule is due.
        """

    async def claim(self, limit: int, spread: float = 0.0) -> Claim:
        """Move due schedules to their next time, and enter a run for each, under the lease of this process.

        Of two processes only one gets a run. Of several missed times only the last one runs. `spread`: cron's times
        are later by up to so many seconds.
        """

    async def end_run(self, run: ScheduledRun, end: RunEnd, text: str, *, delivers: bool) -> RunOutcome | None:
        """Store how the turn of a run ended. `delivers`: its answer is still to be sent.

        None: the run is not this process's any more, and nothing is stored.
        """

    async def end_delivery(self, run: ScheduledRun, problem: str = "") -> bool:
        """Store that the answer was sent, or why not. Return False if the run is not this process's any more."""
