"""Who is let in, as whom, and for how long (SPEC S5)."""

import logging
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from starlette.types import Receive, Scope, Send

from handspan.config.gateway_settings import GatewaySettings
from handspan.config.settings import Settings
from handspan.core.bus import TokenRevoked
from handspan.core.errors import ConfigError
from handspan.core.principals import OPERATOR, Principal
from handspan.core.store import Store
from handspan.gateway.entry.auth import Admitted, Auth, is_open, log_refusal
from handspan.gateway.entry.operator_token import read_operator_token
from handspan.gateway.entry.rate_limit import TryLimit
from handspan.gateway.entry.tokens import PAGE_SECONDS, hash_of
from handspan.gateway.http.refusals import Refusal, send_refusal, send_whole
from handspan.gateway.one_node import OneNode
from handspan.gateway.paths import below_prefix
from tests.gateway.entry.entering import Answer, Guarded, nothing_received, scope, socket_scope
from tests.store.things import Clock
from tests.stores import open_store
from tests.waiting import soon

pytestmark = pytest.mark.anyio
PHONE = "192.168.1.20"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
async def store(state: Path, clock: Clock) -> AsyncIterator[Store]:
    async with open_store(state, clock=clock) as store:
        yield store


@pytest.fixture
async def auth(store: Store, state: Path, clock: Clock) -> Auth:
    return await opened(store, state, clock)


async def opened(store: Store, state: Path, clock: Clock, nodes: OneNode | None = None, **gateway: Any) -> Auth:
    settings = Settings(state.parent / "workspace", state, gateway=GatewaySettings(**gateway))
    auth = Auth(settings, store.tokens, nodes or OneNode(state), clock)
    await soon(auth.open())
    return auth


async def refusal(auth: Auth, asked: dict[str, Any]) -> Refusal:
    with pytest.raises(Refusal) as refused:
        await soon(auth.admit(asked))
    return refused.value


