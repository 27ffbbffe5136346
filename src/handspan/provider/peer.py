"""The process at the other end of a Unix socket, as the kernel knows it (cetp.md 6.9)."""

import os
import re
import socket
import struct
import sys
from itertools import pairwise
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct

_LOCAL_PEERCRED: Final = 1
_LOCAL_PEERPID: Final = 2
_XUCRED: Final = struct.Struct("=IIh2x16I")
_UCRED: Final = struct.Struct("=iII")
_INTERPRETER: Final = re.compile(r"(python|pypy|node|deno|bun|ruby|perl|(ba|da|z)?sh)[\d.]*")
_WITH_VALUE: Final = ("-X", "-W", "-r")
"""Options of interpreters whose value is the next argument."""


class PeerCredentials(Struct, frozen=True):
    """The credentials of a process."""

    uid: int
    gid: int
    pid: int
    """0: the system does not say."""


class Consumer(Struct, frozen=True):
    """The program that calls a provider. `program` tells programs apart; a hostile program can lie (cetp.md 5.1)."""

    uid: int
    pid: int = 0
    program: str = ""
    """The path of the program, or of the script that an interpreter runs. Empty: the system does not say."""
    is_coarse: bool = False
    """Whether this consumer gets coarser data."""

    @property
    def name(self) -> str:
        """The name of the program, without folders."""
        return Path(self.program).name or f"uid {self.uid}"


class CredentialSocket(Protocol):
    """What is needed of a connected Unix socket."""

    def getsockopt(self, level: int, option: int, size: int, /) -> bytes: ...


def peer_of(connected: CredentialSocket) -> PeerCredentials:
    """Return the process at the other end. Raises `OSError` when the system does not say."""
    if sys.platform == "darwin":
        _, uid, _, gid, *_ = _XUCRED.unpack(connected.getsockopt(0, _LOCAL_PEERCRED, _XUCRED.size))
        pid = int.from_bytes(connected.getsockopt(0, _LOCAL_PEERPID, 4), sys.byteorder)
        return PeerCredentials(uid, gid, pid)
    pid, uid, gid = _UCRED.unpack(connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    return PeerCredentials(uid, gid, pid)


def identify(connected: CredentialSocket) -> Consumer:
    """Return the program at the other end, read once when it connects: later its process id may be another's."""
    peer = peer_of(connected)
    return Consumer(peer.uid, peer.pid, _program(peer.pid) if peer.pid else "")


def _program(pid: int) -> str:
    """Return the path of the program; of an interpreter, the script or the module that it runs."""
    try:
        executable = os.readlink(f"/proc/{pid}/exe")
        if not _INTERPRETER.fullmatch(Path(executable).name):
            return executable
        argv = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        return _script(argv[1:], os.readlink(f"/proc/{pid}/cwd")) or executable
    except OSError:  # macOS has no /proc; a process of another user, or one that has ended, shows nothing
        return ""


def _script(arguments: list[str], folder: str) -> str:
    """Return the first argument that is no option, as a path; `-m name` is the name. Empty: there is none."""
    for before, argument in pairwise(("", *arguments)):
        if before == "-m":
            return argument
        if argument in ("", "-c", "-e"):
            return ""
        if not argument.startswith("-") and before not in _WITH_VALUE:
            return os.path.normpath(os.path.join(folder, argument))
    return ""
