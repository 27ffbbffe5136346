"""`handspan call --batch` at the gateway: one process for each agent, a line a call."""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from handspan.testing import RunningGateway
from tests.interaction.doors import Asked, Envelope

_LONGEST_LINE = 1 << 20


class CliDoor:
    """Writes lines to the command and reads its answers. At no terminal, it says no to each question, or yes to all."""

    def __init__(self, gateway: RunningGateway) -> None:
        self._environ = {**os.environ, "HANDSPAN_URL": gateway.url, "HANDSPAN_TOKEN": gateway.token}
        self._commands: dict[tuple[str, bool], Process] = {}

    async def call(self, *calls: Asked) -> list[Envelope]:
        command = await self._command(calls[0].agent, calls[0].allowed)
        assert command.stdin is not None and command.stdout is not None
        for asked in calls:
            line = json.dumps({"tool": asked.tool, "args": dict(asked.arguments)})
            command.stdin.write(f"{line}\n".encode())
        return [json.loads(await command.stdout.readline()) for _ in calls]

    async def _command(self, agent: str, allowed: bool) -> Process:
        found = self._commands.get((agent, allowed))
        if found is None:
            words = ["call", "--batch", "--agent", agent, *(["--yes"] if allowed else [])]
            found = self._commands[agent, allowed] = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "handspan.cli.main", *words),
                stdin=PIPE,
                stdout=PIPE,
                env=self._environ,
                limit=_LONGEST_LINE,
            )
        return found

    async def close(self) -> None:
        for command in self._commands.values():
            await command.communicate(b"")


@asynccontextmanager
async def open_cli(gateway: RunningGateway) -> AsyncIterator[CliDoor]:
    door = CliDoor(gateway)
    try:
        yield door
    finally:
        await door.close()
