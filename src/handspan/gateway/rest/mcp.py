"""MCP servers: listed, added, changed, removed, tried and trusted (SPEC C1, T5). Changes need the scope `admin`."""

from typing import Final

import msgspec
from msgspec import structs

from handspan.config.tool_settings import McpServer
from handspan.core.agents import SkillTools
from handspan.core.calls import ToolCall, new_call_id
from handspan.core.names import SEPARATOR
from handspan.core.nodes import LinkDown, NoSuchNode
from handspan.core.results import Pending, envelope
from handspan.engine.caller import Caller
from handspan.gateway.entry.auth import ADMIN, may
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.rest.agents import find_agent
from handspan.gateway.rest.errors import not_found_refusal
from handspan.gateway.rest.route import Family, RestRequest
from handspan.registry.entry import Entry
from handspan.sources.mcp.connection import McpConnection
from handspan.sources.mcp.servers import ServerExists, definition
from handspan.sources.mcp.tools import ServerPrompt
from handspan.wire.rest import mcp as wire

family: Final = Family("mcp")


@family.get("/api/mcp")
async def mcp_servers(request: RestRequest) -> wire.McpServerList:
    """The MCP servers and their states."""
    return wire.McpServerList([_render_server(request, one) for one in request.app.mcp])


@family.put("/api/mcp/{name}", "admin", also_refuses=(409,), size="large")
async def put_mcp_server(
    request: RestRequest, name: str, query: wire.NewMcpServerQuery, body: wire.NewMcpServer
) -> wire.McpServerView:
    """Add a server, or change the one of this name. It is started at once; nothing waits for it."""
    servers = request.app.mcp
    try:
        server = msgspec.convert(msgspec.to_builtins(body), McpServer)
        connection = await servers.add(name, server, may_replace=query.replace)
    except ServerExists as error:
        raise Refusal(409, "exists", str(error)) from None
    except msgspec.ValidationError as error:
        raise Refusal(409, "settings", f"The server {name!r} can't be used: {error}") from None
    request.publish("tools")
    return _render_server(request, connection)


@family.patch("/api/mcp/{name}", "admin", also_refuses=(409,))
async def edit_mcp_server(request: RestRequest, name: str, body: wire.McpServerChange) -> wire.McpServerView:
    """Hide or show the tools of a server, or trust it. It starts again."""
    if request.app.mcp.is_foreign(name):
        text = f"The MCP server {name!r} is in the settings of another node: change it there."
        raise Refusal(409, "settings", text)
    given = {field: value for field, value in msgspec.structs.asdict(body).items() if value is not msgspec.UNSET}
    changed = msgspec.structs.replace(find_server(request, name).server, **given)
    connection = await request.app.mcp.add(name, changed)
    request.publish("tools")
    return _render_server(request, connection)


@family.delete("/api/mcp/{name}", "admin", also_refuses=(409,))
async def remove_mcp_server(request: RestRequest, name: str) -> wire.RemovedMcpServer:
    """Stop a server and forget it."""
    if not await request.app.mcp.forget(name):
        raise not_found_refusal("MCP server", name)
    request.publish("tools")
    return wire.RemovedMcpServer(name)


@family.post("/api/mcp/{name}/test", "admin")
async def test_mcp_server(request: RestRequest, name: str) -> wire.McpServerView:
    """Connect now if the server is not up, and wait for the outcome, at most its `start_timeout`."""
    connection = find_server(request, name)
    await connection.settle(connection.server.start_timeout)
    return _render_server(request, connection)


@family.get("/api/mcp/{name}/changes", "admin")
async def changed_mcp_tools(request: RestRequest, name: str) -> wire.ChangedTools:
    """The tools whose new or changed definition a person has to accept, each with the accepted one."""
    find_server(request, name)
    return wire.ChangedTools(name, [_render_change(entry) for entry in request.app.mcp.waiting(name)])


@family.post("/api/mcp/{name}/trust", "admin", also_refuses=(503,))
async def trust_mcp_server(request: RestRequest, name: str) -> wire.TrustedTools:
    """Accept the definitions of all its tools as they are now."""
    find_server(request, name)
    try:
        return wire.TrustedTools(name, await request.app.mcp.trust(name))
    except (LinkDown, NoSuchNode) as error:
        raise Refusal(503, "unavailable", str(error), 5) from None


@family.post("/api/mcp/{name}/call", "admin", also_refuses=(503,), size="large")
async def call_mcp_tool(request: RestRequest, name: str, body: wire.McpToolCall) -> wire.McpEnvelope:
    """Run one tool of a server, also a hidden one, by the server's own name for it."""
    connection = find_server(request, name)
    await connection.settle(connection.server.start_timeout)
    agent, app = await find_agent(request, ""), request.app
    box = app.registry.shared_toolbox(agent, SkillTools((), (f"{name}{SEPARATOR}*",)))
    call = ToolCall(connection.full_name(body.tool), body.args, new_call_id())
    result = await app.engine.call(call, Caller(request.who, agent, box))
    if isinstance(result, Pending):  # MCP servers answer while the call waits: only a stop leaves it open
        raise Refusal(503, "stopping", f"The gateway stops. The call {call.id} is open: look at it in a moment.")
    return wire.McpEnvelope(envelope(result))


def find_server(request: RestRequest, name: str) -> McpConnection:
    """Return the server of this name. Raises `Refusal` when there is none."""
    connection = request.app.mcp.find(name)
    if connection is None:
        raise not_found_refusal("MCP server", name)
    return connection


def _render_change(entry: Entry) -> wire.ChangedTool:
    change = entry.change
    assert change is not None  # only a changed tool waits
    old = None if change.was is None else definition(change.was)
    return wire.ChangedTool(entry.spec.name, old, definition(entry.spec), change.blocks)


def _shows_prompts(connection: McpConnection) -> bool:
    return connection.state.status == "ready" and not connection.is_internal


def _render_prompt(prompt: ServerPrompt) -> wire.McpPromptView:
    return wire.McpPromptView(prompt.name, prompt.description, prompt.arguments)


def _render_server(request: RestRequest, connection: McpConnection) -> wire.McpServerView:
    """Return the server as the caller may see it: only with the scope `admin` also where it is and what fails."""
    app, state, server, name = request.app, connection.state, connection.server, connection.server_name
    shown = wire.McpServerView(
        name,
        state.status,
        tuple(sorted(entry.spec.name for entry in app.registry if entry.origin == connection.origin)),
        connection.is_internal,
        trusted=connection.is_trusted,
        waiting=tuple(entry.spec.name for entry in app.mcp.waiting(name)),
        can_change=not app.mcp.is_fixed(name) and not app.mcp.is_foreign(name),
        node=connection.share.node,
        prompts=tuple(map(_render_prompt, connection.prompts)) if _shows_prompts(connection) else (),
    )
    if not may(request.who, ADMIN):
        return shown
    where = " ".join((server.command, *server.args)) if server.command else server.url
    problems = tuple(f"{broken.where}: {broken.problem}" for broken in state.broken)
    return structs.replace(shown, where=where, reason=state.reason, problems=problems)
