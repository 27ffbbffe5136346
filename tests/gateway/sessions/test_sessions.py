"""Sessions that are had, loaded and let go: whose they are, and with which agent (ws.md 3, SPEC A1, S5)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from handspan.agent.conversation import Conversation
from handspan.agent.refusals import SessionRefused
from handspan.agent.sessions import Sessions
from handspan.core.agents import Agent
from handspan.core.events import Ended
from handspan.core.principals import OPERATOR, Origin, Principal
from handspan.core.tool import ToolSpec
from handspan.models.choice import Choice
from handspan.models.scripted import call
from tests.gateway.sessions.session_kit import STRANGER, RecordingListener, SessionKit, all_of, said, words
from tests.waiting import soon

pytestmark = pytest.mark.anyio

PLUGIN = Origin("plugin", "test")
OWNER = OPERATOR.owner


# Sessions that can't be had.


@pytest.mark.parametrize("session_id", ["a b", "a/b", "x" * 129, "über", "../etc", "a\n"])
async def test_an_id_that_can_not_be_one_is_refused(kit: SessionKit, session_id: str) -> None:
    for trying in (
        kit.sessions.bind(session_id, OPERATOR),
        kit.sessions.get(session_id, OPERATOR.owner).say(OPERATOR, said("hi"), RecordingListener()).wait_for_end(),
        kit.sessions.get(session_id, OPERATOR.owner).regenerate(OPERATOR, RecordingListener()).wait_for_end(),
    ):
        with pytest.raises(SessionRefused, match="can't be used") as refused:
            await soon(trying)
        assert refused.value.code == "SESSION_BIND_FAILED"


async def test_the_session_of_somebody_else_is_refused_everywhere(kit: SessionKit) -> None:
    kit.plays("hello")
    await kit.say("hi", session="kitchen")
    for trying in (
        kit.sessions.bind("kitchen", STRANGER),
        kit.sessions.get("kitchen", STRANGER.owner).say(STRANGER, said("hi"), RecordingListener()).wait_for_end(),
        kit.sessions.get("kitchen", STRANGER.owner).regenerate(STRANGER, RecordingListener()).wait_for_end(),
    ):
        with pytest.raises(SessionRefused, match="belongs to another owner") as refused:
            await soon(trying)
        assert refused.value.code == "SESSION_OWNER_MISMATCH"
    assert await kit.texts("kitchen") == ["hi", "hello"]


async def test_a_session_that_is_only_watched_is_somebodys_already(kit: SessionKit) -> None:
    unwatch = kit.sessions.get("new", OWNER).listen(RecordingListener())
    with pytest.raises(SessionRefused, match="belongs to another owner"):
        await soon(kit.sessions.bind("new", STRANGER))
    with pytest.raises(SessionRefused, match="belongs to another owner"):
        kit.sessions.get("new", STRANGER.owner)  # neither to say something nor to listen
    assert kit.sessions.state("new", STRANGER.owner) is None and not kit.sessions.abort("new", STRANGER.owner)
    unwatch()
    unwatch()
    assert (await soon(kit.sessions.bind("new", STRANGER))).session_id == "new"


async def test_two_who_begin_under_one_id_at_once_are_told_apart(kit: SessionKit) -> None:
    kit.plays("hello", "hello")

    async def say(who: Principal) -> object:
        try:
            return await soon(
                kit.sessions.get("new", who.owner).say(who, said("hi"), RecordingListener()).wait_for_end()
            )
        except SessionRefused as refused:
            return refused.code

    ends = await all_of(*(asyncio.create_task(say(who)) for who in (OPERATOR, STRANGER)))
    assert ends == [Ended("done", "hello"), "SESSION_OWNER_MISMATCH"]


async def test_an_agent_that_is_not_there_is_refused(kit: SessionKit) -> None:
    for trying in (
        kit.sessions.bind(None, OPERATOR, agent="Nobody"),
        kit.sessions.bind("s", OPERATOR, agent="Nobody"),
        kit.sessions.get("s", OPERATOR.owner)
        .say(OPERATOR, said("hi"), RecordingListener(), agent="Nobody")
        .wait_for_end(),
    ):
        with pytest.raises(SessionRefused, match="There is no agent 'Nobody'") as refused:
            await soon(trying)
        assert refused.value.code == "AGENT_INIT_FAILED"
    await kit.store.conversations.create(owner=OWNER, agent="Gone", session="old")
    with pytest.raises(SessionRefused, match="was with that one: name another"):
        await soon(kit.sessions.bind("old", OPERATOR))
    assert (await soon(kit.sessions.bind("old", OPERATOR, agent="Careful"))).agent == "Careful"


async def test_a_closed_store_can_not_bind(tmp_path: Path) -> None:
    kit = SessionKit(tmp_path)
    with pytest.raises(SessionRefused) as refused:
        await soon(kit.sessions.bind("s", OPERATOR))
    assert refused.value.code == "SESSION_BIND_FAILED"


async def test_binding_writes_nothing(kit: SessionKit) -> None:
    made = await soon(kit.sessions.bind(None, OPERATOR, name="Kitchen"))
    given = await soon(kit.sessions.bind("cellar", OPERATOR, agent="Careful"))
    assert (made.message_count, made.name, made.agent) == (0, "Kitchen", "")
    assert (given.session_id, given.message_count, given.agent) == ("cellar", 0, "Careful")
    assert (await soon(kit.store.conversations.page(owner=OWNER))).sessions == ()
    kit.plays("hello")
    await kit.say("hi", session=given.session_id, agent="Careful", name="The cellar\u200b")
    known = await soon(kit.store.conversations.get("cellar", owner=OWNER))
    assert (known.agent, known.name) == ("Careful", "The cellar")
    again = await soon(kit.sessions.bind("cellar", OPERATOR, name="other"))
    assert (again.message_count, again.name, again.agent, again.named_agent) == (2, "The cellar", "Careful", "")


# Agents, models, sessions at hand.


async def test_the_agent_is_the_named_one_then_the_sessions_then_the_default(kit: SessionKit) -> None:
    await kit.app.agents.create(Agent("Clerk", ("read_file",), instructions="Be brief.", model="scripted"))
    kit.plays(*["x"] * 4)
    await kit.say("1")
    await kit.say("2", agent="Clerk")
    await kit.say("3")
    requests = kit.requests
    assert requests[0].tools != ("read_file",)
    assert requests[1].tools == requests[2].tools == ("read_file",)
    assert requests[2].instructions.startswith("Be brief.")
    assert (await soon(kit.store.conversations.get("s", owner=OWNER))).agent == "Clerk"
    await kit.say("4", session="t")
    assert (await soon(kit.store.conversations.get("t", owner=OWNER))).agent == "General"
    assert kit.chosen == ["", "scripted"], "a model is made once for each name"


async def test_an_agent_that_was_changed_acts_so_from_the_next_turn(kit: SessionKit) -> None:
    await kit.app.agents.create(Agent("Clerk", instructions="Be brief."))
    kit.plays("1", "2")
    await kit.say("1", agent="Clerk")
    await kit.app.agents.edit("Clerk", lambda _: Agent("Clerk", instructions="Be long."))
    await kit.say("2")
    assert kit.requests[1].instructions.startswith("Be long.")


async def test_sessions_that_were_let_go_are_loaded_again(kit: SessionKit) -> None:
    loader, kept = kit.app.loader, kit.store.conversations
    sessions = Sessions(kept, loader, kit.app.agents, kit.choose_model, kit.nodes, limit=2)

    async def opened(session_id: str) -> Conversation:
        return (await soon(sessions.open(sessions.get(session_id, OWNER), OPERATOR)))[0]

    first = await opened("a")
    assert await opened("a") is first
    await first.append(said("hi"))
    for other in ("b", "c"):
        await opened(other)
    again = await opened("a")
    assert again is not first and again.messages == [said("hi")]
    assert len(sessions) == 0, "none of them is used"


async def test_an_id_that_somebody_else_takes_meanwhile_is_refused(kit: SessionKit) -> None:
    async def slowly(named: str, then: tuple[str, ...] | None = None, /) -> Choice:
        await kit.store.conversations.create(owner=STRANGER.owner, session="s")
        return await kit.choose_model(named)

    sessions = Sessions(kit.store.conversations, kit.app.loader, kit.app.agents, slowly, kit.nodes)
    with pytest.raises(SessionRefused, match="belongs to another owner"):
        await soon(sessions.open(sessions.get("s", OWNER), OPERATOR))


async def test_what_another_process_said_is_heard_before_the_next_turn(kit: SessionKit, tmp_path: Path) -> None:
    kit.plays("one", "three")
    await kit.say("1")
    other = SessionKit(tmp_path, ["two"])
    await other.app.open()
    await other.say("2")
    await other.sessions.drain(0)
    await other.app.close()
    await kit.say("3")
    assert words(kit.requests[-1].messages) == ["1", "one", "2", "two", "3"]


async def test_a_session_that_was_deleted_begins_anew(kit: SessionKit) -> None:
    kit.plays("one", "two")
    await kit.say("1")
    await kit.store.conversations.delete("s", owner=OWNER)
    await kit.say("2")
    assert await kit.texts() == ["2", "two"]


async def test_the_caller_of_a_turn_is_who_said_it(kit: SessionKit) -> None:
    seen: list[Principal] = []

    class Who:
        spec = ToolSpec("who", "Who is it?", {"type": "object"})

        async def run(self, arguments: Any, ctx: Any) -> str:
            seen.append(ctx.who)
            return "you"

    kit.app.registry.register(Who(), PLUGIN)
    kit.plays(call("who"), "1", call("who"), "2")
    await kit.say("1")
    narrow = Principal(OWNER, ("chat",))
    await soon(kit.sessions.get("s", narrow.owner).say(narrow, said("2"), RecordingListener()).wait_for_end())
    assert seen == [OPERATOR, narrow]
