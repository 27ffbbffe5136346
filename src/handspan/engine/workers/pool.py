"""The worker processes of isolated tools, as the engine uses them (SPEC T3)."""

import asyncio
import signal
import struct
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from handspan.core.context import ToolContext
from handspan.core.errors import ToolError
from handspan.core.function_tool import FunctionTool, refuse_second_run
from handspan.core.results import Failure, Pending, Success
from handspan.core.tool import Tool
from handspan.core.values import Arguments
from handspan.engine.outcome import log_fault
from handspan.engine.workers.messages import FaultReported, Job, JobEnded, Location, ProgressReported, decode_reply
from handspan.engine.workers.process_tree import kill_group, kill_tree

_LENGTH: Final = struct.Struct("!I")
_MAX_REPLY: Final = 256 * 1024 * 1024
_AT_ONCE: Final = 64 * 1024


class Workers:
    """Runs isolated tools. Each call has a worker for itself; a few idle workers stay for the next calls."""

    def __init__(self, keep_idle: int = 2, start: Callable[[], Awaitable["Worker"]] | None = None) -> None:
        """`keep_idle`: how many idle workers stay. `start` starts a new worker."""
        self._keep_idle = keep_idle
        self._start = start or Worker.start
        self._idle: list[Worker] = []

    async def run(self, tool: Tool, arguments: Arguments, ctx: ToolContext) -> Success | Pending:
        """Return what the function returned. Raises `ToolError` when it failed or ended its process."""
        assert isinstance(tool, FunctionTool)  # the registry takes no other tool for a process
        refuse_second_run()
        worker = self._take_idle() or await self._start()
        is_reusable = False
        try:
            reply = await worker.run(_make_job(tool, arguments, ctx), ctx)
            is_reusable = True
        finally:
            if is_reusable and len(self._idle) < self._keep_idle:
                self._idle.append(worker)
            else:
                await worker.kill()
        if isinstance(reply, Failure):
            raise ToolError(reply.code, reply.message)
        return reply

    def _take_idle(self) -> "Worker | None":
        while self._idle:
            worker = self._idle.pop()
            if worker.is_alive:
                return worker
            worker.close_pipe()
        return None

    async def close(self) -> None:
        """Kill the idle workers."""
        while self._idle:
            await self._idle.pop().kill()


class Worker:
    """A process that runs one job after the other. After a reply that makes no sense, it has `last_seconds` to end."""

    def __init__(self, process: asyncio.subprocess.Process, last_seconds: float = 2.0) -> None:
        self._process = process
        self._last_seconds = last_seconds

    @classmethod
    async def start(cls) -> "Worker":
        """Return a worker whose process has been started."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-P", "-m", "handspan.engine.workers.main"),  # -P: a model may write modules into the current folder
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        return cls(process)

    @property
    def is_alive(self) -> bool:
        return self._process.returncode is None

    async def run(self, job: Job, ctx: ToolContext) -> Success | Failure | Pending:
        """Return the outcome of this job. Raises `ToolError` when the process ends or sends no valid reply."""
        assert self._process.stdin is not None and self._process.stdout is not None
        payload = msgspec.msgpack.encode(job)
        self._process.stdin.write(_LENGTH.pack(len(payload)) + payload)
        try:
            await self._process.stdin.drain()
            while True:
                (length,) = _LENGTH.unpack(await self._process.stdout.readexactly(_LENGTH.size))
                if length > _MAX_REPLY:
                    raise ToolError(
                        "execution_failed", f"Tool {job.tool!r} answered with {length} bytes: far too many."
                    )
                reply = decode_reply(await self._process.stdout.readexactly(length))
                match reply:
                    case ProgressReported():
                        if reply.call_id == job.call_id:  # an earlier call, perhaps of another owner, may report late
                            ctx.progress(reply.progress)
                    case FaultReported():
                        log_fault(job.tool, job.call_id, reply.traceback)
                    case JobEnded():
                        return reply.result
        except (asyncio.IncompleteReadError, ConnectionError, msgspec.DecodeError):
            raise ToolError(
                "execution_failed", f"Tool {job.tool!r} took its worker process down ({await self._describe_end()})."
            ) from None

    async def _describe_end(self) -> str:
        """Return how the process ended, in words. It may even still run: a tool can write into the pipe and go on."""
        try:
            async with asyncio.timeout(self._last_seconds):
                return describe_exit(await self._process.wait())
        except TimeoutError:
            return "it gave no answer that makes sense, and was killed"

    async def kill(self) -> None:
        """Kill the process with everything that it started."""
        if self.is_alive:
            kill_tree(self._process.pid)
        else:
            kill_group(self._process.pid)
        await self._process.wait()
        self.close_pipe()
        await self._read_to_end()

    async def _read_to_end(self) -> None:
        """Wait until the loop has seen the end of the pipe: a loop that ends before would leave its transport open."""
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(self._last_seconds):  # a child that was not killed may hold the pipe open
                while await self._process.stdout.read(_AT_ONCE):
                    pass
        except TimeoutError:
            pass

    def close_pipe(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()


def _make_job(tool: FunctionTool[..., Any], arguments: Arguments, ctx: ToolContext) -> Job:
    """Return the call as data for a worker process."""
    return Job(
        tool=tool.spec.name,
        location=Location.of(tool.function),
        arguments=dict(arguments),
        call_id=ctx.call_id,
        who=ctx.who,
        session=ctx.session,
        seconds=None if ctx.deadline is None else ctx.deadline.at - time.monotonic(),
        workspace=str(ctx.workspace),
        search_path=[str(Path(entry).resolve()) for entry in sys.path],
    )


def describe_exit(status: int) -> str:
    """Return how a process ended, in words. A negative status is the number of the signal that killed the process."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"
