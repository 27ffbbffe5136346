"""The other half of the remote figures: devices in a process of their own, with as little code as can be.

`python -m bench.fast_device URL TOKEN COUNT TOOLS CAN LABEL`: COUNT connections that answer until they are told to
stop. With TOKEN `-` they send every message back; else they register TOOLS tools each and answer requests, as devices
LABEL0, LABEL1 … with the capabilities CAN (`ack_batch,deadline`). It prints `ready` when all are there, and then hears
commands on standard input, a line each: `drop` (cut all links), `back` (connect all again), `stop`. The framing is
written out here, so that what is measured is the gateway and not a client library.
"""

import asyncio
import base64
import os
import sys
from collections.abc import Callable
from typing import cast
from urllib.parse import urlsplit

import msgspec
import uvloop

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
_MASK = b"\x00\x00\x00\x00"  # a mask of zeros is a mask: the bytes stay as they are


class Heard(msgspec.Struct):
    """What a device needs of a frame from the gateway."""

    type: str
    id: str = ""
    resume_token: str = ""


class Answer(msgspec.Struct, tag="tool_result"):
    """What it says to a request."""

    id: str
    output: str
    success: bool


_decode = msgspec.json.Decoder(Heard).decode
_encode = msgspec.json.Encoder().encode


def masked(payload: bytes) -> bytes:
    """A text frame as clients send them."""
    size = len(payload)
    if size < 126:
        return b"\x81" + bytes((0x80 | size,)) + _MASK + payload
    return b"\x81\xfe" + size.to_bytes(2, "big") + _MASK + payload


class Link(asyncio.Protocol):
    """One connection: upgrades, then hears text frames."""

    def __init__(
        self, request: bytes, opened: "Callable[[Link], None]", heard: "Callable[[Link, bytes], None]"
    ) -> None:
        self._request = request
        self._opened = opened
        self._heard = heard
        self._buffer = b""
        self._is_open = False
        self.token = ""
        self.number = 0
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.write(self._request)

    def send(self, payload: bytes) -> None:
        self.transport.write(masked(payload))

    def data_received(self, data: bytes) -> None:
        data = self._buffer + data if self._buffer else data
        if not self._is_open:
            head, found, data = data.partition(b"\r\n\r\n")
            if not found:
                self._buffer = head
                return
            assert b" 101 " in head, head
            self._is_open = True
            self._opened(self)
        at, end = 0, len(data)
        while end - at >= 2:
            size, begins = data[at + 1], at + 2
            if size == 126:
                size, begins = int.from_bytes(data[at + 2 : at + 4], "big"), at + 4
            elif size == 127:
                size, begins = int.from_bytes(data[at + 2 : at + 10], "big"), at + 10
            if begins + size > end or (begins > end):
                break
            kind = data[at] & 0x0F
            if kind == 1:
                self._heard(self, data[begins : begins + size])
            elif kind == 9:
                self.transport.write(b"\x8a" + masked(data[begins : begins + size])[1:])
            at = begins + size
        self._buffer = data[at:]


class Devices:
    """All connections of this process."""

    def __init__(self, url: str, token: str, count: int, tools: int, can: list[str], label: str) -> None:
        self._address = urlsplit(url)
        key = base64.b64encode(os.urandom(16)).decode()
        self._request = (
            f"GET {self._address.path or '/'} HTTP/1.1\r\nHost: {self._address.netloc}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n"
            f"Authorization: Bearer {token}\r\n\r\n"
        ).encode()
        self._only_echoes = token == "-"
        self._count = count
        self._tools = [
            {"name": f"tool_{number}", "description": "Says something.", "parameters": SCHEMA, "timeout": 30}
            for number in range(tools)
        ]
        self._can = can
        self._label = label
        self._links: list[Link] = []
        self._tokens: dict[int, str] = {}
        self._ready = 0
        self._all = asyncio.Event()

    async def connect(self) -> None:
        """Be there, all of them."""
        self._ready = 0
        self._all.clear()
        loop = asyncio.get_running_loop()
        host, port = self._address.hostname or "", self._address.port or 80
        some = asyncio.Semaphore(200)

        async def one(number: int) -> Link:
            async with some:
                link = Link(self._request, self._opened, self._heard)
                link.number = number
                await loop.create_connection(lambda: link, host, port)
                return link

        self._links = list(await asyncio.gather(*map(one, range(self._count))))
        await self._all.wait()

    def drop(self) -> None:
        """Cut every link."""
        for link in self._links:
            link.transport.abort()

    def _opened(self, link: Link) -> None:
        if self._only_echoes:
            self._done()
            return
        hello = {"type": "connect", "role": "device", "label": f"{self._label}{link.number}", "capabilities": self._can}
        if token := self._tokens.get(link.number):
            hello["resume"] = token
        link.send(_encode(hello))
        link.send(_encode({"type": "register_tools", "tools": self._tools}))

    def _heard(self, link: Link, data: bytes) -> None:
        if self._only_echoes:
            link.send(data)
            return
        frame = _decode(data)
        if frame.type == "tool_call_request":
            link.send(_encode(Answer(frame.id, "done", success=True)))
        elif frame.type == "tools_registered":
            self._done()
        elif frame.type == "connected":
            self._tokens[link.number] = frame.resume_token

    def _done(self) -> None:
        self._ready += 1
        if self._ready == self._count:
            self._all.set()


async def main() -> None:
    """Connect, then do as told."""
    url, token, count, tools, can, label = sys.argv[1:7]
    devices = Devices(url, token, int(count), int(tools), can.split(","), label)
    await devices.connect()
    print("ready", flush=True)
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while (line := (await lines.readline()).decode().strip()) not in ("", "stop"):
        if line == "drop":
            devices.drop()
        else:
            await devices.connect()
        print("done", flush=True)


if __name__ == "__main__":
    uvloop.run(main())
