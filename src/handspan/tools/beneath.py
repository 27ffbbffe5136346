"""Opening a name below a directory so that nothing on the way can lead out, whatever is swapped meanwhile (SPEC S1).

Two ways with the same promise: one system call where the kernel has it, a walk from directory to directory elsewhere.
Both refuse every link: links were followed before, in text (`paths.py`), so one that is met here is a race.
"""

import errno
import os
import struct
from collections.abc import Callable
from functools import cache
from typing import Final, TypeAlias

Parts: TypeAlias = tuple[bytes, ...]
"""The names from a root down to a file: none is empty, `.`, `..` or holds a slash."""

OpenBeneath: TypeAlias = Callable[[int, Parts, int], int]
"""(root descriptor, parts, flags) → descriptor; `OSError` as from `os.open`. No parts: the root itself."""

DIRECTORY: Final = os.O_PATH | os.O_DIRECTORY
"""Flags for a directory that is only a starting point for others."""

_ALWAYS: Final = os.O_NOFOLLOW | os.O_CLOEXEC

_OPENAT2: Final = 437  # the same number on every architecture that Python runs on
_RESOLVE_NO_MAGICLINKS: Final = 0x02
_RESOLVE_NO_SYMLINKS: Final = 0x04
_RESOLVE_BENEATH: Final = 0x08
_HOW: Final = _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS | _RESOLVE_NO_SYMLINKS


def by_openat2(root: int, parts: Parts, flags: int) -> int:
    """A descriptor, in one system call: the kernel itself refuses to leave the root."""
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
    """The system call: a descriptor, or the error's number with a minus, as the kernel has it."""
    import ctypes  # noqa: PLC0415 - slow to load, and many a process opens no file here

    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    call.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t)

    def openat2(root: int, name: bytes, how: bytes) -> int:
        descriptor: int = call(_OPENAT2, root, name, how, len(how))
        return descriptor if descriptor >= 0 else -ctypes.get_errno()

    return openat2


def by_walk(root: int, parts: Parts, flags: int) -> int:
    """A descriptor, from directory to directory: each one is held open while the next is looked up in it."""
    if not parts:
        return os.open(b".", flags | _ALWAYS, dir_fd=root)
    *above, name = parts
    here = root
    try:
        for part in above:
            here = step(here, part, root)
        return os.open(name, flags | _ALWAYS, dir_fd=here)
    finally:
        if here != root:
            os.close(here)


def step(here: int, part: bytes, root: int) -> int:
    """The directory `part` in `here`, which is closed unless it is the root or the step fails."""
    there = os.open(part, DIRECTORY | _ALWAYS, dir_fd=here)
    if here != root:
        os.close(here)
    return there


def best_way(root: int) -> OpenBeneath:
    """openat2 where it works; old kernels do not know it, and some containers forbid it."""
    try:
        os.close(by_openat2(root, (), DIRECTORY))
    except OSError:
        return by_walk
    return by_openat2
