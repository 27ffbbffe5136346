"""All files below a folder of the workspace, folder by folder. Links are not followed, ignored files are left out."""

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from operator import attrgetter
from typing import Final, TypeVar

from msgspec import Struct

from handspan.core.context import Deadline
from handspan.core.errors import ToolError
from handspan.tools.new_file import hide_temporary
from handspan.tools.paths import HiddenPaths, Parts
from handspan.tools.search.ignored import MAX_BYTES, RULES_FILE, IgnoreRules
from handspan.tools.workspace import Workspace

_MAX_AT_ONCE: Final = 4
_DEEPEST: Final = 100
_BEFORE_DEADLINE: Final = 0.5
"""Seconds before the deadline at which a walk ends, so that the tool can still answer with what was found."""
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_REPOSITORY: Final = ".git"
_T = TypeVar("_T")


class StopSign:
    """Tells a walk to end: the caller was cancelled, or its time is nearly over."""

    def __init__(self, deadline: Deadline | None = None) -> None:
        self._until = None if deadline is None else deadline.at - _BEFORE_DEADLINE
        self._is_cancelled = threading.Event()
        self.is_late = False
        """Whether the time was over before the end of the walk."""

    def cancel(self) -> None:
        """Stop the walk, from any thread."""
        self._is_cancelled.set()

    def __bool__(self) -> bool:
        """Whether to stop now."""
        if self._until is not None and time.monotonic() > self._until:
            self.is_late = True
        return self.is_late or self._is_cancelled.is_set()


class BackgroundWork:
    """Runs a few walks at once, on threads of its own: other tools do not wait for them."""

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(_MAX_AT_ONCE, thread_name_prefix="handspan-search")

    async def run(self, work: Callable[[], _T], stop: StopSign) -> _T:
        """Return what the work returns. A cancelled caller stops the work."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            stop.cancel()


class WalkedFolder(Struct, frozen=True, gc=False):
    """One folder of a walk, open while it is visited."""

    descriptor: int
    path: str
    """The folder's path below the workspace with a `/` at its end; empty for the workspace itself."""
    names: list[str]
    """The files in the folder that are neither ignored nor hidden, sorted."""

    def read(self, name: str, max_bytes: int) -> bytes:
        """Return the content of a file. Of a file above `max_bytes`, return a part with more bytes than that.

        Raises `OSError`.
        """
        descriptor = os.open(name, _FILE, dir_fd=self.descriptor)
        try:
            data = os.read(descriptor, _FIRST_READ)
            if len(data) < _FIRST_READ:
                return data
            pieces, size = [data], len(data)
            while size <= max_bytes and (data := os.read(descriptor, _NEXT_READ)):
                pieces.append(data)
                size += len(data)
            return b"".join(pieces)
        finally:
            os.close(descriptor)


_FIRST_READ: Final = 64 * 1024
_NEXT_READ: Final = 1024 * 1024


class Walk:
    """Walks through the folders below one path of a workspace."""

    def __init__(self, workspace: Workspace, path: str, stop: StopSign, *, with_ignored: bool = False) -> None:
        self._workspace = workspace
        self._path = path
        self._stop = stop
        self._with_ignored = with_ignored
        self._hidden: HiddenPaths = workspace.hidden
        self._hidden_inodes = {inode for _, inode in self._hidden.identities()}
        self.is_cut = False
        """Whether folders that lie too deep were left out."""

    def folders(self) -> Iterator[WalkedFolder]:
        """Yield each folder. Raises `ToolError` when the path is not a folder of the workspace."""
        with self._workspace.open_directory(self._path) as (descriptor, parts):
            prefix = "".join(f"{os.fsdecode(part)}/" for part in parts)
            yield from self._walk(descriptor, parts, prefix, self._rules_above(parts))

    def _walk(
        self, descriptor: int, parts: Parts, path: str, rules: tuple[tuple[int, IgnoreRules], ...]
    ) -> Iterator[WalkedFolder]:
        """Yield this folder and all below it. `rules`: each with the length of its folder's path, the nearest first."""
        if self._stop:
            return
        with os.scandir(descriptor) as found:
            entries = sorted(found, key=attrgetter("name"))
        rules = self._with_own_rules(descriptor, path, rules, entries)
        names: list[str] = []
        folders: list[str] = []
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            if not is_folder and not entry.is_file(follow_symlinks=False):
                continue
            name = entry.name
            if hide_temporary(descriptor, name):
                continue
            if (rules and _is_ignored(rules, name, path, is_folder=is_folder)) or self._is_out_of_reach(entry, parts):
                continue
            (folders if is_folder else names).append(name)
        yield WalkedFolder(descriptor, path, names)
        if len(parts) >= _DEEPEST:
            self.is_cut = self.is_cut or bool(folders)
            return
        for name in folders:
            if name == _REPOSITORY and not self._with_ignored:
                continue
            try:
                child = os.open(name, _FOLDER, dir_fd=descriptor)
            except OSError:  # removed meanwhile, or not ours to read
                continue
            try:
                yield from self._walk(child, (*parts, os.fsencode(name)), f"{path}{name}/", rules)
            finally:
                os.close(child)

    def _is_out_of_reach(self, entry: "os.DirEntry[str]", parts: Parts) -> bool:
        if not self._hidden:
            return False
        return entry.inode() in self._hidden_inodes or self._hidden.has_name((*parts, os.fsencode(entry.name)))

    def _with_own_rules(
        self, descriptor: int, path: str, rules: tuple[tuple[int, IgnoreRules], ...], entries: "list[os.DirEntry[str]]"
    ) -> tuple[tuple[int, IgnoreRules], ...]:
        """Return the rules of this folder, then the rules above it: the nearest file decides first."""
        if self._with_ignored or not any(entry.name == RULES_FILE for entry in entries):
            return rules
        try:
            text = WalkedFolder(descriptor, path, []).read(RULES_FILE, MAX_BYTES)[:MAX_BYTES]
        except OSError:
            return rules
        return ((len(path), IgnoreRules(text.decode("utf-8", "surrogateescape"))), *rules)

    def _rules_above(self, parts: Parts) -> tuple[tuple[int, IgnoreRules], ...]:
        """Return the rules of the folders above, up to the workspace, the nearest first."""
        rules: tuple[tuple[int, IgnoreRules], ...] = ()
        for depth in range(len(parts)) if not self._with_ignored else ():
            folder = "".join(f"{os.fsdecode(part)}/" for part in parts[:depth])
            try:
                with self._workspace.open_file(f"{folder}{RULES_FILE}") as file:
                    text = file.read(0, MAX_BYTES)
            except (ToolError, UnicodeEncodeError):
                continue
            rules = ((len(folder), IgnoreRules(text.decode("utf-8", "surrogateescape"))), *rules)
        return rules


def _is_ignored(rules: tuple[tuple[int, IgnoreRules], ...], name: str, path: str, *, is_folder: bool) -> bool:
    for begin, own in rules:
        verdict = own.judge(name, path[begin:] + name, is_folder=is_folder)
        if verdict is not None:
            return verdict
    return False


def show_path(path: str) -> str:
    """Return the path as one line of valid text: line breaks and bytes that are not UTF-8 are written with `\\`."""
    if path.isascii() and path.isprintable():
        return path
    valid = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return valid.replace("\n", "\\n").replace("\r", "\\r")
