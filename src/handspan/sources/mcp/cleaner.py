"""A program: waits until the gateway is gone, however it ended, and then kills the MCP servers that it left behind.

The gateway starts it once and holds the other end of its standard input. Each line there is the process group of a
server, or its negative when the group has ended: the system may give that number to another program. Servers start
others (`npx` starts `node`), and these may leave the group: each of them inherits the mark in its environment. It
imports nothing of ours, so that it is small.
"""

import contextlib
import os
import signal
import sys

_ROUNDS = 50
"""A program that forks faster than these rounds can end it is not stopped here."""


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
    """Kill every process that has this mark in its environment. Some rounds: one may start others meanwhile."""
    for _ in range(_ROUNDS):
        found = marked(mark)
        if not found:
            return
        for pid in found:
            kill(pid)


def marked(mark: bytes) -> list[int]:
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
    """Kill a process, or with a negative number its group. One that is gone is no error."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
