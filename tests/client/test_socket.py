"""The connection to the gateway, against a server that sends whatever bytes it likes."""

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from websockets.frames import Opcode

from handspan.client.address import Address, GatewayPlace
from handspan.client.errors import NotOpened
from handspan.client.fast_socket import FastSocket
from handspan.client.socket import ClientSocket, open_socket
from tests.client.raw import SECONDS, RawLink, RawServer, frame, raw_server

pytestmark = pytest.mark.anyio


@pytest.fixture(params=[FastSocket, ClientSocket], ids=["fast", "by the library"])
def kind(request: pytest.FixtureRequest) -> type[ClientSocket]:
    """Both kinds of connections."""
    kind: type[ClientSocket] = request.param
    return kind


def place(url: str, token: str, tls: ssl.SSLContext | None = None) -> GatewayPlace:
    """Where the gateway of a test is."""
    return GatewayPlace(Address(url), token, tls)


class Listener:
    """Collects its messages."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self._more = asyncio.Event()

    def on_message(self, data: bytes) -> None:
        self.heard.append(data)
        self._more.set()
        if data == b"fail":
            raise RuntimeError("the listener is broken")

    async def messages_up_to(self, count: int) -> list[bytes]:
        """So many messages, as soon as they are there."""
        async with asyncio.timeout(SECONDS):
            while len(self.heard) < count:
                self._more.clear()
                await self._more.wait()
        return self.heard


async def opened(there: RawServer, kind: type[ClientSocket], *more: bytes) -> tuple[ClientSocket, RawLink]:
    opening = asyncio.create_task(open_socket(there.url, place(there.url, "secret"), kind))
    link = await there.link()
    await link.accept(*more)
    return await opening, link


@asynccontextmanager
async def connected(kind: type[ClientSocket]) -> AsyncIterator[tuple[ClientSocket, RawLink, Listener]]:
    """A connection with somebody who listens, and its other end."""
    async with raw_server() as there:
        socket, link = await opened(there, kind)
        listener = Listener()
        socket.listen(listener)
        try:
            yield socket, link, listener
        finally:
            link.cut()
            await asyncio.wait_for(socket.wait_closed(), SECONDS)


async def over(socket: ClientSocket) -> None:
    await asyncio.wait_for(asyncio.shield(socket.over), SECONDS)


# Opening.


@pytest.mark.parametrize("body", [b"", b"no: you are not welcome\r\n\r\nnot at all"])
async def test_a_refusal_is_read_with_its_body(kind: type[ClientSocket], body: bytes) -> None:
    async with raw_server() as there:
        opening = asyncio.create_task(open_socket(there.url, place(there.url, "secret"), kind))
        link = await there.link()
        head = await link.hear_request()
        assert "Authorization: Bearer secret" in head
        assert "Sec-WebSocket-Protocol: handspan.v1" in head
        await link.say_in_pieces(b"HTTP/1.1 403 Forbidden\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        with pytest.raises(NotOpened, match="HTTP 403") as caught:
            await asyncio.wait_for(opening, SECONDS)
        assert (caught.value.status, caught.value.body) == (403, body)
        link.cut()


async def test_who_hangs_up_or_speaks_another_language_is_no_gateway(kind: type[ClientSocket]) -> None:
    async with raw_server() as there:
        for words in (b"", b"SSH-2.0-OpenSSH_9.6\r\n\r\n"):
            opening = asyncio.create_task(open_socket(there.url, place(there.url, ""), kind))
            link = await there.link()
            assert "Authorization" not in await link.hear_request()
            await link.say(words)
            link.cut()
            with pytest.raises(NotOpened) as caught:
                await asyncio.wait_for(opening, SECONDS)
            assert caught.value.status == 0
            assert str(caught.value)


async def test_what_comes_with_the_handshake_is_heard_even_when_a_goodbye_comes_too(kind: type[ClientSocket]) -> None:
    async with raw_server() as there:
        socket, link = await opened(there, kind, frame(b"early"), frame(b"\x03\xe8", Opcode.CLOSE))
        assert await link.hear_goodbye() == 1000
        await link.end()
        listener = Listener()
        socket.listen(listener)
        await over(socket)
        await asyncio.wait_for(socket.wait_closed(), SECONDS)
        assert listener.heard == [b"early"]
        assert socket.close_code == 1000


async def test_a_handshake_in_single_bytes_is_one(kind: type[ClientSocket]) -> None:
    async with raw_server() as there:
        opening = asyncio.create_task(open_socket(there.url, place(there.url, ""), kind))
        link = await there.link()
        await link.accept_in_pieces(frame(b"first"), frame(b"s" * 300))
        socket, listener = await asyncio.wait_for(opening, SECONDS), Listener()
        socket.listen(listener)
        assert await listener.messages_up_to(2) == [b"first", b"s" * 300]
        link.cut()
        await asyncio.wait_for(socket.wait_closed(), SECONDS)


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for this computer that nobody vouches for, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl binary to make a certificate")
    key, file = tmp_path / "key.pem", tmp_path / "cert.pem"
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1"]
    names = ["-subj", "/CN=gateway", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", *kind, *names, "-keyout", str(key), "-out", str(file)]
    subprocess.run(command, check=True, capture_output=True, timeout=30)
    return file, key


async def test_over_tls_it_is_the_same(kind: type[ClientSocket], certificate: tuple[Path, Path]) -> None:
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(*certificate)
    async with raw_server(serving) as there:
        with pytest.raises(NotOpened, match="certificate"):
            await open_socket(there.url, place(there.url, ""), kind)
        trusting = ssl.create_default_context(cafile=str(certificate[0]))
        opening = asyncio.create_task(open_socket(there.url, place(there.url, "", trusting), kind))
        link = await there.link()
        await link.accept(frame(b"hello"))
        socket, listener = await asyncio.wait_for(opening, SECONDS), Listener()
        socket.listen(listener)
        large = b"x" * 300_000
        assert socket.send_text(large)
        assert (await link.hear())[2] == large
        await link.say(frame(large) + frame(b"bye"))
        assert await listener.messages_up_to(3) == [b"hello", large, b"bye"]
        link.cut()
        await asyncio.wait_for(socket.wait_closed(), SECONDS)


# In.


async def test_text_that_is_no_utf_8_ends_it(kind: type[ClientSocket]) -> None:
    for wrong in (frame(b"caf\xe9"), frame(b"caf\xc3", fin=False) + frame(b"!", Opcode.CONT)):
        async with connected(kind) as (socket, link, listener):
            await link.say(frame("café".encode()) + wrong + frame(b"after"))
            assert await link.hear_goodbye() == 1007
            await over(socket)
            assert listener.heard == ["café".encode()]


async def test_a_message_above_the_limit_ends_it_before_it_has_come(kind: type[ClientSocket]) -> None:
    async with connected(kind) as (socket, link, listener):
        await link.say(b"\x81\x7f" + (16 * 1024 * 1024 + 1).to_bytes(8, "big"))
        assert await link.hear_goodbye() == 1009
        await over(socket)
        assert listener.heard == []


async def test_a_message_in_countless_fragments_ends_it(kind: type[ClientSocket]) -> None:
    async with connected(kind) as (socket, link, listener):
        await link.say(frame(b"", fin=False) + frame(b"", Opcode.CONT, fin=False) * 5000)
        assert await link.hear_goodbye() == 1009
        await over(socket)
        assert listener.heard == []


async def test_a_frame_with_a_mask_ends_it(kind: type[ClientSocket]) -> None:
    async with connected(kind) as (socket, link, listener):
        await link.say(b"\x81\x82\x00\x00\x00\x00{}" + frame(b"after"))
        assert await link.hear_goodbye() == 1002
        await over(socket)
        assert listener.heard == []


async def test_an_end_without_a_word_is_an_end(kind: type[ClientSocket]) -> None:
    async with connected(kind) as (socket, link, _):
        link.cut()
        await over(socket)
        await asyncio.wait_for(socket.wait_closed(), SECONDS)
        assert socket.close_code == 1006
        assert not socket.send_text(b"anybody?")


async def test_what_the_listener_raises_is_how_it_ends(kind: type[ClientSocket]) -> None:
    async with connected(kind) as (socket, link, listener):
        await link.say(frame(b"fail") + frame(b"after"))
        with pytest.raises(RuntimeError, match="the listener is broken"):
            await over(socket)
        assert listener.heard == [b"fail"]


async def test_fragments_are_put_together_and_pings_between_them_answered(kind: type[ClientSocket]) -> None:
    async with connected(kind) as (_, link, listener):
        await link.say(
            frame(b"begins, ", fin=False)
            + frame(b"are you there?", Opcode.PING)
            + frame(b"goes on, ", Opcode.CONT, fin=False)
            + frame(b"ends", Opcode.CONT)
            + frame(b"whole")
        )
        opcode, _, payload = await link.hear()
        assert (opcode, payload) == (Opcode.PONG, b"are you there?")
        assert await listener.messages_up_to(2) == [b"begins, goes on, ends", b"whole"]


async def test_binary_messages_are_skipped(kind: type[ClientSocket]) -> None:
    async with connected(kind) as (_, link, listener):
        await link.say(
            frame(b"\xff", Opcode.BINARY)
            + frame(b"\xff", Opcode.BINARY, fin=False)
            + frame(b"\xff", Opcode.CONT)
            + frame(b"text")
        )
        assert await listener.messages_up_to(1) == [b"text"]


async def test_a_large_message_comes_in_one_piece(kind: type[ClientSocket]) -> None:
    async with connected(kind) as (_, link, listener):
        large = b"x" * 1_000_000
        await link.say(frame(large) + frame(b"small"))
        assert await listener.messages_up_to(2) == [large, b"small"]


# Out.


async def test_every_message_has_a_mask_of_its_own(kind: type[ClientSocket]) -> None:
    async with connected(kind) as (socket, link, _):
        masks = set()
        for number in range(200):
            assert socket.send_text(b"message %d" % number)
            opcode, mask, payload = await link.hear()
            assert (opcode, payload) == (Opcode.TEXT, b"message %d" % number)
            masks.add(mask)
        assert len(masks) > 190


async def test_a_gateway_that_does_not_read_is_waited_for(kind: type[ClientSocket]) -> None:
    async with connected(kind) as (socket, link, _):
        sent = 0
        while not socket.paused:
            assert socket.send_text(b"x" * 100_000)
            sent += 1
        waiting = asyncio.create_task(socket.wait_writable())
        for _ in range(sent):
            assert len((await link.hear())[2]) == 100_000
        await asyncio.wait_for(waiting, SECONDS)
        assert not socket.paused


async def test_draining_ends_when_the_gateway_is_gone(kind: type[ClientSocket]) -> None:
    async with connected(kind) as (socket, link, _):
        while not socket.paused:
            socket.send_text(b"x" * 100_000)
        waiting = asyncio.create_task(socket.wait_writable())
        await asyncio.sleep(0)
        link.cut()
        await asyncio.wait_for(waiting, SECONDS)


async def test_a_goodbye_is_answered_though_a_message_comes_before_it(kind: type[ClientSocket]) -> None:
    async with connected(kind) as (socket, link, listener):
        # With the ping comes the first byte of a frame whose rest comes after our goodbye.
        await link.say(frame(b"", Opcode.PING) + frame(b"late")[:1])
        assert (await link.hear())[0] is Opcode.PONG
        closing = asyncio.create_task(socket.close(1000))
        assert await link.hear_goodbye() == 1000
        await link.say(frame(b"late")[1:] + frame(b"\x03\xe8", Opcode.CLOSE))
        await link.end()
        await asyncio.wait_for(closing, SECONDS)
        assert socket.close_code == 1000
        assert listener.heard == [b"late"]
