"""What installed packages bring by entry point."""

import os
import sys
from collections.abc import Iterable
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
    for folder in sys.path:
        try:
            if any(header in _entry_points_in(folder, name) for name in os.listdir(folder or ".")):
                return True
        except FileNotFoundError:
            continue
        except OSError:  # a zip archive, or what may not be read: let importlib judge
            return True
    return False


def _entry_points_in(folder: str, name: str) -> bytes:
    """What the package of this `*.dist-info` or `*.egg-info` says it brings; empty for any other name."""
    if not name.endswith("-info"):
        return b""
    try:
        with open(os.path.join(folder, name, "entry_points.txt"), "rb", buffering=0) as file:
            return file.readall()
    except (FileNotFoundError, NotADirectoryError):
        return b""
