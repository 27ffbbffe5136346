"""When a schedule is due: read from words, computed, and said in words (SPEC J1). No clock: the caller gives the time.

Cron as Debian means it: where both days are restricted, one of them is enough. A fixed time that the clocks skip comes
right after the change, one that they repeat comes once; times with `*` as the minute or the hour follow real time.
"""

import hashlib
import os
import re
from datetime import UTC, datetime, tzinfo
from typing import Final

from msgspec import structs

from handspan.core.errors import ToolError
from handspan.core.late_imports import cronsim, zoneinfo
from handspan.core.schedules import TO_NOWHERE, TO_PAGE, At, Cron, Every, Maker, Schedule, SchedulePlan, When

_NAMED: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
}
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_UNIT: Final = r"(s|m|h|d|w|seconds?|min|minutes?|hours?|days?|weeks?)"
_AMOUNT: Final = rf"(\d{{1,6}})\s*{_UNIT}(?![a-z])\s*"
_LEAST_SECONDS: Final = 60
_MOST_SECONDS: Final = 366 * 86400
_LONGEST_FIELDS: Final = 200
_LONGEST_TEXT: Final = 20_000
_LONGEST_NAME: Final = 80
_FORMS: Final = (
    "Write it as '30 7 * * 1-5' (five fields of cron), '@daily', 'every 30m', 'at 2026-12-01T09:00' or 'in 20m'"
)


def make_plan(plan: SchedulePlan, words: str, now: float) -> SchedulePlan:
    """Return the plan with what the words say of its times. Raises `ToolError` if it can't be used."""
    text = plan.text.strip()
    if not text or len(text) > _LONGEST_TEXT:
        raise ToolError("invalid_arguments", f"Say what the agent shall do, in up to {_LONGEST_TEXT} characters.")
    channel, _, chat = plan.deliver.partition(":")
    if channel not in (TO_PAGE, TO_NOWHERE) and not (channel and chat):
        where = "'page', 'none', or 'CHANNEL:CHAT' such as 'telegram:12345'"
        raise ToolError("invalid_arguments", f"The answer can't go to {plan.deliver[:60]!r}: name {where}.")
    find_zone(plan.zone)  # every time is shown in it
    name = " ".join(plan.name.split())[:_LONGEST_NAME]
    return structs.replace(plan, when=read_when(words, plan.zone, now), text=text, name=name)


def new_schedule(plan: SchedulePlan, maker: Maker, now: float, spread: float) -> Schedule:
    """Return a new schedule with an id that no other one has."""
    schedule_id = os.urandom(6).hex()
    due = next_time(plan.when, now, offset_of(schedule_id, plan.when, spread))
    return Schedule(schedule_id, plan, maker, created=now, next=due)


def describe_next(plan: SchedulePlan, now: float) -> list[str]:
    """Return the next three times in words."""
    return [describe_moment(at, plan.zone) for at in next_times(plan.when, now, 3)]


def find_zone(name: str) -> tzinfo:
    """Return the time zone of this name. Raises `ToolError` for an unknown one."""
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):  # an unknown name, a path, a folder of zones
        text = f"There is no time zone {name[:60]!r}. Use an IANA name such as 'Europe/Berlin' or 'UTC'."
        raise ToolError("invalid_arguments", text) from None


def read_when(text: str, zone: str, now: float) -> When:
    """Return when a schedule is due, from the words of the command line. Raises `ToolError` for others.

    `zone`: for times without one.
    """
    words = " ".join(text.split())
    kind, _, rest = words.partition(" ")
    match kind.lower():
        case "every":
            when: When = Every(_read_interval(rest), _whole(now))
        case "in":
            when = At(_whole(now) + _read_seconds(rest))
        case "at":
            when = At(_read_moment(rest, zone))
        case _:
            when = Cron(_read_fields(words), zone)
            find_zone(zone)
    if next_time(when, now) is None:
        raise _refused(text, "it is in the past" if isinstance(when, At) else "no day is like that")
    return when


def next_time(when: When, after: float, later: float = 0.0) -> float | None:
    """Return the first due time after this moment; None if there is none. `later`: see `offset_of`."""
    match when:
        case At(at=at):
            return at if at > after else None
        case Every(seconds=seconds, since=since):
            return since + max(1, int((after - since) / seconds) + 1) * seconds
        case Cron():
            found = _search(when, int(after - later), is_back=False)
            return None if found is None else found + later


