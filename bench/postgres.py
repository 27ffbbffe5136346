"""PostgreSQL as the store, beside what a bare driver and SQLite do on the same disk. Without a server: nothing."""

import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import msgspec
from tests.postgres_engine import HOW_TO_INSTALL, PostgresEngine, find_programs

from bench.figures import Figure
from bench.storing import APPENDS, OWNER, SESSIONS, talk_messages
from handspan.core.calls import CallRecord, ToolFacts, new_call_id
from handspan.core.messages import AssistantMessage, CallPart, CallResult, ResultsMessage, Text, UserMessage
from handspan.core.records import DeviceRow
from handspan.core.results import succeed
from handspan.core.store import Store
from handspan.store.postgres.connections import StoreAddress
from handspan.store.postgres.database import PostgresDatabase
from handspan.store.postgres.move import move_to_postgres
from handspan.store.postgres.store import PostgresStore, postgres_store
from handspan.store.sqlite.store import sqlite_store
from handspan.store.tables.messages import AppendMessages, append_messages
from handspan.store.tables.rows import Row

_BATCH = 32
_TURNS = 60
_DEVICES = 100_000
_MOVED = 40_000
_TOOL = ToolFacts(None, "1", read_only=False)
_BARE = """
WITH given AS (
    SELECT * FROM unnest($1::bigint[], $2::float8[], $3::text[], $4::boolean[], $5::text[], $6::text[], $7::bytea[],
        $8::text[], $9::text[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::float8[])
        AS given (seq, at, opens, is_reply, session, owner, body, model, day, input, output, cached, reasoning, cost)
), moved AS (
    UPDATE sessions SET length = seq, active = at, open_calls = opens, ends_with_reply = is_reply
    FROM given WHERE id = session
), used AS (
    INSERT INTO usage (session, seq, owner, model, day, input, output, cached, reasoning, cost)
    SELECT session, seq, given.owner, model, day, input, output, cached, reasoning, cost FROM given WHERE is_reply
)
INSERT INTO messages (session, seq, number, at, opens, body) SELECT session, seq, seq, at, opens, body FROM given
"""
_NO_USE = (None,) * 7


async def measure(folder: Path) -> Iterable[Figure]:
    """`pg_append_per_s`, `pg_turn`, `list_100k` and `migrate_per_s`."""
    if find_programs() is None:
        print(f"postgres: not measured, {HOW_TO_INSTALL}")
        return []
    engine = PostgresEngine("fsync=on", "full_page_writes=on", parent=Path(tempfile.gettempdir()))
    try:
        await asyncio.to_thread(engine.start)
        return [
            await _append_figure(engine, folder),
            await _turn_figure(engine, folder),
            await _list_figure(engine, folder),
            await _move_figure(engine, folder),
        ]
    finally:
        engine.remove()


@asynccontextmanager
async def _opened(engine: PostgresEngine, folder: Path, name: str) -> AsyncIterator[PostgresStore]:
    async with postgres_store(StoreAddress(await _new_schema(engine, name)), folder / name) as store:
        yield store


async def _new_schema(engine: PostgresEngine, name: str) -> str:
    connection = await asyncpg.connect(engine.url)
    await connection.execute(f"CREATE SCHEMA {name}")
    await connection.close()
    return f"{engine.url}?search_path={name}"


async def _append_figure(engine: PostgresEngine, folder: Path) -> Figure:
    """Messages of many sessions at once; beside them a bare driver that writes the same rows, 32 in a statement."""
    async with _opened(engine, folder, "appending") as store, _opened(engine, folder, "bare") as tables:
        ours, bare = [], []
        for _ in range(3):  # by turns: a busy disk hits both
            ours.append(await _appends_per_second(store))
            bare.append(await _bare_appends_per_second(tables, f"{engine.url}?search_path=bare"))
    best, beside = statistics.median(ours), statistics.median(bare)
    return Figure(
        "pg_append_per_s", best, f"acknowledged/s; {best / beside:.2f} x bare", target=0.7 * beside,
        line=0.7 * beside, more_is_better=True, peers={"asyncpg": beside},
    )  # fmt: skip


async def _appends_per_second(store: Store) -> float:
    sessions = [(await store.conversations.create(owner=OWNER)).id for _ in range(SESSIONS)]

    async def talk(session: str) -> None:
        for message in talk_messages(APPENDS):
            await store.conversations.append(session, message, owner=OWNER)

    began = time.perf_counter()
    await asyncio.gather(*(talk(session) for session in sessions))
    return SESSIONS * APPENDS / (time.perf_counter() - began)


