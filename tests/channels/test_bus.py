"""The message bus: bounded queues in order, clear errors, and nothing that one channel does to another."""

import asyncio

import pytest

from handspan.channels.bus import ChannelQueue, MessageBus
from handspan.config.settings import ChannelSettings
from handspan.core.channels import OutgoingMessage
from handspan.core.errors import ErrorCode, ToolError
from tests.waiting import soon

pytestmark = pytest.mark.anyio


class Gate:
    """A channel that delivers when it is told to."""

    def __init__(self, *, is_open: bool = True) -> None:
        self.open = asyncio.Event()
        if is_open:
            self.open.set()
        self.delivered: list[str] = []

    async def deliver(self, message: OutgoingMessage) -> str:
        await self.open.wait()
        if message.content == "bad":
            raise ToolError("network_error", "No.")
        if message.content == "worse":
            raise ZeroDivisionError
        self.delivered.append(message.content)
        return str(len(self.delivered))


def bus_of(queue: int = 1024, **channels: Gate | str) -> MessageBus:
    settings = ChannelSettings(queue=queue)
    return MessageBus({name: ChannelQueue(name, "webhook", settings, one) for name, one in channels.items()})


def message(content: str, channel: str = "a", owner: str = "operator") -> OutgoingMessage:
    return OutgoingMessage(channel, "1", content, owner)


async def failure(code: ErrorCode, bus: MessageBus, sent: OutgoingMessage) -> str:
    with pytest.raises(ToolError) as raised:
        await soon(bus.send(sent))
    assert raised.value.code == code, raised.value
    return raised.value.message


async def test_an_unknown_channel_is_refused_with_the_list_of_the_others() -> None:
    bus = bus_of(a=Gate(), telegram=Gate())
    text = await failure("invalid_arguments", bus, message("x", "telegran"))
    assert text == "There is no channel 'telegran'. Did you mean 'telegram'? The channels are: a, telegram."
    assert "There is none: the setting `channels` adds one." in await failure(
        "invalid_arguments", bus, message("x", owner="eve")
    )


async def test_a_channel_whose_settings_are_wrong_says_what_is_wrong() -> None:
    bus = bus_of(a="channels.a.token is missing.", b=Gate())
    assert "channels.a.token is missing" in await failure("tool_not_available", bus, message("x"))
    assert bus.problem == ""
    assert "channels.a.token" in bus_of(a="channels.a.token is missing.").problem
    assert "setting `channels`" in bus_of().problem


async def test_a_full_queue_pushes_back_and_the_others_are_delivered_in_order() -> None:
    gate = Gate(is_open=False)
    bus = bus_of(queue=2, a=gate, b=Gate())
    first = asyncio.create_task(bus.send(message("1")))
    await asyncio.sleep(0)  # the worker has taken it
    waiting = [first, *(asyncio.create_task(bus.send(message(text))) for text in "23")]
    await asyncio.sleep(0)
    assert "outbound channel full (backpressure)" in await failure("busy", bus, message("4"))
    assert await soon(bus.send(message("beside", "b"))) == "1"
    gate.open.set()
    assert await soon(asyncio.gather(*waiting)) == ["1", "2", "3"]
    assert gate.delivered == ["1", "2", "3"]


async def test_what_fails_is_an_error_of_this_message_alone() -> None:
    gate = Gate()
    bus = bus_of(a=gate)
    assert await failure("network_error", bus, message("bad")) == "No."
    queue = bus.find("a")
    assert queue is not None and "No." in queue.state.reason
    assert "ZeroDivisionError" in await failure("execution_failed", bus, message("worse"))
    assert await soon(bus.send(message("good"))) == "1"
    assert (queue.state.reason, queue.state.delivered) == ("", 1)


async def test_a_sender_that_was_cancelled_while_it_waited_sends_nothing() -> None:
    gate = Gate(is_open=False)
    bus = bus_of(a=gate)
    tasks = [asyncio.create_task(bus.send(message(text))) for text in "12"]
    await asyncio.sleep(0)
    tasks[1].cancel()
    gate.open.set()
    await soon(asyncio.wait(tasks))
    assert await soon(bus.send(message("3"))) == "2"
    assert gate.delivered == ["1", "3"]


async def test_a_bus_that_closes_tells_the_senders_what_became_of_their_messages() -> None:
    bus = bus_of(a=Gate(is_open=False))
    tasks = [asyncio.create_task(bus.send(message(text))) for text in "12"]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await soon(bus.close())
    ended = await soon(asyncio.gather(*tasks, return_exceptions=True))
    assert [error.code for error in ended if isinstance(error, ToolError)] == ["unknown_outcome", "interrupted"]


async def test_a_message_that_arrives_ends_what_was_said_of_one_that_did_not() -> None:
    queue = ChannelQueue("a", "webhook", ChannelSettings(), Gate())
    queue.note_up()
    with pytest.raises(ToolError):
        await soon(queue.send(message("bad")))
    assert (queue.state.status, "not delivered" in queue.state.reason) == ("listening", True)
    await soon(queue.send(message("good")))
    assert queue.state.reason == ""
