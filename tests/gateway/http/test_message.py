"""The request and the response of the doors."""

from typing import Any

import pytest

from handspan.gateway.http.message import AsgiRequest, AsgiResponse, ClientGone

pytestmark = pytest.mark.anyio


def request_with(*messages: dict[str, Any], **scope: Any) -> AsgiRequest:
    waiting = list(messages)

    async def receive() -> dict[str, Any]:
        return waiting.pop(0)

    return AsgiRequest({"method": "POST", "path": "/a b", "headers": [], **scope}, receive)


async def send(response: AsgiResponse) -> list[Any]:
    sent: list[Any] = []

    async def collect(message: Any) -> None:
        sent.append(message)

    async def receive() -> dict[str, Any]:
        raise AssertionError("a whole answer needs nothing of the client")

    await response({}, receive, collect)
    return sent


def test_headers_have_lower_names_and_the_first_of_two_counts() -> None:
    request = request_with(headers=[(b"X-One", b"1"), (b"x-one", b"2"), (b"x-\xe9", b"\xe9")])
    assert request.headers == {"x-one": "1", "x-\xe9": "\xe9"}


def test_the_query_is_there_as_it_was_sent_and_by_its_fields() -> None:
    request = request_with(query_string=b"a=1&b=&a=%C3%A9")
    assert (request.query, request.query_params) == ("a=1&b=&a=%C3%A9", {"a": "é", "b": ""})
    assert (request_with().query, request_with().query_params, request_with().path_params) == ("", {}, {})


async def test_a_body_comes_in_pieces_without_empty_ones() -> None:
    more = {"type": "http.request", "more_body": True}
    request = request_with({**more, "body": b"ab"}, {**more, "body": b""}, more, {"type": "http.request", "body": b"c"})
    assert [piece async for piece in request.stream()] == [b"ab", b"c"]


async def test_a_client_that_goes_before_its_body_is_there_is_gone() -> None:
    request = request_with({"type": "http.request", "body": b"ab", "more_body": True}, {"type": "http.disconnect"})
    with pytest.raises(ClientGone):
        _ = [piece async for piece in request.stream()]


@pytest.mark.parametrize(
    ("response", "headers"),
    [
        (
            AsgiResponse("é", media_type="text/plain"),
            {"content-type": "text/plain; charset=utf-8", "content-length": "2"},
        ),
        (
            AsgiResponse(b"{}", 201, None, "application/json"),
            {"content-type": "application/json", "content-length": "2"},
        ),
        (AsgiResponse(b"", 200, {"Content-Type": "a/b"}, "c/d"), {"content-type": "a/b", "content-length": "0"}),
        (AsgiResponse(None, 206, {"content-length": "9"}), {"content-length": "9"}),
        (AsgiResponse(None, 204), {}),
    ],
)
async def test_an_answer_says_its_kind_and_length(response: AsgiResponse, headers: dict[str, str]) -> None:
    start, body = await send(response)
    assert {name.decode(): value.decode() for name, value in start["headers"]} == headers
    assert (start["status"], body["body"]) == (response.status, response.body)
