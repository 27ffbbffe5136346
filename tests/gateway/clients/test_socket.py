"""One WebSocket connection behind the seam: on_message / send_text / close / abort (ws.md 2)."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, cast

import pytest
import uvicorn
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode

from handspan.config.gateway_settings import ConnectionLimits
from handspan.gateway.clients import transport as seam
from handspan.gateway.clients.fast_socket import FastSocketProtocol
from handspan.gateway.clients.socket import FRAMES_AT_ONCE, SocketProtocol
from handspan.gateway.clients.transport import EXTENSION
from tests.thoroughness import share
from tests.waiting import until

pytestmark = pytest.mark.anyio


class Echo:
    """Answers what it hears, and remembers how it ended."""

    def __init__(self, socket: seam.Socket) -> None:
        self.socket = socket
        self.closed: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.heard: list[bytes] = []
        self.answer: Callable[[bytes], None] = socket.send_text

    def on_message(self, data: bytes) -> None:
        self.heard.append(data)
        self.answer(data)

    def on_close(self, code: int) -> None:
        self.closed.set_result(code)


class Place:
    """A server whose connections are taken over."""

    def __init__(self, port: int) -> None:
        self.url = f"ws://127.0.0.1:{port}/"
        self.taken: asyncio.Queue[Echo] = asyncio.Queue()

    @contextlib.asynccontextmanager
    async def met(self) -> AsyncIterator[tuple[ClientConnection, Echo]]:
        """A client and the other end of it."""
        async with connect(self.url, compression=None, proxy=None) as client:
            yield client, await asyncio.wait_for(self.taken.get(), 60)


@pytest.fixture(params=[FastSocketProtocol, SocketProtocol], ids=["fast", "by the library"])
async def place(request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    """A place with either kind of connection."""
    async with opened(request.param) as made:
        yield made


@pytest.fixture
async def fast_place() -> AsyncIterator[Place]:
    """A place whose connections hold answers back, to send them together."""
    async with opened(FastSocketProtocol) as made:
        yield made


@contextlib.asynccontextmanager
async def opened(kind: type[SocketProtocol]) -> AsyncIterator[Place]:
    found: list[Place] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        if scope["path"] == "/refused":
            await send({"type": "websocket.close"})
            return
        if scope["path"] == "/broken":
            raise RuntimeError("no")
        await send({"type": "websocket.accept"})
        socket = scope["extensions"][EXTENSION]
        echo = Echo(socket)
        socket.take(echo)
        found[0].taken.put_nowait(echo)

    config = uvicorn.Config(
        app, host="127.0.0.1", port=0, ws=kind, lifespan="off", log_config=None, ws_per_message_deflate=False,
        ws_max_size=64 * 1024, ws_ping_interval=None,  # on a busy machine, a flooding client may answer none in time
    )  # fmt: skip
    server = uvicorn.Server(config)
    running = asyncio.create_task(server._serve())
    async with asyncio.timeout(60):
        while not server.started:
            await asyncio.sleep(0.01)
    found.append(Place(server.servers[0].sockets[0].getsockname()[1]))
    yield found[0]
    server.should_exit = True
    await asyncio.wait_for(running, 60)


async def ended(echo: Echo) -> int:
    return await asyncio.wait_for(echo.closed, 60)


async def test_messages_go_both_ways_in_order(place: Place) -> None:
    async with place.met() as (client, _):
        for text in ("one", "zwei", "三"):
            await client.send(text)
        assert [await client.recv() for _ in range(3)] == ["one", "zwei", "三"]


async def test_a_message_in_fragments_arrives_whole(place: Place) -> None:
    async with place.met() as (client, echo):
        await client.send(["to", "geth", "er"])
        assert await client.recv() == "together"
        assert echo.heard == [b"together"]


async def test_binary_messages_are_skipped(place: Place) -> None:
    async with place.met() as (client, echo):
        await client.send(b"\x00\x01")
        await client.send("text")
        assert await client.recv() == "text"
        assert echo.heard == [b"text"]


async def test_text_that_is_not_utf8_closes_with_1007(place: Place) -> None:
    async with place.met() as (client, echo):
        client.protocol.send_frame(Frame(Opcode.TEXT, b"\xff\xfe"))
        client.send_data()
        with pytest.raises(ConnectionClosed) as closed:
            await client.recv()
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1007
        assert await ended(echo) == 1007


async def test_a_message_above_the_limit_closes_with_1009(place: Place) -> None:
    async with place.met() as (client, echo):
        with pytest.raises(ConnectionClosed) as closed:
            await client.send("x" * 100_000)
            await client.recv()
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1009
        assert await ended(echo) == 1009


async def test_who_leaves_is_heard_of_with_the_code(place: Place) -> None:
    async with place.met() as (client, echo):
        await client.close(4321, "enough")
        assert await ended(echo) == 4321


async def test_who_vanishes_is_heard_of(place: Place) -> None:
    async with place.met() as (client, echo):
        client.transport.abort()
        assert await ended(echo) == 1006


async def test_a_goodbye_reaches_the_client_with_its_code_and_reason(place: Place) -> None:
    async with place.met() as (client, echo):
        echo.socket.close(1012, "back soon")
        with pytest.raises(ConnectionClosed) as closed:
            await client.recv()
        assert closed.value.rcvd is not None
        assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1012, "back soon")
        await ended(echo)


async def test_nothing_is_sent_and_nothing_fails_after_the_goodbye(place: Place) -> None:
    async with place.met() as (client, echo):
        echo.socket.close(1000)
        echo.socket.send_text(b"too late")
        echo.socket.close(1011)
        with pytest.raises(ConnectionClosed) as closed:
            await client.recv()
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1000
        await ended(echo)
        echo.socket.send_text(b"far too late")
        echo.socket.pause(1)


async def test_an_aborted_connection_is_gone_at_once(place: Place) -> None:
    async with place.met() as (client, echo):
        echo.socket.abort()
        assert await ended(echo) == 1006
        with pytest.raises(ConnectionClosed):
            await client.recv()


async def test_a_client_that_does_not_read_is_dropped_and_slows_nobody(place: Place) -> None:
    async with place.met() as (client, slow), place.met() as (good, _):
        slow.socket.backlog_limit = 256 * 1024
        slow_client_reads_nothing = b"x" * 60_000
        while not slow.socket.close_sent:
            slow.socket.send_text(slow_client_reads_nothing)
        assert slow.socket.transport.get_write_buffer_size() < 2 * 1024 * 1024
        await good.send("still here")
        assert await good.recv() == "still here"
        assert await ended(slow) in (1006, 1013)
        client.transport.abort()


async def test_a_flooding_client_is_not_read_for_a_while(place: Place) -> None:
    async with place.met() as (client, echo):

        def slowly(data: bytes) -> None:
            echo.socket.pause(0.05)
            echo.socket.send_text(data)

        echo.answer = slowly
        await client.send("first")
        await client.send("second")
        assert [await client.recv(), await client.recv()] == ["first", "second"]


class Counted:
    """A transport that counts its writes."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self.writes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        self.writes += 1
        self._transport.write(data)

    def writelines(self, frames: list[bytes]) -> None:
        self.writes += 1
        self._transport.writelines(frames)


