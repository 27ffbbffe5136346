"""Another try: only where it can help and does no harm, and not for ever."""

from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handspan.models.model import ModelFault
from handspan.models.retry import FailedTry, RetryPolicy, pause_before_retry

NOW = 1_800_000_000.0


def pause(failure: FailedTry, *, tried: int = 1, elapsed: float = 0.0, roll: float = 0.0) -> float | None:
    return pause_before_retry(failure, RetryPolicy(), tried=tried, elapsed=elapsed, now=NOW, roll=roll)


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(FailedTry("overloaded", 500, is_delivered=True), id="after the first delta"),
        pytest.param(FailedTry("cut", is_delivered=True), id="cut in the middle"),
        pytest.param(FailedTry("network", is_sent=False), id="a host that is not allowed"),
        pytest.param(FailedTry("quota", 429, {"retry-after": "1"}), id="an empty account"),
        pytest.param(
            FailedTry("quota", 429, {"x-should-retry": "true"}), id="an empty account, whatever the server says"
        ),
        pytest.param(FailedTry("auth", 401), id="a bad key"),
        pytest.param(FailedTry("auth", 500), id="a bad key behind a bad server"),
        pytest.param(FailedTry("rejected", 400), id="a bad request"),
        pytest.param(FailedTry("unknown_model", 404), id="an unknown model"),
        pytest.param(FailedTry("too_long", 413), id="too long"),
        pytest.param(FailedTry("too_long", 500), id="too long, as llama.cpp says it"),
        pytest.param(FailedTry("rejected", 307), id="a redirect"),
        pytest.param(FailedTry("unreadable", 200), id="not the API at all"),
        pytest.param(FailedTry("refused", 200), id="a refusal"),
        pytest.param(FailedTry("overloaded", 503, {"x-should-retry": "false"}), id="the server says no"),
    ],
)
def test_never(failure: FailedTry) -> None:
    assert pause(failure) is None


@pytest.mark.parametrize(
    "failure",
    [
        *(FailedTry("overloaded", status) for status in (408, 409, 429, 500, 502, 503, 504, 529)),
        FailedTry("network"),
        FailedTry("cut", 200),
        FailedTry("overloaded", 200),
        FailedTry("rejected", 400, {"x-should-retry": "true"}),
    ],
)
def test_worth_a_try(failure: FailedTry) -> None:
    assert pause(failure) == 0.25


def test_the_pauses_grow_and_are_never_the_same_for_everybody() -> None:
    failure = FailedTry("overloaded", 500)
    policy = RetryPolicy(tries=99, seconds=1e9)
    pauses = [pause_before_retry(failure, policy, tried=tried, elapsed=0, now=NOW, roll=1.0) for tried in range(1, 9)]
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 20.0, 20.0]
    assert pause(failure, roll=0.0) == 0.25


def test_tries_and_time_are_bounded() -> None:
    failure = FailedTry("overloaded", 500)
    assert pause(failure, tried=3) is not None
    assert pause(failure, tried=4) is None
    assert pause(failure, elapsed=119.9) is None
    assert pause(FailedTry("overloaded", 429, {"retry-after": "121"})) is None


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": formatdate(NOW + 8, usegmt=True)}, 8.0),
        ({"retry-after": formatdate(NOW - 8, usegmt=True)}, 0.0),
        ({"retry-after": "soon"}, 0.25),
        ({"retry-after": "-1"}, 0.25),
        ({"retry-after": "inf"}, 0.25),
        ({"retry-after": "nan"}, 0.25),
        ({"retry-after": "Fri, 31 Feb 2026 00:00:00 GMT"}, 0.25),
    ],
)
def test_the_server_may_say_how_long(headers: dict[str, str], seconds: float) -> None:
    assert pause(FailedTry("overloaded", 429, headers)) == seconds


def test_the_answer_may_say_it_in_its_own_words_where_no_header_does() -> None:
    assert pause(FailedTry("overloaded", 429, requested=4.0)) == 4.0
    assert pause(FailedTry("overloaded", 429, {"retry-after": "2"}, requested=4.0)) == 2.0


faults: st.SearchStrategy[ModelFault] = st.sampled_from(["auth", "quota", "overloaded", "network", "cut", "rejected"])


@given(
    st.builds(
        FailedTry,
        faults,
        st.sampled_from([None, 200, 400, 401, 429, 500, 529]),
        st.dictionaries(st.sampled_from(["retry-after", "retry-after-ms", "x-should-retry"]), st.text(max_size=30)),
        st.booleans(),
    ),
    st.integers(1, 9),
    st.floats(0, 500),
    st.floats(0, 1),
)
def test_every_pause_ends_in_time(failure: FailedTry, tried: int, elapsed: float, roll: float) -> None:
    seconds = pause(failure, tried=tried, elapsed=elapsed, roll=roll)
    assert seconds is None or (seconds >= 0 and elapsed + seconds <= 120 and tried < 4 and not failure.is_delivered)
