"""Which processes are alive: each holds a lock on a file of its own, and the system lets go of it however one ends.

Two programs may use one state folder at once. What one of them works on is not half done for the other (SPEC A2).
"""

import contextlib
import fcntl
import os
from pathlib import Path


class Runs:
    """This process's run, and whether others are still there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock: int | None = None
        self.own = os.urandom(8).hex()
        """The name of this run, in every row that this process works on."""

    def open(self) -> None:
        """Be seen as alive. `OSError` when the folder can't be used."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._folder.chmod(0o700)
        fresh = self._folder / f".{self.own}"
        self._lock = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fresh.rename(self._folder / self.own)  # now that it is locked: whoever sees it sees it locked

    def close(self) -> None:
        """Be gone. What this run left open may now be closed by others."""
        if self._lock is not None:
            with contextlib.suppress(OSError):
                (self._folder / self.own).unlink()
            os.close(self._lock)
            self._lock = None

    def is_alive(self, run: str | None) -> bool:
        """Whether the process of this run is still there."""
        if run is None:
            return False
        if run == self.own and self._lock is not None:
            return True
        try:
            lock = os.open(self._folder / run, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: two who look at once do not mistake each other
        except BlockingIOError:
            return True
        finally:
            os.close(lock)
        return False

    def sweep(self) -> None:
        """Remove the files of those that are gone."""
        for name in os.listdir(self._folder):
            if not name.startswith(".") and not self.is_alive(name):
                with contextlib.suppress(OSError):
                    (self._folder / name).unlink()
