"""`/v1/responses`: made, read, cancelled, forgotten (SPEC F2, F3)."""

from functools import partial
from typing import Final

import msgspec

from handspan.core.calls import new_call_id
from handspan.core.records import ResponseRow
from handspan.core.values import Json, JsonObject
from handspan.gateway.http.message import AsgiResponse
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.http.routing import JSON, PRIVATE
from handspan.gateway.openai.envelope import OpenAiRefusal, error_bytes, refusal_of
from handspan.gateway.openai.models import find_agent
from handspan.gateway.openai.request import OpenAiRequest
from handspan.gateway.openai.response_events import ResponseEvents, new_body
from handspan.gateway.openai.response_request import ItemReader, read_wishes
from handspan.gateway.openai.running import RunningChat, stream_lines, wait_whole
from handspan.gateway.runs.chats import ChatEnd, ChatRequest
from handspan.gateway.runs.lines import StreamLines
from handspan.wire.openai.reading import read_body
from handspan.wire.openai.responses import NamedConversation, ResponsesBody

_STILL: Final = ("queued", "in_progress")
_LOST: Final[JsonObject] = {"code": "server_error", "message": "The gateway ended while it worked on this response."}


class _Making:
    """One response that is being made."""

    def __init__(self, request: OpenAiRequest, body: ResponsesBody, chat: ChatRequest) -> None:
        self.request, self.body, self.chat = request, body, chat
        self.id = chat.response_id
        self._session = ""

    async def begin(self, events: ResponseEvents) -> RunningChat:
        """Store the response, if it is to be found again, and begin its run."""
        chats, client = self.request.door.chats, self.request.client
        self._session = chats.session_for(client, self.chat)
        await self._save(events.body, 0)
        return RunningChat(
            self.request, self.chat, events, in_stream=self.body.stream, at_end=partial(self._end, events)
        )

    async def _end(self, events: ResponseEvents, run: RunningChat, end: ChatEnd | Exception) -> None:
        """Complete the response, and store it."""
        if isinstance(end, Exception):
            events.end_failed(refusal_of(end))
        else:
            self._session = end.session
            events.end(end, run.teller.meter, has_form=run.has_form)
        known = await self.request.parts.store.conversations.find(self._session, owner=self.request.client.owner)
        await self._save(events.body, 0 if known is None else known.length)

    async def _save(self, body: JsonObject, length: int) -> None:
        """Store the response with its input, unless the client wishes that it is not stored."""
        if not self.body.store:
            return
        client = self.request.client
        given = self.body.input
        items: Json = [{"type": "message", "role": "user", "content": given}] if isinstance(given, str) else [*given]
        row = ResponseRow(
            self.id,
            client.owner,
            client.id,
            self._session,
            length=length,
            body=msgspec.json.encode(body),
            input=msgspec.json.encode(items),
        )
        await self.request.parts.store.responses.save(row)


async def create(request: OpenAiRequest) -> AsgiResponse:
    """Make a response."""
    raw = await request.body()
    body, ignored = read_body(raw, ResponsesBody)
    agent = await find_agent(request.parts, request.client, body.model)
    reader = ItemReader(request)
    await reader.read(body.input)
    wishes = read_wishes(request, body, agent.name, reader.instructions)
    previous = await _find(request, body.previous_response_id) if body.previous_response_id else None
    if previous is not None and not previous.length:
        raise OpenAiRefusal(400, "The previous response has not ended.", "previous_response_id", "invalid_value")
    response_id = f"resp_{new_call_id().replace('-', '')}"
    chat = ChatRequest(
        wishes=wishes,
        entries=reader.entries,
        key=_key(body, response_id),
        session="" if previous is None else previous.session,
        after=0 if previous is None else previous.length,
        is_only_new=bool(_conversation(body)) or previous is not None,
        response_id=response_id,
    )
    headers = {"x-handspan-ignored": ", ".join(ignored)} if ignored else {}
    making = _Making(request, body, chat)
    if body.stream:
        return await stream_lines(request, raw, headers, partial(_begin_stream, making))
    answer = await request.door.answers.answer(
        request.client.id, request.idempotency_key, request.fingerprint(raw), partial(_answer, making)
    )
    return AsgiResponse(answer, 200, {**PRIVATE, **headers}, JSON)


async def _answer(making: _Making) -> bytes:
    """Run the request, and return the whole response; in the background, return how it begins."""
    events = ResponseEvents(_ignore, _repeat(making))
    events.status = "queued" if making.body.background else "in_progress"
    first = events.body
    run = await making.begin(events)
    if making.body.background:
        run.is_detached = True
        return msgspec.json.encode(first)
    await wait_whole(run)
    return msgspec.json.encode(events.body)


