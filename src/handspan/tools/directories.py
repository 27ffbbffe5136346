"""Directories below a root: opening a name in them, making and listing them. Nothing leads out of it (SPEC S1).

There are two ways to open: one system call where the kernel has it, or a walk from directory to directory. Both refuse
every link. `paths.py` has followed all links before, as text, so a link that is met now was put there meanwhile.
"""

import contextlib
import errno
import heapq
import os
import stat
import struct
from collections.abc import Callable, Iterator
from functools import cache
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from handspan.core.context import Deadline
from handspan.core.late_imports import ctypes
from handspan.tools.new_file import hide_temporary
from handspan.tools.paths import HiddenPaths, Identity, Parts, check_deadline, close_after, identity

OpenBeneath: TypeAlias = Callable[[int, Parts, int], int]
"""(root descriptor, parts, flags) → descriptor. Raises `OSError` like `os.open`. No parts: the root itself."""

HAS_PATH_FLAG: Final = hasattr(os, "O_PATH")
"""Whether a directory can be opened without the permission to list it. Linux alone has the flag."""
DIRECTORY: Final = (os.O_PATH if HAS_PATH_FLAG else os.O_RDONLY) | os.O_DIRECTORY
"""Flags for a directory that is only used to open names in it."""

_ALWAYS: Final = os.O_NOFOLLOW | os.O_CLOEXEC

_OPENAT2: Final = 437  # the same number on every architecture that Python runs on
_RESOLVE_NO_MAGICLINKS: Final = 0x02
_RESOLVE_NO_SYMLINKS: Final = 0x04
_RESOLVE_BENEATH: Final = 0x08
_HOW: Final = _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS | _RESOLVE_NO_SYMLINKS


def open_by_openat2(root: int, parts: Parts, flags: int) -> int:
    """Open by one system call and return the descriptor. The kernel itself refuses to leave the root."""
    how = struct.pack("=QQQ", flags | _ALWAYS, 0, _HOW)  # struct open_how: flags, mode, resolve
    name = b"/".join(parts) or b"."
    while True:
        descriptor = _openat2()(root, name, how)
        if descriptor >= 0:
            return descriptor
        if descriptor != -errno.EINTR:
            raise OSError(-descriptor, os.strerror(-descriptor))


@cache
def _openat2() -> Callable[[int, bytes, bytes], int]:
    """Return the system call. It returns a descriptor, or the negative number of the error."""
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long
    syscall.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t)

    def openat2(root: int, name: bytes, how: bytes) -> int:
        descriptor: int = syscall(_OPENAT2, root, name, how, len(how))
        return descriptor if descriptor >= 0 else -ctypes.get_errno()

    return openat2


def open_by_walk(root: int, parts: Parts, flags: int) -> int:
    """Open directory by directory and return the descriptor. Each directory stays open until the next is open."""
    *above, name = parts or (b".",)
    here = root
    try:
        for part in above:
            child = os.open(part, DIRECTORY | _ALWAYS, dir_fd=here)
            if here != root:
                os.close(here)
            here = child
        return os.open(name, flags | _ALWAYS, dir_fd=here)
    finally:
        if here != root:
            os.close(here)


def choose_opener(root: int) -> OpenBeneath:
    """Return `open_by_openat2` where openat2 works. Old kernels do not have it, and some containers forbid it.

    Only on Linux openat2 is tried: on other systems its number belongs to another system call.
    """
    if not HAS_PATH_FLAG:
        return open_by_walk
    try:
        os.close(open_by_openat2(root, (), DIRECTORY))
    except OSError:
        return open_by_walk
    return open_by_openat2


# Making


class FolderMaker:
    """Makes the folders below one root that a new file needs."""

    def __init__(self, root: int, opener: OpenBeneath, mode: int, owner: tuple[int, int] | None) -> None:
        """`mode` and `owner` are those of new folders; without an owner they belong to this process's user."""
        self._root = root
        self._opener = opener
        self._mode = mode
        self._owner = owner

    @contextlib.contextmanager
    def open(self, parts: Parts) -> Iterator[int]:
        """Open the directory, and create missing directories. If the block fails, remove those that were created."""
        made: list[Parts] = []
        try:
            with close_after(self._open_or_make(parts, made)) as descriptor:
                yield descriptor
        except BaseException:
            self._remove(made)
            raise

    def _open_or_make(self, parts: Parts, made: list[Parts]) -> int:
        """Return the descriptor of the directory. Add the directories that were created to `made`."""
        with contextlib.suppress(FileNotFoundError):
            return self._opener(self._root, parts, DIRECTORY)
        for depth, name in enumerate(parts):
            above = self._opener(self._root, parts[:depth], DIRECTORY)
            with close_after(above), contextlib.suppress(FileExistsError):
                self._make(above, name)
                made.append(parts[: depth + 1])
        return self._opener(self._root, parts, DIRECTORY)

    def _make(self, above: int, name: bytes) -> None:
        os.mkdir(name, self._mode, dir_fd=above)
        if self._owner is None:
            return
        with close_after(os.open(name, os.O_RDONLY | os.O_DIRECTORY | _ALWAYS, dir_fd=above)) as made:
            if not os.listdir(made):  # if a folder with content took its place meanwhile, that folder keeps its owner
                os.fchown(made, *self._owner)

    def _remove(self, made: list[Parts]) -> None:
        """Remove the created folders that are still empty, the deepest first."""
        with contextlib.suppress(OSError):
            for *above, name in reversed(made):
                with close_after(self._opener(self._root, tuple(above), DIRECTORY)) as folder:
                    os.rmdir(name, dir_fd=folder)


# Listing

Kind: TypeAlias = Literal["file", "directory", "link", "other"]

_KINDS: Final[dict[int, Kind]] = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}
_CHECK_DEADLINE_EVERY: Final = 4096


class DirectoryEntry(Struct, frozen=True):
    """One child of a directory. Only files have a size; it is 0 for other kinds."""

    name: str
    kind: Kind
    size: int


class Listing(Struct, frozen=True):
    """The first children of a directory by name, and the number of all its children."""

    entries: tuple[DirectoryEntry, ...]
    total: int


def list_children(
    descriptor: int, folder: Parts, hidden: HiddenPaths, limit: int, deadline: Deadline | None
) -> Listing:
    """Return the first `limit` children by name of the open directory `folder`, without hidden children."""
    total = 0

    def visible_names() -> Iterator[str]:
        nonlocal total
        for name in _read_names(descriptor, deadline):
            if not hide_temporary(descriptor, name) and not hidden.has_name((*folder, os.fsencode(name))):
                total += 1
                yield name

    # Only the smallest names stay in memory: a directory may have millions.
    first = heapq.nsmallest(limit, visible_names())
    out_of_reach = hidden.identities()
    entries = tuple(entry for name in first if (entry := _read_entry(descriptor, name, out_of_reach)) is not None)
    return Listing(entries, total - len(first) + len(entries))


def _read_names(descriptor: int, deadline: Deadline | None) -> Iterator[str]:
    with os.scandir(descriptor) as found:
        for number, entry in enumerate(found):
            if not number % _CHECK_DEADLINE_EVERY:
                check_deadline(deadline)
            yield entry.name


def _read_entry(descriptor: int, name: str, out_of_reach: frozenset[Identity]) -> DirectoryEntry | None:
    """Return the child of this name; None if it is hidden, or was removed since its name was read."""
    try:
        status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if identity(status) in out_of_reach:
        return None
    kind = _KINDS.get(stat.S_IFMT(status.st_mode), "other")
    return DirectoryEntry(name, kind, status.st_size if kind == "file" else 0)
