"""Devices in REST (SPEC W10)."""

from typing import Annotated

from msgspec import Meta, Struct

from handspan.wire.ws_frames import DeviceScope, RejectedTool


class DeviceView(Struct, frozen=True):
    """A device, connected or not."""

    id: str
    label: str
    """The prefix of its tools' names, if `connected_as` is empty."""
    name: str
    connected: bool
    last_seen: str | None
    tools: tuple[str, ...]
    changed: tuple[str, ...]
    """Tools whose definition has changed (SPEC T5)."""
    description: str = ""
    """What the device says it is. Of a bridged app: what the app says."""
    scopes: list[DeviceScope] = []
    """The kinds of data that the device says it has."""
    notes: list[str] = []
    """What else people should know, such as which tools of an app are not offered, and why."""
    connected_as: str = ""
    """The label in use until its next connection, where a person has given it another one; else empty."""
    notice: str = ""
    """Why it does not have the label that it asked for: that is the name of an MCP server. Else empty."""
    refused: list[RejectedTool] = []
    """The tools that it offered and that the gateway does not take, each with the reason."""


class DeviceList(Struct, frozen=True):
    """The caller's devices."""

    devices: list[DeviceView]


class NewLabel(Struct, frozen=True, forbid_unknown_fields=True):
    """The new label of a device."""

    label: Annotated[
        str,
        Meta(
            pattern=r"^[a-z](_?[a-z0-9]){0,23}$",
            max_length=24,
            description="Lower case, digits and single '_', beginning with a letter.",
        ),
    ]


class Relabelled(Struct, frozen=True):
    """The label that a person gave a device."""

    label: str
    connected_as: str = ""
    """The label that the device keeps until its next connection; empty if `label` holds at once."""


class SeenDevice(Struct, frozen=True):
    """Its changed tools count as seen."""

    label: str
    looked: bool = True


class ForgottenDevice(Struct, frozen=True):
    """The device is forgotten. It has to be paired again, unless its token stays valid."""

    revoked: bool
    """Whether its token is not valid any more."""
    label: str
    still_valid: str = ""
    """Why its token stays valid, and how it can be revoked. Empty where it is revoked."""
    serves: list[str] = []
    """The other devices that keep the token valid, since it lets them in."""
    token_id: str = ""
    """The id of that token."""