async def _begin_stream(making: _Making) -> tuple[StreamLines, RunningChat]:
    """Begin the run, and return its stream of events."""
    request = making.request
    lines = request.door.open_streams.open(request.token, _error_line)
    events = ResponseEvents(lines.put, _repeat(making))
    run = await making.begin(events)
    events.open()
    run.is_open = True
    run.is_detached = making.body.background
    run.write(lines, events)
    return lines, run


async def read(request: OpenAiRequest) -> AsgiResponse:
    """Return a response as it is now."""
    query = request.asgi.query_params
    if query.get("stream", "").lower() == "true" or "starting_after" in query:
        text = "A response that was made can be read here, and its stream can't be begun again: leave stream out."
        raise OpenAiRefusal(400, text, "stream", "unsupported_value")
    row = await _find(request, request.asgi.path_params["response_id"])
    return AsgiResponse(msgspec.json.encode(await _body_now(request, row)), 200, PRIVATE, JSON)


async def delete(request: OpenAiRequest) -> AsgiResponse:
    """Forget the id of a response. Its conversation stays."""
    response_id = request.asgi.path_params["response_id"]
    client = request.client
    if not await request.parts.store.responses.delete(response_id, owner=client.owner, client=client.id):
        raise _missing(response_id)
    gone: JsonObject = {"id": response_id, "object": "response.deleted", "deleted": True}
    return AsgiResponse(msgspec.json.encode(gone), 200, PRIVATE, JSON)


async def cancel(request: OpenAiRequest) -> AsgiResponse:
    """Stop a response that is being made."""
    row = await _find(request, request.asgi.path_params["response_id"])
    if msgspec.json.decode(row.body).get("status") in _STILL:
        await request.parts.runs().stop(request.client, row.session)
        await request.parts.sessions.until_stored(row.session, row.owner)
    return AsgiResponse(msgspec.json.encode(await _body_now(request, row)), 200, PRIVATE, JSON)


async def input_items(request: OpenAiRequest) -> AsgiResponse:
    """Return what the request of a response has brought."""
    row = await _find(request, request.asgi.path_params["response_id"])
    items = [{"id": f"in_{number}", **item} for number, item in enumerate(msgspec.json.decode(row.input))]
    first, last = (items[0]["id"], items[-1]["id"]) if items else ("", "")
    listed: JsonObject = {"object": "list", "data": [*items], "first_id": first, "last_id": last, "has_more": False}
    return AsgiResponse(msgspec.json.encode(listed), 200, PRIVATE, JSON)


async def _body_now(request: OpenAiRequest, row: ResponseRow) -> JsonObject:
    """Return the stored response; one that runs is in progress, and one whose process died has failed."""
    row = await _find(request, row.id)
    body: JsonObject = msgspec.json.decode(row.body)
    if body.get("status") not in _STILL:
        return body
    if request.parts.sessions.state(row.session, row.owner) is None:
        known = await request.parts.store.conversations.find(row.session, owner=row.owner)
        if known is None or known.state == "idle":
            return {**body, "status": "failed", "error": _LOST}
    return {**body, "status": "in_progress"}


async def _find(request: OpenAiRequest, response_id: str) -> ResponseRow:
    client = request.client
    row = await request.parts.store.responses.find(response_id, owner=client.owner, client=client.id)
    if row is None:
        raise _missing(response_id)
    return row


def _missing(response_id: str) -> Refusal:
    text = f"There is no response {response_id[:80]!r}: it was not stored, was forgotten, or is another token's."
    return OpenAiRefusal(404, text, code="response_not_found")


def _conversation(body: ResponsesBody) -> str:
    named = body.conversation
    return named.id if isinstance(named, NamedConversation) else named


def _key(body: ResponsesBody, response_id: str) -> str:
    if named := _conversation(body):
        return f"conversation:{named}"
    return f"response:{response_id}" if body.store else ""


def _repeat(making: _Making) -> JsonObject:
    """Return the body of a new response, which repeats what the request says."""
    body, named = making.body, _conversation(making.body)
    tools: Json = [msgspec.to_builtins(tool) for tool in body.tools or []]
    return new_body(
        making.id,
        model=body.model,
        instructions=body.instructions or None,
        previous_response_id=body.previous_response_id or None,
        conversation={"id": named} if named else None,
        store=body.store,
        background=body.background,
        max_output_tokens=body.max_output_tokens,
        temperature=body.temperature,
        top_p=body.top_p,
        parallel_tool_calls=body.parallel_tool_calls,
        tool_choice=msgspec.to_builtins(body.tool_choice),
        tools=tools,
        reasoning={"effort": body.reasoning.effort or None, "summary": None},
        text={"format": {"type": body.text.format.type}},
        metadata=body.metadata,
        user=body.user or None,
    )


def _error_line(refusal: Refusal) -> bytes:
    """Return an error as the last event of a stream."""
    return b"event: error\ndata: %b\n" % error_bytes(refusal)


def _ignore(_: bytes) -> None:
    """The `put` of a whole answer."""
