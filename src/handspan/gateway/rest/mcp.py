"""MCP servers: listed, added, changed, removed, tried and trusted (SPEC C1, T5). Changes need the scope `admin`."""

from typing import Final

import msgspec

from handspan.config.settings import McpServer
from handspan.core.agents import SkillTools
from handspan.core.calls import ToolCall, new_call_id
from handspan.core.errors import ConfigError
from handspan.core.names import SEPARATOR
from handspan.core.nodes import LinkDown, NoSuchNode
from handspan.core.results import Pending, envelope
from handspan.engine.caller import Caller
from handspan.gateway.entry.auth import ADMIN, may
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.rest.agents import find_agent
from handspan.gateway.rest.errors import not_found
from handspan.gateway.rest.route import Family, RestRequest
from handspan.registry.entry import Entry
from handspan.sources.mcp.connection import McpConnection
from handspan.sources.mcp.servers import ServerExists, definition
from handspan.wire.rest.mcp import (
    ChangedTool,
    ChangedTools,
    McpEnvelope,
    McpServerChange,
    McpServerList,
    McpServerView,
    McpToolCall,
    NewMcpServer,
    NewMcpServerQuery,
    RemovedMcpServer,
    TrustedTools,
)

family: Final = Family("mcp")


@family.get("/api/mcp")
async def mcp_servers(request: RestRequest) -> McpServerList:
    """The MCP servers and their states."""
    return McpServerList([_render_server(request, one) for one in request.parts.app.mcp])


@family.put("/api/mcp/{name}", "admin", also_refuses=(409,), size="large")
async def put_mcp_server(
    request: RestRequest, name: str, query: NewMcpServerQuery, body: NewMcpServer
) -> McpServerView:
    """Add a server, or change the one of this name. It is started at once; nothing waits for it."""
    servers = request.parts.app.mcp
    try:
        server = msgspec.convert(msgspec.to_builtins(body), McpServer)
        connection = await servers.add(name, server, may_replace=query.replace)
    except ServerExists as error:
        raise Refusal(409, "exists", str(error)) from None
    except ConfigError as error:
        raise Refusal(409, "settings", str(error)) from None
    except msgspec.ValidationError as error:
        raise Refusal(409, "settings", f"The server {name!r} can't be used: {error}") from None
    request.publish("tools")
    return _render_server(request, connection)


@family.patch("/api/mcp/{name}", "admin", also_refuses=(409,))
async def edit_mcp_server(request: RestRequest, name: str, body: McpServerChange) -> McpServerView:
    """Hide or show the tools of a server, or trust it. It starts again."""
    if request.parts.app.mcp.is_foreign(name):
        text = f"The MCP server {name!r} is in the settings of another node: change it there."
        raise Refusal(409, "settings", text)
    given = {field: value for field, value in msgspec.structs.asdict(body).items() if value is not msgspec.UNSET}
    changed = msgspec.structs.replace(find_server(request, name).server, **given)
    try:
        connection = await request.parts.app.mcp.add(name, changed)
    except ConfigError as error:
        raise Refusal(409, "settings", str(error)) from None
    request.publish("tools")
    return _render_server(request, connection)


@family.delete("/api/mcp/{name}", "admin", also_refuses=(409,))
async def remove_mcp_server(request: RestRequest, name: str) -> RemovedMcpServer:
    """Stop a server and forget it."""
    try:
        is_gone = await request.parts.app.mcp.forget(name)
    except ConfigError as error:
        raise Refusal(409, "settings", str(error)) from None
    if not is_gone:
        raise not_found("MCP server", name)
    request.publish("tools")
    return RemovedMcpServer(name)


@family.post("/api/mcp/{name}/test", "admin")
async def test_mcp_server(request: RestRequest, name: str) -> McpServerView:
    """Connect now if the server is not up, and wait for the outcome, at most its `start_timeout`."""
    connection = find_server(request, name)
    await connection.settle(connection.server.start_timeout)
    return _render_server(request, connection)


@family.get("/api/mcp/{name}/changes", "admin")
async def changed_mcp_tools(request: RestRequest, name: str) -> ChangedTools:
    """The tools whose new or changed definition a person has to accept, each with the accepted one."""
    find_server(request, name)
    return ChangedTools(name, [_render_change(entry) for entry in request.parts.app.mcp.waiting(name)])


@family.post("/api/mcp/{name}/trust", "admin", also_refuses=(503,))
async def trust_mcp_server(request: RestRequest, name: str) -> TrustedTools:
    """Accept the definitions of all its tools as they are now."""
    find_server(request, name)
    try:
        return TrustedTools(name, await request.parts.app.mcp.trust(name))
    except (LinkDown, NoSuchNode) as error:
        raise Refusal(503, "unavailable", str(error), 5) from None


@family.post("/api/mcp/{name}/call", "admin", also_refuses=(503,), size="large")
async def call_mcp_tool(request: RestRequest, name: str, body: McpToolCall) -> McpEnvelope:
    """Run one tool of a server, also a hidden one, by the server's own name for it."""
    connection = find_server(request, name)
    await connection.settle(connection.server.start_timeout)
    agent, app = await find_agent(request, ""), request.parts.app
    box = app.registry.shared_toolbox(agent, SkillTools((), (f"{name}{SEPARATOR}*",)))
    call = ToolCall(connection.full_name(body.tool), body.args, new_call_id())
    result = await app.engine.call(call, Caller(request.who, agent, box))
    if isinstance(result, Pending):  # MCP servers answer while the call waits: only a stop leaves it open
        raise Refusal(503, "stopping", f"The gateway stops. The call {call.id} is open: look at it in a moment.")
    return McpEnvelope(envelope(result))


def find_server(request: RestRequest, name: str) -> McpConnection:
    """Return the server of this name. Raises `Refusal` when there is none."""
    connection = request.parts.app.mcp.find(name)
    if connection is None:
        raise not_found("MCP server", name)
    return connection


def _render_change(entry: Entry) -> ChangedTool:
    change = entry.change
    assert change is not None  # only a changed tool waits
    old = None if change.was is None else definition(change.was)
    return ChangedTool(entry.spec.name, old, definition(entry.spec), change.blocks)


def _render_server(request: RestRequest, connection: McpConnection) -> McpServerView:
    app, state, server, name = request.parts.app, connection.state, connection.server, connection.server_name
    is_admin = may(request.who, ADMIN)
    return McpServerView(
        name,
        state.status,
        tuple(sorted(entry.spec.name for entry in app.registry if entry.origin == connection.origin)),
        connection.is_internal,
        connection.is_trusted,
        tuple(entry.spec.name for entry in app.mcp.waiting(name)),
        not app.mcp.is_fixed(name) and not app.mcp.is_foreign(name),
        " ".join((server.command, *server.args)) if is_admin and server.command else server.url if is_admin else "",
        state.reason if is_admin else "",
        tuple(f"{broken.where}: {broken.problem}" for broken in state.broken) if is_admin else (),
        connection.share.node,
    )
