"""The bus between nodes: what arrives on other nodes, and what lost, doubled and forged messages do."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import get_args

import nats
import pytest

from handspan.bus.link import LinkOptions, NatsLink, hash_name
from handspan.bus.nats import NatsBus
from handspan.core.bus import BusEvent, DeviceChanged, TokenRevoked, ToolsChanged, TurnEvent
from handspan.core.errors import ConfigError
from handspan.core.events import TextArrived
from handspan.core.nodes import LinkDown, NoSuchNode
from tests.bus.rows import NEW, NodeRows
from tests.bus.test_bus import EVENTS
from tests.nats_engine import NatsEngine, need_server
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio
KEY = b"k" * 32


class Node:
    """One node of a test: its link, its bus, and what arrived."""

    def __init__(self, name: str, url: str, rows: NodeRows) -> None:
        self.name = name
        self.messages: list[tuple[str, bytes]] = []
        self.events: list[BusEvent] = []
        self.remote: list[bool] = []
        rows.nodes.setdefault(name, NEW)
        self.senders = rows.senders()
        self.link = NatsLink(LinkOptions((url,)), self._respond, self.senders)
        self.bus = NatsBus(strict=True)
        for kind in get_args(BusEvent):
            self.bus.subscribe(kind, self._hear)

    def _hear(self, event: BusEvent) -> None:
        self.events.append(event)
        self.remote.append(self.bus.is_remote)

    def _respond(self, kind: str, body: bytes) -> bytes | None:
        self.messages.append((kind, body))
        return b"answer to " + body if kind == "ask" else None


@asynccontextmanager
async def open_node(name: str, url: str, rows: NodeRows, key: bytes = KEY) -> AsyncIterator[Node]:
    """A node that follows the owner ann and the session s."""
    node = Node(name, url, rows)
    await node.senders.look()
    node.bus.follow_owner("ann")
    node.bus.follow_session("s")
    await node.link.open(key, name)
    node.bus.open(node.link, name)
    try:
        await node.link.flush()  # the server knows the subscriptions
        yield node
    finally:
        await node.link.close()


@asynccontextmanager
async def open_two(url: str, rows: NodeRows | None = None) -> AsyncIterator[tuple[Node, Node]]:
    """Two nodes. The second one's row is new to the first."""
    rows = rows or NodeRows()
    async with AsyncExitStack() as stack:
        yield (
            await stack.enter_async_context(open_node("a" * 32, url, rows)),
            await stack.enter_async_context(open_node("b" * 32, url, rows)),
        )


async def test_every_event_arrives_on_another_node_as_it_was_published_and_in_order(engine: NatsEngine) -> None:
    async with open_two(engine.url) as (one, other):
        for event in EVENTS:
            one.bus.publish(event)
        assert one.events == EVENTS and not any(one.remote)
        await until(lambda: len(other.events) >= len(EVENTS))
        assert sorted(map(repr, other.events)) == sorted(map(repr, EVENTS)) and all(other.remote)
        turns = [event for event in EVENTS if isinstance(event, TurnEvent)]
        assert [event for event in other.events if isinstance(event, TurnEvent)] == turns


async def test_an_event_for_the_other_nodes_is_not_heard_here(engine: NatsEngine) -> None:
    async with open_two(engine.url) as (one, other):
        one.bus.publish_elsewhere(ToolsChanged("ann"))
        await until(lambda: other.events == [ToolsChanged("ann")])
        assert one.events == []


async def test_events_of_other_owners_and_sessions_do_not_come_but_revocations_do(engine: NatsEngine) -> None:
    async with open_two(engine.url) as (one, other):
        one.bus.publish(ToolsChanged("bob"))
        one.bus.publish(TurnEvent("ann", "elsewhere", "t", TextArrived("x")))
        one.bus.publish(TokenRevoked("bob", "hash"))
        one.bus.publish(ToolsChanged(""))
        one.bus.publish(DeviceChanged("ann"))
        await until(lambda: DeviceChanged("ann") in other.events)
        await until(lambda: len(other.events) >= 3)
        assert set(map(type, other.events)) == {TokenRevoked, ToolsChanged, DeviceChanged}
        assert ToolsChanged("bob") not in other.events


async def test_a_node_that_follows_no_longer_gets_no_more_events(engine: NatsEngine) -> None:
    async with open_two(engine.url) as (one, other):
        ends = [other.bus.follow_owner("eve"), other.bus.follow_owner("eve")]
        await other.link.flush()
        one.bus.publish(ToolsChanged("eve"))
        await until(lambda: ToolsChanged("eve") in other.events)
        for end in ends:
            end()
            end()  # once is enough
        await other.link.flush()
        one.bus.publish(DeviceChanged("eve"))
        one.bus.publish(DeviceChanged("ann"))
        await until(lambda: DeviceChanged("ann") in other.events)
        assert DeviceChanged("eve") not in other.events


async def test_a_message_without_the_signature_of_a_node_changes_nothing(engine: NatsEngine) -> None:
    async with (
        open_two(engine.url) as (one, other),
        open_node("c" * 32, engine.url, NodeRows(), b"another key") as stranger,
    ):
        stranger.bus.publish(ToolsChanged("ann"))
        stranger.link.send(other.name, "frame", b"do it")
        client = await nats.connect(engine.url)
        await client.publish(f"hs1.o.{hash_name('ann')}", b"x" * 40)
        await client.publish(f"hs1.n.{other.name}.frame", b"")
        await client.flush()
        await client.close()
        with pytest.raises(TimeoutError):
            await stranger.link.request(other.name, "ask", b"?", 0.2)
        await until(lambda: other.link.signing.forged >= 5)
        one.bus.publish(DeviceChanged("ann"))
        await until(lambda: other.events)
        assert other.events == [DeviceChanged("ann")] and other.messages == []


