"""Kills a process with everything that it started, even children that moved to another process session (SPEC E5)."""

import contextlib
import os
import signal
from pathlib import Path
from typing import Final

_ROUNDS: Final = 100
"""How often children are searched and killed. A program that forks faster can only be stopped by a sandbox."""


def kill_tree(pid: int) -> None:
    """Kill this leader of a process group, its group and its descendants.

    The leader is stopped first and killed last. While the leader lives, it is the subreaper: every descendant stays
    below it. While it is stopped, it starts no new process.
    """
    _send(pid, signal.SIGSTOP)
    for _ in range(_ROUNDS):
        alive = [child for child in descendants(pid) if not _has_ended(child)]
        if not alive:
            break
        for child in alive:
            _send(child, signal.SIGKILL)
    kill_group(pid)


def kill_group(pid: int) -> None:
    """Kill what is left of the group of this process. The process itself may have ended."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    """Return all processes below this one; none where the kernel does not list them (then only the group is killed)."""
    found = [pid]
    for parent in found:  # the list grows during the loop
        found += _children(parent)
    return found[1:]


def _children(pid: int) -> list[int]:
    """Return the child processes, which the kernel lists by thread. A process that ends meanwhile has none."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    children: list[int] = []
    for thread in threads:
        with contextlib.suppress(OSError):
            children += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return children


def _has_ended(pid: int) -> bool:
    """Whether the process has ended: it is a zombie (Z), dead (X), or not there any more."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
