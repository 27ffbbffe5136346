"""Refusals of REST: {"error": what is wrong and what to do, "code": a word for programs}.

What is wrong with a field is said in words: the rule that a value breaks, or the values that it may have.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Final, Literal, get_args, get_origin

import msgspec
from msgspec import Meta
from msgspec.structs import FieldInfo

from handspan.agent.refusals import GatewayStops, NoTurnsHere, RefusalCode, TurnRefused
from handspan.core.errors import ConfigError, ErrorCode, InvalidAnswer, StoreError, ToolError
from handspan.core.names import did_you_mean
from handspan.gateway.http.message import AsgiResponse
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.http.routing import JSON, PRIVATE

_FIELD: Final = re.compile(r"(.+) - at `\$\.(\w+)`")
_LONGEST: Final = 60
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


def not_found_refusal(kind: str, name: str) -> Refusal:
    """Return a refusal for a thing that does not exist or has another owner. Both get the same words."""
    text = f"There is no {kind} {shorten(name)!r}: it was never made, is not yours, or is gone."
    return Refusal(404, "not_found", text)


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
        case InvalidAnswer():
            return Refusal(422, "invalid_answer", str(error))
        case _:
            text = "The gateway could not answer because of a fault of its own; its log says more."
            return Refusal(500, "internal_error", text)


def as_response(refusal: Refusal) -> AsgiResponse:
    """Return the refusal as an HTTP response."""
    return AsgiResponse(refusal.body(), refusal.status, {**PRIVATE, **refusal.headers}, JSON)


def explain_error(value: object, fields: Iterable[FieldInfo], error: msgspec.ValidationError) -> str:
    """Return what the error says, as a sentence; for a text that breaks a rule, the rule in words."""
    found = _FIELD.fullmatch(str(error))
    given = value.get(found[2]) if found is not None and isinstance(value, dict) else None
    if found is None or not isinstance(given, str):
        return f"{error}."
    hint = next(each.type for each in fields if each.encode_name == found[2])
    quoted = repr(given if len(given) <= _LONGEST else f"{given[:_LONGEST]}…")
    if found[1].startswith("Invalid enum value"):
        choices = [choice for choice in _choices(hint) if choice]
        return f"{found[2]}: {quoted} is none of {', '.join(choices)}.{did_you_mean(given, choices)}"
    if "matching regex" in found[1] and (rule := next(_descriptions(hint), "")):
        return f"{found[2]}: {quoted} does not fit. {rule}"
    return f"{error}."


def _choices(hint: Any) -> Iterator[str]:
    """Return the texts that a field may have."""
    for part in get_args(hint):
        if get_origin(hint) is Literal:
            yield str(part)
        else:
            yield from _choices(part)


def _descriptions(hint: Any) -> Iterator[str]:
    """Return the rules of a field, in words."""
    if get_origin(hint) is Annotated:
        yield from (meta.description for meta in hint.__metadata__ if isinstance(meta, Meta) and meta.description)
    for part in get_args(hint):
        yield from _descriptions(part)
