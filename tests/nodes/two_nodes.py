"""Two nodes in one process, with everything that is between them: chance decides what is lost, doubled or late.

The product's parts are real: peers, their rows, relays, mirrors, probes, the bus and the engine. Only NATS and
PostgreSQL are played here: each message goes through bytes, and the rows are in memory. Time passes at once.
"""

import asyncio
import selectors
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import msgspec
from msgspec import structs

from handspan.config.gateway_settings import GatewaySettings
from handspan.config.settings import Settings
from handspan.config.store_settings import ClusterSettings
from handspan.core.agents import Agent
from handspan.core.bus import CallCompleted, ToolsChanged
from handspan.core.calls import ToolCall
from handspan.core.nodes import AddedClient, ClientNode, ClientRecord, MessageSender, NodeRecord, NoSuchNode
from handspan.core.principals import OPERATOR
from handspan.core.results import Pending, ToolResult
from handspan.core.values import Json
from handspan.engine.caller import Caller
from handspan.engine.engine import Engine
from handspan.gateway.clients.devices import Devices
from handspan.gateway.clients.late_results import LateResults
from handspan.gateway.clients.peer import Peer
from handspan.gateway.clients.peers import Peers
from handspan.gateway.clients.resume_tokens import ResumeTokens
from handspan.gateway.events import GatewayEvents
from handspan.gateway.nodes.cluster import Cluster
from handspan.gateway.parts import GatewayParts
from handspan.registry.registry import Registry
from handspan.sources.nodes.probes import Probes
from handspan.sources.offers import OfferRules
from handspan.testing import offer
from handspan.wire.ws import decode_client
from handspan.wire.ws_frames import Connect, FailureFrame, ResultFrame
from tests.gateway.clients.test_devices import BookOfNothing
from tests.memory_ledger import MemoryLedger
from tests.stores import open_artifacts

GRACE: Final = 30.0
LEASE: Final = 3.0
_DELAY: Final = 1.0
_REPLACED: Final = 4001
_OWNER: Final = OPERATOR.owner
_SETTLED: Final = 1000.0


class InstantLoop(asyncio.SelectorEventLoop):
    """A loop whose time passes as soon as nothing else is to be done."""

    def __init__(self) -> None:
        self.now = _SETTLED
        super().__init__(cast(Any, _InstantSelector(self)))

    def time(self) -> float:
        """Return the played time."""
        return self.now


