"""The door of the graph API, with the table of its routes. The gateway loads it when the first request comes."""

from collections.abc import Awaitable, Callable
from functools import partial
from operator import attrgetter
from typing import Final, TypeAlias

from msgspec import Raw, Struct

from handspan.core.bus import TokenRevoked
from handspan.core.errors import StoreError
from handspan.core.values import Json
from handspan.gateway.entry.auth import Admitted
from handspan.gateway.graph import about, files, invoke, memories, messages, threads
from handspan.gateway.graph.envelope import refusal_of, refuse, succeed
from handspan.gateway.graph.request import GraphParts, GraphRequest
from handspan.gateway.graph.runs import GraphRuns
from handspan.gateway.graph.socket import GraphSocketDoor
from handspan.gateway.http.idempotency import BytesCodec, Replays
from handspan.gateway.http.message import AsgiRequest, AsgiResponse
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.http.routing import JSON, Endpoint, Envelope, Router
from handspan.gateway.parts import Door, GatewayParts
from handspan.gateway.paths import OPEN_ANSWERS
from handspan.gateway.runs.client import RunClient
from handspan.gateway.runs.lines import StreamCodec, StreamLines

REPLAY_SECONDS: Final = 600.0
"""How long an answer is stored for a client that sends its request again (graph.md 5.6)."""
GraphWork: TypeAlias = Callable[[GraphRequest], Awaitable[Struct | Json | Raw | AsgiResponse]]
"""The function of a route. Returns the data of the answer, or a whole response."""
_THREAD: Final = "/v1/threads/{thread_id}"
_FILE: Final = "/v1/files/{file_id}"
_WORK: Final[dict[str, dict[str, GraphWork]]] = {
    "/v1/graph/setup": {"POST": invoke.set_up},
    "/v1/graph/invoke": {"POST": invoke.invoke},
    "/v1/graph/stream": {"POST": invoke.stream},
    "/v1/graph/stop": {"POST": invoke.stop},
    "/v1/graph/fix": {"POST": invoke.fix},
    "/v1/graph/answer": {"POST": invoke.answer},
    "/v1/graph": {"GET": about.about},
    "/v1/graph:StateSchema": {"GET": about.state_schema},
    "/v1/graph/tools": {"GET": about.tools},
    "/v1/threads": {"GET": threads.threads},
    _THREAD: {"GET": threads.thread, "DELETE": threads.delete_thread},
    f"{_THREAD}/state": {"GET": threads.state, "PUT": threads.put_state, "DELETE": threads.clear_state},
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


def open_door(gateway: GatewayParts) -> Door:
    """Return the door to everything below `/v1/`, for clients that authentication let in."""
    shared = gateway.nodes.work.requests
    kit = gateway.runs()
    runs = GraphRuns(gateway, kit)
    replays = partial(Replays, REPLAY_SECONDS, conflict=_conflict, forgets=StoreError)
    parts = GraphParts(
        gateway=gateway,
        runs=runs,
        tools=kit.tools,
        tool_sets=kit.tool_sets,
        answers=replays(shared=shared("graph"), codec=BytesCodec, size_of=len, limit=1000),
        streams=replays(
            shared=shared("graph stream"),
            codec=StreamCodec,
            size_of=attrgetter("size"),
            wait_for_end=StreamLines.wait_for_last,
            limit=100,
        ),
    )
    socket = GraphSocketDoor(
        gateway.auth, parts, gateway.offer_rules.limits.backlog_bytes, lambda: gateway.peers.takes_new
    )
    gateway.bus.subscribe(TokenRevoked, lambda event: socket.revoke(event.token))
    gateway.bus.subscribe(TokenRevoked, lambda event: parts.open_streams.revoke(event.token))
    return Door(_router(parts), connect=socket, close=runs.close)


def _router(parts: GraphParts) -> Router:
    """Return the table of all routes, with the words of this door for refusals."""

    def refuse_revoked(request: AsgiRequest, response: AsgiResponse) -> AsgiResponse:
        admitted: Admitted | None = request.scope.get("state", {}).get("admitted")
        try:
            if admitted is not None:
                parts.gateway.auth.refuse_revoked(admitted)
        except Refusal as refusal:  # graph.md 7.9: it replaces the answer, whatever that is
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
        client = RunClient.of(request.scope["state"]["admitted"])
        return {"request": GraphRequest(parts, client, request)}

    table = {
        path: {method: Endpoint(read, work, _respond) for method, work in methods.items()}
        for path, methods in _WORK.items()
    }
    # The gateway itself answers GET /ping; this entry refuses other methods.
    return Router({**table, "/ping": {"GET": Endpoint(_read_nothing, _pong, _respond)}}, envelope)


def _respond(answered: object) -> AsgiResponse:
    return answered if isinstance(answered, AsgiResponse) else succeed(answered)


async def _read_nothing(request: AsgiRequest) -> dict[str, object]:
    return {}


async def _pong() -> AsgiResponse:
    """Return the same answer for every client (graph.md 1.4)."""
    return AsgiResponse(OPEN_ANSWERS["/ping"], media_type=JSON)


def _conflict(key: str) -> Refusal:
    return Refusal(409, "GRAPH_BUSY", "This Idempotency-Key was used for another request: choose a new one.")