def counted(echo: Echo) -> Counted:
    socket = cast(Any, echo.socket)
    socket.transport = Counted(socket.transport)
    return cast(Counted, socket.transport)


def send_at_once(client: ClientConnection, *texts: str) -> None:
    """Send all of these in one piece."""
    for text in texts:
        client.protocol.send_text(text.encode())
    client.transport.write(b"".join(client.protocol.data_to_send()))


async def test_answers_to_several_messages_go_out_together_and_in_order(fast_place: Place) -> None:
    texts = [f"message {number}" for number in range(20)]
    async with fast_place.met() as (client, echo):
        transport = counted(echo)
        send_at_once(client, *texts)
        assert [await client.recv() for _ in texts] == texts
        assert transport.writes == 1
        await client.send("one more")
        assert await client.recv() == "one more"
        assert transport.writes == 2


async def test_answers_of_those_whom_the_messages_woke_go_out_together_too(fast_place: Place) -> None:
    async with fast_place.met() as (client, echo):
        transport, tasks = counted(echo), set[asyncio.Task[None]]()

        async def later(data: bytes) -> None:
            echo.socket.send_text(data)

        echo.answer = lambda data: tasks.add(asyncio.create_task(later(data)))
        send_at_once(client, "one", "two", "three")
        assert [await client.recv() for _ in range(3)] == ["one", "two", "three"]
        assert transport.writes == 1
        await asyncio.gather(*tasks)


