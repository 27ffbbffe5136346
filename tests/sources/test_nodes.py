"""Clients of other nodes, without a network: what is lost, doubled, too large or too much (SPEC K2, K3)."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from handspan.core.context import ToolContext
from handspan.core.nodes import SHARED, ClientNode, ClientRecord
from handspan.core.principals import ToolScope
from handspan.registry.registry import Registry
from handspan.sources.nodes import messages
from handspan.sources.nodes.hosted import HostedServer
from handspan.sources.nodes.messages import ClientLost, FromClient, LargeFrames, ToClient
from handspan.sources.nodes.mirror import Mirror
from handspan.sources.nodes.mirrors import Mirrors
from handspan.sources.nodes.relay import Relay
from handspan.sources.offers import OfferRules, SchemaCache
from handspan.sources.ws.calls import LostCall, RemoteCall, RemoteCalls
from handspan.sources.ws.tools import Waiting
from handspan.wire.ws_frames import FailureFrame, ProgressFrame, ResultFrame
from tests.stores import open_artifacts
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio


class Wire:
    """What two nodes say to each other. A filter may lose or double it."""

    def __init__(self) -> None:
        self.disturb: Callable[[str], int] = lambda kind: 1
        self.ends: dict[str, Callable[[str, bytes], object]] = {}
        self.is_up, self.up_for = True, 100.0

    def send(self, node: str, kind: str, body: bytes, missed: Callable[[], None] | None = None) -> None:
        if missed is not None and node not in self.ends:
            asyncio.get_running_loop().call_soon(missed)
            return
        for _ in range(self.disturb(kind)):
            asyncio.get_running_loop().call_soon(self.ends[node], kind, body)

    async def request(self, node: str, kind: str, body: bytes, seconds: float) -> bytes:
        raise TimeoutError


class Rows:
    """The rows of clients, as a test wants them."""

    own = "caller"

    def __init__(self) -> None:
        self.records: dict[str, ClientRecord] = {}

    async def client_nodes(self, owners: Sequence[str]) -> list[ClientNode]:
        found = [one for one in self.records.values() if one.owner in owners]
        return [ClientNode(one.peer, one.owner, one.node, one.epoch, one.version) for one in found]

    async def clients(self, peers: Sequence[str]) -> list[ClientRecord]:
        return [self.records[peer] for peer in peers if peer in self.records]


class Pair:
    """A node that calls, and the node that has the client's connection."""

    def __init__(self, folder: Path) -> None:
        self.wire = self.link = Wire()
        self.frames = LargeFrames(open_artifacts(folder))
        self.book = self.rows = Rows()
        self.registry, self.schemas, self.rules, self.grace = Registry(), SchemaCache(), OfferRules(), 60.0
        self.most_calls = 3
        self.late_ones: list[str] = []
        self.to_client: list[Any] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.wire.ends = {"owner": self._at_owner, "caller": self._at_caller}
        self.client_calls = RemoteCalls(frozenset({"resume"}))
        self.relay = self.new_relay(1)
        self.mirrors = Mirrors(self)  # type: ignore[arg-type] # a test's own node

    def new_relay(self, epoch: int) -> Relay:
        """A new connection of the client."""
        relay = Relay("p1", "ann", self.client_calls, self._to_client, self)
        relay.epoch = epoch
        return relay

    def record(self, epoch: int = 1, *capabilities: str, tools: Sequence[str] = ("add",)) -> ClientRecord:
        """The row of the client."""
        offers = [{"name": name, "description": name, "parameters": {"type": "object"}} for name in tools]
        return ClientRecord(
            peer="p1", owner="ann", node="owner", epoch=epoch, role="device", label="phone", session="", prefix=True,
            capabilities=capabilities or ("resume", "progress", "deadline"), tools=msgspec.json.encode(offers),
            version=epoch,
        )  # fmt: skip

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    def take_waiting(self, record: ClientRecord) -> Waiting:
        return Waiting()

    def appear(self, mirror: Mirror) -> None: ...

    def disappear(self, mirror: Mirror) -> None: ...

    def late(self, mirror: Mirror, frame: ResultFrame | FailureFrame) -> None:
        self.late_ones.append(frame.call)

    def requests(self) -> list[Any]:
        """The requests that the client got."""
        return [frame for frame in self.to_client if frame["type"] == "tool_call_request"]

    def _to_client(self, data: bytes) -> None:
        self.to_client.append(msgspec.json.decode(data))

    def _at_owner(self, kind: str, body: bytes) -> None:
        assert kind == messages.TO_CLIENT
        message = msgspec.msgpack.decode(body, type=ToClient)
        if message.epoch != self.relay.epoch:
            self.wire.send("caller", messages.GONE, messages.encode(ClientLost("ann", "p1", message.epoch)))
        elif message.stored:
            self.start(self._deliver(message))
        else:
            self.relay.deliver(message, message.frame)

    async def _deliver(self, message: ToClient) -> None:
        frame = await self.frames.read(message.stored, message.owner)
        assert frame is not None
        self.relay.deliver(message, frame)

    def _at_caller(self, kind: str, body: bytes) -> None:
        if kind == messages.FROM_CLIENT:
            self.mirrors.receive(msgspec.msgpack.decode(body, type=FromClient))
        else:
            self.mirrors.lose(msgspec.msgpack.decode(body, type=ClientLost))


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    """Two nodes with one client, which the caller knows."""
    pair = Pair(tmp_path)
    pair.rows.records["p1"] = pair.record()
    pair.start(pair.mirrors.look())
    await pair.mirrors.follow("ann")
    yield pair
    pair.mirrors.close()
    pair.stop()


