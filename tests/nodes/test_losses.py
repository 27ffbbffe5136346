"""Messages between nodes are lost and doubled: every call has one result, and nothing runs twice (SPEC K2, K3)."""

import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2
import pytest

from handspan.client import Client
from handspan.gateway.gateway import Gateway
from handspan.testing.gateway import running_gateway
from tests.nats_engine import NatsEngine, need_server
from tests.postgres_engine import HOW_TO_INSTALL, find_programs, schema_url
from tests.thoroughness import IS_DEEP
from tests.waiting import WAIT, soon, until

pytestmark = pytest.mark.anyio

CALLS = 200 if IS_DEEP else 40
LOST = DOUBLED = 0.3


def disturb(gateway: Gateway, chance: random.Random) -> None:
    """Lose 30 % of what this node sends, and send 30 % twice."""
    assert gateway.cluster is not None
    send = gateway.cluster.link.publish

    def publish(subject: str, body: bytes) -> None:
        for _ in range(0 if (drawn := chance.random()) < LOST else 2 if drawn < LOST + DOUBLED else 1):
            send(subject, body)

    gateway.cluster.link.publish = publish  # type: ignore[method-assign] # the wire of this test


async def call(requests: httpx2.AsyncClient, number: int) -> Any:
    """The result of one call."""
    path, headers = "/api/tools/phone__count/call", {"Idempotency-Key": f"call-{number}"}
    while True:  # a call that takes longer than a request is asked for again under its key
        answer = await requests.post(path, json={"args": {"number": number}}, headers=headers)
        if answer.status_code == 200:
            return answer.json()


async def test_every_call_has_one_result_and_runs_once_when_messages_are_lost_and_doubled(tmp_path: Path) -> None:
    need_server()
    if find_programs() is None:
        pytest.skip(HOW_TO_INSTALL)
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")  # noqa: T201 - shown when the test fails
    ran: Counter[int] = Counter()
    with NatsEngine() as nats:
        settings: dict[str, Any] = {
            "store": {"url": schema_url(tmp_path), "timeout": 30},
            "cluster": {"url": nats.url},
        }
        async with (
            running_gateway(tmp_path / "one", **settings) as owner,
            running_gateway(tmp_path / "two", **settings) as caller,
        ):
            client = Client(owner.url, owner.token, label="phone", role="device", concurrency=16)

            @client.tool
            async def count(number: int) -> int:
                """Count a call."""
                ran[number] += 1
                await asyncio.sleep(0)
                return number

            running = asyncio.create_task(client.run())
            try:
                await soon(client.connected())
                for node in (owner, caller):
                    disturb(node.gateway, random.Random(seed))
                headers = {"Authorization": f"Bearer {caller.token}"}
                async with httpx2.AsyncClient(base_url=caller.url, headers=headers, timeout=WAIT) as requests:

                    async def is_listed() -> bool:
                        tools = (await requests.get("/api/tools")).json()["tools"]
                        return any(tool["name"] == "phone__count" for tool in tools)

                    await until(is_listed)
                    answers = await soon(asyncio.gather(*(call(requests, number) for number in range(CALLS))))
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
    assert [answer["result"] for answer in answers] == list(range(CALLS))
    assert ran == Counter(range(CALLS))
