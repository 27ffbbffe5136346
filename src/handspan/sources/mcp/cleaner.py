"""A program: waits until the gateway is gone, however it ended, and then kills the MCP servers that it left behind.

The gateway starts this program once and holds the other end of its standard input. Each line of the input is the
process group of a server, or its negative number when the group has ended: the system may give the number to another
program then. Servers start other processes (`npx` starts `node`), and these may leave the group: each of them inherits
the mark in its environment. This program imports nothing of ours, so that it is small.
"""

import contextlib
import os
import signal
import sys

_ROUNDS = 50
"""How often marked processes are looked for. A program that forks faster than that is not stopped."""


def main() -> None:
    """Wait for the end of the gateway, and clean up."""
    mark = sys.argv[1].encode()
    groups: set[int] = set()
    for line in sys.stdin:
        number = int(line)
        if number > 0:
            groups.add(number)
        else:
            groups.discard(-number)
    for group in groups:
        kill(-group)
    kill_marked(mark)


def kill_marked(mark: bytes) -> None:
    """Kill every process with this mark in its environment, in several rounds: a process may start others meanwhile."""
    for _ in range(_ROUNDS):
        found = marked_processes(mark)
        if not found:
            return
        for pid in found:
            kill(pid)


def marked_processes(mark: bytes) -> list[int]:
    """Return the living processes with this mark; none where the system has no `/proc`."""
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []
    return [pid for pid in pids if pid != os.getpid() and _has_mark(pid, mark)]


def _has_mark(pid: int, mark: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as environment:
            return mark in environment.read().split(b"\0")  # the environment of a process that has ended is empty
    except OSError:
        return False


def kill(pid: int) -> None:
    """Kill a process, or with a negative number its group. A process that is gone is no error."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
