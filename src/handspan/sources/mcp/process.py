"""The process of an MCP server: how it starts, what it may see of ours, and how it ends with all that it started."""

import asyncio
import logging
import os
import secrets
import signal
import subprocess
import sys
from asyncio.subprocess import SubprocessStreamProtocol
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from handspan.core.values import strip_invisible
from handspan.sources.mcp import cleaner

_log = logging.getLogger(__name__)

_INHERITED: Final = ("PATH", "HOME", "LANG", "TMPDIR")
"""What a server sees of the gateway's environment: no key of ours is in it (SPEC S5)."""
_MARK: Final = "HANDSPAN_MCP_MARK"
"""The same for all servers of this gateway: the cleaner looks for it."""
_OWN_MARK: Final = "HANDSPAN_MCP_SERVER"
"""Another one for each process that is started: what left its group is found by it."""
LONGEST_MESSAGE: Final = 32 * 1024 * 1024
"""Bytes of one message of a server. A larger one ends the connection: it would be held in memory as a whole."""
_FAREWELL_SECONDS: Final = 2.0
"""How long a server has to end by itself when its input is closed, and again when it was asked to end."""
_LOGGED_LINES: Final = 200
"""Lines of a server's standard error that are logged at once; each second allows one more."""
_LOGGED_CHARACTERS: Final = 500


class Cleaner:
    """Ends the servers' processes when the gateway is gone, even after `kill -9`. One for all servers."""

    def __init__(self) -> None:
        self.mark = secrets.token_hex(16)
        self.starting = asyncio.Lock()
        """One process is started at a time: each start stops our whole process for some milliseconds."""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def variable(self) -> dict[str, str]:
        """The environment variable by which a server's processes are found."""
        return {_MARK: self.mark}

    def watch(self, group: int) -> None:
        """Watch over this process group. The first call starts the cleaner's own process."""
        process = self._process or self._start()
        if process.stdin is not None:
            with suppress(OSError):  # it was killed: then the mark still finds the servers at a normal end
                process.stdin.write(b"%d\n" % group)
                process.stdin.flush()

    def _start(self) -> subprocess.Popen[bytes]:
        program = [sys.executable, "-I", "-S", cleaner.__file__, f"{_MARK}={self.mark}"]
        # A session of its own: Ctrl-C at the gateway's terminal must not end it first.
        self._process = subprocess.Popen(program, stdin=subprocess.PIPE, start_new_session=True)
        return self._process

    def close(self) -> None:
        """End what is left of all servers, and the cleaner's own process."""
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
            self._process.wait()
            self._process = None


class _ServerProtocol(SubprocessStreamProtocol):
    """The pipes of a server. Its exit and the end of its pipes are separate: what it started may hold the pipes."""

    def __init__(self) -> None:
        super().__init__(limit=LONGEST_MESSAGE, loop=asyncio.get_running_loop())
        self.exited = asyncio.Event()
        self.closed = asyncio.Event()

    def process_exited(self) -> None:
        super().process_exited()
        self.exited.set()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.closed.set()


class ServerProcess:
    """One running server. Standard input and output are its link, standard error goes to our log."""

    def __init__(self, name: str, transport: asyncio.SubprocessTransport, protocol: _ServerProtocol, mark: str) -> None:
        assert protocol.stdin is not None
        assert protocol.stdout is not None
        assert protocol.stderr is not None
        self.stdin, self.stdout = protocol.stdin, protocol.stdout
        self._transport = transport
        self._protocol = protocol
        self._mark = mark
        self.fault = ""
        """What the server did that ended its link, if it was no exit."""
        self._logging = asyncio.create_task(_log_lines(name, protocol.stderr))

    @classmethod
    async def start(
        cls, name: str, command: str, args: Sequence[str], env: Mapping[str, str], over: Cleaner, folder: Path
    ) -> "ServerProcess":
        """Start the program. Raises `OSError` when there is no such program or it can't be started."""
        inherited = {key: os.environ[key] for key in _INHERITED if key in os.environ}
        mark = secrets.token_hex(16)
        async with over.starting:
            transport, protocol = await asyncio.get_running_loop().subprocess_exec(
                _ServerProtocol,
                command,
                *args,
                env={**inherited, **env, **over.variable, _OWN_MARK: mark},
                cwd=folder,
                start_new_session=True,
            )
        over.watch(transport.get_pid())
        return cls(name, transport, protocol, f"{_OWN_MARK}={mark}")

    @property
    def exit_reason(self) -> str:
        """Why the link ended, for people."""
        code = self._transport.get_returncode()
        if self.fault or code is None:
            return self.fault or "it closed its standard output"
        return f"its process ended with exit code {code}" if code >= 0 else f"its process was killed (signal {-code})"

    async def close(self) -> None:
        """End the server: first its input is closed, then it is asked to end, then its whole group is killed."""
        self.stdin.close()
        if not await self.ends_within(_FAREWELL_SECONDS):
            self._signal(signal.SIGTERM)
            await self.ends_within(_FAREWELL_SECONDS)
        self._signal(signal.SIGKILL)  # also what the server started and left in its group
        await asyncio.to_thread(cleaner.kill_marked, self._mark.encode())
        self._logging.cancel()
        await asyncio.gather(self._logging, return_exceptions=True)
        await self.ends_within(_FAREWELL_SECONDS)
        self._transport.close()
        await self._protocol.closed.wait()

    async def ends_within(self, seconds: float) -> bool:
        """Whether the process ends in this time."""
        try:
            async with asyncio.timeout(seconds):
                await self._protocol.exited.wait()
        except TimeoutError:
            return False
        return True

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._transport.get_pid(), number)


async def _log_lines(name: str, stream: asyncio.StreamReader) -> None:
    """Log what the server writes to standard error. A flood is read and dropped, and the log says how much."""
    loop = asyncio.get_running_loop()
    allowance, since, dropped = float(_LOGGED_LINES), loop.time(), 0
    while chunk := await stream.read(64 * 1024):
        now = loop.time()
        allowance, since = min(_LOGGED_LINES, allowance + now - since), now
        for line in chunk.decode(errors="replace").splitlines():
            if allowance < 1:
                dropped += 1
                continue
            allowance -= 1
            if dropped:
                _log.info("MCP server %s: (%d lines are not shown)", name, dropped)
                dropped = 0
            _log.info("MCP server %s: %s", name, strip_invisible(line)[:_LOGGED_CHARACTERS])
