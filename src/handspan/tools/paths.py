"""Paths of a workspace: checked as text, resolved over links, and refused when hidden or outside (SPEC S1).

The module also has the errors for paths that can't be used. No error says what exists outside of the workspace.
"""

import contextlib
import errno
import os
import stat
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

from handspan.core.context import Deadline
from handspan.core.errors import ToolError

MAX_PATH: Final = 4095
MAX_NAME: Final = 255
_MAX_LINKS: Final = 40  # as the kernel
_MAX_QUOTED: Final = 200

Parts: TypeAlias = tuple[bytes, ...]
"""The names from a root down to a file: none is empty, `.` or `..`, and none has a slash."""

Identity: TypeAlias = tuple[int, int]
"""Device and inode: they identify a file under any name."""


def identity(status: os.stat_result) -> Identity:
    """Return the device and inode of a stat result."""
    return status.st_dev, status.st_ino


@contextlib.contextmanager
def close_after(descriptor: int) -> Iterator[int]:
    """Yield the open descriptor, and close it after the block."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def quote_path(path: str) -> str:
    """Return the path in quotes for a message. A very long path is cut."""
    return repr(path if len(path) <= _MAX_QUOTED else path[:_MAX_QUOTED] + "…")


def invalid_path(path: str, reason: str) -> ToolError:
    """Return the error for a path that names nothing in the workspace."""
    return ToolError("invalid_path", f"Path {quote_path(path)} {reason}")


def outside_workspace(path: str) -> ToolError:
    """Return the error for a path outside of the workspace. Its text never depends on what exists outside."""
    return invalid_path(
        path, "leads out of the workspace. Use a path relative to the workspace, such as 'notes/today.txt'."
    )


def encode_path(path: str) -> bytes:
    """Return the path as bytes for the operating system. Raises `invalid_path` for text that can't be a path."""
    if not path:
        raise invalid_path(path, "is empty. Name a file, or '.' for the workspace itself.")
    if "\0" in path:
        raise invalid_path(path, "holds a NUL character. Leave it out.")
    try:
        encoded = path.encode()
    except UnicodeEncodeError:
        raise invalid_path(path, "holds a lone surrogate, which is no character. Leave it out.") from None
    if len(encoded) > MAX_PATH:
        raise invalid_path(path, f"is {len(encoded)} bytes long; {MAX_PATH} are possible. Use a shorter one.")
    longest = max(map(len, encoded.split(b"/")))
    if longest > MAX_NAME:
        raise invalid_path(path, f"holds a name of {longest} bytes; {MAX_NAME} are possible. Use a shorter one.")
    return encoded


class WorkspaceRoot:
    """The root folder of a workspace. Turns the text of a path into the names below the root."""

    def __init__(self, root: Path, read_link: Callable[[Parts], bytes | None]) -> None:
        """`read_link` returns the target of a link below the root; None for anything else."""
        self._read_link = read_link
        self.path = Path(os.path.realpath(root))
        self._real = _split(os.fsencode(self.path))
        self._as_given = _split(os.fsencode(os.path.abspath(root)))

    def resolve(self, path: str) -> Parts:
        """Return the names below the root, with all links followed. Raises `invalid_path` when the path leads out.

        Outside of the root only text is compared and no file is touched. So a path may leave the root and come back,
        and no answer depends on what exists outside.
        """
        encoded = encode_path(path)
        position: list[bytes] = [] if encoded.startswith(b"/") else list(self._real)
        ahead = encoded.split(b"/")[::-1]
        links = 0
        while ahead:
            target = self._advance(position, ahead.pop())
            if target is None:
                continue
            links += 1
            if links > _MAX_LINKS:
                raise invalid_path(path, "is a link that leads in a circle. Name the file itself.")
            if target.startswith(b"/"):
                position.clear()
            ahead.extend(reversed(target.split(b"/")))
        return self._strip_root(position, path)

    def _advance(self, position: list[bytes], part: bytes) -> bytes | None:
        """Add one part to the position. If the part is a link, return its target; the position is then its folder."""
        if part in (b"", b"."):
            return None
        if part == b"..":
            del position[-1:]
            return None
        position.append(part)
        depth = len(self._real)
        if tuple(position) == self._as_given:
            position[:] = self._real
        if len(position) <= depth or tuple(position[:depth]) != self._real:
            return None
        target = self._read_link(tuple(position[depth:]))
        if target is not None:
            position.pop()
        return target

    def _strip_root(self, position: list[bytes], path: str) -> Parts:
        """Return the names below the root. Raises `invalid_path` when the position is outside."""
        depth = len(self._real)
        if tuple(position[:depth]) != self._real:
            raise outside_workspace(path)
        parts = tuple(position[depth:])
        if len(b"/".join(parts)) > MAX_PATH:
            raise invalid_path(path, f"leads over links to a name longer than {MAX_PATH} bytes. Use a shorter one.")
        return parts


