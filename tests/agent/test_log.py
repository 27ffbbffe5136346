"""A session's messages in the store, with what each reply cost (SPEC A2, M6)."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from handspan.agent.conversation import ReplyCosts, StoredLog
from handspan.config.settings import ModelPrice
from handspan.core.errors import ToolError
from handspan.core.messages import (
    AssistantMessage,
    CallPart,
    CallResult,
    Message,
    ResultsMessage,
    Text,
    UnpairedCalls,
    Usage,
    UserMessage,
)
from handspan.core.records import Total
from handspan.core.store import Store
from tests.stores import open_store

pytestmark = pytest.mark.anyio

HI = UserMessage((Text("hi"),))


async def kept(log: StoredLog, session: str, message: Message, after: int = 0) -> None:
    keeping = log.append(session, message, after)
    assert keeping is not None  # nothing is gathered here
    await keeping


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with open_store(tmp_path) as store:
        yield store


def reply(usage: Usage | None = None, model: str = "m") -> AssistantMessage:
    return AssistantMessage((Text("hello"),), "end", model, usage)


async def costs(store: Store, session: str) -> Total:
    (of_session,) = await store.usage.sums("session", owner="ann", session=session)
    return of_session.cost


async def test_what_the_store_refuses_is_refused(store: Store) -> None:
    session = await store.conversations.create(owner="ann")
    log = StoredLog(store.conversations, "ann")
    with pytest.raises(ToolError, match="There is no session"):
        await kept(log, "nope", HI)
    with pytest.raises(ToolError, match="There is no session"):
        await kept(StoredLog(store.conversations, "bob"), session.id, HI)
    with pytest.raises(UnpairedCalls):
        await kept(log, session.id, ResultsMessage((CallResult("c", "t", "{}"),)))
    with pytest.raises(ToolError, match="has 0 messages and not 1"):  # one before it was not kept
        await kept(log, session.id, HI, 1)
    assert await store.conversations.load(session.id, owner="ann") == []


async def test_every_message_is_there_for_the_next_process(tmp_path: Path) -> None:
    messages: list[Message] = [
        HI,
        AssistantMessage((CallPart("c-1", "t", "{}"),), "calls", "m"),
        ResultsMessage((CallResult("c-1", "t", "{}"),)),
        reply(),
    ]
    async with open_store(tmp_path) as store:
        session = await store.conversations.create(owner="ann")
        log = StoredLog(store.conversations, "ann")
        for after, message in enumerate(messages):
            await kept(log, session.id, message, after)
    async with open_store(tmp_path) as store:
        assert await store.conversations.load(session.id, owner="ann") == messages


@pytest.mark.parametrize(
    ("message", "price", "cost"),
    [
        (reply(Usage(1_000_000, 100_000)), ModelPrice(2.0, 10.0), 3.0),
        (reply(Usage(1_000_000, 100_000), "gpt-4o"), None, 3.5),
        (reply(Usage(1_000_000, 100_000), "gpt-4o"), ModelPrice(), 3.5),
        (reply(Usage(1_000_000, 100_000), "gpt-4o"), ModelPrice(0.0, 0.0), 0.0),
        (reply(Usage(1_000_000, 100_000), "nobody-knows"), None, None),
        (reply(Usage(1_000_000, None)), ModelPrice(2.0, 10.0), None),
        (reply(), ModelPrice(2.0, 10.0), None),
    ],
)
async def test_a_reply_costs_what_the_settings_or_the_table_say_and_unknown_stays_unknown(
    store: Store, message: AssistantMessage, price: ModelPrice | None, cost: float | None
) -> None:
    session = await store.conversations.create(owner="ann")
    log = StoredLog(store.conversations, "ann", ReplyCosts(lambda _: price))
    await kept(log, session.id, HI)
    await kept(log, session.id, message, 1)
    total = await costs(store, session.id)
    assert (total.known, total.unknown) == (cost if cost is None else pytest.approx(cost), int(cost is None))
