"""A client of the gateway that sends exactly what a test wants, frame by frame (ws.md).

    async with FakeDevice(gateway.url, gateway.token) as device:
        await device.connect(label="phone", capabilities=["resume"])
        await device.register(offer("add"))
        request = await device.expect("tool_call_request")
        await device.answer(request, 5)
        await device.expect("result_acknowledged", id=request["id"])

It uses nothing of `handspan.client`, so it can check that too.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final, Self, cast
from urllib.parse import urlencode, urlsplit

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from handspan.core.values import Json, JsonObject

WAIT_SECONDS: Final = 10.0
"""Seconds that any wait may take. A test that needs more is about to hang."""

_ANY_ARGUMENTS: Final[JsonObject] = {"type": "object"}


class NotSaid(AssertionError):
    """The gateway did not send the expected frame; the message lists the frames that it sent."""


def offer(name: str, description: str = "", parameters: JsonObject | None = None, **more: Json) -> JsonObject:
    """Return a tool as an entry of `register_tools`; without a schema it takes any arguments."""
    text = description or f"The tool {name}."
    return {"name": name, "description": text, "parameters": parameters or _ANY_ARGUMENTS, **more}


def socket_url(url: str, **query: str | None) -> str:
    """Return the URL of the WebSocket of the gateway at `url`."""
    parts = urlsplit(url)
    scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
    given = {name: value for name, value in query.items() if value is not None}
    path = parts.path.rstrip("/") + "/ws/chat"
    return parts._replace(scheme=scheme, path=path, query=urlencode(given)).geturl()


class FakeDevice:
    """A device with one connection at a time. `connect` may be called again after `drop` or `leave`."""

    def __init__(self, url: str, token: str) -> None:
        """`url`: of the gateway, or of a proxy in front of it."""
        self._url = url
        self.token = token
        """The access token."""
        self._connection: ClientConnection | None = None
        self._reading: asyncio.Task[None] | None = None
        self._inbox: list[JsonObject] = []
        self._changed = asyncio.Condition()
        self._is_not_reading = False
        self.heard: list[JsonObject] = []
        """Every frame that came over the current connection, or over the last one."""
        self.close_code: int | None = None
        """How that connection was closed; None while it is open."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.drop()

    # The link.

    async def open(self, **query: str | None) -> None:
        """Open the WebSocket and send nothing. The query is that of ws.md 1.1: `session_id`, `name`, `persona`."""
        await self.drop()
        self._inbox, self.heard, self.close_code, self._is_not_reading = [], [], None, False
        self._connection = await connect(
            socket_url(self._url, **query),
            additional_headers={"Authorization": f"Bearer {self.token}"},
            compression=None,
            proxy=None,
            max_size=None,
            ping_interval=None,
            open_timeout=WAIT_SECONDS,
            close_timeout=1,
        )
        self._reading = asyncio.create_task(self._read(self._connection))

    async def connect(
        self,
        *,
        role: str = "device",
        label: str | None = None,
        capabilities: Sequence[str] = (),
        resume: str | None = None,
        session_id: str | None = None,
        **more: Json,
    ) -> JsonObject:
        """Open the WebSocket and send `connect`. Return the `connected` that answers it."""
        await self.open(session_id=session_id)
        given = {name: value for name, value in (("label", label), ("resume", resume)) if value is not None}
        await self.send({"type": "connect", "role": role, "capabilities": list(capabilities), **given, **more})
        return await self.expect("connected")

    @property
    def is_connected(self) -> bool:
        """Whether the link is open, as far as this end knows."""
        return self._connection is not None and self.close_code is None

    async def drop(self) -> None:
        """Lose the link without a close frame, like a phone that enters a tunnel."""
        if self._connection is not None:
            self._connection.transport.abort()
            await self._finish()

    async def leave(self, code: int = 1000) -> None:
        """Close the connection with this code."""
        if self._connection is not None:
            await self._connection.close(code)
            await self._finish()

    async def closed(self, seconds: float = WAIT_SECONDS) -> int:
        """Wait until the gateway has closed the connection. Return its close code, 1006 without one."""
        try:
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait_for(lambda: self.close_code is not None)
        except TimeoutError:
            raise NotSaid(f"The connection is still open after {seconds} s.") from None
        return cast(int, self.close_code)

    def stop_reading(self) -> None:
        """Stay connected and never read again: the slowest client there can be."""
        assert self._connection is not None and self._reading is not None
        self._is_not_reading = True
        self._reading.cancel()
        self._connection.transport.pause_reading()

    # Out.

    async def send(self, frame: JsonObject) -> None:
        """Send this frame."""
        await self.send_text(msgspec.json.encode(frame).decode())

    async def send_text(self, text: str | Sequence[str]) -> None:
        """Send any text as one message; several texts are its fragments."""
        assert self._connection is not None
        await self._connection.send(text)

    async def send_binary(self, data: bytes) -> None:
        """Send a binary message."""
        assert self._connection is not None
        await self._connection.send(data)

    def send_bytes(self, data: bytes) -> None:
        """Write these bytes to the socket, without a WebSocket frame."""
        assert self._connection is not None
        self._connection.transport.write(data)

    async def register(self, *tools: Json) -> JsonObject:
        """Offer these tools (`offer` makes one). Return the `tools_registered` that answers."""
        await self.send({"type": "register_tools", "tools": list(tools)})
        return await self.expect("tools_registered")

    async def answer(self, request: JsonObject | str, output: Json = "", **more: Json) -> None:
        """Answer a request, or the call with this id, with a result."""
        await self.send({"type": "tool_result", "id": _id_of(request), "output": output, **more})

    async def fail(self, request: JsonObject | str, error: str, code: str = "", **more: Json) -> None:
        """Answer it with an error."""
        await self.send({"type": "tool_error", "id": _id_of(request), "error": error, "code": code, **more})

    async def report(self, request: JsonObject | str, value: Json) -> None:
        """Report progress."""
        await self.send({"type": "tool_progress", "id": _id_of(request), "value": value})

    # In.

    async def expect(self, kind: str, seconds: float = WAIT_SECONDS, **fields: Json) -> JsonObject:
        """Return the next frame of this type with these fields; other frames wait for their own `expect`."""
        try:
            async with asyncio.timeout(seconds), self._changed:
                while (found := self._take(kind, fields)) is None:
                    if self.close_code is not None:
                        raise self._missing(kind, f"the connection was closed with {self.close_code}")
                    await self._changed.wait()
        except TimeoutError:
            raise self._missing(kind, f"{seconds} s are over") from None
        return found

    async def next(self) -> JsonObject | None:
        """Return the next frame of any type; None when the connection is closed."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._inbox or self.close_code is not None)
            return self._inbox.pop(0) if self._inbox else None

    def unexpected(self, kind: str) -> list[JsonObject]:
        """Return the frames of this type that have arrived and were not expected yet."""
        return [frame for frame in self._inbox if frame.get("type") == kind]

    def _take(self, kind: str, fields: JsonObject) -> JsonObject | None:
        for place, frame in enumerate(self._inbox):
            if frame.get("type") == kind and all(frame.get(name) == value for name, value in fields.items()):
                return self._inbox.pop(place)
        return None

    def _missing(self, kind: str, why: str) -> NotSaid:
        heard = ", ".join(f"{frame.get('type')}" for frame in self.heard[-12:]) or "nothing"
        return NotSaid(f"No {kind!r} came: {why}. Received: {heard}.")

    async def _read(self, connection: ClientConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            async for message in connection:
                frame: JsonObject = msgspec.json.decode(message)
                self.heard.append(frame)
                await self._notify(frame)
        self.close_code = connection.close_code or 1006
        await self._notify()

    async def _notify(self, *frames: JsonObject) -> None:
        async with self._changed:
            self._inbox.extend(frames)
            self._changed.notify_all()

    async def _finish(self) -> None:
        """Release everything that belongs to the connection."""
        connection, self._connection = self._connection, None
        reading, self._reading = self._reading, None
        if connection is None or reading is None:
            return
        if self._is_not_reading:
            self.close_code = 1006
        await asyncio.gather(reading, return_exceptions=True)
        await connection.wait_closed()


def _id_of(request: JsonObject | str) -> Json:
    return request if isinstance(request, str) else request["id"]
