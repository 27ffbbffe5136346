"""One HTTP connection: uvicorn's, with a bound on what comes before the body. Nobody has shown a token by then."""

from typing import Final

import msgspec

from handspan.gateway.uvicorn_parts import HttpToolsProtocol

MOST_HEAD_BYTES: Final = 64 * 1024
"""Of a request's line and headers together; what came with their last bytes is not counted."""

_TOLD: Final = msgspec.json.encode(
    {"error": f"The headers have more than {MOST_HEAD_BYTES} bytes. Send less.", "code": "too_large"}
)
_REFUSAL: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
    b"connection: close\r\n\r\n%b" % (len(_TOLD), _TOLD)
)


class HttpProtocol(HttpToolsProtocol):
    """uvicorn's connection, which does not collect headers without end."""

    _is_in_head = True
    _head_bytes = 0

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        self._head_bytes += len(data)
        super().data_received(data)
        if not self._is_in_head:
            self._head_bytes = 0
        elif self._head_bytes > MOST_HEAD_BYTES and not self.transport.is_closing():
            self.transport.write(_REFUSAL)
            self.transport.close()

    def on_headers_complete(self) -> None:
        """The head is there."""
        self._is_in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The request is there; the next one may begin."""
        self._is_in_head = True
        self._head_bytes = 0
        super().on_message_complete()
