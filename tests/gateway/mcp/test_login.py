"""Logins at MCP servers: question, way back, tokens, and what hostile servers and browsers try (SPEC P6)."""

import asyncio
import json
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from handspan.config.tool_settings import McpOauth, McpServer
from handspan.core.principals import OPERATOR
from handspan.core.question_rights import person
from handspan.core.questions import Answer, Question
from handspan.core.results import Success
from handspan.sources.mcp.logins.login import Redirected
from handspan.sources.mcp.opening import LinkOpener
from handspan.testing.gateway import RunningGateway, running_gateway
from tests.gateway.mcp.oauth_site import OauthSite, oauth_site
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio
NAME = "notes"


@asynccontextmanager
async def both(folder: Path, **server: Any) -> AsyncIterator[tuple[OauthSite, RunningGateway]]:
    async with oauth_site() as site:
        servers = {NAME: {"url": site.mcp_url, "internal_only": False, **server}}
        async with running_gateway(folder, tools={"mcp_servers": servers}) as gateway:
            yield site, gateway


async def questions(gateway: RunningGateway) -> list[Question]:
    return [one for one in await gateway.gateway.parts.questions.open_for(owner=OPERATOR.owner) if one.kind == "login"]


async def asked(gateway: RunningGateway) -> Question:
    async def is_asked() -> bool:
        return bool(await questions(gateway))

    await until(is_asked)
    return (await questions(gateway))[0]


def address_of(question: Question) -> str:
    assert question.action is not None
    return question.action.url


async def visit(address: str, **headers: str) -> httpx2.Response:
    """A browser opens this address, and follows nothing."""
    async with httpx2.AsyncClient(timeout=60, headers=headers) as browser:
        return await browser.get(address)


async def agree(address: str) -> str:
    """The person logs in. Returns where the browser is sent."""
    response = await visit(address)
    assert response.status_code == 302, response.text
    return response.headers["location"]


async def ask(gateway: RunningGateway, path: str, body: Any = None) -> httpx2.Response:
    headers = {"authorization": f"Bearer {gateway.token}"}
    async with httpx2.AsyncClient(timeout=60, headers=headers) as http:
        return await http.post(f"{gateway.url}/api/mcp/{NAME}/{path}", json=body)


async def until_ready(gateway: RunningGateway) -> None:
    server = gateway.gateway.parts.app.mcp.find(NAME)
    assert server is not None
    await until(lambda: server.state.status == "ready")


def reason(gateway: RunningGateway) -> str:
    server = gateway.gateway.parts.app.mcp.find(NAME)
    assert server is not None
    return server.state.reason


def stored(folder: Path) -> Path:
    return folder / "state" / "mcp_logins" / OPERATOR.owner / f"{NAME}.json"


async def log_in(gateway: RunningGateway) -> None:
    page = await visit(await agree(address_of(await asked(gateway))), **{"sec-fetch-site": "cross-site"})
    assert (page.status_code, "You are logged in" in page.text) == (200, True)


async def test_a_server_that_wants_a_login_asks_for_it_and_its_tools_appear_after_it(tmp_path: Path) -> None:
    async with both(tmp_path) as (site, gateway):
        question = await asked(gateway)
        assert question.tool == f"mcp({NAME})" and "127.0.0.1" in question.subject
        await until(lambda: reason(gateway) == f"needs a login: handspan mcp login {NAME}")
        await log_in(gateway)
        await until_ready(gateway)
        result = await gateway.call(f"{NAME}__hello", name="Ann")
        assert isinstance(result, Success) and result.value == {"result": "Hello Ann"}

        async def is_closed() -> bool:
            return not await questions(gateway)

        await until(is_closed)
        assert len(site.clients) == 1
        await gateway.restart()
        await until_ready(gateway)
        assert len(site.clients) == 1 and not await questions(gateway)