class TestTokens:
    async def test_without_a_good_token_nobody_comes_in_and_all_hear_the_same(self, auth: Auth) -> None:
        good = auth.operator_token
        for asked in (
            scope(),
            scope(authorization="Bearer wrong"),
            scope(authorization=f"Bearer {good[:-1]}"),
            scope(authorization=f"Bearer {hash_of(good)}"),
            scope(authorization=f"Bearer page.{good}"),
            scope(authorization=good),
            scope(cookie=f"handspan_page_42617={good}"),
            socket_scope(query="token=%ED%A0%80"),
        ):
            refused = await refusal(auth, asked)
            assert (refused.status, refused.code) == (401, "unauthorized")
            assert good not in refused.message and "handspan tokens new" in refused.message
            assert refused.headers["www-authenticate"] == "Bearer"

    async def test_a_wrong_token_is_not_saved_by_a_right_one_in_a_later_place(self, auth: Auth) -> None:
        asked = socket_scope(authorization="Bearer wrong", query=f"token={auth.operator_token}")
        assert (await refusal(auth, asked)).code == "unauthorized"

    async def test_each_place_admits_with_what_the_store_knows(self, auth: Auth) -> None:
        token = await soon(auth.issue("ann", ("device",), "phone"))
        for asked, via in (
            (scope(authorization=f"Bearer {token}"), "header"),
            (socket_scope(sec_websocket_protocol=f"clawseed.v1, bearer.{token}"), "subprotocol"),
            (socket_scope(query=f"session_id=x&token={token}"), "query"),
        ):
            admitted = await soon(auth.admit(asked))
            assert admitted == Admitted(Principal("ann", ("device",)), hash_of(token), via)  # type: ignore[arg-type] # a word of the table

    async def test_host_and_origin_are_looked_at_before_the_token(self, auth: Auth) -> None:
        good = f"Bearer {auth.operator_token}"
        assert (await refusal(auth, scope(host="evil.example", authorization=good))).code == "unknown_host"
        assert (await refusal(auth, scope(origin="http://evil.example", authorization=good))).code == "unknown_origin"

    async def test_the_log_names_an_origin_that_is_not_known(
        self, auth: Auth, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO)
        asked = scope(origin="http://evil.example")
        log_refusal(await refusal(auth, asked), asked)
        assert "refused: 403 unknown_origin, origin 'http://evil.example'" in caplog.messages[0]

    async def test_scopes_are_required_and_admin_has_them_all(self) -> None:
        device = Admitted(Principal("ann", ("device",)), "h", "header")
        device.require("device")
        with pytest.raises(Refusal, match="lacks the scope 'chat'") as refused:
            device.require("chat")
        assert refused.value.status == 403
        bound = Admitted(Principal("ann", ("chat", "agent:General")), "h", "header")
        with pytest.raises(Refusal, match=r"bound to an agent \(General\), and only talks to it"):
            bound.require("chat")
        admin = Admitted(Principal("ann", ("admin",)), "h", "header")
        assert all(admin.may(scope) for scope in ("chat", "device", "admin"))

    async def test_a_revoked_token_is_out_at_once_and_its_listeners_are_told(
        self, store: Store, state: Path, clock: Clock
    ) -> None:
        heard: list[TokenRevoked] = []
        nodes = OneNode(state)
        nodes.bus.subscribe(TokenRevoked, heard.append)
        auth = await opened(store, state, clock, nodes)
        token = await soon(auth.issue("ann", ("chat",)))
        assert not await soon(auth.revoke(hash_of(token), "bob")) and not heard
        assert await soon(auth.revoke(hash_of(token), "ann"))
        assert heard == [TokenRevoked("ann", hash_of(token))]
        assert (await refusal(auth, scope(authorization=f"Bearer {token}"))).code == "unauthorized"
        assert not await soon(auth.revoke(hash_of(token), "ann")) and len(heard) == 1

    async def test_a_token_that_another_process_revoked_is_out(self, auth: Auth, store: Store, state: Path) -> None:
        token = await soon(auth.issue("ann", ("chat",)))
        await soon(auth.admit(scope(authorization=f"Bearer {token}")))
        async with open_store(state) as other:
            assert await soon(other.tokens.revoke(hash_of(token), owner="ann"))
        assert (await refusal(auth, scope(authorization=f"Bearer {token}"))).code == "unauthorized"

    async def test_labels_are_shown_as_they_are_seen_and_none_can_pass_for_ours(self, auth: Auth, store: Store) -> None:
        for label in ("  my\u202e \n phone ", "operator", "page", "x" * 500):
            await soon(auth.issue("ann", ("chat",), label))
        labels = {token.label for token in await soon(store.tokens.all(owner="ann"))}
        assert labels == {"my phone", "operator (device)", "page (device)", "x" * 64}

    async def test_no_token_is_kept_in_the_database(self, auth: Auth, state: Path, store: Store) -> None:
        token = await soon(auth.issue("ann", ("chat",)))
        await soon(store.close())
        kept = b"".join((state / name).read_bytes() for name in os.listdir(state) if name.startswith("handspan.db"))
        assert hash_of(token).encode() in kept
        assert token.encode() not in kept and auth.operator_token.encode() not in kept

    async def test_a_store_that_cannot_answer_is_said_to_be_busy_not_wrong(self, auth: Auth, store: Store) -> None:
        token = await soon(auth.issue("ann", ("chat",)))
        await soon(store.close())
        for given in (token, "wrong"):
            refused = await refusal(auth, scope(authorization=f"Bearer {given}"))
            assert (refused.status, refused.code, refused.retry_after) == (503, "unavailable", 5)

    async def test_the_operator_can_ask_what_is_wrong_with_a_store_that_cannot_answer(
        self, auth: Auth, store: Store
    ) -> None:
        await soon(store.close())
        admitted = await auth.admit(scope(authorization=f"Bearer {auth.operator_token}"))
        assert admitted.who == OPERATOR

    async def test_not_with_a_token_that_was_revoked_before(self, auth: Auth, store: Store) -> None:
        await soon(auth.revoke(hash_of(auth.operator_token), OPERATOR.owner))
        await soon(store.close())
        assert (await refusal(auth, scope(authorization=f"Bearer {auth.operator_token}"))).status == 503


