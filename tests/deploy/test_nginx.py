"""nginx with our file, in front of a real gateway: the page, REST, streams and WebSockets work over https."""

import asyncio
import os
import re
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import httpx2
import msgspec
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from handspan.testing import GatewayProcess
from tests.deploy.test_files import DEPLOY, needs, run
from tests.waiting import WAIT, soon, until

pytestmark = [pytest.mark.anyio, needs("nginx", "nginx-light"), needs("openssl", "openssl")]
NAME: Final = "hands.example.com"


class Proxy:
    """A running nginx: its port, and what its clients trust."""

    def __init__(self, port: int, trust: ssl.SSLContext, gateway: GatewayProcess) -> None:
        self.port = port
        self.trust = trust
        self.gateway = gateway
        self.origin = f"https://{NAME}:{port}"
        self.headers = {"Authorization": f"Bearer {gateway.token}", "Origin": self.origin}

    def client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            base_url=f"https://127.0.0.1:{self.port}",
            verify=self.trust,
            headers={**self.headers, "Host": f"{NAME}:{self.port}"},
            timeout=WAIT,
        )


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture
async def proxy(tmp_path: Path) -> AsyncIterator[Proxy]:
    port = free_port()
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make_certificate(certificate, key)
    environ = {"HANDSPAN_GATEWAY__HOSTS": f'["{NAME}:{port}"]'}
    async with GatewayProcess(tmp_path / "gateway", environ=environ) as gateway:
        config = tmp_path / "nginx.conf"
        config.write_text(site(tmp_path, port, gateway.url.removeprefix("http://"), certificate, key), encoding="utf-8")
        command = ["nginx", "-p", str(tmp_path), "-c", str(config), "-e", str(tmp_path / "error.log")]
        run(*command, "-t")
        process = start(*command, "-g", "daemon off;")
        try:
            await until(lambda: answers(port))
            yield Proxy(port, ssl.create_default_context(cafile=str(certificate)), gateway)
        finally:
            process.terminate()
            process.wait(WAIT)


def make_certificate(certificate: Path, key: Path) -> None:
    """A certificate for the name in our file."""
    names = f"subjectAltName=DNS:{NAME},IP:127.0.0.1"
    made = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={NAME}")
    run(*made, "-addext", names, "-out", str(certificate), "-keyout", str(key))


def start(*words: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(words, stderr=subprocess.DEVNULL)


def site(folder: Path, port: int, gateway: str, certificate: Path, key: Path) -> str:
    """Our file with another port, gateway and certificate."""
    text = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
    for pattern, new in (
        (r"listen 80;", f"listen 127.0.0.1:{free_port()};"),
        (r"listen 443 ssl;", f"listen 127.0.0.1:{port} ssl;"),
        (r"server 127\.0\.0\.1:42617;", f"server {gateway};"),
        (r"ssl_certificate \S+;", f"ssl_certificate {certificate};"),
        (r"ssl_certificate_key \S+;", f"ssl_certificate_key {key};"),
        (r"\$host;", "$http_host;"),  # the port of this test is not 443, and is part of the name
    ):
        text, count = re.subn(pattern, new.replace("\\", r"\\"), text)
        assert count, pattern
    return around(folder, text)


def around(folder: Path, text: str) -> str:
    """A site inside the least that nginx needs around it."""
    user = f"user {os.environ.get('USER', 'root')};" if os.geteuid() == 0 else ""
    paths = "".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    return f"{user} pid {folder}/nginx.pid; events {{}} http {{ {paths} {text} }}"


def answers(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


async def test_rest_streams_and_the_page_work_behind_it(proxy: Proxy) -> None:
    async with proxy.client() as client:
        page = await client.get("/")
        assert page.status_code == 200
        called = await client.post("/api/tools/get_current_time/call", json={"args": {}})
        assert called.json()["status"] == "success"
        stream = {"Accept": "text/event-stream"}
        async with client.stream("POST", "/api/tools/get_current_time/call", json={"args": {}}, headers=stream) as came:
            assert came.headers["content-type"].startswith("text/event-stream")
            assert '"status":"success"' in "".join([line async for line in came.aiter_lines()])
        foreign = await client.get("/api/tools", headers={"Origin": "https://evil.example"})
        assert foreign.status_code == 403
        unknown = await client.get("/health", headers={"Host": "evil.example"})
        assert unknown.status_code in (403, 404) or "evil" not in unknown.text


async def test_a_device_connects_through_it_and_is_called(proxy: Proxy) -> None:
    address = f"wss://127.0.0.1:{proxy.port}/ws/chat"
    options: dict[str, Any] = {"ssl": proxy.trust, "server_hostname": NAME, "proxy": None}
    with pytest.raises(InvalidStatus):
        await soon(_connect(address, {"Host": f"{NAME}:{proxy.port}"}, options))
    socket_ = await soon(_connect(address, {"Authorization": proxy.headers["Authorization"]}, options, proxy.port))
    async with socket_:
        await socket_.send(msgspec.json.encode({"type": "connect", "role": "device", "label": "phone"}).decode())
        tool = {"name": "battery", "description": "Say it.", "parameters": {"type": "object"}}
        await socket_.send(msgspec.json.encode({"type": "register_tools", "tools": [tool]}).decode())
        async with proxy.client() as client, asyncio.timeout(WAIT):
            calling: asyncio.Task[Any] | None = None
            async for frame in socket_:
                told = msgspec.json.decode(frame)
                if told["type"] == "tools_registered":
                    calling = asyncio.create_task(client.post("/api/tools/phone__battery/call", json={"args": {}}))
                if told["type"] == "tool_call_request":
                    answer = {"type": "tool_result", "id": told["id"], "output": 80, "success": True}
                    await socket_.send(msgspec.json.encode(answer).decode())
                    break
            assert calling is not None and (await calling).json() == {"status": "success", "result": 80}


async def _connect(address: str, headers: dict[str, str], options: dict[str, Any], port: int = 0) -> Any:
    """A WebSocket. The name that the gateway knows is what the certificate and the Host say."""
    if port:
        address, options = address.replace("127.0.0.1", NAME, 1), {**options, "host": "127.0.0.1", "port": port}
    return await connect(address, additional_headers=headers, **options)
