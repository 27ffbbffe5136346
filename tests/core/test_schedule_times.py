"""When schedules are due: words, cron, zones, daylight saving (SPEC J1)."""

import re
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handspan.core.errors import ToolError
from handspan.core.schedule_times import (
    describe_interval,
    describe_moment,
    describe_when,
    last_time,
    next_time,
    next_times,
    offset_of,
    read_when,
)
from handspan.core.schedules import At, Cron, Every, When

NOW = datetime(2026, 11, 20, 12, 0, 30, tzinfo=UTC).timestamp()
CHANGES = {  # zone: the day before each change of its clocks, in both directions
    "Europe/Berlin": (datetime(2026, 3, 28, tzinfo=UTC), datetime(2026, 10, 24, tzinfo=UTC)),
    "America/New_York": (datetime(2026, 3, 7, tzinfo=UTC), datetime(2026, 10, 31, tzinfo=UTC)),
    "Australia/Sydney": (datetime(2026, 4, 3, 12, tzinfo=UTC), datetime(2026, 10, 2, 12, tzinfo=UTC)),
}
FIELDS = (
    *("* * * * *", "*/7 * * * *", "5 * * * *", "0 */2 * * *", "30 2 * * *", "0,15,45 2 * * *", "15 1,2,3 * * *"),
    *("0 3 * * *", "45 1 * * 0", "0 0 * * *", "10 2 25 * 1", "30 1 * 3,10,11,4 *", "59 23 * * 6", "*/20 2 * * *"),
)


def at(text: str, zone: str = "UTC") -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


def read(text: str, zone: str = "Europe/Berlin") -> When:
    return read_when(text, zone, NOW)


