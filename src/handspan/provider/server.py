"""Serves a provider on its Unix socket: HTTP by `h11`, bounded in time, size and number (cetp.md 6.4 to 6.9).

The socket is a file: made for one process at a time, private, and removed at the end.
"""

import asyncio
import contextlib
import fcntl
import os
import socket
import stat
from pathlib import Path
from typing import Final, Protocol

import h11

from handspan.core.errors import HandspanError, WireError
from handspan.core.tasks import Tasks
from handspan.core.values import encode
from handspan.provider.connection import PATH
from handspan.provider.peer import Consumer, identify
from handspan.wire.cetp import (
    REQUEST_BYTES,
    CetpCode,
    CetpError,
    CetpRequest,
    CetpResponse,
    read_request,
)

_MAX_CONNECTIONS: Final = 64
_REQUEST_SECONDS: Final = 10.0
"""How long a request may take from its first byte on, and how long a consumer may take to read the answer."""
_QUIET_SECONDS: Final = 60.0
"""How long a connection may be silent between two requests."""
_ACCEPTING_TURNS: Final = 5
"""Turns of the event loop from the arrival of a connection to its callback. Closing before loses the connection."""
_LINGER_SECONDS: Final = 1.0
_MAX_LINGERING: Final = 100
_CHUNK: Final = 64 * 1024
_MAX_PARTS: Final = 20_000


class AlreadyServed(HandspanError):
    """Another process serves this socket."""


class ListeningSocket:
    """A Unix socket that listens while it is open. A lock beside it says which process has it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock: int | None = None
        self._inode = 0
        """The socket's file that this process made: `close` removes no other."""
        self.listener: socket.socket | None = None

    @property
    def is_open(self) -> bool:
        """Whether this process listens."""
        return self._lock is not None

    def open(self) -> None:
        """Listen. A socket that a dead process left is replaced. Raises `AlreadyServed` and `OSError`."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise AlreadyServed(f"Another process serves {str(self._path)!r}.") from None
        try:
            self._bind()
        except BaseException:
            os.close(lock)
            raise
        self._lock = lock

    def close(self) -> None:
        """Stop listening, and let another process have the socket."""
        if self._lock is None:
            return
        with contextlib.suppress(OSError):
            if self._path.lstat().st_ino == self._inode:
                self._path.unlink()
        os.close(self._lock)
        self._lock = None

    def _bind(self) -> None:
        """Listen at the path. Only the person's own programs can connect."""
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISSOCK(self._path.lstat().st_mode):
                self._path.unlink()
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            os.fchmod(made.fileno(), 0o600)  # on Linux the file gets the mode of the descriptor
            made.bind(os.fspath(self._path))
            self._path.chmod(0o600)
            made.listen(64)
        except BaseException:
            made.close()
            raise
        self._inode = self._path.lstat().st_ino
        self.listener = made


class RequestAnswerer(Protocol):
    """The provider that a server serves."""

    async def answer(self, request: CetpRequest, consumer: Consumer) -> CetpResponse: ...


