"""One session's view of the tools: what it lists is what it can call (SPEC R4, R7, R8)."""

from collections.abc import Iterator

from handspan.core.errors import ToolError
from handspan.core.names import did_you_mean
from handspan.core.tool import ToolSpec
from handspan.registry.entry import Entry
from handspan.registry.reasons import Reason, reasons, refusal
from handspan.registry.selection import Selection
from handspan.registry.shelf import Shelf


class Toolbox:
    """What one agent may use in one session. Nothing is worked out before it is asked for, nothing twice."""

    def __init__(self, turn: Shelf, session: Shelf, selection: Selection) -> None:
        """`turn`, `session`: what stands there comes and goes; what else is selected lasts."""
        self._selection = selection
        self._turn, self._session = turn, session
        self._owners, self._everybodys = selection.owners, selection.everybodys
        self._version = -1
        self._found: dict[str, Entry | None] = {}
        self._specs: tuple[ToolSpec, ...] | None = None

    def find(self, name: str) -> Entry | None:
        """The tool of this name, if this agent may use it."""
        # Versions only grow, so their sum stays the same only while each of them does.
        version = self._turn.version + self._session.version + self._owners.version + self._everybodys.version
        if version != self._version:
            self._forget(version)
        try:
            return self._found[name]
        except KeyError:
            entry = self._nearest(name)
            usable = entry if entry is not None and self._selection.allows(entry) else None
            if len(self._found) < 2 * len(self._everybodys.entries) + 1000:  # a model may invent names without end
                self._found[name] = usable
            return usable

    def specs(self) -> tuple[ToolSpec, ...]:
        """The specs of all tools that this agent may use, in order of their names."""
        version = self._turn.version + self._session.version + self._owners.version + self._everybodys.version
        if version != self._version:
            self._forget(version)
        if self._specs is None:
            self._specs = tuple(self._usable_specs())
        return self._specs

    def refusal(self, name: str) -> ToolError:
        """The error for a call of a tool that `find` does not give."""
        entry = self._nearest(name)
        if entry is None:
            hint = did_you_mean(name, (spec.name for spec in self.specs()))
            return ToolError(
                "tool_not_found", f"Tool {_clipped(name)!r} is not available: there is no such tool.{hint}"
            )
        return refusal(self._selection, entry)

    def accept(self, entry: Entry) -> bool:
        """A person agrees to the definition of this tool as it is now; False when nobody had to."""
        return self._selection.accept(entry.spec.name, entry.spec.fingerprint, entry.scope)

    def knows(self, name: str) -> bool:
        """Whether there is a tool of this name in a scope of this session, usable or not."""
        return self._nearest(name) is not None

    def why(self, name: str) -> list[Reason]:
        """Every reason that lets this agent use the tool or keeps it from it."""
        entry = self._nearest(name)
        if entry is None:
            hint = did_you_mean(name, (entry.spec.name for entry in self._all()))
            return [Reason(False, f"There is no tool {_clipped(name)!r} in any scope of this session.{hint}")]
        return reasons(self._selection, entry)

    def _usable_specs(self) -> list[ToolSpec]:
        near, lasting = self._session.entries | self._turn.entries, self._selection.specs()
        if not near:
            return [lasting[name] for name in sorted(lasting)]
        specs = {name: spec for name, spec in lasting.items() if name not in near}
        specs |= {name: entry.spec for name, entry in near.items() if self._selection.allows(entry)}
        return [specs[name] for name in sorted(specs)]

    def _forget(self, version: int) -> None:
        self._version = version
        self._found = {}
        self._specs = None

    def _nearest(self, name: str) -> Entry | None:
        shelves = (self._turn, self._session, self._owners, self._everybodys)
        return next((shelf.entries[name] for shelf in shelves if name in shelf.entries), None)

    def _all(self) -> Iterator[Entry]:
        nearest = self._everybodys.entries | self._owners.entries | self._session.entries | self._turn.entries
        return (nearest[name] for name in sorted(nearest))


def _clipped(name: str) -> str:
    return name if len(name) <= 80 else f"{name[:79]}…"
