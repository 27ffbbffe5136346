"""The short question that tests a model before it is stored: a budget pays it as it pays every request (SPEC L5)."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from handspan.core.budgets import CostEstimate, Reservation, to_nano
from handspan.gateway.rest import models
from handspan.models.prices import price_of
from handspan.testing.gateway import RunningGateway, running_gateway
from tests.stores import store_settings
from tests.waiting import until

pytestmark = pytest.mark.anyio
KEY = "sk-good"
INPUT = 400_000
"""Tokens of input that the server counts: each question costs more than a dollar."""


class Server:
    """A server that speaks Chat Completions and knows one key."""

    def __init__(self) -> None:
        self.requests = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next(int(line[15:]) for line in head.lower().splitlines() if line.startswith("content-length:"))
        await reader.readexactly(length)
        self.requests += 1
        choice = {"index": 0, "delta": {"content": "ready"}, "finish_reason": "stop"}
        said = {"id": "1", "choices": [choice], "usage": {"prompt_tokens": INPUT, "completion_tokens": 1}}
        body, status = f"data: {json.dumps(said)}\n\ndata: [DONE]\n\n", "200 OK\r\ncontent-type: text/event-stream"
        if f"Bearer {KEY}" not in head:
            body, status = json.dumps({"error": {"message": "Incorrect API key provided"}}), "401 Unauthorized"
        answer = f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n{body}"
        writer.write(answer.encode())
        writer.close()


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
async def address(server: Server) -> AsyncIterator[str]:
    listening = await asyncio.start_server(server.answer, "127.0.0.1", 0)
    async with listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"


@pytest.fixture
async def gateway(tmp_path: Path, state: Path) -> AsyncIterator[RunningGateway]:
    async with running_gateway(tmp_path, model="", budget={"day": 1}, store=store_settings(state)) as running:
        yield running


@pytest.fixture
async def client(gateway: RunningGateway) -> AsyncIterator[httpx2.AsyncClient]:
    headers = {"authorization": f"Bearer {gateway.token}"}
    async with httpx2.AsyncClient(base_url=gateway.url, headers=headers, timeout=60) as client:
        yield client


async def tried(client: httpx2.AsyncClient, address: str, **more: str) -> dict[str, Any]:
    """What the gateway tells about this model, which has a price, though it is at this computer."""
    body = {"api": "openai-chat", "model": "gpt-5.5", "base_url": address, "key": KEY, **more}
    told: dict[str, Any] = (await client.post("/api/models/test", json=body)).json()
    return told


async def money(client: httpx2.AsyncClient) -> tuple[float, float]:
    """What is spent, and what is reserved."""
    (day,) = (await client.get("/api/budgets")).json()["budgets"]
    return day["spent"], day["reserved"]


async def test_it_is_paid_and_refused_when_the_budget_is_spent(
    client: httpx2.AsyncClient, address: str, server: Server
) -> None:
    price = price_of("gpt-5.5")
    assert price is not None and price.input is not None and price.output is not None
    assert (await tried(client, address))["ok"]

    async def is_paid() -> bool:
        spent, reserved = await money(client)
        return spent > 1 and reserved == 0

    await until(is_paid)
    refused = await tried(client, address)
    assert not refused["ok"]
    assert refused["reason"].startswith("Of the budget of $1.00 a day $")
    assert "It is free again on 20" in refused["reason"]
    assert server.requests == 1
    assert (await client.get("/api/questions")).json()["questions"] == [], "the answer of the test is awaited"
    assert (await client.get("/api/models")).json()["models"] == []


async def test_one_that_fails_costs_nothing_and_holds_nothing(client: httpx2.AsyncClient, address: str) -> None:
    told = await tried(client, address, key="sk-wrong")
    assert not told["ok"] and "key" in told["reason"].lower()

    async def is_released() -> bool:
        return await money(client) == (0.0, 0.0)

    await until(is_released)


async def test_a_model_without_a_price_is_refused_with_the_remedy(client: httpx2.AsyncClient, server: Server) -> None:
    told = await tried(client, "https://models.example/v1", model="unheard-of")
    assert told["reason"].startswith(
        "The model 'unheard-of' has no price, and there is a budget. Set models.NAME.price"
    )
    assert server.requests == 0


async def test_one_that_waits_for_money_in_vain_says_so(
    gateway: RunningGateway, client: httpx2.AsyncClient, address: str, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = await gateway.gateway.parts.app.budgets.reserve(CostEstimate("m", to_nano(0.99), 0, 0))
    assert isinstance(held, Reservation)
    monkeypatch.setattr(models, "_TEST_SECONDS", 2.0)
    told = await tried(client, address)
    assert told["reason"].startswith("No answer within 2 s. The rest of the budget is reserved by requests that run")
    assert server.requests == 0
    gateway.gateway.parts.app.budgets.end(held, 0)