def last_time(when: When, until: float, later: float = 0.0) -> float | None:
    """Return the last due time up to this moment; None if there was none."""
    match when:
        case At(at=at):
            return at if at <= until else None
        case Every(seconds=seconds, since=since):
            count = int((until - since) / seconds)
            return since + count * seconds if count >= 1 else None
        case Cron():
            found = _search(when, int(until - later) + 1, is_back=True)
            return None if found is None else found + later


def next_times(when: When, after: float, count: int) -> list[float]:
    """Return the first due times after this moment, at most so many."""
    found: list[float] = []
    while len(found) < count and (after_it := next_time(when, found[-1] if found else after)) is not None:
        found.append(after_it)
    return found


def offset_of(schedule: str, when: When, spread: float) -> float:
    """Return by how many seconds this schedule is later than its cron fields say, so that not all begin at once."""
    if not spread or not isinstance(when, Cron):
        return 0.0
    return float(int.from_bytes(hashlib.sha256(schedule.encode()).digest()[:4]) % (int(spread) + 1))


def describe_when(when: When, zone: str) -> str:
    """Return when it is due, in words."""
    match when:
        case At(at=at):
            return f"once, on {describe_moment(at, zone)}"
        case Every(seconds=seconds):
            return f"every {describe_interval(seconds)}"
        case Cron(fields=fields):
            return f"cron {fields} ({zone})"


def describe_moment(at: float, zone: str) -> str:
    """Return a moment as people say it: Friday, 20 November 2026, 07:30 (Europe/Berlin)."""
    moment = datetime.fromtimestamp(at, find_zone(zone))
    seconds = ":%S" if moment.second else ""
    return f"{moment:%A}, {moment.day} {moment:%B %Y, %H:%M{seconds}} ({zone})"


def describe_interval(seconds: float) -> str:
    """Return so many seconds in the largest unit that fits: 30 minutes."""
    for name, size in (("week", 604800), ("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1)):
        if seconds % size == 0:
            count = int(seconds // size)
            return f"{count} {name}s" if count != 1 else name
    return f"{seconds:g} seconds"


def _search(when: Cron, start: int, *, is_back: bool) -> float | None:
    moment = datetime.fromtimestamp(start, find_zone(when.zone))
    try:
        return next(cronsim.CronSim(when.fields, moment, reverse=is_back)).astimezone(UTC).timestamp()
    except (StopIteration, OverflowError):
        return None


def _read_fields(text: str) -> str:
    """Return five checked fields of cron."""
    fields = _NAMED.get(text.lower(), text)
    count = len(fields.split())
    if count == 6:
        raise _refused(text, "six fields (with seconds) are not taken")
    if count != 5 or len(fields) > _LONGEST_FIELDS:
        raise _refused(text, "it is nothing that I know")
    try:
        cronsim.CronSim(fields, datetime(2026, 1, 1, tzinfo=UTC))
    except cronsim.CronSimError as error:
        raise _refused(text, str(error)) from None
    return fields


def _read_seconds(text: str) -> int:
    if not re.fullmatch(f"({_AMOUNT})+", text.lower()):
        raise _refused(text, "it is no length of time such as '30m' or '1h 30m'")
    total = sum(int(count) * _UNITS[unit[0]] for count, unit in re.findall(_AMOUNT, text.lower()))
    if not 0 < total <= _MOST_SECONDS:
        raise _refused(text, "it is nothing, or more than a year")
    return total


def _read_interval(text: str) -> float:
    seconds = _read_seconds(text)
    if seconds < _LEAST_SECONDS:
        raise _refused(text, "a schedule runs once a minute at most")
    return float(seconds)


def _read_moment(text: str, zone: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise _refused(text, "it is no moment such as '2026-12-01T09:00'") from None
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=find_zone(zone))).timestamp()


def _whole(moment: float) -> float:
    return float(int(moment))


def _refused(text: str, why: str) -> ToolError:
    return ToolError("invalid_arguments", f"{text[:_LONGEST_FIELDS]!r} can't be used: {why}. {_FORMS}.")
