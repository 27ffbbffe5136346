"""Crowded JSON is refused before it is read; large texts are not crowds."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from handspan.core.errors import WireError
from handspan.core.fast import IS_FAST
from handspan.core.values import Json
from handspan.wire import fast_json, strict_json
from handspan.wire.json_size import MAX_DIGITS, MAX_TINY, TooManyValues, check_value_count

MAX = 3_000
MEGABYTE = 1_000_000

texts = st.text() | st.text(alphabet='",:{[]}\\/u003a')
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=20
)


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which of the two parsers were asked."""
    asked: list[str] = []

    def noting(name: str, ask: Callable[..., Json]) -> Callable[..., Json]:
        def noted(*arguments: Any, **more: Any) -> Json:
            asked.append(name)
            return ask(*arguments, **more)

        return noted

    monkeypatch.setattr(fast_json, "_decode", noting("fast", fast_json._decode))
    monkeypatch.setattr(strict_json, "parse_slowly", noting("slow", strict_json.parse_slowly))
    return asked


def many(unit: str, count: int = MAX, before: str = "[", after: str = "]") -> str:
    return before + ",".join([unit] * count) + after


@pytest.mark.parametrize(
    "raw",
    [
        many("1", MAX + 1),
        many(" 1", MAX + 1),
        many("[]"),
        many("{}"),
        many('""', MAX + 1),
        many('",:{["', MAX + 1),
        many('"\\""', MAX + 1),
        many('"\\\\"', MAX + 1),
        many('{"":{}}'),
        many("[" * 60 + "]" * 60),
        many('{"a":' * 60 + "1" + "}" * 60),
        '{"initial_state":{' + ",".join(f'"{number}":1' for number in range(MAX)) + "}}",
        '{"a":"\\u003a","b":' + many("1", MAX + 1) + "}",
        # What is no JSON is not read up to the place that shows it either.
        many("1", MAX + 1, after=""),
        many('{"a":1}', after="]x"),
        many('{"a":1}', after=',{"a":1,"a":2}]'),
        many('"a"', MAX + 1, after=',"\\ud800"]'),
        many('"a"', 2 * MAX + 2, after=',"'),
        "[" * MEGABYTE,
        '{"a":' * MEGABYTE,
    ],
    ids=lambda raw: f"{raw[:24]}…{raw[-12:]}",
)
def test_a_crowd_is_refused_before_anything_of_it_is_read(raw: str, reading: list[str]) -> None:
    for given_ in (raw, raw.encode()):
        with pytest.raises(TooManyValues, match=r"more than 3,000 values and keys .* send less at once"):
            strict_json.parse(given_, max_values=MAX)
    assert reading == []


@pytest.mark.parametrize(
    ("number", "count"), [("9" * 101, 1), ("1." + "9" * 101, 1), ("9" * 4300, 100), ("-1" + "0" * 5000, 1)]
)
def test_a_number_with_very_many_digits_is_refused_before_it_is_read(
    number: str, count: int, reading: list[str]
) -> None:
    raw = many(number, count, before='{"a": "' + "x" * 2 * MAX + '", "b": [', after="]}")
    with pytest.raises(TooManyValues, match="more than 100 digits: send it as a text"):
        strict_json.parse(raw, max_values=MAX)
    assert reading == []


@pytest.mark.parametrize("number", ["5e-324", "1.99999999999999999999E-300"])
def test_very_many_numbers_that_take_long_are_refused_before_they_are_read(number: str, reading: list[str]) -> None:
    assert strict_json.parse(many(number, MAX_TINY), max_values=MAX) == [float(number)] * MAX_TINY
    reading.clear()
    with pytest.raises(TooManyValues, match=r"2,000 numbers in it have an exponent below -99"):
        strict_json.parse(many(number, MAX_TINY + 1), max_values=MAX)
    assert reading == []


def test_up_to_the_limit_all_is_read_and_one_more_is_refused() -> None:
    assert strict_json.parse(many("1"), max_values=MAX) == [1] * MAX
    with pytest.raises(TooManyValues):
        strict_json.parse(many("1", MAX + 1), max_values=MAX)
    assert len(strict_json.parse(many("1", MAX + 1))) == MAX + 1  # type: ignore[arg-type]  # it is a list


@pytest.mark.parametrize(
    "text",
    [
        "a, b: [c], {d} ",
        '{"a": [1, 2]},',
        "C:\\dir\\",
        '\\"',
        '",',
        "9" * MAX_DIGITS * 2,
        "e-300 ",
        "\n",
        "é:",
    ],
)
def test_a_text_may_be_long_whatever_stands_in_it(text: str, reading: list[str]) -> None:
    value = {"text": text * (MEGABYTE // len(text)), "more": [1, {"a:": ","}, text]}
    for raw in (json.dumps(value), json.dumps(value, ensure_ascii=False).encode()):
        assert strict_json.parse(raw, max_values=MAX) == value
    assert reading == (["fast", "fast"] if IS_FAST else ["slow", "slow"])


@pytest.mark.parametrize("raw", [b"," * MEGABYTE, b"\x89PNG" + b",:[{9" * MEGABYTE, b"--x\r\n" + b"9" * MEGABYTE])
def test_of_what_is_no_json_at_all_that_is_told(raw: bytes) -> None:
    with pytest.raises(WireError, match=r"^Not (JSON|UTF-8)"):
        strict_json.parse(raw, max_values=MAX)


@pytest.mark.parametrize("raw", ["\ud800" * 3 * MAX, "[" + "1," * MAX + '1,"\ud800"]'])
def test_half_a_surrogate_pair_does_not_get_in_the_way_of_counting(raw: str) -> None:
    with pytest.raises(WireError):
        strict_json.parse(raw, max_values=MAX)


@given(values)
@example({'"': ["\\", {"\\": ':,"'}], "\\\\": [[], {}, "\\u003a"]})
def test_what_is_counted_is_commas_colons_and_brackets_outside_of_texts(value: Json) -> None:
    count = counted(value)
    for raw in (json.dumps(value), json.dumps(value, ensure_ascii=False), json.dumps(value, indent=1)):
        check_value_count(raw, count)
        check_value_count(raw.encode("utf-8", "surrogatepass"), count)
        if count:
            with pytest.raises(TooManyValues):
                check_value_count(raw, count - 1)


def counted(value: Json) -> int:
    """The same by another way: from the value."""
    if isinstance(value, dict):
        return 1 + len(value) + max(0, len(value) - 1) + sum(map(counted, value.values()))
    if isinstance(value, list):
        return 1 + max(0, len(value) - 1) + sum(map(counted, value))
    return 0
