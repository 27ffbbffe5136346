"""A file that its owner alone can read, and that begins anew when it is full."""

import errno
import os
from pathlib import Path


class RotatedFile:
    """A file that its owner alone can read (mode 600); when it is full, a new one begins.

    Several processes may write it: the lines of one `add` are one write at the end of the file, and each `add` opens
    the file again. Two processes that begin a new file at the same moment may shorten the history by one file.
    """

    def __init__(self, path: Path, max_bytes: int, backups: int) -> None:
        """A full file becomes `PATH.1`. `backups`: how many full files are kept."""
        self._path = path
        self._max_bytes = max_bytes
        self._backups = backups

    def add(self, lines: bytes) -> None:
        """Write these lines. Raises `OSError`."""
        descriptor = self._open()
        try:
            size = os.fstat(descriptor).st_size
            if size and size + len(lines) > self._max_bytes:
                self._rotate()
                os.close(descriptor)
                descriptor = self._open()
            if os.write(descriptor, lines) != len(lines):
                text = "only a part of the lines was written: make room on the disk"
                raise OSError(errno.ENOSPC, text, str(self._path))
        finally:
            os.close(descriptor)

    def _open(self) -> int:
        """Open the file to append to it. Make it, and its folder, if it is missing."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            descriptor = os.open(self._path, flags, 0o600)
        except FileNotFoundError:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(self._path, flags, 0o600)
        if os.fstat(descriptor).st_mode & 0o077:  # an older file with a wider mode
            os.fchmod(descriptor, 0o600)
        return descriptor

    def _rotate(self) -> None:
        names = [self._path, *(Path(f"{self._path}.{number}") for number in range(1, self._backups + 1))]
        for older, newer in reversed(list(zip(names[1:], names, strict=False))):
            if newer.exists():
                newer.replace(older)
