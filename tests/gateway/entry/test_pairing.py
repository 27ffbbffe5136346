"""How somebody new comes in: a code for a device, a link for a browser. Both work once (SPEC S5)."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from handspan.config.gateway_settings import GatewaySettings
from handspan.config.settings import Settings
from handspan.core.principals import OPERATOR, Principal
from handspan.core.store import Store
from handspan.gateway.entry.auth import Auth
from handspan.gateway.entry.pairing import Pairing, pairing_url, qr_svg, qr_text, sign_in_url
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.one_node import OneNode
from tests.gateway.entry.entering import scope
from tests.store.things import Clock
from tests.stores import open_store
from tests.waiting import soon

pytestmark = pytest.mark.anyio
PHONE = "192.168.1.20"
WRONG = "0000-0000-0000"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def store(tmp_path: Path, clock: Clock) -> AsyncIterator[Store]:
    async with open_store(tmp_path / "state", clock=clock) as store:
        yield store


async def opened(store: Store, clock: Clock, tmp_path: Path, **gateway: Any) -> Auth:
    state = tmp_path / "state"
    settings = Settings(tmp_path / "workspace", state, gateway=GatewaySettings(**gateway))
    auth = Auth(settings, store.tokens, OneNode(state), clock)
    await soon(auth.open())
    return auth


@pytest.fixture
async def auth(store: Store, clock: Clock, tmp_path: Path) -> Auth:
    return await opened(store, clock, tmp_path)


@pytest.fixture
def pairing(auth: Auth, clock: Clock, tmp_path: Path) -> Pairing:
    return Pairing(auth, OneNode(tmp_path, clock), clock)


async def refusal(pairing: Pairing, code: str, address: str = PHONE) -> Refusal:
    with pytest.raises(Refusal) as refused:
        await soon(pairing.pair(code, "", address))
    return refused.value


class TestCodes:
    async def test_a_code_lets_one_device_in_with_the_scopes_that_were_given(
        self, auth: Auth, pairing: Pairing, store: Store
    ) -> None:
        made = await pairing.new_code(Principal("ann", ("admin",)))
        assert re.fullmatch(r"\d{4}-\d{4}-\d{4}", made.code) and made.expires_in == 300
        assert made.code not in repr(made)
        paired = await soon(pairing.pair(made.code, "Ann's phone", PHONE))
        assert paired.token not in repr(paired)
        admitted = await soon(auth.admit(scope(authorization=f"Bearer {paired.token}")))
        assert admitted.who == Principal("ann", ("device",)) and paired.scopes == made.scopes == ("device",)
        assert [kept.label for kept in await soon(store.tokens.all(owner="ann"))] == ["Ann's phone"]
        assert (await refusal(pairing, made.code)).code == "wrong_code"

    async def test_a_code_may_be_typed_without_its_dashes(self, pairing: Pairing) -> None:
        assert (
            await soon(pairing.pair(f" {(await pairing.new_code(OPERATOR)).code.replace('-', ' ')} ", "", PHONE))
        ).token
        assert (await soon(pairing.pair((await pairing.new_code(OPERATOR)).code.replace("-", ""), "", PHONE))).token

    async def test_a_code_that_is_too_old_is_as_good_as_a_wrong_one(self, pairing: Pairing, clock: Clock) -> None:
        made = await pairing.new_code(OPERATOR)
        clock.now += 300
        late = await refusal(pairing, made.code)
        wrong = await refusal(pairing, WRONG)
        assert (late.status, late.code, late.message) == (wrong.status, wrong.code, wrong.message)
        assert late.status == 403

    async def test_five_wrong_tries_end_a_code_wherever_they_come_from(self, pairing: Pairing) -> None:
        made = await pairing.new_code(OPERATOR)
        for number in range(5):
            assert (await refusal(pairing, WRONG, f"192.168.1.{number}")).status == 403
        assert (await refusal(pairing, made.code)).status == 403

    async def test_four_wrong_tries_do_not(self, pairing: Pairing) -> None:
        made = await pairing.new_code(OPERATOR)
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
        assert (await soon(pairing.pair(made.code, "", PHONE))).token

    async def test_an_address_may_try_ten_times_a_minute(self, pairing: Pairing, clock: Clock) -> None:
        for _ in range(10):
            assert (await refusal(pairing, "no code")).status == 403
        made = await pairing.new_code(OPERATOR)
        refused = await refusal(pairing, made.code)
        assert (refused.status, refused.retry_after) == (429, 60)
        assert msgspec.json.decode(refused.body()).keys() == {"error", "code", "retry_after"}
        assert (await soon(pairing.pair(made.code, "", "192.168.1.99"))).token
        clock.now += 60
        assert (await refusal(pairing, "no code")).status == 403

    async def test_only_an_admin_makes_codes_and_only_for_scopes_that_there_are(self, pairing: Pairing) -> None:
        for who, scopes, status in (
            (Principal("ann", ("chat", "device")), ("chat",), 403),
            (OPERATOR, ("root",), 422),
            (OPERATOR, (), 422),
        ):
            with pytest.raises(Refusal) as refused:
                await pairing.new_code(who, scopes)
            assert refused.value.status == status
        assert (await pairing.new_code(Principal("ann", ("admin",)), ("admin",))).scopes == ("admin",)

    async def test_so_many_codes_may_be_open_and_the_oldest_goes_first(self, pairing: Pairing, clock: Clock) -> None:
        codes = [(await pairing.new_code(OPERATOR)).code for _ in range(17)]
        assert (await soon(pairing.pair(codes[1], "", PHONE))).token
        assert (await refusal(pairing, codes[0])).status == 403


class TestLinks:
    async def test_a_link_signs_one_browser_in_and_not_for_ever(self, pairing: Pairing, clock: Clock) -> None:
        code = await pairing.new_link(OPERATOR)
        assert (await soon(pairing.sign_in(code)) or "").startswith("page.")
        assert await soon(pairing.sign_in(code)) is None
        late = await pairing.new_link(OPERATOR)
        clock.now += 600
        assert await soon(pairing.sign_in(late)) is None
        for wrong in ("", "x", "\ud800"):
            assert await soon(pairing.sign_in(wrong)) is None

    async def test_a_link_is_no_pairing_code_and_neither_is_the_operators_token(
        self, auth: Auth, pairing: Pairing
    ) -> None:
        assert (await pairing.new_link(OPERATOR)) != auth.operator_token
        assert await soon(pairing.sign_in(auth.operator_token)) is None
        assert (await refusal(pairing, (await pairing.new_link(OPERATOR)))).status == 403


class TestAddresses:
    def test_the_code_of_a_qr_address_stands_where_no_server_sees_it(self) -> None:
        assert pairing_url("http://box:1/hs", "1234-5678-9012") == "http://box:1/hs/device#code=1234-5678-9012"
        pinned = pairing_url("https://box:1", "1234-5678-9012", "abc-_")
        assert pinned == "https://box:1/device#root=abc-_&code=1234-5678-9012"
        assert sign_in_url("http://box:1", "abc") == "http://box:1/signin?code=abc"

    def test_a_qr_code_is_text_for_terminals_and_svg_for_pages(self) -> None:
        url = pairing_url("http://192.168.1.20:42617", "1234-5678-9012")
        text, svg = qr_text(url), qr_svg(url)
        assert set(text) <= set(" ▀▄█\n") and len(text.splitlines()) > 10
        assert svg.startswith("<svg") and svg.endswith("</svg>") and "script" not in svg


async def test_a_client_gets_only_the_scopes_of_the_code_that_it_needs(pairing: Pairing, auth: Auth) -> None:
    code = (await pairing.new_code(OPERATOR, ("chat", "device"))).code
    paired = await soon(pairing.pair(code, "", PHONE, ("device", "admin")))
    admitted = await soon(auth.identify(scope(authorization=f"Bearer {paired.token}")))
    assert admitted.who.scopes == ("device",)
    with pytest.raises(Refusal) as refused:
        await soon(pairing.pair((await pairing.new_code(OPERATOR, ("chat",))).code, "", PHONE, ("device",)))
    assert refused.value.status == 403
