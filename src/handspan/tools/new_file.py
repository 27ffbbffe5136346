"""A file that gets its name when it is complete: no list shows half a file, and what a kill leaves is removed."""

import contextlib
import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Iterator
from typing import Final

from handspan.core.context import Deadline
from handspan.core.errors import ToolError
from handspan.tools.paths import check_deadline, close_after, quote_path, wrong_kind_error

_TEMPORARY: Final = r"\.handspan-[0-9a-f]{16}"
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_WITHOUT_NAMELESS_FILES: Final = (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL)
_ABANDONED_AFTER: Final = 60.0
"""Seconds after which a temporary file belongs to no running write: each write has its deadline."""
_LONGEST_WAIT: Final = 10.0
"""Seconds that a write waits for a lock."""
_NEXT_TRY: Final = 0.005
"""Seconds between two tries for a lock that another process has: the system can't wait for a lock with a deadline."""

_LOST_GROUP: Final = (
    "The file belongs to a group that the gateway is not in, and a write would take it from that group; nothing was "
    "changed. Write to another file, or ask the person to change its permissions."
)


def hide_temporary(folder: int, name: str) -> bool:
    """Return whether a write is about to rename this file: no list shows it. Remove it if its process was killed."""
    if re.fullmatch(_TEMPORARY, name) is None:
        return False
    with contextlib.suppress(OSError):
        if os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime < time.time() - _ABANDONED_AFTER:
            os.unlink(name, dir_fd=folder)
    return True


class NewFile:
    """A new file in an open directory. Call `close` in any case: it removes a file that did not get its name."""

    def __init__(self, folder: int, mode: int) -> None:
        self._folder = folder
        self._temporary = b".handspan-" + os.urandom(8).hex().encode()
        self._is_named = False
        """Whether the file has its temporary name now."""
        self.descriptor = self._open(mode)

    def rename(self, name: bytes) -> None:
        """Give the file this name. It replaces another file of this name."""
        if not self._is_named:
            # Only a rename can replace another file in one step, and a rename needs a file with a name.
            os.link(f"/proc/self/fd/{self.descriptor}", self._temporary, dst_dir_fd=self._folder, follow_symlinks=True)
            self._is_named = True
        os.rename(self._temporary, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        self._is_named = False

    def close(self) -> None:
        """Close the file, and remove it if it did not get its name."""
        os.close(self.descriptor)
        if self._is_named:
            with contextlib.suppress(OSError):
                os.unlink(self._temporary, dir_fd=self._folder)

    def _open(self, mode: int) -> int:
        """Open a file without a name or, where the system has no such files, under a temporary one."""
        # Only Linux has files without a name, and /proc gives them one.
        if hasattr(os, "O_TMPFILE") and os.path.isdir("/proc/self/fd"):
            try:
                return os.open(b".", os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, mode, dir_fd=self._folder)
            except OSError as error:
                if error.errno not in _WITHOUT_NAMELESS_FILES:
                    raise
        descriptor = os.open(self._temporary, _CREATE, mode, dir_fd=self._folder)
        self._is_named = True
        return descriptor


@contextlib.contextmanager
def lock_folder(folder: int, path: str, deadline: Deadline | None) -> Iterator[None]:
    """Lock an open directory against writers in other processes. Raises `busy` when the lock is not free in time."""
    until = time.monotonic() + _LONGEST_WAIT
    while not _try_lock(folder):
        check_deadline(deadline)
        if time.monotonic() > until:
            text = f"Another program has locked the folder of {quote_path(path)}; nothing was changed. Try again."
            raise ToolError("busy", text)
        time.sleep(_NEXT_TRY)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            fcntl.flock(folder, fcntl.LOCK_UN)


def _try_lock(folder: int) -> bool:
    """Try to lock the folder. Return whether the write may go on: also on a file system without locks."""
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return not isinstance(error, BlockingIOError)
    return True


def check_replaceable(folder: int, name: bytes, path: str) -> os.stat_result | None:
    """Return the status of the file that will be replaced; None if there is none.

    Raises `ToolError` when it is not a regular file or is read-only.
    """
    try:
        old = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(old.st_mode):
        raise wrong_kind_error(path, old.st_mode)
    # Replacing a name needs no permission for the file, and root may do everything: respect "read-only" anyway.
    if not old.st_mode & 0o222 or not os.access(name, os.W_OK, dir_fd=folder):
        text = f"{quote_path(path)} is read-only; nothing was changed. Write to another file."
        raise ToolError("execution_failed", text)
    return old


def keep_owner(descriptor: int, old: os.stat_result) -> None:
    """Give the new file the owner and group of the old file. Raises `ToolError` when the group would lose its access.

    Only root can set the owner. Other users can set a group if they belong to it.
    """
    try:
        os.fchown(descriptor, old.st_uid, old.st_gid)
    except PermissionError:
        try:
            os.fchown(descriptor, -1, old.st_gid)
        except PermissionError:
            if old.st_mode >> 3 & ~old.st_mode & 0o7:  # the group may do what others may not
                raise ToolError("execution_failed", _LOST_GROUP) from None


def sync_folder(folder: int) -> None:
    """Sync the new name to the disk. Errors are ignored: some file systems can't sync a directory."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    with contextlib.suppress(OSError), close_after(os.open(b".", flags, dir_fd=folder)) as descriptor:
        os.fsync(descriptor)
