"""Refusals that no door sends: of a connection whose request never began, and of each request that fails."""

import asyncio
import contextlib
import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import unquote

from starlette.types import ASGIApp, Receive, Scope, Send

from handspan.gateway.http.refusals import Header, Refusal, body_of, raw_headers, send_refusal

_ENOUGH: Final = 500
"""Bytes of an address that show which API it belongs to."""
_LINES: Final = {
    400: b"HTTP/1.1 400 Bad Request\r\n",
    408: b"HTTP/1.1 408 Request Timeout\r\n",
    414: b"HTTP/1.1 414 URI Too Long\r\n",
    431: b"HTTP/1.1 431 Request Header Fields Too Large\r\n",
    503: b"HTTP/1.1 503 Service Unavailable\r\n",
}
_NOT_IN_PATH: Final = rb"(?is)^[a-z][a-z0-9+.-]*://[^/?#]*|[?#].*$"
"""The parts of an address that are not its path: the host before it, the query after it."""


def encode_refusal(refused: Refusal, address: bytes, prefix: str, more: Iterable[Header]) -> bytes:
    """Return the whole response, after which the connection ends, in the form of the API at this address.

    `prefix`: the path prefix of the gateway. `more`: headers of every response.
    """
    path = unquote(re.sub(_NOT_IN_PATH, b"", address[:_ENOUGH]).decode("latin-1"))
    body = body_of(refused, {"path": path, "root_path": prefix})
    length = (b"content-length", b"%d" % len(body))
    lines = [b"%b: %b\r\n" % header for header in (*more, *raw_headers(refused), length, (b"connection", b"close"))]
    return _LINES[refused.status] + b"".join(lines) + b"\r\n" + body


class Answering:
    """The application, with an answer to each request that fails or is cancelled. The error is raised all the same."""

    def __init__(self, app: ASGIApp, prefix: str = "") -> None:
        self._app = app
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request or connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            await self._app(scope, receive, send)
        except asyncio.CancelledError:
            text = "The gateway is being stopped, and this request was not done. Send it again in a moment."
            await self._refuse(Refusal(503, "stopping", text), scope, send)
            raise
        except Exception:  # a fault of ours: its text belongs in the log, not in an answer
            text = "The gateway could not answer because of a fault of its own; its log says more."
            await self._refuse(Refusal(500, "internal_error", text), scope, send)
            raise

    async def _refuse(self, refused: Refusal, scope: Scope, send: Send) -> None:
        with contextlib.suppress(RuntimeError):  # uvicorn raises it when an answer has begun: the connection ends then
            await send_refusal(refused, {**scope, "root_path": self._prefix}, send)
