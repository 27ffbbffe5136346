"""A forward proxy for the commands of a sandbox: everything that they request passes the URL policy (SPEC S2, S3).

It understands `GET http://…` and the like, and `CONNECT host:port` for TLS. It looks names up itself, and connects to
checked addresses only. A redirect is a new request of the client, so it is checked like the first one. One proxy serves
one command: it is bounded in connections and bytes, and ends with the command.
"""

import asyncio
import contextlib
import socket
from typing import Final, Self

import h11
from msgspec import Struct

from handspan.core.errors import ToolError
from handspan.net.dial import Streams
from handspan.net.forward_http import CHUNK, HttpLink, pass_request, refuse
from handspan.net.guard import NetGuard
from handspan.net.urls import Url, parse_url

MAX_PROBLEMS: Final = 5
_HEAD_SECONDS: Final = 30.0
"""For the head of a request, and for the first bytes of a tunnel."""
_MAX_DIALS: Final = 8
"""Connections that are being made at once. Each may hold a thread that looks a name up."""
_RETRY_SECONDS: Final = 0.2
_TLS_HANDSHAKE: Final = b"\x16"
"""The first byte of every TLS connection."""


class ProxyLimits(Struct, frozen=True):
    """What one command may use."""

    connections: int = 32
    """Connections that are open at once; further ones wait until one is closed."""
    bytes: int = 1024**3
    """Bytes in both directions together. Beyond this limit all connections are closed."""


class BytesUsedUp(Exception):
    """The command has sent and received as many bytes as it may."""


class ForwardProxy:
    """Serves one command. `async with ForwardProxy(guard) as proxy` ends with all connections closed."""

    def __init__(self, guard: NetGuard, limits: ProxyLimits = ProxyLimits()) -> None:  # noqa: B008 - frozen
        self.problems: list[str] = []
        """Why requests were refused or failed: the first few, for the result of the command."""
        self._guard = guard
        self._limits = limits
        self._bytes = 0
        self._dials = asyncio.Semaphore(_MAX_DIALS)
        self._turns = asyncio.Lock()
        self._listener: socket.socket | None = None
        self._open: dict[asyncio.Task[None], socket.socket] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = None
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    def serve(self, listener: socket.socket) -> None:
        """Accept connections from this listening socket, which is the proxy's from now on."""
        listener.setblocking(False)  # noqa: FBT003 - its only parameter
        self._listener = listener
        self._listen()

    def _listen(self) -> None:
        """Accept connections, unless as many as are allowed are open."""
        if self._listener is not None and len(self._open) < self._limits.connections:
            asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        """Take one connection. At the limit the others wait in the queue of the listening socket."""
        assert self._listener is not None
        loop = asyncio.get_running_loop()
        try:
            connection, _ = self._listener.accept()
        except BlockingIOError:
            return
        except OSError:  # out of descriptors, or the connection is gone already
            loop.remove_reader(self._listener)
            loop.call_later(_RETRY_SECONDS, self._listen)
            return
        task = loop.create_task(self._serve_connection(connection))
        self._open[task] = connection
        task.add_done_callback(self._forget)
        if len(self._open) >= self._limits.connections:
            loop.remove_reader(self._listener)

    def _forget(self, task: asyncio.Task[None]) -> None:
        """Close the connection of a finished task, and raise the task's error, if there is one."""
        self._open.pop(task).close()
        if not task.cancelled():
            task.result()
        self._listen()

    async def _serve_connection(self, connection: socket.socket) -> None:
        """Answer the requests of one connection, until either end closes it."""
        streams = await asyncio.open_connection(sock=connection)
        try:
            client = HttpLink(h11.SERVER, streams, self._count, self._turns)
            await self._answer(client)
            client.writer.close()
            await client.writer.wait_closed()
        except* (OSError, h11.ProtocolError, BytesUsedUp):
            pass  # either end broke off, or does not speak HTTP: closing the connection is the answer
        finally:
            streams[1].transport.abort()

    async def _answer(self, client: HttpLink) -> None:
        """Read one request and answer it. A connection serves one request: the answer says that it closes then."""
        async with asyncio.timeout(_HEAD_SECONDS):
            request = await client.receive()
        if not isinstance(request, h11.Request):
            return
        try:
            url = _requested_url(request)
            async with self._dials:
                streams = await self._guard.open_streams(url.host, url.port)
        except ToolError as error:
            self._note(error.message)
            await refuse(client, error)
            return
        try:
            if request.method == b"CONNECT":
                await self._tunnel(client, streams, url)
            else:
                await pass_request(client, request, url, HttpLink(h11.CLIENT, streams, self._count, self._turns))
        finally:
            streams[1].transport.abort()

    async def _tunnel(self, client: HttpLink, upstream: Streams, url: Url) -> None:
        """Pass bytes both ways. They must be TLS: other protocols, such as ssh and mail, stay closed."""
        await client.receive()  # the end of the request, which has no body
        await client.send(h11.Response(status_code=200, headers=[], reason=b"Connection established"))
        first, _ = client.state.trailing_data
        async with asyncio.timeout(_HEAD_SECONDS):
            first = first or await client.reader.read(CHUNK)
        if not first.startswith(_TLS_HANDSHAKE):
            self._note(f"The proxy closed the connection to {url.host!r} port {url.port}: only TLS may go through it.")
            return
        upstream[1].write(first)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._pump(client.reader, upstream[1]))
            tasks.create_task(self._pump(upstream[0], client.writer))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK):
            self._count(len(data))
            writer.write(data)
            await writer.drain()
        with contextlib.suppress(OSError):  # the other side may be gone already
            writer.write_eof()

    def _count(self, number: int) -> None:
        """Count these bytes. Raises `BytesUsedUp` beyond the limit."""
        self._bytes += number
        if self._bytes > self._limits.bytes:
            self._note(
                f"The command has used its {self._limits.bytes} bytes of network (tools.sandbox.network_bytes): "
                "ask for less at once."
            )
            raise BytesUsedUp

    def _note(self, problem: str) -> None:
        if problem not in self.problems and len(self.problems) < MAX_PROBLEMS:
            self.problems.append(problem)


def _requested_url(request: "h11.Request") -> Url:
    """Return the URL that the request asks for. Raises `ToolError` for a request that this proxy does not serve."""
    target = request.target.decode("ascii", "replace")
    if request.method == b"CONNECT":
        return parse_url(f"https://{target}")
    url = parse_url(target)
    if url.scheme != "http":
        raise ToolError("invalid_arguments", f"Not a request for this proxy: {target!r:.200}. Use CONNECT for https.")
    return url
