"""Where a token stands in a request. The first nine are those of ClawSeed (origins 1.12)."""

import pytest

from handspan.gateway.entry.tokens import PresentedToken, find_token, hash_of, is_same, new_token, page_cookie
from tests.gateway.entry.entering import scope, socket_scope


def test_a_token_in_the_header_is_found() -> None:
    assert find_token(socket_scope(authorization="Bearer t1")) == ("t1", "header")


def test_a_token_in_the_sub_protocol_is_found() -> None:
    assert find_token(socket_scope(sec_websocket_protocol="bearer.t1")) == ("t1", "subprotocol")


def test_a_token_in_the_query_is_found() -> None:
    assert find_token(socket_scope(query="token=t1")) == ("t1", "query")


def test_the_header_comes_before_the_sub_protocol() -> None:
    asked = socket_scope(authorization="Bearer t1", sec_websocket_protocol="bearer.t2", query="token=t3")
    assert find_token(asked) == ("t1", "header")


def test_the_sub_protocol_comes_before_the_query() -> None:
    assert find_token(socket_scope(sec_websocket_protocol="bearer.t2", query="token=t3")) == ("t2", "subprotocol")


def test_no_token_anywhere_is_none() -> None:
    assert find_token(socket_scope()) is None


def test_an_empty_header_falls_through() -> None:
    assert find_token(socket_scope(authorization="Bearer ", query="token=t3")) == ("t3", "query")
    assert find_token(socket_scope(authorization="", query="token=t3")) == ("t3", "query")
    assert find_token(socket_scope(authorization="Bearer ", sec_websocket_protocol="bearer.")) is None


def test_an_empty_query_parameter_is_none() -> None:
    assert find_token(socket_scope(query="token=")) is None
    assert find_token(socket_scope(query="session_id=a&token=&name=b")) is None


def test_the_sub_protocol_is_found_among_several() -> None:
    for offered in ("clawseed.v1, bearer.t2", "bearer.t2,clawseed.v1", "clawseed.v1, bearer. , bearer.t2, other"):
        assert find_token(socket_scope(sec_websocket_protocol=offered)) == ("t2", "subprotocol")


def test_the_cookie_comes_last() -> None:
    cookie = "other=x; handspan_page_42617=page.t4; more=y"
    assert find_token(scope(cookie=cookie)) == ("page.t4", "cookie")
    assert find_token(scope(cookie=cookie, query="token=t3")) == ("t3", "query")
    assert find_token(scope(cookie=cookie, query="token=")) == ("page.t4", "cookie")
    assert find_token(scope(cookie=cookie, authorization="Basic eDp5")) == ("page.t4", "cookie")


@pytest.mark.parametrize("cookie", ["handspan_page_42617=", "handspan_page_1=page.t", "handspan_page=page.t", "x", ""])
def test_the_cookie_of_another_gateway_is_not_ours(cookie: str) -> None:
    assert find_token(scope(cookie=cookie)) is None


@pytest.mark.parametrize(
    "cookie",
    [
        "a=b;handspan_page_42617=page.t4",
        "handspan_page_42617=; \t handspan_page_42617= page.t4 ;a=b",
        "xhandspan_page_42617=page.t5; handspan_page_42617=page.t4",
        "x=handspan_page_42617=page.t5; handspan_page_42617=page.t4",
    ],
)
def test_the_cookie_is_found_by_its_whole_name(cookie: str) -> None:
    assert find_token(scope(cookie=cookie)) == ("page.t4", "cookie")


def test_of_very_many_places_for_a_token_only_the_first_ones_are_looked_at() -> None:
    assert find_token(scope(sec_websocket_protocol="x," * 1000 + "bearer.t2")) is None
    assert find_token(scope(query="token=&" * 1000 + "token=t3")) is None
    assert find_token(scope(cookie="handspan_page_42617=;" * 1000 + "handspan_page_42617=page.t4")) is None
    assert find_token(scope(query="a=b&" * 1000 + "token=t3")) == ("t3", "query")
    assert find_token(scope(cookie="a=b;" * 1000 + "handspan_page_42617=page.t4")) == ("page.t4", "cookie")


def test_two_headers_are_as_good_as_none() -> None:
    asked = scope(authorization="Bearer t1")
    asked["headers"].append((b"authorization", b"Bearer t2"))
    assert find_token(asked) is None


def test_the_scheme_is_read_in_any_case_and_the_query_is_decoded() -> None:
    assert find_token(scope(authorization="bearer   t1 ")) == ("t1", "header")
    assert find_token(scope(query="a=%ff&token=t%2D1&token=t2")) == ("t-1", "query")
    assert find_token(scope(query="mytoken=t1")) is None


def test_tokens_are_long_never_the_same_and_kept_as_hashes() -> None:
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(len(token) == 43 and token.replace("-", "").replace("_", "").isalnum() for token in tokens)
    assert hash_of("t1") == "628b49d96dcde97a430dd4f597705899e09a968f793491e4b704cae33a40dc02"
    assert is_same("a\ud800", "a\ud800") and not is_same("a", "b") and not is_same("a", "aa")


def test_a_token_is_not_seen_in_a_repr() -> None:
    assert "secret" not in repr(PresentedToken("secret", "query"))


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites() -> None:
    assert page_cookie(scope(), "page.t", "") == (
        b"handspan_page_42617=page.t; HttpOnly; SameSite=Strict; Path=/; Max-Age=2592000"
    )
    secure = page_cookie(scope(scheme="https"), "page.t", "/hs").decode()
    assert secure.endswith("; Path=/hs; Max-Age=2592000; Secure")
    assert page_cookie(scope(server=None), "page.t", "").startswith(b"handspan_page=page.t; ")
