"""The one place where tools are kept, by scope and name (SPEC R1, R2, R5, R9)."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias
from weakref import WeakValueDictionary

from msgspec import Struct

from handspan.core.agents import Agent
from handspan.core.errors import DefinitionError, NameTaken
from handspan.core.names import check_own_name, is_outside_name, matches, matches_any
from handspan.core.principals import BUILTIN, GLOBAL, Origin, Principal, Scope
from handspan.core.sources import Broken
from handspan.core.tool import Handling, Tool, ToolSpec
from handspan.registry.entry import Entry
from handspan.registry.pins import PinnedSpecs, PinPolicy, owner_of
from handspan.registry.selection import Selection
from handspan.registry.shelf import Shelf
from handspan.registry.toolbox import Toolbox

_BoxKey: TypeAlias = tuple[Agent, str, str, bool, tuple[str, ...] | None]
_SelectionKey: TypeAlias = tuple[Agent, str, tuple[str, ...] | None]


class RegistryRules(Struct, frozen=True):
    """What the settings say about all tools."""

    timeouts: Mapping[str, float | None] = {}
    disabled: tuple[str, ...] = ()
    """Globs of names, or `origin:KIND` and `origin:KIND(NAME)`: switched off for everybody (R9)."""
    allow_shadowing: tuple[str, ...] = ()
    """Built-in names that tools from outside may take all the same (R2)."""


class Registry:
    """Holds every tool. A shelf lives as long as something stands on it or somebody looks at it."""

    def __init__(
        self,
        rules: RegistryRules | None = None,
        pinned: PinnedSpecs | None = None,
        changed: Callable[[str], None] | None = None,
    ) -> None:
        """`changed` hears whose tools `replace` or `accept` changed: an owner's; empty: everybody's.

        What brings tools one by one tells that itself, once for all of them.
        """
        self._pins = pinned or PinnedSpecs()
        self._changed = changed
        self._rules = rules or RegistryRules()
        self._disabled = set(self._rules.disabled)
        self._shelves: WeakValueDictionary[Scope, Shelf] = WeakValueDictionary()
        self._global = self._shelf(GLOBAL)
        self._no_turn = Shelf(Scope("turn"))
        self._by_origin: dict[Origin, dict[tuple[Scope, str], Shelf]] = {}
        self._toolboxes: WeakValueDictionary[_BoxKey, Toolbox] = WeakValueDictionary()
        self._selections: WeakValueDictionary[_SelectionKey, Selection] = WeakValueDictionary()

    def register(
        self, tool: Tool, origin: Origin = BUILTIN, scope: Scope = GLOBAL, handling: Handling | None = None
    ) -> Entry:
        """Keep this tool, handled as its source says, or else as it says itself.

        Raises `NameTaken` when the scope has one of that name, `DefinitionError` when it can't be kept.
        """
        shelf = self._shelf(scope)
        holder = shelf.entries.get(tool.spec.name)
        if holder is not None:
            raise NameTaken(
                f"Tool {tool.spec.name!r} is already registered by {holder.origin}: choose another name or use a prefix"
            )
        return self._put(shelf, tool, origin, handling)

    def register_or_replace(
        self, tool: Tool, origin: Origin, scope: Scope = GLOBAL, handling: Handling | None = None
    ) -> Entry:
        """Keep this tool in place of the one that this origin had under its name."""
        shelf = self._shelf(scope)
        self._check_holder(shelf, tool.spec.name, origin)
        return self._put(shelf, tool, origin, handling)

    def replace(
        self,
        origin: Origin,
        tools: Iterable[Tool],
        scope: Scope = GLOBAL,
        handling: Handling | None = None,
        pins: PinPolicy | None = None,
    ) -> list[Broken]:
        """Let these be all tools that this origin has in this scope, in one step; says which can't be kept, and why.

        `handling` counts for all of them; None: each has its own. `pins`: what happens to one whose definition is not
        what a person agreed to; None: nothing.
        """
        shelf = self._shelf(scope)
        entries, refused = self._entries(shelf, tools, origin, handling)
        before = {name: shelf.entries[name] for at, name in self._by_origin.get(origin, {}) if at == scope}
        specs = {name: entry.spec for name, entry in entries.items()}
        changes = {} if pins is None else self._pins.compare(pins, origin, scope, specs)
        for name, entry in entries.items():
            if name in changes:
                entry.mark(changes[name])
            if name in before and before[name].spec == entry.spec:
                entry.gate = before[name].gate  # a serial tool stays serial while calls of it are at work
        shelf.replace(before, entries)
        self._note_origin(origin, shelf, before, entries)
        self._tell(scope)
        return refused

    def accept(self, name: str, fingerprint: str, scope: Scope = GLOBAL) -> bool:
        """Let this definition count as agreed to by a person; False when it is not the one that waits for that."""
        shelf = self._shelf(scope)
        entry = shelf.entries.get(name)
        if entry is None or entry.change is None or entry.spec.fingerprint != fingerprint:
            return False
        self._pins.accept(entry.origin, scope, entry.spec)
        entry.mark(None)
        shelf.touch()
        self._tell(scope)
        return True

    def holder(self, name: str, scope: Scope = GLOBAL) -> Origin | None:
        """Whose tool has this name in this scope."""
        shelf = self._shelves.get(scope)
        entry = None if shelf is None else shelf.entries.get(name)
        return None if entry is None else entry.origin

    def unregister(self, name: str, scope: Scope = GLOBAL) -> bool:
        """Remove one tool; False when there is none of that name."""
        entry = self._shelf(scope).remove(name)
        if entry is None:
            return False
        of_origin = self._by_origin[entry.origin]
        del of_origin[scope, name]
        if not of_origin:
            del self._by_origin[entry.origin]
        return True

    def unregister_by_source(self, origin: Origin) -> int:
        """Remove every tool of that origin, as when a connection closes, and say how many there were."""
        gone = self._by_origin.pop(origin, {})
        for (_, name), shelf in gone.items():
            shelf.remove(name)
        return len(gone)

    def count(self, origin: Origin) -> int:
        """How many tools this origin has here."""
        return len(self._by_origin.get(origin, ()))

    def disable(self, pattern: str) -> None:
        """Switch off, for everybody, every tool that this glob or `origin:…` names."""
        self._disabled.add(pattern)
        self._global.touch()

    def enable(self, pattern: str) -> bool:
        """Take back a `disable` of exactly this pattern; False when there was none."""
        if pattern not in self._disabled:
            return False
        self._disabled.remove(pattern)
        self._global.touch()
        return True

    def disabled_by(self, entry: Entry) -> str | None:
        """The pattern that switches this tool off, if one does."""
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
        skill_tools: tuple[str, ...] | None = None,
    ) -> Toolbox:
        """What this agent may use, for this person, in this session: the nearest scope's tool of each name.

        `in_turn`: in its turns, where tools may be that nobody else has. `skill_tools`: the globs of the skills that
        are on, which count in place of the agent's own and show internal tools too (SPEC A3, C2).
        """
        key = (agent, who.owner, session, in_turn, skill_tools)
        box = self._toolboxes.get(key)
        if box is None:
            # A global change touches every box, an owner's change that owner's, a session's change its own.
            turn = self._shelf(Scope("turn", session)) if in_turn else self._no_turn
            shelf = self._shelf(Scope("session", session))
            box = self._toolboxes[key] = Toolbox(turn, shelf, self._selection(agent, who.owner, skill_tools))
        return box

    def _selection(self, agent: Agent, owner: str, skill_tools: tuple[str, ...] | None) -> Selection:
        key = (agent, owner, skill_tools)
        selection = self._selections.get(key)
        if selection is None:
            shelf = self._shelf(Scope("owner", owner))
            selection = Selection(agent, shelf, self._global, self.disabled_by, self.accept, skill_tools)
            self._selections[key] = selection
        return selection

    def schemas_for_tools(self, patterns: Iterable[str]) -> list[ToolSpec]:
        """The specs of all global tools that one of these globs names, by name (R3).

        Not those that are switched off, nor internal ones.
        """
        wanted = list(patterns)
        return [
            entry.spec
            for name, entry in sorted(self._global.entries.items())
            if matches_any(wanted, name) and not entry.internal and self.disabled_by(entry) is None
        ]

    def __iter__(self) -> Iterator[Entry]:
        """Every tool of every scope."""
        by_origin = self._by_origin.values()
        return iter([shelf.entries[name] for of_origin in by_origin for (_, name), shelf in of_origin.items()])

    def __len__(self) -> int:
        return sum(map(len, self._by_origin.values()))

    def _put(self, shelf: Shelf, tool: Tool, origin: Origin, handling: Handling | None) -> Entry:
        entry = self._entry(shelf, tool, origin, handling)
        shelf.put(entry)
        self._by_origin.setdefault(origin, {})[shelf.scope, tool.spec.name] = shelf
        return entry

    def _entry(self, shelf: Shelf, tool: Tool, origin: Origin, handling: Handling | None) -> Entry:
        if shelf.scope.kind != "global" and not shelf.scope.id:
            raise DefinitionError(f"Tool {tool.spec.name!r} has no {shelf.scope.kind} to be for: give the scope an id")
        self._check_name(tool.spec.name, origin)
        return Entry(tool, origin, shelf.scope, self._rules.timeouts, handling)

    def _entries(
        self, shelf: Shelf, tools: Iterable[Tool], origin: Origin, handling: Handling | None
    ) -> tuple[dict[str, Entry], list[Broken]]:
        """What of these can be kept, by name, and what can't; of two of one name the first is kept."""
        entries: dict[str, Entry] = {}
        refused: list[Broken] = []
        for tool in tools:
            name = tool.spec.name
            try:
                if name in entries:
                    raise NameTaken(f"Tool {name!r} is there twice: the first one is kept")
                self._check_holder(shelf, name, origin)
                entries[name] = self._entry(shelf, tool, origin, handling)
            except DefinitionError as error:
                refused.append(Broken(name, str(error)))
        return entries, refused

    def _check_holder(self, shelf: Shelf, name: str, origin: Origin) -> None:
        holder = shelf.entries.get(name)
        if holder is not None and holder.origin != origin:
            raise NameTaken(f"Tool {name!r} belongs to {holder.origin}, and {origin} may replace only its own")

    def _note_origin(self, origin: Origin, shelf: Shelf, gone: Iterable[str], names: Iterable[str]) -> None:
        of_origin = self._by_origin.setdefault(origin, {})
        for name in gone:
            del of_origin[shelf.scope, name]
        of_origin.update(((shelf.scope, name), shelf) for name in names)
        if not of_origin:
            del self._by_origin[origin]

    def _tell(self, scope: Scope) -> None:
        if self._changed is not None:
            self._changed(owner_of(scope))

    def _check_name(self, name: str, origin: Origin) -> None:
        if not origin.is_foreign:
            check_own_name(name)
        elif not is_outside_name(name):
            raise DefinitionError(f"{name!r} can't be a tool's name here: map it with names.outside_name first")
        if origin.is_builtin or name in self._rules.allow_shadowing:
            return
        builtin = self._global.entries.get(name)
        if builtin is not None and builtin.origin.is_builtin:
            raise NameTaken(
                f"Tool name {name!r} is reserved for the built-in tool: choose another name, "
                "or let the operator list it in tools.allow_shadowing"
            )

    def _shelf(self, scope: Scope) -> Shelf:
        shelf = self._shelves.get(scope)
        if shelf is None:
            shelf = self._shelves[scope] = Shelf(scope)
        return shelf


def is_named_by(pattern: str, entry: Entry) -> bool:
    """Whether a glob of names or an `origin:…` means this tool."""
    if pattern.startswith("origin:"):
        return matches(pattern.removeprefix("origin:"), str(entry.origin)) or pattern == f"origin:{entry.origin.kind}"
    return matches(pattern, entry.spec.name)
