"""OpenAI's door, with the table of its routes. The gateway loads it when the first request comes."""

from collections.abc import Awaitable, Callable
from functools import partial
from operator import attrgetter
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from handspan.agent.refusals import TurnRefused
from handspan.core.bus import TokenRevoked
from handspan.core.errors import StoreError
from handspan.gateway.http.idempotency import BytesCodec, Replays
from handspan.gateway.http.message import AsgiRequest, AsgiResponse
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.http.routing import JSON, PRIVATE, Endpoint, Envelope, Router
from handspan.gateway.openai import chat, responses
from handspan.gateway.openai.envelope import OpenAiRefusal, refusal_of, refuse
from handspan.gateway.openai.models import find_agent, list_models
from handspan.gateway.openai.request import OpenAiParts, OpenAiRequest
from handspan.gateway.parts import Door, GatewayParts
from handspan.gateway.runs.chats import Chats
from handspan.gateway.runs.client import RunClient
from handspan.gateway.runs.lines import StreamCodec, StreamLines
from handspan.wire.openai.models import ModelList, ModelView

_REPLAY_SECONDS: Final = 600.0
"""How long an answer is stored for a client that sends its request again."""
_Work: TypeAlias = Callable[[OpenAiRequest], Awaitable[Struct | AsgiResponse]]
_NOT_HERE: Final = "This gateway has agents: it offers chat completions, responses and models, not {path!r}."


async def models(request: OpenAiRequest) -> ModelList:
    """Return the agents that the token may use."""
    return ModelList(await list_models(request.parts, request.client))


async def model(request: OpenAiRequest) -> ModelView:
    """Return one of them."""
    name = request.asgi.path_params["model"]
    await find_agent(request.parts, request.client, name)
    known = await list_models(request.parts, request.client)
    return next((view for view in known if view.id == name), ModelView(name))


async def not_here(request: OpenAiRequest) -> AsgiResponse:
    """Refuse what the API has and agents have not."""
    raise OpenAiRefusal(404, _NOT_HERE.format(path=request.asgi.path[:80]), code="not_found")


_WORK: Final[dict[str, dict[str, _Work]]] = {
    "/v1/models": {"GET": models},
    "/v1/models/{model}": {"GET": model},
    "/v1/models/{vendor}/{model}": {"GET": model},
    "/v1/chat/completions": {"POST": chat.complete},
    "/v1/responses": {"POST": responses.create},
    "/v1/responses/{response_id}": {"GET": responses.read, "DELETE": responses.delete},
    "/v1/responses/{response_id}/cancel": {"POST": responses.cancel},
    "/v1/responses/{response_id}/input_items": {"GET": responses.input_items},
    "/v1/completions": {"POST": not_here},
    "/v1/embeddings": {"POST": not_here},
    "/v1/moderations": {"POST": not_here},
    "/v1/images/{kind}": {"POST": not_here},
    "/v1/audio/{kind}": {"POST": not_here},
}


def open_door(gateway: GatewayParts) -> Door:
    """Return the door for clients of OpenAI's API, which authentication let in."""
    shared, runs = gateway.nodes.work.requests, gateway.runs()
    replays = partial(Replays, _REPLAY_SECONDS, conflict=_conflict, forgets=(StoreError, TurnRefused))
    parts = OpenAiParts(
        gateway=gateway,
        chats=Chats(runs, gateway.store, gateway.sessions, gateway.brief),
        answers=replays(shared=shared("openai"), codec=BytesCodec, size_of=len, limit=1000),
        streams=replays(
            shared=shared("openai stream"),
            codec=StreamCodec,
            size_of=attrgetter("size"),
            wait_for_end=StreamLines.wait_for_last,
            limit=100,
        ),
    )
    gateway.bus.subscribe(TokenRevoked, lambda event: parts.open_streams.revoke(event.token))
    return Door(_router(parts), close=runs.close)


def _router(parts: OpenAiParts) -> Router:
    """Return the router of this API, whose refusals have OpenAI's form."""

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
        no_path=_NOT_HERE,
        no_method="{method} can't be used at {path!r}: use {allow}.",
        complete=refuse_revoked,
    )

    async def read(request: AsgiRequest) -> dict[str, object]:
        client = RunClient.of_front(request.scope["state"]["admitted"])
        return {"request": OpenAiRequest(parts, client, request)}

    table = {
        path: {method: Endpoint(read, work, _respond) for method, work in methods.items()}
        for path, methods in _WORK.items()
    }
    return Router(table, envelope)


def _respond(answered: object) -> AsgiResponse:
    if isinstance(answered, AsgiResponse):
        return answered
    return AsgiResponse(msgspec.json.encode(answered), 200, PRIVATE, JSON)


def _conflict(key: str) -> Refusal:
    text = "This Idempotency-Key was used for another request: choose a new one."
    return OpenAiRefusal(409, text, code="idempotency_key_in_use")
