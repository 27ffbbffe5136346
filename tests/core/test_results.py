"""SPEC X1: the two shapes of every answer, and what becomes of the values that Python functions return."""

import collections
import dataclasses
import datetime
import decimal
import enum
import json
import math
import pathlib
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from handspan.core.artifacts import ArtifactRef
from handspan.core.errors import ERROR_TYPES, ErrorCode, ToolError
from handspan.core.results import Attachment, Failure, Success, encode_envelope, envelope, succeed

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@dataclasses.dataclass
class Point:
    x: int
    label: str = "here"


class Mail(BaseModel):
    when: datetime.date
    to: list[str] = []
    text: str = ""


class Struct(msgspec.Struct):
    a: int


class Color(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Shout(str):
    pass


class Meters(float):
    pass


class Count(int):
    pass


class Refuses:
    def model_dump(self, mode: str) -> object:
        raise AttributeError(f"not {mode}")


class Hides:
    def __getattr__(self, name: str) -> object:
        raise RuntimeError(f"no {name} here")


def _cycle() -> list[object]:
    inner: list[object] = []
    inner.append({"again": inner})
    return inner


def _deep() -> object:
    deep: object = 1
    for _ in range(20_000):
        deep = [deep]
    return deep


def _letters() -> Iterator[str]:
    yield "a"


# What has no JSON form.


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (object, "a value of type 'object'"),
        (lambda: {"a": [1j]}, "a value of type 'complex'"),
        (_letters, "a value of type 'generator'"),
        (lambda: print, "a value of type 'builtin_function_or_method'"),
        (lambda: ValueError("x"), "a value of type 'ValueError'"),
        (lambda: {(1, 2): 3}, "Only dicts with str-like or number-like keys"),
        (lambda: {None: 3}, "Only dicts with str-like or number-like keys"),
        (_cycle, "it contains itself or is nested too deeply"),
        (_deep, "it contains itself or is nested too deeply"),
        (lambda: 10**5000, "4300 digits"),
        (Refuses, "a value of type 'Refuses' (AttributeError: not json)"),
        (Hides, "a value of type 'Hides' (RuntimeError: no model_dump here)"),
    ],
)
def test_a_value_without_json_form_is_an_error_that_says_that_the_tool_did_run(
    make: Callable[[], object], reason: str
) -> None:
    with pytest.raises(ToolError) as failed:
        succeed(make())
    assert failed.value.code == "execution_failed"
    assert failed.value.message.startswith("The tool ran, but its result can't be written as JSON: ")
    assert reason in failed.value.message and len(failed.value.message) < 400


