"""The socket that comes back by itself."""

import asyncio
import http
import logging
from pathlib import Path

import pytest
from websockets.asyncio.server import ServerConnection
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from handspan.client import Backoff, Client, GatewayRefused
from handspan.client.address import Address
from handspan.client.connection import State
from handspan.client.ws import usual_backoff
from tests.client.gate import Gate, gate

pytestmark = pytest.mark.anyio

SOON = Backoff(0.001, 0.01)


def refusing(status: int, times: int = 1_000_000, body: bytes = b"no", **headers: str) -> tuple[list[str], object]:
    """What refuses so many links."""
    asked: list[str] = []

    def refuse(_: ServerConnection, request: Request) -> Response | None:
        asked.append(request.headers.get("Authorization", ""))
        if len(asked) > times:
            return None
        given = Headers({"Content-Length": str(len(body)), **headers})
        return Response(status, http.HTTPStatus(status).phrase, given, body)

    return asked, refuse


@pytest.mark.parametrize(
    ("status", "token", "words"),
    [
        (
            401,
            "secret",
            r"refused the token \(HTTP 401\): pair this device anew.*`handspan tokens new LABEL .*makes one\)\.$",
        ),
        (401, "", r"wants a token \(HTTP 401\)"),
        (403, "secret", r"does not admit this client \(HTTP 403\)\. no$"),
        (404, "secret", r"There is no gateway at ws://127.*\(HTTP 404\): check the address"),
    ],
)
async def test_a_refusal_ends_it_with_what_to_do(status: int, token: str, words: str) -> None:
    asked, refuse = refusing(status)
    async with gate(refuse) as there:  # type: ignore[arg-type] # made above
        client = Client(there.url, token, backoff=SOON)
        with pytest.raises(GatewayRefused, match=words) as caught:
            await asyncio.wait_for(client.run(), 60)
    assert caught.value.status == status
    assert "secret" not in str(caught.value)
    assert client.state == "disconnected"
    assert len(asked) == 1
    with pytest.raises(GatewayRefused):
        await client.connected()


async def test_a_refused_token_is_looked_for_again_and_only_another_one_is_tried() -> None:
    asked, refuse = refusing(401)
    async with gate(refuse) as there:  # type: ignore[arg-type] # made above
        client = Client(there.url, "old", backoff=SOON, locate=lambda: (there.url, None, "new"))
        with pytest.raises(GatewayRefused, match="refused the token"):
            await asyncio.wait_for(client.run(), 60)
    assert asked == ["Bearer old", "Bearer new"]


async def test_a_refusal_is_shown_without_the_error_that_it_came_from() -> None:
    _, refuse = refusing(401)
    async with gate(refuse) as there:  # type: ignore[arg-type] # made above
        with pytest.raises(GatewayRefused) as caught:
            await asyncio.wait_for(Client(there.url, "secret", backoff=SOON).run(), 60)
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("token", ["…", "two words", "line\n"])
async def test_what_can_be_no_token_is_refused_before_a_link_is_tried(token: str) -> None:
    with pytest.raises(GatewayRefused, match=r"no token.*handspan tokens new LABEL --scope device") as caught:
        await asyncio.wait_for(Client("http://127.0.0.1:1", token).run(), 60)
    assert token not in str(caught.value)


async def test_a_redirect_is_not_followed_with_the_token() -> None:
    elsewhere, refuse_there = refusing(401)
    async with gate(refuse_there) as other:  # type: ignore[arg-type] # made above
        _, refuse = refusing(302, times=1, Location=other.url.replace("http", "ws"))
        async with gate(refuse) as there, running(there) as client:  # type: ignore[arg-type] # made above
            link = await there.link()
            await link.accept(tools=False)
            await client.connected()
    assert elsewhere == []


async def test_it_comes_back_after_errors_of_a_server_that_is_not_up_yet() -> None:
    asked, refuse = refusing(503, times=3)
    async with gate(refuse) as there, running(there) as client:  # type: ignore[arg-type] # made above
        link = await there.link()
        await link.accept(tools=False)
        await client.connected()
    assert len(asked) == 4


