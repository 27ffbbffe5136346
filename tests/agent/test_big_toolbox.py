"""A toolbox of more than `tools.shown` tools: what the model is sent, finds and calls (SPEC R4)."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from handspan.agent.conversation import Conversation
from handspan.agent.loop import Loop
from handspan.agent.turn_events import render_prompt
from handspan.core.agents import GENERAL, Agent, SkillTools
from handspan.core.context import ToolContext
from handspan.core.events import Ended
from handspan.core.messages import Message, ResultsMessage, Text, UserMessage
from handspan.core.principals import OPERATOR, Origin, ToolScope
from handspan.core.questions import Answer, Opened, Question, ignore_opened
from handspan.core.tool import NO_CLAIMS, READ_ONLY, Annotations, ToolSpec
from handspan.core.values import Arguments, Json
from handspan.engine.caller import Caller
from handspan.engine.engine import Engine
from handspan.models.scripted import Call, Scripted, ScriptTurn, call
from handspan.registry.registry import Registry, RegistryRules
from handspan.tools.clock import GetCurrentTime
from handspan.tools.search_tools import SearchTools
from tests.agent.no_log import NoLog
from tests.memory_ledger import MemoryLedger
from tests.stores import open_artifacts

pytestmark = pytest.mark.anyio

BASE = ("get_current_time", "search_tools")
MCP = Origin("mcp", "big")


class Named:
    """A tool that answers with its value."""

    def __init__(
        self, name: str, description: str = "It does a thing.", value: Json = None, annotations: Annotations = NO_CLAIMS
    ) -> None:
        self.spec = ToolSpec(name, description, {"type": "object"}, annotations=annotations)
        self._value = value

    async def run(self, arguments: Arguments, ctx: ToolContext) -> Json:
        return self._value


def big_tool(number: int, annotations: Annotations = NO_CLAIMS) -> Named:
    return Named(f"big__tool_{number}", f"Tool number {number}.", number, annotations)


class NoPersonHere:
    """Fails when a person is asked."""

    async def ask(self, question: Question, opened: Opened = ignore_opened) -> Answer:
        opened()
        raise AssertionError(question)


class Stage:
    """A model that plays a script, with two built-in tools and 60 of an MCP server."""

    def __init__(self, folder: Path, turns: Sequence[ScriptTurn], *, shown: int = 48, count: int = 60) -> None:
        self.registry = Registry(RegistryRules(shown=shown))
        self.registry.register(GetCurrentTime())
        self.registry.register(SearchTools())
        self.registry.replace(MCP, [big_tool(number) for number in range(count)])
        ledger = MemoryLedger()
        self.engine = Engine(open_artifacts(folder), folder, ledger=ledger, questions=NoPersonHere())
        self.loop = Loop(self.engine, ledger)
        self.model = Scripted(turns)
        self.converse(GENERAL)

    def converse(self, agent: Agent, messages: Sequence[Message] = (), skill_tools: SkillTools | None = None) -> None:
        box = self.registry.toolbox(agent, OPERATOR, "s1", in_turn=True, skill_tools=skill_tools)
        self.conversation = Conversation("s1", Caller(OPERATOR, agent, box, "s1"), self.model, NoLog(), messages)

    @property
    def sent(self) -> list[str]:
        """The names in the next request."""
        return [spec.name for spec in self.conversation.specs_for_model()]

    @property
    def requests(self) -> list[tuple[str, ...]]:
        return [request.tools for request in self.model.requests]

    async def say(self, text: str = "Go.") -> Ended:
        await self.conversation.append(UserMessage((Text(text),)))
        async with asyncio.timeout(60):
            return await self.loop.advance(self.conversation, lambda event: None)

    def envelopes(self) -> list[str]:
        results = [one for one in self.conversation.messages if type(one) is ResultsMessage]
        return [result.envelope for message in results for result in message.results]


def search(query: str, limit: int = 1) -> Call:
    return call("search_tools", query=query, limit=limit)


async def test_what_a_search_finds_is_sent_from_the_next_round_on_and_can_be_called(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [search("number 41"), call("big__tool_41"), "41.", "Still here."])
    assert (await stage.say()).text == "41."
    assert stage.requests == [BASE, (*BASE, "big__tool_41"), (*BASE, "big__tool_41")]
    assert stage.envelopes()[0] == (
        '{"status":"success","result":{"tools":[{"name":"big__tool_41","description":"Tool number 41."}]}}'
    )
    assert '"result":41' in stage.envelopes()[1]
    await stage.say()
    assert stage.requests[-1] == (*BASE, "big__tool_41")  # it stays for later turns


async def test_a_hidden_tool_runs_when_it_is_called_by_name_and_is_sent_then(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [call("big__tool_7"), "Done."])
    await stage.say()
    assert '"result":7' in stage.envelopes()[0]
    assert stage.requests == [BASE, (*BASE, "big__tool_7")]


async def test_tools_that_were_sent_keep_their_place_and_new_ones_follow(tmp_path: Path) -> None:
    turns: list[ScriptTurn] = [search("number 50"), search("number 9"), call("big__tool_50"), "Done."]
    stage = Stage(tmp_path, turns)
    await stage.say()
    assert stage.requests[-1] == (*BASE, "big__tool_50", "big__tool_9")
    stage.registry.register(Named("a_new_one"), Origin("remote", "s1", "c1"), ToolScope("session", "s1"))
    assert stage.sent == [*BASE, "big__tool_50", "big__tool_9", "a_new_one"]
    assert stage.conversation.specs_for_model() is stage.conversation.specs_for_model()
    stage.registry.unregister("big__tool_50")
    assert stage.sent == [*BASE, "big__tool_9", "a_new_one"]
    stage.registry.register(big_tool(50), MCP)
    assert stage.sent == [*BASE, "big__tool_50", "big__tool_9", "a_new_one"]


async def test_another_process_that_loads_the_messages_sends_the_same_tools(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [search("number 50", 3), call("big__tool_2"), "Done."])
    await stage.say()
    before = stage.sent
    assert len(before) == len(BASE) + 4
    stage.converse(GENERAL, stage.conversation.messages)
    assert stage.sent == before


async def test_the_tools_that_were_used_longest_ago_go_when_there_are_too_many(tmp_path: Path) -> None:
    turns: list[ScriptTurn] = [[call(f"big__tool_{number}") for number in range(16)] for _ in range(1)]
    stage = Stage(tmp_path, [*turns, [call("big__tool_0"), *(search(f"number {n}") for n in range(30, 38))], "Done."])
    stage.registry = Registry(RegistryRules(shown=5))
    for one in (GetCurrentTime(), SearchTools()):
        stage.registry.register(one)
    stage.registry.replace(MCP, [big_tool(number) for number in range(60)])
    stage.converse(GENERAL)
    await stage.say()
    found = set(stage.sent) - set(BASE)
    assert len(found) == 20  # more than `shown`: what one search can find is always sent
    assert "big__tool_0" in found and not found & {"big__tool_1", "big__tool_2", "big__tool_3", "big__tool_4"}


async def test_a_toolbox_up_to_the_limit_is_sent_whole_and_without_a_search(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [], shown=61)
    assert len(stage.sent) == 61 and "search_tools" not in stage.sent
    stage.registry.register(big_tool(60), MCP)
    assert stage.sent == list(BASE)
    stage.registry.unregister("big__tool_60")
    assert len(stage.sent) == 61


async def test_zero_switches_it_off(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [], shown=0, count=200)
    assert len(stage.sent) == 201 and "search_tools" not in stage.sent


async def test_tools_of_the_session_and_of_its_run_are_never_hidden(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [])
    stage.registry.register(Named("of_chat"), Origin("remote", "s1", "c1"), ToolScope("session", "s1"))
    stage.registry.register(Named("of_page"), Origin("browser", "s1", "c2"), ToolScope("turn", "s1"))
    stage.registry.register(Named("phone__photo"), Origin("device", "phone", "c3"), ToolScope("owner", OPERATOR.owner))
    assert stage.sent == ["get_current_time", "of_chat", "of_page", "search_tools"]


async def test_names_that_the_agent_or_a_skill_lists_are_never_hidden(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [])
    stage.converse(Agent(tools=("*", "big__tool_3", "big__tool_4?")))
    tens = [f"big__tool_{number}" for number in range(40, 50)]
    assert sorted(stage.sent) == sorted([*BASE, "big__tool_3", *tens])  # `*` lists too many to be a list
    stage.converse(GENERAL, skill_tools=SkillTools(("s",), ("big__tool_1?", "big__*")))
    assert sorted(stage.sent) == ["search_tools" if n == 10 else f"big__tool_{10 + n}" for n in (*range(10), 10)]


async def test_an_agent_with_a_list_can_search_it_and_finds_nothing_else(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [search("number", 20), search("current time"), "Done."])
    stage.registry.register(Named("other", "Another number."))
    stage.converse(Agent(tools=("big__*",), deny=("big__tool_1*",)))
    await stage.say()
    assert stage.requests[0] == ("search_tools",)
    assert len(stage.requests[1]) == 21 and not [name for name in stage.requests[1] if "tool_1" in name]
    assert '"other"' not in stage.envelopes()[0] and "No tool has these words" in stage.envelopes()[1]


async def test_an_agent_that_may_not_search_is_sent_everything(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [])
    stage.converse(Agent(deny=("search_*",)))
    assert len(stage.sent) == 61 and "search_tools" not in stage.sent


@pytest.mark.parametrize("tools", [(), ("get_current_time",), ("big__tool_1*",)])
async def test_an_agent_whose_list_is_short_has_no_search(tmp_path: Path, tools: tuple[str, ...]) -> None:
    stage = Stage(tmp_path, [])
    stage.converse(Agent(tools=tools))
    assert "search_tools" not in stage.sent and stage.conversation.caller.box.find("search_tools") is None


async def test_a_read_only_agent_searches_what_it_may_call(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [search("number", 20), "Done."])
    stage.registry.replace(MCP, [big_tool(n, annotations=READ_ONLY) if n > 5 else big_tool(n) for n in range(60)])
    stage.converse(Agent(mode="read_only"))
    await stage.say()
    assert len(stage.requests[1]) == len(BASE) + 20
    assert not set(stage.requests[1]) & {f"big__tool_{number}" for number in range(6)}


@pytest.mark.parametrize("mode", ["automatic", "ask_destructive", "ask_always", "read_only"])
async def test_no_mode_asks_before_a_search(tmp_path: Path, mode: Any) -> None:
    stage = Stage(tmp_path, [search("number 4"), "Done."])
    stage.converse(Agent(mode=mode))
    assert (await stage.say()).text == "Done."
    assert '"status":"success"' in stage.envelopes()[0]


async def test_the_prompt_that_is_shown_to_a_person_has_what_is_sent(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [])
    prompt = render_prompt(stage.conversation).messages
    assert "search_tools" in prompt and "big__tool_4" not in prompt


async def test_a_failed_or_odd_result_of_a_search_finds_nothing(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [call("search_tools"), "Done."])
    await stage.say()
    assert stage.requests == [BASE, BASE] and "invalid_arguments" in stage.envelopes()[0]


async def test_the_index_is_made_again_only_when_a_tool_has_changed(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [])
    selection = stage.conversation.caller.box._selection
    first, second = await asyncio.gather(selection.index(), selection.index())
    assert first is second and await selection.index() is first
    stage.registry.register(Named("treasure"), MCP)
    found = await stage.conversation.caller.box.search("treasure", 3)
    assert [spec.name for spec in found] == ["treasure"] and await selection.index() is not first


async def test_why_says_that_a_tool_is_found_by_a_search(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [])
    box = stage.conversation.caller.box
    assert any("tools.shown" in reason.text and reason.ok for reason in box.explain("big__tool_1"))
    assert not any("tools.shown" in reason.text for reason in box.explain("get_current_time"))
    stage.converse(Agent(tools=("big__*",)))
    assert all(reason.ok for reason in stage.conversation.caller.box.explain("search_tools"))
