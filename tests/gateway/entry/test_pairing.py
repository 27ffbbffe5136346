"""How somebody new comes in: a code for a device, a link for a browser. Both work once (SPEC S5)."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from starlette.applications import Starlette
from starlette.types import ASGIApp, Message

from handspan.config.settings import GatewaySettings, Settings
from handspan.core.principals import OPERATOR, Principal
from handspan.gateway.entry.auth import Auth, AuthMiddleware, Refused
from handspan.gateway.entry.pairing import Pairing, pairing_url, sign_in_url
from handspan.gateway.entry.pairing_routes import PairingRoutes
from handspan.gateway.entry.qr import qr_svg, qr_text
from handspan.gateway.prefix import PathPrefix
from handspan.store.store import SqliteStore
from tests.gateway.entry.entering import Answer, scope
from tests.store.things import Clock, soon

pytestmark = pytest.mark.anyio
PHONE = "192.168.1.20"
WRONG = "0000-0000-0000"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def store(tmp_path: Path, clock: Clock) -> AsyncIterator[SqliteStore]:
    async with SqliteStore(tmp_path / "state", clock=clock) as store:
        yield store


async def opened(store: SqliteStore, clock: Clock, tmp_path: Path, **gateway: Any) -> Auth:
    state = tmp_path / "state"
    settings = Settings(tmp_path / "workspace", state, gateway=GatewaySettings(**gateway))
    auth = Auth(settings, store.tokens, state, clock)
    await soon(auth.open())
    return auth


@pytest.fixture
async def auth(store: SqliteStore, clock: Clock, tmp_path: Path) -> Auth:
    return await opened(store, clock, tmp_path)


@pytest.fixture
def pairing(auth: Auth, clock: Clock) -> Pairing:
    return Pairing(auth, clock)


async def refusal(pairing: Pairing, code: str, address: str = PHONE) -> Refused:
    with pytest.raises(Refused) as refused:
        await soon(pairing.pair(code, "", address))
    return refused.value


class TestCodes:
    async def test_a_code_lets_one_device_in_with_the_scopes_that_were_given(
        self, auth: Auth, pairing: Pairing, store: SqliteStore
    ) -> None:
        made = pairing.new_code(Principal("ann", ("admin",)))
        assert re.fullmatch(r"\d{4}-\d{4}-\d{4}", made.code) and made.expires_in == 300
        assert made.code not in repr(made)
        token = await soon(pairing.pair(made.code, "Ann's phone", PHONE))
        admitted = await soon(auth.admit(scope(authorization=f"Bearer {token}")))
        assert admitted.who == Principal("ann", ("chat", "device"))
        assert [kept.label for kept in await soon(store.tokens.all(owner="ann"))] == ["Ann's phone"]
        assert (await refusal(pairing, made.code)).code == "wrong_code"

    async def test_a_code_may_be_typed_without_its_dashes(self, pairing: Pairing) -> None:
        assert await soon(pairing.pair(f" {pairing.new_code(OPERATOR).code.replace('-', ' ')} ", "", PHONE))
        assert await soon(pairing.pair(pairing.new_code(OPERATOR).code.replace("-", ""), "", PHONE))

    async def test_a_code_that_is_too_old_is_as_good_as_a_wrong_one(self, pairing: Pairing, clock: Clock) -> None:
        made = pairing.new_code(OPERATOR)
        clock.now += 300
        late = await refusal(pairing, made.code)
        wrong = await refusal(pairing, WRONG)
        assert (late.status, late.code, late.message) == (wrong.status, wrong.code, wrong.message)
        assert late.status == 403

    async def test_five_wrong_tries_end_a_code_wherever_they_come_from(self, pairing: Pairing) -> None:
        made = pairing.new_code(OPERATOR)
        for number in range(5):
            assert (await refusal(pairing, WRONG, f"192.168.1.{number}")).status == 403
        assert (await refusal(pairing, made.code)).status == 403

    async def test_four_wrong_tries_do_not(self, pairing: Pairing) -> None:
        made = pairing.new_code(OPERATOR)
        for code in (
            WRONG,
            WRONG,
            WRONG,
            WRONG,
            "",
            "1234",
            "x" * 5000,
            "١٢٣٤-٥٦٧٨-٩٠١٢",
        ):  # what is no code is no guess
            await refusal(pairing, code)
        assert await soon(pairing.pair(made.code, "", PHONE))

    async def test_an_address_may_try_ten_times_a_minute(self, pairing: Pairing, clock: Clock) -> None:
        for _ in range(10):
            assert (await refusal(pairing, "no code")).status == 403
        made = pairing.new_code(OPERATOR)
        refused = await refusal(pairing, made.code)
        assert (refused.status, refused.retry_after) == (429, 60)
        assert msgspec.json.decode(refused.body()).keys() == {"error", "code", "retry_after"}
        assert await soon(pairing.pair(made.code, "", "192.168.1.99"))
        clock.now += 60
        assert (await refusal(pairing, "no code")).status == 403

    async def test_only_an_admin_makes_codes_and_only_for_scopes_that_there_are(self, pairing: Pairing) -> None:
        for who, scopes, status in (
            (Principal("ann", ("chat", "device")), ("chat",), 403),
            (OPERATOR, ("root",), 422),
            (OPERATOR, (), 422),
        ):
            with pytest.raises(Refused) as refused:
                pairing.new_code(who, scopes)
            assert refused.value.status == status
        assert pairing.new_code(Principal("ann", ("admin",)), ("admin",)).scopes == ("admin",)

    async def test_so_many_codes_may_be_open_and_the_oldest_goes_first(self, pairing: Pairing, clock: Clock) -> None:
        codes = [pairing.new_code(OPERATOR).code for _ in range(17)]
        assert await soon(pairing.pair(codes[1], "", PHONE))
        assert (await refusal(pairing, codes[0])).status == 403


class TestLinks:
    async def test_a_link_signs_one_browser_in_and_not_for_ever(self, pairing: Pairing, clock: Clock) -> None:
        code = pairing.new_link(OPERATOR)
        assert (await soon(pairing.sign_in(code)) or "").startswith("page.")
        assert await soon(pairing.sign_in(code)) is None
        late = pairing.new_link(OPERATOR)
        clock.now += 600
        assert await soon(pairing.sign_in(late)) is None
        for wrong in ("", "x", "\ud800"):
            assert await soon(pairing.sign_in(wrong)) is None

    async def test_a_link_is_no_pairing_code_and_neither_is_the_operators_token(
        self, auth: Auth, pairing: Pairing
    ) -> None:
        assert pairing.new_link(OPERATOR) != auth.operator_token
        assert await soon(pairing.sign_in(auth.operator_token)) is None
        assert (await refusal(pairing, pairing.new_link(OPERATOR))).status == 403


class Browser:
    """Asks the routes as they are served."""

    def __init__(self, auth: Auth, pairing: Pairing, prefix: str = "") -> None:
        routes = Starlette(routes=PairingRoutes(auth, pairing).routes())
        guarded: ASGIApp = AuthMiddleware(routes, auth)
        self._app: ASGIApp = PathPrefix(guarded, prefix) if prefix else guarded
        self._prefix = prefix

    async def __call__(self, path: str, body: bytes = b"", *, cut_off: bool = False, **given: Any) -> Answer:
        coming: list[Message] = [{"type": "http.request", "body": body, "more_body": cut_off}]
        answer = Answer()

        async def receive() -> Message:
            return coming.pop(0) if coming else {"type": "http.disconnect"}

        await soon(self._app(scope(f"{self._prefix}{path}", **given), receive, answer))
        return answer


@pytest.fixture
def ask(auth: Auth, pairing: Pairing) -> Browser:
    return Browser(auth, pairing)


class TestPairRoute:
    async def test_the_code_stands_in_the_header_as_clawseed_sends_it(
        self, ask: Browser, auth: Auth, pairing: Pairing
    ) -> None:
        code = pairing.new_code(OPERATOR).code
        answered = await ask("/pair", method="POST", x_pairing_code=code)
        told = msgspec.json.decode(answered.body)
        assert (answered.status, answered.headers["cache-control"]) == (200, "no-store")
        assert told.keys() == {"paired", "persisted", "token", "message"}
        assert told["paired"] is True and told["persisted"] is True
        await soon(auth.admit(scope(authorization=f"Bearer {told['token']}")))

    async def test_the_code_and_a_label_stand_in_the_body(
        self, ask: Browser, pairing: Pairing, store: SqliteStore
    ) -> None:
        body = msgspec.json.encode({"code": pairing.new_code(OPERATOR).code, "label": "kitchen"})
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

    async def test_pages_of_others_cannot_pair(self, ask: Browser, pairing: Pairing) -> None:
        code = pairing.new_code(OPERATOR).code
        answered = await ask("/pair", method="POST", x_pairing_code=code, origin="https://evil.example")
        assert answered.status == 403
        assert (await ask("/pair", method="POST", x_pairing_code=code)).status == 200

    async def test_a_device_that_was_locked_out_is_let_in_when_it_pairs(
        self, ask: Browser, auth: Auth, pairing: Pairing
    ) -> None:
        for _ in range(11):
            with pytest.raises(Refused):
                await soon(auth.admit(scope(client=PHONE, authorization="Bearer old")))
        answered = await ask("/pair", method="POST", client=PHONE, x_pairing_code=pairing.new_code(OPERATOR).code)
        token = msgspec.json.decode(answered.body)["token"]
        await soon(auth.admit(scope(client=PHONE, authorization=f"Bearer {token}")))

    async def test_a_store_that_is_gone_is_no_wrong_code(
        self, ask: Browser, pairing: Pairing, store: SqliteStore
    ) -> None:
        code = pairing.new_code(OPERATOR).code
        await soon(store.close())
        assert (await ask("/pair", method="POST", x_pairing_code=code)).status == 503

    async def test_the_code_itself_is_not_to_be_had_and_the_page_is_always_the_same(
        self, ask: Browser, pairing: Pairing
    ) -> None:
        assert (await ask("/pair/code")).status == 401
        empty = (await ask("/pair")).body
        pairing.new_code(OPERATOR)
        assert (await ask("/pair")).body == empty and b"<script" not in empty


class TestSignInRoute:
    async def test_the_link_becomes_a_cookie_and_leads_to_the_page(
        self, ask: Browser, auth: Auth, pairing: Pairing
    ) -> None:
        code = pairing.new_link(OPERATOR)
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

    async def test_with_tls_and_a_prefix_the_cookie_is_for_them(
        self, store: SqliteStore, clock: Clock, tmp_path: Path
    ) -> None:
        auth = await opened(store, clock, tmp_path, path_prefix="/hs")
        pairing = Pairing(auth, clock)
        ask = Browser(auth, pairing, "/hs")
        answered = await ask("/signin", query=f"code={pairing.new_link(OPERATOR)}", scheme="https")
        assert answered.headers["location"] == "/hs/"
        assert "; Path=/hs; " in answered.headers["set-cookie"] and "; Secure" in answered.headers["set-cookie"]

    async def test_a_browser_that_looks_ahead_does_not_use_the_link_up(self, ask: Browser, pairing: Pairing) -> None:
        query = f"code={pairing.new_link(OPERATOR)}"
        assert (await ask("/signin", query=query, method="HEAD")).status == 503
        assert (await ask("/signin", query=query, sec_purpose="prefetch;prerender")).status == 503
        assert (await ask("/signin", query=query)).status == 303

    async def test_a_store_that_is_gone_signs_nobody_in(
        self, ask: Browser, pairing: Pairing, store: SqliteStore
    ) -> None:
        query = f"code={pairing.new_link(OPERATOR)}"
        await soon(store.close())
        assert (await ask("/signin", query=query)).status == 503

    @pytest.mark.parametrize("query", ["", "code=", "code=x", "code=%ff", "other=1"])
    async def test_a_wrong_link_says_what_to_do_and_nothing_else(self, ask: Browser, query: str) -> None:
        answered = await ask("/signin", query=query)
        assert answered.status == 403 and b"handspan serve" in answered.body
        assert answered.headers["content-security-policy"] == "default-src 'none'"

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


class TestAddresses:
    def test_the_code_of_a_qr_address_stands_where_no_server_sees_it(self) -> None:
        assert pairing_url("http://box:1/hs", "1234-5678-9012") == "http://box:1/hs/pair#code=1234-5678-9012"
        assert sign_in_url("http://box:1", "abc") == "http://box:1/signin?code=abc"

    def test_a_qr_code_is_text_for_terminals_and_svg_for_pages(self) -> None:
        url = pairing_url("http://192.168.1.20:42617", "1234-5678-9012")
        text, svg = qr_text(url), qr_svg(url)
        assert set(text) <= set(" ▀▄█\n") and len(text.splitlines()) > 10
        assert svg.startswith("<svg") and svg.endswith("</svg>") and "script" not in svg
