"""The workspace: opens all files of the tools, only below one root (SPEC S1).

Each path takes the same steps: its text becomes names without links (`paths.py`), the names become a descriptor below
the root (`directories.py`), and then the kind of file is checked. A write puts a new file under the name: a reader sees
the old content or the new content, never a mix, and a hard link to the old file keeps the old content.
"""

import contextlib
import errno
import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Final, Self

from msgspec import Struct

from handspan.core.context import Deadline
from handspan.core.errors import ConfigError, ToolError
from handspan.tools.directories import DIRECTORY, FolderMaker, Listing, OpenBeneath, choose_opener, list_children
from handspan.tools.git_files import is_in_repository
from handspan.tools.new_file import NewFile, check_replaceable, keep_owner, lock_folder, sync_folder
from handspan.tools.paths import (
    HiddenPaths,
    Parts,
    WorkspaceRoot,
    check_deadline,
    close_after,
    explain_refusal,
    identity,
    invalid_path,
    quote_path,
    too_large_error,
    wrong_kind_error,
)

REWRITE_LIMIT: Final = 64 * 1024 * 1024
"""The largest file, in bytes, that is copied to append to it."""

_CHUNK: Final = 1024 * 1024
# A pipe without a writer must not block, and a terminal must not become our controlling terminal.
_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
_LOCK_COUNT: Final = 64


class _FileState(Struct, frozen=True):
    """The state of a file at one moment. A different state later means that another program changed the file."""

    inode: int = 0
    size: int = 0
    changed: int = 0


_MISSING: Final = _FileState()


