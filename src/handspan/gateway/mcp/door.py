"""The door at `/mcp` and `/mcp/{agent}`: which client may use which agent's tools, and the protocol (SPEC C5)."""

import asyncio
from contextvars import ContextVar
from functools import lru_cache
from typing import Final
from urllib.parse import parse_qs

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from msgspec import structs
from starlette.types import ASGIApp, Receive, Scope, Send

from handspan.core.agents import Agent
from handspan.core.bus import ToolsChanged
from handspan.core.errors import ConfigError
from handspan.core.tasks import Tasks
from handspan.core.values import JsonObject
from handspan.core.version import VERSION
from handspan.gateway.entry.auth import Admitted, check_agent
from handspan.gateway.http.refusals import Refusal, send_refusal
from handspan.gateway.mcp.agent_offer import AGENT, AgentOffer
from handspan.gateway.parts import Door, GatewayParts
from handspan.mcp.protocol import ProtocolServer
from handspan.mcp.session_bounds import SessionLimits

_IDLE_SECONDS: Final = 1800.0
_KEPT_OWNERS: Final = 1000
_scope: ContextVar[Scope] = ContextVar("_scope")
"""The request that runs now: the SDK does not say for which request it needs a schema."""


def open_door(parts: GatewayParts) -> Door:
    """Return the door for MCP clients that authentication let in."""
    door = McpDoor(parts)
    return Door(door.answer, drain=door.drain, close=door.close, count_running=door.count_running)


class McpDoor:
    """Serves MCP. One task owns the protocol's sessions."""

    def __init__(self, parts: GatewayParts) -> None:
        self._parts = parts
        self._offer = AgentOffer(parts)
        limit = parts.app.settings.gateway.request_bytes
        routes = parts.nodes.route_sessions(self.answer_here, limit)
        self.answer = routes.answer
        """Answers one request, here or by another node."""
        self._server = ProtocolServer(
            self._offer, "handspan", VERSION, find_schema=self._find_schema, stamp=routes.stamp
        )
        self._opened: asyncio.Future[ASGIApp] = asyncio.get_running_loop().create_future()
        """The SDK's application, once `_serve` has opened it."""
        self._is_draining = False
        self._changed = asyncio.Event()
        self._tasks = Tasks()
        self._tasks.start(self._serve())
        self._tasks.start(self._tell_of_changes())
        parts.bus.subscribe(ToolsChanged, lambda _: self._changed.set())

    async def answer_here(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, at this node."""
        try:
            if self._is_draining:
                raise Refusal(503, "stopping", "The gateway is being stopped: come back in a moment.")
            admitted: Admitted = scope["state"]["admitted"]
            scope["state"][AGENT] = await self._find_agent(scope, admitted)
        except Refusal as refusal:
            await send_refusal(refusal, scope, send)
            return
        application = await self._sdk_application()
        _scope.set(scope)
        await application({**scope, "user": _session_owner(admitted.token)}, receive, send)

    async def _sdk_application(self) -> ASGIApp:
        """Return the SDK's application. The first requests wait until `_serve` has opened it."""
        if self._opened.done():
            return self._opened.result()
        return await asyncio.shield(self._opened)  # a request that is cancelled must not cancel it for the others

    async def drain(self, seconds: float) -> None:
        """Wait at most `seconds` for running calls, then cancel the rest: each call gets its result."""
        self._is_draining = True
        self._offer.running_calls.is_open = False
        await self._offer.running_calls.wait(seconds)
        await self._offer.running_calls.close()

    def count_running(self) -> int:
        """Return how many calls run now."""
        return len(self._offer.running_calls)

    async def close(self) -> None:
        """End all sessions."""
        await self._tasks.close()

    async def _serve(self) -> None:
        """Own the protocol's sessions until the door is closed."""
        limit = self._parts.app.settings.gateway.request_bytes
        settings = self._parts.app.settings.mcp
        bounds = SessionLimits(settings.sessions, settings.sessions_by_token, _IDLE_SECONDS)
        async with self._server.serve_http(sessions=bounds, body_bytes=limit) as application:
            self._opened.set_result(application)
            await asyncio.Event().wait()

    def _find_schema(self, name: str) -> JsonObject | None:
        return self._offer.find_schema(name, _scope.get())

    async def _tell_of_changes(self) -> None:
        while await self._changed.wait():
            self._changed.clear()
            await self._server.tell_of_changes()

    async def _find_agent(self, scope: Scope, admitted: Admitted) -> Agent:
        """Return the agent of the path or query, else the first of the token, else the default. Raises `Refusal`."""
        path: str = scope["path"].removeprefix(scope.get("root_path", ""))
        admitted.require("tools")
        allowed = admitted.who.agents
        name = path.removeprefix("/mcp").strip("/") or _agent_of_query(scope) or (allowed[0] if allowed else "")
        try:
            agent = (await self._parts.app.agents.find(name or None, owner=admitted.who.owner)).agent
        except ConfigError as error:
            raise Refusal(404, "not_found", str(error)) from None
        check_agent(admitted.who, agent.name)
        return structs.replace(agent, may_ask=())  # a call that comes by MCP can't wait for another agent


@lru_cache(_KEPT_OWNERS)
def _session_owner(token: str) -> AuthenticatedUser:
    """Return the owner of the sessions that this token opens in the older era."""
    return AuthenticatedUser(AccessToken(token="", client_id=token, scopes=[]))


def _agent_of_query(scope: Scope) -> str:
    query: bytes = scope.get("query_string", b"")
    return parse_qs(query.decode("latin-1")).get("agent", [""])[0] if query else ""