class _HttpRefusal(Exception):
    """A request that does not get as far as the provider (cetp.md 6.6)."""

    def __init__(self, status: int, code: CetpCode, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.answer = CetpError(code, message)


class ProviderServer:
    """Listens for consumers while it is open: `async with ProviderServer(provider, path) as server`."""

    def __init__(self, provider: RequestAnswerer, path: Path) -> None:
        self._provider = provider
        self._socket = ListeningSocket(path)
        self._server: asyncio.Server | None = None
        self._connections = Tasks()
        self._busy: set[asyncio.Task[None]] = set()
        """The connections that have a request now."""
        self._used = asyncio.Event()
        """Set after each request."""

    def open_socket(self) -> None:
        """Make the socket: consumers can connect, and wait for `__aenter__`. Raises `AlreadyServed` and `OSError`."""
        self._socket.open()

    async def __aenter__(self) -> "ProviderServer":
        """Listen. Raises `AlreadyServed` when another process does, and `OSError`."""
        if not self._socket.is_open:
            self._socket.open()
        self._server = await asyncio.start_unix_server(self._accept, sock=self._socket.listener, limit=_CHUNK)
        return self

    async def __aexit__(self, *_exception: object) -> None:
        """Stop listening, so that another process may; then let requests that run end, for a short time."""
        self._socket.close()
        for _ in range(_ACCEPTING_TURNS):
            await asyncio.sleep(0)
        if self._server is not None:
            self._server.close()
        if self._busy:
            await asyncio.wait(self._busy, timeout=_REQUEST_SECONDS)
        await self._connections.close()

    @property
    def connections(self) -> int:
        """How many consumers are connected."""
        return len(self._connections)

    async def wait_until_idle(self, seconds: float) -> None:
        """Return when no request has come for `seconds`, and none runs."""
        while True:
            self._used.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._used.wait()
            except TimeoutError:
                if not self._busy:
                    return

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = self._connections.start(self._serve(_Exchange(reader, writer), writer))
        task.add_done_callback(lambda _: _close(writer))  # also when it was cancelled before it began

    async def _serve(self, exchange: "_Exchange", writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection, one after the other."""
        task = asyncio.current_task()
        assert task is not None  # `_accept` makes it
        with contextlib.suppress(OSError, TimeoutError):  # the consumer is gone, or does not read
            if len(self._connections) > _MAX_CONNECTIONS:
                await exchange.refuse(_HttpRefusal(503, "RATE_LIMITED", "Too many connections: close some"))
                return
            consumer = identify(writer.get_extra_info("socket"))
            while await self._serve_one(exchange, consumer, task):
                pass
            await exchange.linger()

    async def _serve_one(self, exchange: "_Exchange", consumer: Consumer, task: "asyncio.Task[None]") -> bool:
        """Answer one request. Return whether the connection may have another one."""
        try:
            body = await exchange.read()
            if body is None:
                return False
            self._busy.add(task)
            answer = await self._provider.answer(_decode(body), consumer)
            return await exchange.respond(200, encode(answer)) and self._socket.is_open
        except _HttpRefusal as refusal:
            return await exchange.refuse(refusal)
        finally:
            self._busy.discard(task)
            self._used.set()


def _close(writer: asyncio.StreamWriter) -> None:
    """Close the connection; what the consumer does not read is dropped."""
    writer.transport.abort() if writer.transport.get_write_buffer_size() else writer.close()


def _decode(body: bytes) -> CetpRequest:
    try:
        return read_request(body)
    except WireError as error:
        raise _HttpRefusal(400, "INVALID_ARGS", str(error)) from None


class _Exchange:
    """The HTTP of one connection: a request in, a response out, one after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.SERVER)

    async def read(self) -> bytes | None:
        """Return the body of the next request; None when there is none. Raises `_HttpRefusal`."""
        first = await self._first_bytes()
        if first is None:
            return None
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                return await self._read_request(first)
        except TimeoutError:
            raise _HttpRefusal(408, "INVALID_ARGS", "The request did not come to its end in time") from None
        except h11.RemoteProtocolError as error:
            raise _HttpRefusal(400, "INVALID_ARGS", f"Not HTTP: {error}") from None

    async def refuse(self, refusal: _HttpRefusal) -> bool:
        """Send the refusal. Return whether the connection may go on."""
        if self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return False
        allow = [(b"allow", b"POST")] if refusal.status == 405 else []
        return await self.respond(refusal.status, encode(refusal.answer), allow)

    async def respond(self, status: int, body: bytes, more: list[tuple[bytes, bytes]] | None = None) -> bool:
        """Send a response. Return whether the connection may have another request."""
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), *(more or ())]
        if self._http.their_state is not h11.DONE:  # the rest of the request is not read
            headers.append((b"connection", b"close"))
        head = h11.Response(status_code=status, headers=headers)
        parts = [self._http.send(part) for part in (head, h11.Data(data=body), h11.EndOfMessage())]
        self._writer.write(b"".join(part for part in parts if part))
        async with asyncio.timeout(_REQUEST_SECONDS):
            await self._writer.drain()
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

    async def linger(self) -> None:
        """Read the rest of a refused request: if the socket closed before that, the consumer would lose the answer."""
        if self._http.their_state is not h11.SEND_BODY and self._http.their_state is not h11.ERROR:
            return
        self._writer.write_eof()
        async with asyncio.timeout(_LINGER_SECONDS):
            for _ in range(_MAX_LINGERING):
                if not await self._reader.read(_CHUNK):
                    return

    async def _first_bytes(self) -> bytes | None:
        """Return the first bytes of a request; empty when some are there already. None: the consumer is done."""
        if self._http.trailing_data[0]:
            return b""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_QUIET_SECONDS):
                return await self._reader.read(_CHUNK) or None
        return None

    async def _read_request(self, first: bytes) -> bytes | None:
        """Return the body of the next request; None when the consumer has closed the connection."""
        if first:
            self._http.receive_data(first)
        parts: list[bytes] = []
        size = 0
        while True:
            match self._http.next_event():
                case h11.NEED_DATA:
                    await self._read_more()
                case h11.Request() as head:
                    _check_head(head)
                case h11.Data(data=data):
                    parts.append(bytes(data))
                    size += len(data)
                    if size > REQUEST_BYTES or len(parts) > _MAX_PARTS:
                        raise _too_large()
                case h11.EndOfMessage():
                    return b"".join(parts)
                case h11.ConnectionClosed():
                    return None

    async def _read_more(self) -> None:
        if self._http.they_are_waiting_for_100_continue:
            go_on = h11.InformationalResponse(status_code=100, headers=[])
            self._writer.write(self._http.send(go_on) or b"")
        self._http.receive_data(await self._reader.read(_CHUNK))


def _check_head(head: h11.Request) -> None:
    """Raise `_HttpRefusal` for a wrong path or method, or a body that is too large."""
    if head.target != PATH.encode():
        raise _HttpRefusal(404, "TOOL_NOT_FOUND", f"There is nothing at this path: send requests to {PATH}")
    if head.method != b"POST":
        raise _HttpRefusal(405, "TOOL_NOT_FOUND", "Requests are sent with POST")
    length = dict(head.headers).get(b"content-length", b"0")
    if len(length) > 9 or int(length) > REQUEST_BYTES:
        raise _too_large()


def _too_large() -> _HttpRefusal:
    return _HttpRefusal(413, "INVALID_ARGS", f"A request has at most {REQUEST_BYTES:,} bytes")
