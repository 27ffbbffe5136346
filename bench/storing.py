"""What it costs to let a conversation last: messages acknowledged in a second, and loading a long one again."""

import asyncio
import gc
import time
from collections.abc import Iterable
from pathlib import Path

from bench.figures import Figure, best_cpu
from handspan.core.messages import (
    AssistantMessage,
    CallPart,
    CallResult,
    Message,
    ResultsMessage,
    Text,
    Usage,
    UserMessage,
)
from handspan.core.records import SessionEdit, SessionFilter
from handspan.store.sqlite.store import SqliteStore, sqlite_store
from handspan.store.tables.database import TableConnection
from handspan.store.tables.messages import load_messages

SESSIONS = 64
APPENDS = 100
LONG = 10_000
MANY = 10_000
OWNER = "bench"
MANY_OWNER = "many"


async def measure(folder: Path) -> Iterable[Figure]:
    """`store_append_per_s`: from 64 sessions at once, synchronous=FULL. `session_load_ms`: CPU for 10,000 messages.

    `sessions_list_ms`, `sessions_search_ms`: CPU for a page of pinned ones, and for a word of one, of 10,000 sessions.
    """
    async with sqlite_store(folder / "storing") as store:
        return [
            Figure(
                "store_append_per_s",
                await _appends_per_second(store),
                "acknowledged/s",
                target=2000,
                more_is_better=True,
            ),
            Figure("session_load_ms", await _load_ms(store), "ms of CPU, 10,000 messages", target=100),
            *await _many_sessions(store),
        ]


async def _appends_per_second(store: SqliteStore) -> float:
    sessions = [(await store.conversations.create(owner=OWNER)).id for _ in range(SESSIONS)]

    async def talk(session: str) -> None:
        for message in talk_messages(APPENDS):
            await store.conversations.append(session, message, owner=OWNER)

    began = time.perf_counter()
    await asyncio.gather(*(talk(session) for session in sessions))
    return SESSIONS * APPENDS / (time.perf_counter() - began)


async def _many_sessions(store: SqliteStore) -> list[Figure]:
    """Return what a list and a search of 10,000 sessions with four messages each take."""
    conversations, pinned = store.conversations, SessionFilter(("chat",), pinned=True, archived=False)

    async def add(number: int) -> None:
        made = await conversations.create(owner=MANY_OWNER, name=f"name{number}")
        await conversations.append(made.id, *talk_messages(4), owner=MANY_OWNER)
        if number % 500 == 0:
            await conversations.edit(made.id, SessionEdit(pinned=True), owner=MANY_OWNER)

    for first in range(0, MANY, 500):
        await asyncio.gather(*(add(number) for number in range(first, first + 500)))
    await store.search.index()

    async def page() -> None:
        assert len((await conversations.page(pinned, owner=MANY_OWNER)).sessions) == MANY // 500

    async def find() -> None:
        assert len((await store.search.find("name4711", owner=MANY_OWNER)).found) == 1

    best = await best_cpu({"list": page, "search": find}, rounds=5)
    return [
        Figure("sessions_list_ms", best["list"] / 1000, "ms of CPU, 20 pinned of 10,000", target=1),
        Figure("sessions_search_ms", best["search"] / 1000, "ms of CPU, 10,000 sessions", target=20),
    ]


async def _load_ms(store: SqliteStore, rounds: int = 5) -> float:
    session = (await store.conversations.create(owner=OWNER)).id
    await store.conversations.append(session, *talk_messages(LONG), owner=OWNER)

    async def load(connection: TableConnection) -> float:
        began = time.process_time()
        assert len(await load_messages(session, OWNER, 0, connection)) == LONG
        return (time.process_time() - began) * 1000

    best = float("inf")
    for _ in range(rounds):
        gc.collect()
        best = min(best, await store.database.read_few(load))
    return best


def talk_messages(count: int) -> Iterable[Message]:
    """A question, a call, its result, an answer; and again."""
    for number in range(0, count, 4):
        call = CallPart(f"call-{number}", "read_file", '{"path": "notes/today.txt"}', f"toolu_{number}")
        envelope = '{"status":"success","result":{"content":"%s"}}' % ("a line of the file " * 10)
        yield UserMessage((Text(f"What do my notes say of number {number}?"),))
        yield AssistantMessage((Text("Let me look."), call), "calls", "model", Usage(1200, 40, 1000, None))
        yield ResultsMessage((CallResult(call.id, call.name, envelope),))
        yield AssistantMessage(
            (Text("They say this: " + "words and more words " * 10),), "end", "model", Usage(1300, 80)
        )
