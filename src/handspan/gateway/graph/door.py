"""The door for browsers and other clients over HTTP (graph.md). Loaded when its first request comes."""

from collections.abc import Awaitable, Callable
from operator import attrgetter
from typing import Final, TypeAlias

from msgspec import Raw, Struct

from handspan.core.bus import TokenRevoked
from handspan.core.errors import StoreError
from handspan.core.values import Json
from handspan.gateway.entry.auth import Admitted
from handspan.gateway.graph import about, files, memories, messages, state, threads
from handspan.gateway.graph.doors import GraphDoors
from handspan.gateway.graph.envelope import refusal_of, refuse, succeed
from handspan.gateway.graph.invoke import invoke
from handspan.gateway.graph.runs import GraphClient, GraphRuns
from handspan.gateway.graph.setup import fix, set_up, stop
from handspan.gateway.graph.socket import GraphSocketDoor
from handspan.gateway.graph.stream import stream
from handspan.gateway.graph.toolbook import ToolBook
from handspan.gateway.http.idempotency import Replays
from handspan.gateway.http.message import AsgiRequest, AsgiResponse
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.http.routing import JSON, Endpoint, Envelope, Router
from handspan.gateway.open_answers import ANSWERS
from handspan.gateway.parts import Door, GatewayParts
from handspan.sources.graph import GraphTools

REPLAY_SECONDS: Final = 600.0
"""How long an answer is kept for a request that is sent again (graph.md 5.6)."""


GraphWork: TypeAlias = Callable[[GraphDoors, GraphClient, AsgiRequest], Awaitable[Struct | Json | Raw | AsgiResponse]]
"""What a route does: the data of its answer, or an answer of its own form."""
_THREAD: Final = "/v1/threads/{thread_id}"
_FILE: Final = "/v1/files/{file_id}"
_WORK: Final[dict[str, dict[str, GraphWork]]] = {
    "/v1/graph/setup": {"POST": set_up},
    "/v1/graph/invoke": {"POST": invoke},
    "/v1/graph/stream": {"POST": stream},
    "/v1/graph/stop": {"POST": stop},
    "/v1/graph/fix": {"POST": fix},
    "/v1/graph": {"GET": about.about},
    "/v1/graph:StateSchema": {"GET": about.state_schema},
    "/v1/graph/tools": {"GET": about.tools},
    "/v1/threads": {"GET": threads.threads},
    _THREAD: {"GET": threads.thread, "DELETE": threads.delete_thread},
    f"{_THREAD}/state": {"GET": state.state, "PUT": state.put_state, "DELETE": state.clear_state},
    f"{_THREAD}/messages": {"GET": messages.messages, "POST": messages.add_messages},
    f"{_THREAD}/messages/{{message_id}}": {"GET": messages.message, "DELETE": messages.delete_message},
    "/v1/store/memories": {"POST": memories.store_memory},
    "/v1/store/search": {"POST": memories.search_memories},
    "/v1/store/memories/list": {"POST": memories.list_memories},
    "/v1/store/memories/forget": {"POST": memories.forget_memories},
    "/v1/store/memories/{memory_id}": {
        "POST": memories.memory,
        "PUT": memories.update_memory,
        "DELETE": memories.delete_memory,
    },
    "/v1/files/upload": {"POST": files.upload},
    _FILE: {"GET": files.file},
    f"{_FILE}/info": {"GET": files.file_info},
    f"{_FILE}/url": {"GET": files.file_url},
    "/v1/config/multimodal": {"GET": files.multimodal},
}


def open_door(parts: GatewayParts) -> Door:
    """What is below `/v1/`, for clients that were let in."""
    app, store, settings, rules = parts.app, parts.store, parts.app.settings.gateway, parts.offer_rules
    tools = GraphTools(app.registry, rules, settings.browser_call)
    book = ToolBook(store.browser_tools, tools, rules.limits.tools)
    runs = GraphRuns(store, app.engine, app.artifacts, parts.sessions, tools, book)
    doors = GraphDoors(
        store=store,
        registry=app.registry,
        agents=app.agents,
        artifacts=app.artifacts,
        sessions=parts.sessions,
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
    def refuse_revoked(request: AsgiRequest, response: AsgiResponse) -> AsgiResponse:
        admitted: Admitted | None = request.scope.get("state", {}).get("admitted")
        try:
            if admitted is not None:
                doors.auth.refuse_revoked(admitted)
        except Refusal as refusal:  # graph.md 7.9: whatever came of it
            return refuse(refusal)
        return response

    envelope = Envelope(
        refusal_of,
        refuse,
        no_path="There is nothing at {path!r}: protocol/graph.md has the paths.",
        no_method="{method} can't be used at {path!r}: use {allow}.",
        complete=refuse_revoked,
    )

    async def read(request: AsgiRequest) -> dict[str, object]:
        return {"doors": doors, "client": GraphClient.of(request.scope["state"]["admitted"]), "request": request}

    table = {
        path: {method: Endpoint(read, work, _respond) for method, work in methods.items()}
        for path, methods in _WORK.items()
    }
    # The gateway itself answers GET.
    return Router({**table, "/ping": {"GET": Endpoint(_read_nothing, _pong, _respond)}}, envelope)


def _respond(answered: object) -> AsgiResponse:
    return answered if isinstance(answered, AsgiResponse) else succeed(answered)


async def _read_nothing(request: AsgiRequest) -> dict[str, object]:
    return {}


async def _pong() -> AsgiResponse:
    """The same to everybody (graph.md 1.4)."""
    return AsgiResponse(ANSWERS["/ping"], media_type=JSON)


def _conflict(key: str) -> Refusal:
    return Refusal(409, "GRAPH_BUSY", "This Idempotency-Key was used for another request: choose a new one.")
