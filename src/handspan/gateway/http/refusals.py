"""`Refusal`, the error type of every door, and its form on the wire."""

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeAlias

from starlette.types import Scope, Send

from handspan.core.calls import new_call_id
from handspan.core.errors import HandspanError, StoreError
from handspan.core.values import encode

if TYPE_CHECKING:
    from handspan.wire.graph.faults import Detail

Header: TypeAlias = tuple[bytes, bytes]
JSON_HEADER: Final[Header] = (b"content-type", b"application/json")
_OPENAI: Final = frozenset(
    f"/v1/{name}" for name in ("models", "chat/completions", "completions", "responses", "embeddings", "moderations")
)
_BELOW_OPENAI: Final = ("/v1/models/", "/v1/chat/", "/v1/responses/", "/v1/conversations", "/v1/audio/", "/v1/images/")
_NO_STORE: Final[Header] = (b"cache-control", b"no-store")


class Refusal(HandspanError):
    """A request is refused. The message says what to do, and has no secrets."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        retry_after: float | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        details: "Sequence[Detail]" = (),
    ) -> None:
        """`code` is an error code of REST or of the graph API; only the graph API sends `details`."""
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.retry_after = None if retry_after is None else max(1, math.ceil(retry_after))
        """In whole seconds."""
        self.details = list(details)
        self.headers = dict(headers or {})
        """Headers of the response beside content type and length."""
        if self.retry_after is not None:
            self.headers["retry-after"] = str(self.retry_after)
        if status == 401:
            self.headers["www-authenticate"] = "Bearer"

    def body(self) -> bytes:
        """Return the JSON form of an error in all APIs except the graph API."""
        fields: dict[str, str | int] = {"error": self.message, "code": self.code}
        if self.retry_after is not None:
            fields["retry_after"] = self.retry_after
        return encode(fields)


def log_own_fault(log: logging.Logger, what: str, error: Exception, refusal: Refusal) -> None:
    """Log an error that is not the client's fault. A store that is away gets one line: that may come often."""
    if refusal.status < 500 or refusal.code == "stopping" or isinstance(error, Refusal):
        return
    if isinstance(error, StoreError):
        log.error("%s: %s", what, error)
    else:
        log.error("%s", what, exc_info=error)


async def send_refusal(refusal: Refusal, scope: Scope, send: Send) -> None:
    """Send the refusal as the answer; for a WebSocket before the upgrade, so that no message is read."""
    kind = "http.response" if scope["type"] == "http" else "websocket.http.response"
    await send_whole(send, refusal.status, raw_headers(refusal), body_of(refusal, scope), kind=kind)


def raw_headers(refusal: Refusal) -> list[Header]:
    """Return the headers of the response."""
    more = [(name.encode(), value.encode()) for name, value in refusal.headers.items()]
    return [JSON_HEADER, _NO_STORE, *more]


def body_of(refusal: Refusal, scope: Scope) -> bytes:
    """Return the body of the response, in the form of the requested API."""
    if is_openai(scope):
        from handspan.wire.openai import errors  # noqa: PLC0415 - the start needs none of it

        return errors.encode_error(refusal.status, refusal.message)
    return graph_body(refusal, new_call_id(), datetime.now(UTC).isoformat()) if is_graph(scope) else refusal.body()


def is_graph(scope: Scope) -> bool:
    """Whether the request is for the graph API, whose errors have their own form (graph.md 1.2)."""
    path = _path(scope)
    return (path.startswith("/v1/") or path in ("/v1", "/ping")) and not is_openai(scope)


def is_openai(scope: Scope) -> bool:
    """Whether the request is for OpenAI's API, whose errors have their own form. `/v1/files` is the graph API's."""
    path = _path(scope)
    return path in _OPENAI or path.startswith(_BELOW_OPENAI)


def _path(scope: Scope) -> str:
    path: str = scope["path"]
    return "/" + path.removeprefix(scope.get("root_path", "")).lstrip("/")  # graph.md 1.8


def graph_body(refusal: Refusal, request_id: str, at: str) -> bytes:
    """Return the JSON form of an error in the graph API."""
    from handspan.wire.graph import answers, faults  # noqa: PLC0415 - 5 ms, and the start needs none of it

    code = faults.error_code(refusal.status, refusal.code)
    return answers.encode_failure(code, refusal.message, refusal.details, request_id, at=at)


async def send_whole(
    send: Send, status: int, headers: Iterable[Header], body: bytes = b"", kind: str = "http.response"
) -> None:
    """Send a whole answer."""
    length = (b"content-length", b"%d" % len(body))
    await send({"type": f"{kind}.start", "status": status, "headers": [*headers, length]})
    await send({"type": f"{kind}.body", "body": body})
