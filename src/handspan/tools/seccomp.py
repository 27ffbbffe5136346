"""The filter of system calls for the sandbox (seccomp): refuses new namespaces, mounts, keyrings, kernel programs.

bubblewrap itself can forbid new user namespaces only when it creates one. When bubblewrap runs as root, it creates none
(see `sandbox.py`).
"""

import errno
import struct
from typing import Final

from msgspec import Struct

_CLONE_NEWUSER: Final = 0x10000000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERROR, _KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER_AT, _MACHINE_AT, _FIRST_ARGUMENT_AT = 0, 4, 16
_X32_BIT: Final = 0x40000000


class _Machine(Struct, frozen=True):
    """The numbers of one processor type."""

    audit: int
    """The number of the processor type itself."""
    clone: int
    """The number of the system call `clone`."""
    refused: tuple[int, ...]
    """The numbers of the system calls that are refused."""


# The refused calls of each machine: unshare setns mount umount2 pivot_root add_key request_key keyctl perf_event_open
# bpf userfaultfd. On every machine the same: io_uring_setup open_tree move_mount fsopen fsmount mount_setattr.
_EVERYWHERE: Final = (425, 428, 429, 430, 432, 442)
_CLONE3: Final = 435
_MACHINES: Final = {
    "x86_64": _Machine(0xC000003E, 56, (272, 308, 165, 166, 155, 248, 249, 250, 298, 321, 323, *_EVERYWHERE)),
    "aarch64": _Machine(0xC00000B7, 220, (97, 268, 40, 39, 41, 217, 218, 219, 241, 280, 282, *_EVERYWHERE)),
}


def system_call_filter(machine: str) -> bytes | None:
    """Return the compiled filter for `bwrap --seccomp`, or None for a machine whose numbers are not known."""
    known = _MACHINES.get(machine)
    if known is None:
        return None
    refuse = (_RETURN, 0, 0, _ERROR | errno.EPERM)
    steps = [
        (_LOAD, 0, 0, _MACHINE_AT),
        (_EQUAL, 1, 0, known.audit),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD, 0, 0, _NUMBER_AT),
        (_AT_LEAST, 0, 1, _X32_BIT),
        refuse,
    ]
    for number in known.refused:
        steps += [(_EQUAL, 0, 1, number), refuse]
    steps += [
        # The flags of clone3 are in memory, which a filter can't read. C libraries fall back to clone.
        (_EQUAL, 0, 1, _CLONE3),
        (_RETURN, 0, 0, _ERROR | errno.ENOSYS),
        (_EQUAL, 0, 3, known.clone),
        (_LOAD, 0, 0, _FIRST_ARGUMENT_AT),
        (_ANY_BIT, 0, 1, _CLONE_NEWUSER),
        refuse,
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)
