"""Devices, as REST shows them (SPEC W10)."""

from typing import Annotated

from msgspec import Meta, Struct


class ShownDevice(Struct, frozen=True):
    """A device, connected or not."""

    id: str
    label: str
    """What its tools are prefixed with."""
    name: str
    connected: bool
    last_seen: str | None
    tools: tuple[str, ...]
    changed: tuple[str, ...]
    """Tools whose definition is not what it was (SPEC T5)."""


class DeviceList(Struct, frozen=True):
    """The caller's devices."""

    devices: list[ShownDevice]


class NewLabel(Struct, frozen=True, forbid_unknown_fields=True):
    """What it shall be called."""

    label: Annotated[
        str,
        Meta(
            pattern=r"^[a-z](_?[a-z0-9]){0,23}$",
            max_length=24,
            description="Lower case, digits and single '_', beginning with a letter.",
        ),
    ]


class Relabelled(Struct, frozen=True):
    """What it is called now."""

    label: str


class Looked(Struct, frozen=True):
    """Its changed tools are shown as changed no more."""

    label: str
    looked: bool = True


class ForgottenDevice(Struct, frozen=True):
    """It is gone, and has to be paired again."""

    revoked: bool
    label: str
