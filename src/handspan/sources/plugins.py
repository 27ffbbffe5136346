"""Tools of installed packages with the entry point `handspan.tools` (SPEC T6).

A broken plugin is reported and skipped: all other plugins work.
"""

from collections.abc import Iterable, Iterator
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
        """`found`: the entry points; None: those that are installed."""
        self._registry = registry
        self._found = found
        self._origins: list[Origin] = []
        self._broken: list[Broken] = []
        self._status: SourceStatus = "closed"

    @property
    def state(self) -> SourceState:
        """How many tools there are, and which plugins are broken."""
        count = sum(map(self._registry.count, self._origins))
        return SourceState(self._status, count, broken=tuple(self._broken))

    async def open(self) -> None:
        """Register the tools of all plugins that work."""
        for point in entry_points_of(GROUP) if self._found is None else self._found:
            self._add(point)
        self._status = "ready"

    async def close(self) -> None:
        """Unregister the tools of all plugins."""
        for origin in self._origins:
            self._registry.unregister_by_source(origin)
        self._origins.clear()
        self._broken.clear()
        self._status = "closed"

    def _add(self, point: "EntryPoint") -> None:
        """Load a plugin and register its tools. Errors are noted as broken."""
        origin, where = Origin("plugin", point.name), f"plugin {point.name!r} ({point.value})"
        self._origins.append(origin)
        try:
            tools = list(tools_in(point.load()))
        except (Exception, SystemExit) as error:  # code that is not ours
            self._broken.append(Broken(where, describe_problem(error)))
            return
        for tool in tools:
            try:
                self._registry.register(tool, origin)
            except Exception as error:  # code that is not ours made the tool
                self._broken.append(Broken(where, describe_problem(error)))


def tools_in(found: Any) -> Iterator[Tool]:
    """Yield the tools of this object: the object itself, what it contains, or what it returns.

    Raises `DefinitionError` when the object has no tools.
    """
    if is_tool(found):
        yield found
    elif _is_tool_class(found):
        yield found()
    elif isinstance(found, ModuleType):
        public = [thing for name, thing in vars(found).items() if not name.startswith("_")]
        yield from (thing for thing in public if is_tool(thing))
        yield from (thing() for thing in public if _is_tool_class(thing) and thing.__module__ == found.__name__)
    elif callable(found):
        given = found()
        yield from map(_check_tool, given if isinstance(given, Iterable) else [given])
    else:
        raise DefinitionError(f"{found!r} is neither a tool, nor a module with tools, nor a function that gives some")


def describe_problem(error: BaseException) -> str:
    """Return why a tool can't be used: our own words for a wrong definition, otherwise the error of its code."""
    return str(error) if isinstance(error, DefinitionError) else f"{type(error).__name__}: {error}"


def _check_tool(thing: object) -> Tool:
    if not is_tool(thing):
        raise DefinitionError(f"its function gives {thing!r:.200}, which is no tool: let it return tools")
    return thing


def _is_tool_class(thing: Any) -> bool:
    return isinstance(thing, type) and isinstance(getattr(thing, "spec", None), ToolSpec) and hasattr(thing, "run")
