"""A tool of the person's own that takes long, and a way to know that it has really begun."""

import os
import select
from typing import Final

from tests.cli.shell import Shell

_NAP: Final = """
import asyncio
from handspan import tool

@tool
async def nap(minutes: int) -> str:
    "Sleep for some minutes."
    with open({fifo!r}, "w") as begun:
        begun.write("begun")
    await asyncio.sleep(60 * minutes)
    return "awake"
"""


class Sleeper:
    """The tool `nap`."""

    def __init__(self, run: Shell) -> None:
        self._fifo = run.home / "begun"
        os.mkfifo(self._fifo)
        self._begun = self._opened()
        run.tool("nap", _NAP.format(fifo=str(self._fifo)))

    def has_begun(self) -> bool:
        """Whether it begins within a minute; once for every time."""
        said = self._read()
        if said:
            assert self._read() == b"", "it closes the pipe when it has said so"
            self.close()
            self._begun = self._opened()  # the end of one writer is the end of the pipe for who had it open
        return said == b"begun"

    def close(self) -> None:
        """Let go of the pipe."""
        os.close(self._begun)

    def _read(self) -> bytes | None:
        ready, _, _ = select.select([self._begun], [], [], 60)
        return os.read(self._begun, 5) if ready else None

    def _opened(self) -> int:
        return os.open(self._fifo, os.O_RDONLY | os.O_NONBLOCK)
