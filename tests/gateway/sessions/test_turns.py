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
from handspan.core.results import Success
from handspan.models.model import ModelError
from handspan.models.scripted import call
from tests.gateway.sessions.talking import STRANGER, Front, House, all_of, words
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
    house: House, monkeypatch: pytest.MonkeyPatch, model: str, words: str
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    await house.app.agents.create(Agent("Wrong", model=model))
    front, watcher = Front(), Front()
    house.sessions.get("s", OWNER).listen(watcher)
    await soon(house.sessions.bind("s", OPERATOR, agent="Wrong"))
    ended = await house.say("hi", front, agent="Wrong")
    assert ended.reason == "error" and words in ended.text
    assert front.heard == watcher.heard == [ended]
    assert await soon(house.store.conversations.find("s", owner=OWNER)) is None
    house.plays("hello")
    assert (await house.say("hi")).text == "hello"


async def test_a_model_that_fails_ends_the_turn_and_the_next_one_runs(house: House) -> None:
    house.plays(ModelError("auth", "The key is wrong."), RuntimeError("bug"), "hello")
    front = Front()
    assert await house.say("1", front) == Ended("error", "The key is wrong.", TurnFault("model", "auth"))
    ended = await house.say("2", front)
    assert ended.reason == "error" and "inside the gateway (RuntimeError)" in ended.text and "bug" not in ended.text
    assert await house.say("3", front) == Ended("done", "hello")
    assert [end.reason for end in front.ends] == ["error", "error", "done"]
    assert front.of(Titled) == [Titled("1")]


