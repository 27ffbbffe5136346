"""Files and folders that only their owner may read: state, tokens, the gateway's address (SPEC S6)."""

import contextlib
import errno
import os
import secrets
import stat
from pathlib import Path
from typing import Final

_LARGEST: Final = 16 * 1024 * 1024
"""The most bytes of such a file: a larger one is no file of ours."""


def make_private(folder: Path) -> None:
    """Make this folder with mode 700; an existing one gets that mode. Raises `OSError`."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if folder.stat().st_mode & 0o077:  # another program made it, or a person with a wider mode
        folder.chmod(0o700)


def read_private(path: Path) -> bytes | None:
    """Return the content of the file, or None if it does not exist. Give the file mode 600. Raises `OSError`."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    try:
        kind = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(kind):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        if kind & 0o077:
            os.fchmod(descriptor, 0o600)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise OSError(errno.EFBIG, f"it has more than {_LARGEST} bytes", str(path))
        return data
    finally:
        os.close(descriptor)


def write_private(path: Path, data: bytes, *, is_synced: bool = False) -> None:
    """Write the file. With `is_synced` it is on the disk when this returns."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.write(data)
        if is_synced:
            file.flush()
            os.fsync(file.fileno())


def replace_private(path: Path, data: bytes) -> None:
    """Replace the file: a reader finds the old or the new content, never a part. Raises `OSError`."""
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        write_private(fresh, data, is_synced=True)
        fresh.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise


def sync_folder(folder: Path) -> None:
    """Write the names in this folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock of this file, which ends with the process; False if the file is not there."""
    import fcntl  # noqa: PLC0415 - Windows has none, and is told so before

    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        # A shared lock: two processes that look at the same time do not see each other's lock.
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False
