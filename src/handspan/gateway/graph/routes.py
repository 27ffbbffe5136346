"""All routes of the graph API, as one application (http.md)."""

from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from handspan.gateway.graph import about, files, memories, messages, state, threads
from handspan.gateway.graph.answering import not_routed, route
from handspan.gateway.graph.doors import GraphDoors
from handspan.gateway.graph.invoke import invoke
from handspan.gateway.graph.setup import fix, set_up, stop
from handspan.gateway.graph.stream import stream
from handspan.gateway.open_answers import ANSWERS

_THREAD: Final = "/v1/threads/{thread_id}"
_MESSAGE: Final = f"{_THREAD}/messages/{{message_id}}"
_MEMORY: Final = "/v1/store/memories/{memory_id}"
_FILE: Final = "/v1/files/{file_id}"


async def pong(request: Request) -> Response:
    """The same to everybody; only other methods than GET come this far (http.md 1.4)."""
    return Response(ANSWERS["/ping"], media_type="application/json")


def application(doors: GraphDoors) -> ASGIApp:
    """What answers below `/v1/`."""
    app = Starlette(
        routes=[
            Route("/ping", pong, methods=["GET"]),
            route(doors, "POST", "/v1/graph/setup", set_up),
            route(doors, "POST", "/v1/graph/invoke", invoke),
            route(doors, "POST", "/v1/graph/stream", stream),
            route(doors, "POST", "/v1/graph/stop", stop),
            route(doors, "POST", "/v1/graph/fix", fix),
            route(doors, "GET", "/v1/graph", about.about),
            route(doors, "GET", "/v1/graph:StateSchema", about.state_schema),
            route(doors, "GET", "/v1/graph/tools", about.tools),
            route(doors, "GET", "/v1/threads", threads.threads),
            route(doors, "GET", _THREAD, threads.thread),
            route(doors, "DELETE", _THREAD, threads.delete_thread),
            route(doors, "GET", f"{_THREAD}/state", state.state),
            route(doors, "PUT", f"{_THREAD}/state", state.put_state),
            route(doors, "DELETE", f"{_THREAD}/state", state.clear_state),
            route(doors, "GET", f"{_THREAD}/messages", messages.messages),
            route(doors, "POST", f"{_THREAD}/messages", messages.add_messages),
            route(doors, "GET", _MESSAGE, messages.message),
            route(doors, "DELETE", _MESSAGE, messages.delete_message),
            route(doors, "POST", "/v1/store/memories", memories.store_memory),
            route(doors, "POST", "/v1/store/search", memories.search_memories),
            route(doors, "POST", "/v1/store/memories/list", memories.list_memories),  # these two before any id
            route(doors, "POST", "/v1/store/memories/forget", memories.forget_memories),
            route(doors, "POST", _MEMORY, memories.memory),
            route(doors, "PUT", _MEMORY, memories.update_memory),
            route(doors, "DELETE", _MEMORY, memories.delete_memory),
            route(doors, "POST", "/v1/files/upload", files.upload),
            route(doors, "GET", _FILE, files.file),
            route(doors, "GET", f"{_FILE}/info", files.file_info),
            route(doors, "GET", f"{_FILE}/url", files.file_url),
            route(doors, "GET", "/v1/config/multimodal", files.multimodal),
        ],
        exception_handlers={HTTPException: not_routed},
    )
    app.router.redirect_slashes = False  # an id that is missing must not lead to the list
    return app
