"""Refusals of REST: {"error": what is wrong and what to do, "code": a word for programs}."""

from typing import Final

from msgspec import UNSET

from handspan.agent.refusals import GatewayStops, NoTurnsHere, RefusalCode, TurnRefused
from handspan.core.errors import ConfigError, ErrorCode, StoreError, ToolError
from handspan.core.values import encode
from handspan.gateway.http.message import AsgiResponse
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.http.routing import JSON, PRIVATE
from handspan.wire.rest.fields import ErrorBody

# Status and code for an error of the engine, where it refuses a request and is not a call's result.
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
    """Return a refusal for a thing that does not exist or has another owner. Both get the same words."""
    return Refusal(
        404, "not_found", f"There is no {kind} {shorten(name)!r}: it was never made, is not yours, or is gone."
    )


def shorten(name: str) -> str:
    """Return the name, or its first 60 characters: an id in a path may be very long."""
    return name if len(name) <= 60 else f"{name[:60]}…"


def refusal_of(error: Exception) -> Refusal:
    """Return the refusal for an error. Unexpected errors get a fixed sentence: their details stay in the log."""
    match error:
        case Refusal():
            return error
        case GatewayStops():
            return Refusal(503, "stopping", str(error))
        case NoTurnsHere():
            return Refusal(421, "no_turns_here", str(error))
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
    """Return the refusal as an HTTP response."""
    wait = UNSET if refusal.retry_after is None else refusal.retry_after
    content = encode(ErrorBody(refusal.message, refusal.code, wait))
    return AsgiResponse(content, refusal.status, {**PRIVATE, **refusal.headers}, JSON)
