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
_FILE: Final = "/v1/files/{file_id}"


async def pong(request: Request) -> Response:
    """The same to everybody; only other methods than GET come this far (http.md 1.4)."""
    return Response(ANSWERS["/ping"], media_type="application/json")


def application(doors: GraphDoors) -> ASGIApp:
    """What answers below `/v1/`."""
    app = Starlette(
        routes=[
            Route("/ping", pong, methods=["GET"]),
            route(doors, "/v1/graph/setup", POST=set_up),
            route(doors, "/v1/graph/invoke", POST=invoke),
            route(doors, "/v1/graph/stream", POST=stream),
            route(doors, "/v1/graph/stop", POST=stop),
            route(doors, "/v1/graph/fix", POST=fix),
            route(doors, "/v1/graph", GET=about.about),
            route(doors, "/v1/graph:StateSchema", GET=about.state_schema),
            route(doors, "/v1/graph/tools", GET=about.tools),
            route(doors, "/v1/threads", GET=threads.threads),
            route(doors, _THREAD, GET=threads.thread, DELETE=threads.delete_thread),
            route(doors, f"{_THREAD}/state", GET=state.state, PUT=state.put_state, DELETE=state.clear_state),
            route(doors, f"{_THREAD}/messages", GET=messages.messages, POST=messages.add_messages),
            route(doors, f"{_THREAD}/messages/{{message_id}}", GET=messages.message, DELETE=messages.delete_message),
            route(doors, "/v1/store/memories", POST=memories.store_memory),
            route(doors, "/v1/store/search", POST=memories.search_memories),
            route(doors, "/v1/store/memories/list", POST=memories.list_memories),  # these two before any id
            route(doors, "/v1/store/memories/forget", POST=memories.forget_memories),
            route(
                doors,
                "/v1/store/memories/{memory_id}",
                POST=memories.memory,
                PUT=memories.update_memory,
                DELETE=memories.delete_memory,
            ),
            route(doors, "/v1/files/upload", POST=files.upload),
            route(doors, _FILE, GET=files.file),
            route(doors, f"{_FILE}/info", GET=files.file_info),
            route(doors, f"{_FILE}/url", GET=files.file_url),
            route(doors, "/v1/config/multimodal", GET=files.multimodal),
        ],
        exception_handlers={HTTPException: not_routed},
    )
    app.router.redirect_slashes = False  # an id that is missing must not lead to the list
    return app
