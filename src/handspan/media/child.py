"""The start of a media process: it limits itself, does one job and ends. A hostile file harms this process alone."""

import contextlib
import ctypes
import os
import resource
import signal
import sys
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from handspan.core.errors import ToolError
from handspan.media.jobs import MediaFailed, MediaReply

_PR_SET_PDEATHSIG: Final = 1
_Job = TypeVar("_Job")


def serve(job_type: type[_Job], work: Callable[[_Job], MediaReply], *, opens_files: bool) -> None:
    """Do the job on standard input, and write the reply to standard output.

    The arguments of the process are its limits: bytes of memory and seconds of CPU. Without `opens_files` the process
    can open no file and no socket.
    """
    memory, seconds = int(sys.argv[1]), int(sys.argv[2])
    _set_limits(memory, seconds, opens_files=opens_files)
    reply = _run(job_type, work, memory)
    sys.stdout.buffer.write(msgspec.msgpack.encode(reply))
    sys.stdout.buffer.flush()
    os._exit(0)  # nothing is left to do, and freeing the memory of an image takes time


def _set_limits(memory: int, seconds: int, *, opens_files: bool) -> None:
    """Limit memory, CPU time and files of this process. It starts no other process."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # this process ends with the gateway
    limits = {
        resource.RLIMIT_AS: memory,
        resource.RLIMIT_CPU: seconds,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_NPROC: 0,
    }
    if not opens_files:
        limits[resource.RLIMIT_NOFILE] = 0
    for kind, limit in limits.items():
        with contextlib.suppress(ValueError, OSError):  # a lower hard limit stays; macOS does not limit memory
            resource.setrlimit(kind, (limit, limit))


def _run(job_type: type[_Job], work: Callable[[_Job], MediaReply], memory: int) -> MediaReply:
    """Read the job and return its reply; every error becomes a `MediaFailed`."""
    try:
        return work(msgspec.msgpack.decode(sys.stdin.buffer.read(), type=job_type))
    except ToolError as error:
        return MediaFailed(error.code, error.message)
    except MemoryError:
        return MediaFailed("file_too_large", f"it needs more than the {memory // 2**20} MB of memory that it may have")
    except RecursionError:
        return MediaFailed("execution_failed", "it is nested too deeply")
    except Exception as error:  # a library that reads a broken file may raise anything
        return MediaFailed("execution_failed", f"it is damaged or of a kind that can't be read ({str(error)[:200]})")
