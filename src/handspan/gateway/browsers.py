"""The door for browsers and other clients over HTTP (http.md). Loaded when the first request for it comes."""

from operator import attrgetter
from typing import TYPE_CHECKING

from starlette.types import Receive, Scope, Send

from handspan.core.bus import TokenRevoked
from handspan.gateway.graph.doors import GraphDoors
from handspan.gateway.graph.replays import Replays
from handspan.gateway.graph.routes import application
from handspan.gateway.graph.runs import Runs
from handspan.gateway.graph.socket import GraphSocketDoor
from handspan.gateway.graph.toolbook import ToolBook
from handspan.sources.browser import BrowserTools

if TYPE_CHECKING:
    from handspan.gateway.gateway import Gateway


class BrowserDoors:
    """Answers what is below `/v1/`, for those who were let in."""

    def __init__(self, gateway: "Gateway") -> None:
        app, store, settings = gateway.app, gateway.store, gateway.settings.gateway
        rules = gateway.offer_rules
        tools = BrowserTools(app.registry, rules, settings.browser_call)
        book = ToolBook(store.browser_tools, tools, rules.limits.tools)
        self._runs = Runs(store, app.engine, app.artifacts, gateway.sessions, tools, book)
        doors = GraphDoors(
            store=store,
            registry=app.registry,
            agents=app.agents,
            artifacts=app.artifacts,
            sessions=gateway.sessions,
            live=gateway.live,
            runs=self._runs,
            tools=tools,
            book=book,
            answers=Replays(len),
            streams=Replays(attrgetter("size"), most=100),
            upload_bytes=settings.upload_bytes,
            auth=gateway.auth,
        )
        self._http = application(doors)
        self.socket = GraphSocketDoor(gateway.auth, doors, rules.limits.backlog_bytes, lambda: gateway.peers.is_open)
        gateway.bus.subscribe(TokenRevoked, lambda event: self.socket.revoke(event.token))
        gateway.bus.subscribe(TokenRevoked, lambda event: doors.open_streams.revoke(event.token))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        await self._http(scope, receive, send)

    async def close(self) -> None:
        """Let the requests end whose runs have ended."""
        await self._runs.close()
