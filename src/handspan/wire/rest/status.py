"""The gateway itself, its models, its skills and what replies used, as REST shows them."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from handspan.core.records import UsageSum
from handspan.core.sources import SourceState
from handspan.wire.rest.common import SessionId


class MemoryStatus(Struct, frozen=True):
    """The owner's long-term memory."""

    backend: str
    count: int
    """Paragraphs."""


class Status(Struct, frozen=True):
    """What runs here."""

    provider: str
    model: str
    temperature: float
    paired: bool
    gateway_port: int
    memory: MemoryStatus
    version: str
    why: str
    """Why this model."""
    sandbox: bool
    """Whether commands run in one."""
    tools: int
    agent: str
    """The agent that is meant where none is named."""
    sources: dict[str, SourceState]
    """What supplies tools, by name. What exactly is wrong with one is shown to `admin` tokens."""


class SourceList(Struct, frozen=True):
    """What supplies tools, by name. What exactly is wrong with one is shown to `admin` tokens."""

    sources: dict[str, SourceState]


class WhichModel(Struct, frozen=True, forbid_unknown_fields=True):
    """A model, or an agent's."""

    model: Annotated[str, Meta(max_length=200)] = ""
    agent: Annotated[str, Meta(max_length=100)] = ""
    at_once: bool = False
    """Say what is known now, without looking for a local model first."""


class ChosenModel(Struct, frozen=True):
    """The model that answers."""

    model: str
    provider: str
    """The API that it speaks; its own name where it needs none."""
    why: str


class Models(Struct, frozen=True):
    """Models that the settings name."""

    models: list[str]
    default: ChosenModel


class ShownSkill(Struct, frozen=True):
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

    skills: list[ShownSkill]


class ActingQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The agent that shall answer next; empty: the session's own."""

    agent: Annotated[str, Meta(max_length=100)] = ""


class SkillSwitch(Struct, frozen=True, forbid_unknown_fields=True):
    """A skill to switch on in a session."""

    name: Annotated[str, Meta(min_length=1, max_length=200)]
    agent: Annotated[str, Meta(max_length=100)] = ""
    """The agent that shall answer next; empty: the session's own."""


class UsableTool(Struct, frozen=True):
    """A tool that the session's agent may call now."""

    name: str
    description: str


class SessionSkills(Struct, frozen=True):
    """What is on in a session, and the tools that it leaves (SPEC A3)."""

    skills: list[str]
    tools: list[UsableTool]
    notes: list[str]
    """What keeps skills of the agent from being used."""


class UsageQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """What is summed."""

    by: Literal["session", "model", "day"] = "model"
    session: SessionId = ""
    since: Annotated[
        str, Meta(pattern=r"^([0-9]{4}-[0-9]{2}-[0-9]{2})?$", description="A day (UTC), as 2026-01-31.")
    ] = ""


class UsageList(Struct, frozen=True):
    """One sum for each session, model or day. What nobody said is unknown (null), never 0."""

    by: str
    usage: list[UsageSum]
