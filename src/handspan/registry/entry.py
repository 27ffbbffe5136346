"""A registered tool: everything about it that a call needs, worked out once."""

import inspect
from collections.abc import Mapping
from typing import Any, cast

from handspan.core.calls import ToolFacts
from handspan.core.errors import DefinitionError
from handspan.core.function_tool import FunctionTool
from handspan.core.names import matches
from handspan.core.principals import Origin, Scope
from handspan.core.schema import Validator
from handspan.core.tool import Placement, Tool

OWN_LIMIT = "the tool's own limit"


class Entry:
    """A tool as the registry keeps it: its definition checked, its schema compiled, its place known."""

    __slots__ = (
        "facts",
        "gate",
        "is_valid",
        "origin",
        "outlives",
        "permissions_to_ask",
        "placement",
        "run",
        "scope",
        "spec",
        "suspends",
        "timeout",
        "timeout_source",
        "tool",
        "validator",
    )

    def __init__(self, tool: Tool, origin: Origin, scope: Scope, timeouts: Mapping[str, float | None]) -> None:
        self.tool = tool
        self.spec = tool.spec
        self.origin = origin
        self.scope = scope
        self.validator: Validator = getattr(tool, "validator", None) or _compiled(tool)
        self.is_valid = self.validator.is_valid
        self.placement = _placement(tool)
        self.outlives: bool = getattr(tool, "outlives", False)
        """Whether an outcome of its calls may still come when this process is gone."""
        self.suspends: bool = getattr(tool, "suspends", False)
        """Whether it does nothing but let its calls wait for somebody else."""
        self.facts = ToolFacts(origin, tool.spec.version, tool.spec.annotations.read_only, self.outlives)
        self.run: Any = tool.run
        self.gate: Any = None
        """Where the engine keeps the tool's gate, so that it need not look for it at every call."""
        self.timeout, self.timeout_source = _timeout(tool, timeouts)
        # P1, P2: built-ins' permissions count as granted here; a device asks by its platform's own prompt.
        asks_elsewhere = origin.kind == "builtin" or getattr(tool, "asks_itself", False)
        self.permissions_to_ask: tuple[str, ...] = () if asks_elsewhere else tool.spec.permissions

    def __repr__(self) -> str:
        return f"<{self.spec.name} of {self.origin} for {self.scope}>"


def _compiled(tool: Tool) -> Validator:
    try:
        return Validator(tool.spec.parameters)
    except DefinitionError as error:
        raise DefinitionError(f"Tool {tool.spec.name!r} is refused: {error}") from None


def _placement(tool: Tool) -> Placement:
    said = cast(Placement | None, getattr(tool, "placement", None))
    if said == "process" and not isinstance(tool, FunctionTool):
        raise DefinitionError(f"Tool {tool.spec.name!r} can't be isolated: a worker process only finds functions")
    if said is not None:
        return said
    return "loop" if inspect.iscoroutinefunction(tool.run) else "thread"


def _timeout(tool: Tool, timeouts: Mapping[str, float | None]) -> tuple[float | None, str]:
    """The time this tool may take, and who says so: its exact name in the settings, a glob there, or itself (E5)."""
    name = tool.spec.name
    for pattern in sorted(timeouts, key=lambda pattern: (pattern != name, -len(pattern))):
        if matches(pattern, name):
            return timeouts[pattern], f"the setting tools.timeouts.{pattern}"
    timeout: float | None = getattr(tool, "longest", tool.spec.timeout)  # one that keeps its own time says more
    if timeout is not None and not timeout > 0:  # NaN is not either
        raise DefinitionError(f"Tool {name!r} is refused: its timeout must be above 0 seconds, not {timeout!r}")
    return timeout, OWN_LIMIT
