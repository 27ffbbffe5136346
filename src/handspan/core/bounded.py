"""A dict that forgets its oldest entry when it is full: for caches, and for what is remembered of past requests."""

from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")


class BoundedDict(OrderedDict[_K, _V]):
    """An `OrderedDict` with a limit: each entry beyond the limit makes it forget the first one.

    As in any dict, an entry that is set again stays in its place. `move_to_end` makes an entry the newest one: called
    with each use, it forgets the entry that was used longest ago.
    """

    __slots__ = ("_limit", "_on_forgotten")

    def __init__(self, limit: int, on_forgotten: Callable[[_K, _V], object] | None = None) -> None:
        """`on_forgotten` gets each entry that the limit removes; entries that the program removes it does not get."""
        super().__init__()
        self._limit = limit
        self._on_forgotten = on_forgotten

    def __setitem__(self, key: _K, value: _V) -> None:
        super().__setitem__(key, value)
        if len(self) > self._limit:
            forgotten = self.popitem(last=False)
            if self._on_forgotten is not None:
                self._on_forgotten(*forgotten)