def begin(pair: Pair, ctx: ToolContext, call: str = "c1", **arguments: Any) -> "asyncio.Task[Any]":
    """Run the tool of the client."""
    entry = next(entry for entry in pair.registry if entry.spec.name == "phone__add")
    assert entry.scope == ToolScope("owner", "ann") and entry.facts.outlives
    ctx.call_id = call
    return asyncio.ensure_future(entry.tool.run(arguments, ctx))


async def test_all_requests_of_an_owner_who_is_new_here_wait_until_the_clients_are_known(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.rows.records["p2"] = msgspec.structs.replace(pair.record(), peer="p2", owner="bob", label="tablet")
    may_read, look = asyncio.Event(), pair.rows.client_nodes

    async def client_nodes(owners: Sequence[str]) -> list[ClientNode]:
        await may_read.wait()
        return await look(owners)

    monkeypatch.setattr(pair.rows, "client_nodes", client_nodes)
    first, second = (asyncio.create_task(pair.mirrors.follow("bob")) for _ in range(2))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not first.done() and not second.done()
    may_read.set()
    assert [await soon(first), await soon(second)] == [True, False]
    assert pair.mirrors.find("p2") is not None


async def test_a_call_its_progress_and_its_answer_travel(pair: Pair, ctx: ToolContext, progress: list[Any]) -> None:
    running = begin(pair, ctx, a=1)
    await until(pair.requests)
    assert pair.relay.take_progress(ProgressFrame(id="c1", value="half"))
    assert pair.relay.take_answer(ResultFrame(id="c1", output=3))
    assert await soon(running) == 3 and progress == ["half"]
    assert not pair.relay.take_answer(ResultFrame(id="unknown", output=3))


async def test_a_doubled_request_runs_once_and_a_doubled_answer_counts_once(pair: Pair, ctx: ToolContext) -> None:
    pair.wire.disturb = lambda kind: 2
    running = begin(pair, ctx)
    await until(pair.requests)
    pair.relay.take_answer(ResultFrame(id="c1", output=4))
    assert await soon(running) == 4
    await until(lambda: not pair.relay.is_awaited)
    assert len(pair.requests()) == 1 and pair.late_ones == []


async def test_a_lost_request_and_a_lost_answer_are_repaired_under_the_same_id(pair: Pair, ctx: ToolContext) -> None:
    pair.wire.disturb = lambda kind: 0
    running = begin(pair, ctx)
    await until(lambda: "c1" in pair.mirrors.find("p1").calls.open)  # type: ignore[union-attr] # it is there
    assert not pair.relay.knows("c1", "caller")
    pair.wire.disturb = lambda kind: 1
    pair.mirrors.find("p1").calls.ask_again("c1")  # type: ignore[union-attr] # what a probe does
    await until(pair.requests)
    pair.wire.disturb = lambda kind: 0
    pair.relay.take_answer(ResultFrame(id="c1", output=5))
    pair.wire.disturb = lambda kind: 1
    assert pair.relay.knows("c1", "caller")  # a probe sends the answer again
    assert await soon(running) == 5 and len(pair.requests()) == 1


async def test_after_a_drop_the_call_is_sent_again_over_the_new_connection(pair: Pair, ctx: ToolContext) -> None:
    running = begin(pair, ctx)
    await until(pair.requests)
    pair.mirrors.lose(ClientLost("ann", "p1", 1))
    assert [entry for entry in pair.registry if entry.spec.name == "phone__add"] == []
    pair.relay = pair.new_relay(2)
    pair.relay.keep_early(ResultFrame(id="c1", output=6))  # the client sends what was not acknowledged, first of all
    pair.rows.records["p1"] = pair.record(2)
    pair.mirrors.hint("ann")
    assert await soon(running) == 6
    assert len(pair.requests()) == 1


async def test_a_call_that_has_found_its_tool_when_the_client_drops_waits_for_it(pair: Pair, ctx: ToolContext) -> None:
    running = begin(pair, ctx)  # its first step comes after the drop
    pair.mirrors.lose(ClientLost("ann", "p1", 1))
    pair.relay = pair.new_relay(2)
    pair.rows.records["p1"] = pair.record(2)
    pair.mirrors.hint("ann")
    await until(pair.requests)
    pair.relay.take_answer(ResultFrame(id="c1", output=9))
    assert await soon(running) == 9


async def test_an_answer_that_was_looked_up_while_its_node_asked_for_it_is_passed_on(
    pair: Pair, ctx: ToolContext
) -> None:
    running = begin(pair, ctx)
    await until(pair.requests)
    pair.relay.keep_early(ResultFrame(id="c1", output=10))
    assert await soon(running) == 10


async def test_a_client_that_can_not_resume_ends_its_calls_with_its_connection(pair: Pair, ctx: ToolContext) -> None:
    pair.rows.records["p1"] = pair.record(2, "deadline")
    pair.relay = pair.new_relay(2)
    pair.mirrors.hint("ann")
    await until(lambda: pair.mirrors.find("p1").record.epoch == 2)  # type: ignore[union-attr] # it is there
    running = begin(pair, ctx)
    await until(pair.requests)
    del pair.rows.records["p1"]
    pair.mirrors.hint("ann")
    with pytest.raises(Exception, match="its outcome is unknown"):
        await soon(running)


async def test_what_is_too_large_for_a_message_goes_by_reference(pair: Pair, ctx: ToolContext) -> None:
    running = begin(pair, ctx, text="y" * 300_000)
    await until(pair.requests)
    assert pair.requests()[0]["args"] == {"text": "y" * 300_000}
    pair.relay.take_answer(ResultFrame(id="c1", output="x" * 300_000))
    assert await soon(running) == "x" * 300_000


async def test_too_many_calls_for_one_client_are_refused_as_busy(pair: Pair, ctx: ToolContext, tmp_path: Path) -> None:
    waiting = [begin(pair, msgspec.structs.replace(ctx), f"c{number}") for number in range(4)]
    with pytest.raises(Exception, match="open calls of other nodes") as refused:
        await soon(waiting[3])
    assert getattr(refused.value, "code", "") == "busy"
    for number in range(3):
        pair.relay.take_answer(ResultFrame(id=f"c{number}", output=number))
    assert await soon(asyncio.gather(*waiting[:3])) == [0, 1, 2]


async def test_an_answer_that_is_late_or_of_another_owner_is_no_answer(pair: Pair, ctx: ToolContext) -> None:
    frame = b'{"type":"tool_result","id":"c9","output":1,"success":true}'
    pair.mirrors.receive(FromClient("ann", "p1", frame))
    assert pair.late_ones == ["c9"]
    running = begin(pair, ctx)
    await until(pair.requests)
    forged = b'{"type":"tool_result","id":"c1","output":"forged","success":true}'
    pair.mirrors.receive(FromClient("eve", "p1", forged))
    pair.mirrors.receive(FromClient("ann", "p2", forged))
    pair.mirrors.receive(FromClient("ann", "p1", b"not a frame"))
    pair.relay.take_answer(ResultFrame(id="c1", output=7))
    assert await soon(running) == 7


async def test_the_node_of_the_client_takes_over_a_call_of_a_lost_node_without_sending_it_again(pair: Pair) -> None:
    lost = ToClient("lost", "ann", "p1", 1)
    pair.relay.deliver(lost, b'{"type":"tool_call_request","id":"c1","name":"add","args":{}}')
    pair.relay.deliver(lost, b'{"type":"tool_call_request","id":"c2","name":"add","args":{}}')
    pair.wire.ends["lost"] = lambda kind, body: None
    pair.relay.take_answer(ResultFrame(id="c1", output=8))
    answer = pair.relay.release("c1")
    assert isinstance(answer, ResultFrame) and answer.output == 8
    assert pair.relay.release("c2") is True
    assert pair.relay.release("c2") is False and pair.relay.release("c9") is False
    assert len(pair.requests()) == 2


async def test_a_call_of_a_server_is_answered_also_when_its_cancel_comes_right_behind_it(
    pair: Pair, tmp_path: Path
) -> None:
    ran: list[str] = []

    async def run(name: str, arguments: Any, ctx: ToolContext) -> str:
        ran.append(ctx.call_id)
        return "ran"

    hosted = HostedServer("mcp-1", 1, run, pair, open_artifacts(tmp_path / "server"), tmp_path)
    for frame in (
        b'{"type":"tool_call_request","id":"c1","name":"add","args":{}}',
        b'{"type":"tool_cancel","id":"c1","reason":"aborted"}',
    ):
        hosted.deliver(ToClient("caller", SHARED, "mcp-1", 1, frame), frame)
    await soon(hosted.end())
    assert b"cancelled" in hosted.relay.carried["c1"].answer and not hosted.relay.is_awaited and ran == []


async def test_a_node_takes_over_the_calls_that_its_own_server_runs_for_a_lost_node(pair: Pair, tmp_path: Path) -> None:
    ran: list[str] = []
    goes_on = asyncio.Event()

    async def run(name: str, arguments: Any, ctx: ToolContext) -> str:
        ran.append(ctx.call_id)
        if name == "slow":
            await goes_on.wait()
        if name == "asks":
            await ctx.ask("input", "Which colour?")
        return f"{name} has run"

    pair.wire.ends["lost"] = lambda kind, body: None
    hosted = HostedServer("mcp-1", 1, run, pair, open_artifacts(tmp_path / "server"), tmp_path)

    def request(call_id: str, name: str) -> None:
        frame = msgspec.json.encode({"type": "tool_call_request", "id": call_id, "name": name, "args": {}})
        hosted.deliver(ToClient("lost", SHARED, "mcp-1", 1, frame), frame)

    def take_over(call_id: str) -> RemoteCall:
        call = RemoteCall(call_id, "", {}, None)
        hosted.take_over(call)
        return call

    for call_id, name in (("c1", "fast"), ("c2", "slow"), ("c3", "asks")):
        request(call_id, name)
    await until(lambda: len(ran) == 3 and bool(hosted.relay.carried["c1"].answer))
    answered, running, asking, unknown = map(take_over, ("c1", "c2", "c3", "c4"))
    assert answered.outcome.result() == ResultFrame(id="c1", output="fast has run")
    assert not running.outcome.done()
    hosted.cancel_of({"lost"})
    goes_on.set()
    assert await soon(running.outcome) == ResultFrame(id="c2", output="slow has run")
    refused = await soon(asking.outcome)
    assert isinstance(refused, FailureFrame) and "can't be asked" in str(refused.error)
    assert unknown.outcome.result() == LostCall(False, "The MCP server lost the node of the caller")
    request("c4", "fast")  # it was on its way all the time
    await soon(hosted.end())
    assert ran == ["c1", "c2", "c3"]
