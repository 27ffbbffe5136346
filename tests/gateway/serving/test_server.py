"""The server as clients see it: real sockets, raw requests, real signals (SPEC G3, S5)."""

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from handspan.config.gateway_settings import ConnectionLimits, GatewaySettings, RemoteLimits
from handspan.core.errors import ConfigError
from handspan.gateway.serving.listening import listen, url_for_others, url_of
from handspan.gateway.serving.server import Server, find_uvloop
from tests.gateway.small_gateway import SmallGateway
from tests.waiting import WAIT

pytestmark = pytest.mark.anyio

BOTH_LOOPS = ["asyncio", pytest.param(("asyncio", {"use_uvloop": True}), id="uvloop")]


@contextlib.asynccontextmanager
async def served(state: Path, **given: Any) -> AsyncIterator[tuple[SmallGateway, Server]]:
    settings = GatewaySettings(port=0, **given)
    gateway = SmallGateway(state, settings)
    server = Server(gateway, settings)
    await asyncio.wait_for(server.open(), WAIT)
    try:
        yield gateway, server
    finally:
        await asyncio.wait_for(server.close(), WAIT)


async def ask(port: int, *lines: str, tls: ssl.SSLContext | None = None, end: bool = True) -> tuple[int, str]:
    """Status and all that comes, for a request line by line."""
    async with asyncio.timeout(WAIT):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
        try:
            close = ("Connection: close",) if end else ()
            writer.write("\r\n".join([*lines, *close, "", ""]).encode("latin-1"))
            data = (await reader.read()).decode("latin-1")
            return int(data.split()[1]) if data else 0, data
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


