"""Which calls of one reply wait for each other (SPEC E3).

Calls run side by side. Inside a group of tools they keep their order around each call that changes something, so that a
read sees what an earlier call of the same reply wrote.
"""

from collections.abc import Sequence

from msgspec import Struct

from handspan.core.messages import CallPart
from handspan.core.principals import Origin
from handspan.registry.toolbox import Toolbox


class _GroupOrder(Struct):
    """The calls of one group so far, by their places in the reply."""

    last_change: tuple[int, ...] = ()
    """The last call that may change something; empty when there was none."""
    reads: tuple[int, ...] = ()
    """The calls after `last_change`, which only read."""


def earlier_calls(calls: Sequence[CallPart], box: Toolbox) -> list[tuple[int, ...]]:
    """Return for each call the places of the calls that have to end before it begins."""
    groups: dict[tuple[Origin, str], _GroupOrder] = {}
    return [_add_to_group(place, call, box, groups) for place, call in enumerate(calls)]


def _add_to_group(
    place: int, call: CallPart, box: Toolbox, groups: dict[tuple[Origin, str], _GroupOrder]
) -> tuple[int, ...]:
    """Add the call to its group. Return the places of the calls that have to end before it begins."""
    entry = box.find(call.name)
    if entry is None or not isinstance(name := entry.spec.annotations.group, str):
        return ()
    group = groups.setdefault((entry.origin, name), _GroupOrder())
    if entry.spec.annotations.read_only:
        group.reads = (*group.reads, place)
        return group.last_change
    earlier = group.reads or group.last_change
    group.last_change, group.reads = (place,), ()
    return earlier
