"""Bodies within the limit of size that hold too many values: every route refuses them at once (graph.md 4.9)."""

import json
from typing import Any

import pytest

from handspan.wire import strict_json
from tests.gateway.graph.pages import TAKE_JSON, Page, result, tool

pytestmark = pytest.mark.anyio

MEGABYTES = 9_000_000
TINY: dict[str, Any] = {"type": "text", "text": ""}
ROUTES = [*TAKE_JSON, ("POST", "/api/tools/echo/call")]


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_a_body_of_a_million_values_is_refused_before_it_is_read(
    page: Page, method: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await page.say("hello", "t")
    monkeypatch.delattr(strict_json, "read_if_sure")  # without both readers, reading any text fails
    monkeypatch.delattr(strict_json, "parse_slowly")
    room = MEGABYTES if path.startswith("/v1") else 900_000
    answer = await page.ask(method, path, b'{"messages":[' + b"[]," * (room // 3) + b"[]]}")
    assert answer.status == (422 if path.startswith("/v1") else 400)
    assert "more than 50,000 values and keys" in answer.text


async def test_more_tools_results_and_blocks_than_a_request_may_bring_are_refused(page: Page) -> None:
    many = 5001
    assert "5,001 tools" in (await page.set_up(*[{"function": {"name": "a"}}] * many)).error["message"]
    assert "5,001 tools" in (await page.say("hi", tools=[{"function": {"name": "a"}}] * many)).error["message"]
    blocks = {"role": "user", "content": [TINY] * many}
    assert "5,001 blocks" in (await page.invoke([blocks])).error["message"]
    results = {"role": "tool", "content": [{"type": "tool_result", "call_id": "c"}] * many}
    assert "5,001 blocks" in (await page.stream([results])).error["message"]


async def test_one_large_picture_and_one_large_result_are_taken(page: Page) -> None:
    media = {"kind": "data", "mime_type": "image/png", "data_base64": "iVBORw0KGgo9" * (MEGABYTES // 12)}
    picture = {"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "image", "media": media}]}
    assert (await page.invoke([picture])).meta["status"] == "completed"
    asked = await page.say("call echo", tools=[tool("echo")])
    assert [call["name"] for call in asked.calls] == ["echo"]
    rows = json.dumps([{"a": 1, "b": [2, 3]}] * (MEGABYTES // 24))
    assert (await page.answer(result(asked.calls[0]["id"], rows))).meta["status"] == "completed"
