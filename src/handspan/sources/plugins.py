"""A person's own tools: packages with the entry point `handspan.tools`, and files in a folder (SPEC T6).

A broken one is reported and skipped: it takes nothing else down. The folder belongs to the configuration, never to
the workspace, where a model could write.
"""

import hashlib
import importlib.util
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from handspan.config.installed import entry_points_of
from handspan.core.errors import DefinitionError
from handspan.core.principals import Origin
from handspan.core.tool import Tool, ToolSpec
from handspan.registry.registry import Registry

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "handspan.tools"


class Broken(Struct, frozen=True):
    """A tool or a file that could not be used, and why."""

    where: str
    problem: str


class PluginTools:
    """Tools of installed packages. An entry point names a tool, a module with tools, or a function that gives some."""

    def __init__(self, registry: Registry, found: "Iterable[EntryPoint] | None" = None) -> None:
        self._registry = registry
        self._found = found
        self._opened: list[Origin] = []

    def open(self) -> list[Broken]:
        """Register what works; gives what does not."""
        broken: list[Broken] = []
        for point in entry_points_of(GROUP) if self._found is None else self._found:
            origin = Origin("plugin", point.name)
            self._opened.append(origin)
            try:
                tools = list(_tools_in(point.load()))
            except Exception as error:  # code that is not ours
                broken.append(Broken(f"plugin {point.name!r} ({point.value})", _said(error)))
                continue
            broken += _register(self._registry, tools, origin, f"plugin {point.name!r}")
        return broken

    def close(self) -> None:
        """Take them all back."""
        for origin in self._opened:
            self._registry.unregister_by_source(origin)
        self._opened.clear()


class FolderTools:
    """Tools of the Python files in one folder; `_private.py` files are only there to be imported."""

    def __init__(self, registry: Registry, folder: Path) -> None:
        self._registry = registry
        self._folder = folder
        self._opened: list[Origin] = []

    def open(self) -> list[Broken]:
        """Register what works; gives what does not."""
        broken: list[Broken] = []
        for path in sorted(self._folder.glob("[!_]*.py")):
            origin = Origin("plugin", path.stem)
            self._opened.append(origin)
            try:
                tools = list(_tools_in(_loaded(path)))
            except (Exception, SystemExit) as error:  # code that is not ours
                broken.append(Broken(str(path), _said(error)))
                continue
            broken += _register(self._registry, tools, origin, str(path))
            if not tools:
                broken.append(Broken(str(path), "has no tools: mark a function with @tool"))
        return broken

    def close(self) -> None:
        """Take them all back."""
        for origin in self._opened:
            self._registry.unregister_by_source(origin)
        self._opened.clear()


def _register(registry: Registry, tools: list[Tool], origin: Origin, where: str) -> list[Broken]:
    broken: list[Broken] = []
    for tool in tools:
        try:
            registry.register(tool, origin)
        except DefinitionError as error:
            broken.append(Broken(where, str(error)))
    return broken


def _loaded(path: Path) -> ModuleType:
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
    """The tools that something is, holds or gives."""
    if _is_tool(found):
        yield found
    elif _is_tool_class(found):
        yield found()
    elif isinstance(found, ModuleType):
        public = [thing for name, thing in vars(found).items() if not name.startswith("_")]
        yield from (thing for thing in public if _is_tool(thing))
        yield from (thing() for thing in public if _is_tool_class(thing) and thing.__module__ == found.__name__)
    elif callable(found):
        yield from (thing for given in [found()] for thing in (given if isinstance(given, Iterable) else [given]))
    else:
        raise DefinitionError(f"{found!r} is neither a tool, nor a module with tools, nor a function that gives some")


def _is_tool(thing: Any) -> bool:
    return not isinstance(thing, type) and isinstance(getattr(thing, "spec", None), ToolSpec) and hasattr(thing, "run")


def _is_tool_class(thing: Any) -> bool:
    return isinstance(thing, type) and isinstance(getattr(thing, "spec", None), ToolSpec) and hasattr(thing, "run")


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
