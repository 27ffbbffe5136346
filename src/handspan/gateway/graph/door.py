"""The door for browsers and other clients over HTTP (http.md). Loaded when its first request comes."""

from operator import attrgetter
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from handspan.core.bus import TokenRevoked
from handspan.core.conversations import StoreError
from handspan.gateway.entry.auth import Admitted
from handspan.gateway.graph.doors import GraphDoors
from handspan.gateway.graph.envelope import refusal_of, refuse
from handspan.gateway.graph.routes import table
from handspan.gateway.graph.runs import Runs
from handspan.gateway.graph.socket import GraphSocketDoor
from handspan.gateway.graph.toolbook import ToolBook
from handspan.gateway.http.idempotency import Replays
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.http.routing import Envelope, Router
from handspan.gateway.parts import Door, GatewayParts
from handspan.sources.browser import BrowserTools

REPLAY_SECONDS: Final = 600.0
"""How long an answer is kept for a request that is sent again (http.md 5.6)."""


def open_door(parts: GatewayParts) -> Door:
    """What is below `/v1/`, for clients that were let in."""
    app, store, settings, rules = parts.app, parts.store, parts.app.settings.gateway, parts.offer_rules
    tools = BrowserTools(app.registry, rules, settings.browser_call)
    book = ToolBook(store.browser_tools, tools, rules.limits.tools)
    runs = Runs(store, app.engine, app.artifacts, parts.turns, tools, book)
    doors = GraphDoors(
        store=store,
        registry=app.registry,
        agents=app.agents,
        artifacts=app.artifacts,
        turns=parts.turns,
        live=parts.live,
        runs=runs,
        tools=tools,
        book=book,
        answers=Replays(REPLAY_SECONDS, conflict=_conflict, forgets=StoreError, size_of=len, most=1000),
        streams=Replays(REPLAY_SECONDS, conflict=_conflict, forgets=StoreError, size_of=attrgetter("size"), most=100),
        upload_bytes=settings.upload_bytes,
        auth=parts.auth,
    )
    socket = GraphSocketDoor(parts.auth, doors, rules.limits.backlog_bytes, lambda: parts.peers.is_open)
    parts.bus.subscribe(TokenRevoked, lambda event: socket.revoke(event.token))
    parts.bus.subscribe(TokenRevoked, lambda event: doors.open_streams.revoke(event.token))
    return Door(_router(doors), connect=socket, close=runs.close)


def _router(doors: GraphDoors) -> Router:
    def refuse_revoked(request: Request, response: Response) -> Response:
        admitted: Admitted | None = request.scope.get("state", {}).get("admitted")
        try:
            if admitted is not None:
                doors.auth.refuse_revoked(admitted)
        except Refusal as refusal:  # http.md 7.9: whatever came of it
            return refuse(refusal)
        return response

    envelope = Envelope(
        refusal_of,
        refuse,
        no_path="There is nothing at {path!r}: protocol/http.md has the paths.",
        no_method="{method} can't be used at {path!r}: use {allow}.",
        complete=refuse_revoked,
    )
    return Router(table(doors), envelope)


def _conflict(key: str) -> Refusal:
    return Refusal(409, "GRAPH_BUSY", "This Idempotency-Key was used for another request: choose a new one.")