async def test_tokens_are_private_files_bound_to_the_address_of_the_server_and_shown_nowhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with both(tmp_path) as (site, gateway):
        await log_in(gateway)
        file = stored(tmp_path)
        assert [stat.S_IMODE(one.stat().st_mode) for one in (file, file.parent, file.parent.parent)] == [
            0o600,
            0o700,
            0o700,
        ]
        token, refresh = next(iter(site.tokens)), next(iter(site.refreshes))
        assert token in file.read_text() and refresh in file.read_text()
        async with httpx2.AsyncClient(headers={"authorization": f"Bearer {gateway.token}"}, timeout=60) as http:
            seen = [(await http.get(f"{gateway.url}/api/{path}")).text for path in ("mcp", "sources", "questions")]
        assert not any(secret in text for secret in (token, refresh) for text in (*seen, caplog.text))
        login = await gateway.gateway.parts.app.mcp.logins.make_auth(NAME, "https://elsewhere.example/mcp", McpOauth())
        assert login._token() == ""
    for record in caplog.records:
        assert token not in record.getMessage()


async def test_a_token_is_refreshed_before_it_ends_and_after_a_restart(tmp_path: Path) -> None:
    async with both(tmp_path) as (site, gateway):
        await log_in(gateway)
        await gateway.close()
        before = json.loads(stored(tmp_path).read_text())
        token = site.tokens[before["tokens"]["access_token"]]  # valid to the end: no refusal makes us refresh it
        assert token.expires_at is not None and before["refresh_at"] < token.expires_at
        stored(tmp_path).write_text(json.dumps({**before, "refresh_at": 0}))
        await gateway.open()
        await until_ready(gateway)
        after = json.loads(stored(tmp_path).read_text())
        assert after["tokens"]["access_token"] != before["tokens"]["access_token"]
        assert site.log.count("POST /token") == 2 and len(site.clients) == 1


async def test_a_token_that_the_server_took_back_is_refreshed_within_the_call(tmp_path: Path) -> None:
    async with both(tmp_path) as (site, gateway):
        await log_in(gateway)
        await until_ready(gateway)
        site.tokens.clear()
        result = await gateway.call(f"{NAME}__hello", name="Ann")
        assert isinstance(result, Success) and len(site.tokens) == 1


async def test_a_refused_refresh_asks_for_a_new_login_and_a_failing_one_only_waits(tmp_path: Path) -> None:
    async with both(tmp_path) as (site, gateway):
        await log_in(gateway)
        await until_ready(gateway)
        site.answers["/token"] = (503, b"")
        site.tokens.clear()
        await gateway.call(f"{NAME}__hello", name="Ann")
        await until(lambda: "can't be refreshed now: HTTP 503" in reason(gateway))
        assert stored(tmp_path).exists()
        del site.answers["/token"]
        site.refreshes.clear()
        await asked(gateway)
        await log_in(gateway)
        await until_ready(gateway)


async def test_a_state_works_once_and_no_other_works(tmp_path: Path) -> None:
    async with both(tmp_path) as (_, gateway):
        address = address_of(await asked(gateway))
        back = await agree(address)
        callback = back.partition("?")[0]
        assert callback == f"{gateway.url}/oauth/callback"
        for wrong in ("", "?state=", "?code=x", f"?code=x&state={'A' * 43}"):
            refused = await visit(f"{callback}{wrong}")
            assert (refused.status_code, refused.headers.get("location")) == (403, None)
        twice = f"{back}&state=other"
        assert (await visit(twice)).status_code == 422
        async with httpx2.AsyncClient(timeout=60) as browser:
            assert (await browser.head(back)).status_code == 503
        assert (await visit(back, **{"sec-purpose": "prefetch"})).status_code == 503
        assert (await visit(back)).status_code == 200
        again = await visit(back)
        assert again.status_code == 403 and "does not work any more" in again.text


async def test_a_state_ends_after_ten_minutes(tmp_path: Path) -> None:
    async with both(tmp_path) as (_, gateway):
        question = await asked(gateway)
        assert 590 < question.expires_in <= 600
        login = gateway.gateway.parts.app.mcp.logins.find(NAME)
        assert login is not None
        back = await agree(address_of(question))
        login.ends_at -= 600
        assert (await visit(back)).status_code == 403


