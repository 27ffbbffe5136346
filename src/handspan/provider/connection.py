"""A consumer's connection to a provider on the desktop: HTTP over its Unix socket (cetp.md 6.4 to 6.7)."""

import asyncio
import os
from pathlib import Path
from typing import Final

import h11
from msgspec import Struct

from handspan.core.errors import HandspanError
from handspan.core.values import encode
from handspan.provider.peer import peer_of
from handspan.wire.cetp import (
    REQUEST_BYTES,
    RESPONSE_BYTES,
    CetpError,
    CetpRequest,
    CetpResponse,
    no_response_error,
    read_response,
)

PATH: Final = "/cetp"
_HEADERS: Final = ((b"host", b"localhost"), (b"content-type", b"application/json"))
_CHUNK: Final = 64 * 1024
_MAX_IDLE: Final = 8
_MAX_PARTS: Final = 20_000
"""Chunks of one body: a million tiny ones are easy to send and slow to read."""


class CallFailed(HandspanError):
    """A provider gave no response to a request; the message says why."""

    def __init__(self, message: str, *, is_stale: bool = False) -> None:
        super().__init__(message)
        self.is_stale = is_stale
        """Whether the provider closed a kept connection before it saw the request (cetp.md 6.7)."""


class AnswerTooLarge(CallFailed):
    """A response has more bytes than the consumer takes. To ask again would bring the same."""


class HttpResponse(Struct, frozen=True):
    """The answer to one HTTP request."""

    status: int
    headers: dict[str, str]
    body: bytes


class ProviderSocket:
    """Calls one provider. Calls side by side have a connection each, and idle connections are used again."""

    def __init__(self, provider: str, path: Path, *, response_bytes: int = RESPONSE_BYTES) -> None:
        self._provider = provider
        self._path = path
        self._response_bytes = response_bytes
        self._idle: list[_Connection] = []

    async def call(self, request: CetpRequest, timeout: float | None = None) -> CetpResponse:
        """Return the provider's response; without a response, the error of cetp.md 2.6."""
        body = encode(request)
        if len(body) > REQUEST_BYTES:
            text = f"The request has {len(body):,} bytes, and at most {REQUEST_BYTES:,} are sent: ask with less"
            return CetpError("INVALID_ARGS", text)
        try:
            async with asyncio.timeout(timeout):
                response = await self.exchange("POST", PATH, body)
        except TimeoutError:
            return no_response_error(self._provider, f"no answer within {timeout:g} seconds")
        except AnswerTooLarge as error:
            return CetpError("INTERNAL_ERROR", f"The call of {self._provider} is not tried again: {error}")
        except CallFailed as error:
            return no_response_error(self._provider, str(error))
        if response.status != 200:
            return no_response_error(self._provider, f"it answered with HTTP status {response.status}")
        return read_response(response.body)

    async def exchange(self, method: str, target: str, body: bytes) -> HttpResponse:
        """Return the answer to one HTTP request. Raises `CallFailed`."""
        if self._idle:
            try:
                return await self._use(self._idle.pop(), method, target, body)
            except CallFailed as failure:
                if not failure.is_stale:
                    raise
        return await self._use(await self._connect(), method, target, body)

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().close()

    async def _use(self, connection: "_Connection", method: str, target: str, body: bytes) -> HttpResponse:
        """Return the response to a request on this connection. The next request may use the connection again."""
        try:
            response = await connection.exchange(method, target, body, self._response_bytes)
        except BaseException:
            connection.close()
            raise
        if connection.start_next() and len(self._idle) < _MAX_IDLE:
            self._idle.append(connection)
        else:
            connection.close()
        return response

    async def _connect(self) -> "_Connection":
        """Return a new connection. Raises `CallFailed`, also for a socket of another user."""
        try:
            reader, writer = await asyncio.open_unix_connection(self._path)
        except OSError as error:
            raise CallFailed(f"it can't be reached: {error.strerror or error}") from None
        peer = peer_of(writer.get_extra_info("socket"))
        if peer.uid not in (os.getuid(), 0):  # cetp.md 6.4
            writer.close()
            raise CallFailed(f"its socket belongs to another user (uid {peer.uid})")
        return _Connection(reader, writer)


class _Connection:
    """One connection, for one request after another."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.CLIENT)
        self._uses = 0

    async def exchange(self, method: str, target: str, body: bytes, most: int) -> HttpResponse:
        """Return the answer to one request, of at most `most` bytes. Raises `CallFailed`."""
        self._uses += 1
        try:
            self._send(method, target, body)
            await self._writer.drain()
            head, received = await self._receive(most)
        except h11.RemoteProtocolError as error:
            raise CallFailed(f"it does not speak HTTP: {error}") from None
        except OSError as error:
            raise self._cut_off_error(error.strerror or "the connection broke") from None
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers}
        return HttpResponse(head.status_code, headers, received)

    def start_next(self) -> bool:
        """Prepare for the next request. Return False when the connection can't be used again."""
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return not self._reader.at_eof()

    def close(self) -> None:
        self._writer.close()

    def _send(self, method: str, target: str, body: bytes) -> None:
        headers = [*_HEADERS, (b"content-length", b"%d" % len(body))]
        request = h11.Request(method=method, target=target, headers=headers)
        parts = [self._http.send(part) for part in (request, h11.Data(data=body), h11.EndOfMessage())]
        self._writer.write(b"".join(part for part in parts if part))

    async def _receive(self, most: int) -> tuple[h11.Response, bytes]:
        """Return the response: its head and at most `most` bytes. Raises `CallFailed`."""
        head: h11.Response | None = None
        parts: list[bytes] = []
        size = 0
        while True:
            match self._http.next_event():
                case h11.NEED_DATA:
                    await self._read_more(is_begun=head is not None)
                case h11.Response() as head:
                    pass
                case h11.Data(data=data):
                    parts.append(bytes(data))
                    size += len(data)
                    if size > most or len(parts) > _MAX_PARTS:
                        raise AnswerTooLarge(f"its answer has more than {most:,} bytes, or too many chunks")
                case h11.EndOfMessage() if head is not None:
                    return head, b"".join(parts)
                case h11.ConnectionClosed():
                    raise self._cut_off_error("the connection was closed")

    async def _read_more(self, *, is_begun: bool) -> None:
        data = await self._reader.read(_CHUNK)
        if not data and not is_begun:
            raise self._cut_off_error("the connection was closed")
        self._http.receive_data(data)

    def _cut_off_error(self, reason: str) -> CallFailed:
        """Return the error for a connection that ended before the answer."""
        return CallFailed(f"{reason} before the answer came", is_stale=self._uses > 1)
