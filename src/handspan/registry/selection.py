"""Which tools one agent may use, and why or why not (SPEC R4, R8).

All sessions of one agent and owner share a selection, so that each tool is judged and indexed once.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from msgspec import Struct

from handspan.core.agents import Agent, SkillTools, mode_asks, mode_refuses
from handspan.core.errors import ToolError
from handspan.core.names import matches, matches_any
from handspan.core.principals import ToolScope
from handspan.core.tool import SEARCH_TOOLS, ToolSpec
from handspan.registry.entry import Entry, ScopedTools
from handspan.registry.search import ToolIndex

_HIDDEN: Final = "it is internal, and hidden until a skill that is on names it"
_CHANGED: Final = "its definition is not the one that a person agreed to, and no person has accepted it yet"


class ToolSelection:
    """The tools that one agent may use, among the global tools and those of the agent's owner."""

    def __init__(
        self,
        agent: Agent,
        owner_tools: ScopedTools,
        global_tools: ScopedTools,
        find_disabling: Callable[[Entry], str | None],
        accept: Callable[[str, str, ToolScope], bool],
        skill_tools: SkillTools | None = None,
        explain_absence: Callable[[str], str] = lambda name: "",
        shown: int = 0,
    ) -> None:
        """`skill_tools`: the globs of the active skills replace the agent's own (SPEC A3).

        `explain_absence` returns why a tool of this name is away, if its supplier is known; else "".
        `shown`: with more tools than this, a model is sent only some of them; 0: always all (SPEC R4).
        """
        self.shown = shown
        self.accept = accept
        self.explain_absence = explain_absence
        self.skill_tools = skill_tools
        self.agent = agent
        self.owner_tools = owner_tools
        self.global_tools = global_tools
        self.find_disabling = find_disabling
        self._specs: dict[str, ToolSpec] = {}
        self._version = -1
        self._never_hidden: AbstractSet[str] | None = None
        self._index: ToolIndex | None = None
        self._indexing = asyncio.Lock()

    def specs(self) -> Mapping[str, ToolSpec]:
        """Return the specs of the usable tools, by name. The owner's tool wins over a global one of the same name."""
        version = self.owner_tools.version + self.global_tools.version
        if version != self._version:
            entries = self.global_tools.entries | self.owner_tools.entries
            self._specs = {name: entry.spec for name, entry in entries.items() if self.allows(entry)}
            self._version = version
            self._never_hidden = self._index = None
        return self._specs

    def narrow(self, shown: int) -> "ToolSelection":
        """Return the same selection with another `shown`."""
        return ToolSelection(
            self.agent,
            self.owner_tools,
            self.global_tools,
            self.find_disabling,
            accept=self.accept,
            skill_tools=self.skill_tools,
            explain_absence=self.explain_absence,
            shown=shown,
        )

    def never_hidden(self) -> AbstractSet[str]:
        """Return the names of the built-in tools, and of those that the agent or an active skill lists (SPEC R4).

        A glob lists what it matches only if that is no more than `shown` tools: `*` lists nothing.
        """
        specs = self.specs()
        if self._never_hidden is None:
            globs = (*(self.agent.tools or ()), *(self._globs or ()))
            listed = ([name for name in specs if matches(glob, name)] for glob in globs)
            entries = self.global_tools.entries | self.owner_tools.entries
            builtin = {name for name in specs if entries[name].origin.is_builtin}
            self._never_hidden = builtin.union(*(names for names in listed if len(names) <= self.shown))
        return self._never_hidden

    async def index(self) -> ToolIndex:
        """Return the index of the usable tools. The first search after a change makes it, in a thread."""
        async with self._indexing:
            specs = self.specs()
            if self._index is None:
                index = await asyncio.to_thread(ToolIndex, tuple(specs.values()))
                if self.specs() is not specs:  # a tool has changed meanwhile: the index is good for this search only
                    return index
                self._index = index
            return self._index

    @property
    def _globs(self) -> tuple[str, ...] | None:
        """The list of tools in force: that of the active skills, or the agent's own; None: all tools."""
        return self.agent.tools if self.skill_tools is None else self.skill_tools.globs

    def _needs_search(self, globs: Sequence[str]) -> bool:
        """Whether one of these globs matches more tools than a model is sent."""
        names = self.global_tools.entries.keys() | self.owner_tools.entries.keys()
        return any(sum(matches(glob, name) for name in names) > self.shown for glob in globs)

    def allows(self, entry: Entry) -> bool:
        """Whether this agent may use this tool. The tool may be of any scope."""
        # R4: a tool that can't be called is not listed
        if self.refuses(entry) or not self.names(entry) or self.hides(entry) or self.find_disabling(entry) is not None:
            return False
        if entry.missing or self.asks_none(entry):
            return False
        return entry.change is None or not entry.change.blocks

    def refuses(self, entry: Entry) -> bool:
        """Whether the agent's mode refuses every call of this tool."""
        if entry.is_read_only is not None:
            return False
        return any(mode_refuses(mode, entry.spec.annotations) for mode in self.agent.modes)

    def asks_none(self, entry: Entry) -> bool:
        """Whether this tool asks another agent, and there is none that this agent may ask (SPEC J5)."""
        return entry.facts.answered_by == "agent" and not self.agent.may_ask

    def names(self, entry: Entry) -> bool:
        """Whether the agent's lists, or those of its active skills, name this tool."""
        tools, name, unattended = self._globs, entry.spec.name, self.agent.unattended
        if unattended is not None and unattended.tools is not None and name not in unattended.tools:
            return False
        is_listed = tools is None or matches_any(tools, name) or (_is_search(entry) and self._needs_search(tools))
        return is_listed and not matches_any(self.agent.deny, name)

    def hides(self, entry: Entry) -> bool:
        """Whether this tool is internal and no active skill names it (SPEC C2)."""
        skill_tools = self.skill_tools
        return entry.internal and not (skill_tools is not None and matches_any(skill_tools.globs, entry.spec.name))


