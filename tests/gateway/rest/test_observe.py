"""Live updates and metrics over REST."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from handspan.core.principals import OPERATOR
from handspan.gateway.http.routing import PRIVATE
from handspan.gateway.http.streams import EVENTS, StreamedResponse
from handspan.gateway.live import Live
from handspan.gateway.rest.observe import LiveUpdates
from tests.gateway.rest.served import Rest, RestClient, is_error

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def listening(client: RestClient, token: str | None = None) -> AsyncIterator[AsyncIterator[str]]:
    headers = {"authorization": f"Bearer {token or client.rest.owner_token}"}
    async with (
        asyncio.timeout(60),
        client.http.stream("GET", f"{client.url}/api/live", headers=headers) as answer,
    ):
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.aiter_lines()
        assert [await anext(lines) for _ in range(3)] == ["event: ready", "data: {}", ""]
        yield lines


async def test_changes_made_over_rest_are_heard_by_the_owners_other_fronts(client: RestClient) -> None:
    async with listening(client) as lines:
        await client.stranger("POST", "/api/sessions", {})
        session = (await client.post("/api/sessions", {})).json()["session_id"]
        heard = [await anext(lines) for _ in range(4)]
    assert heard == ["id: 1", "event: sessions", f'data: {{"session_id":"{session}","change":"created"}}', ""]


async def test_a_switch_is_heard_by_everybody(client: RestClient, rest: Rest) -> None:
    async with listening(client, rest.stranger_token) as lines:
        await client.post("/api/switches/disable", {"pattern": "spawn"})
        assert [await anext(lines) for _ in range(3)][1:] == ["event: tools", 'data: {"switched":"spawn"}']


async def test_a_revoked_token_hears_nothing_more(client: RestClient, rest: Rest) -> None:
    token = await rest.parts.auth.issue(OPERATOR.owner, ("chat",), "listener")
    async with listening(client, token) as lines:
        listed = (await client.get("/api/tokens")).json()["tokens"]
        found = next(one["id"] for one in listed if one["label"] == "listener")
        await client.ask("DELETE", f"/api/tokens/{found}")
        assert [line async for line in lines] == []
    assert len(rest.parts.live) == 0


async def test_the_end_of_the_gateway_ends_the_stream(client: RestClient, rest: Rest) -> None:
    async with listening(client) as lines:
        await rest.state.drain(0)
        assert [line async for line in lines] == []
    assert is_error(await client.get("/api/live"), 429, "too_many_streams")


async def test_a_client_that_goes_is_forgotten(client: RestClient, rest: Rest) -> None:
    async with listening(client):
        assert len(rest.parts.live) == 1
    async with asyncio.timeout(60):
        while len(rest.parts.live):
            await asyncio.sleep(0.01)


async def test_one_owner_has_so_many_streams_and_no_more(client: RestClient, rest: Rest) -> None:
    rest.parts.live._max_of_one_owner = 1
    async with listening(client):
        assert is_error(await client.get("/api/live"), 429, "too_many_streams")
        async with listening(client, rest.stranger_token):
            pass


async def test_a_head_request_opens_no_stream(client: RestClient, rest: Rest) -> None:
    async with asyncio.timeout(60):
        assert (await client.ask("HEAD", "/api/live")).status_code == 200
    assert len(rest.parts.live) == 0


class Wire:
    """An ASGI server's two ends, of which one may be stuck."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.may_send = asyncio.Event()
        self.may_send.set()
        self.arrived = asyncio.Event()

    async def receive(self) -> dict[str, str]:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(self, message: object) -> None:
        await self.may_send.wait()
        assert isinstance(message, dict)
        self.sent.append(message.get("body", b""))
        self.arrived.set()


async def test_silence_is_filled_with_heartbeats() -> None:
    live, wire = Live(), Wire()
    stream = live.subscribe("me")
    answer = StreamedResponse(LiveUpdates(stream), EVENTS, PRIVATE, heartbeat=0.01)
    task = asyncio.create_task(answer({"method": "GET"}, wire.receive, wire.send))
    async with asyncio.timeout(60):
        while b": still here\n\n" not in wire.sent:
            wire.arrived.clear()
            await wire.arrived.wait()
        live.close()
        await task
    assert wire.sent[-1] == b""


async def test_a_client_that_does_not_read_is_given_up() -> None:
    live, wire = Live(backlog=2), Wire()
    stream = live.subscribe("me")
    answer = StreamedResponse(LiveUpdates(stream), EVENTS, PRIVATE, piece_seconds=0.01)
    task = asyncio.create_task(answer({"method": "GET"}, wire.receive, wire.send))
    async with asyncio.timeout(60):
        while len(wire.sent) < 2:
            await asyncio.sleep(0)
        wire.may_send.clear()
        live.publish("me", "calls", 1)
        await task
    assert stream.is_over and len(live) == 0


async def test_metrics_need_a_token_and_are_text(client: RestClient) -> None:
    answer = await client.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "handspan_build_info" in answer.text
    assert (await client.get("/metrics", token="")).status_code == 401
