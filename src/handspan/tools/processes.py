"""Child processes: in a group of their own, read with a cap, shown while they run, and never left behind.

A child's end is the end of everything it started: its process group is killed, and where it ran in a sandbox the call
returns only when the last process of that sandbox is gone.
"""

import asyncio
import codecs
import os
import signal
import socket
import struct
from contextlib import suppress
from typing import Final

from msgspec import Struct

from handspan.core.context import Progress, no_progress
from handspan.core.errors import ToolError

KEPT_BYTES: Final = 65_536
"""Of each stream: more is read, so that the child is not blocked, and dropped."""
MOST_SHOWN_CHARACTERS: Final = 4_096
"""The most that one progress report carries."""
_ENDING_SECONDS: Final = 5.0
_LAST_BYTES_SECONDS: Final = 1.0
_CREDENTIALS: Final = struct.Struct("=iII")
"""The kernel's `struct ucred`: process, user, group."""


class Launch(Struct, frozen=True):
    """All that is needed to start a child."""

    argv: tuple[str, ...]
    cwd: str
    env: dict[str, str]
    fds: tuple[int, ...] = ()
    """Descriptors that the child inherits."""
    sandbox: "SandboxHandshake | None" = None


class SandboxHandshake(Struct, frozen=True):
    """The line to the first process of a sandbox: it reports when nothing but our word is missing, and waits for it.

    By then everything in there dies with us. If we die before, no word comes, and it ends by itself.
    """

    theirs: socket.socket
    """Its standard input."""
    ours: socket.socket
    """The other end of a Unix socket pair, with `SO_PASSCRED`: its report carries its process id."""


class ChildResult(Struct, frozen=True):
    """What is left of a child: it and everything that it started is gone."""

    exit_code: int
    stdout: str
    stderr: str
    seconds: float
    timed_out: bool = False
    started: bool = True
    """False: the sandbox itself failed, and stderr says why; the program never ran."""


async def run_child(
    launch: Launch, *, timeout: float, progress: Progress = no_progress, keep: int = KEPT_BYTES
) -> ChildResult:
    """The outcome of one child; `ToolError` when it can't be started. Cancelled or late: everything is killed first."""
    child = _Child(launch, progress, keep)
    loop = asyncio.get_running_loop()
    began = loop.time()
    timed_out = False
    starting = asyncio.ensure_future(child.start())
    try:
        await asyncio.shield(starting)  # a cancel now would leave a half-started child that nobody can end
        async with asyncio.timeout(timeout):
            await child.exited.wait()
    except TimeoutError:
        timed_out = True
    finally:
        await asyncio.wait((starting,))
        await child.end()
    return child.result(loop.time() - began, timed_out)


class HeadAndTail:
    """The head and the tail of a stream, with a mark of how much between them was left out."""

    def __init__(self, limit: int = KEPT_BYTES) -> None:
        self._half = limit // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def add(self, data: bytes) -> None:
        self._total += len(data)
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail += data[room:][-self._half :]
        del self._tail[: -self._half]

    def text(self) -> str:
        """What was kept, as text; bytes that are no UTF-8 become replacement characters."""
        if self._total == len(self._head) + len(self._tail):
            return (self._head + self._tail).decode("utf-8", "replace")
        head, tail = _drop_cut_end(bytes(self._head)), _drop_cut_start(bytes(self._tail))
        left_out = self._total - len(head) - len(tail)
        return f"{head.decode('utf-8', 'replace')}\n[… {left_out} bytes left out …]\n{tail.decode('utf-8', 'replace')}"


