"""The one place that holds tools, by scope and name (SPEC R1, R2, R5, R9)."""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TypeAlias
from weakref import WeakValueDictionary

from msgspec import Struct, structs

from handspan.core.agents import Agent, SkillTools
from handspan.core.errors import DefinitionError, NameTaken
from handspan.core.names import check_own_name, is_outside_name, matches
from handspan.core.principals import BUILTIN, GLOBAL, OUTSIDE, Origin, Principal, ToolScope
from handspan.core.schema import Validator
from handspan.core.sources import Broken
from handspan.core.tool import Handling, Tool, handling_of
from handspan.registry.entry import Entry, ScopedTools
from handspan.registry.name_rights import DisplacedTool, NameListener, NameRights, describe_refusal
from handspan.registry.pins import DefinitionChange, PinnedSpecs, PinPolicy, owner_of
from handspan.registry.selection import ToolSelection
from handspan.registry.toolbox import Toolbox

_log = logging.getLogger(__name__)
_BoxKey: TypeAlias = tuple[Agent, str, str, bool, SkillTools | None]
_SelectionKey: TypeAlias = tuple[Agent, str, SkillTools | None]


class RegistryRules(Struct, frozen=True):
    """The settings that apply to all tools."""

    timeouts: Mapping[str, float | None] = {}
    disabled: tuple[str, ...] = ()
    """Globs of names, or `origin:KIND` and `origin:KIND(NAME)`: switched off for all owners (R9)."""
    allow_shadowing: tuple[str, ...] = ()
    """Names of the gateway's own tools that tools from outside may take (R2)."""
    shown: int = 0
    """With more tools than this a model is sent only some of them; 0: always all (R4)."""


