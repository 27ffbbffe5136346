"""Refusals of the server itself are in the envelope too, with what their headers say (graph.md 1.2, 1.3)."""

import pytest

from handspan.gateway.graph.envelope import refuse
from handspan.gateway.http.refusals import Refusal
from handspan.wire.graph.faults import code_of
from tests.gateway.graph.house import Page, said

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("path", ["/v1", "/v1/", "/v1/nothing", "/v1/graph/", "/v1//graph"])
async def test_a_path_that_is_none_is_told_in_the_envelope(page: Page, path: str) -> None:
    for method in ("GET", "POST", "PATCH"):
        refused = await page.ask(method, path)
        assert (refused.status, refused.error["code"]) == (404, "RESOURCE_NOT_FOUND")
    page.http.headers["authorization"] = "Bearer nonsense"
    refused = await page.ask("GET", path)
    assert (refused.status, refused.error["code"]) == (401, "AUTHENTICATION_ERROR")


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/ping", "GET, HEAD"),
        ("/v1/graph/invoke", "POST"),
        ("/v1/graph", "GET, HEAD"),
        ("/v1/threads/t", "DELETE, GET, HEAD"),
        ("/v1/threads/t/state", "DELETE, GET, HEAD, PUT"),
        ("/v1/threads/t/messages", "GET, HEAD, POST"),
        ("/v1/threads/t/messages/t:1", "DELETE, GET, HEAD"),
        ("/v1/store/memories/m", "DELETE, POST, PUT"),
        ("/v1/files/f", "GET, HEAD"),
    ],
)
async def test_a_method_that_is_none_is_told_all_that_are(page: Page, path: str, methods: str) -> None:
    refused = await page.ask("PATCH", path)
    assert (refused.status, refused.error["code"]) == (405, "METHOD_NOT_ALLOWED")
    assert refused.headers["allow"] == methods
    assert methods in refused.error["message"]


async def test_head_is_answered_as_get_without_a_body(page: Page) -> None:
    await page.say("hello", "t")
    for path in ("/v1/threads", "/v1/threads/t/state", "/v1/graph"):
        answer = await page.ask("HEAD", path)
        assert (answer.status, answer.text) == (200, "")


def test_a_refusal_keeps_what_its_headers_say() -> None:
    slow = refuse(Refusal(408, "too_slow", "Faster.", headers={"connection": "close"}))
    assert (slow.status, slow.headers["connection"]) == (408, "close")
    wait = refuse(Refusal(429, "too_many_tries", "Wait.", 2.5))
    assert (wait.status, wait.headers["retry-after"]) == (429, "3")
    who = refuse(Refusal(401, "unauthorized", "Who?"))
    assert who.headers["www-authenticate"] == "Bearer"
    assert who.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "VALIDATION_ERROR"),
        (408, "REQUEST_TIMEOUT"),
        (413, "REQUEST_TOO_LARGE"),
        (416, "VALIDATION_ERROR"),
        (421, "VALIDATION_ERROR"),
        (431, "VALIDATION_ERROR"),
        (500, "GRAPH_ERROR"),
        (501, "GRAPH_ERROR"),
        (503, "STORAGE_ERROR"),
    ],
)
def test_every_status_has_a_code(status: int, code: str) -> None:
    assert code_of(status) == code


async def test_a_base_address_may_end_with_a_slash(page: Page) -> None:
    assert (await page.ask("GET", f"{page.url}//api/tools")).json["tools"]
    assert (await page.ask("GET", f"{page.url}//ping")).data == "pong"
    assert (await page.ask("POST", f"{page.url}///v1/graph/invoke", {"messages": [said("hello")]})).words == "hello"
    page.http.headers["authorization"] = "Bearer nonsense"
    refused = await page.ask("GET", f"{page.url}//v1/graph")
    assert (refused.status, refused.error["code"]) == (401, "AUTHENTICATION_ERROR")
