"""Skills in REST: those that were found, and those that are on in a session (SPEC A3)."""

from typing import Annotated

from msgspec import Meta, Struct


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
    allowed_tools: tuple[str, ...] | None = None
    """Globs of the tools while it is on. None: those of the agent; empty: no tools."""


class SkillText(Struct, frozen=True):
    """A skill as a model would get it, usable or not."""

    name: str
    instructions: str
    fingerprint: str
    allowed_tools: tuple[str, ...] | None = None
    """Globs of the tools while it is on. None: those of the agent; empty: no tools."""


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
