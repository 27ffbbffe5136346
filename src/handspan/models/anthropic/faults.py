"""Explains errors of the Anthropic Messages API in words for a person."""

import re
from typing import Final

from msgspec import UNSET

from handspan.core.values import Json, JsonObject
from handspan.models.json_values import json_text, parse_json, quote_message
from handspan.models.model import ModelError

_STATUS_OF: Final = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The status of an error inside a stream, whose own status was 200."""

_TOO_LONG: Final = re.compile(
    r"prompt is too long|exceeds? (the )?context|context (window|length|limit)", re.IGNORECASE
)
_OUT_OF_CREDIT: Final = re.compile(
    r"credit balance|usage limit|spend(ing)? limit|extra usage|insufficient (balance|quota|funds)",
    re.IGNORECASE,
)
_SECRET: Final = re.compile(r"\bsk-[\w*.-]+|(?<=Bearer )\S+|[A-Za-z0-9_-]{40,}")
_TOO_LARGE: Final = 413
_SERVER_FAULTS: Final = 500


def fault_of_answer(status: int, body: bytes) -> ModelError:
    """Return the error for an answer with this status and body."""
    answer = parse_json(body)
    kind, message = _read_error(body.decode("utf-8", "replace") if answer is UNSET else answer)
    return _explain(status, kind, message)


def fault_in_stream(answer: JsonObject) -> ModelError:
    """Return the error for an error object that came instead of an answer, or in the middle of it."""
    kind, message = _read_error(answer)
    return _explain(_STATUS_OF.get(kind, _SERVER_FAULTS), kind, message)


def _read_error(answer: Json) -> tuple[str, str]:
    """Return the type and the message of the error; compatible servers write them in several ways."""
    if isinstance(answer, dict):
        error = answer.get("error") or answer
        if isinstance(error, dict):
            return json_text(error.get("type")), json_text(error.get("message") or error.get("detail"))
        answer = error
    # The HTML page of a proxy is of no use to a person.
    return "", answer if isinstance(answer, str) and not answer.lstrip().startswith("<") else ""


def _explain(status: int, kind: str, message: str) -> ModelError:
    """Return the error for a person: what the API says, and what to do."""
    words = f": {quote_message(message.strip().rstrip('.'), _SECRET)!r}" if message.strip() else ""
    if status == _TOO_LARGE or (status < _SERVER_FAULTS and _TOO_LONG.search(message)):
        remedy = "Start a new session, or choose a model with a larger context."
        return ModelError("too_long", f"The conversation is too long for this model{words}. {remedy}", status=status)
    if status == 402 or kind == "billing_error" or (status < _SERVER_FAULTS and _OUT_OF_CREDIT.search(message)):
        remedy = "Add credit or raise the limit in the API's console, or choose another model."
        return ModelError("quota", f"The account's credit or limit is used up{words}. {remedy}", status=status)
    match status:
        case 401:
            remedy = "Set ANTHROPIC_API_KEY, or the key in the settings, to a valid one."
            return ModelError("auth", f"The model API refuses the key{words}. {remedy}", status=status)
        case 403:
            remedy = "Use a key that may, or choose another model."
            return ModelError("auth", f"The key may not do this at the model API{words}. {remedy}", status=status)
        case 404 if "model" in message.lower():
            remedy = "Check the model's name in the settings."
            return ModelError("unknown_model", f"The model API knows no such model{words}. {remedy}", status=status)
        case 404:
            remedy = "Check the base URL in the settings; '/v1/messages' is added to it."
            return ModelError("rejected", f"There is no Messages API at this address{words}. {remedy}", status=status)
        case 429:
            text = f"The model API wants fewer requests or tokens a minute{words}. Wait a little and try again."
            return ModelError("overloaded", text, status=status)
        case _ if status == 408 or status >= _SERVER_FAULTS:
            text = f"The model API is overloaded or has a fault of its own (status {status}){words}. Try again later."
            return ModelError("overloaded", text, status=status)
    text = (
        f"The model API refuses the request (status {status}){words}. Check the model and its options in the settings."
    )
    return ModelError("rejected", text, status=status)
