"""The media processes as other rooms use them: one process a file, limited in time, memory and pixels."""

import asyncio
import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import Coroutine
from concurrent.futures import TimeoutError as FutureTimeout
from math import ceil
from typing import Any, Final, TypeVar

import msgspec
from msgspec import structs

from handspan.config.tool_settings import MediaSettings
from handspan.core.artifacts import Artifacts
from handspan.core.context import Deadline
from handspan.core.errors import ToolError
from handspan.core.images import ImageLimits
from handspan.core.results import Attachment
from handspan.media.jobs import FittedImage, ImageJob, MediaFailed, MediaReply, PdfJob, PdfText

MAX_BYTES: Final = 64 * 1024 * 1024
"""The largest file that is read; no artifact is larger."""
_PIECE: Final = 256 * 1024
_PASSED: Final = r"PATH|LD_LIBRARY_PATH|LANG|(PYTHON|COVERAGE_).*"
"""What the process gets of the gateway's environment, beside Python's own variables. Keys of models stay out."""
_UNREADABLE: Final = frozenset(("image/heic", "image/heif"))
"""Images that Pillow can't read, and some APIs can."""
_T = TypeVar("_T")


class MediaWorkers:
    """Starts a process for each file, a few at once; the others wait. Every failure is a `ToolError`.

    The message of such an error begins with "it": the caller says which file that is.
    """

    def __init__(self, settings: MediaSettings) -> None:
        self._settings = settings
        self._slots = asyncio.Semaphore(settings.processes)
        self._loop: asyncio.AbstractEventLoop | None = None

    def open(self) -> None:
        """Note the running event loop: callers on threads use it too."""
        self._loop = asyncio.get_running_loop()

    async def fit_image(self, data: bytes, limits: ImageLimits) -> FittedImage:
        """Return the image within these limits."""
        job = ImageJob(data, tuple(limits.media_types), limits.size, limits.edge, pixels=self._settings.pixels)
        reply = await self._run("handspan.media.images", job)
        assert isinstance(reply, FittedImage), "an image job has an image as its reply"
        return reply

    async def extract_text(self, job: PdfJob) -> PdfText:
        """Return lines of the text of a PDF."""
        reply = await self._run("handspan.media.pdf", job)
        assert isinstance(reply, PdfText), "a PDF job has a text as its reply"
        return reply

    def seconds_until(self, deadline: Deadline | None) -> float:
        """Return the seconds that one file may take: those of the settings, but not beyond the deadline."""
        left = self._settings.seconds if deadline is None else deadline.at - time.monotonic()
        return max(0.0, min(left, self._settings.seconds))

    def wait_for(self, work: Coroutine[Any, Any, _T], deadline: Deadline | None) -> _T:
        """Run this work on the event loop, for a caller on a thread, and return its result. It ends at the deadline."""
        assert self._loop is not None, "the workers are not open"
        running = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return running.result(None if deadline is None else max(0.0, deadline.at - time.monotonic()))
        except FutureTimeout:
            running.cancel()
            raise ToolError("timeout", "it took longer than this call may take (tools.timeouts)") from None

    async def _run(self, program: str, job: ImageJob | PdfJob) -> MediaReply:
        """Return the reply of a new process. The process is gone afterwards, whatever happens."""
        if len(job.data) > MAX_BYTES:
            raise ToolError("file_too_large", f"it has {len(job.data)} bytes, more than {MAX_BYTES}")
        seconds = self._settings.seconds
        async with self._slots:
            process = await self._start(program)
            try:
                async with asyncio.timeout(seconds):
                    reply = await _exchange(process, msgspec.msgpack.encode(job))
            except TimeoutError:
                raise ToolError("timeout", f"it took longer than {seconds:g} s (tools.media.seconds)") from None
            finally:
                await _end(process)
        if isinstance(reply, MediaFailed):
            raise ToolError(reply.code, reply.message)
        return reply

    async def _start(self, program: str) -> asyncio.subprocess.Process:
        """Start the process that does one job. Raises `ToolError` when the system can't."""
        try:
            return await asyncio.create_subprocess_exec(
                sys.executable,
                *("-P", "-m", program),  # -P: no module from the current folder, which a model may write to
                *(str(self._settings.memory), str(ceil(self._settings.seconds))),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env={name: value for name, value in os.environ.items() if re.fullmatch(_PASSED, name)},
                start_new_session=True,
            )
        except OSError as error:
            raise ToolError("execution_failed", f"it can't be read now: {error.strerror or error}") from error


class OwnerImages:
    """Reads the images of one owner, inline ones and artifacts."""

    def __init__(self, artifacts: Artifacts, workers: MediaWorkers, owner: str) -> None:
        self._artifacts = artifacts
        self._workers = workers
        self._owner = owner

    async def read_image(self, image: Attachment, limits: ImageLimits) -> Attachment:
        """Return the image with its bytes, within the limits. Raises `ToolError` when that can't be done."""
        data = image.data or await self._load(image)
        media_type = image.media_type.partition(";")[0].strip().lower()
        if media_type in _UNREADABLE & limits.media_types and len(data) <= limits.size:
            return structs.replace(image, data=data)
        fitted = await self._workers.fit_image(data, limits)
        return structs.replace(image, data=fitted.data, media_type=fitted.media_type)

    async def _load(self, image: Attachment) -> bytes:
        if image.artifact is None:
            raise ToolError("execution_failed", "it is empty")
        return await self._artifacts.read(image.artifact.id, owner=self._owner)


async def _exchange(process: asyncio.subprocess.Process, payload: bytes) -> MediaReply:
    """Send the job and return the reply. Raises `ToolError` when the process ends without one."""
    assert process.stdin is not None and process.stdout is not None
    reply = bytearray()
    with contextlib.suppress(ConnectionError):  # the process ended early: its exit status tells why
        process.stdin.write(payload)
        await process.stdin.drain()
        process.stdin.close()
    while piece := await process.stdout.read(_PIECE):
        reply += piece
        if len(reply) > MAX_BYTES:
            break
    try:
        decoded: MediaReply = msgspec.msgpack.decode(reply, type=MediaReply)
    except msgspec.DecodeError:
        status = await _end(process)
        how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        raise ToolError("execution_failed", f"the process that read it ended too early ({how})") from None
    return decoded


async def _end(process: asyncio.subprocess.Process) -> int:
    """Kill the process if it still runs, and return its exit status."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # not `process.kill`: it may reap the process, which asyncio awaits
    return await process.wait()
