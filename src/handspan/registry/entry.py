"""A registered tool: everything about it that a call needs, worked out once."""

import inspect
from collections.abc import Mapping
from typing import Any

from msgspec import UnsetType

from handspan.core.calls import ToolFacts
from handspan.core.errors import DefinitionError
from handspan.core.function_tool import FunctionTool
from handspan.core.names import matches
from handspan.core.principals import Origin, Scope
from handspan.core.schema import Validator
from handspan.core.tool import PLAIN_HANDLING, HandledTool, Handling, Placement, Tool
from handspan.registry.pins import DefinitionChange

OWN_LIMIT = "the tool's own limit"


class Entry:
    """A tool as the registry keeps it: its definition checked, its schema compiled, its handling known."""

    __slots__ = (
        "asks_first",
        "change",
        "facts",
        "gate",
        "internal",
        "is_new",
        "is_valid",
        "origin",
        "outlives",
        "permissions_to_ask",
        "placement",
        "questions",
        "run",
        "scope",
        "spec",
        "starts_at_once",
        "suspends",
        "timeout",
        "timeout_source",
        "tool",
        "validator",
    )

    def __init__(
        self,
        tool: Tool,
        origin: Origin,
        scope: Scope,
        timeouts: Mapping[str, float | None],
        handling: Handling | None = None,
    ) -> None:
        """`handling`: what the source says; None: what the tool says itself."""
        if handling is None:
            handling = tool.handling if isinstance(tool, (FunctionTool, HandledTool)) else PLAIN_HANDLING
        spec = tool.spec
        self.tool = tool
        self.spec = spec
        self.origin = origin
        self.scope = scope
        self.validator: Validator = handling.validator or _compiled(tool)
        self.is_valid = self.validator.is_valid
        self.placement = _placement(tool, handling.placement)
        self.outlives = handling.outlives
        self.suspends = handling.suspends
        self.questions = handling.questions
        self.internal = handling.internal
        self.facts = ToolFacts(
            origin, spec.version, spec.annotations.read_only, handling.outlives, handling.answered_by
        )
        self.run: Any = tool.run
        self.gate: Any = None
        """Where the engine keeps the tool's gate, so that it need not look for it at every call."""
        self.timeout, self.timeout_source = _timeout(tool, handling, timeouts)
        # P1, P2: built-ins' permissions count as granted here; a device asks by its platform's own prompt.
        is_settled = handling.asks_itself or origin.is_builtin
        self.permissions_to_ask: tuple[str, ...] = () if is_settled else spec.permissions
        self.mark(None)

    def mark(self, change: DefinitionChange | None) -> None:
        """Remember how its definition differs from what a person agreed to; None: it does not (SPEC T5)."""
        self.change = change
        self.is_new = change is not None and change.was is None
        self.asks_first = self.is_new or bool(self.permissions_to_ask)
        """Whether a person may have to be asked before a call that the policy allows."""
        self.starts_at_once = not (self.asks_first or self.suspends or self.outlives)
        """Whether the ledger alone has to be told before a call that the policy allows."""

    def __repr__(self) -> str:
        return f"<{self.spec.name} of {self.origin} for {self.scope}>"


def _compiled(tool: Tool) -> Validator:
    try:
        return Validator(tool.spec.parameters)
    except DefinitionError as error:
        raise DefinitionError(f"Tool {tool.spec.name!r} is refused: {error}") from None


def _placement(tool: Tool, said: Placement | None) -> Placement:
    if said == "process" and not isinstance(tool, FunctionTool):
        raise DefinitionError(f"Tool {tool.spec.name!r} can't be isolated: a worker process only finds functions")
    if said is not None:
        return said
    return "loop" if inspect.iscoroutinefunction(tool.run) else "thread"


def _timeout(tool: Tool, handling: Handling, timeouts: Mapping[str, float | None]) -> tuple[float | None, str]:
    """The time this tool may take, and who says so: its exact name in the settings, a glob there, or itself (E5)."""
    name = tool.spec.name
    for pattern in sorted(timeouts, key=lambda pattern: (pattern != name, -len(pattern))):
        if matches(pattern, name):
            return timeouts[pattern], f"the setting tools.timeouts.{pattern}"
    timeout = tool.spec.timeout if isinstance(handling.longest, UnsetType) else handling.longest
    if timeout is not None and not timeout > 0:  # NaN is not either
        raise DefinitionError(f"Tool {name!r} is refused: its timeout must be above 0 seconds, not {timeout!r}")
    return timeout, OWN_LIMIT