async def test_a_signed_message_can_not_be_played_to_another_subject(engine: NatsEngine) -> None:
    async with open_two(engine.url) as (one, other):
        heard: list[bytes] = []
        client = await nats.connect(engine.url)

        async def keep(message: object) -> None:
            heard.append(message.data)  # type: ignore[attr-defined] # of a library

        await client.subscribe(f"hs1.n.{other.name}.*", cb=keep)
        await client.flush()
        await client.flush()  # the first one may overtake the subscription
        one.link.send(other.name, "harmless", b"body")
        await until(lambda: heard and other.messages)
        await client.publish(f"hs1.n.{other.name}.harmful", heard[0])
        await client.flush()
        await client.close()
        await until(lambda: other.link.signing.forged == 1)
        assert other.messages == [("harmless", b"body")]


async def test_an_event_that_comes_twice_is_dropped(engine: NatsEngine) -> None:
    async with open_two(engine.url) as (one, other):
        send = one.link.publish
        copies = iter((2, 1, 0, 1))

        def disturb(subject: str, body: bytes) -> None:
            for _ in range(next(copies)):
                send(subject, body)

        one.link.publish = disturb  # type: ignore[method-assign] # the wire that doubles and loses
        for text in "abcd":
            one.bus.publish(TurnEvent("ann", "s", "t", TextArrived(text)))
        await until(lambda: len(other.events) >= 3)
        texts = [event.event.text for event in other.events if isinstance(event, TurnEvent)]  # type: ignore[union-attr]
        assert texts == ["a", "b", "d"]


async def test_requests_get_their_response_and_a_node_that_is_not_there_is_known_at_once(engine: NatsEngine) -> None:
    async with open_two(engine.url) as (one, other):
        assert await one.link.request(other.name, "ask", b"this", 60) == b"answer to this"
        with pytest.raises(NoSuchNode):
            await one.link.request("nobody", "ask", b"this", 60)
        with pytest.raises(TimeoutError):
            await one.link.request(other.name, "tell", b"this", 0.05)
        await other.link.listen("d" * 32)
        assert await soon(one.link.request("d" * 32, "ask", b"this", 60)) == b"answer to this"
        with pytest.raises(NoSuchNode):
            await one.link.request(other.name, "ask", b"this", 60)


async def test_a_message_that_came_to_no_node_is_reported(engine: NatsEngine) -> None:
    async with open_two(engine.url) as (one, other):
        missed: list[str] = []
        one.link.send(other.name, "to", b"hello", lambda: missed.append("other"))
        one.link.send("c" * 32, "to", b"hello", lambda: missed.append("gone"))
        await until(lambda: missed and other.messages)
        assert missed == ["gone"] and other.messages == [("to", b"hello")]
        await one.link.close()
        one.link.send(other.name, "to", b"late", lambda: missed.append("closed"))
        assert missed == ["gone", "closed"]


async def test_the_link_comes_back_by_itself_when_the_server_was_killed() -> None:
    need_server()
    with NatsEngine() as server:
        async with open_two(server.url) as (one, other):
            server.stop()
            await until(lambda: not one.link.is_up and not other.link.is_up)
            one.bus.publish(ToolsChanged("ann"))  # lost, and no error
            assert one.link.lost >= 1
            with pytest.raises(LinkDown):
                await one.link.request(other.name, "ask", b"this", 1)
            server.start()
            await until(lambda: one.link.is_up and other.link.is_up and one.link.up_for < 60)
            await soon(other.link.flush())  # the server knows the subscriptions again
            assert await one.link.request(other.name, "ask", b"this", 60) == b"answer to this"
            one.bus.publish(DeviceChanged("ann"))
            await until(lambda: DeviceChanged("ann") in other.events)
            assert ToolsChanged("ann") not in other.events


async def test_the_link_comes_back_by_itself_when_the_server_has_closed_it_for_good(tmp_path: Path) -> None:
    need_server()
    config = tmp_path / "nats.conf"
    config.write_text("max_subscriptions: 6\n")
    with NatsEngine("-c", str(config)) as server:
        async with open_two(server.url) as (one, other):
            for session in "abcdef":  # one too many: the library takes the server's error for the end
                other.bus.follow_session(session)
            await until(lambda: not other.link.is_up)
            server.stop()
            config.write_text("")
            server.start()
            await until(lambda: one.link.is_up and other.link.is_up)
            await soon(other.link.flush())
            assert await one.link.request(other.name, "ask", b"this", 60) == b"answer to this"
            one.bus.publish(DeviceChanged("ann"))
            one.bus.publish(TurnEvent("ann", "f", "t", TextArrived("x")))
            await until(lambda: len(other.events) == 2)


async def test_a_server_that_is_not_there_or_refuses_the_user_is_named_with_the_remedy() -> None:
    need_server()
    link = NatsLink(LinkOptions(("nats://127.0.0.1:1",)), lambda kind, body: None, NodeRows().senders())
    with pytest.raises(ConfigError, match=r"cluster\.url: no connection to NATS"):
        await link.open(KEY, "n")
    with NatsEngine("--user", "ann", "--pass", "secret") as server:
        wrong = NatsLink(LinkOptions((server.url,), "ann", "wrong"), lambda kind, body: None, NodeRows().senders())
        with pytest.raises(ConfigError, match="credentials") as refused:
            await wrong.open(KEY, "n")
        assert "wrong" not in str(refused.value)
        right = NatsLink(LinkOptions((server.url,), "ann", "secret"), lambda kind, body: None, NodeRows().senders())
        await right.open(KEY, "n")
        assert right.is_up
        await right.close()
        assert not right.is_up
