"""What installed packages bring by entry point."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def entry_points_of(group: str) -> "Iterable[EntryPoint]":
    """The entry points of this group.

    A look at the files comes first: `importlib.metadata` takes a good part of our start only to find that there are
    none, which is what most people have.
    """
    if not _is_named_somewhere(f"[{group}]".encode()):
        return ()
    from importlib.metadata import entry_points  # noqa: PLC0415 - heavy, see above

    return entry_points(group=group)


def _is_named_somewhere(header: bytes) -> bool:
    for entry in sys.path:
        folder = Path(entry or ".")
        if folder.is_file():  # a zip archive: only importlib can look into it
            return True
        try:
            if any(header in file.read_bytes() for file in folder.glob("*-info/entry_points.txt")):
                return True
        except OSError:  # it went away meanwhile, or may not be read: let importlib judge
            return True
    return False
