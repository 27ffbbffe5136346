"""The one place where files are opened: below one root, whatever a path says and who swaps what (SPEC S1).

A path goes one way: text → parts without links (`paths.py`) → a descriptor below the root (`beneath.py`) → what it
turns out to be. Writes replace the name: old content or new, never a mix, and a hard link elsewhere keeps the old one.
"""

import contextlib
import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from msgspec import Struct

from handspan.core.context import Deadline
from handspan.core.errors import ConfigError, ToolError
from handspan.tools.beneath import DIRECTORY, OpenBeneath, Parts, best_way, step
from handspan.tools.listings import Listing, list_children
from handspan.tools.paths import Hidden, WorkspaceRoot, identity, invalid, shown
from handspan.tools.refusals import refusal, stop_if_late, too_large, wrong_kind

REWRITE_LIMIT: Final = 64 * 1024 * 1024
"""Bytes of a file that is still copied to append to it."""

_CHUNK: Final = 1024 * 1024
# A pipe without a writer must not block, a terminal must not become ours.
_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_TURNS: Final = 64


class _Seen(Struct, frozen=True):
    """What a name led to at one moment, to notice that somebody else changed it."""

    inode: int = 0
    size: int = 0
    changed: int = 0


_MISSING: Final = _Seen()


class OpenedFile:
    """A regular file, open for reading. Its size is the one it had when it was opened."""

    def __init__(self, descriptor: int, there: os.stat_result) -> None:
        self._descriptor = descriptor
        self.size = there.st_size
        self.seen = _seen(there)

    def part(self, offset: int, length: int) -> bytes:
        """Up to `length` bytes from `offset`; fewer only where the file ends."""
        return b"".join(self._chunks(offset, length))

    def chunks(self) -> Iterator[bytes]:
        """All of it, piece by piece."""
        return self._chunks(0, self.size)

    def _chunks(self, offset: int, length: int) -> Iterator[bytes]:
        while length > 0 and (data := os.pread(self._descriptor, min(length, _CHUNK), offset)):
            yield data
            offset += len(data)
            length -= len(data)


