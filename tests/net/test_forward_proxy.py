"""The forward proxy for commands: real sockets; what the URL policy refuses is not even connected to."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from handspan.net.forward_proxy import MAX_PROBLEMS, ForwardProxy, ProxyLimits
from handspan.net.guard import NetGuard
from handspan.net.policy import UrlPolicy
from tests.net.site import Answer, Site, redirect, response
from tests.net.test_tls import Certificate

pytestmark = pytest.mark.anyio

LIMIT = 30.0
ALLOWING = UrlPolicy(allowed_domains=("site.test",))


async def at_home(host: str, port: int) -> Sequence[str]:
    return ["127.0.0.1"]


class RunningProxy:
    """A running proxy and its port."""

    def __init__(self, proxy: ForwardProxy, port: int) -> None:
        self.proxy = proxy
        self.port = port

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def ask(self, request: bytes, *, is_all: bool = False) -> bytes:
        """The whole answer to these bytes. `is_all`: nothing comes after them."""
        reader, writer = await self.connect()
        writer.write(request)
        if is_all:
            writer.write_eof()
        try:
            return await asyncio.wait_for(reader.read(), LIMIT)
        except ConnectionError:
            return b""
        finally:
            writer.close()


@asynccontextmanager
async def opened(policy: UrlPolicy = ALLOWING, **limits: int) -> AsyncIterator[RunningProxy]:
    listener = socket.create_server(("127.0.0.1", 0))
    async with ForwardProxy(NetGuard(policy, resolve=at_home), ProxyLimits(**limits)) as proxy:
        port = listener.getsockname()[1]
        proxy.serve(listener)
        yield RunningProxy(proxy, port)
    with pytest.raises(OSError):
        await asyncio.open_connection("127.0.0.1", port)


def request(target: str, method: str = "GET", headers: str = "", body: bytes = b"") -> bytes:
    return f"{method} {target} HTTP/1.1\r\nHost: elsewhere.test\r\n{headers}\r\n".encode() + body


INNER = (
    "127.0.0.1",
    "localhost",
    "inner.test",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "2130706433",
    "0x7f000001",
    "0177.0.0.1",
    "127.1",
    "0",
    "127.0.0.1.",
    "%31%32%37.0.0.1",
    "site.test@127.0.0.1",
    "169.254.169.254",
    "metadata.google.internal",
    "10.0.0.1",
)


@pytest.mark.parametrize("host", INNER)
async def test_no_spelling_of_an_inner_address_is_connected_to(host: str) -> None:
    async with Site({"/": response(b"secret")}) as site, opened() as door:
        for asked in (
            request(f"http://{host}:{site.port}/"),
            request(f"{host}:{site.port}", "CONNECT"),
        ):
            answer = await door.ask(asked)
            assert answer.split()[1] in (b"400", b"403"), answer
            assert b"secret" not in answer
        assert site.connections == 0
        assert door.proxy.problems


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01hello\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: site.test\r\n\r\n",
        b"GET https://site.test/ HTTP/1.1\r\nHost: site.test\r\n\r\n",
        b"GET http://site.test/ HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET http://site.test/\x00 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"CONNECT site.test HTTP/1.1\r\nHost: " + b"a" * 300_000 + b"\r\n\r\n",
        b"CONNECT :80 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"CONNECT site.test:99999 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"",
    ],
)
async def test_what_is_no_request_for_a_proxy_reaches_no_server(garbage: bytes) -> None:
    async with Site({"/": response(b"secret")}) as site, opened() as door:
        answer = await door.ask(garbage, is_all=True)
        assert answer == b"" or answer.split()[1] == b"400"
        assert site.connections == 0


async def test_a_request_reaches_the_host_of_its_url_without_the_headers_of_the_proxy() -> None:
    async with Site({"/a": response(b"hello", headers={"X-Kept": "1", "Keep-Alive": "timeout=5"})}) as site:
        async with opened() as door:
            headers = "Proxy-Authorization: x\r\nProxy-Connection: close\r\nConnection: X-No\r\nX-No: 1\r\nX-Own: 2\r\n"
            answer = await door.ask(request(f"http://site.test:{site.port}/a?b=c", headers=headers))
            assert door.proxy.problems == []
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK") and body == b"hello"
        assert b"x-kept: 1" in head.lower() and b"connection: close" in head.lower() and b"timeout=5" not in head
        seen = site.seen[0]
        assert (seen.method, seen.target, seen.headers["host"]) == ("GET", "/a?b=c", f"site.test:{site.port}")
        assert seen.headers["x-own"] == "2"
        assert not {"proxy-authorization", "proxy-connection", "x-no"} & set(seen.headers)


async def test_bodies_go_both_ways_and_an_answer_without_a_length_ends_where_it_ends() -> None:
    routes: dict[str, Answer] = {
        "/": response(b"x" * 300_000, length=False),
        "/none": response(status="204 No Content"),
    }
    async with Site(routes) as site, opened() as door:
        url = f"http://site.test:{site.port}"
        answer = await door.ask(request(f"{url}/", "POST", "Content-Length: 200000\r\n", b"y" * 200_000))
        assert answer.count(b"x") >= 300_000 and answer.endswith(b"0\r\n\r\n")
        assert len(site.seen[0].body) == 200_000
        assert (await door.ask(request(f"{url}/none", "HEAD"))).split()[1] == b"204"


async def test_a_second_request_on_the_same_connection_is_not_passed_on() -> None:
    async with Site({"/": response(b"one")}) as site, opened() as door:
        url = f"http://site.test:{site.port}/"
        answer = await door.ask(request(url) + request("http://127.0.0.1/") + request(url))
        assert answer.count(b"HTTP/1.1") == 1 and len(site.seen) == 1


async def test_a_redirect_is_answered_to_the_client_and_not_followed() -> None:
    async with Site({"/": redirect("http://127.0.0.1/secret")}) as site, opened() as door:
        answer = await door.ask(request(f"http://site.test:{site.port}/"))
        assert answer.startswith(b"HTTP/1.1 302") and len(site.seen) == 1


async def test_a_host_that_does_not_answer_properly_is_a_bad_gateway_and_told() -> None:
    async def nothing(writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with Site({"/": nothing}) as site, opened() as door:
        answer = await door.ask(request(f"http://site.test:{site.port}/"))
        assert answer.startswith(b"HTTP/1.1 502")
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    async with opened() as door:
        for _ in range(3):
            assert (await door.ask(request(f"site.test:{port}", "CONNECT"))).startswith(b"HTTP/1.1 502")
        assert len(door.proxy.problems) == 1 and "No connection to 'site.test'" in door.proxy.problems[0]
        for number in range(20):
            await door.ask(request(f"http://10.0.0.{number}/"))
        assert len(door.proxy.problems) == MAX_PROBLEMS


@pytest.mark.outside
async def test_tls_goes_through_a_tunnel_to_the_name_that_was_asked_for(tmp_path: Path) -> None:
    certificate = Certificate(tmp_path)
    async with Site({"/": response(b"hello")}, tls=certificate.server) as site, opened() as door:
        reader, writer = await door.connect()
        writer.write(request(f"site.test:{site.port}", "CONNECT"))
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        trusting = ssl.create_default_context(cafile=certificate.file)
        await writer.start_tls(trusting, server_hostname="site.test")
        writer.write(b"GET / HTTP/1.1\r\nHost: site.test\r\n\r\n")
        assert (await asyncio.wait_for(reader.read(), LIMIT)).endswith(b"hello")
        writer.close()
        assert certificate.names == ["site.test"]


@pytest.mark.parametrize("words", [b"SSH-2.0-client\r\n", b"EHLO me\r\n", b"GET / HTTP/1.1\r\n\r\n"])
async def test_a_tunnel_carries_tls_only(words: bytes) -> None:
    async with Site({"/": response(b"secret")}) as site, opened() as door:
        answer = await door.ask(request(f"site.test:{site.port}", "CONNECT", body=words))
        assert answer == b"HTTP/1.1 200 Connection established\r\n\r\n"
        assert site.seen == [] and "only TLS" in door.proxy.problems[0]


async def test_the_bytes_of_one_command_are_bounded() -> None:
    async with Site({"/": response(b"x" * 100_000)}) as site, opened(bytes=150_000) as door:
        url = f"http://site.test:{site.port}/"
        assert (await door.ask(request(url))).endswith(b"x")
        assert (await door.ask(request(url))).count(b"x") < 100_000
        assert "tools.sandbox.network_bytes" in door.proxy.problems[0]
        assert await door.ask(request(url)) == b""


async def test_a_body_of_tiny_chunks_leaves_the_event_loop_free_for_others() -> None:
    rounds = 0

    async def count_rounds() -> None:
        nonlocal rounds
        while True:
            await asyncio.sleep(0)
            rounds += 1

    async def chunked(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 10_000 + b"0\r\n\r\n")
        await writer.drain()

    async with Site({"/": chunked}) as site, opened() as door:
        counting = asyncio.create_task(count_rounds())
        answer = await door.ask(request(f"http://site.test:{site.port}/"))
        counting.cancel()
        assert answer.count(b"x\r\n") == 10_000
        assert rounds >= 1_000


async def test_connections_above_the_limit_wait_and_are_served_later() -> None:
    async with Site({"/": response(b"hello")}) as site, opened(connections=2) as door:
        idle = [await door.connect() for _ in range(2)]
        asking = asyncio.create_task(door.ask(request(f"http://site.test:{site.port}/")))
        idle[0][1].write(request(f"site.test:{site.port}", "CONNECT"))  # both are taken for certain after this answer
        await idle[0][0].readuntil(b"\r\n\r\n")
        assert not asking.done() and site.seen == []
        for _, writer in idle:
            writer.close()
        assert (await asyncio.wait_for(asking, LIMIT)).endswith(b"hello")


async def test_nothing_is_left_when_the_proxy_ends() -> None:
    before = asyncio.all_tasks()

    async def silent(writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with Site({"/": silent}) as site:
        async with opened() as door:
            reader, writer = await door.connect()
            writer.write(request(f"http://site.test:{site.port}/"))
            tunnel, other = await door.connect()
            other.write(request(f"site.test:{site.port}", "CONNECT", body=b"\x16\x03\x01"))
            await tunnel.readuntil(b"\r\n\r\n")
        assert await asyncio.wait_for(reader.read(), LIMIT) == await asyncio.wait_for(tunnel.read(), LIMIT) == b""
        writer.close()
        other.close()
    assert asyncio.all_tasks() == before


async def test_a_proxy_that_never_got_its_socket_ends_too() -> None:
    async with ForwardProxy(NetGuard()):
        pass