class HiddenPaths:
    """Paths that no tool may use although they lie in the workspace: state, configuration and token files.

    They are recognised by name in every spelling, and by identity, so that no other name for the file leads to it.
    """

    def __init__(self, root: Path, hidden: Iterable[Path]) -> None:
        given = [Path(os.path.abspath(path)) for path in hidden]
        # If a hidden path is a link, both the link and its target are hidden.
        spellings = {path.parent.resolve() / path.name for path in given} | {path.resolve() for path in given}
        self._paths = tuple(spellings)
        self._names = tuple(caseless(_split(os.fsencode(p.relative_to(root)))) for p in spellings if root in p.parents)
        self.has_root = root in spellings

    def __bool__(self) -> bool:
        return bool(self._paths)

    def has_name(self, parts: Parts) -> bool:
        """Whether this path is hidden, or lies below a hidden path."""
        names = caseless(parts) if self._names else ()
        return any(names[: len(hidden)] == hidden for hidden in self._names)

    def identities(self) -> frozenset[Identity]:
        """Return the identities of the hidden files that exist now. They can change at any time."""
        found = set()
        for path in self._paths:
            try:
                status = os.stat(path)
            except OSError:
                continue
            found.add(identity(status))
        return frozenset(found)


def _split(path: bytes) -> Parts:
    return tuple(part for part in path.split(b"/") if part)


def caseless(parts: Parts) -> tuple[str, ...]:
    """Return the names in a form that is equal for all spellings that a case-insensitive file system treats as one."""
    return tuple(
        unicodedata.normalize("NFD", unicodedata.normalize("NFD", part.decode("utf-8", "surrogateescape")).casefold())
        for part in parts
    )


# Errors of the operating system

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


def explain_refusal(error: OSError, path: str, *, root_exists: bool) -> ToolError:
    """Return the error that explains a failed system call on this path."""
    if not root_exists:
        return ToolError(
            "execution_failed",
            "The workspace directory is gone: it was removed, moved or closed. Ask the person to restore it and to "
            "restart the gateway.",
        )
    match error.errno:
        case errno.ENOENT:
            return ToolError("file_not_found", f"File not found: {path}")
        case errno.ELOOP | errno.EXDEV | errno.EAGAIN:
            return invalid_path(path, "became a link while it was being opened. Try again.")
        case _:
            cause = os.strerror(error.errno or 0)
            return ToolError(
                "execution_failed", f"{quote_path(path)}: {cause}. {_ADVICE.get(error.errno or 0, 'Try again.')}"
            )


def wrong_kind_error(path: str, mode: int) -> ToolError:
    """Return the error for a path that is not a regular file."""
    if stat.S_ISLNK(mode):
        return invalid_path(path, "became a link while it was being opened. Try again.")
    if stat.S_ISDIR(mode):
        advice = "is a directory. Name a file in it; list_directory shows them."
    else:
        kind = "a pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
        advice = f"is {kind}, not a regular file. Use another path."
    return ToolError("execution_failed", f"{quote_path(path)} {advice}")


def too_large_error(path: str, size: int, limit: int, advice: str) -> ToolError:
    """Return the error for a file that is too large for this operation."""
    return ToolError("file_too_large", f"{quote_path(path)} has {size} bytes; {limit} are possible. {advice}")


def check_deadline(deadline: Deadline | None) -> None:
    """Raise `timeout` after the deadline: a change that was reported as stopped must not happen later (SPEC E5)."""
    if deadline is not None and time.monotonic() >= deadline.at:
        raise ToolError("timeout", f"Stopped by {deadline.whose}; nothing was changed.")
