"""A message is answered once: over links that drop right behind it, and gateways that are killed (ws.md 3.1, 6.5)."""

import asyncio
from pathlib import Path

import pytest

from handspan.client import Backoff, Chat, Client
from handspan.core.events import Ended, Event, TextArrived
from handspan.core.messages import AssistantMessage, Message, Text, UserMessage
from handspan.core.principals import OPERATOR
from handspan.models.scripted import Scripted
from handspan.testing import FaultProxy, GatewayProcess, running_gateway
from tests.stores import open_store
from tests.waiting import WAIT, until

pytestmark = pytest.mark.anyio

SOON = Backoff(0.01, 0.1)


async def all_of(chat: Chat, text: str) -> list[Event]:
    """The events of what is said."""
    async with asyncio.timeout(WAIT):
        return [event async for event in chat.send(text)]


def said(messages: list[Message]) -> list[str]:
    return [
        part.text
        for message in messages
        if isinstance(message, UserMessage)
        for part in message.parts
        if isinstance(part, Text)
    ]


# Links.


async def test_a_message_that_was_lost_with_its_link_is_answered_once(tmp_path: Path) -> None:
    model = Scripted(["It is paid.", "never"])
    async with running_gateway(tmp_path, model=model) as gateway, FaultProxy(gateway.url) as proxy:
        async with Client(proxy.url, gateway.token, backoff=SOON).chat() as chat:
            session = chat.session_id
            proxy.half_open("up")  # what is said goes nowhere
            turn = asyncio.create_task(all_of(chat, "pay"))
            for _ in range(50):  # turns of the loop until it is said, into a link that leads nowhere
                await asyncio.sleep(0)
            proxy.cut()
            proxy.heal()
            events = await turn
        messages = await gateway.gateway.parts.store.conversations.load(session, owner=OPERATOR.owner)
    assert events[-1] == Ended("done", "It is paid.")
    assert (said(messages), len(model.requests)) == (["pay"], 1)


async def test_a_message_that_arrived_while_its_link_dropped_is_answered_once_with_all_its_events(
    tmp_path: Path,
) -> None:
    model = Scripted(["It is paid.", "never"])
    async with running_gateway(tmp_path, model=model) as gateway, FaultProxy(gateway.url) as proxy:
        conversations = gateway.gateway.parts.store.conversations
        async with Client(proxy.url, gateway.token, backoff=SOON).chat() as chat:
            session = chat.session_id
            proxy.half_open("down")  # what the gateway says goes nowhere
            turn = asyncio.create_task(all_of(chat, "pay"))

            async def has_arrived() -> bool:
                return await conversations.find(session, owner=OPERATOR.owner) is not None

            await until(has_arrived)
            proxy.cut()
            proxy.heal()
            events = await turn
        messages = await conversations.load(session, owner=OPERATOR.owner)
    assert "".join(event.text for event in events if isinstance(event, TextArrived)) == "It is paid."
    assert [event for event in events if isinstance(event, Ended)] == [Ended("done", "It is paid.")]
    assert (said(messages), len(model.requests)) == (["pay"], 1)


async def test_a_message_that_comes_twice_is_answered_once(tmp_path: Path) -> None:
    model = Scripted(["It is paid.", "never"])
    async with running_gateway(tmp_path, model=model) as gateway, FaultProxy(gateway.url) as proxy:
        proxy.duplicate(only=lambda text: b'"type":"message"' in text)
        async with Client(proxy.url, gateway.token, backoff=SOON).chat() as chat:
            events = await all_of(chat, "pay")
            messages = await gateway.gateway.parts.store.conversations.load(chat.session_id, owner=OPERATOR.owner)
        assert proxy.statistics.repeated == 1
    assert [event for event in events if isinstance(event, Ended)] == [Ended("done", "It is paid.")]
    assert (said(messages), len(model.requests)) == (["pay"], 1)


async def test_two_chats_of_one_session_get_each_the_answer_to_what_they_said(tmp_path: Path) -> None:
    model = Scripted([f"answer {number}" for number in range(8)])
    async with running_gateway(tmp_path, model=model) as gateway:
        client = Client(gateway.url, gateway.token, backoff=SOON)
        async with client.chat("s") as one, client.chat("s") as other:
            chats = [one, other] * 4
            turns = [asyncio.create_task(all_of(chat, f"{place}")) for place, chat in enumerate(chats)]
            ends = [(await turn)[-1] for turn in turns]
        messages = await gateway.gateway.parts.store.conversations.load("s", owner=OPERATOR.owner)
    answers = [message.text for message in messages if isinstance(message, AssistantMessage)]
    assert sorted(said(messages)) == [str(place) for place in range(8)]
    by_question = dict(zip(said(messages), answers, strict=True))
    assert ends == [Ended("done", by_question[str(place)]) for place in range(8)]


# Gateways.


async def stored_messages(state: Path, session: str) -> list[Message]:
    """The messages in the store of a gateway that does not run."""
    async with open_store(state) as store:
        return await store.conversations.load(session, owner=OPERATOR.owner)


async def test_a_message_is_answered_once_whenever_the_gateway_is_killed(tmp_path: Path) -> None:
    async with GatewayProcess(tmp_path) as gateway:
        async with Client(gateway.url, gateway.token, backoff=SOON).chat("s") as chat:
            for number in range(4):
                turn = asyncio.create_task(all_of(chat, f"hello {number}"))
                for _ in range(number * 20):  # a little later each time
                    await asyncio.sleep(0.001)
                await gateway.restart()
                events = await turn
                assert [event.reason for event in events if isinstance(event, Ended)] == ["done"]
        await gateway.kill()
        messages = await stored_messages(gateway.state, "s")
    assert said(messages) == [f"hello {number}" for number in range(4)]
    kinds = [type(message) for message in messages]
    assert kinds == [UserMessage, AssistantMessage] * 4


async def test_a_turn_and_what_waited_behind_it_outlive_the_gateway(tmp_path: Path) -> None:
    began, may_end, runs = asyncio.Event(), asyncio.Event(), 0
    async with GatewayProcess(tmp_path) as gateway, FaultProxy(gateway.url) as proxy:
        client, away = (Client(url, gateway.token, backoff=SOON) for url in (gateway.url, proxy.url))
        async with client.chat("s") as one, away.chat("s") as other:

            @one.tool
            async def weigh(parcel: str) -> str:
                """Weigh a parcel."""
                nonlocal runs
                runs += 1
                began.set()
                await may_end.wait()
                return f"{parcel} has 3 kg"

            first = asyncio.create_task(all_of(one, "weigh parcel p1"))
            await asyncio.wait_for(began.wait(), WAIT)
            second = asyncio.create_task(all_of(other, "hello"))
            proxy.refuse()  # it comes back when the session does not wait for the parcel any more
            await gateway.restart()
            may_end.set()
            ends = [(await first)[-1]]
            proxy.heal()
            ends.append((await second)[-1])
        await gateway.kill()
        messages = await stored_messages(gateway.state, "s")
    assert [ended.reason for ended in ends if isinstance(ended, Ended)] == ["done", "done"]
    assert runs == 1
    assert said(messages) == ["weigh parcel p1", "hello"]
