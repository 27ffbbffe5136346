"""A proxy that breaks connections on command."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable

import pytest
import uvloop
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed, InvalidMessage

from handspan.testing.proxy import FaultProxy
from handspan.testing.proxy_link import ProxiedLink, reset
from tests.waiting import until

pytestmark = pytest.mark.anyio


class Place:
    """A WebSocket server that echoes, and what it heard."""

    def __init__(self) -> None:
        self.heard: list[str | bytes] = []
        self.hosts: list[str] = []
        self.ended: asyncio.Queue[int] = asyncio.Queue()
        self.url = ""

    async def echo(self, connection: ServerConnection) -> None:
        assert connection.request is not None
        self.hosts.append(connection.request.headers["Host"])
        with contextlib.suppress(ConnectionClosed):
            async for message in connection:
                self.heard.append(message)
                await connection.send(message)
        self.ended.put_nowait(connection.close_code or 1006)


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    found = Place()
    async with serve(found.echo, "127.0.0.1", 0, compression=None, ping_interval=None) as server:
        found.url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/here?it=is"
        yield found


@pytest.fixture
async def proxy(place: Place) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(place.url, seed=1) as made:
        yield made


@contextlib.asynccontextmanager
async def client_of(proxy: FaultProxy) -> AsyncIterator[ClientConnection]:
    async with connect(proxy.url, compression=None, proxy=None, ping_interval=None, close_timeout=1) as client:
        yield client


async def echoed(client: ClientConnection, text: str) -> str | bytes:
    await client.send(text)
    return await asyncio.wait_for(client.recv(), 60)


@pytest.mark.parametrize("url", ["https://127.0.0.1:1/", "tcp://127.0.0.1", "http:///nowhere", "nothing"])
def test_what_is_no_address_of_a_plain_server_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="no address of a server"):
        FaultProxy(url)


async def test_without_a_command_everything_passes_and_is_counted(proxy: FaultProxy, place: Place) -> None:
    assert proxy.url.startswith("ws://127.0.0.1:") and proxy.url.endswith("/here?it=is")
    async with client_of(proxy) as client:
        assert await echoed(client, "hello") == "hello"
        assert len(proxy.links) == 1
    await until(lambda: not proxy.links)
    assert place.hosts == [place.url.split("/")[2]]
    assert proxy.statistics.connections == 1
    assert proxy.statistics.bytes_up > 100 and proxy.statistics.bytes_down > 100


async def test_a_cut_resets_both_ends(proxy: FaultProxy, place: Place) -> None:
    async with client_of(proxy) as client:
        await echoed(client, "hello")
        proxy.cut()
        with pytest.raises(ConnectionClosed) as closed:
            await asyncio.wait_for(client.recv(), 60)
        assert isinstance(closed.value.__cause__, ConnectionResetError)
        assert await asyncio.wait_for(place.ended.get(), 60) == 1006
    assert proxy.statistics.cut == 1


@pytest.mark.parametrize("loops", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_a_cut_is_a_reset_on_every_kind_of_loop(loops: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionResetError):
            while data := await reader.read(100):
                writer.write(data)
        writer.close()

    async def cut() -> None:
        async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            async with FaultProxy(f"tcp://127.0.0.1:{port}") as proxy, asyncio.timeout(60):
                host, _, number = proxy.url.removeprefix("tcp://").partition(":")
                reader, writer = await asyncio.open_connection(host, int(number))
                writer.write(b"hello")
                assert await reader.readexactly(5) == b"hello"
                proxy.cut()
                with pytest.raises(ConnectionResetError):
                    await reader.read(1)
                writer.close()
                await asyncio.gather(writer.wait_closed(), return_exceptions=True)
                reset(writer)  # what is gone can't be reset, and that is no error

    with asyncio.Runner(loop_factory=loops) as runner:
        runner.run(cut())


async def test_a_close_is_a_goodbye_of_tcp_alone(proxy: FaultProxy, place: Place) -> None:
    async with client_of(proxy) as client:
        await echoed(client, "hello")
        proxy.close()
        with pytest.raises(ConnectionClosed) as closed:
            await asyncio.wait_for(client.recv(), 60)
        assert closed.value.rcvd is None and not isinstance(closed.value.__cause__, ConnectionResetError)
        assert await asyncio.wait_for(place.ended.get(), 60) == 1006
    assert proxy.statistics.closed == 1


async def test_one_connection_can_be_cut_alone(proxy: FaultProxy) -> None:
    async with client_of(proxy) as first, client_of(proxy) as second:
        await echoed(first, "1")
        await echoed(second, "2")
        proxy.cut(proxy.links[0])
        with pytest.raises(ConnectionClosed):
            await asyncio.wait_for(first.recv(), 60)
        assert await echoed(second, "still here") == "still here"
    assert proxy.statistics.cut == 1


async def test_what_is_over_is_not_cut_again(proxy: FaultProxy) -> None:
    async with client_of(proxy) as client:
        await echoed(client, "hello")
        link: ProxiedLink = proxy.links[0]
        proxy.cut(link)
        proxy.close(link)
        proxy.cut(link)
    assert (proxy.statistics.cut, proxy.statistics.closed) == (1, 0)


async def test_a_client_that_vanishes_is_gone_at_the_target_too(proxy: FaultProxy, place: Place) -> None:
    async with client_of(proxy) as client:
        await echoed(client, "hello")
        client.transport.abort()
        assert await asyncio.wait_for(place.ended.get(), 60) == 1006


@pytest.mark.parametrize(("direction", "reaches"), [("up", False), ("down", True), ("both", False)])
async def test_half_open_passes_nothing_on_until_it_is_healed(
    proxy: FaultProxy, place: Place, direction: str, reaches: bool
) -> None:
    async with client_of(proxy) as client:
        await echoed(client, "before")
        proxy.half_open(direction)  # type: ignore[arg-type]  # one of the three words
        await client.send("into the void")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.recv(), 0.05)
        if reaches:
            await until(lambda: "into the void" in place.heard)
        assert ("into the void" in place.heard) == reaches
        proxy.heal()
        assert await asyncio.wait_for(client.recv(), 60) == "into the void"


async def test_while_half_open_no_end_notices_that_the_other_is_gone(proxy: FaultProxy, place: Place) -> None:
    async with client_of(proxy) as client:
        await echoed(client, "before")
        proxy.half_open(link=proxy.links[0])
        client.transport.abort()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(place.ended.get(), 0.05)
        proxy.heal()
        assert await asyncio.wait_for(place.ended.get(), 60) == 1006


async def test_a_connection_that_is_made_while_half_open_is_accepted_and_gets_no_answer(proxy: FaultProxy) -> None:
    proxy.half_open()
    with pytest.raises(TimeoutError):
        await connect(proxy.url, compression=None, proxy=None, open_timeout=0.1)
    assert proxy.statistics.connections == 1 and proxy.statistics.refused == 0


async def test_everything_arrives_in_order_when_it_is_delayed_and_split(proxy: FaultProxy, place: Place) -> None:
    proxy.delay(0.001, jitter=0.005)
    proxy.split(3)
    async with client_of(proxy) as client:
        texts = [f"text {number} {'x' * number}" for number in range(40)]
        for text in texts:
            await client.send(text)
        assert [await asyncio.wait_for(client.recv(), 60) for _ in texts] == texts
    assert place.heard == texts


async def test_a_delay_holds_in_both_directions(proxy: FaultProxy) -> None:
    async with client_of(proxy) as client:
        await echoed(client, "before")
        proxy.delay(0.05)
        begun = time.monotonic()
        await echoed(client, "slowly")
        assert time.monotonic() - begun >= 0.1


async def test_whole_frames_of_the_client_are_repeated(proxy: FaultProxy, place: Place) -> None:
    proxy.duplicate(only=lambda text: b"twice" in text)
    async with client_of(proxy) as client:
        await client.send("once")
        await client.send("twice")
        assert [await asyncio.wait_for(client.recv(), 60) for _ in range(3)] == ["once", "twice", "twice"]
        proxy.heal()
        assert await echoed(client, "twice?") == "twice?"
    assert place.heard == ["once", "twice", "twice", "twice?"]
    assert proxy.statistics.repeated == 1


async def test_the_same_seed_repeats_the_same_frames(place: Place) -> None:
    runs = []
    for seed in (3, 3, 4):
        place.heard.clear()
        async with FaultProxy(place.url, seed=seed) as proxy, client_of(proxy) as client:
            proxy.duplicate(0.5)
            for number in range(20):
                await client.send(str(number))
            while await asyncio.wait_for(client.recv(), 60) != "19":
                pass
        runs.append([text for text in place.heard if text != "19"])
    assert runs[0] == runs[1] != runs[2]


async def test_new_connections_are_refused_on_command_and_old_ones_stay(proxy: FaultProxy) -> None:
    async with client_of(proxy) as client:
        await echoed(client, "before")
        proxy.refuse()
        with pytest.raises((OSError, InvalidMessage)):
            await connect(proxy.url, compression=None, proxy=None, open_timeout=1)
        assert await echoed(client, "still here") == "still here"
        assert proxy.statistics.refused == 1
        proxy.heal()
        async with client_of(proxy) as second:
            assert await echoed(second, "let in") == "let in"


async def test_a_target_that_is_not_there_refuses_its_clients() -> None:
    async with FaultProxy("tcp://127.0.0.1:1") as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(proxy.url.rpartition(":")[2]))
        with contextlib.suppress(ConnectionResetError):
            assert await asyncio.wait_for(reader.read(), 60) == b""
        writer.close()
        assert proxy.statistics.refused == 1


async def test_any_server_can_be_the_target_and_a_half_closed_end_may_still_be_answered() -> None:
    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.read()).upper())
        writer.close()

    server = await asyncio.start_server(shout, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, FaultProxy(f"tcp://127.0.0.1:{port}") as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(proxy.url.rpartition(":")[2]))
        writer.write(b"host: as it is\r\n\r\n")
        writer.write_eof()
        assert await asyncio.wait_for(reader.read(), 60) == b"HOST: AS IT IS\r\n\r\n"
        writer.close()


async def test_leaving_ends_every_connection(place: Place) -> None:
    async with FaultProxy(place.url) as proxy:
        client = await connect(proxy.url, compression=None, proxy=None, ping_interval=None)
        await echoed(client, "hello")
        proxy.half_open()
    with pytest.raises(ConnectionClosed):
        await asyncio.wait_for(client.recv(), 60)
    assert await asyncio.wait_for(place.ended.get(), 60) == 1006
