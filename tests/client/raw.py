"""A WebSocket server that sends exactly the given bytes, over a real socket. Every wait is bounded."""

import asyncio
import base64
import hashlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from websockets.frames import Frame, Opcode

SECONDS = 60.0
_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def frame(payload: bytes, opcode: Opcode = Opcode.TEXT, *, fin: bool = True) -> bytes:
    """A frame as a server sends it."""
    return Frame(opcode, payload, fin).serialize(mask=False)


class RawLink:
    """One connection, from the server's side."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._answer = b""

    async def hear_request(self) -> str:
        """The head of the client's request; the right answer to it is ready then."""
        async with asyncio.timeout(SECONDS):
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode()
        key = next(line.split(": ")[1] for line in head.split("\r\n") if line.lower().startswith("sec-websocket-key"))
        accept = base64.b64encode(hashlib.sha1((key + _GUID).encode()).digest()).decode()
        self._answer = (
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Accept: {accept}\r\n\r\n"
        ).encode()
        return head

    async def accept(self, *more: bytes) -> None:
        """Upgrade, with these bytes right behind the answer."""
        await self.hear_request()
        await self.say(self._answer + b"".join(more))

    async def accept_in_pieces(self, *more: bytes) -> None:
        """The same, a byte at a time."""
        await self.hear_request()
        await self.say_in_pieces(self._answer + b"".join(more))

    async def say(self, data: bytes) -> None:
        """Send these bytes."""
        self._writer.write(data)
        await self._writer.drain()

    async def say_in_pieces(self, data: bytes) -> None:
        """Send these bytes one by one."""
        for at in range(len(data)):
            await self.say(data[at : at + 1])
            await asyncio.sleep(0)

    async def hear(self) -> tuple[Opcode, bytes, bytes]:
        """The next frame of the client: what it is, its mask and its payload."""
        async with asyncio.timeout(SECONDS):
            first, second = await self._reader.readexactly(2)
            assert first & 0xF0 == 0x80, "a client's frames are whole"
            assert second & 0x80, "a client's frames are masked"
            size = second & 0x7F
            if size >= 126:
                size = int.from_bytes(await self._reader.readexactly(2 if size == 126 else 8), "big")
            mask = await self._reader.readexactly(4)
            masked = await self._reader.readexactly(size)
        payload = bytes(byte ^ mask[at % 4] for at, byte in enumerate(masked))
        return Opcode(first & 0x0F), mask, payload

    async def hear_goodbye(self) -> int:
        """The close code that the client sends."""
        opcode, _, payload = await self.hear()
        assert opcode is Opcode.CLOSE, (opcode, payload[:80])
        return int.from_bytes(payload[:2], "big")

    def cut(self) -> None:
        """Reset the connection."""
        self._writer.transport.abort()

    async def end(self) -> None:
        """Close the connection as servers do."""
        self._writer.close()


class RawServer:
    """Accepts connections."""

    def __init__(self, port: int, scheme: str, links: "asyncio.Queue[RawLink]") -> None:
        self._links = links
        self.url = f"{scheme}://127.0.0.1:{port}/"

    async def link(self) -> RawLink:
        """The next connection."""
        async with asyncio.timeout(SECONDS):
            return await self._links.get()


@asynccontextmanager
async def raw_server(tls: ssl.SSLContext | None = None) -> AsyncIterator[RawServer]:
    """A server on a port of its own."""
    links: asyncio.Queue[RawLink] = asyncio.Queue()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        links.put_nowait(RawLink(reader, writer))

    server = await asyncio.start_server(take, "127.0.0.1", 0, ssl=tls)
    try:
        port = server.sockets[0].getsockname()[1]
        yield RawServer(port, "ws" if tls is None else "wss", links)
    finally:
        server.close()
        while not links.empty():
            links.get_nowait().cut()
