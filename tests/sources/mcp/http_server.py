"""An MCP server at an address of this computer, as bad as its test wants it. It speaks the older era."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, TypeAlias

Answer: TypeAlias = Callable[["Exchange"], Awaitable[bool]]
"""Answers a request in the test's own way. False: the server answers it as a good one does."""
TOOLS: Final = [{"name": "echo", "description": "Say it again.", "inputSchema": {"type": "object"}}]


class Exchange:
    """One request, and the way of its answer."""

    def __init__(self, method: str, message: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        self.method = method
        """Of HTTP; for a message its own: `tools/call`."""
        self.message = message
        self.writer = writer

    async def send(self, body: bytes = b"", content_type: str = "application/json", status: str = "200 OK") -> None:
        head = f"HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\nmcp-session-id: one\r\n"
        self.writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        await self.writer.drain()

    async def result(self, value: Any, *, is_event: bool = False) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": self.message["id"], "result": value}).encode()
        if is_event:
            await self.send(b"event: message\r\ndata: %b\r\n\r\n" % body, "text/event-stream")
        else:
            await self.send(body)

    async def answer_well(self) -> None:
        match self.method:
            case "GET":
                await self.send(status="405 Method Not Allowed")
            case "DELETE":
                await self.send()
            case "initialize":
                version, info = self.message["params"]["protocolVersion"], {"name": "bad", "version": "1"}
                capabilities = {"tools": {"listChanged": True}}
                await self.result({"protocolVersion": version, "capabilities": capabilities, "serverInfo": info})
            case "tools/list":
                await self.result({"tools": TOOLS})
            case "tools/call":
                await self.result({"content": [{"type": "text", "text": "well"}]})
            case _ if "id" in self.message:
                error = {"code": -32601, "message": "Method not found"}
                await self.send(json.dumps({"jsonrpc": "2.0", "id": self.message["id"], "error": error}).encode())
            case _:
                await self.send(status="202 Accepted")


@asynccontextmanager
async def http_server(answer: Answer) -> AsyncIterator[str]:
    """The address of a server that answers as the test says."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                exchange = await _read(reader, writer)
                if not await answer(exchange):
                    await exchange.answer_well()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(lambda _: writer.close())

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Exchange:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    lengths = [int(line.partition(":")[2]) for line in head if line.lower().startswith("content-length:")]
    message = json.loads(await reader.readexactly(lengths[0])) if lengths and lengths[0] else {}
    return Exchange(message.get("method", head[0].split()[0]), message, writer)
