"""The AI SDK's door, with the table of its routes. The gateway loads it when the first request comes."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from handspan.core.bus import TokenRevoked
from handspan.core.values import encode
from handspan.gateway.http.message import AsgiRequest, AsgiResponse
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.http.routing import JSON, PRIVATE, Endpoint, Envelope, Router
from handspan.gateway.parts import Door, GatewayParts
from handspan.gateway.runs.chats import Chats
from handspan.gateway.runs.client import RunClient
from handspan.gateway.ui_stream.approvals import answer_approvals
from handspan.gateway.ui_stream.refusals import refusal_of, refuse
from handspan.gateway.ui_stream.request import UiChat, UiParts, UiRequest, read_chat
from handspan.gateway.ui_stream.running import RunningMessage, stream

_Work: TypeAlias = Callable[[UiRequest], Awaitable[AsgiResponse]]


async def talk(request: UiRequest) -> AsgiResponse:
    """Answer the person's last message, or go on after results and approvals."""
    agent = await request.agent()
    chat = await read_chat(await request.body(), agent, request.parts.app.guard)
    if chat.going_on is not None:
        session = request.door.chats.session_for(request.client, chat.request)
        await answer_approvals(request.parts, request.client, session, chat.going_on)
    return await stream(RunningMessage(request, chat)) or AsgiResponse(None, 204, PRIVATE)


async def resume(request: UiRequest) -> AsgiResponse:
    """Tell the answer that is being made from its beginning; 204 when none is."""
    run = RunningMessage(request, UiChat(await request.named_chat()), is_resumed=True)
    return await stream(run) or AsgiResponse(None, 204, PRIVATE)


async def stop(request: UiRequest) -> AsgiResponse:
    """End the run of a chat."""
    chats = request.door.chats
    was_running = await chats.stop(request.client, chats.session_for(request.client, await request.named_chat()))
    return AsgiResponse(encode({"stopped": was_running}), 200, PRIVATE, JSON)


_WORK: Final[dict[str, dict[str, _Work]]] = {
    "/ui": {"POST": talk},
    "/ui/{agent}": {"POST": talk},
    "/ui/{chat}/stream": {"GET": resume},
    "/ui/{chat}/stop": {"POST": stop},
    "/ui/{agent}/{chat}/stream": {"GET": resume},
    "/ui/{agent}/{chat}/stop": {"POST": stop},
}


def open_door(gateway: GatewayParts) -> Door:
    """Return the door for clients of the AI SDK, which authentication let in."""
    runs = gateway.runs()
    parts = UiParts(gateway=gateway, chats=Chats(runs, gateway.store, gateway.sessions, gateway.brief))
    gateway.bus.subscribe(TokenRevoked, lambda event: parts.open_streams.revoke(event.token))
    return Door(_router(parts), close=runs.close)


def _router(parts: UiParts) -> Router:
    def refuse_revoked(request: AsgiRequest, response: AsgiResponse) -> AsgiResponse:
        admitted = request.scope.get("state", {}).get("admitted")
        try:
            if admitted is not None:
                parts.gateway.auth.refuse_revoked(admitted)
        except Refusal as refusal:
            return refuse(refusal)
        return response

    envelope = Envelope(
        refusal_of,
        refuse,
        no_path="The AI SDK talks to /ui/AGENT, or to /ui for the default agent: {path!r} is nothing here.",
        no_method="{method} can't be used at {path!r}: use {allow}.",
        complete=refuse_revoked,
    )

    async def read(request: AsgiRequest) -> dict[str, object]:
        client = RunClient.of_front(request.scope["state"]["admitted"])
        return {"request": UiRequest(parts, client, request)}

    return Router(
        {
            path: {method: Endpoint(read, work, _same) for method, work in methods.items()}
            for path, methods in _WORK.items()
        },
        envelope,
    )


def _same(answered: object) -> AsgiResponse:
    assert isinstance(answered, AsgiResponse), "each work returns a response"
    return answered
