"""Which source has the right to a name, and who else wanted it (SPEC R2, R5)."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, Protocol

from msgspec import Struct

from handspan.core.errors import NameTaken
from handspan.core.names import SEPARATOR, split_name
from handspan.core.principals import OUTSIDE, Origin, ToolScope
from handspan.registry.entry import Entry, ScopedTools

_MAX_REFUSED: Final = 64
"""The most refused names of one client that are remembered."""
_OWNERS: Final = {
    "builtin": "the built-in tool",
    "plugin": "the plugin or tools file {!r}",
    "mcp": "the MCP server {!r}",
}


class DisplacedTool(Struct, frozen=True):
    """A tool that has lost its name to a source with a better right, and is not in the registry any more."""

    entry: Entry
    reason: str


class NameListener(Protocol):
    """A part of the gateway whose tools may lose their names."""

    def on_reserved(self) -> None:
        """Is called when names were reserved or freed, before tools of such names are displaced."""
        ...

    def on_displaced(self, origin: Origin, tools: Sequence[DisplacedTool]) -> None:
        """Is called with all tools of one origin that have just lost their names."""
        ...


class NameRights:
    """Says whose a name is: of a global tool, or of a source that keeps it while its tools are away.

    The source of the lower rank has the better right (`Origin.rank`).
    """

    def __init__(self, global_tools: ScopedTools, allowed: Collection[str]) -> None:
        """`allowed`: names that anyone may have."""
        self._global = global_tools
        self.allowed = allowed
        self._reserved: dict[str, Mapping[str, Origin]] = {}
        """The names that each source keeps."""
        self._keepers: dict[str, Origin] = {}
        """The same by name."""
        self._refused: dict[Origin, dict[str, ToolScope]] = {}
        """The names that connected clients wanted and did not get."""

    def reserve(self, source: str, names: Mapping[str, Origin]) -> bool:
        """Make these the only names that a source keeps. Return False if they were that before.

        A name that ends with `__` stands for all names that begin with it, in capital or small letters.
        """
        if self._reserved.get(source, {}) == names:
            return False
        self._reserved[source] = dict(names)
        self._keepers = {_key(name): origin for kept in self._reserved.values() for name, origin in kept.items()}
        return True

    def find_owner(self, name: str, rank: int = OUTSIDE) -> Origin | None:
        """Return the source that has a better right to this name than one of this rank; None if there is none."""
        if name in self.allowed:
            return None
        entry = self._global.entries.get(name)
        if entry is not None and entry.origin.rank < rank:
            return entry.origin
        keeper = self._keepers.get(name) or self.find_keeper(split_name(name)[0])
        return keeper if keeper is not None and keeper.rank < rank else None

    def find_keeper(self, prefix: str) -> Origin | None:
        """Return the source that keeps all names `PREFIX__…`; None if there is none."""
        return self._keepers.get(_key(f"{prefix}{SEPARATOR}")) if prefix and self._keepers else None

    def claim(self, name: str, origin: Origin, scope: ToolScope) -> None:
        """Let this source have the name: what it was refused before is forgotten.

        Raises `NameTaken`, and notes that the source wanted the name, if a source with a better right has it.
        """
        owner = self.find_owner(name, origin.rank)
        if owner is not None:
            self.add_refused(name, origin, scope)
            raise NameTaken(describe_refusal(name, owner))
        if self._refused and origin in self._refused:
            self._refused[origin].pop(name, None)

    def add_refused(self, name: str, origin: Origin, scope: ToolScope) -> None:
        """Note that a client wanted this name and did not get it, or has lost it. Other sources are not noted."""
        if origin.rank != OUTSIDE:
            return
        names = self._refused.setdefault(origin, {})
        if len(names) < _MAX_REFUSED:
            names[name] = scope

    def remove_refused(self, origin: Origin) -> None:
        """Forget what a client wanted: it is gone."""
        self._refused.pop(origin, None)

    def refusals(self, scopes: Collection[ToolScope]) -> Mapping[str, Sequence[Origin]]:
        """Return the connected clients that wanted a name in one of these scopes and did not get it, by name."""
        refused: dict[str, list[Origin]] = {}
        for origin, names in self._refused.items():
            for name, scope in names.items():
                if scope in scopes:
                    refused.setdefault(name, []).append(origin)
        return refused


def describe_refusal(name: str, owner: Origin) -> str:
    """Return why a tool can't have this name."""
    return (
        f"Tool name {name!r} is reserved for {describe_owner(owner)}: choose another name, "
        "or let the operator list it in tools.allow_shadowing"
    )


def describe_owner(owner: Origin) -> str:
    """Return the source that has a name, in words."""
    words = _OWNERS.get(owner.kind)
    return str(owner) if words is None else words.format(owner.name)


def _key(name: str) -> str:
    return name.casefold() if name.endswith(SEPARATOR) else name
