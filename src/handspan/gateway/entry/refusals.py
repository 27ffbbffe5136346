"""Why somebody is not let in, and how that is told: one form for HTTP and for WebSocket."""

import math
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias

import msgspec
from starlette.types import Scope, Send

from handspan.core.calls import new_call_id
from handspan.core.errors import HandspanError

Header: TypeAlias = tuple[bytes, bytes]
JSON: Final[Header] = (b"content-type", b"application/json")
RefusalCode: TypeAlias = Literal[
    "unknown_host",
    "unknown_origin",
    "foreign_request",
    "unauthorized",
    "forbidden",
    "too_many_tries",
    "wrong_code",
    "bad_request",
    "not_found",
    "stopping",
    "unavailable",
    "too_large",
    "internal_error",
]


class Refused(HandspanError):
    """Somebody is not let in. The message says what to do, and holds nothing that was secret."""

    def __init__(self, status: int, code: RefusalCode, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code: RefusalCode = code
        self.message = message
        self.retry_after = None if retry_after is None else max(1, math.ceil(retry_after))
        """In whole seconds."""

    @property
    def headers(self) -> list[Header]:
        """What the answer's headers say beside its kind and length."""
        headers = [(b"cache-control", b"no-store")]
        if self.retry_after is not None:
            headers.append((b"retry-after", b"%d" % self.retry_after))
        if self.status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        return headers

    def body(self) -> bytes:
        """The one JSON form of errors."""
        told: dict[str, str | int] = {"error": self.message, "code": self.code}
        if self.retry_after is not None:
            told["retry_after"] = self.retry_after
        return msgspec.json.encode(told)


async def send_refusal(refused: Refused, scope: Scope, send: Send) -> None:
    """Answer with it; over WebSocket before the upgrade, so that no message is ever read."""
    kind = "http.response" if scope["type"] == "http" else "websocket.http.response"
    await send_whole(send, refused.status, [JSON, *refused.headers], body_of(refused, scope), kind)


def body_of(refused: Refused, scope: Scope) -> bytes:
    """What it says, in the form of the API that was asked."""
    return _graph_body(refused) if is_graph(scope) else refused.body()


def is_graph(scope: Scope) -> bool:
    """Whether this is for the graph API, whose errors have a form of their own (http.md 1.2)."""
    path = "/" + scope["path"].removeprefix(scope.get("root_path", "")).lstrip("/")  # http.md 1.8
    return path.startswith("/v1/") or path in ("/v1", "/ping")


def _graph_body(refused: Refused) -> bytes:
    from handspan.wire.graph import failure  # noqa: PLC0415 - the start needs none of it
    from handspan.wire.graph_faults import code_of  # noqa: PLC0415 - as above

    at = datetime.now(UTC).isoformat()
    return failure(code_of(refused.status), refused.message, [], new_call_id(), at)


async def send_whole(
    send: Send, status: int, headers: Iterable[Header], body: bytes = b"", kind: str = "http.response"
) -> None:
    """An answer in one piece."""
    length = (b"content-length", b"%d" % len(body))
    await send({"type": f"{kind}.start", "status": status, "headers": [*headers, length]})
    await send({"type": f"{kind}.body", "body": body})
