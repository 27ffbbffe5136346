"""Tools of the Python files in the configuration's `tools/` folder, also of files that change later (SPEC T6).

To scan the folder costs only one system call for each file, so this is done every second, and when a tool is missing.
No library that watches files is needed, and every file system works. The code of a file runs on a thread of its own, so
that a file that hangs holds nothing up.
"""

import asyncio
import contextlib
import hashlib
import importlib.util
import logging
import os
import shlex
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Final, TypeAlias

from handspan.config.other_writers import find_other_writer
from handspan.core.principals import Origin
from handspan.core.sources import Broken, SourceState, SourceStatus
from handspan.core.tasks import Tasks
from handspan.core.tool import Tool
from handspan.registry.registry import Registry
from handspan.sources.plugins import describe_problem, tools_in

_Stamp: TypeAlias = tuple[int, int, int, str]
"""Time of change, size and inode of a file, and why it must not run. One of them changes with its content or mode."""

_SCAN_SECONDS: Final = 1.0
_LOAD_SECONDS: Final = 10.0
"""The longest time that a file may take to load."""
_WAIT_SECONDS: Final = 5.0
"""How long a request waits for files that are loading."""
_log = logging.getLogger(__name__)


class FolderTools:
    """Tools of the Python files in one folder. Files such as `_private.py` have no tools: other files import them."""

    name = "tools folder"

    def __init__(self, registry: Registry, folder: Path, changed: Callable[[], None] | None = None) -> None:
        """`changed` is called when tools came or went after `open`."""
        self._registry = registry
        self._folder = folder
        self._changed = changed
        self._stamps: dict[Path, _Stamp] = {}
        """The files that were read, each with its stamp at that time."""
        self._tools: dict[Path, list[str]] = {}
        """The names of the registered tools of each file."""
        self._kept: dict[Path, list[str]] = {}
        """The names of the last tools of each file that is broken: clients do not get them meanwhile (SPEC R2)."""
        self._broken: dict[Path, list[Broken]] = {}
        self._status: SourceStatus = "closed"
        self._lock = asyncio.Lock()
        self._waiting: asyncio.Task[None] | None = None
        """A refresh that has not scanned the folder yet. Every request that comes until then waits for this refresh."""
        self._tasks = Tasks()

    @property
    def state(self) -> SourceState:
        """How many tools there are, and which files are broken."""
        broken = tuple(one for path in sorted(self._broken) for one in self._broken[path])
        return SourceState(self._status, sum(map(len, self._tools.values())), broken=broken)

    async def open(self) -> None:
        """Register the tools of all files that work, and begin to watch the folder."""
        await self._update(is_forced=False)
        self._status = "ready"
        self._tasks.start(self._watch())

    async def close(self) -> None:
        """Stop watching, and unregister the tools."""
        self._status = "closed"
        await self._tasks.close()
        self._waiting = None
        for path in list(self._stamps):
            self._forget(path)
        self._broken.clear()
        self._kept.clear()
        self._keep_names()

    async def refresh(self, *, is_forced: bool = False) -> None:
        """Read the files that are new or changed, and forget those that are gone. `is_forced`: read all again.

        The caller waits only a short time for a file that loads slowly: its tools come later. With `is_forced`, the
        caller waits until every file has loaded, or has taken too long and counts as broken.
        """
        if self._status != "ready":
            return
        if is_forced:
            await self._update_and_report(is_forced=True)
            return
        if self._waiting is None:
            self._waiting = self._tasks.start(self._update_and_report())
        await asyncio.wait((self._waiting,), timeout=_WAIT_SECONDS)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_SCAN_SECONDS)
            try:
                await self._update_and_report()
            except Exception:  # the next scan may succeed
                _log.exception("The tools of %s could not be updated", self._folder)

    async def _update_and_report(self, *, is_forced: bool = False) -> None:
        """Update the registry, log what has changed, and call `changed`."""
        changed = await self._update(is_forced=is_forced)
        for path in changed:
            _log_change(path, self._tools.get(path), self._broken.get(path, []))
        if changed and self._changed is not None:
            self._changed()

    async def _update(self, *, is_forced: bool) -> list[Path]:
        """Make the registry match the folder. Return the files that were read or forgotten."""
        async with self._lock:
            self._waiting = None
            try:
                found = _scan(self._folder)
            except OSError as error:  # the files can't be seen: their tools stay
                return self._report_folder(error)
            self._broken.pop(self._folder, None)
            gone = [path for path in self._stamps if path not in found]
            stale = {path for path, stamp in found.items() if is_forced or self._stamps.get(path) != stamp}
            if gone or stale:
                stale |= self._broken.keys() & found.keys()  # what broke a file, such as a taken name, may be gone now
            for path in gone:
                self._forget(path)
                self._kept.pop(path, None)
            for path in sorted(stale):
                await self._read(path, found[path])
            self._keep_names()
            return [*gone, *sorted(stale)]

    def _report_folder(self, error: OSError) -> list[Path]:
        """Store why the folder can't be read. Return the folder when the reason is new; else nothing."""
        broken = [Broken(str(self._folder), f"it can't be read, so its tools stay as they were: {error.strerror}")]
        is_known = self._broken.get(self._folder) == broken
        self._broken[self._folder] = broken
        return [] if is_known else [self._folder]

    async def _read(self, path: Path, stamp: _Stamp) -> None:
        """Load a file, and register its tools or note why it is broken."""
        if refusal := stamp[-1]:
            self._exchange(path, stamp, [], refusal)
            return
        match await _load_aside(path):
            case None:
                text = f"it is still loading after {_LOAD_SECONDS:g} s: move what takes long into the tool's function"
                self._exchange(path, stamp, [], text)
            case BaseException() as error:
                self._exchange(path, stamp, [], describe_problem(error))
            case tools:
                self._exchange(path, stamp, tools, "" if tools else "has no tools: mark a function with @tool")

    def _exchange(self, path: Path, stamp: _Stamp, tools: list[Tool], problem: str) -> None:
        """Replace the tools of the file by these, in one step. `problem`: why the file is broken; empty: it is not."""
        known = self._tools.get(path) or self._kept.get(path, [])
        self._kept[path] = known if problem else []
        self._keep_names()
        self._forget(path)
        broken = [Broken(str(path), problem)] if problem else []
        names = []
        for tool in tools:
            try:
                self._registry.register(tool, _origin(path))
                names.append(tool.spec.name)
            except Exception as error:  # code that is not ours made the tool
                broken.append(Broken(str(path), describe_problem(error)))
        self._stamps[path], self._tools[path] = stamp, names
        if broken:
            self._broken[path] = broken

    def _keep_names(self) -> None:
        names = {name: _origin(path) for path, kept in self._kept.items() for name in kept}
        self._registry.reserve(self.name, names)

    def _forget(self, path: Path) -> None:
        for name in self._tools.pop(path, ()):
            self._registry.unregister(name, origin=_origin(path))
        self._stamps.pop(path, None)
        self._broken.pop(path, None)


