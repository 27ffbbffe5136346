"""The process of an MCP server: how it starts, what it may see of ours, and how it ends with all that it started."""

import asyncio
import codecs
import io
import logging
import os
import secrets
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

from handspan.core.errors import HandspanError
from handspan.core.tasks import finish
from handspan.core.values import strip_invisible
from handspan.sources.mcp import cleaner
from handspan.tools.processes import detach_pipe

_log = logging.getLogger(__name__)

_INHERITED: Final = ("PATH", "HOME", "LANG", "TMPDIR")
"""What a server sees of the gateway's environment: no key of ours is in it (SPEC S5)."""
_MARK: Final = "HANDSPAN_MCP_MARK"
"""A variable with the same value for all servers of this gateway: the cleaner looks for it."""
_OWN_MARK: Final = "HANDSPAN_MCP_SERVER"
"""A variable with a new value for each server process: it finds the children that left the server's group."""
LONGEST_MESSAGE: Final = 32 * 1024 * 1024
"""Bytes of one message of a server. A larger one ends the connection: it would be held in memory as a whole."""
_EXIT_SECONDS: Final = 2.0
"""How long a server has to end by itself when its input is closed, and again when it was asked to end."""
_LOGGED_LINES: Final = 200
"""Lines of a server's standard error that are logged at once; each second allows one more."""
_LOGGED_CHARACTERS: Final = 500
_LAST_LINES: Final = 3
"""Lines of its standard error that the reason of a failed server quotes, each up to `_QUOTED_CHARACTERS`."""
_QUOTED_CHARACTERS: Final = 200
_LAST_LINES_SECONDS: Final = 0.5
"""How long the end of standard error may lag behind the end of the process."""


class ServerLost(HandspanError):
    """The link to an MCP server ended, or can't be opened. `said` is what its process wrote to standard error last."""

    def __init__(self, reason: str, said: str = "") -> None:
        super().__init__(reason)
        self.said = said


class Cleaner:
    """Ends the servers' processes when the gateway is gone, even after `kill -9`. One for all servers."""

    def __init__(self) -> None:
        self.mark = secrets.token_hex(16)
        self.starting = asyncio.Lock()
        """One process is started at a time: each start stops our whole process for a millisecond."""
        self._process: subprocess.Popen[bytes] | None = None

    def watch(self, group: int) -> None:
        """Watch over this process group. The first call starts the cleaner's own process."""
        self._tell(self._process or self._start(), b"%d\n" % group)

    def forget(self, group: int) -> None:
        """Watch no longer over this group, which has ended: its number may become that of another program."""
        if self._process is not None:
            self._tell(self._process, b"-%d\n" % group)

    def _tell(self, process: subprocess.Popen[bytes], line: bytes) -> None:
        if process.stdin is not None:
            with suppress(OSError):  # the cleaner was killed: at a normal end, the mark still finds the servers
                process.stdin.write(line)
                process.stdin.flush()

    def _start(self) -> subprocess.Popen[bytes]:
        program = [sys.executable, "-I", "-S", cleaner.__file__, f"{_MARK}={self.mark}"]
        # A session of its own: Ctrl-C at the gateway's terminal must not end it first.
        self._process = subprocess.Popen(program, stdin=subprocess.PIPE, start_new_session=True)
        return self._process

    def close(self) -> None:
        """End what is left of all servers, and the cleaner's own process."""
        process, self._process = self._process, None  # taken first: nothing is written to its input any more
        if process is not None and process.stdin is not None:
            with suppress(OSError):
                process.stdin.close()  # the end of its input lets the cleaner kill them, and then end
            process.wait()


class _Pipe(asyncio.StreamReaderProtocol):
    """One pipe of a server. It may stay open after the server's exit: a process that the server started may hold it."""

    def __init__(self) -> None:
        self.reader = asyncio.StreamReader(limit=LONGEST_MESSAGE)
        super().__init__(self.reader)
        self.closed = asyncio.Event()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.closed.set()


_Pipes: TypeAlias = tuple[
    tuple[asyncio.WriteTransport, _Pipe], tuple[asyncio.ReadTransport, _Pipe], tuple[asyncio.ReadTransport, _Pipe]
]
"""Standard input, output and error of a server."""


