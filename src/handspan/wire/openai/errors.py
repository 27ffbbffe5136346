"""Errors in OpenAI's form."""

from typing import Final

import msgspec
from msgspec import Struct

_TYPES: Final = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
_CODES: Final = {401: "invalid_api_key", 404: "not_found", 413: "request_too_large", 429: "rate_limit_exceeded"}


class OpenAiError(Struct, frozen=True):
    """What went wrong. Clients want all four fields."""

    message: str
    type: str
    param: str | None = None
    code: str | None = None


class OpenAiErrorAnswer(Struct, frozen=True):
    """An answer that is an error; also an event of a stream."""

    error: OpenAiError


def encode_error(status: int, message: str, param: str | None = None, code: str | None = None) -> bytes:
    """Return the body of an error answer with this status."""
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    return msgspec.json.encode(OpenAiErrorAnswer(OpenAiError(message, kind, param, code or _CODES.get(status))))