class TestTooManyTries:
    async def test_ten_wrong_tokens_lock_an_address_out_for_five_minutes(self, auth: Auth, clock: Clock) -> None:
        right = scope(client=PHONE, authorization=f"Bearer {auth.operator_token}")
        for _ in range(10):
            assert (await refusal(auth, scope(client=PHONE, authorization="Bearer wrong"))).status == 401
        refused = await refusal(auth, scope(client=PHONE, authorization="Bearer wrong"))
        assert (refused.status, refused.code, refused.retry_after) == (429, "too_many_tries", 300)
        assert "wait 300 s" in refused.message
        assert refused.headers["retry-after"] == "300"
        assert (await refusal(auth, right)).status == 429
        await soon(auth.admit(scope(client="192.168.1.21", authorization=f"Bearer {auth.operator_token}")))
        clock.now += 299.5
        assert (await refusal(auth, right)).retry_after == 1
        clock.now += 1
        await soon(auth.admit(right))

    async def test_tries_that_are_spread_out_lock_nobody_out(self, auth: Auth, clock: Clock) -> None:
        for _ in range(30):
            assert (await refusal(auth, scope(client=PHONE, authorization="Bearer wrong"))).status == 401
            clock.now += 7

    async def test_to_show_no_token_is_no_try(self, auth: Auth) -> None:
        for _ in range(30):
            assert (await refusal(auth, scope(client=PHONE))).status == 401

    async def test_from_this_computer_the_right_token_always_passes(self, auth: Auth) -> None:
        for _ in range(10):
            await refusal(auth, scope(authorization="Bearer wrong"))
        assert (await refusal(auth, scope(authorization="Bearer wrong"))).status == 429
        await soon(auth.admit(scope(authorization=f"Bearer {auth.operator_token}")))

    async def test_who_has_just_been_let_in_is_forgiven(self, auth: Auth) -> None:
        for _ in range(10):
            await refusal(auth, scope(client=PHONE, authorization="Bearer wrong"))
        auth.reset_tries(scope(client=PHONE))
        await soon(auth.admit(scope(client=PHONE, authorization=f"Bearer {auth.operator_token}")))

    def test_only_so_many_addresses_are_remembered(self, clock: Clock) -> None:
        tries = TryLimit(1, 60.0, addresses=3, clock=clock)
        for address in ("a", "b", "c", "d"):
            tries.note(address)
        assert [tries.wait(address) for address in ("a", "b", "c", "d")] == [0, 60, 60, 60]

    def test_without_a_pause_the_window_moves_on(self, clock: Clock) -> None:
        tries = TryLimit(2, 60.0, clock=clock)
        tries.note("a")
        clock.now += 20
        tries.note("a")
        assert tries.wait("a") == 40
        clock.now += 40
        assert tries.wait("a") == 0
        tries.note("a")
        assert tries.wait("a") == 20