async def test_the_page_shows_nothing_of_what_came_in_and_leads_nowhere(tmp_path: Path) -> None:
    async with both(tmp_path) as (_, gateway):
        state = parse_qs(urlsplit(address_of(await asked(gateway))).query)["state"][0]
        evil = "error=%3Cscript%3Ealert(1)%3C/script%3E&redirect_uri=https://evil.example&next=//evil.example"
        page = await visit(f"{gateway.url}/oauth/callback?state={state}&{evil}")
        assert page.status_code == 502 and "evil" not in page.text and "script" not in page.text
        policy = page.headers["content-security-policy"]
        assert "location" not in page.headers and policy.startswith("default-src 'none'; style-src 'sha256-")
        assert not stored(tmp_path).exists()


async def test_an_answer_of_another_issuer_is_refused(tmp_path: Path) -> None:
    async with both(tmp_path) as (site, gateway):
        site.iss = "https://evil.example"
        page = await visit(await agree(address_of(await asked(gateway))))
        assert page.status_code == 502
        assert "POST /token" not in site.log  # the code went to no one


AUTH, RESOURCE = "/.well-known/oauth-authorization-server", "/.well-known/oauth-protected-resource/mcp"
ELSEWHERE: Final[list[tuple[str, dict[str, Any], str]]] = [
    (AUTH, {"issuer": "https://evil.example"}, "issuer"),
    (AUTH, {"registration_endpoint": "http://127.0.0.1:9/register"}, "127.0.0.1"),
    (AUTH, {"registration_endpoint": "http://evil.example/register"}, "without https"),
    (AUTH, {"authorization_endpoint": "http://evil.example/authorize"}, "without https"),
    (AUTH, {"authorization_endpoint": "https://evil.example/authorize#"}, "can't be used"),
    (AUTH, {"authorization_endpoint": "https://evil.example/?state=mine&a="}, "can't be used"),
    (AUTH, {"authorization_endpoint": "javascript:alert(1)"}, "where to log in"),
    (RESOURCE, {"authorization_servers": ["http://127.0.0.1:9"]}, "127.0.0.1"),
    (RESOURCE, {"authorization_servers": ["https://169.254.169.254"]}, "169.254.169.254"),
    (RESOURCE, {"resource": "https://evil.example/mcp"}, "does not match"),
]
WITHOUT_PKCE: Final[list[Any]] = [None, [], ["plain"], ["s256"]]


@pytest.mark.parametrize("methods", WITHOUT_PKCE)
async def test_a_login_whose_metadata_does_not_name_s256_is_refused_before_we_register(
    tmp_path: Path, methods: list[str] | None
) -> None:
    async with oauth_site() as site, running_gateway(tmp_path) as gateway:
        true = (await visit(f"{site.url}{AUTH}")).json()
        site.answers = {AUTH: (200, json.dumps({**true, "code_challenge_methods_supported": methods}).encode())}
        await _add(gateway, site)
        answer = await ask(gateway, "login")
        assert answer.status_code == 409 and "code_challenge_methods_supported" in answer.json()["error"], answer.text
        assert "POST /register" not in site.log and not await questions(gateway)


async def test_metadata_that_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    async with oauth_site() as site, running_gateway(tmp_path) as gateway:
        true = {path: (await visit(f"{site.url}{path}")).json() for path in (AUTH, RESOURCE)}
        for path, change, why in ELSEWHERE:
            site.answers = {path: (200, json.dumps({**true[path], **change}).encode())}
            await _add(gateway, site)
            answer = await ask(gateway, "login")
            assert answer.status_code == 409 and why in answer.json()["error"], (change, answer.text)
            assert not await questions(gateway)


async def _add(gateway: RunningGateway, site: OauthSite) -> None:
    headers = {"authorization": f"Bearer {gateway.token}"}
    async with httpx2.AsyncClient(timeout=60, headers=headers) as http:
        added = await http.put(f"{gateway.url}/api/mcp/{NAME}", json={"url": site.mcp_url})
    assert added.status_code == 200, added.text


