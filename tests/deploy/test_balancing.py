"""nginx and Caddy with the files of `deploy/cluster/`, in front of three small servers that answer as nodes do."""

import asyncio
import base64
import hashlib
import os
import re
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import httpx2
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from tests.deploy.test_cluster import read
from tests.deploy.test_files import needs
from tests.deploy.test_nginx import answers, around, free_port
from tests.waiting import WAIT, until

pytestmark = pytest.mark.anyio
_MAGIC: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class NodeDouble:
    """A server that says its name to any request and on any WebSocket, and answers 503 while it stops."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_stopping = False
        self.posts = 0
        self.port = 0
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> "NodeDouble":
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.vanish()

    def vanish(self) -> None:
        """Take no connection any more."""
        if self._server is not None:
            self._server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.posts += head.startswith("POST ")
        key = re.search(r"^sec-websocket-key: (\S+)", head, re.IGNORECASE | re.MULTILINE)
        if self.is_stopping:
            writer.write(b"HTTP/1.1 503 Stopping\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        elif key:
            await self._talk(key[1], writer, reader)
        else:
            size = len(self.name)
            writer.write(f"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {size}\r\n\r\n{self.name}".encode())
        writer.close()

    async def _talk(self, key: str, writer: asyncio.StreamWriter, reader: asyncio.StreamReader) -> None:
        accept = base64.b64encode(hashlib.sha1(key.encode() + _MAGIC).digest()).decode()
        writer.write(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Accept: {accept}\r\n\r\n".encode()
        )
        writer.write(bytes((0x81, len(self.name))) + self.name.encode())
        await reader.read(1)  # the client closes: so does the node


class Balanced:
    """Three nodes, and the proxy in front of them."""

    def __init__(self, nodes: list[NodeDouble], port: int) -> None:
        self.nodes = nodes
        self._port = port

    async def ask(self, method: str = "GET") -> str:
        """The name of the node that answered; the status where none did."""
        async with httpx2.AsyncClient(timeout=WAIT) as client:
            response = await client.request(method, f"http://127.0.0.1:{self._port}/api/tools")
        return response.text if response.status_code == 200 else str(response.status_code)

    async def talk(self) -> str:
        """The name of the node at the other end of a WebSocket."""
        async with connect(f"ws://127.0.0.1:{self._port}/ws/chat", proxy=None, open_timeout=WAIT) as socket:
            return str(await socket.recv())


def nginx_command(name: str, folder: Path, port: int, nodes: list[NodeDouble]) -> list[str]:
    """Our site without TLS, on this port, with these nodes."""
    text = re.sub(r"^ +ssl_.*\n", "", read(name), flags=re.MULTILINE)
    text = re.sub(r"listen 443 ssl;" if "443" in text else r"listen 80;", f"listen 127.0.0.1:{port};", text)
    text = text.replace("listen 80;", f"listen 127.0.0.1:{free_port()};")
    for node in nodes:
        text = re.sub(r"server (?!127\.)\S+:42617 ", f"server 127.0.0.1:{node.port} ", text, count=1)
    config = folder / "nginx.conf"
    config.write_text(around(folder, text), encoding="utf-8")
    return ["nginx", "-p", str(folder), "-c", str(config), "-e", str(folder / "error.log"), "-g", "daemon off;"]


def caddy_command(name: str, folder: Path, port: int, nodes: list[NodeDouble]) -> list[str]:
    """The same for Caddy."""
    text = read(name).replace("\nhands.example.com {", f"\nhttp://:{port} {{")
    for node in nodes:
        text = re.sub(r"10\.\d+\.\d+\.\d+:42617 ", f"127.0.0.1:{node.port} ", text, count=1)
    config = folder / "Caddyfile"
    config.write_text("{\n\tadmin off\n}\n" + text, encoding="utf-8")
    return ["caddy", "run", "--adapter", "caddyfile", "--config", str(config)]


PROXIES: Final = [
    pytest.param((nginx_command, "nginx.conf"), id="nginx", marks=needs("nginx", "nginx-light")),
    pytest.param((nginx_command, "compose/nginx.conf"), id="compose", marks=needs("nginx", "nginx-light")),
    pytest.param((caddy_command, "Caddyfile"), id="caddy", marks=needs("caddy", "caddy")),
]


@pytest.fixture(params=PROXIES)
async def balanced(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Balanced]:
    command, file = request.param
    port = free_port()
    folders = dict.fromkeys(("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"), str(tmp_path))
    async with AsyncExitStack() as stack:
        nodes = [await stack.enter_async_context(NodeDouble(name)) for name in ("one", "two", "three")]
        process = start(command(file, tmp_path, port, nodes), {**os.environ, **folders})
        try:
            await until(lambda: answers(port) or process.poll() is not None)
            assert process.poll() is None, (tmp_path / "error.log").read_text(encoding="utf-8")
            yield Balanced(nodes, port)
        finally:
            process.terminate()
            await asyncio.to_thread(process.wait, WAIT)


def start(words: list[str], environ: dict[str, str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environ)


async def names_of(ask: Callable[[], Awaitable[str]], times: int = 12) -> set[str]:
    """Who answers, asked so often."""
    return {await ask() for _ in range(times)}


async def test_requests_and_websockets_reach_every_node(balanced: Balanced) -> None:
    everyone = {node.name for node in balanced.nodes}
    seen: set[str] = set()

    async def all_were_reached(ask: Callable[[], Awaitable[str]]) -> bool:
        seen.add(await ask())
        assert seen <= everyone
        return seen == everyone

    await until(lambda: all_were_reached(balanced.ask))
    seen.clear()
    await until(lambda: all_were_reached(balanced.talk))


async def test_a_node_that_stops_gets_nothing_new(balanced: Balanced) -> None:
    balanced.nodes[0].is_stopping = True
    others = {node.name for node in balanced.nodes[1:]}

    async def only_others_answer() -> bool:
        return await names_of(balanced.ask) <= others

    async def only_others_talk() -> bool:
        """A proxy notices it at its next look at the node; until then the node refuses."""
        try:
            return await names_of(balanced.talk, 4) <= others
        except InvalidStatus:
            return False

    await until(only_others_answer)
    await until(only_others_talk)


async def test_a_post_is_sent_to_one_node_alone(balanced: Balanced) -> None:
    for node in balanced.nodes:
        node.is_stopping = True
    answered = await balanced.ask("POST")
    assert answered in ("502", "503") and sum(node.posts for node in balanced.nodes) <= 1


async def test_a_node_that_is_gone_is_passed_over(balanced: Balanced) -> None:
    balanced.nodes[1].vanish()
    others = {"one", "three"}
    assert await names_of(balanced.ask) <= others and await names_of(balanced.talk, 4) <= others
    assert await names_of(lambda: balanced.ask("POST"), 4) <= others
