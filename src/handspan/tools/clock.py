"""The time: `get_current_time` (SPEC B)."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, tzinfo
from typing import Final

from handspan.core.context import ToolContext
from handspan.core.errors import ToolError
from handspan.core.late_imports import difflib, zoneinfo
from handspan.core.tool import READ_ONLY, ToolSpec, parameters, string
from handspan.core.values import Json

_FORMATS: Final = ("iso8601", "human_readable")


class GetCurrentTime:
    """Returns the time, in the machine's time zone or in a given one."""

    spec: Final = ToolSpec(
        name="get_current_time",
        description="Get the current date and time.",
        parameters=parameters(
            timezone=string("IANA time zone such as 'America/New_York'; the machine's own by default."),
            # Upper and lower case are allowed, which an enum can't express: `run` checks the value.
            format=string("'iso8601' (default) or 'human_readable', in upper or lower case."),
        ),
        timeout=5.0,
        annotations=READ_ONLY,
    )

    def __init__(self, clock: Callable[[tzinfo], datetime] = datetime.now) -> None:
        self._clock = clock

    async def run(self, arguments: Mapping[str, Json], ctx: ToolContext) -> str:
        """Return the time as one string."""
        form = str(arguments.get("format", "iso8601"))
        if form.lower() not in _FORMATS:
            raise ToolError("invalid_arguments", f"Unknown format {form!r:.80}. Use 'iso8601' or 'human_readable'.")
        name = arguments.get("timezone")
        zone = None if name is None else await _find_zone(str(name))
        now = self._clock(UTC).astimezone(zone)
        return now.isoformat(timespec="seconds") if form.lower() == "iso8601" else _format_readable(now)


async def _find_zone(name: str) -> tzinfo:
    """Return the time zone of this name. Raises `ToolError`, with similar names, for an unknown one."""
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):  # an unknown name, a path, a folder of zones
        known = await asyncio.to_thread(zoneinfo.available_timezones)
    raise ToolError(
        "invalid_arguments",
        f"Invalid timezone: {name!r:.80}. {_hint(name, known)}"
        "Use an IANA time zone such as 'America/New_York' or 'UTC'.",
    )


def _hint(name: str, known: set[str]) -> str:
    """Return a sentence with the nearest known time zone; empty when none is near."""
    by_lower_case = {zone.lower(): zone for zone in known}
    asked = name[:64].strip().replace(" ", "_").lower()
    near = difflib.get_close_matches(asked, by_lower_case, n=1, cutoff=0.7)
    if not near:  # a city alone: "berlin" for "Europe/Berlin"
        near = sorted(zone for zone in by_lower_case if zone.rpartition("/")[2] == asked)
    return f"Did you mean {by_lower_case[near[0]]!r}? " if near else ""


def _format_readable(now: datetime) -> str:
    """Return text such as "Friday, February 27, 2026 at 3:04:05 PM CET"."""
    return f"{now:%A, %B} {now.day}, {now.year} at {now.hour % 12 or 12}:{now:%M:%S %p} {now.tzname()}"
