"""Logins where we are known already, and logins that have to reach further than the first one (SPEC P6, S5, S6)."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.auth import OAuthClientInformationFull
from pydantic import AnyUrl

from handspan.core.calls import ToolCall, new_call_id
from handspan.core.principals import OPERATOR, Principal
from handspan.core.question_rights import person
from handspan.core.questions import Answer
from handspan.core.results import Failure, Success, ToolResult
from handspan.testing.gateway import RunningGateway, running_gateway
from tests.gateway.mcp.oauth_site import OauthSite, oauth_site
from tests.gateway.mcp.test_login import (
    NAME,
    address_of,
    agree,
    ask,
    asked,
    both,
    log_in,
    questions,
    reason,
    stored,
    until_ready,
    visit,
)
from tests.waiting import until

pytestmark = pytest.mark.anyio

DOCUMENT = "https://gateway.example/client.json"


def known_client(gateway: RunningGateway, name: str, **more: Any) -> OAuthClientInformationFull:
    redirect = AnyUrl(f"{gateway.url}/oauth/callback")
    return OAuthClientInformationFull(client_id=name, redirect_uris=[redirect], scope="notes", **more)


def settings(site: OauthSite, **oauth: str) -> dict[str, Any]:
    return {"mcp_servers": {NAME: {"url": site.mcp_url, "internal_only": False, "oauth": oauth}}}


async def greet(gateway: RunningGateway) -> ToolResult:
    await until_ready(gateway)
    return await gateway.call(f"{NAME}__hello", name="Ann")


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
async def test_a_client_that_was_registered_by_hand_logs_in_and_its_secret_stays_in_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    monkeypatch.setenv("NOTES_SECRET", "s3cret")
    async with oauth_site(registers=False) as site:
        if method == "client_secret_post":
            site.answers["/.well-known/oauth-authorization-server"] = (200, metadata(site, [method]))
        tools = settings(site, client_id="ours", client_secret="env:NOTES_SECRET")
        async with running_gateway(tmp_path, tools=tools) as gateway:
            site.clients["ours"] = known_client(
                gateway, "ours", client_secret="s3cret", token_endpoint_auth_method=method
            )
            await log_in(gateway)
            assert isinstance(await greet(gateway), Success)
            assert "s3cret" not in stored(tmp_path).read_text()
            await gateway.close()
            written = json.loads(stored(tmp_path).read_text())
            stored(tmp_path).write_text(json.dumps({**written, "refresh_at": 0}))
            await gateway.open()
            assert isinstance(await greet(gateway), Success)
            assert site.log.count("POST /token") == 2 and "POST /register" not in site.log


async def test_a_server_that_registers_no_programs_says_what_to_do(tmp_path: Path) -> None:
    async with oauth_site(registers=False) as site, running_gateway(tmp_path, tools=settings(site)) as gateway:
        refused = await ask(gateway, "login")
        assert refused.status_code == 409 and "oauth.client_id" in refused.text
        assert f"{gateway.url}/oauth/callback" in refused.text


async def test_a_missing_secret_is_named(tmp_path: Path) -> None:
    async with oauth_site(registers=False) as site:
        tools = settings(site, client_id="ours", client_secret="env:NO_SUCH_SECRET")
        async with running_gateway(tmp_path, tools=tools) as gateway:
            await until(lambda: "NO_SUCH_SECRET" in reason(gateway))


async def test_the_secret_goes_to_no_other_server_of_logins(tmp_path: Path) -> None:
    async with oauth_site(registers=False) as site, oauth_site() as other:
        tools = {
            **settings(site, client_id="ours", client_secret="s3cret"),
            "url_policy": {"allow_private": True},
        }
        async with running_gateway(tmp_path, tools=tools) as gateway:
            site.clients["ours"] = known_client(
                gateway, "ours", client_secret="s3cret", token_endpoint_auth_method="client_secret_basic"
            )
            await log_in(gateway)
            await until_ready(gateway)
            moved = {"resource": site.mcp_url, "authorization_servers": [f"{other.url}/"]}
            site.answers["/.well-known/oauth-protected-resource/mcp"] = (200, json.dumps(moved).encode())
            refused = await ask(gateway, "login")
            assert refused.status_code == 409 and "another server than before" in refused.text
            assert "POST /token" not in other.log


def metadata(site: OauthSite, methods: list[str], **more: Any) -> bytes:
    found = {
        "issuer": f"{site.url}/",
        "authorization_endpoint": f"{site.url}/authorize",
        "token_endpoint": f"{site.url}/token",
        "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": methods,
        **more,
    }
    return json.dumps(found).encode()


async def test_a_document_that_describes_us_takes_the_place_of_a_registration(tmp_path: Path) -> None:
    async with oauth_site(registers=False) as site:
        described = metadata(site, ["none"], client_id_metadata_document_supported=True)
        site.answers["/.well-known/oauth-authorization-server"] = (200, described)
        async with running_gateway(tmp_path, tools=settings(site, client_metadata_url=DOCUMENT)) as gateway:
            site.clients[DOCUMENT] = known_client(gateway, DOCUMENT, token_endpoint_auth_method="none")
            await log_in(gateway)
            assert isinstance(await greet(gateway), Success) and "POST /register" not in site.log


# A wider scope.


async def finish_login(gateway: RunningGateway) -> None:
    """Log in, and wait until nothing of it is open."""
    await log_in(gateway)
    await until_ready(gateway)

    async def is_closed() -> bool:
        return not await questions(gateway)

    await until(is_closed)


async def test_a_call_that_needs_a_wider_scope_asks_for_the_login_and_goes_on_after_it(tmp_path: Path) -> None:
    async with both(tmp_path) as (_, gateway):
        await finish_login(gateway)
        server = gateway.gateway.parts.app.mcp.find(NAME)
        assert server is not None
        route = server._route
        erasing = asyncio.create_task(gateway.call(f"{NAME}__erase"))
        question = await asked(gateway)
        assert question.tool == f"{NAME}__erase" and "'admin'" in question.subject
        assert "scope=notes+admin" in address_of(question)
        assert isinstance(await greet(gateway), Success), "other calls go on"
        assert (await visit(await agree(address_of(question)))).status_code == 200
        result = await erasing
        assert isinstance(result, Success) and result.value == {"result": "erased"}
        assert not await questions(gateway) and server._route is route
        assert isinstance(await gateway.call(f"{NAME}__erase"), Success)


async def test_a_person_who_refuses_the_wider_scope_ends_the_call_and_keeps_the_login(tmp_path: Path) -> None:
    async with both(tmp_path) as (_, gateway):
        await finish_login(gateway)
        erasing = asyncio.create_task(gateway.call(f"{NAME}__erase"))
        question = await asked(gateway)
        await gateway.gateway.parts.questions.answer(question.id, Answer("deny"), person(OPERATOR))
        result = await erasing
        assert isinstance(result, Failure) and result.code == "permission_denied"
        assert "'admin'" in result.message and f"handspan mcp login {NAME}" in result.message
        assert isinstance(await greet(gateway), Success)


async def test_a_login_that_does_not_give_the_scope_fails_the_call_once(tmp_path: Path) -> None:
    async with both(tmp_path) as (site, gateway):
        await finish_login(gateway)
        site.largest_scope = ["notes"]
        erasing = asyncio.create_task(gateway.call(f"{NAME}__erase"))
        assert (await visit(await agree(address_of(await asked(gateway))))).status_code == 200
        result = await erasing
        assert isinstance(result, Failure) and result.code == "permission_denied"


async def test_a_call_of_another_owner_does_not_wait_and_the_operator_is_asked(tmp_path: Path) -> None:
    async with both(tmp_path) as (_, gateway):
        await finish_login(gateway)
        app = gateway.gateway.parts.app
        caller = app.caller(await app.find_agent(), Principal("guest"))
        result = await app.engine.call(ToolCall(f"{NAME}__erase", {}, new_call_id()), caller)
        assert isinstance(result, Failure) and result.code == "permission_denied"
        question = await asked(gateway)
        assert question.owner == OPERATOR.owner and "scope=notes+admin" in address_of(question)
