"""Which processes are alive. Each process locks a file of its own, and the kernel releases the lock when it ends.

The lock stays while the process sleeps or is stopped. So two programs can use one state folder: the open work of one
does not look abandoned to the other (SPEC A2).
"""

import contextlib
import fcntl
import os
from pathlib import Path

from handspan.config.private_files import is_locked
from handspan.core.errors import StoreError


class FileLeases:
    """A lease is a locked file in this folder. Implements `Leases`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock: int | None = None
        self.own = os.urandom(16).hex()
        """The name of this process's lease. Each row of its open work has this name in the column `run`."""
        self.shares_turns = False

    async def take(self) -> None:
        """Lock a file of this process. Raises `StoreError` when the folder can't be used."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._folder.chmod(0o700)
            fresh = self._folder / f".{self.own}"
            self._lock = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fresh.rename(self._folder / self.own)  # only now: other processes never see the file without its lock
        except OSError as error:
            raise StoreError(f"The folder {error.filename!r} can't be used: {error.strerror}.") from None

    async def renew(self) -> None:
        """Do nothing: the kernel holds the lock as long as the process lives."""

    async def release(self) -> None:
        if self._lock is not None:
            with contextlib.suppress(OSError):
                (self._folder / self.own).unlink()
            os.close(self._lock)
            self._lock = None

    async def is_alive(self, holder: str) -> bool:
        return self._is_alive(holder)

    async def sweep(self) -> None:
        for name in os.listdir(self._folder):
            if not name.startswith(".") and not self._is_alive(name):
                with contextlib.suppress(OSError):
                    (self._folder / name).unlink()

    def _is_alive(self, holder: str) -> bool:
        """Whether a process holds the lock of this file."""
        return (holder == self.own and self._lock is not None) or is_locked(self._folder / holder)
