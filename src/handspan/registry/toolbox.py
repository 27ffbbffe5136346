"""One session's view of the tools: what it lists is what it can call (SPEC R4, R7, R8)."""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final

from handspan.core.agents import most_careful
from handspan.core.context import CallerRights
from handspan.core.errors import ToolError
from handspan.core.names import did_you_mean, list_known
from handspan.core.principals import ToolScope
from handspan.core.tool import SEARCH_TOOLS, ToolSpec
from handspan.registry.entry import Entry, ScopedTools
from handspan.registry.selection import Reason, ToolSelection, reasons, refusal

_FEWEST_FOUND: Final = 20
"""So many found tools are sent at least, even if the tools that are never hidden are more than `tools.shown`."""


class Toolbox:
    """What one agent may use in one session. Answers are computed on demand and cached until a tool changes."""

    def __init__(self, turn: ScopedTools, session: ScopedTools, selection: ToolSelection) -> None:
        """`turn` and `session` change often; the selection holds the tools that last longer."""
        self._selection = selection
        self._turn, self._session = turn, session
        self._owner, self._global = selection.owner_tools, selection.global_tools
        self._scopes = (turn, session, self._owner, self._global)
        """The narrowest scope first."""
        self._version = -1
        self._found: dict[str, Entry | None] = {}
        self._specs: tuple[ToolSpec, ...] | None = None
        self._base: tuple[ToolSpec, ...] = ()
        """The tools that are never hidden from a model."""
        self._base_names: set[str] = set()
        self._hidden: dict[str, ToolSpec] = {}
        self._sent: tuple[ToolSpec, ...] = ()
        """The tools that a model was sent last: those of `_base`, then hidden tools in use."""
        self._sent_names: list[str] = []
        """The names of the hidden tools in `_sent`."""
        self._narrow: tuple[int, Toolbox] | None = None

    @property
    def scopes(self) -> list[ToolScope]:
        """The scopes whose tools are here."""
        return [tools.scope for tools in self._scopes]

    @property
    def rights(self) -> CallerRights:
        """The agent, its mode, and the names of the tools that it may use now."""
        agent = self._selection.agent
        return CallerRights(agent.name, most_careful(agent.modes), tuple([spec.name for spec in self.specs()]))

    def find(self, name: str) -> Entry | None:
        """Return the tool of this name, or None if this agent may not use it."""
        # Versions only grow: their sum stays the same only if each of them does.
        version = self._turn.version + self._session.version + self._owner.version + self._global.version
        if version != self._version:
            self._clear_cache(version)
        try:
            return self._found[name]
        except KeyError:
            entry = self.find_refused(name)
            usable = entry if entry is not None and self._selection.allows(entry) else None
            if len(self._found) < 2 * len(self._global.entries) + 1000:  # a model may invent any number of names
                self._found[name] = usable
            return usable

    def specs(self) -> tuple[ToolSpec, ...]:
        """Return the specs of all tools that this agent may use, sorted by name.

        `search_tools` is among them only if there are tools that a model is not sent.
        """
        version = self._turn.version + self._session.version + self._owner.version + self._global.version
        if version != self._version:
            self._clear_cache(version)
        if self._specs is None:
            self._specs, self._base = self._divide(self._usable_specs())
            names = self._base_names = {spec.name for spec in self._base}
            self._hidden = {spec.name: spec for spec in self._specs if spec.name not in names}
            self._sent_names = []
        return self._specs

    def specs_for_model(self, last_use: Mapping[str, int]) -> tuple[ToolSpec, ...]:
        """Return the specs to send to a model: those that are never hidden, then the hidden ones in use (SPEC R4).

        `last_use` has the names in the order of their first use, each with the time of its last use. Only the hidden
        tools that were used last are sent, so that there are no more than `tools.shown`. The same tuple is returned
        while nothing changes: models cache what they make of it.
        """
        self.specs()
        if not self._hidden:
            return self._base
        names = [name for name in last_use if name in self._hidden]
        room = max(self._selection.shown - len(self._base), _FEWEST_FOUND)
        if len(names) > room:
            oldest = sorted(last_use[name] for name in names)[-room]
            names = [name for name in names if last_use[name] >= oldest]
        if names != self._sent_names:
            self._sent_names, self._sent = names, (*self._base, *(self._hidden[name] for name in names))
        return self._sent if names else self._base

    def narrow(self, shown: int) -> "Toolbox":
        """Return the same toolbox with so many tools for a model, in place of `tools.shown`."""
        if self._narrow is None or self._narrow[0] != shown:
            self._narrow = (shown, Toolbox(self._turn, self._session, self._selection.narrow(shown)))
        return self._narrow[1]

    def is_always_sent(self, name: str) -> bool:
        """Whether this tool is sent to a model with every request, and needs no search."""
        self.specs()
        return name in self._base_names

    async def search(self, text: str, limit: int) -> Sequence[ToolSpec]:
        """Return the tools whose names, descriptions and parameters fit these words best, the best first.

        Tools of the session's own connection or run are not searched: a model always has them.
        """
        index = await self._selection.index()
        found = (self.find(name) for name in index.rank(text) if name != SEARCH_TOOLS)
        return [entry.spec for entry in islice((entry for entry in found if entry is not None), limit)]

    def refusal(self, name: str) -> ToolError:
        """Return the error for a call of a tool that `find` does not return."""
        entry = self.find_refused(name)
        if entry is None and (why := self._selection.explain_absence(name)):
            return ToolError("tool_not_available", f"Tool {_clip(name)!r} is not available: {why}")
        if entry is None:
            hint = _hint(name, [spec.name for spec in self.specs()])
            return ToolError("tool_not_found", f"Tool {_clip(name)!r} is not available: there is no such tool.{hint}")
        return refusal(self._selection, entry)

    def accept(self, entry: Entry) -> bool:
        """Record that a person agrees to this definition. Return False if no agreement was missing."""
        return self._selection.accept(entry.spec.name, entry.spec.fingerprint, entry.scope)

    def knows(self, name: str) -> bool:
        """Whether a scope of this session has a tool of this name, usable or not."""
        return self.find_refused(name) is not None

    def find_refused(self, name: str) -> Entry | None:
        """Return the tool of this name in the narrowest scope, usable or not; None if no scope here has it."""
        return next((tools.entries[name] for tools in self._scopes if name in tools.entries), None)

    def explain(self, name: str) -> list[Reason]:
        """Return every reason for and against the use of this tool by this agent."""
        entry = self.find_refused(name)
        if entry is None and (why := self._selection.explain_absence(name)):
            return [Reason(ok=False, text=f"{why[0].upper()}{why[1:]}")]
        if entry is None:
            text = f"There is no tool {_clip(name)!r} in any scope of this session."
            return [
                Reason(
                    ok=False, text=text + _hint(name, sorted(set().union(*(tools.entries for tools in self._scopes))))
                )
            ]
        return [*reasons(self._selection, entry), *self._hidden_reasons(name)]

    def _hidden_reasons(self, name: str) -> list[Reason]:
        self.specs()
        if name not in self._hidden:
            return []
        text = f"The agent has more than {self._selection.shown} tools (setting tools.shown), so the model is not sent"
        return [Reason(ok=True, text=f"{text} this one before {SEARCH_TOOLS!r} finds it or it is called by its name.")]

    def _divide(self, usable: list[ToolSpec]) -> tuple[tuple[ToolSpec, ...], tuple[ToolSpec, ...]]:
        """Return the specs that are listed, and those of them that are never hidden. Without search, none is hidden.

        `search_tools` is left out if no tool is hidden. The tuples are made from lists, not from generators: Python
        keeps up to 2,000 freed tuples of each length for reuse, and a tuple from a generator, which is first longer,
        never reuses one.
        """
        search = self.find(SEARCH_TOOLS)
        if search is None or not search.origin.is_builtin:
            return (specs := tuple(usable)), specs
        if 0 < self._selection.shown < len(usable) - 1:
            kept = {*self._selection.never_hidden(), *self._session.entries, *self._turn.entries}
            base = tuple([spec for spec in usable if spec.name in kept])
            if len(base) < len(usable):
                return tuple(usable), base
        return (specs := tuple([spec for spec in usable if spec is not search.spec])), specs

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


def _hint(wrong: str, known: Sequence[str]) -> str:
    """Return the names that may be meant, else those that there are. A command to type would help no program."""
    return did_you_mean(wrong, known) or list_known(known)


def _clip(name: str) -> str:
    return name if len(name) <= 80 else f"{name[:79]}…"
