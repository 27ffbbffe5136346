"""A fake gateway: its side of the links, played by hand over real sockets. Every wait is bounded."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.http11 import Request, Response

SECONDS = 60.0
ALL = ["resume", "progress", "cancel", "deadline", "parts", "permissions", "unregister", "ack_batch"]
CHAT = [*ALL, "events", "questions"]

Refuse = Callable[[ServerConnection, Request], Response | None]


class GateLink:
    """One link, from the gateway's side."""

    def __init__(self, socket: ServerConnection) -> None:
        self.socket = socket

    @property
    def path(self) -> str:
        """The path and query of the client's request."""
        assert self.socket.request is not None
        return self.socket.request.path

    async def send(self, kind: str, /, **fields: Any) -> None:
        """Send a frame to the client."""
        await self.socket.send(msgspec.json.encode({"type": kind, **fields}), text=True)

    async def expect(self, kind: str) -> dict[str, Any]:
        """The next frame, which has to be of this type."""
        frame = await self.receive()
        assert frame["type"] == kind, frame
        return frame

    async def receive(self) -> dict[str, Any]:
        """The next frame."""
        async with asyncio.timeout(SECONDS):
            frame: dict[str, Any] = msgspec.json.decode(await self.socket.recv())
        return frame

    async def accept(self, *, tools: bool = True, can: list[str] | None = None, **fields: Any) -> dict[str, Any]:
        """Play the handshake. Returns the client's `connect`."""
        await self.send("session_start", v=1, session_id="s1", resumed=False, message_count=0)
        hello = await self.expect("connect")
        offered = (await self.expect("register_tools"))["tools"] if tools else []
        given = {"capabilities": ALL if can is None else can, "resume_token": "t1", "grace_ms": 60000, "resumed": False}
        await self.send("connected", v=1, message="hello", **{**given, **fields})
        if tools:
            await self.send("tools_registered", count=len(offered), registered=len(offered))
        return hello

    async def request(self, call_id: str, name: str, /, **args: Any) -> None:
        """Request a call."""
        await self.send("tool_call_request", id=call_id, name=name, args=args)

    async def fence(self) -> None:
        """Wait until the client has done everything so far, and has sent nothing else."""
        await self.request("fence", "no_such_tool")
        assert (await self.expect("tool_error"))["id"] == "fence"
        await self.send("result_acknowledged", id="fence")

    def drop(self) -> None:
        """Reset the connection."""
        self.socket.transport.abort()

    async def close(self, code: int) -> None:
        """Close the connection with this code."""
        await self.socket.close(code)


class Gate:
    """A server that accepts links."""

    def __init__(self, server: Server, links: "asyncio.Queue[GateLink]") -> None:
        self._links = links
        port = next(iter(server.sockets)).getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"

    async def link(self) -> GateLink:
        """The next link that a client opens."""
        async with asyncio.timeout(SECONDS):
            return await self._links.get()


@asynccontextmanager
async def gate(refuse: Refuse | None = None) -> AsyncIterator[Gate]:
    """An open gate; `refuse` may answer a request with something else than an upgrade."""
    links: asyncio.Queue[GateLink] = asyncio.Queue()

    async def take(socket: ServerConnection) -> None:
        links.put_nowait(GateLink(socket))
        await socket.wait_closed()

    async with serve(take, "127.0.0.1", 0, process_request=refuse) as server:
        yield Gate(server, links)
