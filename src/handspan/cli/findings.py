"""What `handspan doctor` finds."""

from msgspec import Struct


class Finding(Struct, frozen=True):
    """One thing that was looked at."""

    what: str
    ok: bool
    found: str
    remedy: str = ""
