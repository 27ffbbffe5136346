"""Nodes behind a proxy of `deploy/cluster/`, with clients that never try twice, while the nodes are restarted."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx2
from msgspec import Struct

from handspan.client import Client
from handspan.core.values import Json, JsonObject
from tests.deploy.test_balancing import start
from tests.deploy.test_nginx import answers, free_port
from tests.nodes.gateways import LONG_LEASE, PATIENT, ThreeNodes, listed, open_nodes
from tests.waiting import WAIT, until

TOKEN: Final = "of-all-nodes-0123456789abcdef0123456789"
HOST: Final = "hands.example.com"
_CALL: Final[tuple[str, JsonObject]] = ("/api/tools/find_files/call", {"args": {"pattern": "*"}})
_MESSAGES: Final[Json] = [{"role": "user", "content": [{"type": "text", "text": "hello"}]}]
_TURN: Final[tuple[str, JsonObject]] = ("/v1/graph/invoke", {"messages": _MESSAGES})

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
async def proxied(command: Command, file: str, folder: Path, port: int, nodes: ThreeNodes) -> AsyncIterator[str]:
    """The address of a proxy in front of the nodes, at this port."""
    places = [Place(int(node.url.rpartition(":")[2])) for node in nodes.nodes]
    folders = dict.fromkeys(("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"), str(folder))
    process = start(command(file, folder, port, places), {**os.environ, **folders})
    try:
        await until(lambda: answers(port) or process.poll() is not None)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait, WAIT)


@asynccontextmanager
async def devices(url: str, labels: list[str]) -> AsyncIterator[None]:
    """Devices of the SDK that are connected through the proxy, each with a tool `work`."""
    async with AsyncExitStack() as stack:
        for label in labels:
            device = Client(url, TOKEN, label=label)

            @device.tool
            async def work() -> str:
                """Do something."""
                return "done"

            await stack.enter_async_context(device)
        yield


async def roll(folder: Path, command: Command, file: str, rounds: int, calls: int, phones: int) -> Callers:
    """Restart every node this often, one after the other, while clients call. Return what the clients saw.

    Each stop and each start is followed by so many `calls`. `phones`: devices, which have to move at each stop.
    """
    port = free_port()
    hosts: Json = [HOST, "127.0.0.1", f"127.0.0.1:{port}"]  # the devices know no name; a proxy may omit the port
    settings: JsonObject = {"cluster__lease": LONG_LEASE, "cluster__operator_token": TOKEN, "gateway__hosts": hosts}
    proxy = folder / "proxy"
    proxy.mkdir(parents=True)
    labels = [f"phone{number}" for number in range(phones)]
    async with open_nodes(folder, 3, **settings) as nodes, proxied(command, file, proxy, port, nodes) as url:
        callers = Callers(url, TOKEN)
        of_devices: list[tuple[str, JsonObject]] = [(f"/api/tools/{one}__work/call", {"args": {}}) for one in labels]
        async with devices(url, labels):
            await listed(nodes, *(f"{label}__work" for label in labels))
            async with callers.at_work(_CALL, _CALL, _TURN, *of_devices):
                for node in nodes.nodes * rounds:
                    await callers.ask_more(calls)
                    assert await node.terminate(PATIENT) == 0
                    await callers.ask_more(calls)
                    await node.start()
        log = proxy / "error.log"
        if callers.failed and log.exists():
            callers.failed.append(log.read_text(encoding="utf-8"))
        return callers