async def test_a_store_that_fails_in_mid_turn_ends_it(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    house.plays("hello", "again")

    def full(*_: Any, **__: Any) -> None:
        raise StoreError("The disk is full.")

    front = Front()
    with monkeypatch.context() as patch:
        patch.setattr(house.store.conversations, "keep", full)
        failed = Ended("error", "The disk is full.", TurnFault("call", "execution_failed"))
        assert await house.say("hi", front) == failed
    assert front.ends == [failed]
    assert (await house.say("hi")).reason == "done"


async def test_a_front_that_fails_disturbs_nobody(house: House) -> None:
    def broken(_: object, turn: str) -> None:
        raise ValueError("a front's bug")

    front = Front()
    house.plays("hello")
    house.sessions.get("s", OWNER).listen(broken)
    assert await house.say("hi", front) == Ended("done", "hello")
    assert front.ends == [Ended("done", "hello")]


async def test_a_session_that_another_process_runs_is_busy(house: House, tmp_path: Path) -> None:
    house.plays(call("slow"), "done")
    task = house.start("hi")
    await soon(house.reached.wait())
    other = House(tmp_path)
    await other.app.open()
    try:
        with pytest.raises(SessionBusy, match="is running"):
            await other.say("me too")
        house.may_end.set()
        assert (await soon(task)).reason == "done"
    finally:
        await other.sessions.drain(0)
        await other.app.close()


# Joining.


async def test_a_message_that_joins_is_part_of_the_turn_that_runs(house: House) -> None:
    house.plays(call("slow"), "both")
    one, other = Front(), Front()
    first = house.start("1", one)
    await soon(house.reached.wait())
    second = house.start("2", other, join=True)
    await asyncio.sleep(0)
    house.may_end.set()
    assert await all_of(first, second) == [Ended("done", "both")] * 2
    assert await house.texts() == ["1", "<slow>", "<slow>", "2", "both"]
    assert other.ends == [Ended("done", "both")]


async def test_a_message_that_could_join_nothing_is_a_turn_of_its_own(house: House) -> None:
    house.plays("one", "two")
    assert (await house.say("1", join=True)).text == "one"
    assert (await house.say("2", join=True)).text == "two"


async def test_a_message_that_joins_before_the_turn_has_begun_comes_behind_the_first(house: House) -> None:
    house.plays("both")
    both = await all_of(house.start("1"), house.start("2", join=True))
    assert both == [Ended("done", "both")] * 2
    assert await house.texts() == ["1", "2", "both"]


async def test_what_joined_a_turn_that_broke_off_is_kept(house: House) -> None:
    house.plays(call("slow"), "later")
    first = house.start("1")
    await soon(house.reached.wait())
    second = house.start("2", join=True)
    await asyncio.sleep(0)
    assert house.sessions.abort("s", OWNER)
    assert await all_of(first, second) == [Ended("aborted")] * 2
    assert await house.texts() == ["1", "<slow>", "<slow>", "2"]
    assert (await house.say("3")).text == "later"


async def test_what_joined_a_turn_that_waits_is_refused(house: House) -> None:
    @tool
    async def browser() -> Pending:
        """Answer later."""
        return Pending()

    house.app.registry.register(browser, PLUGIN)
    house.plays([call("slow"), call("browser")], "later")
    first = house.start("1")
    await soon(house.reached.wait())
    second = house.start("2", join=True)
    await asyncio.sleep(0)
    house.may_end.set()
    assert (await soon(first)).reason == "pending"
    with pytest.raises(SessionBusy, match="waits for the outcome"):
        await soon(second)
    assert "2" not in await house.texts()


async def test_who_joined_and_goes_away_does_not_stop_the_turn(house: House) -> None:
    house.plays(call("slow"), "done")
    first = house.start("1")
    await soon(house.reached.wait())
    second = house.start("2", join=True)
    await asyncio.sleep(0)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await soon(second)
    house.may_end.set()
    assert (await soon(first)).reason == "done"


# Another answer.


async def test_there_is_nothing_to_answer_again(house: House) -> None:
    with pytest.raises(NoUserMessage) as refused:
        await soon(house.sessions.get("s", OPERATOR.owner).regenerate(OPERATOR, Front()).end())
    assert refused.value.code == "NO_USER_MESSAGE"
    assert await soon(house.store.conversations.find("s", owner=OWNER)) is None
    await house.store.conversations.create(owner=OWNER, session="s")
    with pytest.raises(NoUserMessage):
        await soon(house.sessions.get("s", OPERATOR.owner).regenerate(OPERATOR, Front()).end())


async def test_the_last_answer_is_dropped_with_its_calls_and_given_again(house: House) -> None:
    house.plays("one", ["look", call("note", text="a")], "two", "better", "three")
    await house.say("1")
    await house.say("2")
    front = Front()
    assert await soon(house.sessions.get("s", OPERATOR.owner).regenerate(OPERATOR, front).end()) == Ended(
        "done", "better"
    )
    assert await house.texts() == ["1", "one", "2", "better"]
    assert [len(request.messages) for request in house.requests][-1] == 3
    assert front.ends == [Ended("done", "better")]
    calls, _ = await soon(house.store.ledger.page(owner=OWNER, session="s"))
    assert [record.name for record in calls] == ["note"]
    (used,) = await soon(house.store.usage.sums("session", owner=OWNER))
    assert used.replies == 4
    assert (await house.say("3")).text == "three"
    assert await house.texts() == ["1", "one", "2", "better", "3", "three"]


async def test_a_message_that_got_no_answer_is_answered(house: House) -> None:
    house.plays(ModelError("network", "Nobody there."), "at last")
    await house.say("hi")
    assert (await soon(house.sessions.get("s", OPERATOR.owner).regenerate(OPERATOR, Front()).end())).text == "at last"
    assert await house.texts() == ["hi", "at last"]


async def test_an_answer_that_another_process_dropped_is_forgotten_here_too(house: House, tmp_path: Path) -> None:
    house.plays("one", "three")
    await house.say("1")
    other = House(tmp_path, ["another one"])
    await other.app.open()
    await soon(other.sessions.get("s", OPERATOR.owner).regenerate(OPERATOR, Front()).end())
    await other.sessions.drain(0)
    await other.app.close()
    await house.say("2")
    assert words(house.requests[-1].messages) == ["1", "another one", "2"]


# Going on.


def with_browser(house: House) -> None:
    @tool
    async def browser() -> Pending:
        """Answer later."""
        return Pending()

    house.app.registry.register(browser, PLUGIN)


async def open_call(house: House) -> str:
    (record,) = await soon(house.store.ledger.open_calls(owner=OWNER))
    return record.id


async def test_a_session_that_waits_can_not_go_on_nor_be_talked_to_nor_answer_again(house: House) -> None:
    with_browser(house)
    house.plays(call("browser"), "never")
    watcher = Front()
    assert (await house.say("1")).reason == "pending"
    house.sessions.get("s", OWNER).listen(watcher)
    await soon(house.sessions.go_on("s", OWNER))
    for trying in (house.say("2"), house.sessions.get("s", OPERATOR.owner).regenerate(OPERATOR, Front()).end()):
        with pytest.raises(SessionBusy, match="waits for the outcome of browser"):
            await soon(trying)
    assert watcher.heard == []
    assert (await soon(house.store.conversations.get("s", owner=OWNER))).state == "waiting"
    assert await house.texts() == ["1", "<browser>"]


async def test_a_session_goes_on_when_the_outcome_is_there_and_watchers_hear_it(house: House) -> None:
    with_browser(house)
    house.plays(call("browser"), "clicked")
    await house.say("1")
    watcher = Front()
    house.sessions.get("s", OWNER).listen(watcher)
    call_id = await open_call(house)
    await soon(house.app.engine.settle(call_id, Success("click")))
    await soon(house.sessions.go_on("s", OWNER))
    assert await house.texts() == ["1", "<browser>", "<browser>", "clicked"]
    assert [event.id for event in watcher.of(CallFinished)] == [call_id]
    assert watcher.ends == [Ended("done", "clicked")]
    assert (await soon(house.store.conversations.get("s", owner=OWNER))).state == "idle"
    await soon(house.sessions.go_on("s", OWNER))
    assert len(await house.kept()) == 4


async def test_what_waited_is_ended_before_the_next_message_is_answered(house: House) -> None:
    with_browser(house)
    house.plays(call("browser"), "clicked", "and more")
    await house.say("1")
    await soon(house.app.engine.settle(await open_call(house), Success("click")))
    front = Front()
    assert await house.say("2", front) == Ended("done", "and more")
    assert front.ends == [Ended("done", "clicked"), Ended("done", "and more")]
    assert await house.texts() == ["1", "<browser>", "<browser>", "clicked", "2", "and more"]


async def test_a_session_that_never_was_or_is_gone_does_not_go_on(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    await soon(house.sessions.go_on("nowhere", OWNER))
    assert await soon(house.store.conversations.find("nowhere", owner=OWNER)) is None
    house.plays("hello")
    await house.say("hi")
    await soon(house.sessions.go_on("s", STRANGER.owner))
    assert "belongs to somebody else" in caplog.text


async def test_who_waits_for_a_session_to_go_on_may_go_away(house: House) -> None:
    with_browser(house)
    house.plays(call("browser"), call("slow"), "done")
    await house.say("1")
    await soon(house.app.engine.settle(await open_call(house), Success("click")))
    watcher = Front()
    house.sessions.get("s", OWNER).listen(watcher)
    task = asyncio.create_task(house.sessions.go_on("s", OWNER))
    await soon(house.reached.wait())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await soon(task)
    house.may_end.set()
    await until(lambda: watcher.ends)
    assert watcher.ends == [Ended("done", "done")]


# Who hears what.


async def test_everybody_who_watches_hears_each_event_once(house: House) -> None:
    house.plays(["see", call("note", text="a")], "done")
    one, other = Front(), Front()
    house.sessions.get("s", OWNER).listen(one)
    unwatch = house.sessions.get("s", OWNER).listen(other)
    await house.say("1", one)
    assert one.heard == other.heard
    kinds = [type(event) for event in one.heard]
    assert kinds.count(RoundBegan) == 2 and kinds.count(CallStarted) == kinds.count(Ended) == 1
    unwatch()
    house.plays("x")
    await house.say("2", one)
    assert len(one.ends) == 2 and len(other.ends) == 1


async def test_who_does_not_watch_hears_only_what_they_asked_for(house: House) -> None:
    house.plays("one", "two")
    one, other = Front(), Front()
    await house.say("1", one)
    await house.say("2", other)
    assert [event.text for event in one.of(TextArrived)] == ["one"]
    assert [event.text for event in other.of(TextArrived)] == ["two"]


async def test_nothing_is_kept_of_sessions_that_nobody_needs(house: House) -> None:
    house.plays(*["x"] * 3)
    for number in range(3):
        await house.say("hi", session=f"s{number}")
        assert len(house.sessions) == 0
    with pytest.raises(SessionRefused):
        await house.say("hi", session="not an id")
    house.sessions.get("s0", OWNER).listen(Front())()
    assert len(house.sessions) == 0


# Debugging.


async def test_the_prompt_of_the_first_round_is_shown_to_who_asks(house: House) -> None:
    house.plays(call("note", text="a"), "done", "again", "quiet")
    front, watcher = Front(), Front()
    house.sessions.get("s", OWNER).listen(watcher)
    await house.say("look", front, debug=True)
    (shown,) = front.of(Prompted)
    assert watcher.of(Prompted) == []
    assert isinstance(front.heard[0], Prompted)
    told = json.loads(shown.messages)
    assert told["messages"] == [{"type": "user", "parts": [{"type": "text", "text": "look"}]}]
    assert "note" in {tool["name"] for tool in told["tools"]} and "instructions" in told
    assert shown.estimated_tokens == len(shown.messages.encode()) // 4
    await soon(house.sessions.get("s", OPERATOR.owner).regenerate(OPERATOR, front, debug=True).end())
    assert len(front.of(Prompted)) == 2
    await house.say("more", front)
    assert len(front.of(Prompted)) == 2


async def test_what_goes_wrong_beside_the_turns_is_in_the_log(house: House, caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        raise StoreError("The disk is full.")

    house.sessions.beside(work())
    await until(lambda: "Work beside the turns failed: The disk is full." in caplog.text)