class Registry:
    """Holds every tool. The tools of a scope are freed when the scope is empty and no toolbox reads it."""

    def __init__(
        self,
        rules: RegistryRules | None = None,
        pinned: PinnedSpecs | None = None,
        changed: Callable[[str], None] | None = None,
        explain_absence: Callable[[str, str], str] = lambda owner, name: "",
    ) -> None:
        """`changed(owner)` is called after `replace` and `accept`; an empty owner means all owners.

        A source that registers tools one by one announces the change itself, once for all of them.
        `explain_absence(owner, name)` returns why the owner has no tool of this name, if its supplier is known and
        away; else "".
        """
        self._pins = pinned or PinnedSpecs()
        self._changed = changed
        self._explain_absence = explain_absence
        self._rules = rules or RegistryRules()
        self._disabled = set(self._rules.disabled)
        self._listeners: list[NameListener] = []
        self._scopes: WeakValueDictionary[ToolScope, ScopedTools] = WeakValueDictionary()
        self._global = self._tools_in(GLOBAL)
        self.rights = NameRights(self._global, self._rules.allow_shadowing)
        self._no_turn = ScopedTools(ToolScope("turn"))
        self._by_origin: dict[Origin, dict[tuple[ToolScope, str], ScopedTools]] = {}
        self._toolboxes: WeakValueDictionary[_BoxKey, Toolbox] = WeakValueDictionary()
        self._selections: WeakValueDictionary[_SelectionKey, ToolSelection] = WeakValueDictionary()

    def register(
        self, tool: Tool, origin: Origin = BUILTIN, scope: ToolScope = GLOBAL, handling: Handling | None = None
    ) -> Entry:
        """Add this tool. `handling` comes from its source; None: the tool's own handling is used.

        A tool of a lower rank that has the name loses it (SPEC R5). Raises `NameTaken` when the name belongs to another
        tool or source, `DefinitionError` when the tool is not valid.
        """
        scoped = self._tools_in(scope)
        holder = scoped.entries.get(tool.spec.name)
        if holder is not None and holder.origin.rank <= origin.rank:
            raise NameTaken(
                f"Tool {tool.spec.name!r} is already registered by {holder.origin}: choose another name or use a prefix"
            )
        return self._add(scoped, tool, origin, handling)

    def register_own(self, tool: Tool) -> Entry:
        """Add a built-in tool. Its schema is compiled at the first call: tests show that it compiles."""
        validator = Validator(tool.spec.parameters, is_known=True)
        return self.register(tool, handling=structs.replace(handling_of(tool), validator=validator))

    def register_or_replace(
        self, tool: Tool, origin: Origin, scope: ToolScope = GLOBAL, handling: Handling | None = None
    ) -> Entry:
        """Add this tool, in place of an earlier one of this name and origin. Raises as `register` does."""
        scoped = self._tools_in(scope)
        self._check_holder(scoped, tool.spec.name, origin)
        return self._add(scoped, tool, origin, handling)

    def replace(
        self,
        origin: Origin,
        tools: Iterable[Tool],
        scope: ToolScope = GLOBAL,
        handling: Handling | None = None,
        pins: PinPolicy | Mapping[str, DefinitionChange] | None = None,
    ) -> list[Broken]:
        """Make these the only tools of this origin in this scope, in one step. Return the tools that were refused.

        `handling` applies to all of them; None: each has its own. `pins` is the policy for tools whose definition is
        not the one that a person agreed to; None: nothing happens to them; a mapping: the changes that another node
        found, by name.
        """
        scoped = self._tools_in(scope)
        entries, refused = self._make_entries(scoped, tools, origin, handling)
        before = {name: scoped.entries[name] for at, name in self._by_origin.get(origin, {}) if at == scope}
        specs = {name: entry.spec for name, entry in entries.items()}
        changes = self._pins.compare(pins, origin, scope, specs) if isinstance(pins, str) else pins or {}
        for name, entry in entries.items():
            entry.mark(changes.get(name))
        self._make_way(origin, scoped, entries.keys() - before.keys())
        scoped.replace(before, entries)
        if before:
            self._unindex(origin, scope, before)
        if entries:
            self._by_origin.setdefault(origin, {}).update(((scope, name), scoped) for name in entries)
        self._notify(scope)
        return refused

    def accept(self, name: str, fingerprint: str, scope: ToolScope = GLOBAL) -> bool:
        """Count this definition as agreed to by a person. Return False if no such definition waits for agreement."""
        scoped = self._tools_in(scope)
        entry = scoped.entries.get(name)
        if entry is None or entry.change is None or entry.spec.fingerprint != fingerprint:
            return False
        self._pins.accept(entry.origin, scope, entry.spec)
        entry.mark(None)
        scoped.mark_changed()
        self._notify(scope)
        return True

    def holder(self, name: str, scope: ToolScope = GLOBAL) -> Origin | None:
        """Return the origin of the tool that has this name in this scope; None without such a tool."""
        scoped = self._scopes.get(scope)
        entry = None if scoped is None else scoped.entries.get(name)
        return None if entry is None else entry.origin

    def unregister(self, name: str, scope: ToolScope = GLOBAL, origin: Origin | None = None) -> bool:
        """Remove one tool; with `origin`, only one of that origin. Return False if there is no such tool."""
        entry = self._tools_in(scope).entries.get(name)
        if entry is None or entry.origin != (origin or entry.origin):
            return False
        self._remove(entry)
        return True

    def unregister_by_source(self, origin: Origin) -> int:
        """Remove every tool of this origin, for example when its connection closes. Return their number."""
        self.rights.remove_refused(origin)
        gone = self._by_origin.pop(origin, {})
        for (_, name), scoped in gone.items():
            scoped.remove(name)
        return len(gone)

    # Names that belong to a source (SPEC R2, R5).

    def listen(self, listener: NameListener) -> None:
        """Tell this listener from now on which names are reserved and which tools have lost theirs."""
        self._listeners.append(listener)

    def reserve(self, source: str, names: Mapping[str, Origin]) -> None:
        """Keep these names, and no others, for a source: no client's tool has one, also while its own tools are away.

        A name that ends with `__` stands for all names that begin with it. Tools of clients that have such names go.
        """
        if self.rights.reserve(source, names):
            for listener in self._listeners:
                listener.on_reserved()
            self._displace_outranked()

    def count(self, origin: Origin) -> int:
        """Return the number of tools of this origin."""
        return len(self._by_origin.get(origin, ()))

    def use(self, rules: RegistryRules, switched_off: Iterable[str]) -> None:
        """Apply these rules from now on, and switch off the patterns that people have switched off in addition."""
        self._rules, self.rights.allowed = rules, rules.allow_shadowing
        self._disabled = {*rules.disabled, *switched_off}
        for entry in self:
            entry.limit(rules.timeouts)
        for selection in self._selections.values():
            selection.shown = rules.shown
        self._displace_outranked()
        self._global.mark_changed()

    def disable(self, pattern: str) -> None:
        """Switch off every tool that this glob or `origin:…` names, for all owners."""
        self._disabled.add(pattern)
        self._global.mark_changed()

    def enable(self, pattern: str) -> bool:
        """Undo a `disable` of exactly this pattern. Return False if there was none."""
        if pattern not in self._disabled:
            return False
        self._disabled.remove(pattern)
        self._global.mark_changed()
        return True

    def follow_switches(self, patterns: Iterable[str]) -> None:
        """Switch off what the settings and these patterns name, and nothing else."""
        wanted = {*self._rules.disabled, *patterns}
        if wanted != self._disabled:
            self._disabled = wanted
            self._global.mark_changed()

    def find_disabling(self, entry: Entry) -> str | None:
        """Return the pattern that switches this tool off, or None."""
        if not self._disabled:
            return None
        return next((pattern for pattern in sorted(self._disabled) if is_named_by(pattern, entry)), None)

    def toolbox(
        self,
        agent: Agent,
        who: Principal,
        session: str = "",
        *,
        in_turn: bool = False,
        skill_tools: SkillTools | None = None,
    ) -> Toolbox:
        """Return what this agent may use for this person in this session.

        If several scopes have a tool of one name, the tool of the narrowest scope counts.

        `in_turn` adds the tools that exist only during the session's turn. The globs of `skill_tools` replace
        the agent's own, and show internal tools, too (SPEC A3, C2).
        """
        key = (agent, who.owner, session, in_turn, skill_tools)
        box = self._toolboxes.get(key)
        if box is None:
            # A global change affects every box, an owner's change the boxes of that owner, a session's change its box.
            turn = self._tools_in(ToolScope("turn", session)) if in_turn else self._no_turn
            scoped = self._tools_in(ToolScope("session", session))
            box = self._toolboxes[key] = Toolbox(turn, scoped, self._selection(agent, who.owner, skill_tools))
        return box

    def shared_toolbox(self, agent: Agent, skill_tools: SkillTools) -> Toolbox:
        """Return what this agent may use of the tools that all owners share: no client's tool is among them."""
        return self.toolbox(agent, Principal(""), skill_tools=skill_tools)

    def _selection(self, agent: Agent, owner: str, skill_tools: SkillTools | None) -> ToolSelection:
        """Return which tools this agent can see and call for this owner. It is made once for each."""
        key = (agent, owner, skill_tools)
        selection = self._selections.get(key)
        if selection is None:
            scoped = self._tools_in(ToolScope("owner", owner))
            selection = self._selections[key] = ToolSelection(
                agent,
                scoped,
                self._global,
                self.find_disabling,
                accept=self.accept,
                skill_tools=skill_tools,
                explain_absence=lambda name: self._explain_absence(owner, name),
                shown=self._rules.shown,
            )
        return selection

    def __iter__(self) -> Iterator[Entry]:
        """Iterate over every tool of every scope."""
        by_origin = self._by_origin.values()
        return iter([scoped.entries[name] for of_origin in by_origin for (_, name), scoped in of_origin.items()])

    def __len__(self) -> int:
        return sum(map(len, self._by_origin.values()))

    def _add(self, scoped: ScopedTools, tool: Tool, origin: Origin, handling: Handling | None) -> Entry:
        entry = self._make_entry(scoped, tool, origin, handling)
        self._make_way(origin, scoped, (tool.spec.name,))
        scoped.add(entry)
        self._by_origin.setdefault(origin, {})[scoped.scope, tool.spec.name] = scoped
        return entry

    def _make_entry(self, scoped: ScopedTools, tool: Tool, origin: Origin, handling: Handling | None) -> Entry:
        if scoped.scope.kind != "global" and not scoped.scope.id:
            raise DefinitionError(f"Tool {tool.spec.name!r} has no {scoped.scope.kind} to be for: give the scope an id")
        self._check_name(tool.spec.name, origin, scoped.scope)
        return Entry(tool, origin, scoped.scope, self._rules.timeouts, handling=handling)

    def _make_entries(
        self, scoped: ScopedTools, tools: Iterable[Tool], origin: Origin, handling: Handling | None
    ) -> tuple[dict[str, Entry], list[Broken]]:
        """Return the valid entries by name, and the refused tools. Of two tools with one name the first is valid."""
        entries: dict[str, Entry] = {}
        refused: list[Broken] = []
        for tool in tools:
            name = tool.spec.name
            try:
                if name in entries:
                    raise NameTaken(f"Tool {name!r} is listed twice: only the first one is used")
                self._check_holder(scoped, name, origin)
                entries[name] = self._make_entry(scoped, tool, origin, handling)
            except DefinitionError as error:
                refused.append(Broken(name, str(error)))
        return entries, refused

    def _check_holder(self, scoped: ScopedTools, name: str, origin: Origin) -> None:
        """Raise `NameTaken` if another origin, of the same or a higher rank, has a tool of this name in the scope."""
        holder = scoped.entries.get(name)
        if holder is not None and holder.origin != origin and holder.origin.rank <= origin.rank:
            raise NameTaken(f"Tool {name!r} belongs to {holder.origin}, and {origin} may replace only its own")

    def _unindex(self, origin: Origin, scope: ToolScope, names: Iterable[str]) -> None:
        of_origin = self._by_origin[origin]
        for name in names:
            del of_origin[scope, name]
        if not of_origin:
            del self._by_origin[origin]

    def _notify(self, scope: ToolScope) -> None:
        if self._changed is not None:
            self._changed(owner_of(scope))

    def _check_name(self, name: str, origin: Origin, scope: ToolScope) -> None:
        """Raise `DefinitionError` for a name that is not valid, `NameTaken` if a source of higher rank has it."""
        if not origin.is_foreign:
            check_own_name(name)
        elif not is_outside_name(name):
            raise DefinitionError(f"{name!r} can't be a tool's name here: convert it with names.outside_name first")
        self.rights.claim(name, origin, scope)

    def _make_way(self, origin: Origin, scoped: ScopedTools, names: Collection[str]) -> None:
        """Displace the tools of a lower rank that have these names: in this scope; by a global tool, in every scope."""
        if origin.rank == OUTSIDE:
            return
        in_scope = (scoped.entries[name] for name in names if name in scoped.entries)
        displaced = [entry for entry in in_scope if entry.origin.rank > origin.rank]
        if scoped is self._global and names:
            taken = set(names).difference(self._rules.allow_shadowing)
            others = [other for other in self._scopes.values() if other is not scoped]
            named = (other.entries[name] for other in others for name in other.entries.keys() & taken)
            displaced += [entry for entry in named if entry.origin.rank > origin.rank]
        self._displace([DisplacedTool(entry, describe_refusal(entry.spec.name, origin)) for entry in displaced])

    def _displace_outranked(self) -> None:
        """Displace the tools of clients whose names belong to other sources now."""
        outside = [entry for entry in self if entry.origin.rank == OUTSIDE]
        owners = ((entry, self.rights.find_owner(entry.spec.name)) for entry in outside)
        self._displace(
            [DisplacedTool(entry, describe_refusal(entry.spec.name, owner)) for entry, owner in owners if owner]
        )

    def _displace(self, tools: list[DisplacedTool]) -> None:
        """Remove these tools, and tell the listeners."""
        by_origin: dict[Origin, list[DisplacedTool]] = {}
        for tool in tools:
            entry = tool.entry
            self._remove(entry)
            self.rights.add_refused(entry.spec.name, entry.origin, entry.scope)
            by_origin.setdefault(entry.origin, []).append(tool)
            _log.warning("%s has lost its tool %r: %s", entry.origin, entry.spec.name, tool.reason)
        for origin, displaced in by_origin.items():
            for listener in self._listeners:
                listener.on_displaced(origin, displaced)

    def _remove(self, entry: Entry) -> None:
        self._tools_in(entry.scope).remove(entry.spec.name)
        self._unindex(entry.origin, entry.scope, (entry.spec.name,))

    def _tools_in(self, scope: ToolScope) -> ScopedTools:
        scoped = self._scopes.get(scope)
        if scoped is None:
            scoped = self._scopes[scope] = ScopedTools(scope)
        return scoped


def is_named_by(pattern: str, entry: Entry) -> bool:
    """Whether a glob of names or an `origin:…` pattern matches this tool."""
    if pattern.startswith("origin:"):
        return matches(pattern.removeprefix("origin:"), str(entry.origin)) or pattern == f"origin:{entry.origin.kind}"
    return matches(pattern, entry.spec.name)