async def _bare_appends_per_second(tables: Store, url: str) -> float:
    """The same rows of messages, sessions and usage, made before the clock runs, without any check."""
    sessions = [(await tables.conversations.create(owner=OWNER)).id for _ in range(SESSIONS)]
    rows = [
        _bare_row(seq, append_messages(session, (message,), OWNER, time.time()))
        for seq, message in enumerate(talk_messages(APPENDS), 1)
        for session in sessions
    ]
    connection = await asyncpg.connect(url)
    began = time.perf_counter()
    for at in range(0, len(rows), _BATCH):
        await connection.execute(_BARE, *(list(column) for column in zip(*rows[at : at + _BATCH], strict=True)))
    spent = time.perf_counter() - began
    await connection.close()
    return len(rows) / spent


def _bare_row(seq: int, work: AppendMessages) -> Row:
    at, opens, is_reply, session, owner, _, body = work.rows[0]
    return seq, at, opens, is_reply, session, owner, body, *(work.uses[0] or _NO_USE)


async def _turn_figure(engine: PostgresEngine, folder: Path) -> Figure:
    """What the store takes for a turn with two tool calls, against SQLite with synchronous=FULL."""
    async with _opened(engine, folder, "turns") as store, sqlite_store(folder / "turns_sqlite") as embedded:
        ours, beside = [], []
        for _ in range(3):
            ours.append(await _median(lambda: _turn(store)))
            beside.append(await _median(lambda: _turn(embedded)))
    ratio = statistics.median(ours) / statistics.median(beside)
    unit = f"x SQLite FULL ({statistics.median(ours) * 1000:.1f} ms)"
    return Figure("pg_turn", ratio, unit, target=2.5, line=2.5)


async def _median(work: Callable[[], Awaitable[None]]) -> float:
    times = []
    for _ in range(_TURNS):
        began = time.perf_counter()
        await work()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


async def _turn(store: Store) -> None:
    session = (await store.conversations.create(owner=OWNER)).id
    await store.conversations.begin_turn(session, owner=OWNER)
    ids = [new_call_id(), new_call_id()]
    await store.conversations.append(session, UserMessage((Text("Do both."),)), owner=OWNER)
    asked = AssistantMessage(tuple(CallPart(call_id, "write", "{}") for call_id in ids))
    await store.conversations.append(session, asked, owner=OWNER)
    await asyncio.gather(*(_call(store, session, call_id) for call_id in ids))
    results = tuple(CallResult(call_id, "write", "done", is_error=False) for call_id in ids)
    await store.conversations.append(session, ResultsMessage(results), owner=OWNER)
    await store.conversations.append(session, AssistantMessage((Text("Both are done."),)), owner=OWNER)
    await store.conversations.end_turn(session, owner=OWNER)


async def _call(store: Store, session: str, call_id: str) -> None:
    record = CallRecord(call_id, "write", _TOOL, {}, OWNER, session, "General", time.time())
    for waiting in (store.ledger.start(record), store.ledger.finish(record, succeed("done"))):
        if waiting is not None and not isinstance(waiting, bool):
            await waiting


async def _list_figure(engine: PostgresEngine, folder: Path) -> Figure:
    """The devices of one owner with their tools, among 100,000."""
    async with _opened(engine, folder, "listing") as store:
        tools = {"photo": "a" * 64, "locate": "b" * 64}
        for at in range(0, _DEVICES, 5000):
            rows = [DeviceRow(f"owner{n // 10}", f"d{n}", f"d{n}", "Phone", 1.0, tools) for n in range(at, at + 5000)]
            await store.devices.save(rows)
        seconds = await _median(lambda: _list(store.database))
    return Figure("list_100k", seconds * 1000, "ms, one owner's 10 devices", target=2.0, line=2.0)


async def _list(database: PostgresDatabase) -> None:
    rows = await database.fetch_all("SELECT id, label, tools FROM devices WHERE owner = ?", ("owner4711",))
    assert len([msgspec.json.decode(tools) for _, _, tools in rows]) == 10


async def _move_figure(engine: PostgresEngine, folder: Path) -> Figure:
    async with sqlite_store(folder / "moving") as store:
        session = (await store.conversations.create(owner=OWNER)).id
        await store.conversations.append(session, *talk_messages(_MOVED), owner=OWNER)
    url = await _new_schema(engine, "moving")
    began = time.perf_counter()
    await move_to_postgres(folder / "moving", StoreAddress(url), lambda line: None)
    rate = _MOVED / (time.perf_counter() - began)
    return Figure("migrate_per_s", rate, "messages/s", target=5000, line=5000, more_is_better=True)