async def test_much_is_not_held_back(fast_place: Place) -> None:
    async with fast_place.met() as (client, echo):
        transport = counted(echo)
        echo.answer = lambda data: echo.socket.send_text(data * 10_000)
        send_at_once(client, *["123456"] * 4)
        assert [len(await client.recv()) for _ in range(4)] == [60_000] * 4
        assert transport.writes == 3  # two together are too much to wait, and so is none after them


async def test_what_was_sent_goes_out_before_the_goodbye(place: Place) -> None:
    async with place.met() as (client, echo):

        def twice_and_goodbye(data: bytes) -> None:
            echo.socket.send_text(data)
            if len(echo.heard) == 2:
                echo.socket.close(1001)

        echo.answer = twice_and_goodbye
        send_at_once(client, "one", "two", "three")
        assert [await client.recv(), await client.recv()] == ["one", "two"]
        with pytest.raises(ConnectionClosed) as closed:
            await client.recv()
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1001


async def test_what_was_held_back_goes_out_before_the_answer_to_a_goodbye(fast_place: Place) -> None:
    async with fast_place.met() as (client, echo):
        client.protocol.send_text(b"one")
        client.protocol.send_text(b"two")
        client.protocol.send_close(1000)
        client.transport.write(b"".join(client.protocol.data_to_send()))
        assert [await client.recv(), await client.recv()] == ["one", "two"]
        assert await ended(echo) == 1000


async def test_a_refused_upgrade_is_an_http_answer(place: Place) -> None:
    for path, status in (("refused", 403), ("broken", 500)):
        with pytest.raises(Exception, match=str(status)):
            await connect(place.url + path, compression=None, proxy=None)


def noted(echo: Echo) -> asyncio.Event:
    """Set when bytes have come."""
    socket, came = cast(Any, echo.socket), asyncio.Event()
    receive = socket.data_received

    def note(data: bytes) -> None:
        receive(data)
        came.set()

    socket.data_received = note
    return came


async def test_a_message_in_pieces_is_heard_whole_wherever_it_is_cut(place: Place) -> None:
    mask = b"\x81\x84\x00\x01"
    frame = b"\x81\x84" + mask + bytes(byte ^ mask[at] for at, byte in enumerate(b"once"))
    for cut in range(1, len(frame)):
        async with place.met() as (client, echo):
            came = noted(echo)
            client.transport.write(frame[:cut])
            await asyncio.wait_for(came.wait(), 60)
            client.transport.write(frame[cut:])
            assert await asyncio.wait_for(client.recv(), 60) == "once"
            assert echo.heard == [b"once"]


# Floods (SPEC S7).

EMPTY_FRAGMENT = b"\x00\x80\x01\x02\x03\x04"
FLOODS = {
    "pings": b"\x89\x80\x01\x02\x03\x04",
    "pongs": b"\x8a\x80\x01\x02\x03\x04",
    "empty fragments": EMPTY_FRAGMENT,
    "fragments": b"\x00\x81\x00\x00\x00\x00x",
    "binary messages": b"\x82\x80\x01\x02\x03\x04",
}


def limit_frames(echo: Echo, limits: ConnectionLimits, flood_seconds: float = 0.2) -> SocketProtocol:
    socket = echo.socket
    socket.frame_limits, socket.flood_seconds = limits, flood_seconds
    return socket


@contextlib.contextmanager
def most_at_once(count: Callable[[], int]) -> Iterator[list[int]]:
    """How much the count grows in each turn of the loop."""
    grown: list[int] = []

    async def watch() -> None:
        before = count()
        while True:
            await asyncio.sleep(0)
            grown.append(count() - before)
            before = count()

    watching = asyncio.create_task(watch())
    yield grown
    watching.cancel()


