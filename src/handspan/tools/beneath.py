"""Opening a name below a directory so that nothing on the way can lead out, whatever is swapped meanwhile (SPEC S1).

Two ways with the same promise: one system call where the kernel has it, a walk from directory to directory elsewhere.
Both refuse every link: links were followed before, in text (`paths.py`), so one that is met here is a race.
"""

import ctypes
import errno
import os
from collections.abc import Callable
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


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_syscall: Final = ctypes.CDLL(None, use_errno=True).syscall
_syscall.restype = ctypes.c_long
_syscall.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(_OpenHow), ctypes.c_size_t)


def by_openat2(root: int, parts: Parts, flags: int) -> int:
    """A descriptor, in one system call: the kernel itself refuses to leave the root."""
    how = _OpenHow(flags | _ALWAYS, 0, _HOW)
    name = b"/".join(parts) or b"."
    while True:
        descriptor: int = _syscall(_OPENAT2, root, name, ctypes.byref(how), ctypes.sizeof(how))
        if descriptor >= 0:
            return descriptor
        code = ctypes.get_errno()
        if code != errno.EINTR:
            raise OSError(code, os.strerror(code))


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
