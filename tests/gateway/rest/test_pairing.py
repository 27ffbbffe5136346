"""`/pair` and `/signin` as they are served: open to everybody, and the same for everybody (SPEC S5)."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs
from starlette.types import ASGIApp, Message

from handspan.core.principals import OPERATOR
from handspan.core.store import Store
from handspan.gateway.entry.auth import Auth
from handspan.gateway.entry.pairing import Pairing
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.paths import below_prefix
from tests.gateway.entry.entering import Answer, scope
from tests.gateway.rest.served import Rest, settings
from tests.waiting import soon

pytestmark = pytest.mark.anyio
PHONE = "192.168.1.20"


@pytest.fixture
async def rest(tmp_path: Path) -> AsyncIterator[Rest]:
    """A gateway without a port: requests come from where a test says."""
    rest = Rest(settings(tmp_path))
    await soon(rest.open())
    yield rest
    await soon(rest.close())


@pytest.fixture
async def below(tmp_path: Path) -> AsyncIterator[Rest]:
    """The same, below a path."""
    rest = Rest(settings(tmp_path, gateway={"port": 0, "path_prefix": "/hs"}))
    await soon(rest.open())
    yield rest
    await soon(rest.close())


@pytest.fixture
def auth(rest: Rest) -> Auth:
    return rest.parts.auth


@pytest.fixture
def pairing(rest: Rest) -> Pairing:
    return rest.parts.pairing


@pytest.fixture
def store(rest: Rest) -> Store:
    return rest.parts.store


@pytest.fixture
def ask(rest: Rest) -> "Browser":
    return Browser(rest)


class Browser:
    """Asks the routes as they are served."""

    def __init__(self, rest: Rest) -> None:
        self._prefix = rest.settings.gateway.path_prefix
        self._app: ASGIApp = below_prefix(rest.asgi, self._prefix) if self._prefix else rest.asgi

    async def __call__(self, path: str, body: bytes = b"", *, cut_off: bool = False, **given: Any) -> Answer:
        coming: list[Message] = [{"type": "http.request", "body": body, "more_body": cut_off}]
        answer = Answer()

        async def receive() -> Message:
            return coming.pop(0) if coming else {"type": "http.disconnect"}

        await soon(self._app(scope(f"{self._prefix}{path}", **given), receive, answer))
        return answer


class TestPairRoute:
    async def test_the_code_stands_in_the_header_as_clawseed_sends_it(
        self, ask: Browser, auth: Auth, pairing: Pairing
    ) -> None:
        code = (await pairing.new_code(OPERATOR)).code
        answered = await ask("/pair", method="POST", x_pairing_code=code)
        told = msgspec.json.decode(answered.body)
        assert (answered.status, answered.headers["cache-control"]) == (200, "no-store")
        assert told.keys() == {"paired", "persisted", "token", "message"}
        assert told["paired"] is True and told["persisted"] is True
        await soon(auth.admit(scope(authorization=f"Bearer {told['token']}")))

    async def test_the_code_and_a_label_stand_in_the_body(self, ask: Browser, pairing: Pairing, store: Store) -> None:
        body = msgspec.json.encode({"code": (await pairing.new_code(OPERATOR)).code, "label": "kitchen"})
        assert (await ask("/pair", body, method="POST")).status == 200
        assert "kitchen" in {token.label for token in await soon(store.tokens.all(owner="operator"))}

    @pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"code": 5}', b'{"code": "0000-0000-0000"}', b"\xff"])
    async def test_whatever_is_no_code_is_refused_in_the_same_words(self, ask: Browser, body: bytes) -> None:
        answered = await ask("/pair", body, method="POST")
        assert (answered.status, answered.headers["content-type"]) == (403, "application/json")
        assert msgspec.json.decode(answered.body) == {
            "error": "This pairing code is wrong, used or too old: ask for a new one.",
            "code": "wrong_code",
        }

    async def test_who_tries_too_often_is_told_when_to_come_back(self, ask: Browser) -> None:
        for _ in range(10):
            await ask("/pair", method="POST", x_pairing_code="x")
        answered = await ask("/pair", method="POST", x_pairing_code="x")
        assert (answered.status, answered.headers["retry-after"]) == (429, "60")
        assert msgspec.json.decode(answered.body)["retry_after"] == 60

    async def test_a_large_body_and_one_that_never_ends_are_refused(self, ask: Browser) -> None:
        assert (await ask("/pair", b"x" * 5000, method="POST")).status == 413
        assert (await ask("/pair", b"{", cut_off=True, method="POST")).status == 400

    async def test_what_else_stands_in_the_body_is_passed_over(self, ask: Browser, pairing: Pairing) -> None:
        for more in ({"label": None}, {"label": 5}, {"device": {"os": "x"}}):
            body = msgspec.json.encode({"code": (await pairing.new_code(OPERATOR)).code, **more})
            assert (await ask("/pair", body, method="POST", content_type="text/plain")).status == 200
        code = (await pairing.new_code(OPERATOR)).code
        assert (await ask("/pair", b"{", method="POST", x_pairing_code=f" {code} ")).status == 200

    async def test_a_body_that_does_not_come_is_not_waited_for_long(self, rest: Rest) -> None:
        rest.state.limits = structs.replace(rest.state.limits, seconds=0.01)
        came, answer = [b'{"co', b"de"], Answer()

        async def receive() -> Message:
            if came:
                return {"type": "http.request", "body": came.pop(0), "more_body": True}
            await asyncio.Event().wait()
            raise AssertionError

        await soon(rest.asgi(scope("/pair", method="POST"), receive, answer))
        assert (answer.status, answer.headers["connection"]) == (408, "close")
        assert msgspec.json.decode(answer.body)["code"] == "too_slow"

    async def test_pages_of_others_cannot_pair(self, ask: Browser, pairing: Pairing) -> None:
        code = (await pairing.new_code(OPERATOR)).code
        answered = await ask("/pair", method="POST", x_pairing_code=code, origin="https://evil.example")
        assert answered.status == 403
        assert (await ask("/pair", method="POST", x_pairing_code=code)).status == 200

    async def test_a_device_that_was_locked_out_is_let_in_when_it_pairs(
        self, ask: Browser, auth: Auth, pairing: Pairing
    ) -> None:
        for _ in range(11):
            with pytest.raises(Refusal):
                await soon(auth.admit(scope(client=PHONE, authorization="Bearer old")))
        answered = await ask(
            "/pair", method="POST", client=PHONE, x_pairing_code=(await pairing.new_code(OPERATOR)).code
        )
        token = msgspec.json.decode(answered.body)["token"]
        await soon(auth.admit(scope(client=PHONE, authorization=f"Bearer {token}")))

    async def test_a_store_that_is_gone_is_no_wrong_code(self, ask: Browser, pairing: Pairing, store: Store) -> None:
        code = (await pairing.new_code(OPERATOR)).code
        await soon(store.close())
        assert (await ask("/pair", method="POST", x_pairing_code=code)).status == 503

    async def test_the_code_itself_is_not_to_be_had_and_the_page_is_always_the_same(
        self, ask: Browser, pairing: Pairing
    ) -> None:
        assert (await ask("/pair/code")).status == 401
        empty = (await ask("/device")).body
        await pairing.new_code(OPERATOR)
        assert (await ask("/device")).body == empty and b"<script" not in empty

    async def test_the_address_of_older_links_leads_to_the_page(self, ask: Browser) -> None:
        answered = await ask("/pair")
        assert (answered.status, answered.headers["location"]) == (303, "/device")

    async def test_a_gateway_without_a_root_of_its_own_says_how_to_get_one(self, ask: Browser) -> None:
        answered = await ask("/device/root.crt")
        assert answered.status == 404 and b"handspan serve --lan --tls" in answered.body


class TestSignInRoute:
    async def test_the_link_becomes_a_cookie_and_leads_to_the_page(
        self, ask: Browser, auth: Auth, pairing: Pairing
    ) -> None:
        code = await pairing.new_link(OPERATOR)
        answered = await ask("/signin", query=f"code={code}")
        assert (answered.status, answered.headers["location"]) == (303, "/")
        cookie, *kept = answered.headers["set-cookie"].split("; ")
        assert {"HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=2592000"} == set(kept)
        assert auth.operator_token not in cookie and code not in cookie
        admitted = await soon(auth.admit(scope(cookie=cookie)))
        assert admitted.who == OPERATOR
        again = await ask("/signin", query=f"code={code}", cookie=cookie)  # the same browser, a second time
        assert (again.status, "set-cookie" in again.headers) == (303, False)
        stranger = await ask("/signin", query=f"code={code}")
        assert (stranger.status, "set-cookie" in stranger.headers) == (403, False)

    async def test_with_tls_and_a_prefix_the_cookie_is_for_them(self, below: Rest) -> None:
        ask, code = Browser(below), await below.parts.pairing.new_link(OPERATOR)
        answered = await ask("/signin", query=f"code={code}", scheme="https")
        assert answered.headers["location"] == "/hs/"
        assert "; Path=/hs; " in answered.headers["set-cookie"] and "; Secure" in answered.headers["set-cookie"]

    async def test_a_browser_that_looks_ahead_does_not_use_the_link_up(self, ask: Browser, pairing: Pairing) -> None:
        query = f"code={(await pairing.new_link(OPERATOR))}"
        assert (await ask("/signin", query=query, method="HEAD")).status == 503
        assert (await ask("/signin", query=query, sec_purpose="prefetch;prerender")).status == 503
        assert (await ask("/signin", query=query)).status == 303

    async def test_a_store_that_is_gone_signs_nobody_in(self, ask: Browser, pairing: Pairing, store: Store) -> None:
        query = f"code={(await pairing.new_link(OPERATOR))}"
        await soon(store.close())
        assert (await ask("/signin", query=query)).status == 503

    @pytest.mark.parametrize("query", ["", "code=", "code=x", "code=%ff", "other=1"])
    async def test_a_wrong_link_says_what_to_do_and_nothing_else(self, ask: Browser, query: str) -> None:
        answered = await ask("/signin", query=query)
        assert answered.status == 403 and b"handspan pair --browser" in answered.body
        style = answered.body.partition(b"<style>")[2].partition(b"</style>")[0]
        allowed = f"'sha256-{b64encode(sha256(style).digest()).decode()}'"
        assert style and answered.headers["content-security-policy"] == f"default-src 'none'; style-src {allowed}"

    async def test_a_device_token_in_the_address_does_not_sign_a_browser_in(self, ask: Browser, auth: Auth) -> None:
        answered = await ask("/signin", query=f"token={auth.operator_token}")
        assert (answered.status, "set-cookie" in answered.headers) == (403, False)


class TestNewLinks:
    async def test_an_admin_gets_a_new_link_and_nobody_else_does(
        self, ask: Browser, auth: Auth, pairing: Pairing
    ) -> None:
        assert (await ask("/api/signin", method="POST")).status == 401
        chat = await soon(auth.issue("ann", ("chat",)))
        assert (await ask("/api/signin", method="POST", authorization=f"Bearer {chat}")).status == 403
        answered = await ask("/api/signin", method="POST", authorization=f"Bearer {auth.operator_token}")
        told = msgspec.json.decode(answered.body)
        address, _, query = told["url"].partition("?")
        assert (answered.status, address, told["expires_in"]) == (201, "http://127.0.0.1:42617/signin", 600)
        assert auth.operator_token not in told["url"]
        assert (await ask("/signin", query=query)).status == 303


class TestWhoAmI:
    async def test_a_caller_learns_its_owner_and_scopes(self, ask: Browser, auth: Auth) -> None:
        assert (await ask("/api/me")).status == 401
        chat = await soon(auth.issue("ann", ("chat",)))
        answered = await ask("/api/me", authorization=f"Bearer {chat}")
        assert msgspec.json.decode(answered.body) == {"owner": "ann", "scopes": ["chat"], "is_browser": False}

    async def test_a_browser_signs_out_and_a_program_does_not(self, ask: Browser, auth: Auth) -> None:
        bearer, own = f"Bearer {auth.operator_token}", "http://127.0.0.1:42617"
        assert (await ask("/api/signout", method="POST", authorization=bearer)).status == 409
        link = msgspec.json.decode((await ask("/api/signin", method="POST", authorization=bearer)).body)["url"]
        cookie = (await ask("/signin", query=link.partition("?")[2])).headers["set-cookie"].partition(";")[0]
        assert msgspec.json.decode((await ask("/api/me", cookie=cookie)).body)["is_browser"]
        assert (await ask("/api/signout", method="POST", cookie=cookie, origin=own)).status == 200
        assert (await ask("/api/me", cookie=cookie)).status == 401
