"""Strict JSON: refuses what two parsers could read in two ways, and never falls over."""

import json
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from handspan.core.errors import WireError
from handspan.core.values import Json
from handspan.wire.fast_json import read_if_sure
from handspan.wire.strict_json import parse, parse_slowly
from tests.wire.json_texts import REFUSED, TAKEN

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=20
)
# Texts that are nearly JSON: tokens in any order, so that doubled keys, colons in strings and bad grammar abound.
tokens = (
    st.sampled_from("{}[],:1\t\x00é\ufeff\ud800")
    | st.sampled_from(
        ['"a"', '"b:"', '"\\u003a"', '"\\u003A:"', '"\\\\u003a"', '"\\ud800"', "-0", "1e400", "NaN", "null"]
    )
    | st.sampled_from(['{"a":', '"a":1', '"\\u0061":2', '"a:":":"'])
)


def refusal(raw: bytes | str, max_depth: int = 64) -> str:
    """What `parse` says, after the arbiter has said the same: both refuse."""
    with pytest.raises(WireError):
        parse_slowly(raw, max_depth=max_depth)
    with pytest.raises(WireError) as caught:
        parse(raw, max_depth=max_depth)
    return str(caught.value)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"NaN", "NaN is no JSON number"),
        (b'{"a": [Infinity]}', "Infinity is no JSON number"),
        (b"[-Infinity]", "-Infinity is no JSON number"),
        (b"[1e999]", "the number 1e999 is too large"),
        (b"-1e999", "the number -1e999 is too large"),
        (b"[1" + b"0" * 400 + b".5]", "…"),
        (b"[1" + b"0" * 5000 + b"]", "4300 digits"),
        (b'["\\ud800"]', "'\\ud800', stands alone"),
        (b'{"\\udfaa": 1}', "'\\udfaa', stands alone"),
        (b'{"a": ["\\ud888\\u1234"]}', "'\\ud888', stands alone"),
        ('["\ud800"]', "'\\ud800', stands alone"),
        (b'["\xff"]', "Not UTF-8: invalid start byte at byte 2"),
        (b'["\xed\xa0\x80"]', "Not UTF-8"),
        (b'["\xc0\xaf"]', "Not UTF-8"),
        (b"\xef\xbb\xbf{}", "byte order mark"),
        ("\ufeff{}", "byte order mark"),
        ("[1]".encode("utf-16"), "Not UTF-8"),
        (b"{} x", "extra data at line 1, column 4 (character 3)"),
        (b"[1]\x00", "extra data"),
        (b'{"a": 1,}', "line 1, column"),
        (b'\n{"a" 1}', "expecting ':' delimiter at line 2, column 6"),
        (b'["a', "unterminated string at line 1, column 2"),
        (b'["\x01"]', "invalid control character at line 1"),
        (b'["\\x"]', "invalid \\escape at line 1"),
        (b"", "expecting value at line 1, column 1"),
        (b"[01]", "expecting ',' delimiter"),
        (b"'a'", "expecting value"),
    ],
)
def test_what_is_not_strict_json_is_refused_with_reason_and_place(raw: bytes | str, reason: str) -> None:
    assert reason in refusal(raw)


@pytest.mark.parametrize(
    "raw",
    [
        '{"a": 1, "a": 1}',
        '{"b": 0, "a": 1, "\\u0061": 2}',
        '[{"x": {"a": 1, "a": 2}}]',
        '{"a": ":", "a": 1}',
        '{"a": 1, "a": ":"}',
        '{"a": {}, "a": []}',
        # A hidden colon in the value must not pay for the key that was dropped.
        '{"a": 1, "a": "\\u003a"}',
        '{"a": 1, "a": "\\u003A"}',
        '{"a": {"b": 1}, "a": "\\u003a\\u003a"}',
        '{"a": "\\u003a", "a": "\\\\u003a"}',
        '{"a": "\\\\u003a", "a": "\\\\\\u003a"}',
    ],
)
def test_a_doubled_key_is_refused_wherever_it_stands(raw: str) -> None:
    assert "the key 'a' stands twice in one object" in refusal(raw)
    assert refusal(raw.encode()) == refusal(raw)


def test_a_doubled_key_among_very_many_is_found_and_a_long_one_is_shortened() -> None:
    many = ",".join(f'"{number}":1' for number in range(20_000))
    long = "k" * 5000
    assert len(refusal(f'{{{many},"{long}":1,"{long}":2}}')) < 200


