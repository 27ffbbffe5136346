"""Tools of a web page, or of any program that uses the graph API (SPEC H; graph.md 3).

The gateway can't call the client. So `GraphTool.run` returns `Pending`, the client's run is suspended, and the client
finds the call in the response to its own request. The tools are in the registry only while a run of that client works
in its thread.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from handspan.core.context import ToolContext
from handspan.core.errors import NameTaken
from handspan.core.names import is_outside_name, outside_name
from handspan.core.principals import Origin, ToolScope
from handspan.core.results import Pending
from handspan.core.tool import Handling, ToolSpec
from handspan.core.values import Arguments, strip_invisible
from handspan.registry.registry import Registry
from handspan.sources.offers import OfferedSchema, OfferRules, SchemaCache, annotations_of
from handspan.wire.graph.requests import OfferedTool


class GraphTool:
    """A tool whose code runs in the client that sent the request. All runs of all clients may share this object."""

    __slots__ = ("_schema", "handling", "node", "own_name", "spec")

    def __init__(self, spec: ToolSpec, node: str, own_name: str, schema: OfferedSchema) -> None:
        self.spec = spec
        self.node = node
        self.own_name = own_name
        self._schema = schema
        # asks_itself: the browser asks its person by its own prompt.
        self.handling = Handling("loop", "request", suspends=True, asks_itself=True, validator=schema.validator)

    def with_name(self, name: str) -> "GraphTool":
        """Return this tool with another name for models."""
        return GraphTool(replace(self.spec, name=name), self.node, self.own_name, self._schema)

    async def run(self, arguments: Arguments, ctx: ToolContext) -> Pending:
        """Return `Pending`: the client that sent the request runs the call."""
        return Pending(self.spec.timeout)


class GraphTools:
    """Makes tools from the offers of clients, and registers these tools for runs."""

    def __init__(self, registry: Registry, rules: OfferRules, expires_in: float) -> None:
        """`expires_in`: seconds for a call of a tool without a timeout of its own."""
        self._registry = registry
        self._rules = rules
        self._expires_in = expires_in
        self._schemas = SchemaCache()

    def make(self, offered: OfferedTool) -> GraphTool:
        """Return the tool for this offer. Raises `DefinitionError` when the offer is not allowed."""
        self._rules.check(offered.name, offered.description, offered.permissions)
        schema = self._schemas.get(offered.parameters or {"type": "object", "properties": {}})
        self._rules.check_schema(schema)
        spec = ToolSpec(
            outside_name(offered.name),
            strip_invisible(offered.description),
            schema.parameters,
            tuple(offered.permissions),
            timeout=self._expires_in if offered.timeout is None else offered.timeout,
            version=offered.version,
            annotations=annotations_of(offered.annotations),
        )
        return GraphTool(spec, offered.node_name, offered.name, schema)

    @contextmanager
    def register(
        self, tools: Sequence[GraphTool], nodes: tuple[str, ...] | None, origin: Origin, session: str
    ) -> Iterator[dict[str, GraphTool]]:
        """Register these tools for turns of that session during the block. Yield them by their names for models.

        `nodes`: only the tools of these nodes; None: all. The last tool of a name counts (SPEC H1).
        """
        scope = ToolScope("turn", session)
        last = {tool.own_name: tool for tool in tools if nodes is None or tool.node in nodes}
        registered: dict[str, GraphTool] = {}
        try:
            for tool in last.values():
                own = self._register(tool, origin, scope)
                registered[own.spec.name] = own
            yield registered
        finally:
            self._registry.unregister_by_source(origin)

    def _register(self, tool: GraphTool, origin: Origin, scope: ToolScope) -> GraphTool:
        """Register the tool, if needed under another name, and return it as it is registered."""
        try:
            self._registry.register(tool, origin, scope, tool.handling)
        except NameTaken:  # it is a name of the gateway's own, or another tool of this client has it
            tool = tool.with_name(self._prefixed_name(tool, scope))
            self._registry.register(tool, origin, scope, tool.handling)
        return tool

    def _prefixed_name(self, tool: GraphTool, scope: ToolScope) -> str:
        """Return the tool's name after its node's name (SPEC H1); with a hash if that is taken or not allowed.

        A node that is called like an MCP server gets `page_` before it: names with that prefix are the server's.
        """
        name = f"{tool.node}__{tool.own_name}"
        while True:
            is_taken = self._registry.holder(name) is not None or self._registry.holder(name, scope) is not None
            fitting = name if is_outside_name(name) and not is_taken else outside_name(name, taken=(name,))
            if self._registry.rights.find_owner(fitting) is None:
                return fitting
            name = f"page_{name}"
