"""Headers that are refused, and how a redirect changes a request."""

import pytest

from handspan.core.errors import ToolError
from handspan.net.exchange import Headers, Hop, check_headers, check_method
from handspan.net.urls import parse_url

HERE = parse_url("https://example.com/a")
SECRETS: Headers = (
    ("Authorization", "Bearer s3cret"),
    ("Cookie", "sid=s3cret"),
    ("X-Api-Key", "s3cret"),
    ("Accept", "text/plain"),
    ("Content-Type", "application/json"),
)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X-A", "1\r\nX-Evil: 2"),
        ("X-A", "1\nX-Evil: 2"),
        ("X-A", "1\rX"),
        ("X-A", "\x00"),
        ("X-A", "\x7f"),
        ("X-A", "\ud800"),
        ("X-A: 1\r\nX-B", "2"),
        ("X A", "1"),
        ("X-A:", "1"),
        ("", "1"),
        ("Ä", "1"),
        ("Host", "internal"),
        ("hOsT", "internal"),
        ("Content-Length", "5"),
        ("Transfer-Encoding", "chunked"),
        ("Connection", "upgrade"),
        ("Upgrade", "h2c"),
        ("Proxy-Authorization", "Basic x"),
        ("Accept-Encoding", "br"),
    ],
)
def test_a_header_that_could_change_the_request_itself_is_refused(name: str, value: str) -> None:
    with pytest.raises(ToolError) as raised:
        check_headers(((name, value),))
    assert raised.value.code == "invalid_arguments"


def test_ordinary_headers_pass() -> None:
    headers = (("Authorization", "Bearer x"), ("X-Title", " Zürich "), ("Accept", "a/b, c/d;q=0.1"), ("x_y", ""))
    assert check_headers(headers)[1] == ("X-Title", "Zürich")
    assert len(check_headers(headers)) == 4


@pytest.mark.parametrize("method", ["GET / HTTP/1.1\r\nX: y", "get", "CONNECT", "TRACE", "", "G E T"])
def test_a_method_that_is_not_sent_is_refused_with_those_that_are(method: str) -> None:
    with pytest.raises(ToolError, match="POST") as raised:
        check_method(method)
    assert raised.value.code == "invalid_arguments"


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE"])
def test_a_usual_method_passes(method: str) -> None:
    assert check_method(method) == method


@pytest.mark.parametrize(
    ("method", "status", "becomes", "keeps_body"),
    [
        ("POST", 301, "GET", False),
        ("POST", 302, "GET", False),
        ("POST", 303, "GET", False),
        ("PUT", 303, "GET", False),
        ("DELETE", 303, "GET", False),
        ("HEAD", 303, "HEAD", True),
        ("PUT", 301, "PUT", True),
        ("GET", 302, "GET", True),
        ("POST", 307, "POST", True),
        ("POST", 308, "POST", True),
    ],
)
def test_a_redirect_changes_the_method_as_browsers_do(method: str, status: int, becomes: str, keeps_body: bool) -> None:
    hop = Hop(HERE, method, SECRETS, b"body").redirect(status, "/b")
    assert hop.method == becomes
    assert bool(hop.body) is keeps_body
    assert any(name == "Content-Type" for name, _ in hop.headers) is keeps_body
    assert ("X-Api-Key", "s3cret") in hop.headers


@pytest.mark.parametrize(
    "location",
    ["https://other.example/", "http://example.com/", "https://example.com:444/", "https://sub.example.com/"],
)
def test_secrets_stay_with_the_origin_that_they_were_meant_for(location: str) -> None:
    hop = Hop(HERE, "GET", SECRETS, b"").redirect(302, location)
    assert "s3cret" not in repr(hop.headers)
    assert ("Accept", "text/plain") in hop.headers
    assert "s3cret" not in repr(hop.redirect(302, str(HERE)).headers)
