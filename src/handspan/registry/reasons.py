"""Why an agent can or can't use a tool that is there (SPEC R4, R8)."""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from handspan.core.agents import Agent, mode_refuses
from handspan.core.errors import ToolError
from handspan.core.names import matches, matches_any
from handspan.registry.entry import Entry
from handspan.registry.selection import Selection

_HIDDEN: Final = "it is internal, and hidden until a skill that is on names it"
_CHANGED: Final = "its definition is not the one that a person agreed to, and nobody has accepted it yet"


class Reason(Struct, frozen=True):
    """One line of the answer to "why can't this agent use this tool?"."""

    ok: bool
    text: str


def refusal(selection: Selection, entry: Entry) -> ToolError:
    """The error for a call of a tool that is there, and that this agent can't use."""
    name, agent, pattern = entry.spec.name, selection.agent.name, selection.disabled_by(entry)
    if not selection.names(entry):
        return ToolError("tool_not_available", f"Tool {name!r} is not available to the agent {agent!r}.")
    text = f"Tool {name!r} is not available:"
    if selection.hides(entry):
        return ToolError("tool_not_available", f"{text} {_HIDDEN}.")
    if pattern is not None:
        return ToolError("tool_disabled", f"{text} it is switched off for everybody ({pattern!r}).")
    if entry.change is not None and entry.change.blocks:
        return ToolError("tool_not_available", f"{text} {_CHANGED}.")
    return ToolError("policy_denied", f"{text} it may change things, and the agent {agent!r} is read-only.")


def reasons(selection: Selection, entry: Entry) -> list[Reason]:
    """Every reason that lets this agent use the tool or keeps it from it."""
    name, agent, pattern = entry.spec.name, selection.agent, selection.disabled_by(entry)
    denied = [glob for glob in agent.deny if matches(glob, name)]
    refused = mode_refuses(agent.mode, entry.spec.annotations)
    return [
        Reason(True, f"It exists: {entry.origin}, scope {entry.scope}, version {entry.spec.version}."),
        _chosen_by_agent(agent, name)
        if selection.skill_tools is None
        else _chosen_by_skill(selection.skill_tools, name),
        Reason(
            not denied, f"The agent's deny list names it: {_listed(denied)}." if denied else "No deny rule names it."
        ),
        Reason(pattern is None, f"It is switched off by {pattern!r}." if pattern else "It is switched on."),
        Reason(
            not refused, f"Mode {agent.mode!r} " + ("refuses it: it is not read-only." if refused else "permits it.")
        ),
        *_of_its_source(selection, entry),
    ]


def _chosen_by_agent(agent: Agent, name: str) -> Reason:
    if agent.tools is None:
        return Reason(True, f"The agent {agent.name!r} may use all tools.")
    if matches_any(agent.tools, name):
        return Reason(True, f"The tool list of the agent {agent.name!r} names it.")
    return Reason(False, f"The tool list of the agent {agent.name!r} does not name it: {_listed(agent.tools)}.")


def _chosen_by_skill(globs: Sequence[str], name: str) -> Reason:
    if matches_any(globs, name):
        return Reason(True, "A skill that is on names it.")
    return Reason(False, f"The skills that are on do not name it: {_listed(globs)}.")


def _of_its_source(selection: Selection, entry: Entry) -> Iterator[Reason]:
    """What is so only for tools of some sources."""
    if entry.internal and selection.hides(entry):
        yield Reason(False, f"I{_HIDDEN[1:]}.")
    elif entry.internal:
        yield Reason(True, "It is internal, and a skill that is on shows it.")
    if entry.is_new:
        yield Reason(True, "It is new: a person is asked before its first call.")
    elif entry.change is not None:
        yield Reason(not entry.change.blocks, f"I{_CHANGED[1:]}.")


def _listed(globs: Sequence[str]) -> str:
    return ", ".join(map(repr, globs)) or "it is empty"
