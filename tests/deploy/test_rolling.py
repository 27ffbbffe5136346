"""Nodes are restarted one after the other behind the proxies of `deploy/cluster/`: no request fails (SPEC K6)."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
from msgspec import Struct

from handspan.core.values import Json, JsonObject
from tests.deploy.test_balancing import caddy_command, nginx_command, start
from tests.deploy.test_files import needs
from tests.deploy.test_nginx import answers, free_port
from tests.nodes.gateways import LONG_LEASE, PATIENT, ThreeNodes, open_nodes
from tests.waiting import WAIT, until

pytestmark = pytest.mark.anyio
TOKEN: Final = "of-all-nodes-0123456789abcdef0123456789"
HOST: Final = "hands.example.com"
CALLS: Final = 30
"""Requests that are answered while a node is restarted; more of them are in `tests/chaos`."""

Command = Callable[[str, Path, int, list[Any]], list[str]]


class Place(Struct, frozen=True):
    """Where a node listens, for the commands of the proxies."""

    port: int


class Callers:
    """Clients that ask again and again, and never try a request a second time."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {token}", "Host": HOST}
        self.done = 0
        self.failed: list[str] = []

    async def ask_more(self, count: int) -> None:
        """Wait until so many more requests are over."""
        before = self.done
        await until(lambda: self.done >= before + count)

    @asynccontextmanager
    async def at_work(self, *requests: tuple[str, JsonObject]) -> AsyncIterator[None]:
        """Ask until the block ends: one client for each request, which is sent again after each answer."""
        asking = [asyncio.create_task(self._ask(path, body)) for path, body in requests]
        try:
            yield
        finally:
            for one in asking:
                one.cancel()
            await asyncio.gather(*asking, return_exceptions=True)

    async def _ask(self, path: str, body: JsonObject) -> None:
        async with httpx2.AsyncClient(timeout=WAIT, headers=self._headers) as client:
            while True:
                try:
                    response = await client.post(self._url + path, json=body)
                    is_good = response.status_code == 200 and response.json().get("status") != "error"
                    self.failed += [] if is_good else [f"{path}: {response.status_code} {response.text[:200]}"]
                except httpx2.HTTPError as error:
                    self.failed.append(f"{path}: {error!r}")
                self.done += 1


@asynccontextmanager
async def proxied(command: Command, file: str, folder: Path, nodes: ThreeNodes) -> AsyncIterator[str]:
    """The address of a proxy in front of the nodes."""
    port = free_port()
    places = [Place(int(node.url.rpartition(":")[2])) for node in nodes.nodes]
    folders = dict.fromkeys(("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"), str(folder))
    process = start(command(file, folder, port, places), {**os.environ, **folders})
    try:
        await until(lambda: answers(port) or process.poll() is not None)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait, WAIT)


@pytest.mark.parametrize(
    ("command", "file"),
    [
        pytest.param(nginx_command, "nginx.conf", id="nginx", marks=needs("nginx", "nginx-light")),
        pytest.param(caddy_command, "Caddyfile", id="caddy", marks=needs("caddy", "caddy")),
    ],
)
async def test_no_request_fails_while_a_node_stops_behind_our_proxies(
    tmp_path: Path, command: Command, file: str
) -> None:
    settings: JsonObject = {"cluster__lease": LONG_LEASE, "cluster__operator_token": TOKEN, "gateway__hosts": [HOST]}
    async with open_nodes(tmp_path, 3, **settings) as nodes:
        proxy = tmp_path / "proxy"
        proxy.mkdir()
        async with proxied(command, file, proxy, nodes) as url:
            callers = Callers(url, TOKEN)
            call: tuple[str, JsonObject] = ("/api/tools/find_files/call", {"args": {"pattern": "*"}})
            messages: Json = [{"role": "user", "content": [{"type": "text", "text": "hello"}]}]
            turn: tuple[str, JsonObject] = ("/v1/graph/invoke", {"messages": messages})
            async with callers.at_work(call, call, turn):
                for node in nodes.nodes:
                    await callers.ask_more(CALLS)
                    assert await node.terminate(PATIENT) == 0
                    await callers.ask_more(CALLS)
                    await node.start()
            log = proxy / "error.log"
            assert callers.failed == [], log.read_text() if log.exists() else ""
