"""A request and a response of HTTP, as the doors use them.

Starlette has larger ones. They load 118 modules (forms, cookies, mail headers), and a command that opens a gateway
inside its own process would wait for them.
"""

from collections.abc import AsyncIterator, Mapping
from functools import cached_property
from urllib.parse import parse_qsl

from starlette.types import Receive, Scope, Send


class ClientGone(Exception):
    """The connection ended before the body did."""


class AsgiRequest:
    """One request that was admitted."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope = scope
        self._receive = receive

    @property
    def method(self) -> str:
        """The method, in capitals."""
        return str(self.scope["method"])

    @property
    def path(self) -> str:
        """The whole path, decoded."""
        return str(self.scope["path"])

    @property
    def query(self) -> str:
        """The query as it was sent."""
        return bytes(self.scope.get("query_string", b"")).decode("latin-1")

    @property
    def path_params(self) -> dict[str, str]:
        """The values of the names in the route's path; set by the router."""
        found: dict[str, str] = self.scope.get("path_params", {})
        return found

    @cached_property
    def headers(self) -> dict[str, str]:
        """The headers by their names in lower case; the first one if a name was sent twice."""
        found: dict[str, str] = {}
        for name, value in self.scope["headers"]:
            found.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))
        return found

    @cached_property
    def query_params(self) -> dict[str, str]:
        """The fields of the query; the last one if a name was sent twice."""
        return dict(parse_qsl(self.query, keep_blank_values=True))

    async def stream(self) -> AsyncIterator[bytes]:
        """Yield the body in pieces. Raises `ClientGone` when the connection ends first."""
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            if piece := message.get("body", b""):
                yield piece
            if not message.get("more_body", False):
                return

    async def wait_for_disconnect(self) -> None:
        """Return when the client is gone. Call this after the whole body was read."""
        while (await self._receive())["type"] != "http.disconnect":
            pass


class AsgiResponse:
    """A response whose whole body is known."""

    def __init__(
        self,
        content: bytes | str | None = None,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        media_type: str = "",
    ) -> None:
        """`media_type` is used if `headers` has none; a text type gets its charset."""
        self.body = content.encode() if isinstance(content, str) else content or b""
        self.status = status
        self.headers = {name.lower(): value for name, value in (headers or {}).items()}
        if media_type and "content-type" not in self.headers:
            is_bare_text = media_type.startswith("text/") and "charset=" not in media_type
            self.headers["content-type"] = f"{media_type}; charset=utf-8" if is_bare_text else media_type

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        if self.status not in (204, 304):
            self.headers.setdefault("content-length", str(len(self.body)))
        await self.start(send)
        await send({"type": "http.response.body", "body": self.body})

    async def start(self, send: Send) -> None:
        """Send the status and the headers."""
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in self.headers.items()]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
