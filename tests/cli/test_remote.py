"""Requests of a command to a gateway that runs: what is left when the command ends."""

import asyncio
import socket
from collections.abc import Iterator

import pytest

from handspan.cli.remote import Remote
from handspan.client.errors import GatewayUnreachable
from tests.waiting import WAIT, soon

pytestmark = pytest.mark.anyio
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A gateway that answers when the test says so."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        bound.settimeout(WAIT)
        yield bound


async def test_a_request_that_outlasts_its_command_is_not_sent_again_and_leaves_no_connection(
    listener: socket.socket,
) -> None:
    remote = Remote(f"http://127.0.0.1:{listener.getsockname()[1]}", "token")
    async with remote.open_requests():
        asking = asyncio.create_task(asyncio.to_thread(remote.send, "GET", "/api/tools"))
        accepted, _ = await asyncio.to_thread(listener.accept)
        await asyncio.to_thread(accepted.recv, 65536)
    with accepted:
        accepted.close()
    with pytest.raises(GatewayUnreachable):
        await soon(asking)
    listener.settimeout(0.0)
    with pytest.raises(BlockingIOError):
        listener.accept()


async def test_a_request_that_begins_when_its_command_is_over_closes_its_connection(listener: socket.socket) -> None:
    remote = Remote(f"http://127.0.0.1:{listener.getsockname()[1]}", "token")
    async with remote.open_requests():
        pass
    asking = asyncio.create_task(asyncio.to_thread(remote.send, "GET", "/api/tools"))
    accepted, _ = await asyncio.to_thread(listener.accept)
    with accepted:
        await asyncio.to_thread(accepted.recv, 65536)
        accepted.sendall(ANSWER)
        await soon(asking)
        accepted.settimeout(WAIT)
        assert await asyncio.to_thread(accepted.recv, 1) == b""