def _drop_cut_end(data: bytes) -> bytes:
    """Without a character that the cut split: at most three bytes less."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(data)
    return data[: len(data) - len(decoder.getstate()[0])]


def _drop_cut_start(data: bytes) -> bytes:
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]


class OutputProgress:
    """A stream as progress reports: at once when it is slow, fewer and fewer when it floods (SPEC X5)."""

    def __init__(self, stream: str, progress: Progress, loop: asyncio.AbstractEventLoop) -> None:
        self._stream = stream
        self._progress = progress
        self._loop = loop
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._unreported = ""
        self._skipped = 0
        self._reports = 0
        self._next_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, data: bytes) -> None:
        self._take(self._decoder.decode(data))
        if self._timer is None and self._unreported:
            delay = self._next_at - self._loop.time()
            if delay <= 0:
                self._report()
            else:
                self._timer = self._loop.call_later(delay, self._report)

    def close(self) -> None:
        """Report what is still waiting."""
        self._take(self._decoder.decode(b"", final=True))
        if self._timer is not None:
            self._timer.cancel()
        if self._unreported:
            self._report()

    def _take(self, text: str) -> None:
        waiting = self._unreported + text
        self._skipped += max(0, len(waiting) - MOST_SHOWN_CHARACTERS)
        self._unreported = waiting[-MOST_SHOWN_CHARACTERS:]

    def _report(self) -> None:
        mark = f"[… {self._skipped} characters not shown …]\n" if self._skipped else ""
        self._progress({"stream": self._stream, "text": mark + self._unreported})
        self._timer, self._unreported, self._skipped = None, "", 0
        self._reports += 1
        # Ten a second at first; a child that talks without end is shown every two seconds in the end.
        self._next_at = self._loop.time() + min(2.0, 0.1 * 2.0 ** (self._reports // 50))


class _Child(asyncio.SubprocessProtocol):
    """One running child. Its exit and the end of its pipes are separate events: a background process may hold those."""

    def __init__(self, launch: Launch, progress: Progress, keep: int) -> None:
        self._launch = launch
        self._loop = asyncio.get_running_loop()
        self._outputs = {1: HeadAndTail(keep), 2: HeadAndTail(keep)}
        self._progress = {
            1: OutputProgress("stdout", progress, self._loop),
            2: OutputProgress("stderr", progress, self._loop),
        }
        self._open_pipes = {1, 2}
        self._transport: asyncio.SubprocessTransport | None = None
        self._init: int | None = None
        self._exit_code = -1
        self._started = launch.sandbox is None
        self.exited = asyncio.Event()
        self._drained = asyncio.Event()

    async def start(self) -> None:
        launch = self._launch
        try:
            self._transport, _ = await self._loop.subprocess_exec(
                lambda: self,
                *launch.argv,
                stdin=launch.sandbox.theirs.fileno() if launch.sandbox else asyncio.subprocess.DEVNULL,
                cwd=launch.cwd,
                env=launch.env,
                pass_fds=launch.fds,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise ToolError(
                "execution_failed", f"Could not start {launch.argv[0]!r} in {launch.cwd!r}: {error}"
            ) from error
        if launch.sandbox is not None:
            self._loop.add_reader(launch.sandbox.ours, self._release_sandbox)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self._outputs[fd].add(data)
        self._progress[fd].add(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._open_pipes.discard(fd)
        if not self._open_pipes:
            self._drained.set()

    def process_exited(self) -> None:
        self.exited.set()

    async def end(self) -> None:
        """Kill what still runs and wait until it is gone; then read the last bytes and close everything."""
        if self._transport is None:
            return
        try:
            self._kill()
            async with asyncio.timeout(_ENDING_SECONDS):
                await self.exited.wait()
                await self._wait_for_sandbox()
            async with asyncio.timeout(_LAST_BYTES_SECONDS):  # without a sandbox, a process that fled may hold a pipe
                await self._drained.wait()
        except TimeoutError:
            pass
        finally:
            self._close(self._transport)

    def result(self, seconds: float, timed_out: bool) -> ChildResult:
        code = self._exit_code
        return ChildResult(
            exit_code=code if code >= 0 else 128 - code,  # as a shell says it: 128 and the signal's number
            stdout=self._outputs[1].text(),
            stderr=self._outputs[2].text(),
            seconds=seconds,
            timed_out=timed_out,
            started=self._started,
        )

    def _kill(self) -> None:
        assert self._transport is not None
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._transport.get_pid(), signal.SIGKILL)
        if self._launch.sandbox is not None:  # its first process, if it has left the group, may still wait for our word
            self._loop.remove_reader(self._launch.sandbox.ours)
            self._launch.sandbox.ours.shutdown(socket.SHUT_RDWR)
        if self._init is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._init, signal.SIGKILL)

    def _release_sandbox(self) -> None:
        """The sandbox stands, and its first process, certainly alive, waits for us: note who it is, let it go on."""
        assert self._launch.sandbox is not None
        line = self._launch.sandbox.ours
        self._loop.remove_reader(line)
        _, credentials, _, _ = line.recvmsg(16, socket.CMSG_SPACE(_CREDENTIALS.size))
        pid, _, _ = _CREDENTIALS.unpack(credentials[0][2])
        with suppress(OSError):  # an old kernel has no pidfd: then its end is not waited for
            self._init = os.pidfd_open(pid)
        self._started = True
        line.send(b"\n")

    async def _wait_for_sandbox(self) -> None:
        """Wait for the first process of the sandbox: the kernel lets it end only after all others in there."""
        if self._init is None:
            return
        gone = asyncio.Event()
        self._loop.add_reader(self._init, gone.set)
        try:
            await gone.wait()
        finally:
            self._loop.remove_reader(self._init)

    def _close(self, transport: asyncio.SubprocessTransport) -> None:
        if self._init is not None:
            os.close(self._init)
        code = transport.get_returncode()
        self._exit_code = code if code is not None else -signal.SIGKILL
        for reported in self._progress.values():
            reported.close()
        transport.close()


def find_program(name: str, search_path: str | None = None) -> str | None:
    """The file that this name starts, by its path or in the search path; None when there is none.

    Not `shutil.which`: that module brings every kind of archive along, and everything here is imported at start.
    """
    folders = [""] if "/" in name else (search_path or os.environ.get("PATH", os.defpath)).split(os.pathsep)
    for folder in folders:
        file = os.path.join(folder, name)
        if os.path.isfile(file) and os.access(file, os.X_OK):
            return file
    return None
