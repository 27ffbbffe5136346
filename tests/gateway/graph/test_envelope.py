"""Every refusal is one that the unmodified client can read, from whatever part of the gateway (origins 4.6)."""

import json
import logging
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from tests.gateway.graph.pages import Answer, Graph, Page, graph_gateway, result, said

pytestmark = pytest.mark.anyio

APP = "https://app.example"


async def test_whoever_tries_too_many_tokens_is_told_how_long_to_wait(there: Graph, page: Page) -> None:
    async with httpx2.AsyncClient(base_url=page.url, headers={"authorization": "Bearer wrong"}, timeout=60) as guesser:
        for _ in range(100):
            answer = Answer(await guesser.post("/v1/graph/invoke", json={"messages": [said("x")]}))
            if answer.status != 401:
                break
    assert (answer.status, answer.error["code"]) == (429, "RATE_LIMIT_EXCEEDED")
    assert int(answer.headers["retry-after"]) > 0


@pytest.mark.parametrize("way", ["invoke", "stream"])
async def test_that_the_gateway_stops_is_told_to_the_client_and_is_no_error_in_the_log(
    there: Graph, page: Page, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    await there.gateway.gateway.parts.sessions.drain(0)
    refused = await page.ask("POST", f"/v1/graph/{way}", {"messages": [said("x")]})
    assert refused.status == 503
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/graph/setup"),
        ("POST", "/v1/graph/stop"),
        ("POST", "/v1/graph/fix"),
        ("GET", "/v1/graph"),
        ("GET", "/v1/graph:StateSchema"),
        ("GET", "/v1/graph/tools"),
        ("GET", "/v1/threads"),
        ("GET", "/v1/threads/t"),
        ("DELETE", "/v1/threads/t"),
        ("GET", "/v1/threads/t/state"),
        ("PUT", "/v1/threads/t/state"),
        ("DELETE", "/v1/threads/t/state"),
        ("GET", "/v1/threads/t/messages"),
        ("POST", "/v1/threads/t/messages"),
        ("GET", "/v1/threads/t/messages/t:1"),
        ("DELETE", "/v1/threads/t/messages/t:1"),
        ("POST", "/v1/store/memories"),
        ("POST", "/v1/store/search"),
        ("POST", "/v1/store/memories/list"),
        ("POST", "/v1/store/memories/forget"),
        ("POST", "/v1/store/memories/m"),
        ("PUT", "/v1/store/memories/m"),
        ("DELETE", "/v1/store/memories/m"),
        ("POST", "/v1/files/upload"),
        ("GET", "/v1/files/f"),
        ("GET", "/v1/files/f/info"),
        ("GET", "/v1/files/f/url"),
        ("GET", "/v1/config/multimodal"),
        ("POST", "/v1/graph/invoke"),
        ("POST", "/v1/graph/stream"),
    ],
)
async def test_no_route_does_anything_for_who_has_no_token_or_only_a_devices(
    there: Graph, page: Page, method: str, path: str
) -> None:
    device = await there.another(scopes=("device",))
    refused = await device.ask(method, path, {})
    assert (refused.status, refused.error["code"]) == (403, "PERMISSION_ERROR")
    nobody = await page.ask(method, path, {}, headers={"authorization": ""})
    assert (nobody.status, nobody.error["code"]) == (401, "AUTHENTICATION_ERROR")


@pytest.mark.parametrize(
    ("path", "part", "name"),
    [
        ("/v1/threads", "threads", "page"),
        ("/v1/threads/t", "conversations", "get"),
        ("/v1/graph/tools", "browser_tools", "find"),
    ],
)
async def test_what_nobody_foresaw_is_500_in_the_envelope_and_tells_nothing(
    there: Graph, page: Page, monkeypatch: pytest.MonkeyPatch, path: str, part: str, name: str
) -> None:
    async def fail(*these: Any, **more: Any) -> None:
        raise RuntimeError("with a secret in it")

    monkeypatch.setattr(getattr(there.gateway.gateway.parts.store, part), name, fail)
    failed = await page.ask("GET", path)
    assert (failed.status, failed.error["code"]) == (500, "GRAPH_ERROR")
    assert "secret" not in failed.text


@pytest.mark.parametrize("path", ["/v1/graph", "/v1/graph/live", "/v1/nothing"])
async def test_where_there_is_no_socket_the_refusal_is_in_the_envelope(page: Page, path: str) -> None:
    with pytest.raises(InvalidStatus) as refused:
        await connect(page.url.replace("http", "ws", 1) + path)
    assert refused.value.response.status_code == 404
    assert json.loads(refused.value.response.body or b"")["error"]["code"] == "RESOURCE_NOT_FOUND"


class TestAPageOfAnotherOrigin:
    """A browser shows an answer to a page only when the answer says that it may: errors too."""

    async def test_can_read_every_kind_of_answer(self, tmp_path: Any) -> None:
        async with graph_gateway(tmp_path, gateway={"origins": [APP]}) as there:
            page = there.page
            for method, path, body, token, status in (
                ("GET", "/ping", None, True, 200),
                ("GET", "/ping", None, False, 200),
                ("POST", "/v1/graph/invoke", {"messages": [said("hi")]}, True, 200),
                ("POST", "/v1/graph/stream", {"messages": [said("hi")]}, True, 200),
                ("POST", "/v1/graph/invoke", {"messages": []}, True, 422),
                ("POST", "/v1/graph/stream", {"messages": [result("nobody")]}, True, 422),
                ("GET", "/v1/nothing", None, True, 404),
                ("PATCH", "/v1/threads", None, True, 405),
                ("GET", "/v1/graph", None, False, 401),
                ("POST", "/v1/graph/invoke", b" " * (10 * 1024 * 1024 + 1), True, 413),
            ):
                headers = {"origin": APP, **({} if token else {"authorization": ""})}
                answer = await page.ask(method, path, body, headers=headers)
                assert answer.status == status, (method, path, answer.text[:300])
                assert answer.headers["access-control-allow-origin"] == APP, (method, path, status)
                assert "Origin" in answer.headers["vary"]

    @pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
    async def test_may_ask_before_it_asks_without_a_token(self, tmp_path: Any, method: str) -> None:
        async with graph_gateway(tmp_path, gateway={"origins": [APP]}) as there:
            asking = {
                "origin": APP,
                "access-control-request-method": method,
                "access-control-request-headers": "authorization,content-type",
            }
            async with httpx2.AsyncClient(base_url=there.page.url, timeout=60) as browser:
                for path in ("/v1/graph/invoke", "/v1/threads/t/state", "/v1/files/upload", "/v1/never/was"):
                    answer = await browser.request("OPTIONS", path, headers=asking)
                    assert (answer.status_code, answer.content) == (204, b"")
                    assert method in answer.headers["access-control-allow-methods"]
                    assert answer.headers["access-control-allow-origin"] == APP

    async def test_that_nobody_named_gets_no_word_that_it_could_read(self, page: Page) -> None:
        for path in ("/ping", "/v1/graph", "/v1/nothing"):
            refused = await page.ask("GET", path, headers={"origin": "https://evil.example"})
            assert (refused.status, refused.error["code"]) == (403, "PERMISSION_ERROR")
            assert "access-control-allow-origin" not in refused.headers