async def test_a_wrong_status_after_a_good_link_is_waited_out() -> None:
    asked: list[int] = []

    def refuse(_: ServerConnection, __: Request) -> Response | None:
        asked.append(1)
        return Response(404, "Not Found", Headers({"Content-Length": "0"}), b"") if len(asked) == 2 else None

    async with gate(refuse) as there, running(there) as client:
        link = await there.link()
        await link.accept(tools=False)
        link.drop()
        link = await there.link()
        await link.accept(tools=False)
        await client.connected()
    assert len(asked) == 3


async def test_a_missing_gateway_is_tried_again_and_can_be_given_up(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "handspan.client.ws")
    states: list[State] = []
    tried = asyncio.Event()

    def became(state: State) -> None:
        states.append(state)
        tried.set()

    client = Client("http://127.0.0.1:1", "secret", backoff=Backoff(60.0), on_state=became)
    running = asyncio.create_task(client.run())
    await asyncio.wait_for(tried.wait(), 60)
    while not caplog.records:
        await asyncio.sleep(0)
    client.close()
    await asyncio.wait_for(running, 60)
    assert states == ["connecting", "disconnected"]
    assert "no link to ws://127.0.0.1:1/ws/chat" in caplog.text
    assert "secret" not in caplog.text
    with pytest.raises(RuntimeError, match="closed before it was connected"):
        await client.connected()


async def test_the_same_reason_is_logged_once_however_often_it_is_tried(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "handspan.client.ws")
    asked, refuse = refusing(503, times=5)
    async with gate(refuse) as there:  # type: ignore[arg-type] # made above
        client = Client(there.url, "secret", backoff=SOON)
        running = asyncio.create_task(client.run())
        await (await there.link()).accept(tools=False)
        await asyncio.wait_for(client.connected(), 60)
        client.close()
        await asyncio.wait_for(running, 60)
    assert len(asked) == 6
    assert [line for line in caplog.messages if line.startswith("no link to")] == [caplog.messages[0]]


async def test_its_state_is_honest() -> None:
    states: list[State] = []
    async with gate() as there:
        client = Client(there.url, backoff=SOON, on_state=states.append)
        assert not states
        running = asyncio.create_task(client.run())
        link = await there.link()
        assert states == ["connecting"]  # a link is up, and nobody has answered yet
        await link.accept(tools=False)
        await client.connected()
        link.drop()
        link = await there.link()
        await link.accept(tools=False)
        await client.connected()
        client.close()
        await asyncio.wait_for(running, 60)
    assert states == ["connecting", "connected", "reconnecting", "connected", "disconnected"]
    assert client.state == "disconnected"


async def test_a_deliberate_close_of_the_gateway_ends_it() -> None:
    async with gate() as there:
        client = Client(there.url, backoff=SOON)
        running = asyncio.create_task(client.run())
        link = await there.link()
        await link.accept(tools=False)
        await link.close(1000)
        await asyncio.wait_for(running, 60)


@pytest.mark.parametrize("reason", ["the token was revoked", ""])
async def test_a_client_that_is_sent_away_stays_away_and_says_why(reason: str) -> None:
    asked, let_in = refusing(401, times=0)
    states: list[State] = []
    async with gate(let_in) as there:  # type: ignore[arg-type] # made above
        client = Client(there.url, "secret", backoff=SOON, on_state=states.append)
        running = asyncio.create_task(client.run())
        link = await there.link()
        await link.accept(tools=False)
        await client.connected()
        await link.socket.close(1008, reason)
        with pytest.raises(GatewayRefused, match=reason or "no reason was given") as caught:
            await asyncio.wait_for(running, 60)
        with pytest.raises(GatewayRefused, match="pair this device anew"):
            await client.connected()
    assert (caught.value.status, "secret" in str(caught.value)) == (0, False)
    assert (len(asked), states) == (1, ["connecting", "connected", "disconnected"])


