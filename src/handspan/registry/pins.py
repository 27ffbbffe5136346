"""Definitions that a person agreed to: a tool that is not what it was is told, and does not run unasked (SPEC T5).

The first list of an origin is taken as it is. After that, what its source says counts: `blocks` makes a changed tool
unavailable until a person accepts it, and lets a new one ask before its first call; `records` only shows what changed.
"""

from collections.abc import Iterable, Mapping
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from handspan.core.principals import Origin, Scope
from handspan.core.tool import ToolSpec

PinPolicy: TypeAlias = Literal["blocks", "records"]


class DefinitionChange(Struct, frozen=True):
    """How a tool differs from what a person agreed to."""

    was: ToolSpec | None
    """The definition that was agreed to; None: the tool is new."""
    policy: PinPolicy

    @property
    def blocks(self) -> bool:
        """Whether the tool can't be called until a person accepts it."""
        return self.was is not None and self.policy == "blocks"


class PinnedSpecs(Protocol):
    """The definitions that were agreed to. Both methods answer at once: a durable one reads ahead and writes behind."""

    def of(self, owner: str, origin: str) -> Mapping[str, ToolSpec]:
        """Those of one origin by name; empty when it never had a tool. No owner: an origin of everybody's tools."""
        ...

    def keep(self, owner: str, origin: str, specs: Iterable[ToolSpec]) -> None:
        """Let these count as agreed to, in place of those of the same names."""
        ...


class MemoryPins:
    """Keeps them as long as the process lives."""

    def __init__(self) -> None:
        self._specs: dict[tuple[str, str], dict[str, ToolSpec]] = {}

    def of(self, owner: str, origin: str) -> Mapping[str, ToolSpec]:
        """Those of one origin by name."""
        return self._specs.get((owner, origin), {})

    def keep(self, owner: str, origin: str, specs: Iterable[ToolSpec]) -> None:
        """Let these count as agreed to."""
        self._specs.setdefault((owner, origin), {}).update((spec.name, spec) for spec in specs)


class Pins:
    """Compares what origins offer with what was agreed to."""

    def __init__(self, pinned: PinnedSpecs) -> None:
        self._pinned = pinned

    def compare(
        self, policy: PinPolicy, origin: Origin, scope: Scope, specs: Mapping[str, ToolSpec]
    ) -> Mapping[str, DefinitionChange]:
        """How these differ, by name. What nobody has to agree to counts as agreed to from now on."""
        owner, source = owner_of(scope), str(origin)
        known = self._pinned.of(owner, source)
        new = [spec for name, spec in specs.items() if name not in known]
        if new and (not known or policy == "records"):
            self._pinned.keep(owner, source, new)
            new = []
        changed = {
            name: DefinitionChange(known[name], policy)
            for name, spec in specs.items()
            if name in known and known[name].fingerprint != spec.fingerprint
        }
        return changed | {spec.name: DefinitionChange(None, policy) for spec in new}

    def accept(self, origin: Origin, scope: Scope, spec: ToolSpec) -> None:
        """A person agrees to this definition."""
        self._pinned.keep(owner_of(scope), str(origin), [spec])


def owner_of(scope: Scope) -> str:
    """Whose tools these are; empty: everybody's."""
    return scope.id if scope.kind == "owner" else ""
