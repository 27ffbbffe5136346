"""One HTTP connection: uvicorn's, with a bound on what comes around the body. Nobody has shown a token by then."""

from typing import Final

import msgspec

from handspan.gateway.uvicorn_parts import HttpToolsProtocol

MOST_HEAD_BYTES: Final = 64 * 1024
"""Of a request's line and headers together, and of the trailers behind a body; what came with their last bytes, or with
bytes of the body, is not counted."""

_TOLD: Final = msgspec.json.encode(
    {"error": f"The headers have more than {MOST_HEAD_BYTES} bytes. Send less.", "code": "too_large"}
)
_REFUSAL: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
    b"connection: close\r\n\r\n%b" % (len(_TOLD), _TOLD)
)


class HttpProtocol(HttpToolsProtocol):
    """uvicorn's connection, which does not collect headers without end."""

    _head_bytes = 0
    """That have come since the last ones which were of a body, or ended a head or a request."""

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes > MOST_HEAD_BYTES and not self.transport.is_closing():
            self.transport.write(_REFUSAL)
            self.transport.close()

    def on_headers_complete(self) -> None:
        """The head is there."""
        self._head_bytes = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """More of the body is there."""
        self._head_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is there; the next one may begin."""
        self._head_bytes = 0
        super().on_message_complete()
