"""What the operating system refuses, in words that a model can act on. None tells what lies outside."""

import errno
import os
import stat
import time
from typing import Final

from handspan.core.context import Deadline
from handspan.core.errors import ToolError
from handspan.tools.paths import invalid, shown

_FREE_SPACE: Final = "Nothing was changed. Free some space or write less."
_NO_RIGHT: Final = "Nothing was changed. Use another path, or ask the person to change the permissions."

_ADVICE: Final[dict[int, str]] = {
    errno.ENOSPC: _FREE_SPACE,
    errno.EDQUOT: _FREE_SPACE,
    errno.EFBIG: _FREE_SPACE,
    errno.EACCES: _NO_RIGHT,
    errno.EPERM: _NO_RIGHT,
    errno.EROFS: _NO_RIGHT,
    errno.ENOTDIR: "Look at the path with list_directory; a file is read with read_file.",
    errno.ENAMETOOLONG: "Use a shorter name.",
    errno.ENXIO: "It is a socket or a device, not a regular file.",
}


def refusal(error: OSError, path: str, *, root_is_there: bool) -> ToolError:
    """The error for this path when a system call failed."""
    if not root_is_there:
        return ToolError(
            "execution_failed",
            "The workspace directory is gone: it was removed, moved or closed. Ask the person to restore it and to "
            "restart the gateway.",
        )
    match error.errno:
        case errno.ENOENT:
            return ToolError("file_not_found", f"File not found: {path}")
        case errno.ELOOP | errno.EXDEV | errno.EAGAIN:
            return invalid(path, "became a link while it was being opened. Try again.")
        case _:
            cause = os.strerror(error.errno or 0)
            return ToolError(
                "execution_failed", f"{shown(path)}: {cause}. {_ADVICE.get(error.errno or 0, 'Try again.')}"
            )


def wrong_kind(path: str, mode: int) -> ToolError:
    """The error for something that is not the regular file it should be."""
    match stat.S_IFMT(mode):
        case stat.S_IFLNK:
            return invalid(path, "became a link while it was being opened. Try again.")
        case stat.S_IFDIR:
            return ToolError(
                "execution_failed", f"{shown(path)} is a directory. Name a file in it; list_directory shows them."
            )
        case stat.S_IFIFO:
            kind = "a pipe"
        case stat.S_IFSOCK:
            kind = "a socket"
        case _:
            kind = "a device"
    return ToolError("execution_failed", f"{shown(path)} is {kind}, not a regular file. Use another path.")


def too_large(path: str, size: int, limit: int, advice: str) -> ToolError:
    """The error for a file that is larger than what is done with it allows."""
    return ToolError("file_too_large", f"{shown(path)} has {size} bytes; {limit} are possible. {advice}")


def stop_if_late(until: Deadline | None) -> None:
    """`timeout` when nobody waits any more: what was reported as stopped must not happen later (SPEC E5)."""
    if until is not None and time.monotonic() >= until.at:
        raise ToolError("timeout", f"Stopped by {until.whose}; nothing was changed.")
