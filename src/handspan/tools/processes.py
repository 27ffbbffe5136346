"""Child processes: each runs in its own process group, its output is limited, and none survives its call.

When a child ends, everything that it started ends, too: its process group is killed. For a child in a sandbox, the call
returns when the last process of the sandbox is gone.
"""

import asyncio
import os
import signal
import socket
import struct
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import IO, Final

from msgspec import Struct

from handspan.core.context import Progress, no_progress
from handspan.core.errors import ToolError
from handspan.core.long_text import LongText
from handspan.core.tasks import outlast
from handspan.tools.output import DEFAULT_LIMITS, OutputLimits, OutputStream, StoreOutput

_ENDING_SECONDS: Final = 5.0
"""How long the end of a killed child is awaited."""
_LAST_BYTES_SECONDS: Final = 1.0
"""How long the end of its pipes is awaited after that."""
_CREDENTIALS: Final = struct.Struct("=iII")
"""The kernel's `struct ucred`: process, user, group."""
_DESCRIPTOR: Final = struct.Struct("=i")


class Launch(Struct, frozen=True):
    """Everything that is needed to start a child."""

    argv: tuple[str, ...]
    cwd: str
    env: dict[str, str]
    fds: tuple[int, ...] = ()
    """Descriptors that the child inherits."""
    sandbox: "SandboxHandshake | None" = None


class SandboxHandshake(Struct, frozen=True):
    """A socket pair to the first process of a sandbox. That process reports that it is ready, and waits for a release.

    From the report on, all processes of the sandbox die with the gateway. If the gateway dies before, the release does
    not come, and the first process ends by itself. At its end, the first process reports how many processes the command
    leaves behind.
    """

    sandbox_end: socket.socket
    """Standard input of the first process."""
    gateway_end: socket.socket
    """The gateway's end, with `SO_PASSCRED`, so that the report has the id of the first process."""
    on_listener: Callable[[socket.socket], None] | None = None
    """Gets the listening socket that the starter sends before the command begins; None: there is no starter."""
    on_first: Callable[[int], object] | None = None
    """Gets the id of the first process while that waits for its release; None: nothing has to be done with it."""


class ChildResult(Struct, frozen=True):
    """The result of a child. The child and everything that it started is gone."""

    exit_code: int
    output: LongText
    """Standard output."""
    errors: LongText
    """Standard error."""
    seconds: float
    timed_out: bool = False
    started: bool = True
    """False: the sandbox failed and stderr says why. The program did not run."""
    left_behind: int = 0
    """How many processes still ran in the sandbox when the command ended. They were killed."""

    @property
    def stdout(self) -> str:
        """Standard output as text; of a long text its beginning."""
        return self.output.head

    @property
    def stderr(self) -> str:
        """Standard error as text; of a long text its beginning."""
        return self.errors.head


async def run_child(
    launch: Launch,
    *,
    timeout: float,
    progress: Progress = no_progress,
    limits: OutputLimits = DEFAULT_LIMITS,
    store: StoreOutput | None = None,
) -> ChildResult:
    """Run one child and return its result. Raises `ToolError` when the child can't be started.

    After a timeout or a cancellation, everything is killed before this returns. `store` stores a stream that is too
    long to be shown.
    """
    child = _Child(launch, progress, limits, store)
    loop = asyncio.get_running_loop()
    began = loop.time()
    timed_out = False
    starting = asyncio.ensure_future(child.start())
    try:
        try:
            await asyncio.shield(starting)  # a start that is cancelled half-way leaves a child that can't be killed
            async with asyncio.timeout(timeout):
                await child.exited.wait()
        except TimeoutError:
            timed_out = True
        finally:
            await outlast(starting)
            await child.end()
        return await child.result(loop.time() - began, timed_out=timed_out)
    except BaseException:
        await child.discard()
        raise


