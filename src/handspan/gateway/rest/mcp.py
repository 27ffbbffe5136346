"""MCP servers: listed, added, changed, removed, tried and trusted (SPEC C1, T5). Changes need the scope `admin`."""

from typing import Final

import msgspec

from handspan.config.settings import McpServer
from handspan.core.agents import SkillTools
from handspan.core.calls import ToolCall, new_call_id
from handspan.core.errors import ConfigError
from handspan.core.names import SEPARATOR
from handspan.core.results import Pending, envelope
from handspan.engine.caller import Caller
from handspan.gateway.entry.auth import ADMIN, may
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.rest.agents import find_agent
from handspan.gateway.rest.errors import not_found
from handspan.gateway.rest.route import Family, Visit
from handspan.sources.mcp.connection import McpConnection
from handspan.wire.rest.mcp import (
    McpEnvelope,
    McpServerList,
    McpToolCall,
    NewMcpServer,
    RemovedMcpServer,
    ShownMcpServer,
    TrustedTools,
)

family: Final = Family("mcp")


@family.get("/api/mcp")
async def mcp_servers(visit: Visit) -> McpServerList:
    """The MCP servers and their states."""
    return McpServerList([_render_server(visit, one) for one in visit.parts.app.mcp])


@family.put("/api/mcp/{name}", "admin", also_refuses=(409,), size="large")
async def put_mcp_server(visit: Visit, name: str, body: NewMcpServer) -> ShownMcpServer:
    """Add a server, or change the one of this name. It is started at once; nothing waits for it."""
    servers = visit.parts.app.mcp
    try:
        connection = await servers.add(name, msgspec.convert(msgspec.to_builtins(body), McpServer))
    except ConfigError as error:
        raise Refusal(409, "settings", str(error)) from None
    except msgspec.ValidationError as error:
        raise Refusal(409, "settings", f"The server {name!r} can't be used: {error}") from None
    visit.publish("tools")
    return _render_server(visit, connection)


@family.delete("/api/mcp/{name}", "admin", also_refuses=(409,))
async def remove_mcp_server(visit: Visit, name: str) -> RemovedMcpServer:
    """Stop a server and forget it."""
    try:
        is_gone = await visit.parts.app.mcp.forget(name)
    except ConfigError as error:
        raise Refusal(409, "settings", str(error)) from None
    if not is_gone:
        raise not_found("MCP server", name)
    visit.publish("tools")
    return RemovedMcpServer(name)


@family.post("/api/mcp/{name}/test", "admin")
async def test_mcp_server(visit: Visit, name: str) -> ShownMcpServer:
    """Connect now if the server is not up, and wait for the outcome, at most its `start_timeout`."""
    connection = find_server(visit, name)
    await connection.settle(connection.server.start_timeout)
    return _render_server(visit, connection)


@family.post("/api/mcp/{name}/trust", "admin")
async def trust_mcp_server(visit: Visit, name: str) -> TrustedTools:
    """Accept the definitions of all its tools as they are now."""
    find_server(visit, name)
    return TrustedTools(name, visit.parts.app.mcp.trust(name))


@family.post("/api/mcp/{name}/call", "admin", size="large")
async def call_mcp_tool(visit: Visit, name: str, body: McpToolCall) -> McpEnvelope:
    """Run one tool of a server, also a hidden one, by the server's own name for it."""
    connection = find_server(visit, name)
    await connection.settle(connection.server.start_timeout)
    agent, app = await find_agent(visit, ""), visit.parts.app
    box = app.registry.toolbox(agent, visit.who, skill_tools=SkillTools((), (f"{name}{SEPARATOR}*",)))
    call = ToolCall(connection.full_name(body.tool), body.args, new_call_id())
    result = await app.engine.call(call, Caller(visit.who, agent, box))
    assert not isinstance(result, Pending)  # MCP servers answer while the call waits
    return McpEnvelope(envelope(result))


def find_server(visit: Visit, name: str) -> McpConnection:
    """Return the server of this name. Raises `Refusal` when there is none."""
    connection = visit.parts.app.mcp.find(name)
    if connection is None:
        raise not_found("MCP server", name)
    return connection


def _render_server(visit: Visit, connection: McpConnection) -> ShownMcpServer:
    app, state, server, name = visit.parts.app, connection.state, connection.server, connection.server_name
    is_admin = may(visit.who, ADMIN)
    return ShownMcpServer(
        name,
        state.status,
        tuple(sorted(entry.spec.name for entry in app.registry if entry.origin == connection.origin)),
        server.internal_only,
        server.trusted,
        tuple(entry.spec.name for entry in app.mcp.waiting(name)),
        not app.mcp.is_fixed(name),
        " ".join((server.command, *server.args)) if is_admin and server.command else server.url if is_admin else "",
        state.reason if is_admin else "",
        tuple(f"{broken.where}: {broken.problem}" for broken in state.broken) if is_admin else (),
    )
