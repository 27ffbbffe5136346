"""Whether a call may run at all: a pure answer (SPEC P4)."""

from typing import Protocol, TypeAlias

from msgspec import Struct

from handspan.core.agents import mode_asks, mode_refuses
from handspan.core.calls import ToolCall
from handspan.core.tool import ToolSpec
from handspan.engine.caller import Caller


class Allow(Struct, frozen=True):
    """It may run."""


class Deny(Struct, frozen=True):
    """It may not run; the reason is for the model."""

    reason: str


class Ask(Struct, frozen=True):
    """A person decides; the reason is for the person."""

    reason: str


Verdict: TypeAlias = Allow | Deny | Ask

ALLOW = Allow()


class Policy(Protocol):
    """Decides from what is known, without asking anybody."""

    def decide(self, spec: ToolSpec, call: ToolCall, who: Caller) -> Verdict: ...


class ModePolicy:
    """Decides by the agent's mode and the tool's annotations."""

    def decide(self, spec: ToolSpec, call: ToolCall, who: Caller) -> Verdict:
        """Allow, deny or ask."""
        mode = who.agent.mode
        if mode == "automatic":
            return ALLOW
        if mode_refuses(mode, spec.annotations):
            return Deny(f"Tool {spec.name!r} may change things, and the agent {who.agent.name!r} is read-only.")
        if mode_asks(mode, spec.annotations):
            return Ask(f"The agent {who.agent.name!r} asks before it uses {spec.name!r} (mode {mode!r}).")
        return ALLOW