class TestOperator:
    async def test_the_token_is_made_once_and_kept_where_only_its_owner_reads_it(
        self, store: Store, state: Path, clock: Clock
    ) -> None:
        first = await opened(store, state, clock)
        file = state / "operator.token"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert read_operator_token(state) == first.operator_token
        assert (await opened(store, state, clock)).operator_token == first.operator_token
        admitted = await soon(first.admit(scope(authorization=f"Bearer {first.operator_token}")))
        assert admitted.who == OPERATOR
        assert [token.label for token in await soon(store.tokens.all(owner="operator"))] == ["operator"]
        assert [name for name in os.listdir(state) if "token" in name] == ["operator.token"]

    @pytest.mark.parametrize(
        "content", [None, "", "short", "with spaces in it and long enough to be one of ours", "é" * 50]
    )
    async def test_when_the_file_is_lost_or_broken_a_new_one_is_made_and_the_old_one_is_out(
        self, store: Store, state: Path, clock: Clock, content: str | None
    ) -> None:
        old = (await opened(store, state, clock)).operator_token
        device = await soon((await opened(store, state, clock)).issue("operator", ("chat",), "operator"))
        file = state / "operator.token"
        file.unlink() if content is None else file.write_text(content)
        auth = await opened(store, state, clock)
        assert auth.operator_token != old
        await refusal(auth, scope(authorization=f"Bearer {old}"))
        await soon(auth.admit(scope(authorization=f"Bearer {auth.operator_token}")))
        await soon(auth.admit(scope(authorization=f"Bearer {device}")))

    async def test_a_token_that_was_revoked_is_replaced_at_the_next_start(
        self, store: Store, state: Path, clock: Clock
    ) -> None:
        auth = await opened(store, state, clock)
        assert await soon(auth.revoke(hash_of(auth.operator_token), "operator"))
        again = await opened(store, state, clock)
        assert again.operator_token != auth.operator_token

    async def test_when_the_database_is_new_the_token_of_the_file_stays(self, tmp_path: Path, clock: Clock) -> None:
        async with open_store(tmp_path / "a", clock=clock) as store:
            first = await opened(store, tmp_path / "state", clock)
        async with open_store(tmp_path / "b", clock=clock) as store:
            again = await opened(store, tmp_path / "state", clock)
            assert again.operator_token == first.operator_token
            await soon(again.admit(scope(authorization=f"Bearer {first.operator_token}")))

    async def test_a_file_that_others_could_read_is_closed_to_them(
        self, store: Store, state: Path, clock: Clock
    ) -> None:
        await opened(store, state, clock)
        (state / "operator.token").chmod(0o644)
        await opened(store, state, clock)
        assert stat.S_IMODE((state / "operator.token").stat().st_mode) == 0o600

    async def test_a_file_that_is_none_is_an_error_with_a_remedy(self, store: Store, state: Path, clock: Clock) -> None:
        (state / "operator.token").symlink_to("/etc/hostname")
        with pytest.raises(ConfigError, match=r"operator.token can't be read: .* or remove it"):
            await opened(store, state, clock)
        (state / "operator.token").unlink()
        (state / "operator.token").mkdir()
        with pytest.raises(ConfigError, match=r"it is not a regular file"):
            await opened(store, state, clock)

    async def test_a_folder_that_cannot_be_written_is_an_error_with_a_remedy(
        self, store: Store, tmp_path: Path, clock: Clock
    ) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(ConfigError, match=r"can't be (read|written): Not a directory"):
            await opened(store, tmp_path / "file", clock)
        with pytest.raises(ConfigError, match=r"can't be written: .*set another `state` folder"):
            await opened(store, Path("/proc/handspan"), clock)


class TestThePage:
    async def page(self, auth: Auth) -> str:
        return f"handspan_page_42617={await soon(auth.issue('ann', ('admin',), page=True))}"

    async def test_a_cookie_lets_our_own_page_in(self, auth: Auth) -> None:
        cookie, own = await self.page(auth), "http://127.0.0.1:42617"
        for asked in (
            scope(cookie=cookie),
            scope(cookie=cookie, sec_fetch_site="same-origin"),
            scope(cookie=cookie, sec_fetch_site="none"),
            scope(cookie=cookie, origin=own),
            scope(method="POST", cookie=cookie, origin=own),
            scope(method="DELETE", cookie=cookie, sec_fetch_site="same-origin"),
            socket_scope(cookie=cookie, origin=own),
        ):
            admitted = await soon(auth.admit(asked))
            assert (admitted.who, admitted.via) == (Principal("ann", ("admin",)), "cookie")

    async def test_a_cookie_that_another_page_makes_the_browser_send_is_worth_nothing(
        self, store: Store, state: Path, clock: Clock
    ) -> None:
        """Another port of this computer is the same site to a browser: it sends the cookie there and from there."""
        auth = await opened(store, state, clock, origins=("http://localhost:3000",))
        cookie = await self.page(auth)
        for asked in (
            scope(cookie=cookie, sec_fetch_site="same-site"),
            scope(cookie=cookie, sec_fetch_site="cross-site"),
            scope(cookie=cookie, origin="http://localhost:3000"),
            scope(method="POST", cookie=cookie),
            scope(method="POST", cookie=cookie, sec_fetch_site="none"),
            scope(method="POST", cookie=cookie, sec_fetch_site="same-site"),
            scope(method="POST", cookie=cookie, origin="http://localhost:3000"),
            scope(method="POST", cookie=cookie, origin="http://localhost:3000", sec_fetch_site="same-origin"),
            socket_scope(cookie=cookie),
            socket_scope(cookie=cookie, sec_fetch_site="same-origin"),
            socket_scope(cookie=cookie, origin="http://localhost:3000"),
        ):
            refused = await refusal(auth, asked)
            assert (refused.status, refused.code) == (403, "foreign_request"), asked

    async def test_the_token_of_a_page_works_nowhere_else(self, auth: Auth) -> None:
        token = (await self.page(auth)).partition("=")[2]
        for asked in (scope(authorization=f"Bearer {token}"), socket_scope(query=f"token={token}")):
            assert (await refusal(auth, asked)).status == 401

    async def test_a_page_that_is_not_used_for_thirty_days_is_signed_out(
        self, auth: Auth, clock: Clock, store: Store
    ) -> None:
        cookie = await self.page(auth)
        for _ in range(3):  # each use is another thirty days
            clock.now += PAGE_SECONDS - 10
            assert (await soon(auth.admit(scope(cookie=cookie)))).renews
            await soon(store.tokens.add(f"h{clock.now}", owner="x", scopes=()))  # behind the note of the use
        assert not (await soon(auth.admit(scope(cookie=cookie)))).renews
        clock.now += PAGE_SECONDS + 10
        assert (await refusal(auth, scope(cookie=cookie))).status == 401
        assert (await refusal(auth, scope(cookie=cookie))).status == 401  # that it was seen did not bring it back
        (record,) = await soon(store.tokens.all(owner="ann"))
        assert record.label == "page" and record.revoked is not None


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    """Says who is there."""
    admitted = scope.get("state", {}).get("admitted")
    who = admitted.who.owner if admitted else "nobody"
    await send_whole(send, 200, [(b"vary", b"Accept"), (b"x-frame-options", b"SAMEORIGIN")], who.encode())