class Counter:
    """Counts the frames that the library reads of one connection."""

    def __init__(self, echo: Echo) -> None:
        self.frames = 0
        connection = echo.socket.conn
        self._receive = connection.recv_frame
        connection.recv_frame = self._count  # type: ignore[method-assign]  # it counts

    def _count(self, frame: Frame) -> None:
        self.frames += 1
        self._receive(frame)


@pytest.mark.flood
async def test_floods_of_frames_are_read_in_small_parts_and_then_closed(place: Place) -> None:
    async with contextlib.AsyncExitStack() as stack:
        counters, floods = [], []
        for kind, frame in FLOODS.items():
            client, flooded = await stack.enter_async_context(place.met())
            limit_frames(flooded, ConnectionLimits(frames_per_second=1000, fragments=10**9))
            counters.append(Counter(flooded))
            floods.append(flooded)
            begin = b"\x01\x80\x01\x02\x03\x04" if "fragments" in kind else b""
            client.transport.write(begin + frame * share(1_000_000))
        good, _ = await stack.enter_async_context(place.met())
        with most_at_once(lambda: max(one.frames for one in counters)) as grown:
            await good.send("still here")
            assert await asyncio.wait_for(good.recv(), 60) == "still here"
            for flooded in floods:
                assert await ended(flooded) in (1006, 1008)
        assert max(grown) <= 2 * FRAMES_AT_ONCE
        assert all(1000 < one.frames < share(1_000_000) for one in counters)  # how many of them: a matter of time


async def test_a_client_within_its_rate_may_ping_and_send_fragments(place: Place) -> None:
    async with place.met() as (client, echo):
        limit_frames(echo, ConnectionLimits(frames_per_second=300, fragments=50))
        for _ in range(3):
            await client.send(["x"] * 40)
            assert await client.recv() == "x" * 40
            await asyncio.wait_for(await client.ping(), 60)


async def test_a_message_of_too_many_fragments_closes_with_1008(place: Place) -> None:
    async with place.met() as (client, echo):
        limit_frames(echo, ConnectionLimits(fragments=50))
        with pytest.raises(ConnectionClosed) as closed:
            await client.send(["x"] * 120)
            await client.recv()
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1008
        assert "fragments" in closed.value.rcvd.reason
        assert await ended(echo) == 1008


@pytest.mark.flood
async def test_many_small_messages_are_read_in_small_parts_and_all_of_them(place: Place) -> None:
    count = share(100_000)
    async with place.met() as (client, echo):
        echo.answer = lambda data: None
        with most_at_once(lambda: len(echo.heard)) as grown:
            client.transport.write(b"\x81\x81\x00\x00\x00\x00x" * count)
            await until(lambda: len(echo.heard) == count)
        assert max(grown) <= 2 * FRAMES_AT_ONCE


async def test_messages_behind_a_pause_wait_for_its_end(place: Place) -> None:
    async with place.met() as (client, echo):

        def pause_once(data: bytes) -> None:
            if len(echo.heard) == FRAMES_AT_ONCE // 2:
                echo.socket.pause(0.2)

        echo.answer = pause_once
        send_at_once(client, *map(str, range(1000)))
        await until(lambda: len(echo.heard) >= FRAMES_AT_ONCE // 2)
        assert len(echo.heard) <= FRAMES_AT_ONCE
        await until(lambda: len(echo.heard) == 1000)
        assert echo.heard == [str(number).encode() for number in range(1000)]


async def test_bytes_before_the_end_of_the_handshake_do_no_harm(place: Place) -> None:
    port = int(place.url.rpartition(":")[2].strip("/"))
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    upgrade = (
        b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
        b"sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    writer.write(upgrade)
    await asyncio.sleep(0)
    writer.write(b"\x81\x81\x00\x00\x00\x00x" * 100)
    echo = await asyncio.wait_for(place.taken.get(), 60)
    assert b"101" in await reader.readline()
    writer.write(b"\x88\x80\x00\x00\x00\x00")
    assert await ended(echo) == 1005
    assert set(echo.heard) <= {b"x"} and len(echo.heard) in (0, 100)
    writer.close()