async def test_a_large_answer_about_a_login_is_refused(tmp_path: Path) -> None:
    async with oauth_site() as site, running_gateway(tmp_path) as gateway:
        site.answers["/.well-known/oauth-protected-resource/mcp"] = (200, b" " * 1_000_000)
        await _add(gateway, site)
        answer = await ask(gateway, "login")
        assert answer.status_code == 409 and "too large" in answer.json()["error"]


async def test_a_browser_that_cannot_reach_the_gateway_brings_the_address_by_hand(tmp_path: Path) -> None:
    async with both(tmp_path) as (_, gateway):
        begun = (await ask(gateway, "login")).json()
        assert (await ask(gateway, "login")).json()["address"] == begun["address"]
        assert (await ask(gateway, "login/return", {"address": "https://evil.example/?code=1"})).status_code == 409
        back = await agree(begun["address"])
        assert (await ask(gateway, "login/return", {"address": back})).json()["status"] == "done"
        assert (await ask(gateway, "login/return", {"address": back})).status_code == 409
        await until_ready(gateway)


async def test_a_logout_removes_the_tokens_and_the_tools_and_asks_nothing(tmp_path: Path) -> None:
    async with both(tmp_path) as (_, gateway):
        await log_in(gateway)
        await until_ready(gateway)
        assert (await ask(gateway, "logout")).json() == {"name": NAME, "had_login": True}
        assert not stored(tmp_path).exists()
        await until(lambda: reason(gateway).startswith("needs a login"))
        assert not await questions(gateway)


async def test_a_removed_server_takes_its_login_with_it(tmp_path: Path) -> None:
    async with oauth_site() as site, running_gateway(tmp_path) as gateway:
        await _add(gateway, site)
        await log_in(gateway)
        assert stored(tmp_path).exists()
        async with httpx2.AsyncClient(headers={"authorization": f"Bearer {gateway.token}"}, timeout=60) as http:
            await http.delete(f"{gateway.url}/api/mcp/{NAME}")
        assert not stored(tmp_path).exists()


async def test_a_server_whose_settings_hold_a_key_asks_for_no_login(tmp_path: Path) -> None:
    async with both(tmp_path, headers={"Authorization": "Bearer wrong"}) as (_, gateway):
        await until(lambda: reason(gateway))
        assert "login" not in reason(gateway) and not await questions(gateway)
        assert (await ask(gateway, "login")).status_code == 409


async def test_a_state_belongs_to_one_owner_and_one_server(tmp_path: Path) -> None:
    async with both(tmp_path) as (_, gateway):
        logins = gateway.gateway.parts.app.mcp.logins
        state = parse_qs(urlsplit(address_of(await asked(gateway))).query)["state"][0]
        came_back = Redirected(state, "code")
        assert logins.take(came_back, owner="another") is None
        assert logins.take(came_back, server="another") is None
        assert logins.take(came_back, owner=OPERATOR.owner, server=NAME) is logins.find(NAME)
        assert logins.take(came_back) is None


async def test_a_person_who_says_no_is_not_asked_again(tmp_path: Path) -> None:
    async with both(tmp_path) as (_, gateway):
        question = await asked(gateway)
        back = await agree(address_of(question))
        login = gateway.gateway.parts.app.mcp.logins.find(NAME)
        assert login is not None
        await gateway.gateway.parts.questions.answer(question.id, Answer("deny"), person(OPERATOR))
        await login.ended
        assert (await visit(back)).status_code == 403
        await ask(gateway, "test")
        assert not await questions(gateway)


async def test_a_link_that_fails_while_it_is_cancelled_keeps_no_server_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = asyncio.Event()

    @asynccontextmanager
    async def fail_when_cancelled(_: LinkOpener, ask_for_login: object) -> AsyncIterator[None]:
        opened.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:  # as the SDK does when a refusal and the cancellation meet
            raise RuntimeError("refused") from None
        yield

    monkeypatch.setattr(LinkOpener, "open", fail_when_cancelled)
    async with running_gateway(tmp_path) as gateway:
        servers = gateway.gateway.parts.app.mcp
        await servers.put(NAME, McpServer(url="http://127.0.0.1:9/mcp"))
        await opened.wait()
        assert await soon(servers.remove(NAME))