@cache
def minutes(zone: str, start: datetime) -> list[tuple[float, datetime, list[datetime]]]:
    """Each minute of three days: what the clocks show, and what they show for the first time or have just skipped."""
    found = []
    before = start.astimezone(ZoneInfo(zone)).replace(tzinfo=None) - timedelta(minutes=1)
    for number in range(3 * 24 * 60):
        moment = start + timedelta(minutes=number)
        shown = moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None, fold=0)
        new = [before + timedelta(minutes=one + 1) for one in range(int((shown - before).total_seconds() // 60))]
        found.append((moment.timestamp(), shown, new))
        before = max(before, shown)
    return found


@cache
def walk(fields: str, zone: str, start: datetime) -> list[float]:
    """The due times of three days, found minute by minute as Debian's cron does it."""
    minute, hour = fields.split()[:2]
    is_fixed = not minute.startswith("*") and not hour.startswith("*")
    return [
        moment
        for moment, shown, new in minutes(zone, start)
        if any(fits(fields, wall) for wall in (new if is_fixed else [shown]))
    ]


def fits(fields: str, wall: datetime) -> bool:
    minute, hour, day, month, weekday = fields.split()
    if wall.minute not in allowed(minute, 0, 59) or wall.hour not in allowed(hour, 0, 23):
        return False
    days = wall.day in allowed(day, 1, 31), wall.isoweekday() % 7 in allowed(weekday, 0, 6)
    is_day = all(days) if day.startswith("*") or weekday.startswith("*") else any(days)
    return is_day and wall.month in allowed(month, 1, 12)


@cache
def allowed(field: str, least: int, most: int) -> set[int]:
    found: set[int] = set()
    for term in field.split(","):
        span, _, step = term.partition("/")
        first, _, last = (f"{least}-{most}" if span == "*" else span).partition("-")
        found |= set(range(int(first), int(last or first) + 1, int(step or 1)))
    return found


@pytest.mark.parametrize("zone", CHANGES)
@pytest.mark.parametrize("fields", FIELDS)
def test_cron_follows_the_clocks_through_both_changes_as_a_walk_minute_by_minute_does(fields: str, zone: str) -> None:
    when = Cron(fields, zone)
    for start in CHANGES[zone]:
        expected = walk(fields, zone, start)
        found, moment = [], start.timestamp() - 1
        while (due := next_time(when, moment)) is not None and due < (start + timedelta(days=3)).timestamp():
            found.append(due)
            moment = due
        assert found == expected


@pytest.mark.parametrize("zone", CHANGES)
@pytest.mark.parametrize("fields", FIELDS)
def test_the_last_time_before_a_moment_is_the_one_that_the_next_times_lead_to(fields: str, zone: str) -> None:
    when = Cron(fields, zone)
    for start in CHANGES[zone]:
        times = walk(fields, zone, start)
        for before, after in [*pairwise(times)][:: 1 + len(times) // 50]:
            assert last_time(when, before) == last_time(when, after - 1) == last_time(when, before + 0.5) == before


@given(
    st.lists(st.integers(0, 59), min_size=1, max_size=3),
    st.integers(0, 23),
    st.sampled_from(["*", "1", "13", "31", "1-7", "*/10"]),
    st.sampled_from(["*", "0", "1-5", "6,0", "*/2"]),
    st.integers(0, 700),
)
def test_days_of_the_month_and_of_the_week_count_as_cron_counts_them(
    minutes: list[int], hour: int, day: str, weekday: str, begin: int
) -> None:
    fields = f"{','.join(map(str, minutes))} {hour} {day} * {weekday}"
    start = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=begin)
    due = next_time(Cron(fields, "UTC"), start.timestamp() - 1)
    assert due is not None
    end = datetime.fromtimestamp(due, UTC)
    assert fits(fields, end.replace(tzinfo=None)) and end.second == 0
    between = int((min(end, start + timedelta(days=10)) - start).total_seconds() // 60)
    assert not any(fits(fields, (start + timedelta(minutes=one)).replace(tzinfo=None)) for one in range(between))


def test_words_of_people_at_the_command_line_are_read() -> None:
    assert read("every 30m") == Every(1800.0, NOW)
    assert read("Every 1h 30 minutes") == Every(5400.0, NOW)
    assert read("in 20m") == At(NOW + 1200)
    assert read("at 2026-12-01T09:00") == At(at("2026-12-01T09:00", "Europe/Berlin"))
    assert read("at 2026-12-01T09:00Z") == At(at("2026-12-01T09:00"))
    assert read(" 30  7 * * 1-5 ") == Cron("30 7 * * 1-5", "Europe/Berlin")
    assert read("@Daily") == Cron("0 0 * * *", "Europe/Berlin")
    named = [read(f"@{name}") for name in ("hourly", "weekly", "monthly")]
    assert named == [Cron(fields, "Europe/Berlin") for fields in ("0 * * * *", "0 0 * * 0", "0 0 1 * *")]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("0 30 7 * * 1-5", "six fields"),
        ("61 * * * *", "Bad minute"),
        ("0 0 30 2 *", "Bad day-of-month"),
        ("@reboot", "nothing that I know"),
        ("every weekday at 7:30", "no length of time"),
        ("every 10s", "once a minute"),
        ("every 0m", "it is nothing"),
        ("every 3months", "no length of time"),
        ("in 400d", "more than a year"),
        ("in", "no length of time"),
        ("at 2026-11-20T09:00", "in the past"),
        ("at nine", "no moment"),
        ("", "nothing that I know"),
        ("1," * 200 + "1 * * * *", "nothing that I know"),
        ("٣ * * * *", "Bad minute"),
    ],
)
def test_what_is_no_time_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(ToolError, match=re.escape(why)) as caught:
        read(text)
    assert caught.value.code == "invalid_arguments" and "every 30m" in caught.value.message


def test_an_unknown_zone_is_refused() -> None:
    for name in ("Mars/Olympus", "../../etc/passwd", "", "Europe"):
        with pytest.raises(ToolError, match="There is no time zone"):
            read("@daily", name)


def test_intervals_keep_their_beginning() -> None:
    when = Every(600.0, NOW)
    assert next_times(when, NOW, 3) == [NOW + 600, NOW + 1200, NOW + 1800]
    assert next_time(when, NOW + 600) == NOW + 1200 and next_time(when, NOW + 601) == NOW + 1200
    assert last_time(when, NOW + 599) is None and last_time(when, NOW + 1201) == NOW + 1200
    assert next_time(when, NOW - 5000) == NOW + 600


def test_a_moment_comes_once() -> None:
    assert next_times(At(NOW), NOW - 1, 3) == [NOW]
    assert next_time(At(NOW), NOW) is None and last_time(At(NOW), NOW) == NOW and last_time(At(NOW), NOW - 1) is None


def test_a_spread_moves_cron_by_the_same_seconds_each_time() -> None:
    when = Cron("0 9 * * *", "UTC")
    offsets = {offset_of(f"s{number}", when, 60.0) for number in range(200)}
    assert len(offsets) > 30 and all(0 <= one <= 60 for one in offsets)
    assert offset_of("s1", Every(60.0, 0.0), 60.0) == 0.0 and offset_of("s1", when, 0.0) == 0.0
    later = offset_of("s1", when, 60.0)
    due = next_time(when, NOW, later)
    assert due == at("2026-11-21T09:00") + later
    assert next_time(when, due, later) == at("2026-11-22T09:00") + later
    assert last_time(when, due, later) == due and last_time(when, due - 1, later) == due - 24 * 3600


def test_times_are_said_in_words() -> None:
    assert describe_moment(at("2026-11-20T07:30", "Europe/Berlin"), "Europe/Berlin") == (
        "Friday, 20 November 2026, 07:30 (Europe/Berlin)"
    )
    assert describe_when(Every(1800.0, 0.0), "UTC") == "every 30 minutes"
    assert describe_when(At(at("2026-12-01T09:00")), "UTC") == "once, on Tuesday, 1 December 2026, 09:00 (UTC)"
    assert describe_when(Cron("0 0 * * *", "UTC"), "UTC") == "cron 0 0 * * * (UTC)"
    assert [describe_interval(seconds) for seconds in (3600.0, 172800.0, 5400.0)] == ["hour", "2 days", "90 minutes"]
