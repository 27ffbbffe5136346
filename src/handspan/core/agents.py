"""Whom tools are for: an agent's rules, and the caller that a call is made for."""

from typing import Literal, TypeAlias

from msgspec import Struct

from handspan.core.tool import Annotations

Mode: TypeAlias = Literal["automatic", "ask_destructive", "ask_always", "read_only"]
"""When a person is asked (SPEC P4)."""


class Agent(Struct, frozen=True):
    """An agent as data: which tools it may use, when a person is asked first, and how it talks (SPEC A1)."""

    name: str = "General"
    tools: tuple[str, ...] | None = None
    """Globs of names that it may use; None means all, empty means none (SPEC R7)."""
    deny: tuple[str, ...] = ()
    """Globs of names that it may not use; they win."""
    mode: Mode = "automatic"
    instructions: str = ""
    """What the model is told before everything else."""
    model: str = ""
    """Empty: whichever the gateway uses."""
    description: str = ""
    """One sentence for people who choose an agent."""
    max_tool_iterations: int | None = 20
    """Rounds of calls in one turn; None or 0 means no limit (SPEC E4)."""
    skills: tuple[str, ...] = ()
    """Skills that are on from the start (SPEC A3)."""
    nodes: tuple[str, ...] | None = None
    """Nodes of clients over HTTP whose tools it may use; None means all (graph.md 3.6)."""


GENERAL = Agent()
"""The agent that everybody has: all tools, no questions. It can't be removed."""


def mode_refuses(mode: Mode, annotations: Annotations) -> bool:
    """Whether this mode never lets a tool with these annotations run."""
    return mode == "read_only" and not annotations.read_only


def mode_asks(mode: Mode, annotations: Annotations) -> bool:
    """Whether a person is asked before a tool with these annotations runs."""
    return mode == "ask_always" or (mode == "ask_destructive" and annotations.destructive)
