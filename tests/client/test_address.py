"""Where the gateway is."""

import pytest

from handspan.client.address import Address


@pytest.mark.parametrize("url", ["", "127.0.0.1:42617", "ftp://host", "http://", "/ws/chat"])
def test_what_is_no_address_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(ValueError, match="write it like 'http://127"):
        Address(url)


@pytest.mark.parametrize("url", ["http://me:secret@host", "http://host/?token=secret", "http://host/#secret"])
def test_what_may_be_a_secret_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ValueError, match="give the token as `token`") as caught:
        Address(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "socket", "http"),
    [
        ("http://host:1", "ws://host:1/ws/chat", "http://host:1/api"),
        ("https://host/", "wss://host/ws/chat", "https://host/api"),
        ("ws://host/hands", "ws://host/hands/ws/chat", "http://host/hands/api"),
        ("wss://host/hands/ws/chat", "wss://host/hands/ws/chat", "https://host/hands/api"),
        ("http://[::1]:5/ws/chat/", "ws://[::1]:5/ws/chat", "http://[::1]:5/api"),
    ],
)
def test_every_form_of_an_address_gives_both_that_are_needed(url: str, socket: str, http: str) -> None:
    address = Address(url)
    assert (address.socket(), address.http("/api")) == (socket, http)


def test_session_agent_and_name_go_into_the_query() -> None:
    assert Address("http://host").socket("s 1", "Clerk", "Tax & co") == (
        "ws://host/ws/chat?session_id=s+1&persona=Clerk&name=Tax+%26+co"
    )


def test_only_this_machine_is_local() -> None:
    assert Address("http://127.0.0.1:1").is_local
    assert Address("ws://[::1]:1").is_local
    assert not Address("http://example.org").is_local
    assert str(Address("ws://example.org/hands")) == "http://example.org/hands"
