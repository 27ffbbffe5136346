"""Models that a person adds: a key that is never shown, a test that says why not, and the choice of one."""

import asyncio
import gc
import json
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from handspan.models.http import HttpModel
from handspan.testing.gateway import running_gateway

pytestmark = pytest.mark.anyio
KEY = "sk-very-secret-0123456789"


@pytest.fixture
async def server() -> AsyncIterator[str]:
    """A server that speaks Chat Completions and knows one key."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next(int(line[15:]) for line in head.lower().splitlines() if line.startswith("content-length:"))
        await reader.readexactly(length)
        good = f"Bearer {KEY}" in head
        said = {"id": "1", "choices": [{"index": 0, "delta": {"content": "ready"}, "finish_reason": "stop"}]}
        error = {"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}}
        body = f"data: {json.dumps(said)}\n\ndata: [DONE]\n\n" if good else json.dumps(error)
        kind = "text/event-stream" if good else "application/json"
        status = "200 OK" if good else "401 Unauthorized"
        writer.write(
            f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n"
            f"connection: close\r\n\r\n{body}".encode()
        )
        writer.close()

    listening = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    async with (
        running_gateway(tmp_path, model="") as gateway,
        httpx2.AsyncClient(base_url=gateway.url, timeout=60) as client,
    ):
        client.headers["authorization"] = f"Bearer {gateway.token}"
        yield client


async def test_a_look_at_the_model_that_would_answer_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    gc.collect()
    async with running_gateway(tmp_path, model="") as gateway, httpx2.AsyncClient(base_url=gateway.url) as client:
        for _ in range(20):
            headers = {"authorization": f"Bearer {gateway.token}"}
            answer = await client.get("/api/models/which?at_once=true", headers=headers)
            assert answer.status_code == 200, answer.text
        gc.collect()
        assert sum(isinstance(found, HttpModel) for found in gc.get_objects()) < 10


def model(server: str, **more: str) -> dict[str, str]:
    return {"api": "custom", "model": "tiny", "base_url": server, **more}


async def test_a_wrong_key_is_told_at_once_and_nothing_is_stored(client: httpx2.AsyncClient, server: str) -> None:
    tried = (await client.post("/api/models/test", json=model(server, key="sk-wrong"))).json()
    assert not tried["ok"]
    assert "key" in tried["reason"].lower()
    assert (await client.get("/api/models")).json()["models"] == []


async def test_a_missing_variable_is_named(client: httpx2.AsyncClient, server: str) -> None:
    tried = (await client.post("/api/models/test", json=model(server, key_variable="NO_SUCH_KEY"))).json()
    assert not tried["ok"]
    assert "'NO_SUCH_KEY' is not set" in tried["reason"]


async def test_a_stored_key_answers_is_private_and_is_never_shown(
    client: httpx2.AsyncClient, server: str, tmp_path: Path
) -> None:
    assert (await client.post("/api/models/test", json=model(server, key=KEY))).json()["ok"]
    added = await client.put("/api/models/mine", json=model(server, key=KEY))
    chosen = await client.post("/api/models/use", json={"model": "mine"})
    assert (chosen.json()["model"], chosen.json()["why"]) == (
        "mine",
        "mine, because it was chosen on the page or by `handspan model use`; with `auto` that takes it back.",
    )
    listed = await client.get("/api/models")
    assert listed.json()["listed"][0]["key"] == "stored"
    shown = [added, chosen, listed, await client.get("/api/settings"), await client.get("/api/status")]
    assert not any(KEY in answer.text for answer in shown)
    file = tmp_path / "state" / "models.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert (await client.get("/api/status")).json()["model"] == "mine"
    again = (await client.put("/api/models/mine", json=model(server, model="tiny-2"))).json()
    assert again["listed"][0]["key"] == "stored", "an empty key keeps the stored one"
    slashed = (await client.put("/api/models/mine", json=model(f"{server}/"))).json()
    assert slashed["listed"][0]["key"] == "stored", "the address with a slash at its end is the same server"
    assert (await client.delete("/api/models/mine")).status_code == 200
    assert KEY not in file.read_text()
    assert (await client.get("/api/status")).json()["model"] != "mine"


async def test_a_key_does_not_follow_to_another_server(client: httpx2.AsyncClient, server: str) -> None:
    await client.put("/api/models/mine", json=model(server, key=KEY))
    moved = (await client.put("/api/models/mine", json=model("http://127.0.0.1:9/v1"))).json()
    assert moved["listed"][0]["key"] == "none"


async def test_a_client_without_admin_changes_nothing(client: httpx2.AsyncClient, server: str) -> None:
    made = (await client.post("/api/tokens", json={"scopes": ["chat"]})).json()
    chat = {"authorization": f"Bearer {made['token']}"}
    assert (await client.put("/api/models/mine", json=model(server), headers=chat)).status_code == 403
    assert (await client.post("/api/models/use", json={"model": "offline"}, headers=chat)).status_code == 403
    assert (await client.get("/api/models", headers=chat)).status_code == 200


@pytest.mark.parametrize("wrong", [{"key": "file:/etc/passwd"}, {"key": "env:HOME"}, {"base_url": "ftp://x"}])
async def test_a_key_is_a_key_and_an_address_is_an_address(
    client: httpx2.AsyncClient, server: str, wrong: dict[str, str]
) -> None:
    assert (await client.put("/api/models/mine", json={**model(server), **wrong})).status_code == 409
