"""All routes of the graph API, as a table for the kit (http.md)."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from msgspec import Raw, Struct
from starlette.requests import Request
from starlette.responses import Response

from handspan.core.values import Json
from handspan.gateway.graph import about, files, memories, messages, state, threads
from handspan.gateway.graph.doors import GraphDoors
from handspan.gateway.graph.envelope import succeed
from handspan.gateway.graph.invoke import invoke
from handspan.gateway.graph.runs import Client
from handspan.gateway.graph.setup import fix, set_up, stop
from handspan.gateway.graph.stream import stream
from handspan.gateway.http.routing import JSON, Endpoint, Table
from handspan.gateway.open_answers import ANSWERS

GraphWork: TypeAlias = Callable[[GraphDoors, Client, Request], Awaitable[Struct | Json | Raw | Response]]
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


def table(doors: GraphDoors) -> Table:
    """Everything below `/v1/`; and `/ping`, whose GET the gateway answers itself."""

    async def read(request: Request) -> dict[str, object]:
        return {"doors": doors, "client": Client.of(request.state.admitted), "request": request}

    found = {
        path: {method: Endpoint(read, work, _respond) for method, work in methods.items()}
        for path, methods in _WORK.items()
    }
    return {**found, "/ping": {"GET": Endpoint(_read_nothing, _pong, _respond)}}


def _respond(answered: object) -> Response:
    return answered if isinstance(answered, Response) else succeed(answered)


async def _read_nothing(request: Request) -> dict[str, object]:
    return {}


async def _pong() -> Response:
    """The same to everybody (http.md 1.4)."""
    return Response(ANSWERS["/ping"], media_type=JSON)
