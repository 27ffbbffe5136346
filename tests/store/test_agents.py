"""Agents as data: an owner's own, and one that everybody has and keeps (SPEC A1)."""

import asyncio
from collections.abc import Callable

import pytest
from msgspec import structs

from handspan.core.agents import GENERAL, Agent
from handspan.core.errors import ToolError
from handspan.core.store import Store
from tests.waiting import soon

pytestmark = pytest.mark.anyio

CLERK = Agent(
    "Clerk", ("read_*",), ("*_shell",), "ask_always", "Be brief.", "gpt", "Reads files.", None, ("tidy", "lists")
)


async def test_the_built_in_agent_is_always_there_and_stays(store: Store) -> None:
    assert await soon(store.agents.all(owner="ann")) == [GENERAL]
    assert await soon(store.agents.find("General", owner="ann")) == GENERAL
    with pytest.raises(ToolError, match="is built-in and can't be removed"):
        await soon(store.agents.delete("General", owner="ann"))
    with pytest.raises(ToolError, match="is built-in and keeps its name: clone it instead"):
        await soon(store.agents.edit("General", lambda _: Agent("Mine"), owner="ann"))
    with pytest.raises(ToolError, match="There is an agent 'General' already"):
        await soon(store.agents.create(Agent("General", ()), owner="ann"))
    assert await soon(store.agents.all(owner="ann")) == [GENERAL]


async def test_the_built_in_agent_can_be_edited_by_each_for_themselves(store: Store) -> None:
    mine = structs.replace(GENERAL, instructions="Speak German.")
    await soon(store.agents.edit("General", lambda _: mine, owner="ann"))
    assert await soon(store.agents.find("General", owner="ann")) == mine
    assert await soon(store.agents.find("General", owner="bob")) == GENERAL
    assert await soon(store.agents.find("Clerk", owner="bob")) is None


async def test_an_agent_of_another_owner_is_not_found(store: Store) -> None:
    await soon(store.agents.create(CLERK, owner="ann"))
    for attempt in (
        store.agents.clone("Clerk", "Copy", owner="bob"),
        store.agents.edit("Clerk", lambda one: one, owner="bob"),
        store.agents.delete("Clerk", owner="bob"),
    ):
        with pytest.raises(ToolError, match=r"There is no agent 'Clerk'.* There are: General\.") as refused:
            await soon(attempt)
        assert refused.value.code == "file_not_found"
    assert await soon(store.agents.all(owner="bob")) == [GENERAL]


@pytest.mark.parametrize("name", ["", " Clerk", "a\nb", "x" * 101, "\ud800"])
async def test_a_name_that_a_person_can_not_type_is_refused(store: Store, name: str) -> None:
    with pytest.raises(ToolError, match="can't be an agent's name"):
        await soon(store.agents.create(Agent(name), owner="ann"))


async def test_agents_are_created_cloned_and_edited(store: Store) -> None:
    await soon(store.agents.create(CLERK, owner="ann"))
    copy = await soon(store.agents.clone("Clerk", "Archivist", owner="ann"))
    assert copy == structs.replace(CLERK, name="Archivist")
    with pytest.raises(ToolError, match="There is an agent 'Clerk' already: choose another name"):
        await soon(store.agents.clone("Archivist", "Clerk", owner="ann"))
    edited = structs.replace(copy, tools=None, max_tool_iterations=5)
    await soon(store.agents.edit("Archivist", lambda _: edited, owner="ann"))
    assert await soon(store.agents.all(owner="ann")) == [GENERAL, edited, CLERK]


async def test_changes_at_the_same_time_follow_each_other(store: Store) -> None:
    def add(tool: str) -> Callable[[Agent], Agent]:
        return lambda agent: structs.replace(agent, deny=(*agent.deny, tool))

    names = [f"tool_{number}" for number in range(8)]
    await soon(asyncio.gather(*(store.agents.edit("General", add(name), owner="ann") for name in names)))
    found = await soon(store.agents.find("General", owner="ann"))
    assert found is not None and sorted(found.deny) == names


async def test_sessions_follow_an_agent_that_gets_another_name(store: Store) -> None:
    await soon(store.agents.create(CLERK, owner="ann"))
    session = await soon(store.conversations.create(owner="ann", agent="Clerk"))
    await soon(store.agents.edit("Clerk", lambda one: structs.replace(one, name="Secretary"), owner="ann"))
    assert [agent.name for agent in await soon(store.agents.all(owner="ann"))] == ["General", "Secretary"]
    assert (await soon(store.conversations.get(session.id, owner="ann"))).agent == "Secretary"
    with pytest.raises(ToolError, match="already"):
        await soon(store.agents.edit("Secretary", lambda _: GENERAL, owner="ann"))


async def test_sessions_of_a_deleted_agent_move_to_the_built_in_one(store: Store) -> None:
    for owner in ("ann", "bob"):
        await soon(store.agents.create(CLERK, owner=owner))
    anns = [await soon(store.conversations.create(owner="ann", agent="Clerk")) for _ in range(2)]
    bobs = await soon(store.conversations.create(owner="bob", agent="Clerk"))
    assert await soon(store.agents.delete("Clerk", owner="ann")) == 2
    assert await soon(store.agents.all(owner="ann")) == [GENERAL]
    for session in anns:
        assert (await soon(store.conversations.get(session.id, owner="ann"))).agent == "General"
    assert (await soon(store.conversations.get(bobs.id, owner="bob"))).agent == "Clerk"
