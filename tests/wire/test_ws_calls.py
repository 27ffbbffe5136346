"""Calls and their results, as the other end reads them (ws.md 5)."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handspan.core.values import Json, JsonObject
from handspan.wire.fast_calls import read_request, read_result
from handspan.wire.strict_json import parse_slowly
from handspan.wire.ws import FrameError, decode_client, decode_server, encode
from handspan.wire.ws_frames import CallRequest, ResultFrame

ID = "550e8400-e29b-41d4-a716-446655440000"
DEPTH = 64


def frame(args: str = '{"a":1}', *more: str) -> bytes:
    keys = ('"type":"tool_call_request"', f'"id":"{ID}"', '"name":"say"', f'"args":{args}', *more)
    return ("{" + ",".join(keys) + "}").encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"\xff",
        b'{"type":"tool_call_request"}',
        frame('{"a":1,"a":2}'),
        frame('{"a":{"b":1,"b":1}}'),
        frame('{"a":1}', '"args":{}'),
        frame('{"a":1}', f'"id":"{ID}"'),
        frame('{"a":1}', '"\\u0069d":"other"'),
        frame('{"a":"\\ud800"}'),
        frame('{"a":"\xff"}').replace("\xff".encode(), b"\xff"),
        frame('{"a":1e999}'),
        frame('{"a":NaN}'),
        frame("[1]"),
        frame("7"),
        frame('{"a":' + "[" * 64 + "]" * 64 + "}"),
        frame('{"a":1}') + b"x",
        frame('{"a":1}', '"timeout_ms":"soon"'),
    ],
)
def test_a_request_that_two_parsers_could_read_in_two_ways_is_refused(data: bytes) -> None:
    assert read_request(data, DEPTH) is None
    with pytest.raises(FrameError):
        decode_server(data)


@pytest.mark.parametrize("more", [(), ('"timeout_ms":30000',), ('"again":true',), ('"timeout_ms":1', '"again":true')])
def test_a_request_as_the_gateway_writes_it_is_read(more: tuple[str, ...]) -> None:
    data = frame('{"text":"x: y","n":[1,{"b":null}]}', *more)
    read = msgspec.convert(parse_slowly(data), CallRequest)
    assert read_request(data, DEPTH) == read
    assert decode_server(data) == read
    assert encode(read) == data


def result(output: str = '"done"', *more: str) -> bytes:
    keys = ('"type":"tool_result"', f'"id":"{ID}"', f'"output":{output}', '"success":true', *more)
    return ("{" + ",".join(keys) + "}").encode()


@pytest.mark.parametrize(
    "data",
    [
        result('"a"', '"output":"b"'),
        result('{"a":1,"a":2}'),
        result('"a"', f'"id":"{ID}"'),
        result('"a"', '"\\u0069d":"other"'),
        result('"\\ud800"'),
        result('"\xff"').replace("\xff".encode(), b"\xff"),
        result("1e999"),
        result("[" * 64 + "]" * 64),
        result('"a"', '"parts":7'),
        result() + b"x",
        b'{"type":"tool_result","success":7}',
    ],
)
def test_a_result_that_two_parsers_could_read_in_two_ways_is_refused(data: bytes) -> None:
    assert read_result(data, DEPTH) is None
    with pytest.raises(FrameError):
        decode_client(data)


@pytest.mark.parametrize("output", ['"done"', '"x: {y}"', '{"n":[1,{"b":null}]}', "1.5", "null", '"ä"'])
@pytest.mark.parametrize("more", [(), ('"parts":[{"kind":"image","media_type":"image/png","data":"aGk="}]',)])
def test_a_result_as_our_devices_write_it_is_read(output: str, more: tuple[str, ...]) -> None:
    data = result(output, *more)
    read = msgspec.convert(parse_slowly(data), ResultFrame)
    assert read_result(data, DEPTH) == read
    assert decode_client(data) == read


@pytest.mark.parametrize(
    "data", [result().replace(b",", b", "), result('"\\u00e4"'), result('"a"', '"more":1'), result("[" * 65 + "]" * 65)]
)
def test_a_result_that_is_written_otherwise_is_left_to_the_strict_reader(data: bytes) -> None:
    assert read_result(data, DEPTH) is None


json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(max_size=10), json, max_size=4), st.none() | st.integers(1, 10**9), st.booleans())
def test_whatever_the_gateway_asks_for_is_read_as_it_was_meant(
    args: JsonObject, timeout_ms: int | None, again: bool
) -> None:
    request = CallRequest("c1", "say", args, timeout_ms, again)
    assert decode_server(encode(request)) == request
    assert read_request(encode(request), DEPTH) in (None, request)


@given(json)
def test_whatever_a_device_answers_is_read_as_it_was_meant(output: Json) -> None:
    answer = ResultFrame(id="c1", output=output)
    assert decode_client(encode(answer)) == answer
    assert read_result(encode(answer), DEPTH) in (None, answer)
