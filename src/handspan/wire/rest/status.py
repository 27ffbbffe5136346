"""The state of the gateway, its nodes and its settings in REST."""

from collections.abc import Mapping

from msgspec import Struct

from handspan.core.channels import ChannelState
from handspan.core.sources import SourceState
from handspan.core.values import Json


class MemoryStatus(Struct, frozen=True):
    """The owner's long-term memory."""

    backend: str
    count: int
    """Paragraphs."""


class Status(Struct, frozen=True):
    """The state of the gateway."""

    provider: str
    model: str
    temperature: float
    paired: bool
    gateway_port: int
    memory: MemoryStatus
    version: str
    why: str
    """Why this model was chosen."""
    sandbox: bool
    """Whether commands run in a sandbox."""
    tools: int
    agent: str
    """The default agent."""
    sources: dict[str, SourceState]
    """The sources of tools, by name. Only `admin` tokens see the details of an error."""
    channels: dict[str, ChannelState] = {}
    """The channels to people, by name. Only `admin` tokens see why one does not work."""


class SourceList(Struct, frozen=True):
    """The sources of tools, by name. Only `admin` tokens see the details of an error."""

    sources: dict[str, SourceState]


class Finding(Struct, frozen=True):
    """The result of one check."""

    what: str
    ok: bool
    found: str
    remedy: str = ""
    """What to do, where something is to be done."""


class Diagnosis(Struct, frozen=True):
    """Whether everything works in the gateway, and what to do where it does not."""

    findings: list[Finding]


class SettingView(Struct, frozen=True):
    """One setting."""

    key: str
    value: Json
    """Keys and passwords are shown as '…'."""
    source: str
    """`default`, the file, `environment variable NAME`, or `command line`."""


class SettingsInForce(Struct, frozen=True):
    """The settings with which the gateway runs."""

    file: str | None
    """The settings file, also one that was added since the start."""
    is_changed: bool
    """The files of the settings say something that is not in force."""
    settings: list[SettingView]
    reloadable: list[str] = []
    """The changed settings that `POST /api/settings/reload` applies."""
    needs_restart: list[str] = []
    """The changed settings that only a restart applies."""
    problem: str = ""
    """Why the files can't be used as they are now. What they said before stays in force."""


class ReloadedSettings(Struct, frozen=True):
    """The settings as their files have them now are in force, as far as that needs no restart."""

    applied: list[str]
    """The settings that have changed."""
    needs_restart: list[str]
    """The changed settings that only a restart applies."""
    model: str = ""
    """Which model answers now where none is named, and why; empty: as before."""


class ListedNode(Struct, frozen=True):
    """One node."""

    id: str
    name: str
    address: str
    version: str
    role: str
    started: str
    lag: float
    """Seconds since its last sign of life."""
    draining: bool
    load: Mapping[str, float]
    here: bool
    """Whether it is the node that answers."""


class NodeList(Struct, frozen=True):
    """All nodes that count as alive; none where the gateway is alone."""

    nodes: list[ListedNode]
