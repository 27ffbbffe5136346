"""Turns of sessions: one at a time, heard by all who watch, stopped by whoever says so (ws.md 3, SPEC A2, A4)."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from handspan import Pending, tool
from handspan.agent.refusals import NoUserMessage, SessionBusy, SessionRefused
from handspan.agent.turn_events import Prompted
from handspan.core.agents import Agent
from handspan.core.errors import StoreError
from handspan.core.events import CallFinished, CallStarted, Ended, RoundBegan, TextArrived, Titled, TurnFault
from handspan.core.principals import OPERATOR, Origin
from handspan.core.records import CallFilter
from handspan.core.results import Success
from handspan.models.model import ModelError
from handspan.models.scripted import call
from tests.gateway.sessions.session_kit import STRANGER, RecordingListener, SessionKit, all_of, words
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio

PLUGIN = Origin("plugin", "test")
OWNER = OPERATOR.owner


# Turns that fail.


@pytest.mark.parametrize(
    ("model", "words"),
    [("nonsense", "there is no model 'nonsense'"), ("anthropic:claude", "there is no key for anthropic")],
)
async def test_a_model_that_can_not_be_had_is_an_end_and_no_crash(
    kit: SessionKit, monkeypatch: pytest.MonkeyPatch, model: str, words: str
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    await kit.app.agents.create(Agent("Wrong", model=model))
    listener, watcher = RecordingListener(), RecordingListener()
    kit.sessions.get("s", OWNER).listen(watcher)
    await soon(kit.sessions.bind("s", OPERATOR, agent="Wrong"))
    ended = await kit.say("hi", listener, agent="Wrong")
    assert ended.reason == "error" and words in ended.text
    assert listener.heard == watcher.heard == [ended]
    assert await soon(kit.store.conversations.find("s", owner=OWNER)) is None
    kit.plays("hello")
    assert (await kit.say("hi")).text == "hello"


async def test_a_model_that_fails_ends_the_turn_and_the_next_one_runs(kit: SessionKit) -> None:
    kit.plays(ModelError("auth", "The key is wrong."), RuntimeError("bug"), "hello")
    listener = RecordingListener()
    assert await kit.say("1", listener) == Ended("error", "The key is wrong.", TurnFault("model", "auth"))
    ended = await kit.say("2", listener)
    assert ended.reason == "error" and "inside the gateway (RuntimeError)" in ended.text and "bug" not in ended.text
    assert await kit.say("3", listener) == Ended("done", "hello")
    assert [end.reason for end in listener.ends] == ["error", "error", "done"]
    assert listener.of(Titled) == [Titled("1")]


async def test_a_store_that_fails_in_mid_turn_ends_it(kit: SessionKit, monkeypatch: pytest.MonkeyPatch) -> None:
    kit.plays("hello", "again")

    def full(*_: Any, **__: Any) -> None:
        raise StoreError("The disk is full.")

    listener = RecordingListener()
    with monkeypatch.context() as patch:
        patch.setattr(kit.store.conversations, "keep", full)
        failed = Ended("error", "The disk is full.", TurnFault("call", "execution_failed"))
        assert await kit.say("hi", listener) == failed
    assert listener.ends == [failed]
    assert (await kit.say("hi")).reason == "done"


async def test_a_front_that_fails_disturbs_nobody(kit: SessionKit) -> None:
    def broken(_: object, turn: str) -> None:
        raise ValueError("a listener's bug")

    listener = RecordingListener()
    kit.plays("hello")
    kit.sessions.get("s", OWNER).listen(broken)
    assert await kit.say("hi", listener) == Ended("done", "hello")
    assert listener.ends == [Ended("done", "hello")]


async def test_a_session_that_another_process_runs_is_busy(kit: SessionKit, tmp_path: Path) -> None:
    kit.plays(call("slow"), "done")
    task = kit.start("hi")
    await soon(kit.reached.wait())
    other = SessionKit(tmp_path)
    await other.app.open()
    try:
        with pytest.raises(SessionBusy, match="is running"):
            await other.say("me too")
        kit.may_end.set()
        assert (await soon(task)).reason == "done"
    finally:
        await other.sessions.drain(0)
        await other.app.close()


# Joining.


async def test_a_message_that_joins_is_part_of_the_turn_that_runs(kit: SessionKit) -> None:
    kit.plays(call("slow"), "both")
    one, other = RecordingListener(), RecordingListener()
    first = kit.start("1", one)
    await soon(kit.reached.wait())
    second = kit.start("2", other, join=True)
    await asyncio.sleep(0)
    kit.may_end.set()
    assert await all_of(first, second) == [Ended("done", "both")] * 2
    assert await kit.texts() == ["1", "<slow>", "<slow>", "2", "both"]
    assert other.ends == [Ended("done", "both")]


async def test_a_message_that_could_join_nothing_is_a_turn_of_its_own(kit: SessionKit) -> None:
    kit.plays("one", "two")
    assert (await kit.say("1", join=True)).text == "one"
    assert (await kit.say("2", join=True)).text == "two"


async def test_a_message_that_joins_before_the_turn_has_begun_comes_behind_the_first(kit: SessionKit) -> None:
    kit.plays("both")
    both = await all_of(kit.start("1"), kit.start("2", join=True))
    assert both == [Ended("done", "both")] * 2
    assert await kit.texts() == ["1", "2", "both"]


async def test_what_joined_a_turn_that_broke_off_is_kept(kit: SessionKit) -> None:
    kit.plays(call("slow"), "later")
    first = kit.start("1")
    await soon(kit.reached.wait())
    second = kit.start("2", join=True)
    await asyncio.sleep(0)
    assert kit.sessions.abort("s", OWNER)
    assert await all_of(first, second) == [Ended("aborted")] * 2
    assert await kit.texts() == ["1", "<slow>", "<slow>", "2"]
    assert (await kit.say("3")).text == "later"


async def test_what_joined_a_turn_that_waits_is_refused(kit: SessionKit) -> None:
    @tool
    async def browser() -> Pending:
        """Answer later."""
        return Pending()

    kit.app.registry.register(browser, PLUGIN)
    kit.plays([call("slow"), call("browser")], "later")
    first = kit.start("1")
    await soon(kit.reached.wait())
    second = kit.start("2", join=True)
    await asyncio.sleep(0)
    kit.may_end.set()
    assert (await soon(first)).reason == "pending"
    with pytest.raises(SessionBusy, match="waits for the outcome"):
        await soon(second)
    assert "2" not in await kit.texts()


async def test_who_joined_and_goes_away_does_not_stop_the_turn(kit: SessionKit) -> None:
    kit.plays(call("slow"), "done")
    first = kit.start("1")
    await soon(kit.reached.wait())
    second = kit.start("2", join=True)
    await asyncio.sleep(0)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await soon(second)
    kit.may_end.set()
    assert (await soon(first)).reason == "done"


# Another answer.


async def test_there_is_nothing_to_answer_again(kit: SessionKit) -> None:
    with pytest.raises(NoUserMessage) as refused:
        await soon(kit.sessions.get("s", OPERATOR.owner).regenerate(OPERATOR, RecordingListener()).wait_for_end())
    assert refused.value.code == "NO_USER_MESSAGE"
    assert await soon(kit.store.conversations.find("s", owner=OWNER)) is None
    await kit.store.conversations.create(owner=OWNER, session="s")
    with pytest.raises(NoUserMessage):
        await soon(kit.sessions.get("s", OPERATOR.owner).regenerate(OPERATOR, RecordingListener()).wait_for_end())


async def test_the_last_answer_is_dropped_with_its_calls_and_given_again(kit: SessionKit) -> None:
    kit.plays("one", ["look", call("note", text="a")], "two", "better", "three")
    await kit.say("1")
    await kit.say("2")
    listener = RecordingListener()
    assert await soon(kit.sessions.get("s", OPERATOR.owner).regenerate(OPERATOR, listener).wait_for_end()) == Ended(
        "done", "better"
    )
    assert await kit.texts() == ["1", "one", "2", "better"]
    assert [len(request.messages) for request in kit.requests][-1] == 3
    assert listener.ends == [Ended("done", "better")]
    calls, _ = await soon(kit.store.ledger.page(CallFilter(session="s"), owner=OWNER))
    assert [record.name for record in calls] == ["note"]
    (used,) = await soon(kit.store.usage.sums("session", owner=OWNER))
    assert used.replies == 4
    assert (await kit.say("3")).text == "three"
    assert await kit.texts() == ["1", "one", "2", "better", "3", "three"]


async def test_a_message_that_got_no_answer_is_answered(kit: SessionKit) -> None:
    kit.plays(ModelError("network", "Nobody there."), "at last")
    await kit.say("hi")
    assert (
        await soon(kit.sessions.get("s", OPERATOR.owner).regenerate(OPERATOR, RecordingListener()).wait_for_end())
    ).text == "at last"
    assert await kit.texts() == ["hi", "at last"]


async def test_an_answer_that_another_process_dropped_is_forgotten_here_too(kit: SessionKit, tmp_path: Path) -> None:
    kit.plays("one", "three")
    await kit.say("1")
    other = SessionKit(tmp_path, ["another one"])
    await other.app.open()
    await soon(other.sessions.get("s", OPERATOR.owner).regenerate(OPERATOR, RecordingListener()).wait_for_end())
    await other.sessions.drain(0)
    await other.app.close()
    await kit.say("2")
    assert words(kit.requests[-1].messages) == ["1", "another one", "2"]


# Going on.


def with_browser(kit: SessionKit) -> None:
    @tool
    async def browser() -> Pending:
        """Answer later."""
        return Pending()

    kit.app.registry.register(browser, PLUGIN)


async def open_call(kit: SessionKit) -> str:
    (record,) = await soon(kit.store.ledger.open_calls(owner=OWNER))
    return record.id


async def test_a_session_that_waits_can_not_go_on_nor_be_talked_to_nor_answer_again(kit: SessionKit) -> None:
    with_browser(kit)
    kit.plays(call("browser"), "never")
    watcher = RecordingListener()
    assert (await kit.say("1")).reason == "pending"
    kit.sessions.get("s", OWNER).listen(watcher)
    await soon(kit.sessions.resume_turn("s", OWNER))
    for trying in (
        kit.say("2"),
        kit.sessions.get("s", OPERATOR.owner).regenerate(OPERATOR, RecordingListener()).wait_for_end(),
    ):
        with pytest.raises(SessionBusy, match="waits for the outcome of browser"):
            await soon(trying)
    assert watcher.heard == []
    assert (await soon(kit.store.conversations.get("s", owner=OWNER))).state == "waiting"
    assert await kit.texts() == ["1", "<browser>"]


async def test_a_session_goes_on_when_the_outcome_is_there_and_watchers_hear_it(kit: SessionKit) -> None:
    with_browser(kit)
    kit.plays(call("browser"), "clicked")
    await kit.say("1")
    watcher = RecordingListener()
    kit.sessions.get("s", OWNER).listen(watcher)
    call_id = await open_call(kit)
    await soon(kit.app.engine.settle(call_id, Success("click")))
    await soon(kit.sessions.resume_turn("s", OWNER))
    assert await kit.texts() == ["1", "<browser>", "<browser>", "clicked"]
    assert [event.id for event in watcher.of(CallFinished)] == [call_id]
    assert watcher.ends == [Ended("done", "clicked")]
    assert (await soon(kit.store.conversations.get("s", owner=OWNER))).state == "idle"
    await soon(kit.sessions.resume_turn("s", OWNER))
    assert len(await kit.kept()) == 4


async def test_what_waited_is_ended_before_the_next_message_is_answered(kit: SessionKit) -> None:
    with_browser(kit)
    kit.plays(call("browser"), "clicked", "and more")
    await kit.say("1")
    await soon(kit.app.engine.settle(await open_call(kit), Success("click")))
    listener = RecordingListener()
    assert await kit.say("2", listener) == Ended("done", "and more")
    assert listener.ends == [Ended("done", "clicked"), Ended("done", "and more")]
    assert await kit.texts() == ["1", "<browser>", "<browser>", "clicked", "2", "and more"]


async def test_a_session_that_never_was_or_is_gone_does_not_go_on(
    kit: SessionKit, caplog: pytest.LogCaptureFixture
) -> None:
    await soon(kit.sessions.resume_turn("nowhere", OWNER))
    assert await soon(kit.store.conversations.find("nowhere", owner=OWNER)) is None
    kit.plays("hello")
    await kit.say("hi")
    await soon(kit.sessions.resume_turn("s", STRANGER.owner))
    assert "belongs to another owner" in caplog.text


async def test_who_waits_for_a_session_to_go_on_may_go_away(kit: SessionKit) -> None:
    with_browser(kit)
    kit.plays(call("browser"), call("slow"), "done")
    await kit.say("1")
    await soon(kit.app.engine.settle(await open_call(kit), Success("click")))
    watcher = RecordingListener()
    kit.sessions.get("s", OWNER).listen(watcher)
    task = asyncio.create_task(kit.sessions.resume_turn("s", OWNER))
    await soon(kit.reached.wait())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await soon(task)
    kit.may_end.set()
    await until(lambda: watcher.ends)
    assert watcher.ends == [Ended("done", "done")]


# Who hears what.


async def test_everybody_who_watches_hears_each_event_once(kit: SessionKit) -> None:
    kit.plays(["see", call("note", text="a")], "done")
    one, other = RecordingListener(), RecordingListener()
    kit.sessions.get("s", OWNER).listen(one)
    unwatch = kit.sessions.get("s", OWNER).listen(other)
    await kit.say("1", one)
    assert one.heard == other.heard
    kinds = [type(event) for event in one.heard]
    assert kinds.count(RoundBegan) == 2 and kinds.count(CallStarted) == kinds.count(Ended) == 1
    unwatch()
    kit.plays("x")
    await kit.say("2", one)
    assert len(one.ends) == 2 and len(other.ends) == 1


async def test_who_does_not_watch_hears_only_what_they_asked_for(kit: SessionKit) -> None:
    kit.plays("one", "two")
    one, other = RecordingListener(), RecordingListener()
    await kit.say("1", one)
    await kit.say("2", other)
    assert [event.text for event in one.of(TextArrived)] == ["one"]
    assert [event.text for event in other.of(TextArrived)] == ["two"]


async def test_nothing_is_kept_of_sessions_that_nobody_needs(kit: SessionKit) -> None:
    kit.plays(*["x"] * 3)
    for number in range(3):
        await kit.say("hi", session=f"s{number}")
        assert len(kit.sessions) == 0
    with pytest.raises(SessionRefused):
        await kit.say("hi", session="not an id")
    kit.sessions.get("s0", OWNER).listen(RecordingListener())()
    assert len(kit.sessions) == 0


# Debugging.


async def test_the_prompt_of_the_first_round_is_shown_to_who_asks(kit: SessionKit) -> None:
    kit.plays(call("note", text="a"), "done", "again", "quiet")
    listener, watcher = RecordingListener(), RecordingListener()
    kit.sessions.get("s", OWNER).listen(watcher)
    await kit.say("look", listener, debug=True)
    (shown,) = listener.of(Prompted)
    assert watcher.of(Prompted) == []
    assert isinstance(listener.heard[0], Prompted)
    told = json.loads(shown.messages)
    assert told["messages"] == [{"type": "user", "parts": [{"type": "text", "text": "look"}]}]
    assert "note" in {tool["name"] for tool in told["tools"]} and "instructions" in told
    assert shown.estimated_tokens == len(shown.messages.encode()) // 4
    await soon(kit.sessions.get("s", OPERATOR.owner).regenerate(OPERATOR, listener, debug=True).wait_for_end())
    assert len(listener.of(Prompted)) == 2
    await kit.say("more", listener)
    assert len(listener.of(Prompted)) == 2


async def test_what_goes_wrong_beside_the_turns_is_in_the_log(
    kit: SessionKit, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        raise StoreError("The disk is full.")

    kit.sessions.tasks.start(work())
    await until(lambda: "A background task failed" in caplog.text and "The disk is full." in caplog.text)
