"""Every refusal in one form: {"error": what is wrong and what to do, "code": a word for programs}, with its status."""

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from msgspec import UNSET, Struct, UnsetType
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from handspan.agent.refusals import RefusalCode, TurnRefused
from handspan.core.errors import ConfigError, ErrorCode, HandspanError, StoreError, ToolError
from handspan.core.values import encode
from handspan.gateway.entry.refusals import Refused

JSON: Final = "application/json"
PRIVATE: Final = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
"""On every answer: nobody keeps it, nobody guesses what it is."""


class ErrorBody(Struct, frozen=True):
    """What every refusal says."""

    error: str
    """What is wrong, and what to do."""
    code: str
    """The kind of refusal, for programs."""
    retry_after: int | UnsetType = UNSET
    """Seconds to wait, where waiting helps."""


class Problem(HandspanError):
    """A request that can't be answered as it is."""

    def __init__(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.headers = headers or {}


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

_WORDS: Final[dict[int, tuple[str, str]]] = {
    400: ("bad_request", "The request can't be read. Compare it with /openapi.json."),
    404: ("not_found", "There is nothing at this address. /openapi.json lists what there is."),
    405: ("method_not_allowed", "This address does not know this method. The header Allow lists those it knows."),
    413: ("too_large", "The request is too large. Send less."),
    415: ("unsupported_media_type", "This kind of content is not understood here. Send application/json."),
    500: ("internal_error", "The gateway could not answer because of a fault of its own; its log says more."),
}


def not_found(kind: str, name: str) -> Problem:
    """There is none, or it is somebody else's: the same words for both."""
    shown = name if len(name) <= 60 else f"{name[:60]}…"
    return Problem(404, "not_found", f"There is no {kind} {shown!r}: it was never made, is not yours, or is gone.")


def problem_of(error: Exception) -> Problem:
    """What a request gets for an error of ours; for any other, a constant sentence."""
    match error:
        case Problem():
            return error
        case Refused():
            headers = {name.decode(): value.decode() for name, value in error.headers}
            return Problem(error.status, error.code, error.message, headers)
        case TurnRefused():
            return Problem(_REFUSED_TURNS[error.code], error.code.lower(), str(error))
        case StoreError():
            return Problem(503, "store_failed", error.message)
        case ToolError():
            status, code = _STATUSES.get(error.code, (500, error.code))
            return Problem(status, code, error.message)
        case ConfigError():
            return Problem(409, "settings", str(error))
        case _:
            return plain_problem(500)


def plain_problem(status: int, headers: Mapping[str, str] | None = None) -> Problem:
    """What the framework refuses by number alone."""
    phrase = HTTPStatus(status).phrase
    code, message = _WORDS.get(status, (re.sub(r"[^a-z]+", "_", phrase.lower()), f"{phrase}."))
    return Problem(status, code, message, headers)


def as_response(problem: Problem) -> Response:
    """The refusal as it goes out."""
    wait = problem.headers.get("retry-after")
    content = encode(ErrorBody(problem.message, problem.code, UNSET if wait is None else int(wait)))
    return Response(content, problem.status, {**PRIVATE, **problem.headers}, JSON)


async def _framework_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return as_response(plain_problem(error.status_code, error.headers))


async def _crash(_: Request, error: Exception) -> Response:
    return as_response(problem_of(error))


ERROR_FORMS: Final = {HTTPException: _framework_error, Exception: _crash}
"""For `Starlette(exception_handlers=…)`: what the framework itself refuses has the same form."""