# What has one.


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (None, None),
        (True, True),
        (0, 0),
        (-1.5, -1.5),
        ("", ""),
        ("Grüße 🌍\n\x00", "Grüße 🌍\n\x00"),
        (10**30, 10**30),
        (-(2**63) - 1, -(2**63) - 1),
        ((1, "a"), [1, "a"]),
        ({3}, [3]),
        (frozenset(["x"]), ["x"]),
        (collections.deque([1, 2]), [1, 2]),
        (range(3), [0, 1, 2]),
        ({"a": 1}.keys(), ["a"]),
        (collections.Counter("aa"), {"a": 2}),
        (collections.ChainMap({"a": 1}), {"a": 1}),
        ({1: "a", 2.5: "b"}, {"1": "a", "2.5": "b"}),
        ({Color.RED: 1, datetime.date(2026, 1, 2): 2}, {"red": 1, "2026-01-02": 2}),
        (b"\xff\x00", "/wA="),
        (bytearray(b"x"), "eA=="),
        (datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC), "2026-01-02T03:04:05Z"),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        (datetime.timedelta(minutes=1), "PT60S"),
        (decimal.Decimal("1.10"), "1.10"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (pathlib.PurePosixPath("a/b.txt"), "a/b.txt"),
        (Color.RED, "red"),
        (Level.HIGH, 3),
        (Shout("hey"), "hey"),
        (Meters(2.5), 2.5),
        (Count(7), 7),
        (Point(1), {"x": 1, "label": "here"}),
        (Struct(1), {"a": 1}),
        (Mail(when=datetime.date(2026, 1, 2), to=["a"]), {"when": "2026-01-02", "to": ["a"], "text": ""}),
        ([Mail(when=datetime.date(2026, 1, 2))], [{"when": "2026-01-02", "to": [], "text": ""}]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_python_value_becomes_the_json_that_a_reader_expects(value: object, plain: object) -> None:
    success = succeed(value)
    assert json.loads(success.encoded) == {"status": "success", "result": plain}
    assert json.loads(msgspec.json.encode(success.value)) == plain


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_does_not_know_is_null(value: float) -> None:
    assert succeed([value]).encoded == b'{"status":"success","result":[null]}'
    assert succeed(value).encoded == b'{"status":"success","result":null}'


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ("a\ud800b", "a\ufffdb"),
        (["\udfff"], ["\ufffd"]),
        (("\udfff", 1), ["\ufffd", 1]),
        ({"\ud800": {"b": "\ud800"}}, {"\ufffd": {"b": "\ufffd"}}),
        ({"\ud800"}, ["\ufffd"]),
        (Point(1, "\ud800"), {"x": 1, "label": "\ufffd"}),
        (Mail(when=datetime.date(2026, 1, 2), text="\ud800"), {"when": "2026-01-02", "to": [], "text": "\ufffd"}),
        (Shout("\ud800"), "\ufffd"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_half_a_surrogate_pair_is_replaced_wherever_it_stands(value: object, plain: object) -> None:
    success = succeed(value)
    assert json.loads(success.encoded)["result"] == plain
    assert msgspec.json.decode(msgspec.json.encode(success.value)) == plain


@given(json_values)
def test_every_json_value_comes_through_unchanged(value: Any) -> None:
    success = succeed(value)
    assert success.value == value
    assert json.loads(success.encoded) == {"status": "success", "result": value}
    assert encode_envelope(success) is success.encoded


# The envelope.


def test_a_success_has_exactly_its_two_keys() -> None:
    assert envelope(Success({"a": 1})) == {"status": "success", "result": {"a": 1}}
    assert encode_envelope(Success(None)) == b'{"status":"success","result":null}'
    assert succeed(None) == Success(None, (), b'{"status":"success","result":null}')


@pytest.mark.parametrize("code", ERROR_TYPES)
def test_an_error_has_exactly_its_four_keys(code: ErrorCode) -> None:
    failure = Failure(code, "It's broken: mend it.")
    shown = {
        "status": "error",
        "error_type": ERROR_TYPES[code],
        "code": code,
        "message": "It's broken: mend it.",
    }
    assert envelope(failure) == shown
    assert list(json.loads(encode_envelope(failure)).items()) == list(shown.items())
    assert failure.error_type == ERROR_TYPES[code]


def test_an_error_text_with_half_a_surrogate_pair_can_still_be_told() -> None:
    told = json.loads(encode_envelope(Failure("execution_failed", "No such file: \udcff.txt")))
    assert told["message"] == "No such file: \ufffd.txt"


def test_attachments_are_told_of_but_their_bytes_stay_out_of_the_text() -> None:
    picture = Attachment("image", "image/png", data=b"12345", name="a.png")
    large = Attachment("file", "video/mp4", artifact=ArtifactRef("art-1", 10_000_000))
    success = succeed("two", (picture, large))
    assert json.loads(success.encoded) == {
        "status": "success",
        "result": "two",
        "attachments": [
            {"kind": "image", "media_type": "image/png", "name": "a.png", "bytes": 5},
            {"kind": "file", "media_type": "video/mp4", "artifact": "art-1", "bytes": 10_000_000},
        ],
    }
    assert success.attachments == (picture, large)
    assert encode_envelope(Success("two", (picture, large))) == success.encoded


def test_an_attachment_named_in_another_encoding_does_no_harm() -> None:
    success = succeed({"\ud800": 1}, (Attachment("file", "text/plain", b"x", name="caf\udce9.txt"),))
    told = json.loads(success.encoded)
    assert told["result"] == {"\ufffd": 1}
    assert told["attachments"][0]["name"] == "caf\ufffd.txt"
