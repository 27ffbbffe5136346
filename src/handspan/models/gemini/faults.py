"""What an error answer of Gemini means, in words for a person. The words never hold a key."""

import re
from typing import Final

import msgspec

from handspan.core.values import Json
from handspan.models.model import ModelError, ModelFault

_MEANINGS: Final[dict[ModelFault, str]] = {
    "auth": "Gemini does not accept the API key. Set GEMINI_API_KEY to a key that is valid and may use this API.",
    "quota": "The quota of this Gemini key is used up. Wait until it is renewed, raise it, or choose another model.",
    "unknown_model": "Gemini does not know this model. Check its name in the settings, and the base URL.",
    "overloaded": "Gemini can't answer just now. Try again{later}.",
    "too_long": "The conversation is longer than this model takes. Begin a new one or send less.",
    "rejected": "Gemini refuses the request.",
}
_RETRY: Final = re.compile(r'"retryDelay\\?"\s*:\s*\\?"(\d+(?:\.\d+)?)s|retry in (\d+(?:\.\d+)?)\s?s')
_TOO_LONG: Final = re.compile(
    r"token count.{0,40}exceed|exceeds the maximum number of tokens|payload size exceeds", re.I
)
_BAD_KEY: Final = re.compile(r"API_KEY_(INVALID|EXPIRED)|API key (not valid|expired|not found)", re.I)
_USED_UP: Final = re.compile(r"PerDay|per day|limit: 0\b|credits are depleted", re.I)
_UNPAID: Final = re.compile(r"plan and billing", re.I)
_SECRET: Final = re.compile(r"AIza[\w-]{10,}|AQ\.[\w-]{10,}|sk-[\w-]{10,}|ya29\.[\w.-]+|(?<=key=)[^\s&'\"]+", re.I)
_MOST_QUOTED: Final = 300


def fault_of_answer(status: int, body: bytes) -> ModelError:
    """The error that this answer means."""
    raw = body.decode(errors="replace")
    kind = _kind(status, raw)
    seconds = retry_after(body)
    meaning = _MEANINGS[kind].format(later="" if seconds is None else f" in {seconds:g} seconds")
    words = _words(raw)
    quoted = f" It says: {words!r}." if words else ""
    return ModelError(kind, f"{meaning}{quoted} (HTTP {status})", status=status)


def retry_after(body: bytes) -> float | None:
    """The seconds that the answer asks to wait."""
    found = _RETRY.search(body.decode(errors="replace"))
    return float(found[1] or found[2]) if found else None


def _kind(status: int, raw: str) -> ModelFault:
    if status in (401, 403) or _BAD_KEY.search(raw):
        return "auth"
    if status == 402 or (status == 429 and _is_used_up(raw)):
        return "quota"
    if status == 404:
        return "unknown_model"
    if status == 413 or (400 <= status < 500 and _TOO_LONG.search(raw)):
        return "too_long"
    if status in (408, 429, 499) or status >= 500:
        return "overloaded"
    return "rejected"


def _is_used_up(raw: str) -> bool:
    """Whether waiting a moment will not help. Limits per minute talk of billing too, but then say when to come back."""
    return bool(_USED_UP.search(raw) or (_UNPAID.search(raw) and not _RETRY.search(raw)))


def _words(raw: str) -> str:
    """Gemini's own message, or the beginning of what a server in between said; without anything like a key."""
    text = " ".join(_SECRET.sub("…", _message(raw) or raw).split())
    return text if len(text) <= _MOST_QUOTED else f"{text[:_MOST_QUOTED]}…"


def _message(raw: str) -> str:
    try:
        body: Json = msgspec.json.decode(raw)
    except (ValueError, RecursionError):
        return ""
    if isinstance(body, list) and body:  # a stream that was not asked for as events
        body = body[0]
    error = body.get("error") if isinstance(body, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    return message if isinstance(message, str) else ""
