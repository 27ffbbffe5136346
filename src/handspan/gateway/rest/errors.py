"""REST's envelope for refusals: {"error": what is wrong and what to do, "code": a word for programs}."""

from typing import Final

from msgspec import UNSET

from handspan.agent.refusals import RefusalCode, TurnRefused
from handspan.core.errors import ConfigError, ErrorCode, StoreError, ToolError
from handspan.core.values import encode
from handspan.gateway.http.message import AsgiResponse
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.http.routing import JSON, PRIVATE
from handspan.wire.rest.common import ErrorBody

# What a code of the engine's table is in HTTP, where it stands for a request and not for a call's result.
_STATUSES: Final[dict[ErrorCode, tuple[int, str]]] = {
    "file_not_found": (404, "not_found"),
    "tool_not_found": (404, "not_found"),
    "invalid_arguments": (422, "invalid_request"),
    "file_too_large": (413, "too_large"),
    "busy": (409, "busy"),
    "rate_limited": (429, "rate_limited"),
    "policy_denied": (403, "forbidden"),
}

_REFUSED_TURNS: Final[dict[RefusalCode, int]] = {
    "SESSION_BUSY": 409,
    "SESSION_OWNER_MISMATCH": 409,
    "SESSION_BIND_FAILED": 422,
    "AGENT_INIT_FAILED": 404,
    "NO_USER_MESSAGE": 409,
    "INVALID_FRAME": 422,
}


def not_found(kind: str, name: str) -> Refusal:
    """There is none, or it is somebody else's: the same words for both."""
    shown = name if len(name) <= 60 else f"{name[:60]}…"
    return Refusal(404, "not_found", f"There is no {kind} {shown!r}: it was never made, is not yours, or is gone.")


def refusal_of(error: Exception) -> Refusal:
    """What a request gets for an error of ours; for any other, a constant sentence."""
    match error:
        case Refusal():
            return error
        case TurnRefused():
            return Refusal(_REFUSED_TURNS[error.code], error.code.lower(), str(error))
        case StoreError():
            return Refusal(503, "store_failed", error.message)
        case ToolError():
            status, code = _STATUSES.get(error.code, (500, error.code))
            return Refusal(status, code, error.message)
        case ConfigError():
            return Refusal(409, "settings", str(error))
        case _:
            text = "The gateway could not answer because of a fault of its own; its log says more."
            return Refusal(500, "internal_error", text)


def as_response(refusal: Refusal) -> AsgiResponse:
    """The refusal as it goes out."""
    wait = UNSET if refusal.retry_after is None else refusal.retry_after
    content = encode(ErrorBody(refusal.message, refusal.code, wait))
    return AsgiResponse(content, refusal.status, {**PRIVATE, **refusal.headers}, JSON)
