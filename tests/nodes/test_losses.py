"""Messages between nodes are lost and doubled: every call has one result, and nothing runs twice (SPEC K2, K3)."""

import asyncio
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2
import pytest

from handspan.client import Client
from handspan.core.results import Success
from handspan.gateway.gateway import Gateway
from handspan.gateway.nodes.cluster import Cluster
from handspan.testing.gateway import running_gateway
from tests.nats_engine import NatsEngine, need_server
from tests.nodes.balancer import balanced_client
from tests.postgres_engine import HOW_TO_INSTALL, find_programs, schema_url
from tests.thoroughness import IS_DEEP
from tests.waiting import WAIT, soon, until

pytestmark = pytest.mark.anyio

CALLS = 200 if IS_DEEP else 40
LOST = DOUBLED = 0.3
MANY = range(CALLS // 2)
FEW = 5
COUNTING = Path(__file__).parents[1] / "chaos" / "nodes" / "counting_server.py"


def disturb(gateway: Gateway, chance: random.Random) -> None:
    """Lose 30 % of what this node sends, and send 30 % twice."""
    assert isinstance(gateway.parts.nodes, Cluster)
    send = gateway.parts.nodes.link.publish

    def publish(subject: str, body: bytes) -> None:
        for _ in range(0 if (drawn := chance.random()) < LOST else 2 if drawn < LOST + DOUBLED else 1):
            send(subject, body)

    gateway.parts.nodes.link.publish = publish  # type: ignore[method-assign] # the wire of this test


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


async def test_every_call_of_an_mcp_server_and_of_an_mcp_session_has_one_result_when_messages_are_lost(
    tmp_path: Path,
) -> None:
    need_server()
    if find_programs() is None:
        pytest.skip(HOW_TO_INSTALL)
    seed, log = random.randrange(1 << 32), tmp_path / "runs"
    print(f"seed {seed}")  # noqa: T201 - shown when the test fails
    args = ["-I", "-S", str(COUNTING), str(log)]
    with NatsEngine() as nats:
        settings: dict[str, Any] = {
            "store": {"url": schema_url(tmp_path), "timeout": 30},
            "cluster": {"url": nats.url},
            "tools": {"mcp_servers": {"counter": {"command": sys.executable, "args": args, "internal_only": False}}},
        }
        async with (
            running_gateway(tmp_path / "one", **settings) as first,
            running_gateway(tmp_path / "two", **settings) as second,
        ):
            both = (first, second)
            await until(lambda: all(_has_tool(node.gateway, "counter__lift") for node in both))
            for node in both:
                disturb(node.gateway, random.Random(seed))
            work = [
                node.call("counter__lift", parcel=f"{at}-{number}") for at, node in enumerate(both) for number in MANY
            ]
            results = await soon(asyncio.gather(*work))
            async with balanced_client([first.url, second.url], first.token, "legacy") as client:
                for number in MANY[:FEW]:
                    answer = await soon(client.call_tool("counter__lift", {"parcel": f"session-{number}"}))
                    assert not answer.is_error, answer
    assert [result for result in results if not isinstance(result, Success)] == []
    assert set(Counter(log.read_text().splitlines()).values()) == {1}
    assert len(log.read_text().splitlines()) == 2 * len(MANY) + FEW


def _has_tool(gateway: Gateway, name: str) -> bool:
    return gateway.parts.app.registry.holder(name) is not None
