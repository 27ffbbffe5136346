"""Decides whether and when a failed request is sent again. The caller gives the time and the random number."""

from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final, final

from msgspec import Struct

from handspan.models.model import ModelFault

STREAM_TYPES: Final = frozenset(
    {"text/event-stream", "application/x-ndjson", "application/ndjson", "application/jsonl"}
)
API_TYPES: Final = STREAM_TYPES | {"application/json"}
"""The types of answers that a model's API gives."""
_RETRYABLE_STATUSES: Final = frozenset({408, 409, 429})
_TEMPORARY: Final[frozenset[ModelFault]] = frozenset({"overloaded", "network", "cut"})
"""Faults that may be gone a moment later."""
_PERMANENT: Final[frozenset[ModelFault]] = frozenset({"auth", "quota", "too_long", "unknown_model", "refused"})
"""Faults that stay, whatever the status says: llama.cpp answers 500 to a conversation that is too long."""


@final
class RetryPolicy(Struct, frozen=True):
    """How often and how long one request is tried."""

    tries: int = 4
    """The number of tries, with the first one."""
    seconds: float = 120.0
    """The time limit from the first try on: no pause ends later."""
    first_pause: float = 0.5
    longest_pause: float = 20.0
    """The limit of the doubled pauses. A server may ask for a longer one, within `seconds`."""


@final
class FailedTry(Struct, frozen=True):
    """A try that failed."""

    fault: ModelFault
    status: int | None = None
    """The answer's status; None when there was no answer, or when the failure came inside one."""
    headers: Mapping[str, str] = {}
    """The answer's headers, with names in lower case."""
    is_delivered: bool = False
    """Whether the caller has got a part of the answer."""
    requested: float | None = None
    """The seconds that the answer's body asks to wait."""
    is_sent: bool = True
    """False when the request was never sent, such as to a host that the operator does not allow."""


def is_retryable(failure: FailedTry) -> bool:
    """Return whether the same request may succeed later, and sending it again does no harm."""
    if failure.is_delivered or not failure.is_sent:
        return False
    if failure.fault in _PERMANENT:
        return False
    advice = failure.headers.get("x-should-retry")
    if advice in ("true", "false"):  # OpenAI and Anthropic send this header
        return advice == "true"
    if failure.fault == "unreadable":  # an answer of another type comes from another server: base_url is wrong
        return failure.headers.get("content-type", "").partition(";")[0].strip().lower() in API_TYPES
    if failure.status is None or failure.status == 200:
        return failure.fault in _TEMPORARY
    return failure.status in _RETRYABLE_STATUSES or failure.status >= 500


def pause_before_retry(
    failure: FailedTry, policy: RetryPolicy, *, tried: int, elapsed: float, now: float, roll: float
) -> float | None:
    """Return the seconds to wait before the next try; None when there is none.

    `tried` counts the tries so far, `elapsed` the seconds since the first began. `now` is the time of day, for a date
    in Retry-After. `roll` is a random number from 0 to 1.
    """
    if tried >= policy.tries or not is_retryable(failure):
        return None
    requested = requested_wait(failure, now)
    doubled = min(policy.first_pause * 2 ** (tried - 1), policy.longest_pause)
    # Always with jitter, so that the clients of a server that comes back do not all ask at the same moment.
    pause = doubled * (0.5 + roll / 2) if requested is None else requested + policy.first_pause * roll
    return pause if elapsed + pause <= policy.seconds else None


def requested_wait(failure: FailedTry, now: float) -> float | None:
    """Return the seconds that the server asks to wait, in a header or the body; None when it does not ask."""
    milliseconds = _number(failure.headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    text = failure.headers.get("retry-after", "")
    seconds = _number(text)
    seconds = _seconds_until(text, now) if seconds is None else seconds
    return failure.requested if seconds is None else seconds


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None


def _seconds_until(text: str, now: float) -> float | None:
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return None
