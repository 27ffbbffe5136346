"""A worker process: reads jobs from its standard input, runs them one by one, answers on its standard output."""

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

from handspan.core.artifacts import ArtifactRef
from handspan.core.context import ToolContext
from handspan.core.deadlines import Deadline
from handspan.core.errors import ToolError
from handspan.core.function_tool import FunctionTool, tool
from handspan.core.results import Failure, Pending, Success, ToolResult
from handspan.core.values import Json
from handspan.engine.crash import failure, said
from handspan.engine.outcome import outcome
from handspan.engine.worker_words import Job, JobFailed, JobSucceeded, Reply, Said, Suspended, decode_job

_LENGTH: Final = struct.Struct("!I")
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36


class _NoArtifacts:
    """An isolated tool returns its data; keeping it is the engine's work."""

    async def keep(
        self, data: bytes, *, owner: str, session: str = "", media_type: str = "", name: str = ""
    ) -> ArtifactRef:
        _refuse_artifacts()

    async def get(self, artifact_id: str, *, owner: str) -> ArtifactRef:
        _refuse_artifacts()

    async def read(self, artifact_id: str, *, owner: str, offset: int = 0, limit: int | None = None) -> bytes:
        _refuse_artifacts()


def _refuse_artifacts() -> NoReturn:
    raise ToolError(
        "execution_failed", "An isolated tool has no artifacts: it returns its data, and the engine keeps it."
    )


def main() -> None:
    """Serve jobs until the engine closes the pipe or dies."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)  # what the tool starts stays below us, where it can be found and ended
    # What the tool prints goes to standard error: standard output is for answers alone.
    answers = _Answers(os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)
    jobs = os.fdopen(os.dup(0), "rb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    while header := jobs.read(_LENGTH.size):
        job = decode_job(jobs.read(*_LENGTH.unpack(header)))
        answers.give(_run(job, answers))


class _Answers:
    """The way back. A tool may report from several threads: one frame after the other."""

    def __init__(self, pipe: BinaryIO) -> None:
        self._pipe = pipe
        self._lock = threading.Lock()

    def give(self, result: ToolResult | Pending) -> None:
        """The tool's outcome; a failure when it can't be sent."""
        try:
            match result:
                case Success():
                    self.send(JobSucceeded(result))
                case Failure():
                    self.send(JobFailed(result))
                case Pending():
                    self.send(Suspended(result))
        except (OverflowError, ValueError, struct.error) as error:
            text = f"The tool ran, but its result can't be handed over: {error}. It has to return smaller numbers."
            self.send(JobFailed(Failure("execution_failed", text)))

    def send(self, reply: Reply) -> None:
        payload = msgspec.msgpack.encode(reply)
        with self._lock:
            self._pipe.write(_LENGTH.pack(len(payload)) + payload)
            self._pipe.flush()


def _run(job: Job, answers: _Answers) -> ToolResult | Pending:
    def progress(value: Json) -> None:
        answers.send(Said(value))

    deadline = None if job.seconds is None else Deadline(time.monotonic() + job.seconds, "the engine's deadline")
    ctx = ToolContext(job.call_id, job.who, job.session, deadline, progress, _NoArtifacts(), Path(job.workspace))
    try:
        sys.path[:] = job.search_path
        output = _tool(job).run(job.arguments, ctx)
        return outcome(asyncio.run(_awaited(output)) if inspect.isawaitable(output) else output)
    except ToolError as error:
        return failure(error)
    except BaseException as error:  # the tool's own code, in a process of its own
        return Failure("execution_failed", f"Tool {job.tool!r} failed: {said(error)}")


async def _awaited(output: Awaitable[object]) -> object:
    return await output


def _tool(job: Job) -> FunctionTool[..., Any]:
    """The tool that stands at the job's place, or one made of the function that stands there."""
    found = job.location.find()
    if isinstance(found, FunctionTool):
        return found
    return tool(name=job.tool, description=job.tool, isolated=True)(found)


if __name__ == "__main__":
    main()
