"""Frames to bytes and back: what the short way for results must not let through."""

import pytest

from handspan.core.values import Json
from handspan.wire.ws import FrameError, decode_client
from handspan.wire.ws_frames import ResultFrame

ID = "550e8400-e29b-41d4-a716-446655440000"


def frame(output: str, *more: str, call: str = ID) -> bytes:
    """A result as clients write it, perhaps with more in it."""
    keys = (f'"id":"{call}"', f'"output":{output}', '"success":true', *more)
    return ('{"type":"tool_result",' + ",".join(keys) + "}").encode()


def refusal(data: bytes, max_depth: int = 64) -> tuple[str, str]:
    with pytest.raises(FrameError) as refused:
        decode_client(data, max_depth)
    return refused.value.code, str(refused.value)


@pytest.mark.parametrize(
    "data",
    [
        frame('"done"', f'"id":"{ID}"'),
        frame('"done"', '"output":"again"'),
        frame('{"a":1}', '"output":"again"'),
        frame('"done"', '"output":{"a":1}'),
        frame('"done"', '"success":true'),
        frame('"done"', '"type":"tool_result"'),
        frame('"done"', '"\\u0069d":"other"'),
        frame('{"a":1,"a":2}'),
        frame('[{"b":{"a":1,"a":2}}]'),
    ],
)
def test_a_doubled_key_in_a_result_is_refused(data: bytes) -> None:
    code, message = refusal(data)
    assert code == "INVALID_JSON" and "stands twice in one object" in message


@pytest.mark.parametrize("data", [frame('"\xff"').replace(b"\xc3\xbf", b"\xff"), frame("nul"), frame('"a')[:-1]])
def test_a_result_that_is_no_json_is_refused(data: bytes) -> None:
    assert refusal(data)[0] == "INVALID_JSON"


def test_a_result_may_be_as_deep_as_any_frame_and_not_deeper() -> None:
    for max_depth in (2, 5, 64):
        deepest = "[" * (max_depth - 1) + "]" * (max_depth - 1)
        assert isinstance(decode_client(frame(deepest), max_depth), ResultFrame)
        code, message = refusal(frame(f"[{deepest}]"), max_depth)
        assert code == "INVALID_JSON" and f"more than {max_depth} levels" in message
    assert refusal(frame("[" * 5000 + "]" * 5000))[0] == "INVALID_JSON"


@pytest.mark.parametrize(
    ("written", "output"),
    [
        ('"done"', "done"),
        ('"a: b: c"', "a: b: c"),
        ('{"a":{"b":":"}}', {"a": {"b": ":"}}),
        ("null", None),
        ("1.5", 1.5),
        ('[1, {"x": "y"}]', [1, {"x": "y"}]),
        ('"\\u003a\\ud83d\\ude00"', ":\U0001f600"),
    ],
)
def test_whatever_a_tool_answers_is_read_the_same_on_the_short_way_and_on_the_long_one(
    written: str, output: Json
) -> None:
    expected = ResultFrame(ID, output=output)
    assert decode_client(frame(written)) == expected
    assert decode_client(frame(written).decode()) == expected
    assert decode_client(frame(written, '"unknown":1')) == expected
    assert (
        decode_client(frame(written).replace(b'"type":"tool_result",', b"")[:-1] + b',"type":"tool_result"}')
        == expected
    )


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (frame('"done"', call="a:b"), ResultFrame("a:b", output="done")),
        (b'{"type":"tool_result","id":7,"output":"done","success":true}', ResultFrame(7, output="done")),
        (b'{"type":"tool_result","call_id":"c","output":"done"}', ResultFrame(call_id="c", output="done")),
        (b'{"type":"tool_result","id":"c","success":false,"error":"no"}', ResultFrame("c", success=False, error="no")),
        (b'{"type":"tool_result"}', ResultFrame()),
    ],
)
def test_a_result_that_is_a_little_different_is_read_as_any_frame(data: bytes, expected: ResultFrame) -> None:
    assert decode_client(data) == expected


def test_a_result_with_a_wrong_type_is_refused_with_the_reason() -> None:
    code, message = refusal(b'{"type":"tool_result","id":"c","output":"done","success":"yes"}')
    assert code == "INVALID_FRAME" and "success" in message
