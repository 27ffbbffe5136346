"""Conversations over real sockets: no event lost or doubled, and no turn without an end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from handspan.client import Backoff, Chat, Client, GatewayRefused, GatewayUnreachable
from handspan.client import chat as chat_module
from handspan.client.chat import EventStream
from handspan.core.errors import HandspanError, InvalidAnswer
from handspan.core.events import (
    CallFinished,
    CallStarted,
    Ended,
    Event,
    QuestionAsked,
    RoundBegan,
    TextArrived,
    ThinkingArrived,
)
from handspan.core.questions import QuestionAction
from tests.client.gate import CHAT, Gate, GateLink, gate

pytestmark = pytest.mark.anyio

SOON = Backoff(0.001, 0.01)


@asynccontextmanager
async def talking(can: list[str] = CHAT, **options: Any) -> AsyncIterator[tuple[Chat, GateLink, Gate]]:
    """A chat that is open, its link and the gate."""
    async with gate() as there:
        client = Client(there.url, "secret", backoff=SOON)
        opening = asyncio.create_task(greeted(there, can=can, tools=False))
        async with client.chat(**options) as chat:
            yield chat, await opening, there


async def greeted(there: Gate, **greeting: Any) -> GateLink:
    link = await there.link()
    await link.accept(**greeting)
    return link


async def happens(link: GateLink, seq: int, kind: str, turn: str = "", **fields: Any) -> None:
    await link.send("event", seq=seq, turn=turn, event={"type": kind, **fields})


async def takes(link: GateLink, turn: str) -> dict[str, Any]:
    """The gateway hears a message and accepts it; the message."""
    message = await link.expect("message")
    await link.send("message_accepted", id=message["id"], turn=turn)
    return message


async def rest(events: EventStream) -> list[Event]:
    async with asyncio.timeout(60):
        return [event async for event in events]


async def following(events: EventStream) -> Event:
    async with asyncio.timeout(60):
        return await anext(events)


async def test_a_missing_gateway_is_an_error_at_once() -> None:
    with pytest.raises(GatewayUnreachable, match="Is the gateway running"):
        async with Client("http://127.0.0.1:1", "secret").chat():
            raise AssertionError("nobody is there")


async def test_the_session_of_another_owner_is_refused() -> None:
    async with gate() as there:

        async def refuse() -> None:
            link = await there.link()
            await link.send("error", message="It is somebody else's.", code="SESSION_OWNER_MISMATCH")
            await link.close(1000)

        refusing = asyncio.create_task(refuse())
        with pytest.raises(GatewayRefused, match="somebody else's"):
            async with Client(there.url).chat("theirs"):
                raise AssertionError("it is theirs")
        await refusing


async def test_a_server_that_does_not_answer_is_no_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_module, "_SECONDS_TO_OPEN", 0.05)
    async with gate() as there:
        with pytest.raises(GatewayUnreachable, match="is it a gateway"):
            async with Client(there.url).chat():
                raise AssertionError("nobody answers")


async def test_what_is_broken_in_the_chat_itself_ends_it_and_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(event: Event, is_own: bool) -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        async with talking() as (chat, link, _):
            monkeypatch.setattr(chat, "on_event", breaks)
            watching = chat.watch()
            await happens(link, 1, "text", text="from elsewhere")
            assert await rest(watching) == []


async def test_a_turn_is_its_events_up_to_its_end() -> None:
    async with talking(session="mine", agent="Clerk") as (chat, link, _):
        assert link.path == "/ws/chat?session_id=mine&persona=Clerk"
        assert (chat.session_id, chat.state, chat.message_count) == ("s1", "connected", 0)
        turn = chat.send("hello")
        first = asyncio.create_task(following(turn))
        message = await takes(link, "t1")
        assert message == {"type": "message", "content": "hello", "id": message["id"]}
        await happens(link, 1, "round", number=1)
        assert await first == RoundBegan(1)
        await happens(link, 2, "text", text="hi")
        await happens(link, 3, "an event of tomorrow", mood="good")
        await happens(link, 4, "ended", reason="done", text="hi")
        await link.send("title_updated", title="Greeting")
        assert await rest(turn) == [TextArrived("hi"), Ended("done", "hi")]
        assert await rest(turn) == []
        await link.fence()
        assert chat.title == "Greeting"


async def test_a_second_turn_waits_for_the_first_even_without_a_listener() -> None:
    async with talking() as (chat, link, _):
        first = asyncio.create_task(following(chat.send("one")))
        await link.expect("message")
        await happens(link, 1, "text", text="a")
        assert await first == TextArrived("a")
        second = asyncio.create_task(rest(chat.send("two")))
        await link.fence()  # nothing was said yet
        await happens(link, 2, "ended", reason="done", text="a")
        assert (await link.expect("message"))["content"] == "two"
        await happens(link, 3, "ended", reason="done", text="b")
        assert await second == [Ended("done", "b")]


async def test_joining_becomes_part_of_the_turn_that_runs() -> None:
    async with talking() as (chat, link, _):
        first = asyncio.create_task(rest(chat.send("one")))
        await link.expect("message")
        second = asyncio.create_task(rest(chat.send("and two", join=True)))
        message = await link.expect("message")
        assert message == {"type": "message", "content": "and two", "join": True, "id": message["id"]}
        await happens(link, 1, "ended", reason="done", text="both")
        assert await first == await second == [Ended("done", "both")]


async def test_an_answer_can_be_given_anew() -> None:
    async with talking() as (chat, link, _):
        turn = asyncio.create_task(rest(chat.regenerate()))
        await link.expect("regenerate")
        await happens(link, 1, "ended", reason="done", text="again")
        assert await turn == [Ended("done", "again")]


async def test_a_watching_listener_gets_all_turns() -> None:
    async with talking() as (chat, link, _):
        watching = chat.watch()
        await happens(link, 1, "text", text="from elsewhere")
        await happens(link, 2, "ended", reason="done", text="x")
        assert await following(watching) == TextArrived("from elsewhere")
        assert await following(watching) == Ended("done", "x")
    assert await rest(watching) == []


async def test_a_turn_that_waits_for_a_call_goes_on() -> None:
    async with talking() as (chat, link, _):
        turn = asyncio.create_task(rest(chat.send("one")))
        await link.expect("message")
        await happens(link, 1, "ended", reason="pending")
        await happens(link, 2, "ended", reason="done", text="x")
        assert await turn == [Ended("pending"), Ended("done", "x")]


# Errors.


async def test_a_turn_that_is_refused_ends_and_the_next_one_too() -> None:
    async with talking() as (chat, link, _):
        for code, ended in (("SESSION_BUSY", Ended("error", "busy")), ("ABORTED", Ended("aborted"))):
            turn = asyncio.create_task(rest(chat.send("one")))
            message = await link.expect("message")
            await link.send("error", message="not about it", code="AGENT_ERROR")
            await link.send("error", message="about another one", code="SESSION_BUSY", id="other")
            await link.send("error", message="busy", code=code, id=message["id"])
            assert await turn == [ended]
        await link.send("error", message="nobody asked", code="AGENT_ERROR")
        await link.fence()


async def test_what_can_not_be_answered_anew_ends_at_once() -> None:
    async with talking() as (chat, link, _):
        turn = asyncio.create_task(rest(chat.regenerate()))
        await link.expect("regenerate")
        await link.send("error", message="odd", code="INVALID_FRAME")  # not about the turn
        await link.send("error", message="nothing was said", code="NO_USER_MESSAGE")
        assert await turn == [Ended("error", "nothing was said")]


async def test_the_echo_of_a_failed_turn_does_not_end_the_next_one() -> None:
    async with talking() as (chat, link, _):
        turn = asyncio.create_task(rest(chat.send("one")))
        await link.expect("message")
        await happens(link, 1, "ended", reason="error", text="no key")
        assert await turn == [Ended("error", "no key")]
        turn = asyncio.create_task(rest(chat.send("two")))
        await link.expect("message")
        await link.send("error", message="no key", code="AUTH_ERROR")
        await happens(link, 2, "ended", reason="done", text="fine")
        assert await turn == [Ended("done", "fine")]


# Abort and questions.


async def test_a_turn_can_be_stopped() -> None:
    async with talking() as (chat, link, _):
        turn = asyncio.create_task(rest(chat.send("one")))
        await link.expect("message")
        stopping = asyncio.create_task(chat.abort())
        await link.expect("abort")
        await link.send("abort_ack", status="aborted")
        await happens(link, 1, "ended", reason="aborted")
        assert await asyncio.wait_for(stopping, 60)
        assert await turn == [Ended("aborted")]
        stopping = asyncio.create_task(chat.abort())
        await link.expect("abort")
        await link.send("abort_ack", status="no_active_response")
        assert not await asyncio.wait_for(stopping, 60)


async def test_an_abort_that_went_down_with_the_link_is_said_again() -> None:
    async with talking() as (chat, link, there):
        turn = asyncio.create_task(rest(chat.send("one")))
        await link.expect("message")
        await happens(link, 1, "text", text="a")
        stopping = asyncio.create_task(chat.abort())
        await link.expect("abort")
        link.drop()
        link = await greeted(there, can=CHAT, tools=False, resumed=True)
        await link.expect("message")
        await link.expect("abort")
        await link.send("abort_ack", status="aborted")
        await happens(link, 2, "ended", reason="aborted")
        assert await asyncio.wait_for(stopping, 60)
        assert await turn == [TextArrived("a"), Ended("aborted")]


QUESTION = {
    "id": "q1",
    "kind": "approval",
    "call_id": "c1",
    "tool": "pay",
    "arguments": {"sum": 3},
    "subject": "It costs money.",
}


async def test_a_question_is_asked_once_and_answered() -> None:
    async with talking() as (chat, link, _):
        turn = chat.send("pay")
        first = asyncio.create_task(following(turn))
        await link.expect("message")
        question = {**QUESTION, "owner": "me", "session": "s1", "fingerprint": "f", "expires_in": 60.0}
        await happens(link, 1, "question", question=question)
        await link.send("question", **QUESTION, expires_ms=60000)
        asked = await first
        assert isinstance(asked, QuestionAsked)
        assert (asked.question.id, asked.question.arguments) == ("q1", {"sum": 3})
        await chat.answer("q1", "allow", always=True, arguments={"sum": 2})
        assert await link.expect("answer") == {
            "type": "answer",
            "id": "q1",
            "decision": "allow",
            "always": True,
            "arguments": {"sum": 2},
        }
        await link.send("question_closed", id="q1", accepted=True)
        await link.send("question", **{**QUESTION, "kind": "odd"}, expires_ms=5000)  # a new one under an old id
        await happens(link, 2, "ended", reason="done", text="paid")
        again, ended = await rest(turn)
        assert isinstance(again, QuestionAsked)
        assert (again.question.kind, again.question.expires_in, again.question.session) == ("approval", 5.0, "s1")
        assert ended == Ended("done", "paid")


# The link.


async def test_a_dropped_link_heals_and_no_event_is_lost_or_doubled() -> None:
    async with talking() as (chat, link, there):
        turn = asyncio.create_task(rest(chat.send("count")))
        await link.expect("message")
        await happens(link, 1, "text", text="1")
        await happens(link, 2, "text", text="2")
        await link.fence()
        link.drop()
        link = await there.link()
        assert link.path == "/ws/chat?session_id=s1"
        hello = await link.accept(can=CHAT, tools=False, resumed=True)
        assert (hello["resume"], hello["last_event"]) == ("t1", 2)
        for seq, text in ((2, "2"), (3, "3")):  # one too many: it is known already
            await happens(link, seq, "text", text=text)
        await happens(link, 4, "ended", reason="done", text="123")
        assert await turn == [TextArrived("1"), TextArrived("2"), TextArrived("3"), Ended("done", "123")]


async def test_what_is_said_while_the_link_is_down_is_said_when_it_is_back() -> None:
    async with talking() as (chat, link, there):
        link.drop()
        turn = asyncio.create_task(rest(chat.send("one")))
        link = await greeted(there, can=CHAT, tools=False, resumed=True)
        assert (await takes(link, "t1"))["content"] == "one"
        await happens(link, 1, "ended", "t1", reason="done", text="x")
        assert await turn == [Ended("done", "x")]


@pytest.mark.parametrize("resumed", [True, False])
async def test_a_message_that_may_have_gone_down_with_the_link_is_sent_again_under_its_id(resumed: bool) -> None:
    async with talking() as (chat, link, there):
        turn = chat.send("pay")
        begins = asyncio.create_task(following(turn))
        first = await link.expect("message")
        link.drop()
        link = await greeted(there, can=CHAT, tools=False, resumed=resumed)
        assert await takes(link, "t1") == first
        await happens(link, 1, "round", "t1", number=1)
        assert await begins == RoundBegan(1)
        link.drop()
        link = await greeted(there, can=CHAT, tools=False, resumed=resumed)
        assert await takes(link, "t1") == first
        await happens(link, 2, "ended", "t1", reason="done", text="paid")
        assert await rest(turn) == [Ended("done", "paid")]
        await link.fence()


async def test_turns_of_others_are_only_for_who_watches() -> None:
    async with talking() as (chat, link, _):
        watching = chat.watch()
        turn = asyncio.create_task(rest(chat.send("mine")))
        message = await link.expect("message")
        await happens(link, 1, "text", "theirs", text="theirs")
        await happens(link, 2, "ended", "theirs", reason="done", text="theirs")
        await link.send("message_accepted", id="of another front", turn="theirs")
        await link.send("message_accepted", id=message["id"], turn="mine")
        await happens(link, 3, "text", "mine", text="mine")
        await happens(link, 4, "text", "theirs too", text="between")
        await happens(link, 5, "ended", "mine", reason="done", text="mine")
        assert await turn == [TextArrived("mine"), Ended("done", "mine")]
        seen = [await following(watching) for _ in range(5)]
        assert [event.text for event in seen if isinstance(event, TextArrived)] == ["theirs", "mine", "between"]


async def test_a_gateway_that_can_not_resume_ends_the_turn_with_the_link() -> None:
    async with talking(can=["events"], session="s1") as (chat, link, there):
        turn = asyncio.create_task(rest(chat.send("one")))
        await link.expect("message")
        link.drop()
        (ended,) = await turn
        assert isinstance(ended, Ended)
        assert ended.reason == "error"
        await greeted(there, can=["events"], tools=False, resume_token="")


async def test_a_link_that_stays_down_ends_the_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_module, "_LEAST_GRACE", 0.05)
    async with gate() as there:
        client = Client(there.url, backoff=SOON)
        opening = asyncio.create_task(greeted(there, can=CHAT, tools=False, grace_ms=10))
        async with client.chat() as chat:
            link = await opening
            turn = asyncio.create_task(rest(chat.send("one")))
            await link.expect("message")
            stopping = asyncio.create_task(chat.abort())
            await link.expect("abort")
            link.drop()  # it comes back, and nobody greets it
            (ended,) = await turn
            assert isinstance(ended, Ended)
            assert "has been down" in ended.text
            assert not await asyncio.wait_for(stopping, 60)


async def test_closing_ends_what_is_open_and_nothing_can_be_said_after_it() -> None:
    async with talking() as (chat, link, _):
        turn = asyncio.create_task(rest(chat.send("one")))
        await link.expect("message")
        link.drop()
    assert await turn == []
    with pytest.raises(HandspanError, match="closed"):
        await anext(chat.send("two"))


# Questions for a value.


ASKS_COLOUR = {
    **QUESTION,
    "kind": "input",
    "call_id": "",
    "schema": {"type": "string", "enum": ["red", "blue"]},
    "action": {"hint": "A colour."},
    "expires_ms": 60000,
}


async def test_a_question_for_a_value_comes_with_its_schema_and_takes_only_what_fits() -> None:
    async with talking() as (chat, link, _):
        watching = chat.watch()
        await link.send("question", **ASKS_COLOUR)
        asked = await following(watching)
        assert isinstance(asked, QuestionAsked)
        question = asked.question
        assert (question.kind, question.call_id, question.schema) == ("input", "", ASKS_COLOUR["schema"])
        assert question.action == QuestionAction(hint="A colour.")
        for wrong in ("green", None):
            with pytest.raises(InvalidAnswer, match="the value must be one of"):
                await chat.answer("q1", "allow", value=wrong)
        over = asyncio.create_task(chat.closed("q1"))
        await chat.answer("q1", "allow", value="blue")
        assert await link.expect("answer") == {"type": "answer", "id": "q1", "decision": "allow", "value": "blue"}
        assert not over.done()
        await link.send("question_closed", id="q1", accepted=True)
        assert await asyncio.wait_for(over, 10)
        assert not await chat.closed("q1"), "it is not open any more"


async def test_who_waits_for_the_end_of_a_question_hears_that_it_was_answered_elsewhere_or_the_chat_ended() -> None:
    async with talking() as (chat, link, _):
        watching = chat.watch()
        for question_id in ("q1", "q2"):
            await link.send("question", **{**ASKS_COLOUR, "id": question_id})
            await following(watching)
        waiting = [asyncio.create_task(chat.closed(one)) for one in ("q1", "q2")]
        await asyncio.sleep(0)
        await link.send("question_closed", id="q1", accepted=False)
        assert not await asyncio.wait_for(waiting[0], 10)
    assert not await asyncio.wait_for(waiting[1], 10)


@pytest.mark.parametrize("can", [CHAT, []])
async def test_an_answer_that_the_gateway_refuses_does_not_end_the_turn(can: list[str]) -> None:
    async with talking(can=can) as (chat, link, _):
        turn = asyncio.create_task(rest(chat.send("hello")))
        await takes(link, "t1")
        await link.send("error", message="It does not fit.", code="INVALID_ANSWER", id="q1")
        if can:
            await happens(link, 1, "ended", "t1", reason="done", text="hi")
        else:
            await link.send("done", full_response="hi")
        assert await turn == [Ended("done", "hi")]


# Other gateways, and tools.


async def test_a_chat_that_is_sent_away_hears_the_end_of_its_turn_and_why() -> None:
    with pytest.raises(GatewayRefused, match="the token was revoked"):
        async with talking() as (chat, link, _):
            turn, watching = asyncio.create_task(rest(chat.send("hello"))), chat.watch()
            await takes(link, "t1")
            await happens(link, 1, "text", "t1", text="he")
            await link.socket.close(1008, "the token was revoked")
            text, ended = await turn
            assert text == TextArrived("he")
            assert isinstance(ended, Ended)
            assert (ended.reason, "the token was revoked" in ended.text) == ("error", True)
            assert await rest(watching) == [text, ended]
            with pytest.raises(HandspanError, match="closed"):
                await rest(chat.send("more"))


async def test_a_gateway_without_events_is_understood() -> None:
    async with talking(can=[]) as (chat, link, _):
        turn = asyncio.create_task(rest(chat.send("hello")))
        await link.expect("message")
        await link.send("thinking", content="hm")
        await link.send("chunk", content="hi")
        await link.send("tool_call", id="c1", name="camera", args={"a": 1})
        await link.send("tool_result", id="c1", name="camera", output="photo")
        await link.send("chunk_reset")
        await link.send("done", full_response="hi")
        assert await turn == [
            ThinkingArrived("hm"),
            TextArrived("hi"),
            CallStarted("c1", "camera", '{"a":1}'),
            CallFinished("c1", "camera", "success", 0.0, "photo"),
            Ended("done", "hi"),
        ]
        turn = asyncio.create_task(rest(chat.send("again")))
        await link.expect("message")
        await link.send("aborted")
        assert await turn == [Ended("aborted")]


async def test_a_chat_offers_the_clients_tools_and_its_own() -> None:
    async with gate() as there:
        client = Client(there.url, backoff=SOON)

        @client.tool
        def battery() -> int:
            """How full it is."""
            return 80

        opening = asyncio.create_task(greeted(there, can=CHAT))
        async with client.chat() as chat:
            link = await opening
            await link.request("c1", "battery")
            assert (await link.expect("tool_result"))["output"] == 80

            @chat.tool
            def light() -> str:
                """Whether it is on."""
                return "on"

            assert [one["name"] for one in (await link.expect("register_tools"))["tools"]] == ["light"]
            await link.send("tools_registered", count=1, registered=1, rejected=[{"name": "light", "reason": "no"}])
            await link.fence()
            assert chat.rejected == {"light": "no"}


async def test_a_client_that_runs_offers_its_tools_itself() -> None:
    async with gate() as there:
        client = Client(there.url, backoff=SOON)
        client.register({"name": "battery", "description": "How full it is.", "parameters": {}}, lambda _: 80)
        running = asyncio.create_task(client.run())
        await greeted(there)
        await client.connected()
        opening = asyncio.create_task(greeted(there, can=CHAT, tools=False))
        async with client.chat():
            await opening
        client.close()
        await asyncio.wait_for(running, 60)
