"""For tests of commands: to wait for what a command reports, and to see whether anything of it is left running."""

import asyncio
import os
import select
import uuid
from pathlib import Path

from handspan.core.values import Json
from handspan.tools.sandbox import Sandbox

LIMIT = 60.0
"""Seconds that no wait in a test exceeds."""


async def probe(sandbox: Sandbox) -> Sandbox:
    """The sandbox after its test: its `report` says whether it is active."""
    await sandbox.ready()
    return sandbox


class Reports:
    """Progress reports, and a way to wait for one."""

    def __init__(self) -> None:
        self.all: list[Json] = []
        self._came = asyncio.Event()

    def __call__(self, report: Json) -> None:
        self.all.append(report)
        self._came.set()

    async def until(self, text: str) -> None:
        """Return once the reports hold this text."""
        async with asyncio.timeout(LIMIT):
            while text not in str(self.all):
                self._came.clear()
                await self._came.wait()


def new_mark() -> str:
    """Seconds to sleep that no other process on this machine sleeps."""
    return f"3600.{uuid.uuid4().int % 10**12}"


def processes_with(mark: str) -> list[int]:
    """A pidfd for each living process whose command line holds the mark."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                if mark.encode() in (entry / "cmdline").read_bytes():
                    found.append(os.pidfd_open(int(entry.name)))
            except OSError:
                continue
    return found


def is_gone(mark: str) -> bool:
    """No process with the mark is left."""
    left = processes_with(mark)
    for pidfd in left:
        os.close(pidfd)
    return not left


def all_end(pidfds: list[int]) -> bool:
    """There are some, and each of these processes ends within a bounded time."""
    ended = [bool(select.select([pidfd], [], [], LIMIT)[0]) for pidfd in pidfds]
    for pidfd in pidfds:
        os.close(pidfd)
    return bool(ended) and all(ended)


def pid_of(pidfd: int) -> int:
    lines = Path(f"/proc/self/fdinfo/{pidfd}").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pid:"))


def states_of_children() -> list[str]:
    """The state letters of this process's children; Z is a zombie."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] for pid in children]
