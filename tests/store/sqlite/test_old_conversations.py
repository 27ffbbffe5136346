"""Conversations that an older version stored, with replies in a row: they load, go on, and get no more of them."""

from pathlib import Path

import pytest

from handspan.agent.conversation import Conversation, StoredLog
from handspan.agent.loop import Loop
from handspan.core.agents import GENERAL
from handspan.core.messages import AssistantMessage, Message, Text, UnpairedCalls, check_next
from handspan.core.principals import OPERATOR
from handspan.core.values import encode
from handspan.engine.caller import Caller
from handspan.engine.engine import Engine
from handspan.models.scripted import Scripted
from handspan.registry.registry import Registry
from handspan.store.sqlite.database import SqliteDatabase
from handspan.store.sqlite.migrations import MIGRATIONS
from handspan.store.tables.database import TableConnection
from tests.store.things import answers, asks, says, user
from tests.stores import open_artifacts, open_store
from tests.waiting import soon

pytestmark = pytest.mark.anyio

OLD: list[list[Message]] = [
    [],
    [user(), says("a"), says("b")],
    [user(), says("a"), says("b \ud83d"), says("c")],
    [user(), says("a"), asks("c")],
    [user(), says("a"), asks("c"), answers("c"), says("d"), asks("e"), answers("e")],
    [user(), says("a"), says("b"), user("c")],
]
COMING: tuple[Message, ...] = (user(), says(), asks("f"), answers("c"), answers("f"))


@pytest.mark.parametrize("kept", OLD)
async def test_replies_in_a_row_that_an_old_version_stored_still_load(state: Path, kept: list[Message]) -> None:
    await _stored_by_version_2(state, kept, "s1")
    async with open_store(state) as store:
        for after in range(len(kept) + 1):
            loaded = await soon(store.conversations.load("s1", owner="ann", after=after))
            assert [encode(message) for message in loaded] == [encode(message) for message in kept[after:]]


@pytest.mark.parametrize("kept", OLD)
async def test_what_comes_after_an_old_conversation_is_judged_like_all_else(state: Path, kept: list[Message]) -> None:
    await _stored_by_version_2(state, kept, *map(str, range(len(COMING))))
    async with open_store(state) as store:
        for place, coming in enumerate(COMING):
            attempt = store.conversations.append(str(place), coming, owner="ann", after=len(kept))
            if _may_follow(kept, coming):
                await soon(attempt)
            else:
                with pytest.raises(UnpairedCalls):
                    await soon(attempt)


async def test_an_old_conversation_goes_on_and_the_model_hears_two_replies_as_one(state: Path) -> None:
    await _stored_by_version_2(state, [user(), says("a"), says("b")], "s1")
    async with open_store(state) as store:
        messages = await soon(store.conversations.load("s1", owner="ann"))
        registry, model = Registry(), Scripted(["fine"])
        caller = Caller(OPERATOR, GENERAL, registry.toolbox(GENERAL, OPERATOR), "s1")
        session = Conversation("s1", caller, model, StoredLog(store.conversations, "ann"), messages)
        await soon(session.append(user("go on")))
        engine = Engine(open_artifacts(state / "artifacts"), state, ledger=store.ledger)
        ended = await soon(Loop(engine, store.ledger).advance(session, lambda _: None))
        kept = await soon(store.conversations.load("s1", owner="ann"))
    assert (ended.reason, ended.text) == ("done", "fine")
    both = AssistantMessage((Text("a"), Text("b")), "end", "m")
    assert model.requests[0].messages == (user(), both, user("go on"))
    assert kept[:4] == [user(), says("a"), says("b"), user("go on")]
    assert len(kept) == 5


async def _stored_by_version_2(state: Path, messages: list[Message], *sessions: str) -> None:
    """A database as it was when replies in a row could be kept."""
    begin = "INSERT INTO sessions (id, owner, agent, name, created, active) VALUES (?, 'ann', 'General', '', 1, 1)"
    add = "INSERT INTO messages (session, seq, at, opens, body) VALUES (?, ?, 1, ?, ?)"

    async def work(connection: TableConnection) -> None:
        for session in sessions:
            await connection.execute(begin, (session,))
            for seq, message in enumerate(messages, 1):
                calls = message.calls if isinstance(message, AssistantMessage) else ()
                opens = encode([call.id for call in calls]).decode() if calls else None
                await connection.execute(add, (session, seq, opens, encode(message)))

    old = SqliteDatabase(state, MIGRATIONS[:2])
    await soon(old.open())
    await soon(old.write(work))
    await soon(old.close())


def _may_follow(messages: list[Message], coming: Message) -> bool:
    try:
        check_next(messages[-1] if messages else None, coming)
    except UnpairedCalls:
        return False
    return True
