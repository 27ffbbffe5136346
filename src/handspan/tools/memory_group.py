"""A control group of the kernel, which bounds the memory of all commands together: other limits are for one process.

The group is made beside that of the gateway, or below it: version 2 has no groups with limits below one with processes.
So it needs root, or a subtree that systemd has delegated (`Delegate=yes`). Version 1 has no such rule.
"""

import atexit
import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_ROOT: Final = Path("/sys/fs/cgroup")
_PREFIX: Final = "handspan-"
_LIMITS: Final = ("memory.max", "memory.limit_in_bytes")
"""The file of the limit, in version 2 and 1."""
_WITH_SWAP: Final = {"memory.swap.max": "0", "memory.memsw.limit_in_bytes": ""}
"""Files that bound swap, which would take what memory refuses; empty: the same number as the limit."""


class MemoryGroup:
    """A group with a limit. Processes are added before they begin, and their children belong to it, too."""

    def __init__(self, folder: Path, limit: int) -> None:
        """Raise `OSError` when the kernel does not make this group."""
        self.limit = limit
        self.has_worked = False
        """Whether a process was put into it."""
        self._folder = folder
        folder.mkdir()
        atexit.register(self.close)
        try:
            name = next(name for name in _LIMITS if (folder / name).exists())
            (folder / name).write_text(str(limit), encoding="ascii")
        except (OSError, StopIteration) as error:
            self.close()
            raise OSError(f"no memory limit in {folder}") from error
        for name, value in _WITH_SWAP.items():
            with contextlib.suppress(OSError):
                if (folder / name).exists():
                    (folder / name).write_text(value or str(limit), encoding="ascii")

    def add(self, process: int) -> bool:
        """Put this process into the group. Return False when that is not possible."""
        try:
            (self._folder / "cgroup.procs").write_text(str(process), encoding="ascii")
        except OSError:
            return False
        self.has_worked = True
        return True

    def close(self) -> None:
        """Remove the group. One with processes stays; the next gateway removes it."""
        atexit.unregister(self.close)
        with contextlib.suppress(OSError):
            self._folder.rmdir()


def open_memory_group(limit: int) -> MemoryGroup | None:
    """Return a new group with this limit in bytes (0: half of the memory); None where the system lets us make none."""
    for parent in _find_parents():
        _remove_old(parent)
        name = f"{_PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
        with contextlib.suppress(OSError):
            return MemoryGroup(parent / name, limit or _find_memory(parent) // 2)
    return None


def _find_parents() -> Iterator[Path]:
    """Yield the groups in which ours may be: in version 2 beside the gateway's and below it, in version 1 below it."""
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:  # not on Linux
        return
    for _, kinds, path in (line.split(":", 2) for line in lines):
        if kinds == "memory":
            yield _ROOT / "memory" / path.strip("/")
        elif not kinds:
            own = _ROOT / path.strip("/")
            for folder in (own.parent, own) if own != _ROOT else (own,):
                with contextlib.suppress(OSError):  # it is so already, or may not be so
                    (folder / "cgroup.subtree_control").write_text("+memory", encoding="ascii")
                yield folder


def _find_memory(group: Path) -> int:
    """Return the memory that this group may use: its own limit, or all of the computer."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for name in _LIMITS:
        with contextlib.suppress(OSError, ValueError):  # ValueError: "max"
            memory = min(memory, int((group / name).read_text(encoding="ascii")))
    return memory


def _remove_old(parent: Path) -> None:
    """Remove the groups of gateways that were killed."""
    with contextlib.suppress(OSError):
        for old in parent.glob(f"{_PREFIX}*"):
            process = old.name.removeprefix(_PREFIX).partition("-")[0]
            if not Path("/proc", process).exists():
                with contextlib.suppress(OSError):
                    old.rmdir()
