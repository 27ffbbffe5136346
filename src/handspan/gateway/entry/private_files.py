"""Small files that only their owner may read: tokens, and where the gateway is (SPEC S6)."""

import contextlib
import errno
import os
import secrets
import stat
from pathlib import Path
from typing import Final

_LARGEST: Final = 64 * 1024


def write_private(file: Path, data: bytes) -> None:
    """Put this there, mode 600: whoever looks sees the old content or the new one. `OSError` when it can't be."""
    fresh = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as content:
            content.write(data)
            content.flush()
            os.fsync(content.fileno())
        fresh.replace(file)
    except BaseException:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise


def read_private(file: Path) -> bytes | None:
    """What is there, closed to others if it was not; None where no such file is. `OSError` when it can't be read."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    try:
        kind = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(kind):
            raise OSError(errno.EINVAL, "it is not a regular file", str(file))
        if kind & 0o077:
            os.fchmod(descriptor, 0o600)
        return os.read(descriptor, _LARGEST)
    finally:
        os.close(descriptor)