class TestRequests:
    async def test_a_request_with_a_foreign_host_gets_nowhere(self, tmp_path: Path) -> None:
        async with served(tmp_path / "state") as (gateway, server):
            own = f"Host: 127.0.0.1:{server.port}"
            token = f"Authorization: Bearer {gateway.auth.operator_token}"
            for lines, status in (
                (("GET /health HTTP/1.1", own), 200),
                (("GET /who HTTP/1.1", own), 401),
                (("GET /who HTTP/1.1", own, token), 200),
                (("GET /who HTTP/1.1", "Host: evil.example", token), 403),
                (("GET /health HTTP/1.1", "Host: evil.example"), 403),
                (("GET /health HTTP/1.1", f"Host: evil.example:{server.port}"), 403),
                (("GET /who HTTP/1.1", own, token, "Origin: null"), 403),
                (("GET /who HTTP/1.1", own, token, "Origin: https://evil.example"), 403),
                (("GET /who HTTP/1.1", own, token, f"Origin: http://127.0.0.1:{server.port}"), 200),
                (("GET /health HTTP/1.1", own, "Host: evil.example"), 403),
                (("GET /health HTTP/1.1",), 403),
                (("GET /health HTTP/1.0",), 403),
                (("GET http://evil.example/health HTTP/1.1", "Host: evil.example"), 403),
                (("nonsense",), 400),
            ):
                assert (await ask(server.port, *lines))[0] == status, lines

    async def test_answers_do_not_say_what_serves_them(self, tmp_path: Path) -> None:
        async with served(tmp_path / "state") as (_, server):
            _, text = await ask(server.port, "GET /health HTTP/1.1", f"Host: 127.0.0.1:{server.port}")
            head = text.partition("\r\n\r\n")[0].lower()
            assert "server:" not in head and "\r\ndate: " in head

    async def test_a_fault_of_ours_is_an_answer_without_its_story(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with served(tmp_path / "state") as (gateway, server):
            own, token = f"Host: 127.0.0.1:{server.port}", f"Authorization: Bearer {gateway.auth.operator_token}"
            status, text = await ask(server.port, "GET /fail?token=x HTTP/1.1", own, token)
            assert status == 500 and "RuntimeError" not in text
            assert (await ask(server.port, "GET /health HTTP/1.1", own))[0] == 200
        assert "a fault" in caplog.text and "token=x" not in caplog.text

    async def test_the_second_that_a_date_is_of_goes_by(self, tmp_path: Path) -> None:
        """The date of answers is kept right while the server is open."""
        async with served(tmp_path / "state") as (_, server):
            own = f"Host: 127.0.0.1:{server.port}"

            async def date() -> str:
                _, text = await ask(server.port, "GET /health HTTP/1.1", own)
                return next(line for line in text.split("\r\n") if line.lower().startswith("date:"))

            first = await date()
            async with asyncio.timeout(WAIT):
                while await date() == first:
                    await asyncio.sleep(0.05)

    async def test_below_a_prefix_everything_is_below_it(self, tmp_path: Path) -> None:
        async with served(tmp_path / "state", path_prefix="/hs") as (_, server):
            own = f"Host: 127.0.0.1:{server.port}"
            assert server.url == f"http://127.0.0.1:{server.port}/hs"
            assert (await ask(server.port, "GET /hs/health HTTP/1.1", own))[0] == 200
            assert (await ask(server.port, "GET /health HTTP/1.1", own))[0] == 404
            assert (await ask(server.port, "GET /hs/who HTTP/1.1", own))[0] == 401


class TestSockets:
    async def test_all_three_places_of_a_token_open_a_socket_and_none_shows_in_a_log(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
    ) -> None:
        caplog.set_level(logging.DEBUG)
        async with served(tmp_path / "state") as (gateway, server):
            token, url = gateway.auth.operator_token, f"ws://127.0.0.1:{server.port}/ws/chat"
            more: list[tuple[str, dict[str, Any]]] = [
                (url, {"additional_headers": {"Authorization": f"Bearer {token}"}}),
                (url, {"subprotocols": [f"bearer.{token}"]}),
                (f"{url}?session_id=x&token={token}", {}),
            ]
            for address, given in more:
                async with asyncio.timeout(WAIT), connect(address, proxy=None, **given) as client:
                    await client.send("hello")
                    assert await client.recv() == "hello"
                    assert client.subprotocol is None
            for address, status in ((url, 401), (f"{url}?token=wrongsecret", 401)):
                with pytest.raises(InvalidStatus) as refused:
                    async with asyncio.timeout(WAIT), connect(address, proxy=None):
                        pass
                assert refused.value.response.status_code == status
                assert refused.value.response.body and b'"code":"unauthorized"' in refused.value.response.body
            await ask(server.port, f"GET /who?token={token} HTTP/1.1", f"Host: 127.0.0.1:{server.port}")
            await ask(server.port, f"BAD\x01 /who?token={token} HTTP/1.1", f"Host: 127.0.0.1:{server.port}")
        ours = [record.getMessage() for record in caplog.records if not record.name.startswith("websockets.client")]
        written = "\n".join([*ours, *capfd.readouterr()])
        assert token not in written and "wrongsecret" not in written

    @pytest.mark.parametrize(
        ("headers", "status"),
        [
            ({"Host": "evil.example"}, 403),
            ({"Origin": "https://evil.example"}, 403),
            ({"Origin": "null"}, 403),
        ],
    )
    async def test_a_page_of_somebody_else_opens_none(
        self, tmp_path: Path, headers: dict[str, str], status: int
    ) -> None:
        async with served(tmp_path / "state") as (gateway, server):
            lines = {
                "Host": f"127.0.0.1:{server.port}",
                "Upgrade": "websocket",
                "Connection": "Upgrade",
                "Sec-WebSocket-Version": "13",
                "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
                "Authorization": f"Bearer {gateway.auth.operator_token}",
            } | headers
            asked = [f"{name}: {value}" for name, value in lines.items()]
            assert (await ask(server.port, "GET /ws/chat HTTP/1.1", *asked, end=False))[0] == status

    async def test_a_message_beyond_the_limit_of_the_settings_closes_with_1009(self, tmp_path: Path) -> None:
        limits = RemoteLimits(message_bytes=2048)
        async with served(tmp_path / "state", limits=limits) as (gateway, server):
            url = f"ws://127.0.0.1:{server.port}/ws/chat?token={gateway.auth.operator_token}"
            async with asyncio.timeout(WAIT), connect(url, proxy=None) as client:
                await client.send("x" * 2000)
                assert await client.recv() == "x" * 2000
                await client.send("x" * 3000)
                with pytest.raises(ConnectionClosed) as closed:
                    await client.recv()
                assert closed.value.rcvd is not None and closed.value.rcvd.code == 1009

    async def test_when_the_server_goes_clients_are_told_to_come_back(self, tmp_path: Path) -> None:
        async with served(tmp_path / "state") as (gateway, server):
            url = f"ws://127.0.0.1:{server.port}/ws/chat?token={gateway.auth.operator_token}"
            async with asyncio.timeout(WAIT), connect(url, proxy=None) as client:
                await server.close()
                with pytest.raises(ConnectionClosed) as closed:
                    await client.recv()
                assert closed.value.rcvd is not None and closed.value.rcvd.code == 1012
            with pytest.raises(OSError, match="Connect call failed"):
                await asyncio.open_connection("127.0.0.1", server.port)
            assert gateway.story[:3] == ["open", "drain", "close"]


class TestEnding:
    async def test_answers_that_are_under_way_end_when_work_drains(self, tmp_path: Path) -> None:
        async with served(tmp_path / "state") as (gateway, server):
            token = f"Authorization: Bearer {gateway.auth.operator_token}"
            own = f"Host: 127.0.0.1:{server.port}"
            working = asyncio.create_task(ask(server.port, "GET /work HTTP/1.1", own, token))
            async with asyncio.timeout(WAIT):
                while not _asked(server):
                    await asyncio.sleep(0.01)
            await asyncio.wait_for(server.close(5.0), WAIT)
            assert (await asyncio.wait_for(working, WAIT))[1].endswith("done")

    async def test_answers_that_never_end_are_cut_off(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        async with served(tmp_path / "state") as (gateway, server):
            token = f"Authorization: Bearer {gateway.auth.operator_token}"
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(f"GET /hang HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n{token}\r\n\r\n".encode())
            await asyncio.wait_for(reader.readuntil(b"begun"), WAIT)
            await asyncio.wait_for(server.close(), WAIT)
            with contextlib.suppress(ConnectionResetError):
                await asyncio.wait_for(reader.read(), WAIT)
            assert reader.at_eof() or reader.exception() is not None
            writer.close()
            assert not _asked(server)
        assert "Traceback" not in caplog.text

    async def test_work_that_does_not_end_is_not_waited_for(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        settings = GatewaySettings(port=0)
        gateway = SmallGateway(tmp_path / "state", settings, "--hang")
        server = Server(gateway, settings)
        await server.open()
        await asyncio.wait_for(server.close(0.0), WAIT)
        assert gateway.story == ["open", "drain", "close"]
        assert "did not end within" in caplog.text


def _asked(server: Server) -> bool:
    """Whether a request is being answered."""
    return bool(server._state and server._state.tasks)


class TestWhatCannotBeListenedOn:
    async def test_a_port_in_use_is_an_error_with_a_remedy_and_nothing_is_opened(self, tmp_path: Path) -> None:
        async with served(tmp_path / "state") as (_, server):
            settings = GatewaySettings(port=server.port)
            second = SmallGateway(tmp_path / "other", settings)
            with pytest.raises(
                ConfigError, match=rf"another program listens on 127.0.0.1 port {server.port}.*--port 0"
            ):
                await Server(second, settings).open()
            assert second.story == []

    @pytest.mark.parametrize(
        ("host", "problem"),
        [
            ("192.0.2.1", "'192.0.2.1' is not an address of this computer"),
            ("no such host", "'no such host' is no address of this computer"),
        ],
    )
    def test_an_address_that_is_not_ours_is_an_error_with_a_remedy(self, host: str, problem: str) -> None:
        with pytest.raises(ConfigError, match=rf"gateway.host: {problem}.*Use '127.0.0.1'"):
            listen(GatewaySettings(host=host, port=0))

    async def test_a_gateway_that_cannot_be_opened_lets_the_port_go(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        settings = GatewaySettings(port=_free_port())
        with pytest.raises(Exception, match="can't be"):
            await Server(SmallGateway(tmp_path / "file", settings), settings).open()
        for bound in listen(settings):
            bound.close()

    async def test_a_server_that_cannot_start_closes_what_it_opened(self, tmp_path: Path) -> None:
        settings = GatewaySettings(port=_free_port())
        gateway = SmallGateway(tmp_path / "state", settings)
        del gateway.asgi  # nothing is left that could be served
        with pytest.raises(AttributeError):
            await Server(gateway, settings).open()
        assert gateway.story == ["open", "close"]
        for bound in listen(settings):
            bound.close()

    def test_localhost_is_listened_on_at_one_port_for_all_its_addresses(self) -> None:
        sockets = listen(GatewaySettings(host="localhost", port=0))
        try:
            assert len({bound.getsockname()[1] for bound in sockets}) == 1
        finally:
            for bound in sockets:
                bound.close()

    @pytest.mark.parametrize("content", [None, b"", b"no certificate"])
    async def test_a_certificate_that_cannot_be_used_is_an_error_with_a_remedy(
        self, tmp_path: Path, content: bytes | None
    ) -> None:
        file = tmp_path / "cert.pem"
        if content is not None:
            file.write_bytes(content)
        settings = GatewaySettings(port=0, tls_cert=file)
        gateway = SmallGateway(tmp_path / "state", settings)
        with pytest.raises(ConfigError, match=r"gateway.tls_cert.*cert.pem.*(Name a PEM file|have to be PEM)"):
            await Server(gateway, settings).open()
        assert gateway.story == []


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl binary to make a certificate")
class TestTls:
    @pytest.fixture
    def files(self, tmp_path: Path) -> tuple[Path, Path]:
        cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
        _certificate(cert, key)
        return cert, key

    async def test_with_a_certificate_it_speaks_https(self, tmp_path: Path, files: tuple[Path, Path]) -> None:
        cert, key = files
        async with served(tmp_path / "state", tls_cert=cert, tls_key=key) as (gateway, server):
            trusting = ssl.create_default_context(cafile=str(cert))
            own, token = f"Host: 127.0.0.1:{server.port}", f"Authorization: Bearer {gateway.auth.operator_token}"
            assert server.url == f"https://127.0.0.1:{server.port}"
            assert (await ask(server.port, "GET /who HTTP/1.1", own, token, tls=trusting))[0] == 200
            plain = f"Origin: http://127.0.0.1:{server.port}"
            assert (await ask(server.port, "GET /who HTTP/1.1", own, token, plain, tls=trusting))[0] == 403
            url = f"wss://127.0.0.1:{server.port}/ws/chat?token={gateway.auth.operator_token}"
            async with asyncio.timeout(WAIT), connect(url, proxy=None, ssl=trusting) as client:
                await client.send("hello")
                assert await client.recv() == "hello"

    @pytest.mark.parametrize("anyio_backend", BOTH_LOOPS)
    @pytest.mark.parametrize("junk", [b"", b"GET / HTTP/1.1\r\n\r\n"], ids=["silent", "no TLS"])
    async def test_handshakes_that_never_end_lock_no_client_out(
        self, tmp_path: Path, files: tuple[Path, Path], junk: bytes
    ) -> None:
        cert, key = files
        limits = ConnectionLimits(most=4, head_seconds=WAIT)
        async with served(tmp_path / "state", tls_cert=cert, tls_key=key, connections=limits) as (_, server):
            trusting = ssl.create_default_context(cafile=str(cert))
            sockets = []
            try:
                for _ in range(12):
                    sockets.append(await asyncio.open_connection("127.0.0.1", server.port))
                    sockets[-1][1].write(junk)
                own = f"Host: 127.0.0.1:{server.port}"
                assert (await ask(server.port, "GET /health HTTP/1.1", own, tls=trusting))[0] == 200
                ends = [asyncio.ensure_future(reader.read()) for reader, _ in sockets]
                async with asyncio.timeout(WAIT):
                    for end in ends[:8]:  # the oldest ones had to make room
                        await asyncio.gather(end, return_exceptions=True)
            finally:
                for _, writer in sockets:
                    writer.close()
            await asyncio.wait(ends, timeout=WAIT)

    @pytest.mark.parametrize("anyio_backend", BOTH_LOOPS)
    async def test_a_request_that_comes_together_with_the_end_of_the_handshake_is_answered(
        self, tmp_path: Path, files: tuple[Path, Path]
    ) -> None:
        cert, key = files
        async with served(tmp_path / "state", tls_cert=cert, tls_key=key) as (_, server):
            request = f"GET /health HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nConnection: close\r\n\r\n".encode()
            heard = await asyncio.to_thread(_ask_in_one_packet, server.port, cert, request)
            assert heard.startswith(b"HTTP/1.1 200")

    async def test_a_key_of_another_certificate_or_with_a_password_is_an_error(
        self, tmp_path: Path, files: tuple[Path, Path]
    ) -> None:
        other, locked = tmp_path / "other.pem", tmp_path / "locked.pem"
        _certificate(tmp_path / "x.pem", other)
        _certificate(tmp_path / "y.pem", locked, password="secret")
        for key in (other, locked):
            settings = GatewaySettings(port=0, tls_cert=files[0], tls_key=key)
            with pytest.raises(ConfigError, match="belong together, and the key must have no password"):
                await Server(SmallGateway(tmp_path / "state", settings), settings).open()


def _ask_in_one_packet(port: int, cert: Path, request: bytes) -> bytes:
    """The answer to a request that is sent in one write with the client's last bytes of the handshake."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = ssl.create_default_context(cafile=str(cert)).wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT) as link:
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                link.sendall(outgoing.read())
                incoming.write(link.recv(65536))
        tls.write(request)
        link.sendall(outgoing.read())
        while True:
            try:
                return tls.read(65536)
            except ssl.SSLWantReadError:
                incoming.write(link.recv(65536))


def _certificate(cert: Path, key: Path, password: str = "") -> None:
    """A certificate for 127.0.0.1 that signs itself."""
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-days", "2"]
    names = ["-subj", "/CN=handspan test", "-addext", "subjectAltName=IP:127.0.0.1"]
    lock = ["-passout", f"pass:{password}"] if password else ["-nodes"]
    files = ["-keyout", str(key), "-out", str(cert)]
    subprocess.run(["openssl", "req", "-x509", *kind, *names, *lock, *files], check=True, capture_output=True)


class Running:
    """The small gateway in a process of its own."""

    def __init__(self, state: Path, *words: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.gateway.small_gateway", str(state), *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        if "--never-open" not in words:
            self.url, self.token = said.split()
            self.port = int(self.url.rpartition(":")[2])

    def end(self, *signals: signal.Signals) -> tuple[int, str]:
        """The exit code and what was logged."""
        for number in signals:
            os.kill(self.process.pid, number)
        _, logged = self.process.communicate(timeout=WAIT)
        return self.process.returncode, logged


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    started: list[Running] = []

    def begin(*words: str) -> Running:
        started.append(Running(tmp_path / "state", *words))
        return started[-1]

    yield begin
    for running in started:
        running.process.kill()
        running.process.communicate()


class TestSignals:
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    async def test_the_first_signal_ends_in_order_with_0(self, start: Any, number: signal.Signals) -> None:
        running = start()
        url = f"ws://127.0.0.1:{running.port}/ws/chat?token={running.token}"
        async with asyncio.timeout(WAIT), connect(url, proxy=None) as client:
            own, token = f"Host: 127.0.0.1:{running.port}", f"Authorization: Bearer {running.token}"
            working = asyncio.create_task(ask(running.port, "GET /work HTTP/1.1", own, token))
            await client.send("hello")
            assert await client.recv() == "hello"
            while (await ask(running.port, "GET /health HTTP/1.1", own))[0] != 200:
                await asyncio.sleep(0.01)
            code, logged = await asyncio.to_thread(running.end, number)
            assert (await working)[1].endswith("done")
            with pytest.raises(ConnectionClosed) as closed:
                await client.recv()
            assert closed.value.rcvd is not None and closed.value.rcvd.code == 1012
        assert code == 0
        assert "Traceback" not in logged and running.token not in logged

    def test_a_signal_while_it_opens_ends_it_in_order_with_0(self, start: Any) -> None:
        code, logged = start("--never-open").end(signal.SIGTERM)
        assert (code, "Traceback" in logged) == (0, False), logged

    def test_a_sigterm_that_comes_twice_at_once_counts_as_one(self, start: Any) -> None:
        code, logged = start("--twice").end(signal.SIGTERM)
        assert (code, "Traceback" in logged) == (0, False), logged

    async def test_a_second_signal_is_the_end_at_once(self, start: Any) -> None:
        running = start("--hang")
        os.kill(running.process.pid, signal.SIGTERM)
        async with asyncio.timeout(WAIT):  # the first one was heard when work drains
            while running.process.poll() is None:
                os.kill(running.process.pid, signal.SIGTERM)
                await asyncio.sleep(0.02)
        assert running.process.returncode == 1

    def test_uvloop_is_used_where_it_is_installed(self) -> None:
        factory = find_uvloop()
        assert factory is not None
        loop = factory()
        try:
            assert type(loop).__module__.startswith("uvloop")
        finally:
            loop.close()

    def test_without_uvloop_asyncio_serves(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "uvloop", None)
        assert find_uvloop() is None


class TestAddresses:
    @pytest.mark.parametrize(
        ("given", "url", "others"),
        [
            ({}, "http://127.0.0.1:7", None),
            ({"host": "localhost"}, "http://localhost:7", None),
            ({"host": "::1"}, "http://[::1]:7", None),
            ({"host": "box.local", "path_prefix": "/hs"}, "http://box.local:7/hs", "http://box.local:7/hs"),
            ({"tls_cert": Path("c.pem"), "host": "10.0.0.1"}, "https://10.0.0.1:7", "https://10.0.0.1:7"),
        ],
    )
    def test_the_address_is_one_that_works(self, given: dict[str, Any], url: str, others: str | None) -> None:
        settings = GatewaySettings(**given)
        assert (url_of(settings, 7), url_for_others(settings, 7)) == (url, others)

    @pytest.mark.parametrize(("host", "here"), [("0.0.0.0", "http://127.0.0.1:7"), ("::", "http://[::1]:7")])
    def test_everywhere_is_no_address(self, host: str, here: str) -> None:
        settings = GatewaySettings(host=host)
        assert url_of(settings, 7) == here
        others = url_for_others(settings, 7)
        assert others is None or ("0.0.0.0" not in others and "[::]" not in others)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
