"""The strict parse: what it refuses, what it takes, and where a redirect leads."""

import pytest

from handspan.core.errors import ToolError
from handspan.net.urls import MAX_URL_LENGTH, address_of, parse_host, parse_url, resolve_location

REFUSED = [
    "",
    "example.com",
    "//example.com/",
    "http:/example.com",
    "http:example.com",
    "http://",
    "http:///path",
    "http://?q",
    "http://:80/",
    "file:///etc/passwd",
    "ftp://example.com/",
    "gopher://127.0.0.1:6379/_INFO",
    "dict://127.0.0.1:11211/",
    "data:text/html,x",
    "javascript:alert(1)",
    "ws://example.com/",
    "unix:///run/docker.sock",
    "jar:http://example.com!/",
    " http://example.com/",
    "http://example.com/\n",
    "http://exa mple.com/",
    "http://exa\tmple.com/",
    "http://example.com/a b",
    "http://example.com\r\nHost: internal/",
    "http://example.com/\u00a0x",
    "http://example.com/\u2028x",
    "http://example.com/\ud800",
    "http://127.0.0.1\x00.example.com/",
    "http://user@example.com/",
    "http://user:secret@example.com/",
    "http://example.com@127.0.0.1/",
    "http://127.1.1.1:80\\@5.5.5.5/",
    "http://5.5.5.5\\127.0.0.1/",
    "http://5.5.5.5:80@@127.0.0.1/",
    "http://5.5.5.5&@127.0.0.1#@6.6.6.6/",
    "http://%31%32%37.0.0.1/",
    "http://127.0.0.1%2f.example.com/",
    "http://example%2ecom/",
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0x7f.0.0.1/",
    "http://0X7F.0.0.0X1/",
    "http://017700000001/",
    "http://0177.0.0.1/",
    "http://127.1/",
    "http://127.0.1/",
    "http://0/",
    "http://1.2.3.4.5/",
    "http://1.2.3.256/",
    "http://1.2.3.0x4/",
    "http://example.0x/",
    "http://example.123/",
    "http://127.0.0.01/",
    "http://127.0.0.1../",
    "http://.example.com/",
    "http://example..com/",
    "http://-example.com/",
    "http://example-.com/",
    "http://exam$ple.com/",
    "http://exam,ple.com/",
    'http://exam"ple.com/',
    "http://" + "a" * 64 + ".com/",
    "http://" + "a.bcdefg" * 40 + "/",
    "http://①②⑦.1/",
    "http://exa\u2044mple.com/",
    "http://a\u2025b.com/",
    "http://☃.net/",
    "http://[::1/",
    "http://::1/",
    "http://[::1]x/",
    "http://[fe80::1%eth0]/",
    "http://[fe80::1%25eth0]/",
    "http://[::ffff:127.0.0.1.5]/",
    "http://[v1.x]/",
    "http://[]/",
    "http://[127.0.0.1]/",
    "http://[::1][::2]/",
    "http://example.com:0/",
    "http://example.com:65536/",
    "http://example.com:99999/",
    "http://example.com:123456/",
    "http://example.com:-1/",
    "http://example.com:+80/",
    "http://example.com:8 0/",
    "http://example.com:８０/",
    "http://example.com:/",
    "http://example.com:80:80/",
    "http://example.com:80x/",
    "http://example.com/" + "x" * MAX_URL_LENGTH,
]


