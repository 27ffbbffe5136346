"""An agent as data, what its mode means for a tool, and the tools of its active skills."""

from collections.abc import Iterable
from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta, Struct, structs

from handspan.core.budgets import BudgetLimits
from handspan.core.channels import CHANNEL_SESSION
from handspan.core.tool import NO_EFFECTS, Annotations

Mode: TypeAlias = Literal["automatic", "ask_destructive", "ask_always", "read_only"]
"""When a person is asked (SPEC P4)."""


MostTimes: TypeAlias = Annotated[
    Annotated[int, Meta(ge=1)] | None,
    Meta(description="a whole number of 1 or more, or 0 for no limit", extra={"read_as": ((0, None),)}),
]
"""How often at most. None: no limit; settings and requests write it as 0."""


class AgentLimits(Struct, frozen=True, forbid_unknown_fields=True):
    """Guards against an agent that repeats itself. They are off by default: an equal call is a legal call (SPEC E4)."""

    repeats: MostTimes = None
    """How often a call with the same arguments may run in one turn; a further one is refused. Unset: no limit."""
    failed_rounds: MostTimes = None
    """After so many rounds in a row in which every call failed the agent has to answer. Unset: no limit."""


class Unattended(Struct, frozen=True):
    """What holds for a turn that no person has begun (SPEC J2)."""

    tools: tuple[str, ...] | None = None
    """The names of the tools that it may use at most, whatever the agent and its skills say; None: as they say."""
    question_seconds: float = 24 * 3600.0
    """How long its questions wait."""


class Agent(Struct, frozen=True):
    """An agent: which tools it may use, when a person is asked first, and how it talks (SPEC A1)."""

    name: str = "General"
    tools: tuple[str, ...] | None = None
    """Globs of the tools that the agent may use; None means all, empty means none (SPEC R7)."""
    deny: tuple[str, ...] = ()
    """Globs of the tools that the agent may not use; they win over `tools`."""
    mode: Mode = "automatic"
    instructions: str = ""
    """The first text that the model gets."""
    model: str = ""
    """Empty: the model of the gateway."""
    description: str = ""
    """One sentence for people who choose an agent."""
    max_tool_iterations: int | None = 20
    """Rounds of calls in one turn; None or 0 means no limit (SPEC E4)."""
    skills: tuple[str, ...] = ()
    """Skills that are active from the start (SPEC A3)."""
    nodes: tuple[str, ...] | None = None
    """Nodes of page clients whose tools the agent may use; None means all (graph.md 3.6)."""
    limits: AgentLimits = AgentLimits()
    budget: BudgetLimits = BudgetLimits()
    """How much its models may cost (SPEC L5). Only settings and programs set it."""
    then: tuple[str, ...] | None = None
    """Models that answer while its model can't; None: those that the settings give to that one (SPEC L6)."""
    may_ask: tuple[str, ...] = ()
    """Names and globs of the agents that it may ask (SPEC J5). Only settings and programs set it."""
    asker_modes: tuple[Mode, ...] = ()
    """The modes of the agents for which it works; the strictest mode counts. Set only while it works for others."""
    unattended: Unattended | None = None
    """Is set only while it acts in a turn that no person has begun; never stored."""

    @property
    def modes(self) -> tuple[Mode, ...]:
        """Every mode that holds for its calls: a call that one of them refuses is refused, and likewise with asking."""
        return (self.mode, *self.asker_modes)


GENERAL = Agent()
"""The built-in agent of every owner: all tools, no questions. It can't be removed."""


class SkillTools(Struct, frozen=True):
    """The tools of the active skills that limit the toolbox (SPEC A3)."""

    skills: tuple[str, ...]
    """The names of these skills."""
    globs: tuple[str, ...]
    """The union of their globs."""


def mode_refuses(mode: Mode, annotations: Annotations) -> bool:
    """Whether this mode refuses every tool with these annotations."""
    return mode == "read_only" and not annotations.read_only


def mode_asks(mode: Mode, annotations: Annotations) -> bool:
    """Whether a person is asked before a tool with these annotations runs."""
    if annotations is NO_EFFECTS:  # by identity: an equal object of a tool from outside does not count
        return False
    return mode == "ask_always" or (mode == "ask_destructive" and annotations.destructive)


_MODES: Final[tuple[Mode, ...]] = ("automatic", "ask_destructive", "ask_always", "read_only")
"""The most careful one last."""


def most_careful(modes: Iterable[Mode]) -> Mode:
    """Return the mode that lets an agent do least without a person."""
    return max(modes, key=_MODES.index)


def limit_agent(agent: Agent, tools: tuple[str, ...] | None, mode: Mode) -> Agent:
    """Return the agent as it acts in a turn that no person has begun: with at most these tools and this mode.

    With tools that are named it asks no other agent: that one would act with tools and a mode of its own.
    """
    careful = most_careful((agent.mode, mode))
    may_ask = agent.may_ask if tools is None else ()
    return structs.replace(agent, mode=careful, may_ask=may_ask, unattended=Unattended(tools))


def agent_in_session(agent: Agent, session_id: str) -> Agent:
    """Return the agent as it acts in this session. In a channel's session it asks at least before destructive calls.

    The reason: a person on a channel shows no token, and a message may be forwarded by anyone.
    """
    if agent.mode == "automatic" and session_id.startswith(CHANNEL_SESSION):
        return structs.replace(agent, mode="ask_destructive")
    return agent
