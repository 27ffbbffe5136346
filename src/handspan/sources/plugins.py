"""Tools that a person adds: packages with the entry point `handspan.tools`, and files in a folder (SPEC T6).

A broken plugin is reported and skipped: all others work. The folder belongs to the configuration, never to the
workspace, where a model could write.
"""

import hashlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from handspan.config.entry_points import entry_points_of
from handspan.core.errors import DefinitionError
from handspan.core.principals import Origin
from handspan.core.sources import Broken, SourceState, SourceStatus
from handspan.core.tool import Tool, ToolSpec, is_tool
from handspan.registry.registry import Registry

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "handspan.tools"


class PluginTools:
    """Tools of installed packages. An entry point names a tool, a module with tools, or a function that gives tools."""

    name = "plugins"

    def __init__(self, registry: Registry, found: "Iterable[EntryPoint] | None" = None) -> None:
        self._registrations = _Registrations(registry)
        self._found = found

    @property
    def state(self) -> SourceState:
        """How many tools there are, and which plugins are broken."""
        return self._registrations.state

    async def open(self) -> None:
        """Register the tools of all plugins that work."""
        for point in entry_points_of(GROUP) if self._found is None else self._found:
            self._registrations.add(Origin("plugin", point.name), f"plugin {point.name!r} ({point.value})", point.load)
        self._registrations.status = "ready"

    async def close(self) -> None:
        """Unregister them."""
        self._registrations.clear()


class FolderTools:
    """Tools of the Python files in one folder. Files like `_private.py` hold no tools: others import them."""

    name = "tools folder"

    def __init__(self, registry: Registry, folder: Path) -> None:
        self._registrations = _Registrations(registry)
        self._folder = folder

    @property
    def state(self) -> SourceState:
        """How many tools there are, and which files are broken."""
        return self._registrations.state

    async def open(self) -> None:
        """Register the tools of all files that work."""
        for path in sorted(self._folder.glob("[!_]*.py")):
            found = self._registrations.add(Origin("plugin", path.stem), str(path), partial(_load_file, path))
            if found == 0:
                self._registrations.refuse(str(path), "has no tools: mark a function with @tool")
        self._registrations.status = "ready"

    async def close(self) -> None:
        """Unregister them."""
        self._registrations.clear()


class _Registrations:
    """The tools that code of others has registered, and the errors of what could not be."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._origins: list[Origin] = []
        self._broken: list[Broken] = []
        self.status: SourceStatus = "closed"

    @property
    def state(self) -> SourceState:
        count = sum(map(self._registry.count, self._origins))
        return SourceState(self.status, count, broken=tuple(self._broken))

    def add(self, origin: Origin, where: str, load: Callable[[], object]) -> int | None:
        """Load something and register its tools. Returns how many it has; None when it can't be loaded."""
        self._origins.append(origin)
        try:
            tools = list(_tools_in(load()))
        except (Exception, SystemExit) as error:  # code that is not ours
            self.refuse(where, f"{type(error).__name__}: {error}")
            return None
        for tool in tools:
            try:
                self._registry.register(tool, origin)
            except DefinitionError as error:
                self.refuse(where, str(error))
        return len(tools)

    def refuse(self, where: str, problem: str) -> None:
        """Remember that this can't be used, and why."""
        self._broken.append(Broken(where, problem))

    def clear(self) -> None:
        """Unregister everything."""
        for origin in self._origins:
            self._registry.unregister_by_source(origin)
        self._origins.clear()
        self._broken.clear()
        self.status = "closed"


def _load_file(path: Path) -> ModuleType:
    # A name of its own for each file, so that two folders may have files of the same name.
    name = f"handspan_tools_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError("it can't be loaded as a Python file")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _tools_in(found: Any) -> Iterator[Tool]:
    """The tools of this object: itself, what it contains, or what it returns."""
    if is_tool(found):
        yield found
    elif _is_tool_class(found):
        yield found()
    elif isinstance(found, ModuleType):
        public = [thing for name, thing in vars(found).items() if not name.startswith("_")]
        yield from (thing for thing in public if is_tool(thing))
        yield from (thing() for thing in public if _is_tool_class(thing) and thing.__module__ == found.__name__)
    elif callable(found):
        yield from (thing for given in [found()] for thing in (given if isinstance(given, Iterable) else [given]))
    else:
        raise DefinitionError(f"{found!r} is neither a tool, nor a module with tools, nor a function that gives some")


def _is_tool_class(thing: Any) -> bool:
    return isinstance(thing, type) and isinstance(getattr(thing, "spec", None), ToolSpec) and hasattr(thing, "run")
