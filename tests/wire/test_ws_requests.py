"""What the gateway asks a client, as a client reads it (ws.md 5)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handspan.core.values import JsonObject
from handspan.wire.fast_requests import read_request
from handspan.wire.ws import FrameError, decode_server, encode
from handspan.wire.ws_frames import CallRequest

ID = "550e8400-e29b-41d4-a716-446655440000"


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
    assert read_request(data) is None
    with pytest.raises(FrameError):
        decode_server(data)


@pytest.mark.parametrize("more", [(), ('"timeout_ms":30000',), ('"again":true',), ('"timeout_ms":1', '"again":true')])
def test_a_request_as_the_gateway_writes_it_is_read(more: tuple[str, ...]) -> None:
    data = frame('{"text":"x: y","n":[1,{"b":null}]}', *more)
    read = decode_server(data)
    assert read_request(data) == read
    assert isinstance(read, CallRequest)
    assert encode(read) == data


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
    assert read_request(encode(request)) in (None, request)
