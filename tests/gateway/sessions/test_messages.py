"""Messages that are sent again, over real sockets: answered once, whatever becomes of the link (ws.md 3.1, 6.5)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from handspan.core.agents import Agent
from handspan.core.messages import AssistantMessage, Text, UserMessage
from handspan.models.model import ModelError
from handspan.models.scripted import Scripted, call
from tests.gateway.raw_clients import Client, Place, running
from tests.waiting import WAIT

pytestmark = pytest.mark.anyio

BOTH = ("resume", "events")
INFO: dict[str, Any] = {"name": "device_info", "description": "About it.", "parameters": {"type": "object"}}


async def said(place: Place) -> list[str]:
    """The words of the session, by people and by the model."""
    messages = await place.gateway.parts.store.conversations.load("s", owner="operator")
    return [
        part.text
        for message in messages
        if isinstance(message, UserMessage | AssistantMessage)
        for part in message.parts
        if isinstance(part, Text)
    ]


async def ended(chat: Client) -> list[dict[str, Any]]:
    """All frames up to the end of a turn."""
    heard: list[dict[str, Any]] = []
    while not heard or heard[-1].get("event", {}).get("type") != "ended":
        heard.append(await chat.hears())
    return heard


async def quiet(chat: Client) -> list[dict[str, Any]]:
    """What comes before the answer to something that is answered at once."""
    await chat.send("get_registered_tools")
    return (await chat.hears_until("registered_tools"))[:-1]


def accepted(frames: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [frame for frame in frames if frame["type"] == "message_accepted"]


# Not taken.


async def test_an_id_that_is_too_long_is_no_id(tmp_path: Path) -> None:
    async with running(tmp_path) as place, place.client() as chat:
        await chat.connected(*BOTH)
        await chat.send("message", content="hi", id="x" * 65)
        assert (await chat.hears())["code"] == "INVALID_FRAME"


async def test_a_message_without_words_is_refused_by_its_id(tmp_path: Path) -> None:
    async with running(tmp_path) as place, place.client() as chat:
        await chat.connected(*BOTH)
        await chat.send("message", content=" ", id="m1")
        error = await chat.hears()
        assert (error["code"], error["id"]) == ("EMPTY_CONTENT", "m1")


async def test_other_words_under_a_known_id_are_refused_by_it(tmp_path: Path) -> None:
    async with running(tmp_path, Scripted(["one"])) as place, place.client("?session_id=s") as chat:
        await chat.connected(*BOTH)
        await chat.send("message", content="1", id="m1")
        await ended(chat)
        await chat.send("message", content="2", id="m1")
        error = await chat.hears_of("error")
        assert (error["code"], error["id"]) == ("INVALID_FRAME", "m1"), error
        assert await said(place) == ["1", "one"]


async def test_a_message_that_can_not_be_answered_at_all_is_not_kept_and_refused_by_its_id(tmp_path: Path) -> None:
    async with running(tmp_path) as place:
        await place.gateway.parts.app.agents.create(Agent("Broken", model="nobody/knows"))
        async with place.client("?session_id=s&persona=Broken") as chat:
            await chat.connected(*BOTH)
            await chat.send("message", content="1", id="m1")
            heard = await chat.hears_until("error")
            while "id" not in heard[-1]:  # the end of the turn is told as that of any other
                heard += await chat.hears_until("error")
            assert heard[-1]["id"] == "m1"
            assert accepted(heard) == []
            assert await place.gateway.parts.store.conversations.find("s", owner="operator") is None


async def test_a_message_that_is_stopped_while_it_waits_is_refused_by_its_id(tmp_path: Path) -> None:
    async with running(tmp_path, Scripted([[call("device_info")]])) as place, place.client("?session_id=s") as chat:
        await chat.connected(*BOTH)
        await chat.offers(INFO)
        await chat.send("message", content="1", id="m1")
        await chat.hears_of("tool_call_request")
        await chat.send("message", content="2", id="m2")
        await chat.send("message", content="2", id="m2")
        await chat.send("abort")
        errors: list[dict[str, Any]] = []
        while not errors:
            errors = [frame for frame in await chat.hears_until("error") if frame["type"] == "error"]
        assert [(error["code"], error["id"]) for error in errors] == [("ABORTED", "m2")]
        assert accepted(await quiet(chat)) == []
        assert await said(place) == ["1"]


async def test_what_was_refused_while_the_link_was_down_is_told_when_it_is_sent_again(tmp_path: Path) -> None:
    model = Scripted([[call("device_info")], "two"])
    async with running(tmp_path, model) as place, place.client("?session_id=s") as other:
        await other.connected(*BOTH)
        async with place.client("?session_id=s") as chat:
            token = (await chat.connected(*BOTH))["resume_token"]
            await chat.offers(INFO)
            await chat.send("message", content="1", id="m1")
            await chat.hears_of("tool_call_request")
            await chat.send("message", content="2", id="m2")
            await quiet(chat)
            chat.drop()
        await other.send("abort")
        await ended(other)
        async with place.client("?session_id=s") as chat:
            await chat.connected(*BOTH, resume=token, last_event=10_000)
            await chat.send("message", content="2", id="m2")
            error = await chat.hears_of("error")
            assert (error["code"], error["id"]) == ("ABORTED", "m2")
            await chat.send("message", content="2", id="m2")  # whoever wants it all the same may have it
            assert (await ended(chat))[-1]["event"]["text"] == "two"
        assert await said(place) == ["1", "2", "two"]


# Old clients.


async def test_who_can_not_resume_hears_nothing_of_ids(tmp_path: Path) -> None:
    async with running(tmp_path, Scripted(["one", "two"])) as place, place.client("?session_id=s") as chat:
        await chat.connected("events")
        for _ in range(2):
            await chat.send("message", content="1", id="m1")
            assert accepted(await ended(chat)) == []
        await chat.send("message", content=" ", id="m1")
        assert "id" not in await chat.hears_of("error")
        assert await said(place) == ["1", "one", "1", "two"]


async def test_who_gives_no_id_hears_nothing_of_ids(tmp_path: Path) -> None:
    async with running(tmp_path, Scripted(["one"])) as place, place.client() as chat:
        await chat.connected("resume")
        await chat.send("message", content="1")
        heard = await chat.hears_until("title_updated")
    assert {frame["type"] for frame in heard} == {"chunk", "chunk_reset", "done", "title_updated"}


# Taken.


async def test_two_fronts_of_one_session_tell_turns_apart(tmp_path: Path) -> None:
    async with (
        running(tmp_path, Scripted(["one", "two"])) as place,
        place.client("?session_id=s") as chat,
        place.client("?session_id=s") as other,
    ):
        await chat.connected(*BOTH)
        await other.connected(*BOTH)
        await chat.send("message", content="1", id="mine")
        mine, seen = await ended(chat), await ended(other)
        (one,) = accepted(mine)
        assert mine[0] == one == {"type": "message_accepted", "id": "mine", "turn": one["turn"]}
        assert accepted(seen) == []
        assert {frame["turn"] for frame in (*mine, *seen)} == {one["turn"]}
        await other.send("message", content="2", id="theirs")
        (two,) = accepted(await ended(other))
        assert two["turn"] != one["turn"]


async def test_a_message_whose_link_dropped_is_answered_once_and_its_events_come_in_order(tmp_path: Path) -> None:
    model = Scripted([[call("device_info")], "one"])
    async with running(tmp_path, model) as place:
        async with place.client("?session_id=s") as chat:
            token = (await chat.connected(*BOTH))["resume_token"]
            await chat.offers(INFO)
            await chat.send("message", content="1", id="m1")
            request = await chat.hears_of("tool_call_request")
            chat.drop()
        async with place.client("?session_id=s") as chat:
            await chat.connected(*BOTH, resume=token)
            await chat.send("message", content="1", id="m1")
            await chat.send("tool_result", id=request["id"], output="x")
            heard = await ended(chat)
        first, second = accepted(heard)
        assert first == second
        events = [frame for frame in heard if frame["type"] == "event"]
        before = heard[: heard.index(events[0])]
        assert first in before  # who comes back hears first which events are the answer
        assert [frame["seq"] for frame in events] == list(range(1, len(events) + 1))
        assert {frame["turn"] for frame in events} == {first["turn"]}
        assert await said(place) == ["1", "one"]


@pytest.mark.parametrize("outcome", ["fails", "works"])
async def test_a_turn_that_ended_while_its_client_was_away_is_not_run_again(tmp_path: Path, outcome: str) -> None:
    last = ModelError("overloaded", "It is down.") if outcome == "fails" else "one"
    model = Scripted([[call("device_info")], last, "never"])
    async with running(tmp_path, model) as place:
        async with place.client("?session_id=s") as chat, place.client("?session_id=s") as other:
            token = (await chat.connected(*BOTH))["resume_token"]
            await other.connected(*BOTH)
            await other.offers(INFO)
            await chat.send("message", content="1", id="m1")
            request = await other.hears_of("tool_call_request")
            chat.drop()
            await other.send("tool_result", id=request["id"], output="x")
            await ended(other)
        async with place.client("?session_id=s") as chat:
            await chat.connected(*BOTH, resume=token, last_event=1)
            await chat.send("message", content="1", id="m1")
            heard = [*await ended(chat), *await quiet(chat)]
            assert [frame["event"]["type"] for frame in heard if frame["type"] == "event"].count("ended") == 1
            assert {frame["id"] for frame in accepted(heard)} == {"m1"}
            told = [frame["type"] for frame in heard if frame["type"] != "title_updated"]  # which may come late
            assert told[-1] == "message_accepted"
        assert len(model.requests) == 2


async def test_a_client_that_comes_back_too_late_is_told_the_end_under_the_next_number(tmp_path: Path) -> None:
    async with running(tmp_path, Scripted(["one"]), resume_grace=0.01) as place:
        async with place.client("?session_id=s") as chat:
            token = (await chat.connected(*BOTH))["resume_token"]
            await chat.send("message", content="1", id="m1")
            turn = (await ended(chat))[-1]["turn"]
            chat.drop()
        async with asyncio.timeout(WAIT):
            while len(place.gateway.parts.peers):
                await asyncio.sleep(0.001)
        async with place.client("?session_id=s") as chat:
            await chat.connected(*BOTH, resume=token, last_event=7)
            await chat.send("message", content="1", id="m1")
            heard = await ended(chat)
            await chat.send("message", content="1", id="m1")  # now it has been told
            heard += await quiet(chat)
            assert accepted(heard) == [{"type": "message_accepted", "id": "m1", "turn": turn}] * 2
            (event,) = [frame for frame in heard if frame["type"] == "event"]
            assert (event["seq"], event["turn"]) == (8, turn)
            assert event["event"] == {"type": "ended", "reason": "done", "text": "one"}


async def test_without_events_the_end_is_told_once_to_who_comes_back(tmp_path: Path) -> None:
    model = Scripted([[call("device_info")], "one"])
    async with running(tmp_path, model) as place:
        async with place.client("?session_id=s") as chat, place.client("?session_id=s") as other:
            token = (await chat.connected("resume"))["resume_token"]
            await other.connected(*BOTH)
            await other.offers(INFO)
            await chat.send("message", content="1", id="m1")
            assert (await chat.hears())["type"] == "message_accepted"
            request = await other.hears_of("tool_call_request")
            chat.drop()
            await other.send("tool_result", id=request["id"], output="x")
            await other.hears_of("title_updated")
        for ends in (["chunk_reset", "done", "title_updated"], []):
            async with place.client("?session_id=s") as chat:
                await chat.connected("resume", resume=token)
                await chat.send("message", content="1", id="m1")
                heard = [frame["type"] for frame in await chat.hears_until("message_accepted")]
                assert heard == [*ends, "message_accepted"]
                if not ends:  # it may have gone down with the last link: told again
                    assert [(await chat.hears())["type"] for _ in range(2)] == ["chunk_reset", "done"]
                assert await quiet(chat) == []
        assert await said(place) == ["1", "one"]


async def test_a_message_outlives_the_gateway_and_is_answered_by_the_next_one(tmp_path: Path) -> None:
    async with running(tmp_path, Scripted([[call("device_info")]])) as place, place.client("?session_id=s") as chat:
        token = (await chat.connected(*BOTH))["resume_token"]
        await chat.offers(INFO)
        await chat.send("message", content="1", id="m1")
        before = await chat.hears_until("tool_call_request")
        await chat.send("message", content="2", id="m2")  # it waits, and is lost
        await quiet(chat)
        await place.gateway.parts.store.close()  # as if it were killed: nothing more is written
    async with running(tmp_path, Scripted(["one", "two"])) as place, place.client("?session_id=s") as chat:
        connected = await chat.connected(*BOTH, resume=token, last_event=5)
        assert connected["resumed"] is True
        await chat.offers(INFO)
        await chat.send("message", content="1", id="m1")
        assert accepted(await chat.hears_until("message_accepted")) == accepted(before)
        await chat.send("tool_result", id=before[-1]["id"], output="x")
        heard = await ended(chat)
        assert heard[-1]["event"] == {"type": "ended", "reason": "done", "text": "one"}
        assert {frame["turn"] for frame in heard if frame["type"] == "event"} == {accepted(before)[0]["turn"]}
        assert min(frame["seq"] for frame in heard if frame["type"] == "event") == 6
        await chat.send("message", content="2", id="m2")
        assert (await ended(chat))[-1]["event"]["text"] == "two"
        assert await said(place) == ["1", "one", "2", "two"]


async def test_without_events_a_turn_that_outlived_the_gateway_reaches_its_client(tmp_path: Path) -> None:
    async with running(tmp_path, Scripted([[call("device_info")]])) as place, place.client("?session_id=s") as chat:
        token = (await chat.connected("resume"))["resume_token"]
        await chat.offers(INFO)
        await chat.send("message", content="1", id="m1")
        request = await chat.hears_of("tool_call_request")
        await place.gateway.parts.store.close()  # as if it were killed: nothing more is written
    async with running(tmp_path, Scripted(["one"])) as place, place.client("?session_id=s") as chat:
        await chat.connected("resume", resume=token)
        await chat.offers(INFO)
        await chat.send("message", content="1", id="m1")
        await chat.hears_until("message_accepted")
        await quiet(chat)  # the turn waits for the outcome of its call
        await chat.send("tool_result", id=request["id"], output="x")
        assert (await chat.hears_of("done"))["full_response"] == "one"
        assert await said(place) == ["1", "one"]


async def test_an_end_that_came_before_its_message_was_accepted_is_told_again(tmp_path: Path) -> None:
    async with running(tmp_path, Scripted([[call("device_info")]])) as place, place.client("?session_id=s") as chat:
        token = (await chat.connected(*BOTH))["resume_token"]
        await chat.offers(INFO)
        await chat.send("message", content="1", id="m1")
        request = await chat.hears_of("tool_call_request")
        await place.gateway.parts.store.close()  # as if it were killed: nothing more is written
    async with running(tmp_path, Scripted(["one"])) as place, place.client("?session_id=s") as chat:
        await chat.connected(*BOTH, resume=token)
        await chat.offers(INFO)
        await chat.send("tool_result", id=request["id"], output="x")
        early = await ended(chat)  # the client may not know yet that this turn answers its message
        await chat.send("message", content="1", id="m1")
        heard = await ended(chat)
        assert accepted(heard) == [{"type": "message_accepted", "id": "m1", "turn": early[-1]["turn"]}]
        assert heard[-1]["event"] == early[-1]["event"] == {"type": "ended", "reason": "done", "text": "one"}
