"""What lasts of a device: what it asked to be called, what it is called, and which tools it had (SPEC W10, T5)."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct


class DeviceRow(Struct, frozen=True):
    """One device of one owner."""

    owner: str
    id: str
    """The label that it asked for; with `_2`, `_3` … where another device had that one."""
    label: str
    """What it is called now: its tools are `{label}__{tool}`."""
    name: str
    """What it says of itself, for people."""
    last_seen: float
    """To the minute, in seconds since 1970."""
    tools: Mapping[str, str] = {}
    """The fingerprints of the tools that it offered last, by its own names for them."""
    gone: Mapping[str, str] = {}
    """Those of tools that it had before: a definition that goes and comes back changed has changed too."""
    changed: tuple[str, ...] = ()
    """Tools whose definition changed, and nobody has looked at them yet."""


class DeviceBook(Protocol):
    """Keeps the devices of all owners."""

    async def all(self) -> Sequence[DeviceRow]:
        """Every device of every owner."""
        ...

    async def save(self, rows: Sequence[DeviceRow]) -> None:
        """Keep these, in place of those of the same owner and id; all or none."""
        ...

    async def delete(self, devices: Sequence[tuple[str, str]]) -> None:
        """Forget these, each given as owner and id; all or none."""
        ...
