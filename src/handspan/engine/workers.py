"""Worker processes for isolated tools: a segfault there is only an error here (SPEC T3)."""

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
from handspan.core.function_tool import FunctionTool
from handspan.core.results import Failure, Pending, Success
from handspan.core.tool import Tool
from handspan.core.values import Arguments
from handspan.engine.process_tree import kill_group, kill_tree
from handspan.engine.worker_words import Job, Location, Said, decode_reply

_LENGTH: Final = struct.Struct("!I")
_MAX_REPLY: Final = 256 * 1024 * 1024


class Workers:
    """Runs isolated tools, each call in a worker that nobody else uses meanwhile; a few idle ones are kept."""

    def __init__(self, keep_idle: int = 2, start: Callable[[], Awaitable["Worker"]] | None = None) -> None:
        """Keep so many; `start` gives a new one."""
        self._keep_idle = keep_idle
        self._start = start or Worker.start
        self._idle: list[Worker] = []

    async def run(self, tool: Tool, arguments: Arguments, ctx: ToolContext) -> Success | Pending:
        """What the function returned; `ToolError` when it failed or took its process down with it."""
        assert isinstance(tool, FunctionTool)  # the registry let no other in
        worker = self._alive() or await self._start()
        is_reusable = False
        try:
            reply = await worker.ask(_job(tool, arguments, ctx), ctx)
            is_reusable = True
        finally:
            if is_reusable and len(self._idle) < self._keep_idle:
                self._idle.append(worker)
            else:
                await worker.kill()
        if isinstance(reply, Failure):
            raise ToolError(reply.code, reply.message)
        return reply

    def _alive(self) -> "Worker | None":
        while self._idle:
            worker = self._idle.pop()
            if worker.is_alive:
                return worker
            worker.let_go()
        return None

    async def close(self) -> None:
        """End the idle workers."""
        while self._idle:
            await self._idle.pop().kill()


class Worker:
    """A process that does one job after the other. When it talks no sense, it has some last seconds to end itself."""

    def __init__(self, process: asyncio.subprocess.Process, last_seconds: float = 2.0) -> None:
        self._process = process
        self._last_seconds = last_seconds

    @classmethod
    async def start(cls) -> "Worker":
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "handspan.engine.worker_main"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        return cls(process)

    @property
    def is_alive(self) -> bool:
        return self._process.returncode is None

    async def ask(self, job: Job, ctx: ToolContext) -> Success | Failure | Pending:
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
                if not isinstance(reply, Said):
                    return reply.result
                ctx.progress(reply.progress)
        except (asyncio.IncompleteReadError, ConnectionError, msgspec.DecodeError):
            raise ToolError(
                "execution_failed", f"Tool {job.tool!r} took its worker process down ({await self._end()})."
            ) from None

    async def _end(self) -> str:
        """How the process ended, in words. It may not have: a tool can spoil the way back and go on."""
        try:
            async with asyncio.timeout(self._last_seconds):
                return describe_exit(await self._process.wait())
        except TimeoutError:
            return "it gave no answer that makes sense, and was killed"

    async def kill(self) -> None:
        """End the process with everything it started."""
        if self.is_alive:
            kill_tree(self._process.pid)
        else:
            kill_group(self._process.pid)
        await self._process.wait()
        self.let_go()

    def let_go(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()


def _job(tool: FunctionTool[..., Any], arguments: Arguments, ctx: ToolContext) -> Job:
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
    """How a process ended, in words; a signal's number is negative."""
    if status < 0:
        return f"killed by {_signal_name(-status)}"
    return f"exit status {status}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