def why_unusable(entry: Entry) -> str:
    """Return why no agent can use this tool now, whatever it selects; an empty text if agents can."""
    if entry.internal:
        return _HIDDEN
    if entry.change is not None and entry.change.blocks:
        return _describe_change(entry)
    return entry.missing


def _is_search(entry: Entry) -> bool:
    return entry.spec.name == SEARCH_TOOLS and entry.origin.is_builtin


class Reason(Struct, frozen=True):
    """One line of the answer to "why can this agent use this tool?", or "why not?"."""

    ok: bool
    text: str


def refusal(selection: ToolSelection, entry: Entry) -> ToolError:
    """Return the error for a call of a tool that exists and that this agent can't use."""
    name, agent, pattern = entry.spec.name, selection.agent.name, selection.find_disabling(entry)
    if selection.skill_tools is not None and not matches_any(selection.skill_tools.globs, name):
        return _refusal_by_skill(selection.skill_tools, name)
    if not selection.names(entry):
        return ToolError("tool_not_available", f"Tool {name!r} is not available to the agent {agent!r}.")
    text = f"Tool {name!r} is not available:"
    if selection.hides(entry):
        return ToolError("tool_not_available", f"{text} {_HIDDEN}.")
    if pattern is not None:
        return ToolError("tool_disabled", f"{text} it is switched off for all owners ({pattern!r}).")
    if entry.missing:
        return ToolError("tool_not_available", f"{text} {entry.missing}.")
    if entry.change is not None and entry.change.blocks:
        return ToolError("tool_not_available", f"{text} {_describe_change(entry)}.")
    if selection.asks_none(entry):
        return ToolError("tool_not_available", f"{text} the agent {agent!r} may ask no other agent.")
    return ToolError("policy_denied", f"{text} it may change things, and the agent {agent!r} is read-only.")


def _refusal_by_skill(skill_tools: SkillTools, name: str) -> ToolError:
    on = "(a skill that is on) leaves" if len(skill_tools.skills) == 1 else "(skills that are on) leave"
    skills, tools = _quote_all(skill_tools.skills), _quote_all(skill_tools.globs)
    return ToolError(
        "tool_not_available",
        f"Tool {name!r} is not available now: {skills} {on} only {tools}. "
        "What you switched on with use_skill is off again in the next turn; the rest only a person switches off.",
    )


