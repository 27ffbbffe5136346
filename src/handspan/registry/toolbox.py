"""One session's view of the tools: what it lists is what it can call (SPEC R4, R7, R8)."""

from handspan.core.errors import ToolError
from handspan.core.names import did_you_mean
from handspan.core.tool import ToolSpec
from handspan.registry.entry import Entry, ScopedTools
from handspan.registry.selection import Reason, ToolSelection, reasons, refusal


class Toolbox:
    """What one agent may use in one session. Answers are computed on demand and cached until a tool changes."""

    def __init__(self, turn: ScopedTools, session: ScopedTools, selection: ToolSelection) -> None:
        """`turn` and `session` change often; the selection holds the tools that last longer."""
        self._selection = selection
        self._turn, self._session = turn, session
        self._owner, self._global = selection.owner_tools, selection.global_tools
        self._version = -1
        self._found: dict[str, Entry | None] = {}
        self._specs: tuple[ToolSpec, ...] | None = None

    def find(self, name: str) -> Entry | None:
        """Return the tool of this name, or None if this agent may not use it."""
        # Versions only grow: their sum stays the same only if each of them does.
        version = self._turn.version + self._session.version + self._owner.version + self._global.version
        if version != self._version:
            self._clear_cache(version)
        try:
            return self._found[name]
        except KeyError:
            entry = self._find_nearest(name)
            usable = entry if entry is not None and self._selection.allows(entry) else None
            if len(self._found) < 2 * len(self._global.entries) + 1000:  # a model may invent any number of names
                self._found[name] = usable
            return usable

    def specs(self) -> tuple[ToolSpec, ...]:
        """Return the specs of all tools that this agent may use, sorted by name."""
        version = self._turn.version + self._session.version + self._owner.version + self._global.version
        if version != self._version:
            self._clear_cache(version)
        if self._specs is None:
            self._specs = tuple(self._usable_specs())
        return self._specs

    def refusal(self, name: str) -> ToolError:
        """Return the error for a call of a tool that `find` does not return."""
        entry = self._find_nearest(name)
        if entry is None and (why := self._selection.explain_absence(name)):
            return ToolError("tool_not_available", f"Tool {_clip(name)!r} is not available: {why}")
        if entry is None:
            hint = did_you_mean(name, (spec.name for spec in self.specs()))
            return ToolError("tool_not_found", f"Tool {_clip(name)!r} is not available: there is no such tool.{hint}")
        return refusal(self._selection, entry)

    def accept(self, entry: Entry) -> bool:
        """Record that a person agrees to this definition. Return False if no agreement was missing."""
        return self._selection.accept(entry.spec.name, entry.spec.fingerprint, entry.scope)

    def knows(self, name: str) -> bool:
        """Whether a scope of this session has a tool of this name, usable or not."""
        return self._find_nearest(name) is not None

    def explain(self, name: str) -> list[Reason]:
        """Return every reason for and against the use of this tool by this agent."""
        entry = self._find_nearest(name)
        if entry is None and (why := self._selection.explain_absence(name)):
            return [Reason(False, f"{why[0].upper()}{why[1:]}")]
        if entry is None:
            hint = did_you_mean(name, self._all_names())
            return [Reason(False, f"There is no tool {_clip(name)!r} in any scope of this session.{hint}")]
        return reasons(self._selection, entry)

    def _usable_specs(self) -> list[ToolSpec]:
        near, lasting = self._session.entries | self._turn.entries, self._selection.specs()
        if not near:
            return [lasting[name] for name in sorted(lasting)]
        specs = {name: spec for name, spec in lasting.items() if name not in near}
        specs |= {name: entry.spec for name, entry in near.items() if self._selection.allows(entry)}
        return [specs[name] for name in sorted(specs)]

    def _clear_cache(self, version: int) -> None:
        self._version = version
        self._found = {}
        self._specs = None

    def _find_nearest(self, name: str) -> Entry | None:
        scopes = (self._turn, self._session, self._owner, self._global)
        return next((tools.entries[name] for tools in scopes if name in tools.entries), None)

    def _all_names(self) -> list[str]:
        return sorted({*self._global.entries, *self._owner.entries, *self._session.entries, *self._turn.entries})


def _clip(name: str) -> str:
    return name if len(name) <= 80 else f"{name[:79]}…"
