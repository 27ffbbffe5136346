"""A real HTTP server on loopback for tests: each path answers with given bytes or with a function of its own."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TypeAlias

from msgspec import Struct


class Seen(Struct):
    """A request as it arrived."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


Answer: TypeAlias = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]


def response(
    body: bytes = b"", status: str = "200 OK", headers: dict[str, str] | None = None, *, length: bool = True
) -> bytes:
    """A whole HTTP answer."""
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in (headers or {}).items())]
    if length:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode() + body


def redirect(location: str, status: str = "302 Found") -> bytes:
    """An answer that leads elsewhere."""
    return response(status=status, headers={"Location": location})


class Site:
    """`async with Site({"/": response(b"hello")}) as site` serves on a free port and remembers what it was asked."""

    def __init__(
        self, routes: dict[str, Answer], host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
    ) -> None:
        self.routes = routes
        self.host = host
        self.port = port
        self.seen: list[Seen] = []
        self.connections = 0
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def url(self, path: str = "/", host: str | None = None) -> str:
        scheme = "https" if self._tls else "http"
        return f"{scheme}://{host or self.host}:{self.port}{path}"

    async def __aenter__(self) -> "Site":
        self._server = await asyncio.start_server(self._accept, self.host, self.port, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("utf-8")
        first, *lines = head.rstrip("\r\n").split("\r\n")
        method, target, _ = first.split(" ")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        self.seen.append(Seen(method, target, headers, body))
        answer = self.routes.get(target.partition("?")[0], response(b"nothing here", "404 Not Found"))
        if callable(answer):
            await answer(writer)
        else:
            writer.write(answer)
            await writer.drain()
