"""Decides whether a call may run, may not run, or is dangerous and needs the approval of a person (SPEC P4)."""

from typing import Protocol, TypeAlias

from msgspec import Struct

from handspan.core.agents import mode_asks, mode_refuses
from handspan.core.calls import ToolCall
from handspan.core.tool import ToolSpec
from handspan.engine.caller import Caller


class Allow(Struct, frozen=True):
    """The call may run."""


class Deny(Struct, frozen=True):
    """The call may not run. The model reads the reason."""

    reason: str


class Ask(Struct, frozen=True):
    """A person decides. The person reads the reason."""

    reason: str


Verdict: TypeAlias = Allow | Deny | Ask

ALLOW = Allow()


class Policy(Protocol):
    """Decides from the tool, the call and the caller alone: no I/O, no questions.

    The annotations of `spec` are those of this call: with some arguments, a tool that can write only reads.
    """

    def decide(self, spec: ToolSpec, call: ToolCall, who: Caller) -> Verdict: ...


class ModePolicy:
    """Decides by the agent's mode and the tool's annotations."""

    def decide(self, spec: ToolSpec, call: ToolCall, who: Caller) -> Verdict:
        """Return whether to allow, deny or ask."""
        agent = who.agent
        if agent.mode == "automatic" and not agent.asker_modes:
            return ALLOW
        if any(mode_refuses(mode, spec.annotations) for mode in agent.modes):
            by = "is" if agent.mode == "read_only" else "works for one that is"
            return Deny(f"This call of {spec.name!r} may change things, and the agent {agent.name!r} {by} read-only.")
        asking = next((mode for mode in agent.modes if mode_asks(mode, spec.annotations)), None)
        if asking is None:
            return ALLOW
        return Ask(f"The agent {agent.name!r} asks before it uses {spec.name!r} (mode {asking!r}).")
