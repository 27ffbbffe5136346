"""The socket of a provider as a file: made for one process at a time, private, and removed at the end (cetp.md 6.4)."""

import contextlib
import fcntl
import os
import socket
import stat
from pathlib import Path

from handspan.core.errors import HandspanError


class AlreadyServed(HandspanError):
    """Another process serves this socket."""


class ListeningSocket:
    """A Unix socket that listens while it is open. A lock beside it says which process has it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock: int | None = None
        self._inode = 0
        """The socket's file that this process made: `close` removes no other."""
        self.listener: socket.socket | None = None

    @property
    def is_open(self) -> bool:
        """Whether this process listens."""
        return self._lock is not None

    def open(self) -> None:
        """Listen. A socket that a dead process left is replaced. Raises `AlreadyServed` and `OSError`."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise AlreadyServed(f"Another process serves {str(self._path)!r}.") from None
        try:
            self._bind()
        except BaseException:
            os.close(lock)
            raise
        self._lock = lock

    def close(self) -> None:
        """Stop listening, and let another process have the socket."""
        if self._lock is None:
            return
        with contextlib.suppress(OSError):
            if self._path.lstat().st_ino == self._inode:
                self._path.unlink()
        os.close(self._lock)
        self._lock = None

    def _bind(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISSOCK(self._path.lstat().st_mode):
                self._path.unlink()
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            os.fchmod(made.fileno(), 0o600)  # on Linux the file gets the mode of the descriptor
            made.bind(os.fspath(self._path))
            self._path.chmod(0o600)
            made.listen(64)
        except BaseException:
            made.close()
            raise
        self._inode = self._path.lstat().st_ino
        self.listener = made
