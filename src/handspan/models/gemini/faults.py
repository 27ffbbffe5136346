"""Explains errors of Gemini in words for a person. The words never hold a key (SPEC S5)."""

import re
from typing import Final

from handspan.models.json_values import json_object, json_text, parse_json, quote_message
from handspan.models.model import ModelError, ModelFault

_MEANINGS: Final[dict[ModelFault, str]] = {
    "auth": "Gemini does not accept the API key. Set GEMINI_API_KEY to a key that is valid and may use this API.",
    "quota": "The quota of this Gemini key is used up. Wait until it is renewed, raise it, or choose another model.",
    "unknown_model": "Gemini does not know this model. Check its name in the settings, and the base URL.",
    "overloaded": "Gemini can't answer just now. Try again{later}.",
    "too_long": "The conversation is longer than this model takes. Begin a new one or send less.",
    "rejected": "Gemini refuses the request. Check the model and its options in the settings.",
}
_RETRY: Final = re.compile(r'"retryDelay\\?"\s*:\s*\\?"(\d+(?:\.\d+)?)s|retry in (\d+(?:\.\d+)?)\s?s')
_TOO_LONG: Final = re.compile(
    r"token count.{0,40}exceed|exceeds the maximum number of tokens|payload size exceeds", re.I
)
_BAD_KEY: Final = re.compile(r"API_KEY_(INVALID|EXPIRED)|API key (not valid|expired|not found)", re.I)
_USED_UP: Final = re.compile(r"PerDay|per day|limit: 0\b|credits are depleted", re.I)
_BILLING: Final = re.compile(r"plan and billing", re.I)
_SECRET: Final = re.compile(r"AIza[\w-]{10,}|AQ\.[\w-]{10,}|sk-[\w-]{10,}|ya29\.[\w.-]+|(?<=key=)[^\s&'\"]+", re.I)


def fault_of_answer(status: int, body: bytes) -> ModelError:
    """Return the error for an answer with this status and body."""
    body_text = body.decode(errors="replace")
    kind = _fault_kind(status, body_text)
    seconds = _find_wait(body_text)
    meaning = _MEANINGS[kind].format(later="" if seconds is None else f" in {round(seconds, 2):g} seconds")
    quoted = quote_message(_message_of(body_text) or body_text, _SECRET)
    details = f" It says: {quoted!r}." if quoted else ""
    return ModelError(kind, f"{meaning}{details} (HTTP {status})", status=status, wait=seconds)


def _find_wait(body_text: str) -> float | None:
    found = _RETRY.search(body_text)
    return float(found[1] or found[2]) if found else None


def _fault_kind(status: int, body_text: str) -> ModelFault:
    """Return the kind of this error, by its status and its words."""
    if status in (401, 403) or _BAD_KEY.search(body_text):
        return "auth"
    # A limit per minute names billing, too, but also gives a time to retry.
    is_used_up = _USED_UP.search(body_text) or (_BILLING.search(body_text) and not _RETRY.search(body_text))
    if status == 402 or (status == 429 and is_used_up):
        return "quota"
    if status == 404:
        return "unknown_model"
    if status == 413 or (400 <= status < 500 and _TOO_LONG.search(body_text)):
        return "too_long"
    if status in (408, 429, 499) or status >= 500:
        return "overloaded"
    return "rejected"


def _message_of(body_text: str) -> str:
    body = parse_json(body_text)
    if isinstance(body, list) and body:  # a stream that does not use server-sent events
        body = body[0]
    error = json_object(body).get("error")
    return json_text(error.get("message") if isinstance(error, dict) else error)