async def test_a_client_whose_newer_connection_counts_stays_away() -> None:
    asked, let_in = refusing(401, times=0)
    states: list[State] = []
    async with gate(let_in) as there:  # type: ignore[arg-type] # made above
        client = Client(there.url, backoff=SOON, on_state=states.append)
        running = asyncio.create_task(client.run())
        link = await there.link()
        await link.accept(tools=False)
        await client.connected()
        await link.socket.close(4001, "replaced")
        await asyncio.wait_for(running, 60)
    assert (len(asked), states) == (1, ["connecting", "connected", "disconnected"])


@pytest.mark.parametrize("code", [1001, 1011, 1012, 1013])
async def test_after_any_other_close_it_comes_back(code: int) -> None:
    async with gate() as there, running(there) as client:
        link = await there.link()
        await link.accept(tools=False)
        await link.close(code)
        link = await there.link()
        hello = await link.accept(tools=False)
        assert hello["resume"] == "t1"
        await client.connected()


async def test_a_session_of_another_owner_is_a_refusal() -> None:
    async with gate() as there:
        client = Client(there.url, role="chat", session="theirs", backoff=SOON)
        running = asyncio.create_task(client.run())
        link = await there.link()
        assert link.path == "/ws/chat?session_id=theirs"
        await link.send("error", message="It is somebody else's.", code="SESSION_OWNER_MISMATCH")
        await link.close(1000)
        with pytest.raises(GatewayRefused, match="somebody else's"):
            await asyncio.wait_for(running, 60)


async def test_closing_says_goodbye_and_cancelling_says_that_it_may_come_back(tmp_path: Path) -> None:
    async with gate() as there:
        client = Client(there.url, backoff=SOON, state=tmp_path / "state")
        task = asyncio.create_task(client.run())
        link = await there.link()
        await link.accept(tools=False)
        client.close()
        client.close()
        await asyncio.wait_for(task, 60)
        await asyncio.wait_for(link.socket.wait_closed(), 60)
        assert link.socket.close_code == 1000
        client.close()  # nothing left to close

        task = asyncio.create_task(client.run())
        link = await there.link()
        await link.accept(tools=False)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 60)
        await asyncio.wait_for(link.socket.wait_closed(), 60)
        assert link.socket.close_code == 1001


async def test_a_message_that_is_no_frame_is_logged_and_skipped(caplog: pytest.LogCaptureFixture) -> None:
    async with gate() as there, running(there) as client:
        link = await there.link()
        await link.accept(tools=False)
        await client.connected()
        await link.socket.send("{")
        await link.socket.send(b"binary")
        await link.socket.send('{"type": "tool_call_request"}')
        await link.fence()
    assert "can't be read" in caplog.text


async def test_it_runs_once_at_a_time() -> None:
    async with gate() as there, running(there) as client:
        await (await there.link()).accept(tools=False)
        await client.connected()
        with pytest.raises(RuntimeError, match="runs already"):
            await client.run()


def test_waiting_grows_up_to_a_limit_and_is_spread() -> None:
    backoff = Backoff()
    assert [backoff.delay(attempt, 0.0) for attempt in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    assert backoff.delay(0, 1.0) == 1.5
    assert backoff.delay(1_000_000, 1.0) == 45.0


def test_a_gateway_on_this_computer_is_tried_again_within_seconds() -> None:
    for url in ("http://localhost:42617", "ws://127.0.0.1/ws/chat", "http://[::1]:1"):
        assert usual_backoff(Address(url)).delay(20, 1.0) == 4.5
    assert usual_backoff(Address("https://gate.example")) == Backoff()


class running:
    """A client that runs for a while."""

    def __init__(self, there: Gate) -> None:
        self._client = Client(there.url, "secret", backoff=SOON)

    async def __aenter__(self) -> Client:
        self._task = asyncio.create_task(self._client.run())
        return self._client

    async def __aexit__(self, *_: object) -> None:
        self._client.close()
        await asyncio.wait_for(self._task, 60)
