"""A server with 2,000 tools at a running gateway: models, lists and the stand-in stay usable (SPEC R4)."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from handspan.models.model import Model
from handspan.models.offline import Offline
from handspan.models.scripted import Scripted, ScriptTurn, call
from tests.gateway.graph.pages import ECHO, Graph, graph_gateway, result
from tests.sources.mcp.serving import server, until_status

pytestmark = pytest.mark.anyio

MANY = msgspec.to_builtins(server("--count", "2000", most_tools=3000))


def big_gateway(folder: Path, model: Model) -> Any:
    return graph_gateway(folder, model, tools={"mcp_servers": {"bad": MANY}})


async def ready(there: Graph) -> None:
    found = there.gateway.gateway.parts.app.mcp.find("bad")
    assert found is not None
    await until_status(found, "ready")


async def test_a_model_finds_one_of_two_thousand_tools_and_calls_it(tmp_path: Path) -> None:
    found = call("search_tools", query="say it again", limit=1)
    turns: list[ScriptTurn] = [found, call("bad__echo", text="hello"), call("echo"), call("bad__fail"), "One.", "Two."]
    model = Scripted(turns)
    async with big_gateway(tmp_path, model) as there:
        await ready(there)
        await there.page.set_up(ECHO)
        (asked,) = (await there.page.say("go", "t")).calls
        assert (await there.page.answer(result(asked["id"], "of the page"))).words == "One."
        first, second, *_, last = (request.tools for request in model.requests)
        assert {"echo", "read_file", "search_tools"} <= set(first) and len(first) < 48  # the page's tool is not hidden
        assert not [name for name in first if name.startswith("bad__")]
        assert second == (*first, "bad__echo") and last == (*second, "bad__fail")
        envelopes = [each.envelope for each in model.requests[-1].messages[-1].results]  # type: ignore[union-attr] # results
        assert "It went wrong." in envelopes[0]  # hidden, and it ran by its name
        await there.gateway.restart()
        await ready(there)
        assert (await there.page.say("again", "t")).words == "Two."
        assert set(model.requests[-1].tools) == set(last)  # from the stored messages


async def test_lists_tell_what_is_sent_and_what_it_costs_and_the_stand_in_searches_too(tmp_path: Path) -> None:
    async with big_gateway(tmp_path, Offline()) as there:
        await ready(there)
        page = there.page
        tools = {tool["name"]: tool for tool in (await page.ask("GET", "/api/tools")).json["tools"]}
        assert tools["read_file"]["shown_to"] == tools["search_tools"]["shown_to"] == ["General"]
        assert tools["bad__tool_7"]["agents"] == ["General"] and tools["bad__tool_7"]["shown_to"] == []
        costs = (await page.ask("GET", "/api/tools/cost")).json
        each = {tool["name"]: tool for tool in costs["tools"]}
        assert 20 < each["bad__tool_7"]["tokens"] < 60 and each["bad__tool_7"]["shown"] is False
        assert costs["tokens_all"] == sum(tool["tokens"] for tool in costs["tools"]) > 50_000
        assert costs["tokens_shown"] < 5_000 and each["read_file"]["shown"] is True
        assert (await page.ask("GET", "/api/tools/cost?agent=Nobody")).status == 404
        assert "hello there" in (await page.say("/bad__echo text='hello there'")).words
        assert "+09:00" in (await page.say("what time is it in Tokyo?")).words
        assert "It went wrong" in (await page.say("/bad__fail")).words