def reasons(selection: ToolSelection, entry: Entry) -> list[Reason]:
    """Return every reason for and against the use of this tool by this agent."""
    name, agent, pattern = entry.spec.name, selection.agent, selection.find_disabling(entry)
    denied = [glob for glob in agent.deny if matches(glob, name)]
    return [
        Reason(ok=True, text=f"It exists: {entry.origin}, scope {entry.scope}, version {entry.spec.version}."),
        _list_reason(selection, entry),
        Reason(
            not denied, f"The agent's deny list names it: {_quote_all(denied)}." if denied else "No deny rule names it."
        ),
        Reason(pattern is None, f"It is switched off by {pattern!r}." if pattern else "It is switched on."),
        _mode_reason(selection, entry),
        *_definition_reasons(selection, entry),
    ]


def _list_reason(selection: ToolSelection, entry: Entry) -> Reason:
    tools, name = selection.skill_tools, entry.spec.name
    reason = _agent_reason(selection.agent, name) if tools is None else _skill_reason(tools, name)
    if not reason.ok and _is_search(entry) and selection.names(entry):
        return Reason(ok=True, text="It finds tools that a glob of the list matches and that the model is not sent.")
    return reason


def _agent_reason(agent: Agent, name: str) -> Reason:
    if agent.tools is None:
        return Reason(ok=True, text=f"The agent {agent.name!r} may use all tools.")
    if matches_any(agent.tools, name):
        return Reason(ok=True, text=f"The tool list of the agent {agent.name!r} names it.")
    return Reason(
        ok=False, text=f"The tool list of the agent {agent.name!r} does not name it: {_quote_all(agent.tools)}."
    )


def _mode_reason(selection: ToolSelection, entry: Entry) -> Reason:
    mode = selection.agent.mode
    if selection.refuses(entry):
        return Reason(ok=False, text=f"Mode {mode!r} refuses it: it is not read-only.")
    if mode_refuses(mode, entry.spec.annotations):
        return Reason(ok=True, text=f"Mode {mode!r} permits those calls of it that only read.")
    asks = ", and a person is asked before each call" if mode_asks(mode, entry.spec.annotations) else ""
    return Reason(ok=True, text=f"Mode {mode!r} permits it{asks}.")


def _skill_reason(skill_tools: SkillTools, name: str) -> Reason:
    if matches_any(skill_tools.globs, name):
        return Reason(ok=True, text="A skill that is on names it.")
    on = _quote_all(skill_tools.skills)
    return Reason(ok=False, text=f"The skills that are on ({on}) do not name it: {_quote_all(skill_tools.globs)}.")


def _definition_reasons(selection: ToolSelection, entry: Entry) -> Iterator[Reason]:
    """Yield the reasons for a tool that misses something, or that is internal, new or changed."""
    if entry.missing:
        yield Reason(ok=False, text=f"It can't be used yet: {entry.missing}.")
    if entry.facts.answered_by == "agent":
        yield _asking_reason(selection)
    if entry.internal and selection.hides(entry):
        yield Reason(ok=False, text=f"I{_HIDDEN[1:]}.")
    elif entry.internal:
        yield Reason(ok=True, text="It is internal, and a skill that is on shows it.")
    if entry.is_new:
        yield Reason(ok=True, text="It is new: a person is asked before its first call.")
    elif entry.change is not None:
        yield Reason(not entry.change.blocks, f"I{_describe_change(entry)[1:]}.")


def _asking_reason(selection: ToolSelection) -> Reason:
    agent = selection.agent
    if agent.may_ask:
        return Reason(ok=True, text=f"In a turn, the agent {agent.name!r} may ask {_quote_all(agent.may_ask)}.")
    setting = f"agents.{agent.name}.may_ask"
    return Reason(ok=False, text=f"The agent may ask no other agent: {setting} names none, or none that exists.")


def _describe_change(entry: Entry) -> str:
    """Return that the definition of a tool has changed; for one of an MCP server, also how to accept it."""
    if entry.origin.kind != "mcp":
        return _CHANGED
    return f"{_CHANGED}. To accept it: `handspan mcp trust {entry.origin.name}`"


def _quote_all(globs: Sequence[str]) -> str:
    return ", ".join(map(repr, globs)) or "it is empty"