class Workspace:
    """Files below one root, and nothing else. Methods raise `ToolError` only. Safe for several threads."""

    def __init__(
        self,
        root: Path,
        hidden: Iterable[Path] = (),
        file_owner: tuple[int, int] | None = None,
        *,
        file_mode: int = 0o666,
        folder_mode: int = 0o777,
        way: OpenBeneath | None = None,
    ) -> None:
        """`file_owner`: whose new files and folders are (user and group id), when the gateway runs as root.

        The modes of new ones are narrowed by the umask. `way` is found out unless given.
        """
        self._root = WorkspaceRoot(root, self._link_at)
        self._hidden = Hidden(self.path, hidden)
        if self._hidden.holds_root:
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
        self._given_way = way
        self._turns = tuple(threading.Lock() for _ in range(_TURNS))

    @cached_property
    def _way(self) -> OpenBeneath:
        """Found out when something is opened for the first time."""
        return self._given_way or best_way(self._descriptor)

    @property
    def path(self) -> Path:
        """Where the root lies, without links."""
        return self._root.path

    def close(self) -> None:
        """Give the root back; later calls fail. Call it when no other call is running."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # What callers do

    @contextlib.contextmanager
    def reading(self, path: str) -> Iterator[OpenedFile]:
        """The file, open for reading."""
        with self._explained(path), self._opened(path, self._locate(path)) as file:
            yield file

    def write(self, path: str, data: bytes, until: Deadline | None = None) -> None:
        """Make this the file's whole content. Directories on the way are created."""
        with self._changing(path) as parts:
            self._replace(path, parts, (data,), None, until)

    def append(self, path: str, data: bytes, until: Deadline | None = None) -> None:
        """Add this to the end of the file, which is created if need be.

        Also by replacing: O_APPEND could stop half-way, and would change a hard link's other name. The price is a
        copy, hence a limit.
        """
        with self._changing(path) as parts, contextlib.ExitStack() as stack:
            try:
                old = stack.enter_context(self._opened(path, parts))
            except FileNotFoundError:
                self._replace(path, parts, (data,), _MISSING, until)
                return
            if old.size > REWRITE_LIMIT:
                raise too_large(path, old.size, REWRITE_LIMIT, "Write to a new file instead of appending.")
            self._replace(path, parts, chain(old.chunks(), (data,)), old.seen, until)

    def edit(self, path: str, change: Callable[[bytes], bytes], limit: int, until: Deadline | None = None) -> None:
        """Replace the content by what `change` makes of it; a file of more than `limit` bytes is refused."""
        with self._changing(path) as parts, self._opened(path, parts) as old:
            if old.size > limit:
                raise too_large(path, old.size, limit, "Use another tool, such as exec_shell with sed.")
            self._replace(path, parts, (change(old.part(0, old.size)),), old.seen, until)

    def entries(self, path: str, limit: int, until: Deadline | None = None) -> Listing:
        """The directory's children, the first `limit` by name."""
        with self._explained(path):
            parts = self._locate(path)
            descriptor = self._way(self._descriptor, parts, _READ | os.O_DIRECTORY)
            try:
                return list_children(descriptor, parts, self._hidden, limit, until)
            finally:
                os.close(descriptor)

    # From a path to something open

    def _locate(self, path: str) -> Parts:
        """The parts that this path means; `invalid_path` for what lies outside or is hidden."""
        parts = self._root.parts_of(path)
        if self._hidden and (self._hidden.has_name(parts) or self._is_hidden_by_identity(parts)):
            raise invalid(path, "belongs to the gateway itself and is out of reach. Use another one.")
        return parts

    def _is_hidden_by_identity(self, parts: Parts) -> bool:
        """Another name for a hidden thing: a hard link, a mount, a short name on a foreign file system."""
        hidden = self._hidden.identities()
        for depth in range(1, len(parts) + 1):
            try:
                there = os.stat(b"/".join(parts[:depth]), dir_fd=self._descriptor, follow_symlinks=False)
            except OSError:
                return False
            if identity(there) in hidden:
                return True
        return False

    def _link_at(self, parts: Parts) -> bytes | None:
        """Where the link leads that lies there; None when there is none."""
        try:
            return os.readlink(b"/".join(parts), dir_fd=self._descriptor)
        except OSError:
            return None

    @contextlib.contextmanager
    def _opened(self, path: str, parts: Parts) -> Iterator[OpenedFile]:
        descriptor = self._way(self._descriptor, parts, _READ)
        try:
            there = os.fstat(descriptor)
            if not stat.S_ISREG(there.st_mode):
                raise wrong_kind(path, there.st_mode)
            yield OpenedFile(descriptor, there)
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def _changing(self, path: str) -> Iterator[Parts]:
        """The parts of a file that this thread alone may change now."""
        with self._explained(path):
            parts = self._locate(path)
            if not parts or path.endswith("/"):
                raise wrong_kind(path, stat.S_IFDIR)
            with self._turns[hash(parts) % _TURNS]:
                yield parts

    @contextlib.contextmanager
    def _explained(self, path: str) -> Iterator[None]:
        """What the operating system refuses, in words for a model."""
        try:
            yield
        except OSError as error:
            raise refusal(error, path, root_is_there=self._is_there()) from error

    def _is_there(self) -> bool:
        try:
            return self._descriptor >= 0 and identity(os.stat(self.path)) == self._identity
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:  # on the way to it somebody lost a right, which the descriptor does not need
            return True

    # Writing

    def _replace(
        self, path: str, parts: Parts, chunks: Iterable[bytes], expected: _Seen | None, until: Deadline | None
    ) -> None:
        """Put a new file under this name. With `expected`, only if the name still leads to that."""
        name = parts[-1]
        with self._folder(parts[:-1]) as folder:
            old = _replaceable(folder, name, path)
            temporary = b".handspan-" + os.urandom(8).hex().encode()
            mode = self._file_mode if old is None else old.st_mode & 0o777
            descriptor = os.open(temporary, _CREATE, mode, dir_fd=folder)
            try:
                self._fill(descriptor, chunks, old, until)
                if expected is not None and _seen_at(folder, name) != expected:
                    raise ToolError(
                        "execution_failed",
                        f"{shown(path)} was changed by somebody else meanwhile; nothing was written. Try again.",
                    )
                os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
                raise
            _sync(folder)

    def _fill(
        self, descriptor: int, chunks: Iterable[bytes], old: os.stat_result | None, until: Deadline | None
    ) -> None:
        """Write it all, to the disk, with the owner and the mode of what it replaces."""
        with open(descriptor, "wb") as file:
            for chunk in chunks:
                stop_if_late(until)
                file.write(chunk)
            file.flush()
            if old is None and self._file_owner is not None:
                os.fchown(descriptor, *self._file_owner)
            if old is not None:
                with contextlib.suppress(PermissionError):  # only root can give a file back to its owner
                    os.fchown(descriptor, old.st_uid, old.st_gid)
                os.fchmod(descriptor, old.st_mode & 0o777)
            os.fsync(descriptor)
        stop_if_late(until)

    @contextlib.contextmanager
    def _folder(self, parts: Parts) -> Iterator[int]:
        """The directory, created if need be, and removed again if the block fails."""
        made: list[Parts] = []
        try:
            try:
                descriptor = self._way(self._descriptor, parts, DIRECTORY)
            except FileNotFoundError:
                descriptor = self._make_folders(parts, made)
            try:
                yield descriptor
            finally:
                os.close(descriptor)
        except BaseException:
            self._remove_folders(made)
            raise

    def _make_folders(self, parts: Parts, made: list[Parts]) -> int:
        here = top = self._way(self._descriptor, (), DIRECTORY)
        try:
            for depth, part in enumerate(parts):
                with contextlib.suppress(FileExistsError):
                    self._make_folder(here, part)
                    made.append(parts[: depth + 1])
                here = step(here, part, top)
            return os.dup(here)
        finally:
            for descriptor in {here, top}:
                os.close(descriptor)

    def _remove_folders(self, made: list[Parts]) -> None:
        """Remove those that are still empty, the deepest first."""
        with contextlib.suppress(OSError):
            for *above, name in reversed(made):
                folder = self._way(self._descriptor, tuple(above), DIRECTORY)
                try:
                    os.rmdir(name, dir_fd=folder)
                finally:
                    os.close(folder)

    def _make_folder(self, here: int, name: bytes) -> None:
        os.mkdir(name, self._folder_mode, dir_fd=here)
        if self._file_owner is None:
            return
        made = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
        try:
            if not os.listdir(made):  # one with content was put in its place meanwhile: not ours to give away
                os.fchown(made, *self._file_owner)
        finally:
            os.close(made)


def _replaceable(folder: int, name: bytes, path: str) -> os.stat_result | None:
    """What lies under the name that is about to be replaced: nothing, or a file that may be written."""
    try:
        old = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(old.st_mode):
        raise wrong_kind(path, old.st_mode)
    # Replacing needs no right to the file itself, and root has every right: "read-only" is still meant.
    if not old.st_mode & 0o222 or not os.access(name, os.W_OK, dir_fd=folder):
        raise ToolError("execution_failed", f"{shown(path)} is read-only; nothing was changed. Write to another file.")
    return old


def _seen_at(folder: int, name: bytes) -> _Seen:
    try:
        return _seen(os.stat(name, dir_fd=folder, follow_symlinks=False))
    except FileNotFoundError:
        return _MISSING


def _seen(there: os.stat_result) -> _Seen:
    return _Seen(there.st_ino, there.st_size, there.st_mtime_ns)


def _sync(folder: int) -> None:
    """Bring the new name to the disk. It is in place already, and some file systems can't sync a directory."""
    with contextlib.suppress(OSError):
        descriptor = os.open(b".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