@pytest.mark.parametrize("text", REFUSED)
def test_a_text_that_is_no_plain_web_address_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ToolError, match=r"https://example\.com/page") as raised:
        parse_url(text)
    assert raised.value.code == "invalid_arguments"
    assert len(raised.value.message) < 900


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("http://example.com", "http://example.com/"),
        ("HTTP://EXAMPLE.COM/Path", "http://example.com/Path"),
        ("https://example.com:443/", "https://example.com/"),
        ("https://example.com:8443/", "https://example.com:8443/"),
        ("http://example.com:00080/", "http://example.com/"),
        ("http://example.com./", "http://example.com/"),
        ("http://example.com?q=1", "http://example.com/?q=1"),
        ("http://example.com/?a=b@c&d=%2F", "http://example.com/?a=b@c&d=%2F"),
        ("http://example.com/a%20b/@me:x", "http://example.com/a%20b/@me:x"),
        ("http://example.com/#@127.0.0.1", "http://example.com/"),
        ("http://example.com/straße", "http://example.com/straße"),
        ("http://bücher.example/", "http://xn--bcher-kva.example/"),
        ("http://xn--bcher-kva.example/", "http://xn--bcher-kva.example/"),
        ("http://faß.example/", "http://xn--fa-hia.example/"),
        ("http://日本語.jp/", "http://xn--wgv71a119e.jp/"),
        ("http://my_host/", "http://my_host/"),
        ("http://r3---sn-x.example.com/", "http://r3---sn-x.example.com/"),
        ("http://1password.example/", "http://1password.example/"),
        ("http://8.8.8.8:53/", "http://8.8.8.8:53/"),
        ("http://8.8.8.8./", "http://8.8.8.8/"),
        ("http://[2606:4700:0000::1111]/", "http://[2606:4700::1111]/"),
        ("http://[2606:4700::1111]:8080/", "http://[2606:4700::1111]:8080/"),
        # These spell addresses that the table judges; the parse only makes them plain.
        ("http://①②⑦.⓪.⓪.①/", "http://127.0.0.1/"),
        ("http://127。0。0。1/", "http://127.0.0.1/"),
        ("http://１２７.0.0.1/", "http://127.0.0.1/"),
        ("http://ⓛocalhost/", "http://localhost/"),
        ("http://local\u00adhost/", "http://localhost/"),
        ("http://[0:0:0:0:0:FFFF:127.0.0.1]/", "http://[::ffff:7f00:1]/"),
    ],
)
def test_a_web_address_has_one_canonical_form(text: str, canonical: str) -> None:
    url = parse_url(text)
    assert str(url) == canonical
    assert parse_url(canonical) == url


def test_a_host_is_an_address_or_a_name() -> None:
    assert str(address_of("127.0.0.1")) == "127.0.0.1"
    assert str(address_of("::1")) == "::1"
    assert address_of("example.com") is None
    assert parse_host("Example.COM.") == "example.com"


@pytest.mark.parametrize(
    ("location", "leads_to"),
    [
        ("http://other.example/x", "http://other.example/x"),
        ("//other.example/x", "https://other.example/x"),
        ("/root", "https://example.com:8443/root"),
        ("sibling", "https://example.com:8443/a/sibling"),
        ("../up", "https://example.com:8443/a/../up"),
        ("?page=2", "https://example.com:8443/a/b?page=2"),
        ("", "https://example.com:8443/a/b?page=1"),
        ("#top", "https://example.com:8443/a/b?page=1"),
        (" /with blank ", "https://example.com:8443/with%20blank"),
        ("/a:b", "https://example.com:8443/a:b"),
    ],
)
def test_a_location_is_read_from_where_it_was_given(location: str, leads_to: str) -> None:
    assert str(resolve_location(parse_url("https://example.com:8443/a/b?page=1"), location)) == leads_to


@pytest.mark.parametrize(
    "location",
    [
        "file:///etc/passwd",
        "gopher://127.0.0.1/",
        "http:127.0.0.1/",
        "http://user@127.0.0.1/",
        "\\\\127.0.0.1\\x",
        "/\\127.0.0.1/",
        "//127.1/",
        "///127.0.0.1/",
        "http://exa mple.com/",
        "/a\r\nSet-Cookie: x",
        "javascript:alert(1)",
    ],
)
def test_a_location_that_is_no_plain_web_address_is_refused(location: str) -> None:
    with pytest.raises(ToolError) as raised:
        resolve_location(parse_url("https://example.com/a/b"), location)
    assert raised.value.code == "invalid_arguments"
