"""How schedules are read and spread (SPEC J1)."""

import os
from pathlib import Path
from typing import Annotated, Final

from msgspec import Meta, Struct

_LINK: Final = Path("/etc/localtime")
_ZONES: Final = "zoneinfo/"


class ScheduleSettings(Struct, frozen=True):
    """What begins by itself (docs/schedules.md)."""

    zone: str = ""
    """The time zone of schedules that name none, such as `Europe/Berlin`; empty: that of this computer."""
    spread: Annotated[float, Meta(ge=0, le=3600, description="a number of seconds from 0 to 3600")] = 0.0
    """Each schedule of cron begins up to so many seconds later, always the same, so that not all begin at once; 0:
    exactly on time."""

    @property
    def zone_name(self) -> str:
        """The time zone of schedules that name none."""
        return self.zone or local_zone()


def local_zone() -> str:
    """Return the name of this computer's time zone; `UTC` if it is not known."""
    named = os.environ.get("TZ", "").removeprefix(":")
    if named and not named.startswith("/"):
        return named
    try:
        target = str(_LINK.resolve())
    except OSError:
        return "UTC"
    return target.rpartition(_ZONES)[2] if _ZONES in target else "UTC"
