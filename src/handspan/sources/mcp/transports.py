"""How messages go between the SDK and an MCP server: over the pipes of its process, or over HTTP.

A server that sends a flood of requests without waiting for our answers loses its link (SPEC S7).
"""

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from contextvars import Context
from typing import Any, Final, Self

import anyio
import httpx2
import mcp_types as types
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.jsonrpc_dispatcher import cancelled_request_id_from_params
from mcp.shared.message import SessionMessage

from handspan.sources.mcp.http_limits import limit_requests
from handspan.sources.mcp.process import LONGEST_MESSAGE, ServerLost, ServerProcess
from handspan.sources.mcp.server_answers import AnswerReader

_MAX_OPEN: Final = 100
"""Requests of one server without an answer. Each is a task of ours, and a question to a person may wait for long."""
_FLOOD: Final = f"it sent more than {_MAX_OPEN} requests without waiting for our answers"


@asynccontextmanager
async def over_pipes(process: ServerProcess, answers: AnswerReader) -> AsyncGenerator[Any]:
    """Carry messages between the SDK and the process, one JSON text a line."""
    to_sdk, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_server, from_sdk = anyio.create_memory_object_stream[SessionMessage](0)
    requests = _ServerRequests()

    async def read() -> None:
        """Pass on what the process says, until its output ends. A message that is too long ends the link."""
        async with to_sdk:
            with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, ConnectionError):
                try:
                    async for line in process.stdout:
                        received = answers.parse(line)
                        if isinstance(received, SessionMessage):
                            requests.note_received(received.message)
                        await to_sdk.send(received)
                except ServerLost as error:
                    process.fault = str(error)
                except ValueError:  # a line longer than the limit
                    process.fault = f"it sent a message of more than {LONGEST_MESSAGE} bytes"
        answers.lost.set()

    async def write() -> None:
        """Send the SDK's messages to the process."""
        async with from_sdk:
            with suppress(ConnectionError):
                async for sent in from_sdk:
                    text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
                    process.stdin.write(text.encode() + b"\n")
                    await process.stdin.drain()
                    requests.note_sent(sent.message)
        answers.lost.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        tasks.start_soon(write)
        try:
            yield from_server, to_server
        finally:
            tasks.cancel_scope.cancel()
            for stream in (to_sdk, from_server, to_server, from_sdk):
                stream.close()


@asynccontextmanager
async def over_http(url: str, http: httpx2.AsyncClient, answers: AnswerReader) -> AsyncGenerator[Any]:
    """Carry messages between the SDK and the server at this address."""
    limit_requests(http)
    transport: Any = streamable_http_client(url, http_client=http, max_sse_event_size=LONGEST_MESSAGE)
    async with transport as (incoming, outgoing):
        requests = _ServerRequests()
        yield _CompletedStream(incoming, answers, requests), _CountedStream(outgoing, requests)


class _ServerRequests:
    """Counts the open requests of one link. An id that is used twice counts twice."""

    def __init__(self) -> None:
        self._open: Counter[types.RequestId] = Counter()

    def note_received(self, message: types.JSONRPCMessage) -> None:
        """Count an open request of the server; a request that it cancels is over. Raises `ServerLost` for too many."""
        match message:
            case types.JSONRPCRequest(id=request_id):
                self._open[request_id] += 1
                if self._open.total() > _MAX_OPEN:
                    raise ServerLost(_FLOOD)
            case types.JSONRPCNotification(method="notifications/cancelled", params=params):
                cancelled = cancelled_request_id_from_params(params)
                if cancelled is not None:
                    self._end(cancelled)

    def note_sent(self, message: types.JSONRPCMessage) -> None:
        """Note an answer to the server: the request is over."""
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError) and message.id is not None:
            self._end(message.id)

    def _end(self, request_id: types.RequestId) -> None:
        self._open[request_id] -= 1
        if self._open[request_id] <= 0:
            del self._open[request_id]


class _CompletedStream:
    """A stream of messages that gives every answer a result type. The end of the stream is the loss of the link."""

    def __init__(self, stream: Any, answers: AnswerReader, requests: _ServerRequests) -> None:
        self._stream = stream
        self._answers = answers
        self._requests = requests
        self.last_context: Context | None = None
        """The context of the request that the last message is about."""

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message."""
        try:
            received: SessionMessage | Exception = await self._stream.receive()
        except anyio.EndOfStream:
            self._answers.lost.set()
            raise
        self.last_context = self._stream.last_context
        if isinstance(received, Exception):
            return received
        self._requests.note_received(received.message)
        self._answers.take(received.message)
        return received

    async def aclose(self) -> None:
        """End the stream."""
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class _CountedStream:
    """The stream of our messages to a server, which counts our answers."""

    def __init__(self, stream: Any, requests: _ServerRequests) -> None:
        self._stream = stream
        self._requests = requests

    async def send(self, item: SessionMessage, /) -> None:
        """Send this message."""
        await self._stream.send(item)
        self._requests.note_sent(item.message)

    async def aclose(self) -> None:
        """End the stream."""
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