async def ask(auth: Auth, asked: dict[str, Any], app: Any = hello) -> Answer:
    answer = Answer()
    await soon(Guarded(app, auth)(asked, nothing_received, answer))
    return answer


class TestLettingRequestsIn:
    async def test_routes_need_a_token_and_learn_whose_it_is(self, auth: Auth) -> None:
        refused = await ask(auth, scope("/api/tools"))
        assert refused.status == 401
        told = msgspec.json.decode(refused.body)
        assert told["code"] == "unauthorized" and set(told) == {"error", "code"}
        assert refused.headers["content-type"] == "application/json"
        assert refused.headers["x-content-type-options"] == "nosniff"
        answered = await ask(auth, scope("/api/tools", authorization=f"Bearer {auth.operator_token}"))
        assert (answered.status, answered.body) == (200, b"operator")

    @pytest.mark.parametrize(
        ("method", "path"),
        [
            ("POST", "/health"),
            ("GET", "/health/"),
            ("GET", "/healthy"),
            ("GET", "/pair/code"),
            ("PUT", "/pair"),
            ("POST", "/signin"),
            ("POST", "/"),
            ("GET", "//"),
            ("GET", "/assets"),
            ("POST", "/page/a.js"),
            ("GET", "/page/../api/tools"),
            ("GET", "/metrics"),
            ("GET", "/openapi.json"),
            ("GET", "/api/status"),
            ("OPTIONS", "/api/status"),
            ("POST", "/webhook"),
            ("GET", "/v1/graph"),
        ],
    )
    async def test_nothing_else_is_open(self, auth: Auth, method: str, path: str) -> None:
        assert (await ask(auth, scope(path, method=method))).status == 401

    @pytest.mark.parametrize(
        ("method", "path"),
        [
            ("GET", "/health"),
            ("HEAD", "/health"),
            ("GET", "/ping"),
            ("POST", "/pair"),
            ("GET", "/pair"),
            ("GET", "/signin"),
            ("GET", "/"),
            ("GET", "/page/main.js"),
        ],
    )
    async def test_open_routes_need_no_token_but_a_good_place(self, auth: Auth, method: str, path: str) -> None:
        assert (await ask(auth, scope(path, method=method))).body == b"nobody"
        assert (await ask(auth, scope(path, method=method, host="evil.example"))).status == 403
        assert (await ask(auth, scope(path, method=method, origin="https://evil.example"))).status == 403

    async def test_below_a_prefix_the_same_routes_are_open(self, auth: Auth) -> None:
        app = below_prefix(Guarded(hello, auth), "/hs")
        for path, status in (
            ("/hs/health", 200),
            ("/hs", 200),
            ("/hs/", 200),
            ("/hs/api", 401),
            ("/hsx/health", 404),
            ("/health", 404),
        ):
            answer = Answer()
            await soon(app(scope(path), nothing_received, answer))
            assert answer.status == status, path
        assert not is_open(scope("/hsx/health", root_path="/hs"))

    async def test_outside_the_prefix_a_socket_is_refused_before_it_opens(self, auth: Auth) -> None:
        answer = Answer()
        await soon(below_prefix(hello, "/hs")(socket_scope(), nothing_received, answer))
        assert [message["type"] for message in answer.messages] == [
            "websocket.http.response.start",
            "websocket.http.response.body",
        ]
        assert answer.status == 404

    async def test_answers_can_be_framed_and_guessed_by_nobody(self, auth: Auth) -> None:
        answered = await ask(auth, scope("/health"))
        assert answered.headers["referrer-policy"] == "no-referrer"
        assert answered.headers["cross-origin-resource-policy"] == "same-origin"
        assert answered.headers["x-frame-options"] == "SAMEORIGIN"  # what a route says itself stays
        assert not any(name.startswith("access-control") for name in answered.headers)

    async def test_pages_of_the_settings_get_cors_headers_and_nobody_else_does(
        self, store: Store, state: Path, clock: Clock
    ) -> None:
        auth = await opened(store, state, clock, origins=("https://app.example",))
        preflight = await ask(
            auth, scope(method="OPTIONS", origin="https://app.example", access_control_request_method="DELETE")
        )
        assert preflight.status == 204
        assert preflight.headers["access-control-allow-origin"] == "https://app.example"
        assert "DELETE" in preflight.headers["access-control-allow-methods"]
        for header in ("authorization", "x-stainless-retry-count"):  # OpenAI's SDK in a page sends the second one
            assert header in preflight.headers["access-control-allow-headers"]
        assert "access-control-allow-credentials" not in preflight.headers
        assert preflight.headers["vary"] == "Origin"
        refused = await ask(auth, scope(origin="https://app.example"))
        assert (refused.status, refused.headers["access-control-allow-origin"]) == (401, "https://app.example")
        good = f"Bearer {auth.operator_token}"
        answered = await ask(auth, scope(origin="https://app.example", authorization=good))
        assert answered.status == 200 and answered.headers["access-control-allow-origin"] == "https://app.example"
        assert [value for name, value in answered.messages[0]["headers"] if name == b"vary"] == [b"Accept", b"Origin"]
        for origin in ("https://evil.example", "http://127.0.0.1:42617"):
            answered = await ask(auth, scope(method="OPTIONS", origin=origin, access_control_request_method="DELETE"))
            assert answered.status in (401, 403)
            assert not any(name.startswith("access-control") for name in answered.headers)

    async def test_the_cookie_of_a_page_in_use_is_renewed(self, auth: Auth, clock: Clock, store: Store) -> None:
        cookie = f"handspan_page_42617={await soon(auth.issue('ann', ('chat',), page=True))}"
        answered = await ask(auth, scope(cookie=cookie))
        assert answered.headers["set-cookie"].startswith(f"{cookie}; HttpOnly; SameSite=Strict; Path=/; ")
        await soon(store.tokens.add("h", owner="x", scopes=()))  # behind the note of the use
        assert "set-cookie" not in (await ask(auth, scope(cookie=cookie))).headers
        assert "set-cookie" not in (await ask(auth, scope(authorization=f"Bearer {auth.operator_token}"))).headers


async def test_a_refusal_before_the_upgrade_is_an_http_answer() -> None:
    answer = Answer()
    await send_refusal(Refusal(429, "too_many_tries", "Wait.", 0.2), socket_scope(), answer)
    assert answer.messages[0]["type"] == "websocket.http.response.start"
    assert answer.headers["retry-after"] == "1"
    assert msgspec.json.decode(answer.body) == {"error": "Wait.", "code": "too_many_tries", "retry_after": 1}


async def test_no_token_shows_in_what_is_logged(auth: Auth, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        for asked in (socket_scope(query="token=verysecret"), scope(authorization="Bearer verysecret")):
            refused = await refusal(auth, asked)
            assert "verysecret" not in f"{refused!r} {refused}"
    assert "verysecret" not in caplog.text
