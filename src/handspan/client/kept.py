"""The small file in which a client keeps what has to outlive it: `state=` (ws.md 6.4)."""

import fcntl
import os
import threading
from pathlib import Path

from handspan.client.memory import CallMemory
from handspan.core.errors import ConfigError, WireError


class Kept:
    """One file, written whole and in place at once, readable by its owner alone, used by one process at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = -1
        self._writing = threading.Lock()
        self._written = -1

    def open(self, now: float) -> CallMemory:
        """What an earlier life kept, or nothing; `ConfigError` when somebody else uses the file or it is broken."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = os.open(self._path.with_name(f"{self._path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return CallMemory.decode(self._path.read_bytes(), now)
        except FileNotFoundError:
            return CallMemory()
        except BlockingIOError:
            self.close()
            raise ConfigError(
                f"{str(self._path)!r} is used by another client that runs: give this one a `state` file of its own"
            ) from None
        except WireError as error:
            self.close()
            raise ConfigError(f"{str(self._path)!r} can't be used. {error} Remove it to begin anew") from None

    def write(self, version: int, data: bytes, is_synced: bool) -> None:
        """Replace the file, unless a newer version is there. With `is_synced` it is on the disk when this returns."""
        with self._writing:
            if version >= self._written:
                self._replace(data, is_synced)
                self._written = version

    def close(self) -> None:
        """Let another process have it."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _replace(self, data: bytes, is_synced: bool) -> None:
        fresh = self._path.with_name(f"{self._path.name}.new")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(data)
            if is_synced:
                file.flush()
                os.fsync(descriptor)
        os.replace(fresh, self._path)
        if is_synced:
            self._sync_folder()

    def _sync_folder(self) -> None:
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