class ServerProcess:
    """One running server. Standard input and output are its link, standard error goes to our log."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], mark: str, over: Cleaner, *, pipes: _Pipes) -> None:
        self._process = process
        self._mark = mark
        self._cleaner = over
        self.fault = ""
        """What the server did that ended its link, if it was no exit."""
        loop = asyncio.get_running_loop()
        self._pipes = pipes
        (transport, protocol), (_, stdout), (_, stderr) = pipes
        self.stdin = asyncio.StreamWriter(transport, protocol, None, loop)
        self.stdout = stdout.reader
        self._errors = _ErrorOutput(name)
        self._logging = asyncio.create_task(self._errors.log(stderr.reader))
        self._exited = asyncio.Event()
        threading.Thread(target=_wait_for, args=(process, loop, self._exited.set), daemon=True).start()

    @classmethod
    async def start(
        cls, name: str, program: Sequence[str], env: Mapping[str, str], over: Cleaner, *, folder: Path
    ) -> "ServerProcess":
        """Start the program. Raises `OSError` when there is no such program or it can't be started."""
        inherited = {key: os.environ[key] for key in _INHERITED if key in os.environ}
        mark = secrets.token_hex(16)
        async with over.starting:
            variables = {**inherited, **env, _MARK: over.mark, _OWN_MARK: mark}
            process = _start_program(program, variables, folder)
            over.watch(process.pid)
            connecting = asyncio.ensure_future(_connect(process))
            try:
                return cls(name, process, f"{_OWN_MARK}={mark}", over, pipes=await finish(connecting))
            except asyncio.CancelledError:  # the server was removed meanwhile; `finish` has connected its pipes
                server = cls(name, process, f"{_OWN_MARK}={mark}", over, pipes=connecting.result())
                server._signal(signal.SIGKILL)
                await server.close()
                raise

    @property
    def exit_reason(self) -> str:
        """Why the link ended, for people."""
        code = self._process.returncode
        if self.fault or code is None:
            return self.fault or "it closed its standard output"
        return f"its process ended with exit code {code}" if code >= 0 else f"its process was killed (signal {-code})"

    async def last_lines(self) -> str:
        """Return what the process wrote to standard error last, for the operator: that is often the true reason."""
        # The task reads until the pipe ends; a process that the server started may hold the pipe.
        await asyncio.wait([self._logging], timeout=_LAST_LINES_SECONDS)
        return " | ".join(self._errors.last_lines)

    async def close(self) -> None:
        """End the server. A caller that is cancelled waits for that, too: the gateway's end must not come before it."""
        await finish(self._end())

    async def _end(self) -> None:
        """Close the server's input, then ask the server to end, then kill its whole group."""
        self.stdin.close()
        if not await self.ends_within(_EXIT_SECONDS):
            self._signal(signal.SIGTERM)
            await self.ends_within(_EXIT_SECONDS)
        self._signal(signal.SIGKILL)  # also what the server started and left in its group
        await asyncio.to_thread(cleaner.kill_marked, self._mark.encode())
        self._cleaner.forget(self._process.pid)
        self._logging.cancel()
        await asyncio.gather(self._logging, return_exceptions=True)
        await self.ends_within(_EXIT_SECONDS)
        if self.stdin.transport.get_write_buffer_size():
            self.stdin.transport.abort()  # nothing reads the rest any more
        for transport, pipe in self._pipes:
            transport.close()
            await pipe.closed.wait()

    async def ends_within(self, seconds: float) -> bool:
        """Wait for the end of the process. Return False if it does not end in this time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._exited.wait()
        return self._exited.is_set()

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


def _start_program(program: Sequence[str], env: Mapping[str, str], folder: Path) -> subprocess.Popen[bytes]:
    """Start a program with pipes. The event loop's own way would copy our memory map, which takes 10 ms."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        program, bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe, env=env, cwd=folder, start_new_session=True
    )


async def _connect(process: subprocess.Popen[bytes]) -> _Pipes:
    """Connect the pipes of the process to the event loop."""
    loop = asyncio.get_running_loop()
    return (
        await loop.connect_write_pipe(_Pipe, detach_pipe(process.stdin)),
        await loop.connect_read_pipe(_Pipe, detach_pipe(process.stdout)),
        await loop.connect_read_pipe(_Pipe, detach_pipe(process.stderr)),
    )


def _wait_for(process: subprocess.Popen[bytes], loop: asyncio.AbstractEventLoop, exited: Callable[[], None]) -> None:
    """Wait on this thread for the end of the process, then call `exited` on the loop."""
    process.wait()
    with suppress(RuntimeError):  # the loop is closed: the gateway has ended
        loop.call_soon_threadsafe(exited)


class _ErrorOutput:
    """The standard error of a server: logged line by line, its last lines kept."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8")("replace"), translate=True)
        self._rest = ""
        """The beginning of a line whose end has not come yet: a pipe cuts anywhere."""
        self._last: deque[str] = deque(maxlen=_LAST_LINES)
        self._allowance = float(_LOGGED_LINES)
        """How many lines may be logged now."""
        self._dropped = 0
        """How many lines were not logged since the last one that was."""

    @property
    def last_lines(self) -> list[str]:
        """The end of what was written, without empty lines."""
        lines = (strip_invisible(line).strip()[:_QUOTED_CHARACTERS] for line in (*self._last, self._rest))
        return [line for line in lines if line][-_LAST_LINES:]

    async def log(self, stream: asyncio.StreamReader) -> None:
        """Log each line until the end. A flood is read and dropped, and the log says how much."""
        loop = asyncio.get_running_loop()
        since, is_open = loop.time(), True
        while is_open:
            chunk = await stream.read(64 * 1024)
            now, is_open = loop.time(), bool(chunk)
            self._allowance, since = min(_LOGGED_LINES, self._allowance + now - since), now
            *lines, rest = (self._rest + self._decoder.decode(chunk, final=not chunk)).split("\n")
            self._rest = rest[:_LOGGED_CHARACTERS]
            self._last.extend(line[:_LOGGED_CHARACTERS] for line in lines if line.strip())
            for line in lines if is_open or not rest else (*lines, rest):
                self._log_line(line)

    def _log_line(self, line: str) -> None:
        """Log one line, or only count it when there were too many."""
        if self._allowance < 1:
            self._dropped += 1
            return
        self._allowance -= 1
        if self._dropped:
            _log.info("MCP server %s: (%d lines are not shown)", self._name, self._dropped)
            self._dropped = 0
        _log.info("MCP server %s: %s", self._name, strip_invisible(line)[:_LOGGED_CHARACTERS])
