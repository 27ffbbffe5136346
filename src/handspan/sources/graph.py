"""Tools of a web page, or of any program that asks over HTTP (SPEC H; graph.md 3).

There is no line on which to ask: `run` answers `Pending`, the run is suspended, and the client finds the call in the
answer to its own request. The tools are in the registry only while a run of that client is at work in its thread.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from handspan.core.context import ToolContext
from handspan.core.errors import NameTaken
from handspan.core.names import is_outside_name, outside_name
from handspan.core.principals import Origin, Scope
from handspan.core.results import Pending
from handspan.core.tool import Handling, ToolSpec
from handspan.core.values import Arguments, strip_invisible
from handspan.registry.registry import Registry
from handspan.sources.offers import Interned, OfferRules, Schema, annotations_of
from handspan.wire.graph.requests import OfferedTool


class BrowserTool:
    """A tool whose code runs where the request came from. It knows nobody: all runs of all clients may share it."""

    __slots__ = ("_schema", "handling", "node", "own_name", "spec")

    def __init__(self, spec: ToolSpec, node: str, own_name: str, schema: Schema) -> None:
        self.spec = spec
        self.node = node
        self.own_name = own_name
        self._schema = schema
        # The browser asks its person, by its own prompt.
        self.handling = Handling("loop", "request", suspends=True, asks_itself=True, validator=schema.validator)

    def named(self, name: str) -> "BrowserTool":
        """The same tool, as models know it under this name."""
        spec = self.spec
        renamed = ToolSpec(
            name, spec.description, spec.parameters, spec.permissions, spec.timeout, spec.version, spec.annotations
        )
        return BrowserTool(renamed, self.node, self.own_name, self._schema)

    async def run(self, arguments: Arguments, ctx: ToolContext) -> Pending:
        """Whoever asked has it from now on."""
        return Pending(self.spec.timeout)


class BrowserTools:
    """Makes tools of what clients offer, and lets runs have them."""

    def __init__(self, registry: Registry, rules: OfferRules, expires_in: float) -> None:
        """`expires_in`: seconds for a call of a tool that says nothing itself."""
        self._registry = registry
        self._rules = rules
        self._expires_in = expires_in
        self._interned = Interned()

    def make(self, offered: OfferedTool) -> BrowserTool:
        """This one as a tool; `DefinitionError` when it can't be one here."""
        self._rules.check(offered.name, offered.description, offered.permissions)
        schema = self._interned.schema(offered.parameters or {"type": "object", "properties": {}})
        self._rules.check_schema(schema)
        spec = ToolSpec(
            outside_name(offered.name),
            strip_invisible(offered.description),
            schema.parameters,
            tuple(offered.permissions),
            self._expires_in if offered.timeout is None else offered.timeout,
            offered.version,
            annotations_of(offered.annotations),
        )
        return BrowserTool(spec, offered.node_name, offered.name, schema)

    @contextmanager
    def lent(
        self, tools: Sequence[BrowserTool], nodes: tuple[str, ...] | None, origin: Origin, session: str
    ) -> Iterator[dict[str, BrowserTool]]:
        """These tools in turns of that session, by the names that models know; all are gone when the block ends.

        `nodes`: only those of these nodes; None: all. The last one of a name counts (SPEC H1).
        """
        scope = Scope("turn", session)
        last = {tool.own_name: tool for tool in tools if nodes is None or tool.node in nodes}
        lent: dict[str, BrowserTool] = {}
        try:
            for tool in last.values():
                kept = self._put(tool, origin, scope)
                lent[kept.spec.name] = kept
            yield lent
        finally:
            self._registry.unregister_by_source(origin)

    def _put(self, tool: BrowserTool, origin: Origin, scope: Scope) -> BrowserTool:
        try:
            self._registry.register(tool, origin, scope, tool.handling)
        except NameTaken:  # a built-in's, or that of another one of these
            taken = _taken(self._registry, scope)
            tool = tool.named(_prefixed(tool, taken))
            self._registry.register(tool, origin, scope, tool.handling)
        return tool


def _prefixed(tool: BrowserTool, is_taken: Callable[[str], bool]) -> str:
    """SPEC H1: the node's name in front of its own; a hash where even that is taken or does not fit."""
    wanted = f"{tool.node}__{tool.own_name}"
    if is_outside_name(wanted) and not is_taken(wanted):
        return wanted
    return outside_name(wanted, taken=(wanted,))


def _taken(registry: Registry, scope: Scope) -> Callable[[str], bool]:
    return lambda name: registry.holder(name) is not None or registry.holder(name, scope) is not None
