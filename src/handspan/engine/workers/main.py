"""What runs in a worker process: reads jobs from standard input, runs them one by one, replies on standard output."""

import asyncio
import ctypes
import inspect
import os
import signal
import struct
import sys
import threading
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, BinaryIO, Final, NoReturn

import msgspec

from handspan.core.context import Deadline, ToolContext
from handspan.core.errors import ToolError
from handspan.core.function_tool import FunctionTool, tool
from handspan.core.results import Failure, Pending, Success, ToolResult
from handspan.core.values import Json
from handspan.engine.outcome import convert_error, convert_output, describe_error, describe_traceback
from handspan.engine.workers.messages import (
    FaultReported,
    Job,
    JobEnded,
    ProgressReported,
    WorkerReply,
    decode_job,
)

_LENGTH: Final = struct.Struct("!I")
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36


class _NoArtifacts:
    """The artifacts of an isolated tool: none. The tool returns its data, and the engine stores it."""

    async def keep(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: there are no artifacts."""
        text = "An isolated tool has no artifacts: return the data, and the engine keeps it."
        raise ToolError("execution_failed", text)

    receive = get = read = keep


def main() -> None:
    """Serve jobs until the engine closes the pipe or dies."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        libc.prctl(
            _PR_SET_CHILD_SUBREAPER, 1
        )  # what the tool starts stays our descendant: the engine finds and kills it
    # What the tool prints goes to standard error: standard output is for replies alone.
    replies = _Replies(os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)
    jobs = os.fdopen(os.dup(0), "rb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    while header := jobs.read(_LENGTH.size):
        job = decode_job(jobs.read(*_LENGTH.unpack(header)))
        replies.send_outcome(_run(job, replies))


class _Replies:
    """The pipe to the engine. A tool may report from several threads: the lock keeps frames apart."""

    def __init__(self, pipe: BinaryIO) -> None:
        self._pipe = pipe
        self._lock = threading.Lock()

    def send_outcome(self, result: ToolResult | Pending) -> None:
        """Send the tool's outcome; a failure when the outcome can't be encoded."""
        try:
            match result:
                case Success():
                    self.send(JobEnded(success=result))
                case Failure():
                    self.send(JobEnded(failure=result))
                case Pending():
                    self.send(JobEnded(pending=result))
        except (OverflowError, ValueError, struct.error) as error:
            text = f"The tool ran, but its result can't be handed over: {error}. It has to return smaller numbers."
            self.send(JobEnded(failure=Failure("execution_failed", text)))

    def send(self, reply: WorkerReply) -> None:
        payload = msgspec.msgpack.encode(reply)
        with self._lock:
            self._pipe.write(_LENGTH.pack(len(payload)) + payload)
            self._pipe.flush()


def _run(job: Job, replies: _Replies) -> ToolResult | Pending:
    """Run the job's tool and return its outcome. Progress, and the traceback of a fault, are sent before."""

    def progress(value: Json) -> None:
        replies.send(ProgressReported(job.call_id, value))

    deadline = None if job.seconds is None else Deadline(time.monotonic() + job.seconds, "the engine's deadline")
    ctx = ToolContext(
        job.call_id,
        job.who,
        job.session,
        deadline,
        progress=progress,
        artifacts=_NoArtifacts(),
        workspace=Path(job.workspace),
    )
    try:
        sys.path[:] = job.search_path
        output = _find_tool(job).run(job.arguments, ctx)
        return convert_output(asyncio.run(_await(output)) if inspect.isawaitable(output) else output)
    except ToolError as error:
        return convert_error(error)
    except BaseException as error:  # the tool's own code, in a process of its own
        replies.send(FaultReported(describe_traceback(error)))
        return Failure("execution_failed", f"Tool {job.tool!r} failed: {describe_error(error)}")


async def _await(output: Awaitable[object]) -> object:
    return await output


def _find_tool(job: Job) -> FunctionTool[..., Any]:
    """Return the tool at the job's location, or a tool made of the function there."""
    found = job.location.find()
    if isinstance(found, FunctionTool):
        return found
    return tool(name=job.tool, description=job.tool, isolated=True)(found)


if __name__ == "__main__":
    main()
