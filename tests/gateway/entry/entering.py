"""Requests as the gateway sees them, for the tests of who comes in."""

from typing import Any
from urllib.parse import quote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from handspan.gateway.entry.auth import Auth, let_in

HOST = "127.0.0.1:42617"


def scope(
    path: str = "/api/tools",
    *,
    method: str = "GET",
    host: str | None = HOST,
    query: str = "",
    client: str | None = "127.0.0.1",
    server: tuple[str, int | None] | None = ("127.0.0.1", 42617),
    scheme: str = "http",
    kind: str = "http",
    root_path: str = "",
    **headers: str,
) -> dict[str, Any]:
    """A request or, with `kind="websocket"`, a connection. Headers by name, `_` for `-`."""
    sent = [] if host is None else [(b"host", host.encode("latin-1"))]
    sent += [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    made: dict[str, Any] = {
        "type": kind,
        "scheme": scheme,
        "path": path,
        "raw_path": quote(path).encode(),
        "root_path": root_path,
        "query_string": query.encode(),
        "headers": sent,
        "client": None if client is None else (client, 50_000),
        "server": server,
        "state": {},
    }
    if kind == "http":
        made |= {"method": method, "http_version": "1.1"}
    return made


def socket_scope(**given: Any) -> dict[str, Any]:
    """A WebSocket connection that is about to be opened."""
    return scope("/ws/chat", kind="websocket", scheme=given.pop("scheme", "ws"), **given)


class Answer:
    """What an application sends."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    async def __call__(self, message: Message) -> None:
        self.messages.append(message)

    @property
    def status(self) -> int:
        status: int = self.messages[0]["status"]
        return status

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.messages[0]["headers"]}

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.messages[1:])


class Guarded:
    """An application behind the entry, as the gateway has it: requests are let in, connections pass."""

    def __init__(self, app: ASGIApp, auth: Auth) -> None:
        self._app = app
        self._auth = auth

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif admitted := await let_in(self._auth, scope, receive, send):
            await self._app(scope, *admitted)


async def nothing_received() -> Message:
    """A request without a body."""
    return {"type": "http.request", "body": b"", "more_body": False}
