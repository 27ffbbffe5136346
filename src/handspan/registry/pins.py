"""Definitions that a person agreed to: a changed tool is reported and does not run without asking (SPEC T5).

The first list of an origin counts as agreed to. Later lists follow the policy of the source: `blocks` makes a changed
tool unavailable until a person accepts it, and asks before the first call of a new one; `records` only reports changes.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct, structs

from handspan.core.errors import HandspanError
from handspan.core.principals import Origin, ToolScope
from handspan.core.records import Pin
from handspan.core.store import Pins
from handspan.core.tasks import Tasks
from handspan.core.tool import ToolSpec
from handspan.core.values import strip_schema

_log = logging.getLogger(__name__)

PinPolicy: TypeAlias = Literal["blocks", "records"]


class DefinitionChange(Struct, frozen=True):
    """How a tool differs from the definition that a person agreed to."""

    was: ToolSpec | None
    """The definition that was agreed to; None: the tool is new."""
    policy: PinPolicy

    @property
    def blocks(self) -> bool:
        """Whether the tool stays unavailable until a person accepts the new definition."""
        return self.was is not None and self.policy == "blocks"


class PinnedSpecs:
    """The definitions that were agreed to, by owner, origin and name. They are written in the background.

    `open` reads the definitions of global tools. Those of one owner's tools last as long as the process.
    """

    def __init__(self, store: Pins | None = None) -> None:
        """Without a store all definitions last as long as the process."""
        self._store = store
        self._specs: dict[tuple[str, str], dict[str, ToolSpec]] = {}
        self._writing = Tasks()

    async def open(self) -> None:
        """Read the stored definitions."""
        for pin in () if self._store is None else await self._store.all(owner=""):
            spec = msgspec.convert(pin.definition, ToolSpec)
            self._specs.setdefault((pin.owner, pin.origin), {})[pin.name] = spec

    async def close(self) -> None:
        """Wait until everything is written."""
        await self._writing.wait()

    def compare(
        self, policy: PinPolicy, origin: Origin, scope: ToolScope, specs: Mapping[str, ToolSpec]
    ) -> Mapping[str, DefinitionChange]:
        """Return how these specs differ from the agreed ones, by name.

        A definition that needs no agreement counts as agreed to from now on.
        """
        known = self._specs.get((owner_of(scope), str(origin)), {})
        new = [spec for name, spec in specs.items() if name not in known]
        changes = {
            name: DefinitionChange(known[name], policy)
            for name, spec in specs.items()
            if name in known and _identity(known[name]) != _identity(spec)
        }
        if known and policy == "blocks":
            return changes | {spec.name: DefinitionChange(None, policy) for spec in new}
        self._store_specs(origin, scope, new)
        return changes

    def accept(self, origin: Origin, scope: ToolScope, spec: ToolSpec) -> None:
        """Record that a person agrees to this definition."""
        self._store_specs(origin, scope, [spec])

    def _store_specs(self, origin: Origin, scope: ToolScope, specs: Sequence[ToolSpec]) -> None:
        """Remember these definitions, and write them in the background."""
        owner, source = owner_of(scope), str(origin)
        if specs:
            self._specs.setdefault((owner, source), {}).update((spec.name, spec) for spec in specs)
        if specs and self._store is not None:
            pins = [
                Pin(owner, source, spec.name, spec.fingerprint, definition=msgspec.to_builtins(spec)) for spec in specs
            ]
            self._writing.start(_write(self._store, pins))


def _identity(spec: ToolSpec) -> str:
    """Return the fingerprint of what the source says. Permissions and timeout do not count: the operator sets them.

    Invisible characters do not count: definitions that an earlier version of ours stored may have them.
    """
    return structs.replace(spec, parameters=strip_schema(spec.parameters), permissions=(), timeout=None).fingerprint


async def _write(store: Pins, pins: Sequence[Pin]) -> None:
    try:
        await store.set(*pins)
    except HandspanError as error:  # the next process accepts these definitions again, or asks again
        _log.error("The agreed definitions of %s could not be stored: %s", pins[0].origin, error)


def owner_of(scope: ToolScope) -> str:
    """Return the owner of the tools in this scope; empty for tools of all owners."""
    return scope.id if scope.kind == "owner" else ""
