"""A push service on this computer, and a browser that is subscribed there: it reads what only it can read."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import http_ece
import msgspec
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from handspan.core.records import PushSubscription
from handspan.gateway.push.encryption import write_base64
from tests.waiting import until


class Browser:
    """What a browser keeps of its subscription."""

    def __init__(self, service: str) -> None:
        self._key = generate_private_key(SECP256R1())
        self._auth = secrets.token_bytes(16)
        self.endpoint = f"{service}/send/{secrets.token_hex(8)}"
        point = self._key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        self.keys = {"p256dh": write_base64(point), "auth": write_base64(self._auth)}

    @property
    def json(self) -> dict[str, Any]:
        """The subscription as `PushSubscription.toJSON` gives it, with a label."""
        return {"endpoint": self.endpoint, "expirationTime": None, "keys": self.keys, "label": "phone"}

    def subscription(self, owner: str = "ann") -> PushSubscription:
        """The same, as the store has it."""
        return PushSubscription("s1", owner, "t1", self.endpoint, self.keys["p256dh"], self.keys["auth"], "phone")

    def read(self, body: bytes) -> dict[str, Any]:
        """The notification in this body."""
        text = http_ece.decrypt(body, private_key=self._key, auth_secret=self._auth, version="aes128gcm")
        found: dict[str, Any] = msgspec.json.decode(text)
        return found


class PushService:
    """Answers each request with the next of `answers`, and 201 after the last one."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        """Path, headers and body of each request."""
        self.answers: list[str] = []
        """Status lines, with further headers in lines after it; `endless`: a body without end."""
        self.goes_on = asyncio.Event()
        """Requests are answered while it is set."""
        self.goes_on.set()

    async def notices(self, browser: Browser, count: int = 1) -> list[dict[str, Any]]:
        """The notifications for this browser, once so many have come."""
        path = browser.endpoint.removeprefix(self.url)
        await until(lambda: sum(one[0] == path for one in self.requests) >= count)
        return [browser.read(body) for to, _, body in self.requests if to == path]

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            pairs = (line.partition(": ") for line in head[1:])
            headers = {name.lower(): value for name, _, value in pairs}
            body = await reader.readexactly(int(headers["content-length"]))
            self.requests.append((head[0].split(" ")[1], headers, body))
            await self.goes_on.wait()
            status = self.answers.pop(0) if self.answers else "201 Created"
            if status == "endless":
                writer.write(b"HTTP/1.1 201 Created\r\n\r\n")
                while True:
                    writer.write(b"x" * 4096)
                    await writer.drain()
            writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def push_service() -> AsyncIterator[PushService]:
    service = PushService()
    server = await asyncio.start_server(service.answer, "127.0.0.1", 0)
    service.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield service
        service.goes_on.set()