@pytest.mark.parametrize("opened", ["[", '{"a":', '[{"a":'])
def test_endless_nesting_is_refused_without_exhausting_the_stack(opened: str) -> None:
    assert "nested more than 64 levels" in refusal(opened * 100_000)
    closed = (
        opened * 5000 + "1" + "".join("}" if part == "{" else "]" for part in reversed(opened) if part in "[{") * 5000
    )
    assert "nested more than 64 levels" in refusal(closed)


@pytest.mark.parametrize("levels", [1, 2, 64, 100])
def test_nesting_is_taken_up_to_the_limit_and_not_one_level_more(levels: int) -> None:
    text = "[" * levels + "]" * levels
    assert parse(text, max_depth=levels) == parse_slowly(text.encode(), max_depth=levels) == json.loads(text)
    assert f"nested more than {levels - 1} levels" in refusal(text, max_depth=levels - 1)
    assert f"nested more than {levels - 1} levels" in refusal(text.encode(), max_depth=levels - 1)


def test_brackets_in_strings_and_side_by_side_are_no_depth() -> None:
    text = json.dumps([["["] * 100, {"{": "}{"}, []])
    assert parse(text, max_depth=2) == json.loads(text)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"a": 2, "b": 3}',
        b'{"url": "https://example.org:8080/"}',
        b'{"a:b": {"c": [":", {"d": 1}]}, "time": "12:30"}',
        b'{"go": "\\u003cb\\u003e"}',
        b'{"a": "\\u003a"}',
        b'{"a": "\\u003A:", "b": {"c": 1}}',
        b' \t\r\n[1, -0, 0.5e-3, 1E+2, true, null, "\\ud83d\\ude00\\u0000\x7f"] ',
        b'"only text: here"',
        b"0",
        b"{}",
        b"[1e-999]",
    ],
)
def test_good_json_is_read_alike_as_bytes_and_as_text_by_both_parsers(raw: bytes) -> None:
    expected = json.loads(raw)
    assert parse(raw) == parse(raw.decode()) == parse_slowly(raw) == expected


@pytest.mark.parametrize("text", ["\\u003a", "\\\\u003a", "\\\\\\u003A:", ":\\u003a\\\\", "\\u003b:"])
def test_colons_that_are_escaped_are_counted_and_need_no_strict_parser(text: str) -> None:
    raw = f'{{"a": "{text}", "{text}": {{"b:": ["{text}", ":"]}}}}'
    assert read_if_sure(raw, 64) == read_if_sure(raw.encode(), 64) == parse_slowly(raw)


def test_large_integers_stay_exact() -> None:
    assert parse(str(2**64)) == 2**64
    assert parse(f'{{"n": {-(10**400)}}}') == {"n": -(10**400)}


@given(values)
@example({"a": {"b": ":", "::": [{}, {"": -0.0}]}})
def test_what_json_writes_is_read_back_equal(value: Json) -> None:
    try:
        text = json.dumps(value, ensure_ascii=False)
        text.encode()
    except UnicodeEncodeError:  # lone surrogates: covered above
        return
    for written in (text, text.encode(), json.dumps(value), json.dumps(value, indent=1).encode()):
        assert parse(written) == parse_slowly(written) == value


@given(st.lists(tokens, max_size=12).map("".join))
def test_fast_path_and_arbiter_agree_on_whatever_comes(text: str) -> None:
    assert outcome(parse, text) == outcome(parse_slowly, text)
    raw = text.encode("utf-8", "surrogatepass")
    assert outcome(parse, raw) == outcome(parse_slowly, raw)


@given(st.binary(max_size=40))
def test_any_bytes_give_a_value_or_a_refusal(raw: bytes) -> None:
    assert outcome(parse, raw) == outcome(parse_slowly, raw)


def outcome(parser: object, raw: bytes | str) -> tuple[str, Json]:
    assert callable(parser)
    try:
        value: Json = parser(raw, max_depth=4)
    except WireError as error:
        return "refused", str(error)
    assert not isinstance(value, float) or math.isfinite(value)
    return "taken", json.dumps(value)


def test_every_text_on_either_side_of_the_border_of_json_is_judged_right() -> None:
    assert [raw for raw in TAKEN if not outcome_of_case(raw)] == []
    assert [raw for raw in REFUSED if outcome_of_case(raw)] == []


def outcome_of_case(raw: bytes) -> bool:
    fast = outcome(lambda text, max_depth: parse(text, max_depth=64), raw)
    assert fast == outcome(lambda text, max_depth: parse_slowly(text, max_depth=64), raw)
    return fast[0] == "taken"
