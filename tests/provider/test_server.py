"""A provider on its Unix socket: HTTP, its refusals and bounds, the caller's identity, and the end (cetp.md 6)."""

import asyncio
import os
import socket
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from handspan.provider import Consumer, Provider
from handspan.provider import server as server_module
from handspan.provider.connection import CallFailed, ProviderSocket
from handspan.provider.peer import identify
from handspan.provider.server import AlreadyServed, ProviderServer
from handspan.wire.cetp import CetpError, CetpRequest, CetpSuccess, execute_request, read_data, read_response
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio


class Served:
    """A provider on a socket, with a tool that waits and one that tells the caller."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.app = Provider("org.example.served")
        self.go = asyncio.Event()
        self.waits = 0
        self.server = ProviderServer(self.app, path)
        self.app.tool(self.wait)
        self.app.tool(self.caller)

    async def wait(self) -> str:
        """Wait."""
        self.waits += 1
        await self.go.wait()
        return "done"

    def caller(self, consumer: Consumer) -> list[Any]:
        """Tell the caller."""
        return [consumer.uid, consumer.pid, consumer.program]

    async def send(self, data: bytes) -> bytes:
        """What comes back for these bytes, until the connection is closed."""
        reader, writer = await asyncio.open_unix_connection(self.path)
        writer.write(data)
        answer = await soon(reader.read())
        writer.close()
        return answer


@pytest.fixture
async def served(run_folder: Path) -> AsyncIterator[Served]:
    made = Served(run_folder / "handspan" / "served.sock")
    async with made.server:
        yield made
    await made.app.close()


def post(body: bytes, more: bytes = b"") -> bytes:
    """A request as bytes, after which the connection is closed."""
    head = b"POST /cetp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\ncontent-length: %d\r\n%s\r\n"
    return head % (len(body), more) + body


def status_and_code(answer: bytes) -> tuple[int, str]:
    """The HTTP status and the error code."""
    head, _, body = answer.partition(b"\r\n\r\n")
    response = read_response(body)
    assert isinstance(response, CetpError)
    return int(head.split()[1]), response.error_code


async def test_requests_are_answered_and_the_connection_stays(served: Served) -> None:
    calls = ProviderSocket("org.example.served", served.path)
    for _ in range(3):
        assert isinstance(await calls.call(CetpRequest("list_tools")), CetpSuccess)
    calls.close()


async def test_the_caller_is_known_by_the_kernel(served: Served) -> None:
    calls = ProviderSocket("org.example.served", served.path)
    answer = await calls.call(execute_request("caller", {}))
    assert isinstance(answer, CetpSuccess)
    left, right = socket.socketpair(socket.AF_UNIX)
    with left, right:
        assert read_data(answer.data) == [os.getuid(), os.getpid(), identify(left).program]
    calls.close()


async def test_socket_and_folder_are_private_and_the_socket_goes_away(run_folder: Path) -> None:
    path = run_folder / "new" / "a.sock"
    async with ProviderServer(Provider("a"), path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert not path.exists()


@pytest.mark.parametrize(
    ("data", "status", "code"),
    [
        (post(b"list_tools"), 400, "INVALID_ARGS"),
        (post(b'{"extras": {}}'), 400, "INVALID_ARGS"),
        (post(b"{}", b"content-length: 3\r\n"), 400, "INVALID_ARGS"),
        (b"hello\r\n\r\n", 400, "INVALID_ARGS"),
        (post(b"{}").replace(b"/cetp", b"/"), 404, "TOOL_NOT_FOUND"),
        (post(b"").replace(b"POST", b"GET"), 405, "TOOL_NOT_FOUND"),
        (post(b"").replace(b"length: 0", b"length: 1048577"), 413, "INVALID_ARGS"),
        (post(b"").replace(b"length: 0", b"length: 99999999999999999999"), 413, "INVALID_ARGS"),
        (post(b"", b"x: " + b"x" * 100_000 + b"\r\n"), 400, "INVALID_ARGS"),
    ],
)
async def test_what_is_no_request_is_refused_with_its_status(
    data: bytes, status: int, code: str, served: Served
) -> None:
    assert status_and_code(await served.send(data)) == (status, code)


async def test_neither_the_host_nor_the_type_of_the_body_matters(served: Served) -> None:
    good = msgspec.json.encode(CetpRequest("list_tools"))
    request = post(good, b"Content-Type: text/plain\r\n").replace(b"localhost", b"else.where")
    answer = await served.send(request)
    assert isinstance(read_response(answer.partition(b"\r\n\r\n")[2]), CetpSuccess)


async def test_a_chunked_body_is_bounded_too(served: Served) -> None:
    head = b"POST /cetp HTTP/1.1\r\nHost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
    chunk = b"10000\r\n%s\r\n" % (b"x" * 0x10000)
    assert status_and_code(await served.send(head + chunk * 17)) == (413, "INVALID_ARGS")
    small = b"".join([b"1\r\nx\r\n"] * 20_001)
    assert status_and_code(await served.send(head + small)) == (413, "INVALID_ARGS")
    good = msgspec.json.encode(CetpRequest("list_tools"))
    body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(good), good)
    assert b"200" in await served.send(head.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") + body)


async def test_a_consumer_that_waits_for_a_go_on_gets_it(served: Served) -> None:
    body = msgspec.json.encode(CetpRequest("list_tools"))
    reader, writer = await asyncio.open_unix_connection(served.path)
    writer.write(post(body, b"Expect: 100-continue\r\n").removesuffix(body))
    assert b"100" in await soon(reader.readuntil(b"\r\n\r\n"))
    writer.write(body)
    assert b"200" in await soon(reader.read())
    writer.close()


async def test_a_request_that_never_ends_is_cut_off(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_REQUEST_SECONDS", 0.05)
    assert status_and_code(await served.send(post(b"{}")[:-1])) == (408, "INVALID_ARGS")


async def test_a_quiet_connection_is_closed(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_QUIET_SECONDS", 0.05)
    assert await served.send(b"") == b""


async def test_connections_beyond_the_limit_are_refused(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_MAX_CONNECTIONS", 1)
    _, writer = await asyncio.open_unix_connection(served.path)
    await until(lambda: served.server.connections)
    assert status_and_code(await served.send(b"")) == (503, "RATE_LIMITED")
    writer.close()


async def test_a_second_process_finds_the_socket_taken_and_one_after_a_crash_does_not(served: Served) -> None:
    with pytest.raises(AlreadyServed):
        await ProviderServer(served.app, served.path).__aenter__()
    left_behind = served.path.with_name("old.sock")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(left_behind))
    async with ProviderServer(served.app, left_behind):
        calls = ProviderSocket("a", left_behind)
        assert isinstance(await calls.call(CetpRequest("list_tools")), CetpSuccess)
        calls.close()


async def test_a_file_that_is_no_socket_is_not_removed(run_folder: Path) -> None:
    path = run_folder / "a.sock"
    path.write_text("precious", encoding="utf-8")
    with pytest.raises(OSError):
        await ProviderServer(Provider("a"), path).__aenter__()
    assert path.read_text(encoding="utf-8") == "precious"


async def test_a_link_in_place_of_the_socket_is_followed_by_consumers_alone(served: Served) -> None:
    link = served.path.with_name("link.sock")
    link.symlink_to(served.path)
    calls = ProviderSocket("org.example.served", link)
    assert isinstance(await calls.call(CetpRequest("list_tools")), CetpSuccess)
    calls.close()
    with pytest.raises(OSError):
        await ProviderServer(Provider("a"), link).__aenter__()
    assert link.is_symlink() and served.path.exists()


async def test_a_call_that_runs_at_the_end_is_answered_and_no_new_one_is_taken(run_folder: Path) -> None:
    made = Served(run_folder / "a.sock")
    idle, busy = (ProviderSocket("a", made.path) for _ in range(2))
    await made.server.__aenter__()
    assert isinstance(await idle.call(CetpRequest("list_tools")), CetpSuccess)
    running = asyncio.create_task(busy.call(execute_request("wait", {})))
    await until(lambda: made.waits)
    ending = asyncio.create_task(made.server.__aexit__())
    await until(lambda: not made.path.exists())
    with pytest.raises(CallFailed):
        await ProviderSocket("a", made.path).exchange("POST", "/cetp", b"{}")
    made.go.set()
    assert isinstance(await soon(running), CetpSuccess)
    await soon(ending)
    idle.close()
    busy.close()


async def test_the_server_is_idle_when_no_call_came_and_none_runs(served: Served) -> None:
    idle = asyncio.create_task(served.server.wait_until_idle(0.05))
    calls = ProviderSocket("a", served.path)
    running = asyncio.create_task(calls.call(execute_request("wait", {})))
    await until(lambda: served.waits)
    await asyncio.sleep(0.2)  # longer than the idle time: it does not count while a call runs
    assert not idle.done()
    served.go.set()
    await soon(running)
    await soon(idle)
    calls.close()
