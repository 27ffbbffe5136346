"""Whether a request that failed is worth another try, and when. Pure decisions: no clock, no dice of their own."""

from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final, final

from msgspec import Struct

from handspan.models.model import ModelFault

_STATUSES: Final = frozenset({408, 409, 429})
_PASSING: Final[frozenset[ModelFault]] = frozenset({"overloaded", "network", "cut"})
"""Faults that may be gone in a moment."""
_LASTING: Final[frozenset[ModelFault]] = frozenset({"auth", "quota", "too_long", "unknown_model", "refused"})
"""Faults that will not, whatever the status says: llama.cpp answers 500 to what is too long."""


@final
class RetryPolicy(Struct, frozen=True):
    """How much patience there is with one request."""

    tries: int = 4
    """All of them, the first included."""
    seconds: float = 120.0
    """From the first try on; no pause may end later."""
    first_pause: float = 0.5
    longest_pause: float = 20.0
    """What doubling may come to. A server that asks for more is listened to, within `seconds`."""


@final
class FailedTry(Struct, frozen=True):
    """A try that failed."""

    fault: ModelFault
    status: int | None = None
    """The answer's status; None when no answer came, or when the failure came inside of one."""
    headers: Mapping[str, str] = {}
    """Of the answer, names in lower case."""
    delivered: bool = False
    """Something of the answer was handed on already."""
    asked: float | None = None
    """Seconds that the answer asks to wait in words of its own, beside the usual headers."""
    dialled: bool = True
    """False: it was not even tried, such as for a host that the operator does not allow."""


def is_retryable(failure: FailedTry) -> bool:
    """Whether the same request may succeed later, and repeating it does no harm."""
    if failure.delivered or not failure.dialled:
        return False
    if failure.fault in _LASTING:
        return False
    told = failure.headers.get("x-should-retry")
    if told in ("true", "false"):  # what OpenAI and Anthropic answer in so many words
        return told == "true"
    if failure.status is None or failure.status == 200:
        return failure.fault in _PASSING
    return failure.status in _STATUSES or failure.status >= 500


def pause_before_retry(
    failure: FailedTry, policy: RetryPolicy, *, tried: int, elapsed: float, now: float, roll: float
) -> float | None:
    """Seconds to wait before the next try; None when there shall be none.

    `tried` counts the tries so far, `elapsed` the seconds since the first began, `now` is the time of day (for a date
    in Retry-After), `roll` a random number from 0 to 1.
    """
    if tried >= policy.tries or not is_retryable(failure):
        return None
    asked = requested_wait(failure, now)
    doubled = min(policy.first_pause * 2 ** (tried - 1), policy.longest_pause)
    # Jitter always: when a server comes back, not everybody shall knock at the same moment.
    pause = doubled * (0.5 + roll / 2) if asked is None else asked + policy.first_pause * roll
    return pause if elapsed + pause <= policy.seconds else None


def requested_wait(failure: FailedTry, now: float) -> float | None:
    """The seconds that the server asks us to wait, however it says so; None when it does not."""
    milliseconds = _number(failure.headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    text = failure.headers.get("retry-after", "")
    seconds = _number(text)
    seconds = _until(text, now) if seconds is None else seconds
    return failure.asked if seconds is None else seconds


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None


def _until(text: str, now: float) -> float | None:
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return None