class _PipeReader(asyncio.Protocol):
    """Gives the bytes of one pipe to the object of its child."""

    def __init__(self, child: "_Child", fd: int) -> None:
        self._child = child
        self._fd = fd

    def data_received(self, data: bytes) -> None:
        self._child.outputs[self._fd].add(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._child.pipe_connection_lost(self._fd)


class _Child:
    """One running child. Its pipes may stay open after its exit: a background process may hold them.

    The child is started by `subprocess`, which closes every other descriptor in the child. uvloop's own way to start a
    child does not: a command would get descriptors that the gateway inherited, and the socket of the handshake.
    """

    def __init__(self, launch: Launch, progress: Progress, limits: OutputLimits, store: StoreOutput | None) -> None:
        self._launch = launch
        self._loop = asyncio.get_running_loop()
        self.outputs = {
            fd: OutputStream(name, limits, store, progress, pause=partial(self._pause_reading, fd))
            for fd, name in ((1, "stdout"), (2, "stderr"))
        }
        self._open_pipes = {1, 2}
        self._process: subprocess.Popen[bytes] | None = None
        self._pipes: list[asyncio.BaseTransport] = []
        self._exit: int | None = None
        """A descriptor that is readable when the child has ended; None where the system has no such descriptors."""
        self._init: int | None = None
        """Such a descriptor of the sandbox's first process."""
        self._exit_code = -1
        self._started = launch.sandbox is None
        self._left_behind = 0
        self.exited = asyncio.Event()
        self._drained = asyncio.Event()
        """Both pipes have ended."""

    async def start(self) -> None:
        """Start the child and watch its exit, its pipes and its handshake."""
        process = self._process = self._spawn()
        self._watch_exit(process)
        for fd, pipe in ((1, process.stdout), (2, process.stderr)):
            transport, _ = await self._loop.connect_read_pipe(partial(_PipeReader, self, fd), detach_pipe(pipe))
            self._pipes.append(transport)
        if self._launch.sandbox is not None:
            self._loop.add_reader(self._launch.sandbox.gateway_end, self._release_sandbox)

    def _spawn(self) -> "subprocess.Popen[bytes]":
        """Start the program. Raises `ToolError` when the system can't."""
        launch = self._launch
        try:
            return subprocess.Popen(
                launch.argv,
                # The first process of a sandbox has its handshake with the gateway on standard input.
                stdin=launch.sandbox.sandbox_end.fileno() if launch.sandbox else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                cwd=launch.cwd,
                env=launch.env,
                pass_fds=launch.fds,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            text = f"Could not start {launch.argv[0]!r} in {launch.cwd!r}: {error}"
            raise ToolError("execution_failed", text) from error

    def _watch_exit(self, process: "subprocess.Popen[bytes]") -> None:
        """Set `exited` when the child has ended: by a descriptor or, on a system without one (macOS), by a thread."""
        try:
            self._exit = os.pidfd_open(process.pid)
        except (AttributeError, OSError):
            threading.Thread(target=self._wait_on_thread, args=(process,), daemon=True).start()
        else:
            self._loop.add_reader(self._exit, self._on_exit, process)

    def _on_exit(self, process: "subprocess.Popen[bytes]") -> None:
        assert self._exit is not None
        self._loop.remove_reader(self._exit)
        process.poll()
        self.exited.set()

    def _wait_on_thread(self, process: "subprocess.Popen[bytes]") -> None:
        process.wait()
        with suppress(RuntimeError):  # the loop is closed: the caller is gone
            self._loop.call_soon_threadsafe(self.exited.set)

    def pipe_connection_lost(self, fd: int) -> None:
        self._open_pipes.discard(fd)
        if not self._open_pipes:
            self._drained.set()

    async def end(self) -> None:
        """Kill what still runs and wait until all is gone. Then read the last bytes, and close the descriptors."""
        if self._process is None:
            return
        try:
            self._left_behind = self._read_left_behind()
            self._kill()
            async with asyncio.timeout(_ENDING_SECONDS):
                await self.exited.wait()
                await self._wait_for_sandbox()
            # Without a sandbox, a process outside of the group may hold a pipe.
            async with asyncio.timeout(_LAST_BYTES_SECONDS):
                await self._drained.wait()
        except TimeoutError:
            pass
        finally:
            self._close(self._process)

    async def result(self, seconds: float, *, timed_out: bool) -> ChildResult:
        """Return the result once all output is stored."""
        code = self._exit_code
        return ChildResult(
            exit_code=code if code >= 0 else 128 - code,  # like a shell: 128 plus the number of the signal
            output=await self.outputs[1].finish(),
            errors=await self.outputs[2].finish(),
            seconds=seconds,
            timed_out=timed_out,
            started=self._started,
            left_behind=self._left_behind,
        )

    async def discard(self) -> None:
        """Drop the output, also the part that is stored."""
        for output in self.outputs.values():
            await output.discard()

    def _pause_reading(self, fd: int, is_paused: bool) -> None:
        pipe = self._pipes[fd - 1] if len(self._pipes) >= fd else None
        if isinstance(pipe, asyncio.ReadTransport) and not pipe.is_closing():
            (pipe.pause_reading if is_paused else pipe.resume_reading)()

    def _kill(self) -> None:
        """Kill the child with its process group, and all of the sandbox."""
        assert self._process is not None
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        if self._launch.sandbox is not None:  # the first process may have left the group and still wait for the release
            self._loop.remove_reader(self._launch.sandbox.gateway_end)
            self._launch.sandbox.gateway_end.shutdown(socket.SHUT_RDWR)
        if self._init is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._init, signal.SIGKILL)

    def _release_sandbox(self) -> None:
        """Note the first process of the sandbox, which waits and is certainly alive, and let it go on."""
        assert self._launch.sandbox is not None
        gateway_end = self._launch.sandbox.gateway_end
        self._loop.remove_reader(gateway_end)
        _, credentials, _, _ = gateway_end.recvmsg(16, socket.CMSG_SPACE(_CREDENTIALS.size))
        pid, _, _ = _CREDENTIALS.unpack(credentials[0][2])
        with suppress(OSError):  # an old kernel has no pidfd: then `end` does not wait for the first process
            self._init = os.pidfd_open(pid)
        self._started = True
        if self._launch.sandbox.on_first is not None:
            self._launch.sandbox.on_first(pid)
        gateway_end.send(b"\n")
        if self._launch.sandbox.on_listener is not None:
            self._loop.add_reader(gateway_end, self._receive_listener, gateway_end, self._launch.sandbox.on_listener)

    def _receive_listener(self, gateway_end: socket.socket, on_listener: Callable[[socket.socket], None]) -> None:
        """Take the first message after the release. The starter sends it: the command does not run yet."""
        self._loop.remove_reader(gateway_end)
        space = socket.CMSG_SPACE(_CREDENTIALS.size) + socket.CMSG_SPACE(_DESCRIPTOR.size)
        _, ancillary, _, _ = gateway_end.recvmsg(1, space, socket.MSG_CMSG_CLOEXEC)
        for _, kind, data in ancillary:
            if kind == socket.SCM_RIGHTS:
                on_listener(socket.socket(fileno=_DESCRIPTOR.unpack(data)[0]))

    def _read_left_behind(self) -> int:
        """Return the number of processes that the first process reports at its end; 0 when it was killed."""
        if self._launch.sandbox is None or not self.exited.is_set():
            return 0
        try:
            number = self._launch.sandbox.gateway_end.recv(16, socket.MSG_DONTWAIT).strip()
        except OSError:
            return 0
        return int(number) if number.isdigit() else 0

    async def _wait_for_sandbox(self) -> None:
        """Wait for the end of the sandbox's first process. The kernel ends this process after all others in it."""
        if self._init is None:
            return
        gone = asyncio.Event()
        self._loop.add_reader(self._init, gone.set)
        try:
            await gone.wait()
        finally:
            self._loop.remove_reader(self._init)

    def _close(self, process: "subprocess.Popen[bytes]") -> None:
        """Close all descriptors, and note the exit code."""
        if self._exit is not None:
            self._loop.remove_reader(self._exit)
        for descriptor in (self._exit, self._init):
            if descriptor is not None:
                os.close(descriptor)
        self._exit_code = process.returncode if process.returncode is not None else -signal.SIGKILL
        for pipe in self._pipes:
            pipe.close()


def detach_pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    """Return a copy of this end of a pipe for `connect_read_pipe` or `connect_write_pipe`, and close `pipe`.

    uvloop closes the descriptor of a pipe and then the file object. The second close would close a file that another
    thread has opened under the same number meanwhile. So the file object closes its descriptor only for asyncio's loop.
    """
    assert pipe is not None  # the child was started with this pipe
    is_closed_by_file = isinstance(asyncio.get_running_loop(), asyncio.SelectorEventLoop)
    with pipe:
        return open(os.dup(pipe.fileno()), pipe.mode, buffering=0, closefd=is_closed_by_file)
