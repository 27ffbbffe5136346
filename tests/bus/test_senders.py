"""Messages that are sent again byte for byte: each counts once, and only while its sender is there (SPEC K)."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import nats
import pytest

from handspan.bus.senders import WINDOW, ReceivedNumbers, Senders
from handspan.core.bus import DeviceChanged, ToolsChanged
from handspan.core.nodes import MessageSender
from tests.bus.rows import NEW, OLD, NodeRows
from tests.bus.test_nats import KEY, Node, open_node, open_two
from tests.nats_engine import NatsEngine
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio
ONE, OTHER, THIRD = "a" * 32, "b" * 32, "c" * 32


class Recorder:
    """A program on NATS that records what nodes send, and sends it again."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.recorded: list[tuple[str, str, bytes]] = []

    async def keep(self, message: Any) -> None:
        """Record a message."""
        self.recorded.append((message.subject, message.reply, message.data))

    async def replay(self, count: int) -> None:
        """Send the first messages that were recorded again."""
        for subject, _, data in self.recorded[:count]:
            await self._client.publish(subject, data)
        await self._client.flush()


@asynccontextmanager
async def recording(url: str) -> AsyncIterator[Recorder]:
    """A recorder of all subjects of nodes."""
    client = await nats.connect(url)
    recorder = Recorder(client)
    await client.subscribe("hs1.>", cb=recorder.keep)
    await client.flush()
    await client.flush()  # the first one may overtake the subscription
    try:
        yield recorder
    finally:
        await client.close()


async def say_all(one: Node, other: Node, recorder: Recorder) -> None:
    """Let a node send each kind of message, and wait until each has arrived."""
    one.bus.publish(ToolsChanged("ann"))
    one.link.send(other.name, "frame", b"do it")
    assert await one.link.request(other.name, "ask", b"this", 60) == b"answer to this"
    await until(lambda: len(other.events) == 1 and len(other.messages) == 2 and len(recorder.recorded) == 3)


async def test_a_recorded_message_counts_once(engine: NatsEngine) -> None:
    async with open_two(engine.url) as (one, other), recording(engine.url) as recorder:
        await say_all(one, other, recorder)
        await recorder.replay(3)
        await until(lambda: other.link.signing.repeated == 3)
        one.bus.publish(DeviceChanged("ann"))
        await until(lambda: len(other.events) == 2)
        assert other.events == [ToolsChanged("ann"), DeviceChanged("ann")] and len(other.messages) == 2


async def test_a_recorded_message_changes_nothing_at_a_node_that_joins_or_follows_later(engine: NatsEngine) -> None:
    rows = NodeRows()
    async with open_two(engine.url, rows) as (one, other), recording(engine.url) as recorder:
        for _ in range(WINDOW + 2):  # the oldest message is below the window then
            one.bus.publish(ToolsChanged("eve"))
        await until(lambda: len(recorder.recorded) == WINDOW + 2)
        rows.nodes[ONE] = MessageSender(is_numbered=True, sent=one.link.signing.sent)
        async with open_node(THIRD, engine.url, rows) as third:
            one.bus.publish(ToolsChanged(""))
            await until(lambda: other.events and third.events)
            for node in (other, third):
                node.bus.follow_owner("eve")
                await node.link.flush()
            await recorder.replay(1)
            await until(lambda: other.link.signing.repeated == third.link.signing.repeated == 1)
            one.bus.publish(DeviceChanged("eve"))
            for node in (other, third):
                await until(lambda node=node: len(node.events) == 2)  # type: ignore[misc] # mypy wants no default
                assert node.events == [ToolsChanged(""), DeviceChanged("eve")]


async def test_a_sender_that_is_new_is_looked_up_once_and_its_messages_arrive_in_order(engine: NatsEngine) -> None:
    rows = NodeRows()
    async with open_two(engine.url, rows) as (one, other):
        before = rows.reads
        for number in range(20):  # the first node joined before the second had a row
            other.link.send(one.name, "frame", b"%d" % number)
        await until(lambda: len(one.messages) == 20)
        assert [body for _, body in one.messages] == [b"%d" % number for number in range(20)]
        assert rows.reads == before + 1


async def test_a_sender_that_is_over_is_refused_and_looked_up_once(engine: NatsEngine) -> None:
    rows = NodeRows()
    async with open_two(engine.url, rows) as (one, other), recording(engine.url) as recorder:
        await say_all(one, other, recorder)
        del rows.nodes[ONE]
        await other.senders.look()
        before = rows.reads
        for _ in range(2):
            await recorder.replay(3)
        one.link.send(other.name, "frame", b"late")
        await until(lambda: other.senders.refused == 7)
        assert rows.reads == before + 1 and len(other.messages) == 2
        rows.nodes[THIRD] = NEW
        await one.link.listen(THIRD)  # it joins again, as another incarnation
        one.link.send(other.name, "frame", b"again")
        await until(lambda: other.messages[-1] == ("frame", b"again"))


