"""`get_current_time`: the time here or elsewhere, and errors that help."""

import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo

import pytest

from handspan.core.context import ToolContext
from handspan.core.errors import ToolError
from handspan.tools.clock import GetCurrentTime

pytestmark = pytest.mark.anyio


def at_noon(zone: tzinfo) -> datetime:
    return datetime(2026, 2, 27, 12, 4, 5, 678, tzinfo=UTC).astimezone(zone)


@pytest.fixture
def tool() -> GetCurrentTime:
    return GetCurrentTime(at_noon)


@pytest.fixture
def machine_in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    "zone",
    [
        "Mars/Phobos",
        "",
        "America",
        "../../etc/passwd",
        "/etc/localtime",
        "a" * 5000,
        "\0",
        "\ud800",
        "PST8",
        "Europe/",
        "+01:00",
    ],
)
async def test_an_unknown_zone_is_an_error_with_an_example(tool: GetCurrentTime, ctx: ToolContext, zone: str) -> None:
    with pytest.raises(ToolError, match="IANA time zone such as 'America/New_York'") as refused:
        await tool.run({"timezone": zone}, ctx)
    assert refused.value.code == "invalid_arguments"
    assert repr(zone)[:80] in refused.value.message
    assert len(refused.value.message) < 300


@pytest.mark.parametrize(
    ("zone", "meant"),
    [
        ("Europe/Berln", "Europe/Berlin"),
        ("europe/berlin", "Europe/Berlin"),
        ("tokyo", "Asia/Tokyo"),
        ("New York", "America/New_York"),
    ],
)
async def test_a_misspelt_zone_names_the_right_one(
    tool: GetCurrentTime, ctx: ToolContext, zone: str, meant: str
) -> None:
    with pytest.raises(ToolError, match=rf"Did you mean '{meant}'\?"):
        await tool.run({"timezone": zone}, ctx)


async def test_an_unknown_format_names_the_known_ones(tool: GetCurrentTime, ctx: ToolContext) -> None:
    with pytest.raises(ToolError, match=r"'rfc2822'\. Use 'iso8601' or 'human_readable'") as refused:
        await tool.run({"format": "rfc2822"}, ctx)
    assert refused.value.code == "invalid_arguments"


@pytest.mark.parametrize("form", ["iso8601", "ISO8601", "Iso8601"])
async def test_iso_is_understood_in_any_case(tool: GetCurrentTime, ctx: ToolContext, form: str) -> None:
    answer = await tool.run({"timezone": "America/New_York", "format": form}, ctx)
    assert answer == "2026-02-27T07:04:05-05:00"


@pytest.mark.parametrize("form", ["human_readable", "Human_Readable"])
async def test_human_readable_is_understood_in_any_case(tool: GetCurrentTime, ctx: ToolContext, form: str) -> None:
    answer = await tool.run({"timezone": "Europe/Berlin", "format": form}, ctx)
    assert answer == "Friday, February 27, 2026 at 1:04:05 PM CET"


async def test_noon_is_twelve_for_people(tool: GetCurrentTime, ctx: ToolContext) -> None:
    assert (
        await tool.run({"timezone": "UTC", "format": "human_readable"}, ctx)
        == "Friday, February 27, 2026 at 12:04:05 PM UTC"
    )


@pytest.mark.usefixtures("machine_in_tokyo")
async def test_the_machines_own_zone_is_the_default(tool: GetCurrentTime, ctx: ToolContext) -> None:
    assert await tool.run({}, ctx) == "2026-02-27T21:04:05+09:00"
    assert await tool.run({"format": "human_readable"}, ctx) == "Friday, February 27, 2026 at 9:04:05 PM JST"


async def test_without_another_clock_it_is_the_real_time(ctx: ToolContext) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    answer = await GetCurrentTime().run({"timezone": "UTC"}, ctx)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", answer)
    assert before <= datetime.fromisoformat(answer) <= datetime.now(UTC)


def test_it_reads_only_and_has_five_seconds() -> None:
    assert GetCurrentTime.spec.timeout == 5
    assert GetCurrentTime.spec.annotations.read_only
