"""The children of a directory: sorted, bounded, and never more in memory than are shown."""

import heapq
import os
import stat
from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from handspan.core.context import Deadline
from handspan.tools.beneath import Parts
from handspan.tools.paths import Hidden, Identity, identity
from handspan.tools.refusals import stop_if_late

Kind: TypeAlias = Literal["file", "directory", "link", "other"]

_LOOK_AT_CLOCK_EVERY: Final = 4096


class DirectoryEntry(Struct, frozen=True):
    """One child of a directory. The size is that of a file, 0 for the rest."""

    name: str
    kind: Kind
    size: int


class Listing(Struct, frozen=True):
    """The children of a directory, the first ones by name, and how many there are."""

    entries: tuple[DirectoryEntry, ...]
    total: int


def list_children(descriptor: int, folder: Parts, hidden: Hidden, limit: int, until: Deadline | None) -> Listing:
    """The first `limit` children by name of the open directory `folder`, without what is hidden."""
    total = 0

    def visible() -> Iterator[str]:
        nonlocal total
        for name in _names(descriptor, until):
            if not hidden.has_name((*folder, os.fsencode(name))):
                total += 1
                yield name

    # The smallest ones of a stream: a directory with millions of names does not fill the memory.
    first = heapq.nsmallest(limit, visible())
    out_of_reach = hidden.identities()
    entries = tuple(entry for name in first if (entry := _entry(descriptor, name, out_of_reach)) is not None)
    return Listing(entries, total - len(first) + len(entries))


def _names(descriptor: int, until: Deadline | None) -> Iterator[str]:
    with os.scandir(descriptor) as found:
        for number, entry in enumerate(found):
            if not number % _LOOK_AT_CLOCK_EVERY:
                stop_if_late(until)
            yield entry.name


def _entry(descriptor: int, name: str, out_of_reach: frozenset[Identity]) -> DirectoryEntry | None:
    """None for what is hidden, or gone since its name was read."""
    try:
        there = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if identity(there) in out_of_reach:
        return None
    kind = _kind(there.st_mode)
    return DirectoryEntry(name, kind, there.st_size if kind == "file" else 0)


def _kind(mode: int) -> Kind:
    match stat.S_IFMT(mode):
        case stat.S_IFREG:
            return "file"
        case stat.S_IFDIR:
            return "directory"
        case stat.S_IFLNK:
            return "link"
        case _:
            return "other"