def _origin(path: Path) -> Origin:
    return Origin("plugin", path.stem)


def _scan(folder: Path) -> dict[Path, _Stamp]:
    """Return the files that may have tools, each with its stamp; none when the folder does not exist.

    Raises `OSError` when the folder can't be read.
    """
    found: dict[Path, _Stamp] = {}
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py") and not entry.name.startswith(("_", ".")):
                with contextlib.suppress(FileNotFoundError):
                    found[folder / entry.name] = _stamp(folder, entry)
    return found


def _stamp(folder: Path, entry: os.DirEntry[str]) -> _Stamp:
    """Return what changes when the file does, and why it is not loaded, if another user could have written it."""
    try:
        status = entry.stat()
        refusal = _find_refusal(folder, folder / entry.name)
    except FileNotFoundError:
        raise
    except OSError as error:  # such as a link to itself. It may be another file when it is loaded: so it is not
        return (-1, -1, error.errno or 0, f"can't be read: {error.strerror}. Repair or remove it.")
    return (status.st_ctime_ns, status.st_size, status.st_ino, refusal)


def _find_refusal(folder: Path, path: Path) -> str:
    """Return why this file must not run: other users could have written it, or it is elsewhere. Empty: it may."""
    target = path.resolve()
    if not target.is_relative_to(folder.resolve()):
        command = shlex.join(("cp", "--remove-destination", str(target), str(path)))
        return f"is a link that leads out of this folder. Type: {command}"
    problem = find_other_writer(folder, f"the folder {str(folder)!r}") or find_other_writer(path)
    return f"is not run: {problem}" if problem else ""


def _log_change(path: Path, tools: list[str] | None, broken: list[Broken]) -> None:
    for one in broken:
        _log.warning("%s can't be used: %s", one.where, one.problem)
    if tools is None and not broken:
        _log.info("%s is gone, and its tools with it", path)
    elif tools:
        _log.info("%s was read: %s", path, ", ".join(tools))


async def _load_aside(path: Path) -> list[Tool] | BaseException | None:
    """Return the tools of this file, or the error of its code; None when loading takes too long.

    The file loads on a daemon thread: a file that never stops loading does not keep the process alive.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[list[Tool] | BaseException] = loop.create_future()

    def settle(found: list[Tool] | BaseException) -> None:
        if not outcome.done():
            outcome.set_result(found)

    def load() -> None:
        found: list[Tool] | BaseException
        try:
            found = list(tools_in(_load_file(path)))
        except BaseException as error:  # code that is not ours: it may also end by `sys.exit`
            found = error
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(settle, found)

    threading.Thread(target=load, name="handspan-tools-folder", daemon=True).start()
    try:
        async with asyncio.timeout(_LOAD_SECONDS):
            return await outcome
    except TimeoutError:
        return None


def _load_file(path: Path) -> ModuleType:
    """Run the file's code, and return its module."""
    # Each file gets a module name of its own, so that two folders may have files of the same name.
    name = f"handspan_tools_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None:
        raise ImportError("it can't be loaded as a Python file")
    # The spec's loader is not used: its cache would take two versions with the same second and size for one.
    code = compile(importlib.util.decode_source(path.read_bytes()), path, "exec", dont_inherit=True)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        exec(code, vars(module))
    except BaseException:
        del sys.modules[name]
        raise
    return module
