"""Explains errors of the OpenAI formats in words for a person."""

import re
from typing import Final

from handspan.core.values import Json, JsonObject
from handspan.models.json_values import json_object, json_text, quote_message, read_json
from handspan.models.model import ModelError, ModelFault

_SECRET: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:(?:sk|gsk|csk|hf|xai|pk|rk|key|nvapi)[-_]|AIza)[A-Za-z0-9_*.-]{12,}"
    r"|(?<=provided: )\S+|(?<=[Bb]earer )\S+"
)
_TOO_LONG: Final = re.compile(
    r"context.?(?:length|window|size)|maximum (?:context|prompt|input)|too many (?:input )?tokens|reduce the length"
    r"|(?:prompt|input|request) (?:is )?too (?:long|large)|exceeds? the (?:maximum|model'?s?) number of tokens",
    re.IGNORECASE,
)
_QUOTA: Final = re.compile(
    r"insufficient[_ ](?:quota|balance|credits|funds)|exceeded your current quota|billing|out of credits",
    re.IGNORECASE,
)
_REFUSED: Final = re.compile(r"content[_ ](?:policy|filter)|moderation|invalid_prompt|safety system", re.IGNORECASE)
_UNKNOWN_MODEL: Final = re.compile(
    r"model_not_found|model\b.*\b(?:not found|not exist|unknown)|(?:unknown|no such|invalid) model",
    re.IGNORECASE | re.DOTALL,
)
_STATUSES: Final = (
    (re.compile(r"invalid_api_key|authentication|unauthorized|permission", re.IGNORECASE), 401),
    (re.compile(r"rate.?limit|too many requests", re.IGNORECASE), 429),
    (re.compile(r"server_error|internal|overloaded|unavailable|timeout|capacity|upstream", re.IGNORECASE), 503),
)
"""The status of an error inside a stream, by its code or type."""

_REMEDIES: Final[dict[ModelFault, str]] = {
    "auth": "The model's server refuses the key. Check that the key is right and may use this model.",
    "quota": "The account has no credit left at the model's server. Check its plan and billing, or set another model.",
    "unknown_model": "The model's server has no such model, or base_url is wrong. Check the model's name and base_url.",
    "overloaded": "The model's server can't answer now. Try again a little later.",
    "rejected": "The model's server refuses the request. Check the options that are set for this model.",
    "too_long": "The conversation is too long for this model. Start a new session, or set a model with more context.",
    "refused": "The model's server refuses to answer this for reasons of policy. Say it in another way.",
}
_RATE_LIMIT: Final = "The model's server gets more requests from this key than it allows. Wait a little and try again."


def fault_of_answer(status: int, body: bytes) -> ModelError:
    """Return the error for an answer with this status and body."""
    read = read_json(body)
    if isinstance(read, list) and read:  # Gemini behind the OpenAI format sends a list
        read = read[0]
    if isinstance(read, dict):
        return fault_in_stream(read, status)
    text = "" if body.lstrip()[:1] == b"<" else body.decode("utf-8", "replace")  # the HTML page of a proxy is of no use
    return _error(_fault_kind(status, text), text, status)


def fault_in_stream(answer: JsonObject, status: int | None = None) -> ModelError:
    """Return the error for an error object that came instead of an answer, or in the middle of it."""
    inner = answer.get("error")
    error = inner if isinstance(inner, dict) else answer
    message = inner if isinstance(inner, str) else _message_of(error)
    code, kind = error.get("code"), json_text(error.get("type"))
    words = f"{code if isinstance(code, str) else ''} {kind} {message}"
    status = status or _status_of(error, f"{code} {kind}")
    return _error(_fault_kind(status, words), message, status)


def _message_of(error: JsonObject) -> str:
    """Return the server's message, which servers put into several fields."""
    raw = json_text(json_object(error.get("metadata")).get("raw"))  # OpenRouter: what the server behind it said
    words: Json = error.get("message") or error.get("detail") or error.get("error") or ""
    text = words if isinstance(words, str) else _validation_message(words)
    return f"{text}: {raw}" if raw else text


def _validation_message(words: Json) -> str:
    """Return the message of a FastAPI server, which lists what is wrong: [{"loc": […], "msg": "…"}]."""
    if isinstance(words, dict):
        return _message_of(words)
    items = [json_object(item) for item in words] if isinstance(words, list) else []
    places = (".".join(map(str, where)) if isinstance(where := item.get("loc"), list) else "" for item in items)
    return "; ".join(f"{place}: {json_text(item.get('msg'))}" for place, item in zip(places, items, strict=True))


def _status_of(error: JsonObject, words: str) -> int | None:
    for key in ("status_code", "status", "code"):
        value = error.get(key)
        if isinstance(value, str) and value.isdecimal():
            value = int(value[:3])
        if type(value) is int and 400 <= value < 600:
            return value
    return next((status for pattern, status in _STATUSES if pattern.search(words)), None)


def _fault_kind(status: int | None, words: str) -> ModelFault:
    """Return the kind of this error, by its status and its words."""
    if status in (401, 403):
        return "auth"
    if status == 402 or (_QUOTA.search(words) and status in (None, 400, 429)):
        return "quota"
    # llama.cpp answers 500; OpenAI answers 429 when it is above the limit of a minute.
    if status == 413 or _TOO_LONG.search(words):
        return "too_long"
    if status is not None and (status >= 500 or status in (408, 409, 425, 429)):
        return "overloaded"
    if status == 404 or _UNKNOWN_MODEL.search(words):
        return "unknown_model"
    return "refused" if _REFUSED.search(words) else "rejected"


def _error(fault: ModelFault, message: str, status: int | None) -> ModelError:
    remedy = _RATE_LIMIT if status == 429 and fault == "overloaded" else _REMEDIES[fault]
    quoted = quote_message(message, _SECRET)
    number = f" {status}" if status else ""
    answer = f" It said{number}: {quoted!r}." if quoted else f" It answered{number} without a reason." if status else ""
    return ModelError(fault, remedy + answer, status=status)
