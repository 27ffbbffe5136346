"""Sessions that people talk to: found, loaded, closed where somebody was cut off, shared by processes (SPEC A2, A4)."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from handspan import Pending, tool
from handspan.agent.loading import conversation_of
from handspan.agent.refusals import SessionBusy
from handspan.agent.session import Session
from handspan.agent.turn_events import AnsweredBefore, SessionEvent
from handspan.cli.render import render_usage
from handspan.config.load import load_settings
from handspan.config.settings import ModelPrice
from handspan.core.agents import GENERAL, Agent
from handspan.core.errors import ToolError
from handspan.core.events import Ended, TurnFault
from handspan.core.messages import (
    AssistantMessage,
    CallPart,
    Message,
    ResultsMessage,
    Text,
    Usage,
    UserMessage,
    check_all,
)
from handspan.core.principals import OPERATOR, Origin, Principal
from handspan.core.records import SessionRecord
from handspan.core.results import Success
from handspan.gateway.app import App
from handspan.models.choice import Choice
from handspan.models.model import ModelError
from handspan.models.scripted import Scripted, ScriptedReply, ScriptTurn, call
from tests.gateway.sessions.session_kit import open_session

pytestmark = pytest.mark.anyio

STRANGER = Principal("stranger")


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    async with make(tmp_path) as app:
        yield app


def make(folder: Path) -> App:
    folders = {"workspace": str(folder / "ws"), "state": str(folder / "st")}
    return App(load_settings(None, {"HOME": str(folder)}, folders))


def playing(turns: Sequence[ScriptTurn], price: ModelPrice | None = None) -> Choice:
    return Choice(Scripted(turns), "for a test", price=price or ModelPrice())


def said(text: str) -> UserMessage:
    return UserMessage((Text(text),))


async def say(app: App, session: Session, text: str = "go") -> Ended:
    async with asyncio.timeout(60):
        return await session.say(OPERATOR, said(text), lambda *_: None).wait_for_end()


async def kept(app: App, session: Session) -> list[Message]:
    messages = await app.store.conversations.load(session.id, owner=OPERATOR.owner)
    check_all(messages)
    return messages


async def go_on(app: App, session: Session, turns: Sequence[ScriptTurn], agent: Agent = GENERAL) -> Session:
    """The same session as another client opens it."""
    return await open_session(app, playing(turns), agent, session=session.id)


async def record_of(app: App, session: Session) -> SessionRecord:
    return await app.store.conversations.get(session.id, owner=OPERATOR.owner)


async def usage(app: App, session: Session) -> list[str]:
    """The usage of the session as people read it."""
    return render_usage(await app.store.usage.sums("model", owner=session.owner, session=session.id))


def requests(session: Session) -> Any:
    model = conversation_of(session).model
    assert isinstance(model, Scripted)
    return model.requests


# What is not there, or somebody else's.


async def test_a_session_of_somebody_else_is_as_if_it_never_was(app: App) -> None:
    session = await open_session(app, playing(["hi"]), GENERAL)
    for name in (session.id, "nope"):
        with pytest.raises(ToolError, match="There is no session"):
            await app.store.conversations.get(name, owner=STRANGER.owner)


# What was cut off.


async def test_calls_that_a_cut_off_turn_left_open_are_closed_when_the_session_is_opened(app: App) -> None:
    session = await open_session(app, playing([]), GENERAL)
    conversation = conversation_of(session)
    await conversation.append(said("go"))
    lost = CallPart("lost-1", "write_file", '{"path": "a", "content": "b"}')
    await conversation.append(AssistantMessage((lost,), "calls"))
    again = await go_on(app, session, ["fine"])
    last = conversation_of(again).last
    assert isinstance(last, ResultsMessage) and '"code":"interrupted"' in last.results[0].envelope
    assert (await say(app, again)).reason == "done"
    assert not (app.settings.workspace / "a").exists()
    assert len(await kept(app, session)) == 5


async def test_a_turn_that_fails_lets_the_session_go(app: App) -> None:
    session = await open_session(app, playing([ModelError("auth", "No key."), RuntimeError("bug"), "hi"]), GENERAL)
    assert await say(app, session) == Ended("error", "No key.", TurnFault("model", "auth"))
    assert (await say(app, session)).fault == TurnFault("inside", "RuntimeError")
    assert (await say(app, session)).reason == "done"


async def test_a_turn_that_is_aborted_lets_the_session_go_and_what_arrived_is_kept(app: App) -> None:
    reached = asyncio.Event()

    @tool
    async def hang() -> None:
        """Never answer."""
        reached.set()
        await asyncio.Event().wait()

    app.registry.register(hang, Origin("plugin", "test"))
    session = await open_session(app, playing([["wait", call("hang")], "again"]), GENERAL)
    turn = asyncio.create_task(say(app, session))
    async with asyncio.timeout(60):
        await reached.wait()
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert [type(message) for message in await kept(app, session)] == [UserMessage, AssistantMessage, ResultsMessage]
    assert (await say(app, session)).text == "again"


# Two fronts, one session.


async def test_a_session_that_runs_is_busy_for_others_and_they_disturb_nothing(app: App, tmp_path: Path) -> None:
    reached, may_end = asyncio.Event(), asyncio.Event()

    @tool
    async def slow() -> str:
        """Take a while."""
        reached.set()
        await may_end.wait()
        return "done"

    app.registry.register(slow, Origin("plugin", "test"))
    session = await open_session(app, playing([call("slow"), "first"]), GENERAL)
    turn = asyncio.create_task(say(app, session))
    async with asyncio.timeout(60):
        await reached.wait()
    async with make(tmp_path) as other:  # as in another process: it has a run of its own
        elsewhere = await go_on(other, session, ["second"])
        with pytest.raises(SessionBusy, match="is running"):
            await say(other, elsewhere)
        may_end.set()
        assert await turn == Ended("done", "first")
        assert await say(other, elsewhere, "and you?") == Ended("done", "second")
    assert '"status":"success"' in str((await kept(app, session))[2])
    assert [type(message) for message in requests(elsewhere)[0].messages].count(ResultsMessage) == 1


async def test_what_was_said_elsewhere_meanwhile_is_heard_before_the_next_turn(app: App) -> None:
    first = await open_session(app, playing(["one", "three"]), GENERAL)
    await say(app, first, "1")
    second = await go_on(app, first, ["two"])
    await say(app, second, "2")
    await say(app, first, "3")
    texts = [part.text for message in requests(first)[-1].messages for part in message.parts]
    assert texts == ["1", "one", "2", "two", "3"]
    assert len(await kept(app, first)) == 6


async def test_a_message_that_two_nodes_got_is_stored_and_answered_once(app: App) -> None:
    first = await open_session(app, playing(["zero", "one"]), GENERAL)
    await say(app, first, "0")
    second = await go_on(app, first, ["never"])  # it knows the session, and not what is said next
    message = UserMessage((Text("1"),), id="m1")
    assert await first.say(OPERATOR, message, lambda *_: None).wait_for_end() == Ended("done", "one")
    heard: list[SessionEvent] = []
    ended = await second.say(OPERATOR, message, lambda event, _: heard.append(event)).wait_for_end()
    assert ended == Ended("done", "one")
    assert [event.ended for event in heard if isinstance(event, AnsweredBefore)] == [Ended("done", "one")]
    assert len(await kept(app, first)) == 4


# What waits.


async def test_a_session_that_waits_tells_so_and_goes_on_when_the_outcome_is_there(app: App) -> None:
    @tool
    async def browser() -> Pending:
        """Answer later."""
        return Pending()

    app.registry.register(browser, Origin("plugin", "test"))
    session = await open_session(app, playing([call("browser")]), GENERAL)
    assert (await say(app, session)).reason == "pending"
    again = await go_on(app, session, ["clicked, then", "and more"])
    with pytest.raises(SessionBusy, match="waits for the outcome of browser"):
        await say(app, again, "are you there?")
    assert len(await kept(app, session)) == 2
    (open_call,) = (
        message.calls[0] for message in conversation_of(again).messages if isinstance(message, AssistantMessage)
    )
    await app.engine.settle(open_call.id, Success("clicked"))
    events: list[SessionEvent] = []
    ended = await again.say(OPERATOR, said("are you there?"), lambda event, _: events.append(event)).wait_for_end()
    assert ended == Ended("done", "and more")
    assert [event.text for event in events if isinstance(event, Ended)] == ["clicked, then", "and more"]
    assert len(await kept(app, session)) == 6


async def test_a_session_that_waits_still_does_when_its_turn_is_given_up_before_it_begins(app: App) -> None:
    @tool
    async def browser() -> Pending:
        """Answer later."""
        return Pending()

    app.registry.register(browser, Origin("plugin", "test"))
    session = await open_session(app, playing([call("browser"), "clicked"]), GENERAL)
    assert (await say(app, session)).reason == "pending"

    async def resume() -> None:
        await session.resume().wait_for_end()

    for steps in range(12):
        going_on = asyncio.create_task(resume())
        for _ in range(steps):
            await asyncio.sleep(0.0005)
        going_on.cancel()
        await asyncio.wait([going_on], timeout=10)
        assert (await record_of(app, session)).state == "waiting"
    assert len(await kept(app, session)) == 2


# Who answers.


async def test_another_agent_goes_on_with_its_own_tools_words_limits_and_model(app: App) -> None:
    clerk = Agent("Clerk", ("read_file",), instructions="Be brief.", max_tool_iterations=1)
    session = await open_session(app, playing(["one", call("read_file", path="x"), "no more"]), GENERAL, clerk)
    await say(app, session, "1")
    ended = await session.say(OPERATOR, said("2"), lambda *_: None, agent="Clerk").wait_for_end()
    assert ended == Ended("limit", "no more")
    request = requests(session)[1]
    assert request.tools == ("read_file",)
    assert request.instructions.startswith("Be brief.") and len(request.messages) == 3
    assert (await record_of(app, session)).agent == "Clerk"
    back = await go_on(app, session, ["three"], GENERAL)
    assert (await record_of(app, back)).agent == "General"


@pytest.mark.parametrize("limit", [None, 0])
async def test_no_limit_is_no_limit(app: App, limit: int | None) -> None:
    turns: list[ScriptTurn] = [*(call("read_file", path=f"{number}") for number in range(3)), "done"]
    session = await open_session(app, playing(turns), Agent("x", max_tool_iterations=limit))
    assert conversation_of(session).limits.rounds is None
    assert (await say(app, session)).reason == "done"


# What it cost.


async def test_usage_is_summed_for_each_model_and_what_is_unknown_is_never_0(app: App) -> None:
    turns: list[ScriptTurn] = [ScriptedReply(["a"], Usage(1000, 100)), "b"]
    session = await open_session(app, playing(turns, ModelPrice(2.0, 10.0)), GENERAL)
    assert await usage(app, session) == ["nothing yet"]
    await say(app, session)
    assert await usage(app, session) == ["scripted: 1 reply, 1000 tokens in, 100 out, cost 0.0030 USD"]
    await say(app, session)
    assert await usage(app, session) == [
        "scripted: 2 replies, at least 1000 tokens in, at least 100 out, cost at least 0.0030 USD"
    ]
    other = await open_session(app, playing(["x"]), GENERAL, session="other")
    await say(app, other)
    assert await usage(app, other) == ["scripted: 1 reply, unknown tokens in, unknown out, cost unknown"]
