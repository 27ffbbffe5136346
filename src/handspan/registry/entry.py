"""A registered tool with everything that a call needs of it, computed once; and the tools of one scope."""

import inspect
from collections.abc import Collection, Mapping

from msgspec import UnsetType, structs

from handspan.core.calls import ToolFacts
from handspan.core.errors import DefinitionError
from handspan.core.function_tool import FunctionTool
from handspan.core.names import matches
from handspan.core.principals import Origin, ToolScope
from handspan.core.schema import Validator
from handspan.core.signature import AnyFunction
from handspan.core.tool import DEFAULT_TIMEOUT, Handling, Placement, Tool, ToolSpec, check_timeout, handling_of
from handspan.core.values import Arguments
from handspan.registry.pins import DefinitionChange

OWN_LIMIT = "the tool's own limit"
DEFAULT_LIMIT = "the default limit of tools"
LONGEST_CALL = "the longest time of a client's call, setting gateway.longest_call"


class Entry:
    """A tool in the registry: its definition is checked, its schema compiled, its handling resolved."""

    def __init__(
        self,
        tool: Tool,
        origin: Origin,
        scope: ToolScope,
        timeouts: Mapping[str, float | None],
        handling: Handling | None = None,
    ) -> None:
        """`handling` comes from the source; None: the tool's own handling is used."""
        if handling is None:
            handling = handling_of(tool)
        spec = tool.spec
        self.tool = tool
        self.spec = spec
        self.origin = origin
        self.scope = scope
        self.validator: Validator = handling.validator or _compile_schema(tool)
        self.is_valid = self.validator.is_valid
        self.placement = _find_placement(tool, handling.placement)
        self.outlives = handling.outlives
        self.can_be_stopped = handling.can_be_stopped
        self.suspends = handling.suspends
        self.needs_turn = handling.needs_turn
        self.questions = handling.questions
        self.internal = handling.internal
        self.asks = handling.asks
        self.missing = handling.missing
        self.is_read_only = handling.is_read_only
        self.result_source = handling.result_source
        self.facts = ToolFacts(
            origin,
            spec.version,
            spec.annotations.read_only,
            handling.outlives,
            answered_by=handling.answered_by,
            internal=handling.internal,
        )
        self.function = _find_function(tool, self.placement)
        """An async function that takes the arguments alone: the engine calls it without a context."""
        self.own_timeout = spec.timeout if isinstance(handling.longest, UnsetType) else handling.longest
        """The timeout that the tool has if no setting gives it another one."""
        self.timeout, self.timeout_source = _find_timeout(spec, self.own_timeout, timeouts)
        # P1, P2: permissions of built-ins count as granted; a device asks with its platform's own prompt.
        is_settled = handling.asks_itself or origin.is_builtin
        self.permissions_to_ask: tuple[str, ...] = () if is_settled else spec.permissions
        self.mark(None)

    def limit(self, timeouts: Mapping[str, float | None]) -> None:
        """Give the tool the timeout that these settings lead to. Calls that run keep their old timeout."""
        self.timeout, self.timeout_source = _find_timeout(self.spec, self.own_timeout, timeouts)

    def mark(self, change: DefinitionChange | None) -> None:
        """Store how the definition differs from what a person agreed to; None: it does not differ (SPEC T5)."""
        self.change = change
        self.is_new = change is not None and change.was is None
        self.asks_first = self.is_new or bool(self.permissions_to_ask) or self.asks is not None
        """Whether a call that the policy allows may still need a person's answer first."""
        self.starts_at_once = not (self.asks_first or self.suspends or self.outlives)
        """Whether a call that the policy allows needs nothing first but its entry in the ledger."""

    def spec_for(self, arguments: Arguments) -> ToolSpec:
        """Return the spec for a call with these arguments.

        A call that only reads gets the annotation `read_only`, even if the tool can also write.
        """
        if self.is_read_only is None or not self.is_read_only(arguments):
            return self.spec
        only_reads = structs.replace(self.spec.annotations, read_only=True, destructive=False)
        return structs.replace(self.spec, annotations=only_reads)

    def __repr__(self) -> str:
        return f"<{self.spec.name} of {self.origin} for {self.scope}>"


class ScopedTools:
    """The tools of one scope, by name. `version` grows with every change, so that readers notice changes."""

    def __init__(self, scope: ToolScope) -> None:
        self.scope = scope
        self.entries: dict[str, Entry] = {}
        self.version = 0

    def add(self, entry: Entry) -> None:
        """Store this entry under its name, in place of an earlier one."""
        self.entries[entry.spec.name] = entry
        self.mark_changed()

    def remove(self, name: str) -> Entry | None:
        """Remove and return the entry of this name."""
        self.mark_changed()
        return self.entries.pop(name, None)

    def replace(self, gone: Collection[str], entries: Mapping[str, Entry]) -> None:
        """Remove the names in `gone` and add these entries, in one step."""
        self.entries = {name: entry for name, entry in self.entries.items() if name not in gone} | dict(entries)
        self.mark_changed()

    def mark_changed(self) -> None:
        """Make every reader look at the tools again."""
        self.version += 1


def _compile_schema(tool: Tool) -> Validator:
    try:
        return Validator(tool.spec.parameters)
    except DefinitionError as error:
        raise DefinitionError(f"Tool {tool.spec.name!r} is refused: {error}") from None


def _find_placement(tool: Tool, wanted: Placement | None) -> Placement:
    if wanted == "process" and not isinstance(tool, FunctionTool):
        raise DefinitionError(f"Tool {tool.spec.name!r} can't be isolated: a worker process only finds functions")
    if wanted is not None:
        return wanted
    return "loop" if inspect.iscoroutinefunction(tool.run) else "thread"


def _find_function(tool: Tool, placement: Placement) -> AnyFunction | None:
    """Return the function that the engine can call with the arguments alone, or None."""
    if isinstance(tool, FunctionTool) and tool.is_json_only and placement == "loop":
        return tool.function
    return None


def _find_timeout(spec: ToolSpec, own: float | None, timeouts: Mapping[str, float | None]) -> tuple[float | None, str]:
    """Return the tool's timeout and where it comes from (E5).

    An exact name in the settings wins over a glob in them, and a longer glob over a shorter one. The tool's own timeout
    comes last.
    """
    name = spec.name
    for pattern in sorted(timeouts, key=lambda pattern: (pattern != name, -len(pattern))):
        if matches(pattern, name):
            return timeouts[pattern], f"the setting tools.timeouts.{pattern}"
    check_timeout(name, own)
    if own != spec.timeout:
        return own, LONGEST_CALL  # the tool has its own clock, which each report of progress starts again
    return own, DEFAULT_LIMIT if own == DEFAULT_TIMEOUT else OWN_LIMIT
