"""One HTTP connection: uvicorn's, with a limit on headers and trailers, and refusals that programs can read.

No token was checked at this point: a request that is refused here never reaches the application.
"""

import asyncio
import contextlib
import re
from typing import Any, Final
from urllib.parse import unquote

from starlette.types import ASGIApp, Receive, Scope, Send

from handspan.gateway.fast_uvicorn import HttpToolsProtocol, RequestResponseCycle
from handspan.gateway.http.refusals import Refusal, body_of, raw_headers, send_refusal

MOST_HEAD_BYTES: Final = 64 * 1024
"""The limit for a request's line and headers together, and for the trailers after a body. Bytes that arrive together
with the end of the head, or with the body, are not counted."""

_LINES: Final = {400: b"HTTP/1.1 400 Bad Request\r\n", 431: b"HTTP/1.1 431 Request Header Fields Too Large\r\n"}
_NOT_IN_PATH: Final = re.compile(rb"^[a-z][a-z0-9+.-]*://[^/?#]*|[?#].*$", re.IGNORECASE | re.DOTALL)
"""The parts of an address that are not its path: the host before it, the query after it."""


class HttpProtocol(HttpToolsProtocol):
    """uvicorn's connection, with a limit on headers."""

    url = b""
    """The address of the last request that has begun, as far as it has arrived."""
    _head_bytes = 0
    """Bytes since the last ones that belonged to a body, or ended a head or a request."""
    _is_in_body = False
    """Whether arriving bytes belong to the request whose head is complete."""
    _is_refused = False
    """Whether arriving bytes are ignored."""
    _before: RequestResponseCycle | None = None
    """The request before the last one, if it was not answered when the last one began."""

    def __init__(self, prefix: str = "", **parts: Any) -> None:
        """`prefix`: the path prefix of the gateway."""
        super().__init__(**parts)
        self._prefix = prefix

    def data_received(self, data: bytes) -> None:
        """Read bytes, and count those of a head."""
        if self._is_refused:
            return
        self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes > MOST_HEAD_BYTES and not self.transport.is_closing():
            self._refuse(Refusal(431, "too_large", f"The headers have more than {MOST_HEAD_BYTES} bytes. Send less."))

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are no HTTP request."""
        self._refuse(Refusal(400, "bad_request", "This is no HTTP request that can be read. Look at what you send."))

    def on_headers_complete(self) -> None:
        """Begin a request: its head is complete."""
        self._head_bytes = 0
        before: RequestResponseCycle | None = self.cycle
        self._before = None if before is None or before.response_complete else before
        super().on_headers_complete()
        self._is_in_body = True

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self._head_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End the request: the next one may begin."""
        self._head_bytes = 0
        self._is_in_body = False
        super().on_message_complete()

    def _refuse(self, refused: Refusal) -> None:
        """End the connection. The refusal is sent only where the client reads it as the answer to the bad request."""
        self._is_refused = True
        last: RequestResponseCycle | None = self.cycle
        if last is None:
            self._write(refused)
        elif self._is_in_body and self.pipeline and self._before is not None:
            self.pipeline.popleft()  # the last request waits for the one before it, and will never be complete
            self._before.keep_alive = False
            return
        elif self._is_in_body:  # of the last request, which will never be complete
            if not last.response_started:
                self._write(refused)
        elif last.response_complete:
            self._write(refused)
        else:
            last.keep_alive = False  # the earlier requests get their answers, then the connection ends
            return
        self.transport.close()

    def _write(self, refused: Refusal) -> None:
        path = unquote(_NOT_IN_PATH.sub(b"", self.url).decode("latin-1"))
        body = body_of(refused, {"path": path, "root_path": self._prefix})
        length = (b"content-length", b"%d" % len(body))
        headers = [*self.server_state.default_headers, *raw_headers(refused), length, (b"connection", b"close")]
        lines = b"".join(b"%b: %b\r\n" % header for header in headers)
        self.transport.write(_LINES[refused.status] + lines + b"\r\n" + body)


class Answering:
    """The application, which also answers a request when it fails or is cancelled. It raises the error all the same."""

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
