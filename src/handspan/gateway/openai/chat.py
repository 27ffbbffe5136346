"""`POST /v1/chat/completions`: whole answers and streams (SPEC F2, F3, F6)."""

from functools import partial

from handspan.gateway.http.message import AsgiResponse
from handspan.gateway.http.routing import JSON, PRIVATE
from handspan.gateway.openai.chat_request import read_chat_request
from handspan.gateway.openai.chunks import ChatChunks, WholeAnswer, error_line
from handspan.gateway.openai.request import OpenAiRequest
from handspan.gateway.openai.running import RunningChat, stream_lines, wait_whole
from handspan.gateway.runs.chats import ChatRequest
from handspan.gateway.runs.lines import StreamLines
from handspan.wire.openai.chat import ChatBody
from handspan.wire.openai.reading import read_body


async def complete(request: OpenAiRequest) -> AsgiResponse:
    """Answer a request of Chat Completions."""
    raw = await request.body()
    body, ignored = read_body(raw, ChatBody)
    chat = await read_chat_request(request, body)
    headers = {"x-handspan-ignored": ", ".join(ignored)} if ignored else {}
    if body.stream:
        return await stream_lines(request, raw, headers, partial(_begin_stream, request, body, chat))
    answer = await request.door.answers.answer(
        request.client.id, request.idempotency_key, request.fingerprint(raw), partial(_answer, request, body, chat)
    )
    return AsgiResponse(answer, 200, {**PRIVATE, **headers}, JSON)


async def _answer(request: OpenAiRequest, body: ChatBody, chat: ChatRequest) -> bytes:
    """Run the request, and return the body of its answer."""
    sink = WholeAnswer()
    run = RunningChat(request, chat, sink, in_stream=False)
    end = await wait_whole(run)
    return sink.encode(body.model, end, run.teller.meter, has_form=run.has_form)


async def _begin_stream(request: OpenAiRequest, body: ChatBody, chat: ChatRequest) -> tuple[StreamLines, RunningChat]:
    """Begin the run, and return its lines."""
    lines = request.door.open_streams.open(request.token, error_line)
    chunks = ChatChunks(lines.put, body.model, with_usage=body.stream_options.include_usage)
    run = RunningChat(request, chat, chunks, in_stream=True)
    run.write(lines, chunks)
    return lines, run
