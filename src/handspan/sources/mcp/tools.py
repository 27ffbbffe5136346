"""What an MCP server has for an agent: its tools; and its resources and prompts, as tools, too (SPEC C1, C4)."""

from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from handspan.config.tool_settings import McpServer
from handspan.core.context import ToolContext
from handspan.core.names import matches_any, outside_name
from handspan.core.results import Success
from handspan.core.sources import Broken
from handspan.core.tool import READ_ONLY, ToolSpec
from handspan.core.values import Arguments, Json, JsonObject

if TYPE_CHECKING:
    from handspan.sources.mcp.sdk import McpLink

_NO_PARAMETERS: Final[JsonObject] = {"type": "object", "properties": {}}
_LONGEST_DESCRIPTION: Final = 8 * 1024


class ServerOffer(Struct, frozen=True):
    """What a server has."""

    tools: tuple[ToolSpec, ...]
    """Its tools as it lists them, under its own names."""
    notes: tuple[Broken, ...] = ()
    """What of its list is not used, and why."""
    has_resources: bool = False
    prompts: tuple["ServerPrompt", ...] = ()


class ServerPrompt(Struct, frozen=True):
    """A prompt of a server, for a person who chooses one."""

    name: str
    description: str = ""
    arguments: tuple[str, ...] = ()
    """The names of its arguments."""


RunTool: TypeAlias = Callable[["McpTool", Arguments, ToolContext], Awaitable[Json | Success]]
"""Runs a tool as soon as the link to its server is open. Raises `ToolError` when it can't be opened."""
_Run: TypeAlias = Callable[["McpLink", Arguments, ToolContext], Awaitable[Json | Success]]
"""Asks the server over an open link for the result of one tool."""


class McpTool:
    """A tool whose code runs in an MCP server."""

    def __init__(self, spec: ToolSpec, own_name: str, run_tool: RunTool, run: _Run | None = None) -> None:
        """`run` asks the server for the result; None: by a call of its tool `own_name`."""
        self.spec = spec
        self.own_name = own_name
        self._run_tool = run_tool
        self._run = run or _runner(own_name)

    async def run(self, arguments: Arguments, ctx: ToolContext) -> Json | Success:
        """Return the server's answer."""
        return await self._run_tool(self, arguments, ctx)

    async def run_over(self, link: "McpLink", arguments: Arguments, ctx: ToolContext) -> Json | Success:
        """Return the server's answer over this link."""
        return await self._run(link, arguments, ctx)


def make_tools(name: str, server: McpServer, offer: ServerOffer, run_tool: RunTool) -> Iterator[McpTool]:
    """Yield the tools of a server that its settings allow, under names that every model takes (SPEC T2)."""
    taken: set[str] = set()
    own_names = {listed.name for listed in offer.tools}
    extras = [extra for extra in _extra_tools(offer) if extra[0].name not in own_names]
    for listed, run in (*((listed, _runner(listed.name)) for listed in offer.tools), *extras):
        is_allowed = server.allow is None or matches_any(server.allow, listed.name)
        if not is_allowed or matches_any(server.deny, listed.name):
            continue
        full_name = outside_name(listed.name, name, taken)
        taken.add(full_name)
        spec = replace(
            listed,
            name=full_name,
            description=listed.description[:_LONGEST_DESCRIPTION] or f"The tool {listed.name} of {name}.",
            permissions=server.permissions,
            timeout=server.timeout,
        )
        yield McpTool(spec, listed.name, run_tool, run)


def _runner(own_name: str) -> _Run:
    return lambda link, arguments, ctx: link.call(own_name, arguments, ctx)


def _extra_tools(offer: ServerOffer) -> Iterator[tuple[ToolSpec, _Run]]:
    """Yield tools for resources and prompts: so these pass the same policy as all other tools."""
    if offer.has_resources:
        yield (
            ToolSpec("list_resources", "List the resources of this server.", _NO_PARAMETERS, annotations=READ_ONLY),
            (lambda link, _, ctx: link.list_resources(ctx)),
        )
        yield (
            ToolSpec("read_resource", "Read a resource of this server.", _URI, annotations=READ_ONLY),
            (lambda link, arguments, ctx: link.read_resource(str(arguments["uri"]), ctx)),
        )
    if offer.prompts:
        yield (
            ToolSpec("list_prompts", "List the prompts of this server.", _NO_PARAMETERS, annotations=READ_ONLY),
            (lambda link, _, ctx: link.list_prompts(ctx)),
        )
        yield ToolSpec("get_prompt", "Fill in a prompt of this server.", _PROMPT, annotations=READ_ONLY), _get_prompt


def _get_prompt(link: "McpLink", arguments: Arguments, ctx: ToolContext) -> Awaitable[Success]:
    given = arguments.get("arguments")
    texts = {key: str(value) for key, value in given.items()} if isinstance(given, dict) else {}
    return link.get_prompt(str(arguments["name"]), texts, ctx)


_URI: Final[JsonObject] = {
    "type": "object",
    "properties": {"uri": {"type": "string", "description": "As list_resources shows it, templates filled in."}},
    "required": ["uri"],
}
_PROMPT: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "As list_prompts shows it."},
        "arguments": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "required": ["name"],
}
