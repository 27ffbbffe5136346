"""Definitions that a person agreed to: a tool that is not what it was is told, and does not run unasked (SPEC T5).

The first list of an origin is taken as it is. After that, what its source says counts: `blocks` makes a changed tool
unavailable until a person accepts it, and lets a new one ask before its first call; `records` only shows what changed.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from handspan.core.errors import HandspanError
from handspan.core.principals import Origin, Scope
from handspan.core.records import Pin
from handspan.core.store import Pins
from handspan.core.tool import ToolSpec

_log = logging.getLogger(__name__)

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


class PinnedSpecs:
    """The definitions that were agreed to, by owner, origin and name. `open` reads them, and they are written behind.

    Read are those of everybody's tools; those of an owner's last as long as the process.
    """

    def __init__(self, store: Pins | None = None) -> None:
        """Without a store all of them last as long as the process."""
        self._store = store
        self._specs: dict[tuple[str, str], dict[str, ToolSpec]] = {}
        self._writing: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Read what is stored."""
        for pin in () if self._store is None else await self._store.all(owner=""):
            spec = msgspec.convert(pin.definition, ToolSpec)
            self._specs.setdefault((pin.owner, pin.origin), {})[pin.name] = spec

    async def close(self) -> None:
        """Wait until all is written."""
        await asyncio.gather(*self._writing)

    def compare(
        self, policy: PinPolicy, origin: Origin, scope: Scope, specs: Mapping[str, ToolSpec]
    ) -> Mapping[str, DefinitionChange]:
        """How these differ, by name. What nobody has to agree to counts as agreed to from now on."""
        known = self._specs.get((owner_of(scope), str(origin)), {})
        new = [spec for name, spec in specs.items() if name not in known]
        changes = {
            name: DefinitionChange(known[name], policy)
            for name, spec in specs.items()
            if name in known and known[name].fingerprint != spec.fingerprint
        }
        if known and policy == "blocks":
            return changes | {spec.name: DefinitionChange(None, policy) for spec in new}
        self._keep(origin, scope, new)
        return changes

    def accept(self, origin: Origin, scope: Scope, spec: ToolSpec) -> None:
        """A person agrees to this definition."""
        self._keep(origin, scope, [spec])

    def _keep(self, origin: Origin, scope: Scope, specs: Sequence[ToolSpec]) -> None:
        owner, source = owner_of(scope), str(origin)
        if specs:
            self._specs.setdefault((owner, source), {}).update((spec.name, spec) for spec in specs)
        if specs and self._store is not None:
            pins = [Pin(owner, source, spec.name, spec.fingerprint, msgspec.to_builtins(spec)) for spec in specs]
            task = asyncio.create_task(_write(self._store, pins))
            self._writing.add(task)
            task.add_done_callback(self._writing.discard)


async def _write(store: Pins, pins: Sequence[Pin]) -> None:
    try:
        await store.set(*pins)
    except HandspanError as error:  # the next process takes them as they are, or asks again
        _log.error("Definitions of %s that were agreed to could not be stored: %s", pins[0].origin, error)


def owner_of(scope: Scope) -> str:
    """Whose tools these are; empty: everybody's."""
    return scope.id if scope.kind == "owner" else ""
