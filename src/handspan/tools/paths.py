"""What a path means in a workspace: its text checked, its links followed, what is hidden refused (SPEC S1)."""

import os
import unicodedata
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, TypeAlias

from handspan.core.errors import ToolError
from handspan.tools.beneath import Parts

MAX_PATH: Final = 4095
MAX_NAME: Final = 255
_MAX_LINKS: Final = 40  # as the kernel
_SHOWN: Final = 200

Identity: TypeAlias = tuple[int, int]
"""Device and inode: what a file is, whatever it is called."""


def identity(there: os.stat_result) -> Identity:
    """Of what a stat has found."""
    return there.st_dev, there.st_ino


def shown(path: str) -> str:
    """The path quoted for a message, its end left out when it is very long."""
    return repr(path if len(path) <= _SHOWN else path[:_SHOWN] + "…")


def invalid(path: str, reason: str) -> ToolError:
    """The error for a path that names nothing in the workspace."""
    return ToolError("invalid_path", f"Path {shown(path)} {reason}")


def outside(path: str) -> ToolError:
    """One text for all that lies outside, so that it tells nobody what exists there."""
    return invalid(path, "leads out of the workspace. Use a path relative to the workspace, such as 'notes/today.txt'.")


def path_bytes(path: str) -> bytes:
    """The path as the operating system takes it; `invalid_path` for text that can't be one."""
    if not path:
        raise invalid(path, "is empty. Name a file, or '.' for the workspace itself.")
    if "\0" in path:
        raise invalid(path, "holds a NUL character. Leave it out.")
    try:
        encoded = path.encode()
    except UnicodeEncodeError:
        raise invalid(path, "holds a lone surrogate, which is no character. Leave it out.") from None
    if len(encoded) > MAX_PATH:
        raise invalid(path, f"is {len(encoded)} bytes long; {MAX_PATH} are possible. Use a shorter one.")
    longest = max(map(len, encoded.split(b"/")))
    if longest > MAX_NAME:
        raise invalid(path, f"holds a name of {longest} bytes; {MAX_NAME} are possible. Use a shorter one.")
    return encoded


class WorkspaceRoot:
    """Where a workspace lies, in text: turns a path into the parts below it."""

    def __init__(self, root: Path, link_at: Callable[[Parts], bytes | None]) -> None:
        self._link_at = link_at
        self.path = Path(os.path.realpath(root))
        self._real = _split(os.fsencode(self.path))
        self._as_given = _split(os.fsencode(os.path.abspath(root)))

    def parts_of(self, path: str) -> Parts:
        """The parts below the root that this path means, all links followed; `invalid_path` when it leads out.

        Outside of the root nothing is touched, only text is compared: a path that leaves and comes back works, and
        no answer depends on what exists outside.
        """
        encoded = path_bytes(path)
        position: list[bytes] = [] if encoded.startswith(b"/") else list(self._real)
        ahead = encoded.split(b"/")[::-1]
        links = 0
        while ahead:
            target = self._advance(position, ahead.pop())
            if target is None:
                continue
            links += 1
            if links > _MAX_LINKS:
                raise invalid(path, "is a link that leads in a circle. Name the file itself.")
            if target.startswith(b"/"):
                position.clear()
            ahead.extend(reversed(target.split(b"/")))
        return self._below(position, path)

    def _advance(self, position: list[bytes], part: bytes) -> bytes | None:
        """Move on by one part; the target if that is a link, whose directory is then the position."""
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
        target = self._link_at(tuple(position[depth:]))
        if target is not None:
            position.pop()
        return target

    def _below(self, position: list[bytes], path: str) -> Parts:
        depth = len(self._real)
        if tuple(position[:depth]) != self._real:
            raise outside(path)
        parts = tuple(position[depth:])
        if len(b"/".join(parts)) > MAX_PATH:
            raise invalid(path, f"leads over links to a name longer than {MAX_PATH} bytes. Use a shorter one.")
        return parts


class Hidden:
    """What is out of reach although the workspace contains it: state, configuration and token files.

    Known by name, however it is spelled, and by identity, so that another name for the same thing does not help.
    """

    def __init__(self, root: Path, hidden: Iterable[Path]) -> None:
        places = [Path(os.path.abspath(path)) for path in hidden]
        # A hidden link is hidden itself, and what it leads to.
        spellings = {place.parent.resolve() / place.name for place in places} | {place.resolve() for place in places}
        self._paths = tuple(spellings)
        self._names = tuple(_caseless(_split(os.fsencode(p.relative_to(root)))) for p in spellings if root in p.parents)
        self.holds_root = root in spellings

    def __bool__(self) -> bool:
        return bool(self._paths)

    def has_name(self, parts: Parts) -> bool:
        """This is a hidden name, or one below."""
        names = _caseless(parts) if self._names else ()
        return any(names[: len(hidden)] == hidden for hidden in self._names)

    def identities(self) -> frozenset[Identity]:
        """What the hidden things are at this moment: they are replaced now and then, and may not exist yet."""
        found = set()
        for path in self._paths:
            try:
                there = os.stat(path)
            except OSError:
                continue
            found.add(identity(there))
        return frozenset(found)


def _split(path: bytes) -> Parts:
    return tuple(part for part in path.split(b"/") if part)


def _caseless(parts: Parts) -> tuple[str, ...]:
    """The same for every spelling that a file system without upper and lower case takes for one name."""
    return tuple(
        unicodedata.normalize("NFD", unicodedata.normalize("NFD", part.decode("utf-8", "surrogateescape")).casefold())
        for part in parts
    )
