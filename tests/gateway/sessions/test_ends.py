"""How a turn ended is part of its session: with what had arrived, in every process, until it is retried (SPEC L7)."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from types import SimpleNamespace
from typing import cast

import pytest

from handspan.agent.turn_events import AnsweredBefore
from handspan.core.bus import TurnEvent
from handspan.core.errors import ToolError
from handspan.core.events import GATEWAY_STOPPED, Ended, RoundBegan, TextArrived, Titled, TurnEnd, TurnFault
from handspan.core.images import ImageReader
from handspan.core.messages import AssistantMessage, Text, UserMessage
from handspan.core.principals import OPERATOR
from handspan.core.tool import ToolSpec
from handspan.gateway.nodes.turns import TurnsElsewhere
from handspan.gateway.parts import GatewayParts
from handspan.models.kept_messages import KeptMessages
from handspan.models.model import ModelError, ModelEvent, Projection, Replied, TextDelta
from tests.gateway.sessions.session_kit import RecordingListener, SessionKit, said, words
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio

OWNER = OPERATOR.owner
KEY = ModelError("auth", "The key is wrong: set another one.")
CUT = ModelError("cut", "The answer broke off. Try again.")


class Streaming:
    """A model that sends these pieces, then fails, hangs or replies."""

    name = "streaming"

    def __init__(self, *pieces: str, last: Exception | AssistantMessage | None = None) -> None:
        self.pieces = pieces
        self.last = last
        self.is_hanging = asyncio.Event()

    def projection(self, instructions: str = "") -> KeptMessages:
        return KeptMessages(instructions)

    async def reply(
        self, projection: Projection, specs: Sequence[ToolSpec], artifacts: ImageReader | None = None
    ) -> AsyncIterator[ModelEvent]:
        for piece in self.pieces:
            yield TextDelta(piece)
        if isinstance(self.last, Exception):
            raise self.last
        if self.last is None:
            self.is_hanging.set()
            await asyncio.Event().wait()
        else:
            yield Replied(self.last)


async def stored_ends(kit: SessionKit, session: str = "s") -> Mapping[int, TurnEnd]:
    return await soon(kit.store.conversations.ends(session, owner=OWNER))


async def the_end(kit: SessionKit) -> tuple[int, Ended, str]:
    """The only stored end: after which message, how, and which model."""
    [(seq, end)] = (await stored_ends(kit)).items()
    assert end.at > 1_700_000_000
    return seq, end.to_event(""), end.model


async def stored_words(kit: SessionKit) -> list[str]:
    return words(await soon(kit.store.conversations.load("s", owner=OWNER)))


async def name_of(kit: SessionKit) -> str:
    return (await soon(kit.store.conversations.get("s", owner=OWNER))).name


async def retry(kit: SessionKit, listener: RecordingListener | None = None) -> Ended:
    return await soon(kit.sessions.get("s", OWNER).regenerate(OPERATOR, listener or RecordingListener()).wait_for_end())


async def test_a_failed_turn_has_its_end_in_the_session_and_the_session_its_name(kit: SessionKit) -> None:
    kit.model, listener = Streaming(last=KEY), RecordingListener()
    ended = await kit.say("What is up?", listener)
    assert ended == Ended("error", "The key is wrong: set another one.", TurnFault("model", "auth"))
    assert await the_end(kit) == (1, ended, "streaming")
    assert listener.of(Titled) == [Titled("What is up?")] and await name_of(kit) == "What is up?"


async def test_the_text_of_a_broken_stream_is_kept_and_the_next_turn_can_follow(kit: SessionKit) -> None:
    kit.model = Streaming("Once ", "upon", last=CUT)
    ended = await kit.say("Tell me a story")
    assert await stored_words(kit) == ["Tell me a story", "Once upon"]
    assert await the_end(kit) == (2, ended, "streaming")
    kit.model = Streaming(last=AssistantMessage((Text("a time"),)))
    kit.sessions.forget_models()
    assert (await kit.say("Go on")).reason == "done"
    assert await stored_words(kit) == ["Tell me a story", "Once upon", "Go on", "a time"]
    assert (await stored_ends(kit)).keys() == {2}, "the earlier end is still there"


async def test_a_fault_of_ours_keeps_the_text_too(kit: SessionKit, caplog: pytest.LogCaptureFixture) -> None:
    kit.model = Streaming("Once", last=ZeroDivisionError("oh"))
    ended = await kit.say("Tell me")
    assert isinstance(ended.fault, TurnFault) and ended.fault == TurnFault("inside", "ZeroDivisionError")
    assert await the_end(kit) == (2, ended, "streaming")
    assert "failed" in caplog.text


async def test_a_stopped_turn_has_its_end_and_its_session_a_name(kit: SessionKit) -> None:
    kit.model, listener = Streaming("Once"), RecordingListener()
    handle = kit.sessions.get("s", OWNER).say(OPERATOR, said("Tell me"), listener)
    await soon(kit.model.is_hanging.wait())
    handle.abort()
    await soon(handle.wait_for_end())
    assert await the_end(kit) == (2, Ended("aborted"), "streaming")
    assert listener.of(Titled) == [Titled("Tell me")] and await name_of(kit) == "Tell me"


async def test_a_turn_that_the_gateway_stops_says_so(kit: SessionKit) -> None:
    kit.model = Streaming("Once")
    handle = kit.sessions.get("s", OWNER).say(OPERATOR, said("Tell me"), RecordingListener())
    await soon(kit.model.is_hanging.wait())
    await soon(kit.sessions.drain(0))
    assert (await soon(handle.wait_for_end())).reason == "aborted"
    assert await the_end(kit) == (2, Ended("aborted", fault=GATEWAY_STOPPED), "streaming")
    assert await stored_words(kit) == ["Tell me", "Once"]


async def test_a_message_that_joined_a_failed_turn_has_the_end_behind_it(kit: SessionKit) -> None:
    kit.model = Streaming("Once")
    session = kit.sessions.get("s", OWNER)
    handle = session.say(OPERATOR, said("one"), RecordingListener())
    await soon(kit.model.is_hanging.wait())
    session.say(OPERATOR, said("two"), RecordingListener(), join=True)
    handle.abort()
    await soon(handle.wait_for_end())
    assert await stored_words(kit) == ["one", "Once", "two"]
    assert (await the_end(kit))[0] == 3


@pytest.mark.parametrize(
    ("stop", "reason"), [("length", "length"), ("refusal", "refusal"), ("end", None)], ids=["length", "refusal", "done"]
)
async def test_an_answer_that_is_not_whole_has_an_end_and_a_whole_one_has_none(
    kit: SessionKit, stop: str, reason: str | None
) -> None:
    kit.model = Streaming(last=AssistantMessage((Text("Well"),), stop))  # type: ignore[arg-type]
    await kit.say("Tell me")
    ends = await stored_ends(kit)
    assert [end.reason for end in ends.values()] == ([reason] if reason else [])
    assert all(not end.text for end in ends.values()), "its text is the message"


async def test_a_turn_that_is_answered_again_has_its_new_end_alone(kit: SessionKit) -> None:
    kit.model = Streaming(last=KEY)
    await kit.say("hello")
    kit.model = Streaming("Hel", last=CUT)
    kit.sessions.forget_models()
    assert (await retry(kit)).reason == "error"
    assert await the_end(kit) == (2, Ended("error", str(CUT), TurnFault("model", "cut")), "streaming")
    kit.model = Streaming(last=AssistantMessage((Text("Hello!"),)))
    kit.sessions.forget_models()
    assert await retry(kit) == Ended("done", "Hello!")
    assert await stored_ends(kit) == {} and await stored_words(kit) == ["hello", "Hello!"]


async def test_a_message_that_was_not_stored_leaves_no_end_at_the_one_before(
    kit: SessionKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit.plays("one", "two")
    await kit.say("first")
    keep = kit.store.conversations.keep

    def refuse(session: str, message: object, **more: object) -> object:
        if isinstance(message, UserMessage):
            raise ToolError("internal_error", "It does not fit.")
        return keep(session, message, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(kit.store.conversations, "keep", refuse)
    assert (await kit.say("second")).reason == "error"
    assert await stored_ends(kit) == {} and await stored_words(kit) == ["first", "one"]


@pytest.mark.parametrize("pieces", [(), ("Hello",), ("Hello wor", "ld")], ids=["none", "some", "all"])
async def test_listeners_get_the_whole_text_of_a_server_that_sends_no_pieces(
    kit: SessionKit, pieces: tuple[str, ...]
) -> None:
    kit.model, listener = Streaming(*pieces, last=AssistantMessage((Text("Hello world"),))), RecordingListener()
    await kit.say("hi", listener)
    assert "".join(event.text for event in listener.of(TextArrived)) == "Hello world"


async def test_a_message_that_comes_again_gets_the_stored_end_of_its_answer(kit: SessionKit) -> None:
    kit.model = Streaming("Once", last=CUT)
    ended = await kit.say("Tell me", message_id="m1")
    kit.model = Streaming(last=AssistantMessage((Text("not asked"),)))
    kit.sessions.forget_models()
    listener = RecordingListener()
    assert await kit.say("Tell me", listener, message_id="m1") == ended
    assert listener.of(AnsweredBefore) == [AnsweredBefore(ended, "Once")]


async def test_an_end_on_another_node_whose_event_was_lost_is_read_from_the_store(
    kit: SessionKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handspan.gateway.nodes.turns._LOOK_SECONDS", 0.01)
    kit.model, listener = Streaming("Once", last=CUT), RecordingListener()
    ended = await kit.say("Tell me")
    unlisten = kit.sessions.get("s", OWNER).listen(listener)
    elsewhere = TurnsElsewhere(
        lambda: cast(GatewayParts, SimpleNamespace(sessions=kit.sessions)), kit.store.conversations
    )
    elsewhere.on_event(TurnEvent(OWNER, "s", "t1", RoundBegan(1)))
    looking = asyncio.create_task(elsewhere.look())
    try:
        await until(lambda: listener.ends)
    finally:
        looking.cancel()
        unlisten()
    assert listener.ends == [ended]
