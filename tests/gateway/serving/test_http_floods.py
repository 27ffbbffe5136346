"""Nobody can hold the gateway up over HTTP: what a connection may hold is counted here (SPEC S7)."""

import asyncio
import contextlib
import gc
import re
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
from websockets.asyncio.client import connect
from websockets.server import ServerProtocol

from handspan.config.gateway_settings import ConnectionLimits
from handspan.gateway.clients.socket import SocketProtocol
from handspan.gateway.serving.http_protocol import HttpProtocol
from handspan.gateway.serving.idle_connections import IdleConnections
from handspan.gateway.serving.reading_turns import ReadingTurns
from handspan.gateway.serving.server import Server
from tests.gateway.manual_loop import ManualLoop
from tests.gateway.serving.test_server import ask, served
from tests.gateway.small_gateway import SmallGateway
from tests.thoroughness import share
from tests.waiting import WAIT, until

pytestmark = pytest.mark.anyio

FLOOD = share(300_000)


@contextlib.asynccontextmanager
async def connected(server: Server) -> AsyncIterator[tuple[StreamReader, StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        async with asyncio.timeout(WAIT):
            yield reader, writer
    finally:
        writer.close()


def work(gateway: SmallGateway, server: Server) -> bytes:
    """A request that is answered when the gateway drains."""
    token = gateway.auth.operator_token
    return f"GET /work HTTP/1.1\r\nhost: 127.0.0.1:{server.port}\r\nauthorization: Bearer {token}\r\n\r\n".encode()


async def is_answered(server: Server) -> bool:
    status, _ = await ask(server.port, "GET /health HTTP/1.1", f"Host: 127.0.0.1:{server.port}")
    return status == 200


def requests_in_memory() -> int:
    return sum(type(one) is RequestResponseCycle for one in gc.get_objects())


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> ManualLoop:
    """A loop that gives the turns of a server, in place of the clock."""
    manual = ManualLoop()
    monkeypatch.setattr("handspan.gateway.serving.server.ReadingTurns", partial(ReadingTurns, loop=manual.as_loop))
    return manual


def anonymous(server: Server, path: str = "/health", method: str = "GET", *lines: str) -> bytes:
    """A request without a token."""
    return "\r\n".join((f"{method} {path} HTTP/1.1", f"host: 127.0.0.1:{server.port}", *lines, "", "")).encode()


async def read_answer(reader: StreamReader) -> bytes:
    """The head of the next answer; its body is read too."""
    head = await reader.readuntil(b"\r\n\r\n")
    found = re.search(rb"content-length: (\d+)", head)
    await reader.readexactly(int(found[1]) if found else 0)
    return head


def asked(gateway: SmallGateway, server: Server) -> bytes:
    """A request with a token that is answered at once."""
    return work(gateway, server).replace(b"/work", b"/who")


@pytest.mark.parametrize("kind", ["unknown host", "open path", "no token", "token"])
async def test_pipelined_requests_have_a_few_turns_at_once_and_then_each_waits(
    tmp_path: Path, loop: ManualLoop, kind: str
) -> None:
    limits = ConnectionLimits(tokenless_per_second=5)
    async with (
        served(tmp_path / "state", connections=limits) as (gateway, server),
        connected(server) as (reader, writer),
        connected(server) as (good_reader, good_writer),
    ):
        flood = {
            "unknown host": b"GET / HTTP/1.1\r\nhost: unknown\r\n\r\n",
            "open path": anonymous(server),
            "no token": anonymous(server, "/who"),
            "token": asked(gateway, server),
        }
        writer.write(flood[kind] * 200)
        for _ in range(6):  # the first, and the five turns that were free
            await read_answer(reader)
        await until(lambda: loop.has_timer)
        for _ in range(20):  # a connection with a token waits for no turn
            good_writer.write(asked(gateway, server))
            assert b" 200 " in await read_answer(good_reader)
        assert await is_answered(server)  # nor does the first request of a new connection
        for _ in range(3):
            loop.fire()
            await read_answer(reader)
            await until(lambda: loop.has_timer)
        assert gateway.requests == 6 + 20 + 1 + 3


async def test_the_next_request_of_a_connection_without_a_token_waits_for_its_turn(
    tmp_path: Path, loop: ManualLoop
) -> None:
    limits = ConnectionLimits(tokenless_per_second=1)
    async with (
        served(tmp_path / "state", connections=limits) as (gateway, server),
        connected(server) as (reader, writer),
    ):
        for _ in range(2):
            writer.write(anonymous(server))
            assert b" 200 " in await read_answer(reader)
        await until(lambda: loop.has_timer)
        writer.write(anonymous(server))
        loop.fire()
        assert b" 200 " in await read_answer(reader)
        await until(lambda: loop.has_timer)
        writer.write(asked(gateway, server))
        loop.fire()
        for _ in range(3):  # it has shown a token
            assert b" 200 " in await read_answer(reader)
            writer.write(asked(gateway, server))
        assert not loop.has_timer


async def test_a_connection_that_waits_for_its_turn_makes_room_for_others(tmp_path: Path, loop: ManualLoop) -> None:
    limits = ConnectionLimits(tokenless_per_second=1, most=4)
    async with (
        served(tmp_path / "state", connections=limits) as (_, server),
        contextlib.AsyncExitStack() as stack,
    ):
        flood = [await stack.enter_async_context(connected(server)) for _ in range(4)]
        for reader, writer in flood:
            writer.write(anonymous(server) * 5)
            await read_answer(reader)
        await until(lambda: loop.has_timer)
        for _ in range(4):
            assert await is_answered(server)


@pytest.mark.parametrize("has_token", [True, False])
async def test_a_body_in_tiny_chunks_is_read_in_turns(tmp_path: Path, loop: ManualLoop, has_token: bool) -> None:
    limits = ConnectionLimits(tokenless_per_second=1)
    async with (
        served(tmp_path / "state", connections=limits) as (gateway, server),
        connected(server) as (reader, writer),
    ):
        token = f"authorization: Bearer {gateway.auth.operator_token}"
        lines = ("transfer-encoding: chunked", *([token] if has_token else []))
        writer.write(anonymous(server, "/body", "POST", *lines) + b"1\r\nx\r\n" * 5000 + b"0\r\n\r\n")
        fired = 0
        while not gateway.bodies if has_token else fired < 5:
            await until(lambda: loop.has_timer or bool(gateway.bodies))
            if loop.has_timer:
                assert await is_answered(server)
                loop.fire()
                fired += 1
        assert fired >= 5
        assert (b" 200 " if has_token else b" 401 ") in await read_answer(reader)
        assert gateway.bodies == ([5000] if has_token else [])


async def test_a_body_in_large_chunks_waits_for_no_turn(tmp_path: Path, loop: ManualLoop) -> None:
    limits = ConnectionLimits(tokenless_per_second=1)
    async with (
        served(tmp_path / "state", connections=limits) as (gateway, server),
        connected(server) as (reader, writer),
    ):
        token = f"authorization: Bearer {gateway.auth.operator_token}"
        chunk = b"%x\r\n%b\r\n" % (65536, bytes(65536))
        for _ in range(3):
            writer.write(anonymous(server, "/body", "POST", token, "transfer-encoding: chunked"))
            writer.write(chunk * 16 + b"0\r\n\r\n")
            assert b" 200 " in await read_answer(reader)
        assert gateway.bodies == [16 * 65536] * 3
        assert not loop.has_timer


async def test_the_rest_of_a_body_after_its_answer_is_read_in_turns(tmp_path: Path, loop: ManualLoop) -> None:
    limits = ConnectionLimits(tokenless_per_second=1)
    async with (
        served(tmp_path / "state", connections=limits) as (_, server),
        connected(server) as (reader, writer),
    ):
        size = 16 * 1024 * 1024
        writer.write(anonymous(server, "/body", "POST", f"content-length: {size}"))
        assert b" 401 " in await read_answer(reader)
        writer.write(bytes(size) + anonymous(server))
        fired = 0
        answer = asyncio.create_task(read_answer(reader))
        while not answer.done():
            await until(lambda: loop.has_timer or answer.done())
            if loop.has_timer:
                loop.fire()
                fired += 1
        assert b" 200 " in await answer
        assert fired >= 16


@pytest.mark.flood
@pytest.mark.parametrize("end", [b"\r\n\r\n", b"\n\n"], ids=["as the standard says", "short ends of lines"])
async def test_requests_that_wait_for_others_are_not_all_parsed(tmp_path: Path, end: bytes) -> None:
    flood = b"GET /x HTTP/1.1%bhost: unknown%b" % (end[: len(end) // 2], end)
    async with served(tmp_path / "state") as (gateway, server), connected(server) as (_, writer):
        before = requests_in_memory()
        writer.write(work(gateway, server))
        for _ in range(10):
            writer.write(flood * (FLOOD // 10))
            assert await is_answered(server)
            assert requests_in_memory() - before < 150


@pytest.mark.flood
async def test_a_connection_that_goes_on_without_reading_answers_is_closed(tmp_path: Path) -> None:
    limits = ConnectionLimits(pipelined=50)
    async with served(tmp_path / "state", connections=limits) as (_, server), connected(server) as (reader, writer):
        writer.write(b"GET /x HTTP/1.1\r\nhost: unknown\r\n\r\n" * 1000)
        answers = b""
        with contextlib.suppress(ConnectionError):  # what it sent in vain may cost it the last answers
            answers = await reader.read()
        assert 50 <= len(re.findall(rb"HTTP/1.1 403", answers)) <= 52 or not answers
        assert await is_answered(server)


async def test_pipelined_requests_are_answered_in_order_with_their_bodies(tmp_path: Path) -> None:
    async with served(tmp_path / "state") as (gateway, server), connected(server) as (reader, writer):
        body = b"x" * 5000
        post = b"POST /x HTTP/1.1\r\nhost: unknown\r\ncontent-length: 5000\r\n\r\n" + body
        chunked = b"POST /x HTTP/1.1\r\nhost: unknown\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
        last = f"GET /health HTTP/1.1\r\nhost: 127.0.0.1:{server.port}\r\nconnection: close\r\n\r\n".encode()
        writer.write(work(gateway, server) + (post + chunked) * 3 + last)
        await gateway.drain(0)
        answers = await reader.read()
        assert re.findall(rb"HTTP/1.1 (\d+)", answers) == [b"200", *[b"403"] * 6, b"200"]


async def test_the_request_at_work_ends_when_the_client_of_a_pipeline_is_gone(tmp_path: Path) -> None:
    async with served(tmp_path / "state") as (gateway, server):
        before = requests_in_memory()
        async with connected(server) as (_, writer):
            writer.write(work(gateway, server) * 3)
            await until(lambda: requests_in_memory() > before)
        await gateway.drain(0)
        await until(lambda: requests_in_memory() == before)


@pytest.mark.flood
async def test_idle_connections_lock_no_client_out(tmp_path: Path) -> None:
    limits = ConnectionLimits(most=20)
    async with served(tmp_path / "state", connections=limits) as (_, server), contextlib.AsyncExitStack() as stack:
        idle = [await stack.enter_async_context(connected(server)) for _ in range(60)]
        assert await is_answered(server)
        closed = [asyncio.create_task(reader.read()) for reader, _ in idle]
        _, waiting = await asyncio.wait(closed, timeout=0.5)
        for task in waiting:
            task.cancel()
        assert len(waiting) <= 20
        await asyncio.gather(*closed, return_exceptions=True)


async def test_connections_at_work_are_not_closed_for_new_ones_which_hear_why(tmp_path: Path) -> None:
    limits = ConnectionLimits(most=3)
    async with (
        served(tmp_path / "state", connections=limits) as (gateway, server),
        contextlib.AsyncExitStack() as stack,
    ):
        busy = [await stack.enter_async_context(connected(server)) for _ in range(3)]
        before = requests_in_memory()
        for _, writer in busy:
            writer.write(work(gateway, server))
        await until(lambda: requests_in_memory() == before + 3)
        async with connected(server) as (reader, _):
            refused = await reader.read()
        assert b"HTTP/1.1 503 " in refused and b'"too_many_connections"' in refused
        await gateway.drain(0)
        for reader, _ in busy:
            assert b"200" in await reader.readline()


async def test_a_head_that_does_not_come_in_time_ends_the_connection(tmp_path: Path) -> None:
    limits = ConnectionLimits(head_seconds=0.1)
    begun = (b"", b"GET /health HTTP/1.1\r\nhost: ", b"POST /x HTTP/1.1\r\ncontent-length: 9\r\n\r\n")
    async with served(tmp_path / "state", connections=limits) as (_, server), contextlib.AsyncExitStack() as stack:
        slow = [(await stack.enter_async_context(connected(server)), sent) for sent in begun]
        for (_, writer), sent in slow:
            writer.write(sent)
        for (reader, _), sent in slow:
            assert (b"HTTP/1.1 408 " in await reader.read()) == sent.startswith(b"GET")


async def test_an_answer_that_is_not_read_ends_the_connection(tmp_path: Path) -> None:
    limits = ConnectionLimits(stall_seconds=0.1)
    async with served(tmp_path / "state", connections=limits) as (gateway, server), connected(server) as (_, writer):
        before = requests_in_memory()
        writer.write(work(gateway, server).replace(b"/work", b"/endless"))
        await until(lambda: requests_in_memory() > before)
        await until(lambda: requests_in_memory() == before)


class FakeConnection:
    """Notes how it ends."""

    def __init__(self) -> None:
        self.ended = ""

    def drop(self) -> None:
        self.ended = "dropped"

    def end_late(self) -> None:
        self.ended = "late"


async def test_the_oldest_idle_connection_of_an_address_goes_first() -> None:
    idle = IdleConnections(ConnectionLimits(idle_by_address=2))
    first, second, third, own = (FakeConnection() for _ in range(4))
    for connection in (first, second):
        idle.add(connection, "203.0.113.7")
    idle.add(own, "")
    idle.add(third, "203.0.113.7")
    assert [one.ended for one in (first, second, third, own)] == ["dropped", "", "", ""]


async def test_only_connections_that_waited_too_long_end() -> None:
    now = 0.0
    idle = IdleConnections(ConnectionLimits(head_seconds=10), lambda: now)
    early, again, late = (FakeConnection() for _ in range(3))
    idle.add(early, "")
    idle.add(again, "")
    now = 6.0
    idle.add(late, "")
    idle.remove(again, "")
    idle.add(again, "")
    now = 11.0
    idle.end_late()
    assert [one.ended for one in (early, again, late)] == ["late", "", ""]


async def test_a_closed_connection_does_not_wait_for_the_garbage_collector(tmp_path: Path) -> None:
    def left() -> int:
        kinds = (HttpProtocol, RequestResponseCycle, SocketProtocol, ServerProtocol)
        return sum(issubclass(type(one), kinds) for one in gc.get_objects())

    async with served(tmp_path / "state") as (gateway, server):
        token = gateway.auth.operator_token
        assert await is_answered(server)
        gc.collect()
        gc.disable()
        try:
            before = left()
            for _ in range(3):
                assert await is_answered(server)
                async with connect(f"ws://127.0.0.1:{server.port}/ws/chat?token={token}", proxy=None) as client:
                    await client.send("hello")
                    assert await client.recv() == "hello"
            await until(lambda: left() == before)
        finally:
            gc.enable()


@pytest.mark.flood
async def test_few_bytes_wait_while_a_pipeline_is_answered(tmp_path: Path) -> None:
    limits = ConnectionLimits(pipelined=10**9)
    async with served(tmp_path / "state", connections=limits) as (_, server), connected(server) as (reader, writer):
        writer.write(b"GET /x HTTP/1.1\r\nhost: unknown\r\n\r\n" * FLOOD)
        for _ in range(5):
            for _ in range(60):
                await reader.readuntil(b"HTTP/1.1 403")
            assert sum(len(one._unread) for one in gc.get_objects() if type(one) is HttpProtocol) <= 2 * 256 * 1024
        assert await is_answered(server)
