"""Tools that a client sets up (SPEC H1, H3; graph.md 3)."""

import json
from typing import Any

import pytest

from handspan.core.store import MAX_TOOL_SETS
from tests.gateway.graph.pages import ECHO, Graph, Page, result, tool

pytestmark = pytest.mark.anyio


async def names(page: Page) -> set[str]:
    """The tools that a run of this client has."""
    return set(json.loads((await page.say("{tools}")).words))


class TestInvalidDefinitions:
    @pytest.mark.parametrize("field", ["name", "description", "parameters", "node_name"])
    async def test_a_missing_field_is_named(self, page: Page, field: str) -> None:
        lacking = {key: value for key, value in ECHO.items() if key != field}
        refused = await page.set_up(ECHO, lacking)
        assert (refused.status, refused.error["code"]) == (422, "VALIDATION_ERROR")
        (detail,) = refused.error["details"]
        assert detail["loc"] == ["body", "tools", "1", field]
        assert detail["type"] == "missing"

    @pytest.mark.parametrize("parameters", ["text", 7, [], [{"type": "object"}], True])
    async def test_parameters_have_to_be_an_object(self, page: Page, parameters: Any) -> None:
        refused = await page.set_up(tool("x", parameters=parameters))
        assert refused.status == 422
        assert refused.error["details"][0]["loc"] == ["body", "tools", "0", "parameters"]

    @pytest.mark.parametrize("schema", [{"type": "no such type"}, {"type": "object", "properties": 7}])
    async def test_a_schema_that_is_none_is_refused(self, page: Page, schema: dict[str, Any]) -> None:
        refused = await page.set_up(tool("x", parameters=schema))
        assert refused.status == 422
        assert refused.error["details"][0]["loc"] == ["body", "tools", "0"]

    async def test_every_wrong_tool_is_named_and_none_is_kept(self, page: Page) -> None:
        refused = await page.set_up(tool("good"), tool(""), tool("bad", parameters={"type": "nothing"}))
        assert refused.status == 422
        assert "good" not in await names(page)

    @pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"tools": 7}', b'{"tools": [7]}', b'{"tools": null}'])
    async def test_bodies_that_are_none(self, page: Page, body: bytes) -> None:
        refused = await page.ask("POST", "/v1/graph/setup", body)
        assert (refused.status, refused.error["code"]) == (422, "VALIDATION_ERROR")
        assert refused.error["details"]

    async def test_more_tools_than_a_client_may_have(self, there: Graph, page: Page) -> None:
        most = there.gateway.gateway.parts.offer_rules.limits.tools
        refused = await page.set_up(*(tool(f"t{number}") for number in range(most + 1)))
        assert refused.status == 422
        assert str(most) in refused.error["message"]


class TestSettingUp:
    async def test_what_the_unmodified_client_sends_is_taken(self, page: Page) -> None:
        answer = await page.set_up(tool("echo"), tool("echo", parameters={"type": "object", "properties": {}}))
        assert answer.data == {
            "success": True,
            "message": "Added tools to nodes: ['tools']",
            "registered_tools": 1,
            "status": "success",
            "details": "Added tools to nodes: ['tools']",
        }
        assert "echo" in await names(page)

    async def test_the_form_of_openai_is_taken_too(self, page: Page) -> None:
        function = {"name": "look", "description": "Looks.", "parameters": {"type": "object", "properties": {}}}
        await page.set_up({"type": "function", "function": function})
        assert "look" in await names(page)

    async def test_an_empty_list_removes_all(self, there: Graph, page: Page) -> None:
        await page.set_up(ECHO)
        assert (await page.set_up()).data["registered_tools"] == 0
        assert "echo" not in await names(page)
        await there.gateway.restart()
        assert "echo" not in await names(page)

    async def test_a_setup_replaces_the_tools_of_every_node(self, page: Page) -> None:
        await page.set_up(tool("old", node="a"), tool("gone", node="b"))
        assert (await page.set_up(tool("new", node="a"))).data["registered_tools"] == 1
        has = await names(page)
        assert "new" in has and not {"old", "gone"} & has

    async def test_the_later_one_of_a_name_counts(self, page: Page) -> None:
        picky = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
        await page.set_up(tool("do", parameters=picky), tool("do"))
        assert (await page.say("call do")).calls != []

    async def test_names_that_no_model_takes_are_mapped_and_come_back_as_they_were(self, page: Page) -> None:
        await page.set_up(tool("größe.messen!"))
        (shown,) = [name for name in await names(page) if name.startswith("gr")]
        assert (await page.say(f"call {shown}")).calls[0]["name"] == "größe.messen!"


class TestSetsThatRequestsBring:
    async def test_a_set_that_had_to_go_is_kept_again_when_it_is_brought_again(self, there: Graph, page: Page) -> None:
        first = [tool("mine", description="first")]
        for tools in (first, first, *([tool(f"t{number}")] for number in range(MAX_TOOL_SETS))):
            assert (await page.say("hello", tools=tools)).meta["status"] == "completed"
        (call,) = (await page.say("call mine\nthen\n{tools}", tools=first)).calls
        await there.gateway.restart()
        gone_on = await page.answer(result(call["id"], "ok"))  # with what the run began with: it brings none
        assert "mine" in json.loads(gone_on.words)
