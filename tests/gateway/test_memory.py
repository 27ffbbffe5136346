"""How much memory a gateway takes: the whole process, as a person sees it (SPEC S7)."""

import asyncio
from pathlib import Path

import httpx2
import pytest

from handspan.core.messages import Text, UserMessage
from handspan.core.principals import OPERATOR
from handspan.store.sqlite.store import sqlite_store
from handspan.testing import GatewayProcess
from tests.chaos.kills import PLAIN_PROCESS

pytestmark = pytest.mark.anyio

SESSIONS = 8
CONVERSATION = [UserMessage((Text(f"{number} {'word ' * 600}"),)) for number in range(200)]
"""Each message has a page of the database for itself."""
AT_ONCE = 16
SECONDS = 60.0
MOST = 2 * 1024 * 1024
"""Bytes. Measured: 0.6 to 0.9 million, which is one conversation. With a heap for each thread and SQLite's own limit
for caches: 5 to 9 million, and more for each processor."""


async def store_conversations(state: Path) -> None:
    async with sqlite_store(state) as store:
        for _ in range(SESSIONS):
            made = await store.conversations.create(owner=OPERATOR.owner)
            await store.conversations.append(made.id, *CONVERSATION, owner=OPERATOR.owner)


async def test_threads_that_load_long_conversations_leave_no_memory_behind(tmp_path: Path) -> None:
    gateway = GatewayProcess(tmp_path, environ=PLAIN_PROCESS)
    await store_conversations(gateway.state)
    async with gateway, httpx2.AsyncClient(base_url=gateway.url, timeout=SECONDS, trust_env=False) as client:
        client.headers["Authorization"] = f"Bearer {gateway.token}"

        async def get(path: str) -> httpx2.Response:
            return (await client.get(path)).raise_for_status()

        async def load_all() -> None:
            """Let the gateway load every conversation, and search in all of them."""
            listed = (await get("/api/sessions")).json()["sessions"]
            for one in listed:
                found = (await get(f"/api/sessions/{one['session_id']}/messages")).json()["messages"]
                assert len(found) == len(CONVERSATION)
            assert len(listed) == len((await get("/api/sessions/search?query=word")).json()["found"]) == SESSIONS

        for _ in range(4):  # many at once: so all threads that read are there
            await asyncio.gather(*(get("/api/sessions") for _ in range(AT_ONCE)))
        await load_all()  # what the first one loads stays; on a busy machine the start itself may end only now
        before = gateway.memory
        for _ in range(5):  # one load after another, each by the thread that has waited longest
            await load_all()
        assert gateway.memory - before < MOST
