"""One HTTP connection: uvicorn's, with a bound on what comes around the body, and refusals that programs can read.

Nobody has shown a token by then. What is refused here never reaches the application, or the application failed.
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
"""Of a request's line and headers together, and of the trailers behind a body; what came with their last bytes, or with
bytes of the body, is not counted."""

_LINES: Final = {400: b"HTTP/1.1 400 Bad Request\r\n", 431: b"HTTP/1.1 431 Request Header Fields Too Large\r\n"}
_NOT_IN_PATH: Final = re.compile(rb"^[a-z][a-z0-9+.-]*://[^/?#]*|[?#].*$", re.IGNORECASE | re.DOTALL)
"""The host of an address that has one, and what comes behind its path."""


class HttpProtocol(HttpToolsProtocol):
    """uvicorn's connection, which does not collect headers without end."""

    url = b""
    """The address of the last request that has begun, as far as it has come."""
    _head_bytes = 0
    """That have come since the last ones which were of a body, or ended a head or a request."""
    _is_in_body = False
    """Whether what comes belongs to the request whose head was there last."""
    _is_refused = False
    """What comes is not read any more."""
    _before: RequestResponseCycle | None = None
    """The request before the last one that has begun, if it was not answered by then."""

    def __init__(self, prefix: str = "", **parts: Any) -> None:
        """`prefix`: the path that everything is below."""
        super().__init__(**parts)
        self._prefix = prefix

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        if self._is_refused:
            return
        self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes > MOST_HEAD_BYTES and not self.transport.is_closing():
            self._refuse(Refusal(431, "too_large", f"The headers have more than {MOST_HEAD_BYTES} bytes. Send less."))

    def send_400_response(self, msg: str) -> None:
        """What came is no HTTP."""
        self._refuse(Refusal(400, "bad_request", "This is no HTTP request that can be read. Look at what you send."))

    def on_headers_complete(self) -> None:
        """The head is there."""
        self._head_bytes = 0
        before: RequestResponseCycle | None = self.cycle
        self._before = None if before is None or before.response_complete else before
        super().on_headers_complete()
        self._is_in_body = True

    def on_body(self, body: bytes) -> None:
        """More of the body is there."""
        self._head_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is there; the next one may begin."""
        self._head_bytes = 0
        self._is_in_body = False
        super().on_message_complete()

    def _refuse(self, refused: Refusal) -> None:
        """End the connection with these words, where they would be heard as the answer to what was wrong."""
        self._is_refused = True
        last: RequestResponseCycle | None = self.cycle
        if last is None:
            self._write(refused)
        elif self._is_in_body and self.pipeline and self._before is not None:
            self.pipeline.popleft()  # the last request waits for the one before it, and will never be asked in full
            self._before.keep_alive = False
            return
        elif self._is_in_body:  # of the last request: it was not asked in full
            if not last.response_started:
                self._write(refused)
        elif last.response_complete:
            self._write(refused)
        else:
            last.keep_alive = False  # the requests before it get their answers; the last one ends the connection
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
    """The application, which answers even where it fails or is cut off; whoever runs it still hears of that."""

    def __init__(self, app: ASGIApp, prefix: str = "") -> None:
        self._app = app
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request or connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            await self._app(scope, receive, send)
        except asyncio.CancelledError:
            text = "The gateway is being stopped, and this request was not done. Ask again in a moment."
            await self._refuse(Refusal(503, "stopping", text), scope, send)
            raise
        except Exception:  # whatever the application forgot: it is in the log, and in no answer
            text = "The gateway could not answer because of a fault of its own; its log says more."
            await self._refuse(Refusal(500, "internal_error", text), scope, send)
            raise

    async def _refuse(self, refused: Refusal, scope: Scope, send: Send) -> None:
        with contextlib.suppress(RuntimeError):  # uvicorn's, when an answer has begun: then the connection ends
            await send_refusal(refused, {**scope, "root_path": self._prefix}, send)