class _InstantSelector(selectors.DefaultSelector):
    def __init__(self, loop: InstantLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        assert timeout is not None, "nothing is left that could happen"
        self._loop.now += max(0.0, timeout)
        return super().select(0)


class PlayedRows:
    """The rows of the database that nodes share."""

    def __init__(self) -> None:
        self.clients: dict[str, ClientRecord] = {}
        self.epoch = 0
        self.since: dict[str, float] = {}
        self.dead: set[str] = set()

    def declare_lost(self, node: str) -> None:
        """Count a node as lost, with its clients."""
        self.dead.add(node)
        self.clients = {peer: one for peer, one in self.clients.items() if one.node != node}


class PlayedBook:
    """The rows, as one node uses them: the part of `NodeBook` that calls between nodes need."""

    def __init__(self, rows: PlayedRows, own: str) -> None:
        self._rows = rows
        self.own = own
        self.codes: Any = None
        self.delay = 0.0
        """How long this node waits for its writes."""

    async def senders(self) -> Mapping[str, MessageSender]:
        return {}

    async def add_client(self, client: ClientRecord) -> AddedClient:
        since = asyncio.get_running_loop().time() - client.age
        await asyncio.sleep(self.delay)
        rows = self._rows
        if self.own in rows.dead:
            return AddedClient(0)
        if any(one.label == client.label and one.peer != client.peer for one in rows.clients.values()):
            return AddedClient(0)
        before = rows.clients.get(client.peer)
        if before is not None and before.node != client.node and rows.since[client.peer] > since:
            return AddedClient(0, newer=before.epoch)
        rows.epoch += 1
        rows.since[client.peer] = since
        version = 0 if before is None else before.version + 1
        rows.clients[client.peer] = structs.replace(client, epoch=rows.epoch, version=version)
        return AddedClient(rows.epoch, before.node if before is not None and before.node != client.node else "")

    async def store_tools(self, peer: str, epoch: int, tools: bytes) -> None:
        await asyncio.sleep(0)
        row = self._rows.clients.get(peer)
        if row is not None and row.epoch == epoch:
            self._rows.clients[peer] = structs.replace(row, tools=tools, version=row.version + 1)

    async def remove_client(self, peer: str, epoch: int) -> None:
        await asyncio.sleep(0)
        row = self._rows.clients.get(peer)
        if row is not None and row.epoch == epoch:
            del self._rows.clients[peer]

    async def client_nodes(self, owners: Sequence[str]) -> Sequence[ClientNode]:
        await asyncio.sleep(0)
        rows = self._rows.clients.values()
        return [ClientNode(one.peer, one.owner, one.node, one.epoch, one.version) for one in rows]

    async def clients(self, peers: Sequence[str]) -> Sequence[ClientRecord]:
        await asyncio.sleep(0)
        return [self._rows.clients[peer] for peer in peers if peer in self._rows.clients]

    async def nodes(self) -> Sequence[NodeRecord]:
        return ()

    async def describe(self, *, is_draining: bool, load: Mapping[str, float]) -> None: ...


class PlayedNats:
    """Carries messages between links. `fates` says what happens to the next ones."""

    def __init__(self) -> None:
        self.links: dict[str, PlayedLink] = {}
        self.fates: deque[str] = deque()
        self.happened: Counter[str] = Counter()

    def carry(self, deliver: Callable[[], None]) -> None:
        """Deliver a message as its fate wants it."""
        fate = self.fates.popleft() if self.fates else "pass"
        self.happened[fate] += 1
        loop = asyncio.get_running_loop()
        for _ in range({"lose": 0, "double": 2}.get(fate, 1)):
            loop.call_later(_DELAY if fate == "delay" else 0.0, deliver)


class PlayedLink:
    """The connection of one node. It fills `NodeLink`, and what the bus needs."""

    def __init__(self, nats: PlayedNats, respond: Callable[[str, bytes], bytes | None]) -> None:
        self._nats = nats
        self._respond = respond
        self._followed: dict[str, Callable[[str, bytes], None]] = {}
        self.is_up = True
        self.up_for = _SETTLED
        self.forged = self.lost = 0

    def send(self, node: str, kind: str, body: bytes, missed: Callable[[], None] | None = None) -> None:
        self._nats.carry(partial(self._deliver, node, kind, bytes(body)))

    def _deliver(self, node: str, kind: str, body: bytes) -> None:
        link = self._nats.links.get(node)
        if link is not None and self.is_up:
            link._respond(kind, body)

    async def request(self, node: str, kind: str, body: bytes, seconds: float) -> bytes:
        if node not in self._nats.links:
            raise NoSuchNode(f"No node listens as {node}.")
        answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        def come_back(answer: bytes) -> None:
            if not answered.done():
                answered.set_result(answer)

        def arrive() -> None:
            link = self._nats.links.get(node)
            answer = None if link is None else link._respond(kind, bytes(body))
            if answer is not None:
                self._nats.carry(partial(come_back, answer))

        self._nats.carry(arrive)
        async with asyncio.timeout(seconds):
            return await answered

    def publish(self, subject: str, body: bytes) -> None:
        for link in tuple(self._nats.links.values()):
            if link is not self and subject in link._followed:
                self._nats.carry(partial(link._hear, subject, bytes(body)))

    def _hear(self, subject: str, body: bytes) -> None:
        if self.is_up and subject in self._followed:
            self._followed[subject](subject, body)

    def follow(self, subject: str, receive: Callable[[str, bytes], None]) -> None:
        self._followed[subject] = receive

    def unfollow(self, subject: str) -> None:
        self._followed.pop(subject, None)


class PlayedNode:
    """One gateway: the parts that have to do with clients here and elsewhere."""

    def __init__(self, name: str, nats: PlayedNats, rows: PlayedRows, ledger: MemoryLedger, folder: Path) -> None:
        self.name = name
        self._nats = nats
        self._rows = rows
        book = self.book = PlayedBook(rows, name)
        settings = Settings(
            folder, folder, gateway=GatewaySettings(resume_grace=GRACE), cluster=ClusterSettings(url="nats://played")
        )
        registry, here = Registry(), SimpleNamespace()
        cluster = self.cluster = Cluster(
            settings,
            cast(Any, SimpleNamespace(nodes=book, artifacts=None, conversations=None, ledger=ledger)),
            lambda: cast(GatewayParts, here),
            lambda options, respond, senders: cast(Any, PlayedLink(nats, respond)),
        )
        self.link, bus = cast(PlayedLink, cluster.link), cluster.bus
        self.devices = Devices(BookOfNothing())
        unfinished: Any = SimpleNamespace(take_over=lambda peer, calls: None)
        self.peers = Peers(
            registry,
            OfferRules(),
            ResumeTokens(b"key"),
            self.devices,
            unfinished=unfinished,
            grace=GRACE,
            nodes=cluster,
        )
        self.late = LateResults(ledger, 1000, lambda kind: None)
        vars(here).update(
            nodes=cluster,
            peers=self.peers,
            unfinished=unfinished,
            devices=self.devices,
            late=self.late,
            app=SimpleNamespace(registry=registry),
            offer_rules=OfferRules(),
        )
        self._probes = Probes(cast(Any, book), self.link, cluster.mirrors, self._declare_lost)
        engine = self._engine = Engine(open_artifacts(folder), folder, ledger=ledger, bus=bus)
        self._caller = Caller(OPERATOR, Agent("General"), registry.toolbox(Agent("General"), OPERATOR))
        acknowledge = partial(GatewayEvents._acknowledge, cast(Any, SimpleNamespace(_parts=here)))
        bus.subscribe(CallCompleted, lambda event: None if bus.is_remote else acknowledge(event))
        bus.subscribe(ToolsChanged, lambda event: cluster.mirrors.hint(event.owner) if bus.is_remote else None)
        bus.open(cast(Any, self.link), name)
        bus.follow_owner(_OWNER)
        self._bus, self._box = bus, self._caller.box
        assert engine is not None

    async def open(self) -> None:
        """Take part in the work of both."""
        self._nats.links[self.name] = self.link
        self.cluster._takes_part = True
        rows, mirrors = self.cluster.client_rows, self.cluster.mirrors
        for look in (rows.write, rows.repeat, mirrors.look, self._probes.run):
            self.cluster.start(look())
        await self.cluster.mirrors.follow(_OWNER)

    async def kill(self) -> None:
        """Be gone, with all tasks; nothing more is sent."""
        self.link.is_up = False
        self._nats.links.pop(self.name, None)
        self.cluster._takes_part = False
        for task in tuple(self.cluster._tasks):
            task.cancel()
        for peer in self.peers:
            if peer.grace is not None:
                peer.grace.cancel()
        for mirror in self.cluster.mirrors:
            mirror._stop_grace()
        await asyncio.sleep(0)

    async def _declare_lost(self, node: str) -> None:
        self._rows.declare_lost(node)
        self.cluster.mirrors.hint("")

    async def call(self, call_id: str, tool: str, arguments: dict[str, Json]) -> ToolResult | Pending:
        """Return the result of a call from this node."""
        return await self._engine.call(ToolCall(tool, arguments, call_id), self._caller)

    @property
    def tools(self) -> set[str]:
        """The names of all tools that can be called here."""
        return {spec.name for spec in self._box.specs()}

    def waiting(self) -> list[str]:
        """What still waits here for a client."""
        calls = [call for mirror in self.cluster.mirrors for call in mirror.calls.open]
        calls += [call for peer in self.peers for call in peer.calls.open]
        return calls + [peer.id for peer in self.peers if peer.relay.is_awaited]


class PlayedDevice:
    """A device that comes back, and runs nothing twice (ws.md 6.3)."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.socket: PlayedSocket | None = None
        self.away_since: float | None = 0.0
        self.longest_away = 0.0
        self._resume: str | None = None
        self.seen: dict[str, str] = {}
        """What each call is for."""
        self.ran: Counter[str] = Counter()
        self.answers: dict[str, str] = {}
        self.unacknowledged: set[str] = set()
        self.was_sent_away = False
        """Whether its newest connection was closed in favour of an older one."""

    @property
    def open_calls(self) -> list[str]:
        """Calls without an answer."""
        return [call for call in self.seen if call not in self.answers]

    def connect(self, node: PlayedNode) -> None:
        """Connect to a node. An older connection stays until its node notices."""
        self.note_return()
        frame = Connect(role="device", label=self.label, capabilities=["resume", "cancel"], resume=self._resume)
        socket = self.socket = PlayedSocket(self, node)
        peer = socket.peer = node.peers.meet(frame, OPERATOR, "token", "").peer
        self._resume = node.peers.resume_token(peer)
        peer.up(socket)
        for call in sorted(self.unacknowledged):
            self._send(call)
        peer.tools.register([offer("work", timeout=600)])
        peer.tools.resume_calls()
        node.peers.publish_tools(peer)

    def drop(self) -> None:
        """Lose the connection."""
        socket, self.socket = self.socket, None
        if socket is not None:
            self.note_loss()
            socket.lose()

    def receive(self, data: bytes) -> None:
        """Take a frame of the gateway."""
        frame = msgspec.json.decode(data)
        if frame["type"] == "tool_call_request" and frame["id"] not in self.seen:
            self.seen[frame["id"]] = frame["args"]["for"]
            self.ran[frame["args"]["for"]] += 1
        elif frame["type"] == "result_acknowledged":
            self.unacknowledged.difference_update(frame.get("ids") or [frame["id"]])

    def answer(self, call: str) -> None:
        """Answer a call, now or as soon as there is a connection."""
        self.answers[call] = f"done: {self.seen[call]}"
        self.unacknowledged.add(call)
        self._send(call)

    def _send(self, call: str) -> None:
        if self.socket is not None:
            self.socket.take({"type": "tool_result", "id": call, "output": self.answers[call]})

    def note_loss(self) -> None:
        """Measure from now on how long it is away."""
        if self.away_since is None:
            self.away_since = asyncio.get_running_loop().time()

    def note_return(self) -> None:
        """Note how long it was away."""
        if self.away_since is not None:
            self.longest_away = max(self.longest_away, asyncio.get_running_loop().time() - self.away_since)
            self.away_since = None


class PlayedSocket:
    """One connection of a device. It fills `PeerSocket`."""

    def __init__(self, device: PlayedDevice, node: PlayedNode) -> None:
        self._device = device
        self.node = node
        self.peer: Peer
        self._is_open = True

    def send_text(self, data: bytes) -> None:
        asyncio.get_running_loop().call_soon(self._arrive, bytes(data))

    def _arrive(self, data: bytes) -> None:
        if self._is_open and self.node.link.is_up:
            self._device.receive(data)

    def take(self, frame: dict[str, Json]) -> None:
        """Let the node take a frame of the device, as its WebSocket door does."""
        if not self._is_open or not self.node.link.is_up:
            return
        answer = decode_client(msgspec.json.encode(frame))
        assert isinstance(answer, ResultFrame | FailureFrame)
        peer = self.peer
        if peer.calls.receive_answer(answer) or peer.relay.take_answer(answer):
            return
        self.node.late.take(peer, answer)

    def lose(self) -> None:
        """Be gone. A node that lives notices it."""
        self._is_open = False
        if self.node.link.is_up:
            self.node.peers.lose(self.peer, self)

    def close(self, code: int = 1000, reason: str = "") -> None:
        self._is_open = False
        if self._device.socket is self:
            self._device.was_sent_away |= code == _REPLACED
            self._device.socket = None
            self._device.note_loss()
        asyncio.get_running_loop().call_soon(self.node.peers.lose, self.peer, self, code)

    def check_alive(self, seconds: float, then: Callable[[], None]) -> None:
        then()


Running = Coroutine[Any, Any, Any]
