"""The gateway, its models, its skills and the used tokens in REST."""

from typing import Annotated

from msgspec import Meta, Struct

from handspan.core.channels import ChannelState
from handspan.core.records import SumBy, UsageSum
from handspan.core.sources import SourceState
from handspan.core.values import Json
from handspan.wire.rest.fields import SessionId
from handspan.wire.rest.models import ListedModel


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


class WhichModel(Struct, frozen=True, forbid_unknown_fields=True):
    """The name of a model, or of an agent whose model is meant."""

    model: Annotated[str, Meta(max_length=200)] = ""
    agent: Annotated[str, Meta(max_length=100)] = ""
    at_once: bool = False
    """Answer at once, without a search for a local model."""


class ChosenModel(Struct, frozen=True):
    """The model that answers."""

    model: str
    provider: str
    """The model's API. A model without an API: its own name."""
    why: str


class Models(Struct, frozen=True):
    """The models of the settings and those that were added."""

    models: list[str]
    default: ChosenModel
    listed: list[ListedModel]
    """The same with what is known of them."""
    chosen: str
    """The model that a person chose; empty: the settings decide."""


class SkillView(Struct, frozen=True):
    """A skill, usable or not (SPEC A3)."""

    name: str
    description: str
    version: str
    enabled: bool
    where: str
    problems: tuple[str, ...]
    triggers: tuple[str, ...] = ()
    permissions: tuple[str, ...] = ()
    path: str = ""
    """The file; for the operator alone, as is the fingerprint."""
    fingerprint: str = ""
    """What a person who enables it agrees to."""


class SkillText(Struct, frozen=True):
    """A skill as a model would get it, usable or not."""

    name: str
    instructions: str
    fingerprint: str


class SkillConsent(Struct, frozen=True, forbid_unknown_fields=True):
    """Whether a skill of the workspace may be used."""

    enabled: bool
    fingerprint: Annotated[str, Meta(max_length=200)] = ""
    """Of the text that the person has read; to enable it."""


class SkillState(Struct, frozen=True):
    """What a consent came to."""

    name: str
    enabled: bool
    changed: bool
    """False: it was so before."""


class SkillList(Struct, frozen=True):
    """All skills that were found."""

    skills: list[SkillView]


class ActingQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The agent of the next answer. Empty: the session's agent."""

    agent: Annotated[str, Meta(max_length=100)] = ""


class SkillSwitch(Struct, frozen=True, forbid_unknown_fields=True):
    """A skill to switch on or off in a session."""

    name: Annotated[str, Meta(min_length=1, max_length=200)]
    on: bool = True
    agent: Annotated[str, Meta(max_length=100)] = ""
    """The agent of the next answer. Empty: the session's agent."""


class UsableTool(Struct, frozen=True):
    """A tool that the session's agent may call now."""

    name: str
    description: str


class SessionSkills(Struct, frozen=True):
    """The skills that are on in a session, and the tools that its agent may call with them (SPEC A3)."""

    skills: list[str]
    tools: list[UsableTool]
    notes: list[str]
    """Why some skills of the agent can't be used."""


class UsageQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """What to sum."""

    by: SumBy = "model"
    session: SessionId = ""
    since: Annotated[
        str, Meta(pattern=r"^([0-9]{4}-[0-9]{2}-[0-9]{2})?$", description="A day (UTC), as 2026-01-31.")
    ] = ""


class UsageList(Struct, frozen=True):
    """One sum for each session, model, agent or day. A count that the model did not report is null, never 0."""

    by: str
    usage: list[UsageSum]