async def test_without_the_database_messages_of_known_senders_arrive_and_others_are_asked_for_again(
    engine: NatsEngine,
) -> None:
    rows = NodeRows()
    async with open_two(engine.url, rows) as (one, other):
        rows.is_away = True
        one.link.send(other.name, "frame", b"known")
        await until(lambda: other.messages)
        other.link.send(one.name, "frame", b"lost")
        await until(lambda: one.senders.refused == 1)
        rows.is_away = False
        other.link.send(one.name, "frame", b"found")
        await until(lambda: one.messages)
        assert one.messages == [("frame", b"found")]


async def test_versions_mix_while_a_node_of_the_older_one_is_there(
    engine: NatsEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = NodeRows()
    rows.nodes[THIRD] = OLD
    async with open_two(engine.url, rows) as (one, other), recording(engine.url) as recorder:
        await say_all(one, other, recorder)
        for subject, _, data in recorder.recorded[:3]:  # as the older version signs and reads them
            signing = hashlib.blake2b(subject.encode(), key=KEY, digest_size=16)
            signing.update(b"\0" + data[16:])
            assert data[:16] == signing.digest()
        del rows.nodes[THIRD]
        await one.senders.look()
        one.link.send(other.name, "frame", b"numbered")  # the other node still knows of the older one
        await until(lambda: other.messages[-1] == ("frame", b"numbered"))
        await other.senders.look()
        monkeypatch.setattr(other.senders, "_plain_until", 0.0)  # the time for late messages is over
        await recorder.replay(3)
        await until(lambda: other.link.signing.forged == 3)
        assert len(other.messages) == 3


async def open_senders(sent: int = 0) -> Senders:
    rows = NodeRows()
    rows.nodes[ONE] = MessageSender(is_numbered=True, sent=sent)
    found = rows.senders()
    await found.look()
    return found


async def test_each_number_counts_once_in_any_order_inside_the_window() -> None:
    numbers = list(range(1, 4 * WINDOW))
    chance = Random(7)
    received, accepted = ReceivedNumbers(await open_senders()), []
    while numbers:  # each of the next hundred may come first, and every number comes twice
        number = numbers.pop(chance.randrange(min(100, len(numbers))))
        accepted += [number for _ in range(2) if received.add(ONE.encode(), number)]
    assert sorted(accepted) == list(range(1, 4 * WINDOW))


@pytest.mark.parametrize(("number", "counts"), [(5000 - WINDOW, False), (5001 - WINDOW, True), (5000, True)])
async def test_what_is_below_the_window_is_refused(number: int, counts: bool) -> None:
    received = ReceivedNumbers(await open_senders(5000))
    assert received.add(ONE.encode(), number) is counts
    assert not received.add(ONE.encode(), number)
    assert received.add(ONE.encode(), 10_000) and not received.add(ONE.encode(), 5001)


async def test_two_looks_at_once_leave_the_later_answer() -> None:
    answers = [asyncio.get_running_loop().create_future() for _ in range(2)]
    left = list(answers)
    found = Senders(lambda: left.pop(0))
    looks = [asyncio.create_task(found.look()) for _ in range(2)]
    answers[1].set_result({ONE: NEW, OTHER: NEW})
    answers[0].set_result({ONE: NEW})
    await soon(asyncio.gather(*looks))
    assert found.highest == {ONE.encode(): 0, OTHER.encode(): 0}


class SlowRows:
    """The rows of nodes in a database whose answers come when they are let go, as they were when asked for."""

    def __init__(self) -> None:
        self.nodes: dict[str, MessageSender] = {}
        self.asked: list[asyncio.Future[None]] = []

    async def read(self) -> dict[str, MessageSender]:
        """Return the rows of the moment of the question."""
        rows = dict(self.nodes)
        self.asked.append(asyncio.get_running_loop().create_future())
        await self.asked[-1]
        return rows

    async def answer(self, number: int) -> None:
        """Let the answer of this question go."""
        await until(lambda: len(self.asked) > number)
        self.asked[number].set_result(None)


async def test_a_sender_that_joins_while_the_database_is_read_is_asked_for_again() -> None:
    rows, taken = SlowRows(), list[str]()
    found = Senders(rows.read)
    found.look_for(ONE.encode(), lambda: taken.append("of one that is over"))
    await until(lambda: len(rows.asked) == 1)
    rows.nodes[OTHER] = NEW
    found.look_for(OTHER.encode(), lambda: taken.append("of one that is new"))
    await rows.answer(0)
    await rows.answer(1)
    await until(lambda: bool(taken))
    assert taken == ["of one that is new"] and found.refused == 1


async def test_messages_that_wait_come_before_later_ones_though_another_look_finds_their_sender() -> None:
    rows, taken = SlowRows(), list[int]()
    rows.nodes[ONE] = NEW
    found = Senders(rows.read)
    look = asyncio.create_task(found.look())
    await until(lambda: len(rows.asked) == 1)
    found.look_for(ONE.encode(), lambda: taken.append(1))
    await rows.answer(0)
    await soon(look)
    assert ONE.encode() in found.highest and taken == [1]
    await found.close()
