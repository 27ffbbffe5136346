"""The agents of the settings and the kept ones, as one list (SPEC A1)."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handspan.agent.agents import Agents, KnownAgent, selects, tick_tool, untick_tool
from handspan.config.load import load_settings
from handspan.config.settings import Settings
from handspan.core.agents import GENERAL, Agent
from handspan.core.errors import ConfigError
from handspan.core.values import JsonObject
from tests.stores import open_store

READER = Agent("reader", ("read_*",), (), "read_only")
TOOLS = ("read_file", "read_artifact", "write_file", "web_fetch")
GLOBS = st.lists(st.sampled_from((*TOOLS, "read_*", "*_file", "web_*")), unique=True).map(tuple)
ANY_AGENT = st.builds(Agent, tools=st.none() | GLOBS, deny=GLOBS)


def settings(folder: Path, agents: JsonObject | None = None) -> Settings:
    return load_settings(None, {"HOME": str(folder)}, {"agents": agents} if agents else {})


@pytest.mark.anyio
async def test_without_stored_agents_there_are_those_of_the_settings(tmp_path: Path) -> None:
    async with open_store(tmp_path / "st") as store:
        agents = Agents(settings(tmp_path, {"reader": {"tools": ["read_*"], "mode": "read_only"}}), store.agents)
        assert list(await agents.all()) == [KnownAgent(GENERAL, False), KnownAgent(READER, True)]
        assert (await agents.find()).agent == GENERAL
        with pytest.raises(ConfigError, match="There is no agent 'xxxx") as caught:
            await agents.find("x" * 5000)
        assert len(str(caught.value)) < 200


@pytest.mark.anyio
async def test_one_of_the_settings_hides_a_kept_one_which_comes_back_without_it(tmp_path: Path) -> None:
    async with open_store(tmp_path / "st") as store:
        plain = Agents(settings(tmp_path), store.agents)
        await plain.create(Agent("reader", ("web_*",)))
        await plain.edit("General", lambda _: Agent(instructions="Be kind."))
        both = Agents(
            settings(tmp_path, {"reader": {"tools": ["read_*"]}, "General": {"deny": ["spawn"]}}), store.agents
        )
        assert [known.is_of_settings for known in await both.all()] == [True, True]
        assert (await both.find("reader")).agent.tools == ("read_*",)
        assert (await both.find()).agent.deny == ("spawn",)
        with pytest.raises(ConfigError, match="is from the settings"):
            await both.edit("reader", lambda _: Agent("reader"))
        assert (await plain.find("reader")).agent.tools == ("web_*",)
        assert (await plain.find()).agent.instructions == "Be kind."


@pytest.mark.anyio
async def test_the_default_agent_may_be_a_kept_one_and_a_misspelled_one_is_said(tmp_path: Path) -> None:
    named = load_settings(None, {"HOME": str(tmp_path)}, {"default_agent": "raeder"})
    async with open_store(tmp_path / "st") as store:
        agents = Agents(named, store.agents)
        await agents.create(READER)
        said = "no agent 'raeder', which the settings name as default_agent. Did you mean 'reader'? There are: General,"
        with pytest.raises(ConfigError, match=re.escape(said)):
            await agents.find()
        with pytest.raises(ConfigError, match="which the settings name as default_agent"):
            agents.of_settings()
        await agents.clone("reader", "raeder")
        assert (await agents.find()).agent.name == "raeder"
        with pytest.raises(ConfigError, match="There is no agent 'nobody'"):
            await agents.find("nobody")


@pytest.mark.anyio
async def test_an_agent_can_not_be_renamed_onto_one_of_the_settings(tmp_path: Path) -> None:
    async with open_store(tmp_path / "st") as store:
        agents = Agents(settings(tmp_path, {"reader": {"mode": "read_only"}}), store.agents)
        await agents.create(Agent("mine"))
        with pytest.raises(ConfigError, match="'reader' is from the settings"):
            await agents.edit("mine", lambda _: Agent("reader"))
        assert [known.agent.name for known in await agents.all()] == ["General", "mine", "reader"]


@pytest.mark.anyio
async def test_agents_belong_to_their_owner(tmp_path: Path) -> None:
    async with open_store(tmp_path / "st") as store:
        agents = Agents(settings(tmp_path), store.agents)
        await agents.create(Agent("mine"), owner="ann")
        assert await agents.clone("mine", "copy", owner="ann") == Agent("copy")
        assert [known.agent.name for known in await agents.all(owner="ann")] == ["General", "copy", "mine"]
        assert [known.agent.name for known in await agents.all(owner="bob")] == ["General"]
        with pytest.raises(ConfigError, match="There is no agent 'mine'"):
            await agents.delete("mine", owner="bob")


def test_a_glob_of_the_deny_list_keeps_a_tool_from_being_ticked() -> None:
    with pytest.raises(ConfigError, match=r"'web_fetch' stays off: the deny list .* by 'web_\*'"):
        tick_tool(Agent(deny=("web_*",)), "web_fetch")


@given(ANY_AGENT, st.sampled_from(TOOLS))
def test_unticking_takes_this_tool_and_no_other(agent: Agent, tool: str) -> None:
    after = untick_tool(agent, tool)
    assert not selects(after, tool)
    assert all(selects(after, other) == selects(agent, other) for other in TOOLS if other != tool)


@given(ANY_AGENT, st.sampled_from(TOOLS))
def test_ticking_gives_this_tool_and_no_other_or_says_why_not(agent: Agent, tool: str) -> None:
    try:
        after = tick_tool(agent, tool)
    except ConfigError:
        assert not selects(agent, tool)
        return
    assert selects(after, tool)
    assert all(selects(after, other) == selects(agent, other) for other in TOOLS if other != tool)