class OpenedFile:
    """A regular file, open for reading. `size` is its size at the moment of opening."""

    def __init__(self, descriptor: int, status: os.stat_result | None) -> None:
        """Without a status the file is missing: it has no content."""
        self._descriptor = descriptor
        self.state = _MISSING if status is None else _file_state(status)
        self.size = self.state.size

    def read(self, offset: int, length: int) -> bytes:
        """Return `length` bytes from `offset`, or fewer where the file ends."""
        return b"".join(self.chunks(offset, length))

    def chunks(self, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        """Yield the content in pieces: the whole, or so many bytes from `offset`."""
        length = self.size if length is None else length
        while length > 0 and (data := os.pread(self._descriptor, min(length, _CHUNK), offset)):
            yield data
            offset += len(data)
            length -= len(data)


class Workspace:
    """Reads and writes files below one root. Methods raise only `ToolError`. Threads may share a workspace."""

    def __init__(
        self,
        root: Path,
        hidden: Iterable[Path] = (),
        file_owner: tuple[int, int] | None = None,
        *,
        file_mode: int = 0o666,
        folder_mode: int = 0o777,
        opener: OpenBeneath | None = None,
    ) -> None:
        """`file_owner`: user and group id for new files and folders, when the gateway runs as root.

        The umask narrows the modes of new files. Without `opener`, the best way for this kernel is used.
        """
        self._root = WorkspaceRoot(root, self._read_link)
        self.path = self._root.path
        """The path of the root, without links."""
        self.hidden = HiddenPaths(self.path, hidden)
        """The paths that no tool may use."""
        if self.hidden.has_root:
            raise ConfigError(
                f"The workspace {str(root)!r} is also a directory that must stay hidden. Choose another one."
            )
        try:
            self._descriptor = os.open(self.path, DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise ConfigError(
                f"The workspace {str(root)!r} can't be used: {error.strerror}. Create it or choose another directory."
            ) from error
        self._identity = identity(os.fstat(self._descriptor))
        self._file_owner = file_owner
        self._file_mode = file_mode
        self._folder_mode = folder_mode
        self._given_opener = opener
        self._locks = tuple(threading.Lock() for _ in range(_LOCK_COUNT))

    @cached_property
    def _opener(self) -> OpenBeneath:
        """The way to open files. It is chosen at the first use."""
        return self._given_opener or choose_opener(self._descriptor)

    def close(self) -> None:
        """Close the root; later calls fail. The caller makes sure that no other call is running."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # For callers

    @contextlib.contextmanager
    def open_file(self, path: str) -> Iterator[OpenedFile]:
        """Open the file for reading, and close it after the block."""
        with self._explain_refusals(path), self._open_parts(path, self._locate(path)) as file:
            if _names_directory(path):
                raise NotADirectoryError(errno.ENOTDIR, "")
            yield file

    def write(self, path: str, data: bytes, deadline: Deadline | None = None) -> None:
        """Replace the whole content of the file. Create missing directories."""
        with self._lock_for_change(path, deadline) as parts:
            self._replace(path, parts, (data,), None, deadline=deadline)

    def check_writable(self, path: str) -> None:
        """Raise the error that `write` would raise for this path now. Change nothing."""
        with self._explain_refusals(path), contextlib.suppress(FileNotFoundError):
            parts = self._locate_for_change(path)
            with close_after(self._opener(self._descriptor, parts[:-1], DIRECTORY)) as folder:
                if not os.access(b".", os.W_OK | os.X_OK, dir_fd=folder):
                    raise PermissionError(errno.EACCES, "")
                check_replaceable(folder, parts[-1], path)

    def append(self, path: str, data: bytes, deadline: Deadline | None = None) -> None:
        """Add data to the end of the file, and create the file if it is missing.

        The file is replaced by a longer copy, so it must not be larger than `REWRITE_LIMIT`. O_APPEND could stop
        half-way, and would change the content under the other names of a hard link.
        """
        with self._open_to_change(path, deadline) as (parts, old):
            if old.size > REWRITE_LIMIT:
                raise too_large_error(path, old.size, REWRITE_LIMIT, "Write to a new file instead of appending.")
            self._replace(path, parts, chain(old.chunks(), (data,)), old.state, deadline=deadline)

    def edit(
        self,
        path: str,
        change: Callable[[bytes], bytes],
        limit: int,
        deadline: Deadline | None = None,
        *,
        creates: bool = False,
    ) -> None:
        """Replace the content by the result of `change`. Raises `file_too_large` above `limit` bytes.

        `creates`: a missing file counts as an empty one.
        """
        with self._open_to_change(path, deadline) as (parts, old):
            if old.state == _MISSING and not creates:
                raise FileNotFoundError(errno.ENOENT, "")
            if old.size > limit:
                raise too_large_error(path, old.size, limit, "Use another tool, such as exec_shell with sed.")
            self._replace(path, parts, (change(old.read(0, old.size)),), old.state, deadline=deadline)

    def entries(self, path: str, limit: int, deadline: Deadline | None = None) -> Listing:
        """Return the first `limit` children of the directory by name."""
        with self._explain_refusals(path), self.open_directory(path) as (descriptor, parts):
            return list_children(descriptor, parts, self.hidden, limit, deadline=deadline)

    @contextlib.contextmanager
    def open_directory(self, path: str) -> Iterator[tuple[int, Parts]]:
        """Open the directory for reading, and close it after the block. Yield its descriptor and its path's names."""
        with self._explain_refusals(path):
            parts = self._locate(path)
            descriptor = self._opener(self._descriptor, parts, _READ | os.O_DIRECTORY)
        with close_after(descriptor):
            yield descriptor, parts

    # From a path to an open file

    def _locate(self, path: str) -> Parts:
        """Return the names below the root for this path. Raises `invalid_path` if the path leads out or is hidden."""
        parts = self._root.resolve(path)
        if self.hidden and (self.hidden.has_name(parts) or self._is_hidden_by_identity(parts)):
            raise invalid_path(path, "belongs to the gateway itself and is out of reach. Use another one.")
        return parts

    def _locate_for_change(self, path: str) -> Parts:
        """Return the names below the root of a file that may be written. Raises `ToolError` for any other path."""
        parts = self._locate(path)
        if not parts or _names_directory(path):
            raise wrong_kind_error(path, stat.S_IFDIR)
        if is_in_repository(parts):
            raise invalid_path(path, "belongs to git, which runs programs that its files name. Use git in exec_shell.")
        return parts

    def _is_hidden_by_identity(self, parts: Parts) -> bool:
        """Whether this is another name of a hidden file: a hard link, a mount, or a file system's short name."""
        hidden = self.hidden.identities()
        for depth in range(1, len(parts) + 1):
            try:
                status = os.stat(b"/".join(parts[:depth]), dir_fd=self._descriptor, follow_symlinks=False)
            except OSError:
                return False
            if identity(status) in hidden:
                return True
        return False

    def _read_link(self, parts: Parts) -> bytes | None:
        """Return the target of the link, or None when this is not a link."""
        try:
            return os.readlink(b"/".join(parts), dir_fd=self._descriptor)
        except OSError:
            return None

    @contextlib.contextmanager
    def _open_parts(self, path: str, parts: Parts) -> Iterator[OpenedFile]:
        """Yield the file, open. Raises `ToolError` for what is no regular file."""
        descriptor = self._opener(self._descriptor, parts, _READ)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise wrong_kind_error(path, status.st_mode)
            yield OpenedFile(descriptor, status)
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def _lock_for_change(self, path: str, deadline: Deadline | None) -> Iterator[Parts]:
        """Yield the names of the file for this path. Other threads and processes can't write it during the block."""
        with self._explain_refusals(path):
            parts = self._locate_for_change(path)
            folder = parts[:-1]
            with self._locks[hash(folder) % _LOCK_COUNT]:
                descriptor = self._open_to_lock(folder)
                if descriptor is None:
                    yield parts
                    return
                with close_after(descriptor), lock_folder(descriptor, path, deadline):
                    yield parts

    def _open_to_lock(self, folder: Parts) -> int | None:
        """Open the directory, or the nearest directory above that exists. Return None when it can't be read."""
        for depth in range(len(folder), -1, -1):
            try:
                return self._opener(self._descriptor, folder[:depth], _READ | os.O_DIRECTORY)
            except FileNotFoundError:
                continue
            except OSError:
                break
        return None

    @contextlib.contextmanager
    def _open_to_change(self, path: str, deadline: Deadline | None) -> Iterator[tuple[Parts, OpenedFile]]:
        """Lock the file as `_lock_for_change` does, and open it; a missing file is open as an empty one."""
        with self._lock_for_change(path, deadline) as parts, contextlib.ExitStack() as stack:
            try:
                old = stack.enter_context(self._open_parts(path, parts))
            except FileNotFoundError:
                old = OpenedFile(-1, None)
            yield parts, old

    @contextlib.contextmanager
    def _explain_refusals(self, path: str) -> Iterator[None]:
        """Turn errors of the operating system in the block into `ToolError` with a text for the model."""
        try:
            yield
        except OSError as error:
            raise explain_refusal(error, path, root_exists=self._root_exists()) from error

    def _root_exists(self) -> bool:
        try:
            return self._descriptor >= 0 and identity(os.stat(self.path)) == self._identity
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:  # a folder above lost a permission, which our open descriptor does not need
            return True

    # Writing

    def _replace(
        self, path: str, parts: Parts, chunks: Iterable[bytes], expected: _FileState | None, deadline: Deadline | None
    ) -> None:
        """Put a new file under this name. Raises `ToolError` when the file is not in the state `expected` any more."""
        name = parts[-1]
        folders = FolderMaker(self._descriptor, self._opener, self._folder_mode, self._file_owner)
        with folders.open(parts[:-1]) as folder:
            old = check_replaceable(folder, name, path)
            mode = self._file_mode if old is None else old.st_mode & 0o777
            with contextlib.closing(NewFile(folder, mode)) as new:
                self._write_chunks(new.descriptor, chunks, old, deadline)
                if expected is not None and _state_at(folder, name) != expected:
                    raise ToolError(
                        "execution_failed",
                        f"{quote_path(path)} was changed by another program meanwhile; nothing was written. Try again.",
                    )
                new.rename(name)
            sync_folder(folder)

    def _write_chunks(
        self, descriptor: int, chunks: Iterable[bytes], old: os.stat_result | None, deadline: Deadline | None
    ) -> None:
        """Write all chunks to the disk. The new file gets the owner and the mode of the file that it replaces."""
        with open(descriptor, "wb", closefd=False) as file:
            for chunk in chunks:
                check_deadline(deadline)
                file.write(chunk)
            file.flush()
            if old is None and self._file_owner is not None:
                os.fchown(descriptor, *self._file_owner)
            if old is not None:
                keep_owner(descriptor, old)
                os.fchmod(descriptor, old.st_mode & 0o777)
            os.fsync(descriptor)
        check_deadline(deadline)


def _names_directory(path: str) -> bool:
    """Whether the path can only mean a directory: it ends with a slash, or with dots after a slash."""
    return path.endswith(("/", "/.", "/.."))


def _state_at(folder: int, name: bytes) -> _FileState:
    try:
        return _file_state(os.stat(name, dir_fd=folder, follow_symlinks=False))
    except FileNotFoundError:
        return _MISSING


def _file_state(status: os.stat_result) -> _FileState:
    return _FileState(status.st_ino, status.st_size, status.st_mtime_ns)
