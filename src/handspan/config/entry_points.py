"""Entry points: what installed packages bring."""

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from handspan.core.late_imports import metadata

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def entry_points_of(group: str) -> "Iterable[EntryPoint]":
    """Return the entry points of this group.

    The files of packages are searched first: `importlib.metadata` takes a large part of our start, and most
    installations have no entry point of ours.
    """
    if not _is_in_some_package(f"[{group}]".encode()):
        return ()
    return metadata.entry_points(group=group)


def _is_in_some_package(header: bytes) -> bool:
    """Whether a package that can be imported may have entry points under this header."""
    for folder in sys.path:
        try:
            if any(header in _read_entry_points(folder, name) for name in os.listdir(folder or ".")):
                return True
        except FileNotFoundError:
            continue
        except OSError:  # a zip archive, or a folder that may not be read: importlib decides
            return True
    return False


def _read_entry_points(folder: str, name: str) -> bytes:
    """Return the entry points of this `*.dist-info` or `*.egg-info`; empty for any other name."""
    if not name.endswith("-info"):
        return b""
    try:
        with open(os.path.join(folder, name, "entry_points.txt"), "rb", buffering=0) as file:
            return file.readall()
    except (FileNotFoundError, NotADirectoryError):
        return b""
