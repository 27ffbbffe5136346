"""Turns of sessions: one at a time, heard by all who watch, stopped by whoever says so (ws.md 3, SPEC A2, A4)."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from handspan import Pending, tool
from handspan.core.agents import Agent
from handspan.core.conversations import StoreError
from handspan.core.events import CallFinished, CallStarted, Ended, RoundBegan, TextArrived
from handspan.core.messages import Media, Message, UserMessage
from handspan.core.principals import OPERATOR, Origin, Principal
from handspan.core.results import Attachment, Success
from handspan.core.tool import ToolSpec
from handspan.gateway.conversations.open_sessions import OpenSessions
from handspan.gateway.conversations.rooms import MOST_WAITING
from handspan.gateway.conversations.titles import short, title_of
from handspan.gateway.conversations.turn_events import Prompted, Titled
from handspan.gateway.conversations.turns import NoUserMessage, SessionBusy, SessionRefused
from handspan.models.choice import Choice
from handspan.models.model import ModelError, TextDelta
from handspan.models.scripted import Scripted, call
from tests.gateway.conversations.talking import STRANGER, Front, House, all_of, said, soon, until, words

pytestmark = pytest.mark.anyio

PLUGIN = Origin("plugin", "test")
OWNER = OPERATOR.owner


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with House(tmp_path) as house:
        yield house


# Sessions that can't be had.


@pytest.mark.parametrize("session_id", ["a b", "a/b", "x" * 129, "über", "../etc", "a\n"])
async def test_an_id_that_can_not_be_one_is_refused(house: House, session_id: str) -> None:
    for trying in (
        house.turns.bind(session_id, OPERATOR),
        house.turns.say(session_id, OPERATOR, said("hi"), Front()),
        house.turns.regenerate(session_id, OPERATOR, Front()),
    ):
        with pytest.raises(SessionRefused, match="can't be used") as refused:
            await soon(trying)
        assert refused.value.code == "SESSION_BIND_FAILED"


async def test_the_session_of_somebody_else_is_refused_everywhere(house: House) -> None:
    house.plays("hello")
    await house.say("hi", session="kitchen")
    for trying in (
        house.turns.bind("kitchen", STRANGER),
        house.turns.say("kitchen", STRANGER, said("hi"), Front()),
        house.turns.regenerate("kitchen", STRANGER, Front()),
    ):
        with pytest.raises(SessionRefused, match="belongs to somebody else") as refused:
            await soon(trying)
        assert refused.value.code == "SESSION_OWNER_MISMATCH"
    assert await house.texts("kitchen") == ["hi", "hello"]


async def test_a_session_that_is_only_watched_is_somebodys_already(house: House) -> None:
    unwatch = house.turns.watch("new", OWNER, Front())
    for trying in (house.turns.bind("new", STRANGER), house.turns.say("new", STRANGER, said("hi"), Front())):
        with pytest.raises(SessionRefused, match="belongs to somebody else"):
            await soon(trying)
    with pytest.raises(SessionRefused):
        house.turns.watch("new", STRANGER.owner, Front())
    assert house.turns.state("new", STRANGER.owner) is None and not await house.turns.abort("new", STRANGER.owner)
    unwatch()
    unwatch()
    assert (await soon(house.turns.bind("new", STRANGER))).session_id == "new"


async def test_two_who_begin_under_one_id_at_once_are_told_apart(house: House) -> None:
    house.plays("hello", "hello")

    async def say(who: Principal) -> object:
        try:
            return await soon(house.turns.say("new", who, said("hi"), Front()))
        except SessionRefused as refused:
            return refused.code

    ends = await all_of(*(asyncio.create_task(say(who)) for who in (OPERATOR, STRANGER)))
    assert ends == [Ended("done", "hello"), "SESSION_OWNER_MISMATCH"]


async def test_an_agent_that_is_not_there_is_refused(house: House) -> None:
    for trying in (
        house.turns.bind(None, OPERATOR, agent="Nobody"),
        house.turns.bind("s", OPERATOR, agent="Nobody"),
        house.turns.say("s", OPERATOR, said("hi"), Front(), agent="Nobody"),
    ):
        with pytest.raises(SessionRefused, match="There is no agent 'Nobody'") as refused:
            await soon(trying)
        assert refused.value.code == "AGENT_INIT_FAILED"
    await house.store.conversations.create(owner=OWNER, agent="Gone", session="old")
    with pytest.raises(SessionRefused, match="was with that one: name another"):
        await soon(house.turns.bind("old", OPERATOR))
    assert (await soon(house.turns.bind("old", OPERATOR, agent="Careful"))).agent == "Careful"


async def test_a_closed_store_can_not_bind(tmp_path: Path) -> None:
    house = House(tmp_path)
    with pytest.raises(SessionRefused) as refused:
        await soon(house.turns.bind("s", OPERATOR))
    assert refused.value.code == "SESSION_BIND_FAILED"


async def test_binding_writes_nothing(house: House) -> None:
    made = await soon(house.turns.bind(None, OPERATOR, name="Kitchen"))
    given = await soon(house.turns.bind("cellar", OPERATOR, agent="Careful"))
    assert (made.message_count, made.name, made.agent) == (0, "Kitchen", "")
    assert (given.session_id, given.message_count, given.agent) == ("cellar", 0, "Careful")
    assert (await soon(house.store.conversations.page(owner=OWNER))).sessions == ()
    house.plays("hello")
    await house.say("hi", session=given.session_id, agent="Careful", name="The cellar\u200b")
    known = await soon(house.store.conversations.get("cellar", owner=OWNER))
    assert (known.agent, known.name) == ("Careful", "The cellar")
    again = await soon(house.turns.bind("cellar", OPERATOR, name="other"))
    assert (again.message_count, again.name, again.agent, again.persona) == (2, "The cellar", "Careful", "")


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
    house.turns.watch("s", OWNER, watcher)
    await soon(house.turns.bind("s", OPERATOR, agent="Wrong"))
    ended = await house.say("hi", front, agent="Wrong")
    assert ended.reason == "error" and words in ended.text
    assert front.heard == watcher.heard == [ended]
    assert await soon(house.store.conversations.find("s", owner=OWNER)) is None
    house.plays("hello")
    assert (await house.say("hi")).text == "hello"


async def test_a_model_that_fails_ends_the_turn_and_the_next_one_runs(house: House) -> None:
    house.plays(ModelError("auth", "The key is wrong."), RuntimeError("bug"), "hello")
    front = Front()
    assert await house.say("1", front) == Ended("error", "The key is wrong.")
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
        assert await house.say("hi", front) == Ended("error", "The disk is full.")
    assert front.ends == [Ended("error", "The disk is full.")]
    assert (await house.say("hi")).reason == "done"


async def test_a_title_that_can_not_be_kept_disturbs_nothing(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    house.plays("hello")

    async def full(*_: Any, **__: Any) -> None:
        raise StoreError("The disk is full.")

    monkeypatch.setattr(house.store.conversations, "give_name", full)
    front = Front()
    assert (await house.say("hi", front)).reason == "done"
    assert not front.of(Titled)


async def test_a_front_that_fails_disturbs_nobody(house: House) -> None:
    def broken(_: object, turn: str) -> None:
        raise ValueError("a front's bug")

    front = Front()
    house.plays("hello")
    house.turns.watch("s", OWNER, broken)
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
        await other.turns.drain(0)
        await other.app.close()


# The queue.


async def test_the_ninth_who_waits_is_refused(house: House) -> None:
    house.plays(call("slow"), *(f"answer {number}" for number in range(MOST_WAITING + 1)))
    first = house.start("first")
    await soon(house.reached.wait())
    waiting = [house.start(str(number)) for number in range(MOST_WAITING)]
    await until(lambda: (state := house.turns.state("s", OWNER)) and state.waiting == MOST_WAITING)
    with pytest.raises(SessionBusy, match=r"Session s queue full \(8 pending requests\)"):
        await house.say("one too many")
    house.may_end.set()
    ends = await all_of(first, *waiting)
    assert [end.text for end in ends] == [f"answer {number}" for number in range(MOST_WAITING + 1)]
    assert [text for text in await house.texts() if text.isdigit()] == [str(number) for number in range(MOST_WAITING)]


async def test_who_waits_too_long_is_refused_and_the_next_one_has_its_turn(tmp_path: Path) -> None:
    async with House(tmp_path, [call("slow"), "first", "second"], patience=0.05) as house:
        first = house.start("1")
        await soon(house.reached.wait())
        with pytest.raises(SessionBusy, match="Timed out waiting for session s"):
            await house.say("too late")
        house.may_end.set()
        assert (await soon(first)).text == "first"
        assert (await house.say("2")).text == "second"
        assert "too late" not in await house.texts()


async def test_sessions_do_not_wait_for_each_other(house: House) -> None:
    house.plays(call("slow"), "other", "first")
    first = house.start("1", session="a")
    await soon(house.reached.wait())
    assert (await house.say("2", session="b")).text == "other"
    running = house.turns.running(OWNER)
    assert [(turn.session_id, turn.waiting) for turn in running] == [("a", 0)]
    assert house.turns.running(STRANGER.owner) == []
    house.may_end.set()
    assert (await soon(first)).text == "first"
    assert house.turns.running(OWNER) == []


# Stopping.


async def test_there_is_nothing_to_abort(house: House) -> None:
    assert not await house.turns.abort("s", OWNER)
    house.plays("hello")
    await house.say("hi")
    assert not await house.turns.abort("s", OWNER)


async def test_nobody_else_can_abort(house: House) -> None:
    house.plays(call("slow"), "done")
    task = house.start("hi")
    await soon(house.reached.wait())
    assert not await house.turns.abort("s", STRANGER.owner)
    house.may_end.set()
    assert (await soon(task)).reason == "done"


async def test_what_arrived_before_an_abort_is_kept(house: House) -> None:
    house.plays(["let me see", call("slow")], "again")
    front = Front()
    task = house.start("hi", front)
    await soon(house.reached.wait())
    assert await house.turns.abort("s", OWNER)
    assert await house.turns.abort("s", OWNER), "a second time is no harm"
    assert await soon(task) == Ended("aborted")
    assert front.ends == [Ended("aborted")]
    assert await house.texts() == ["hi", "let me see", "<slow>", "<slow>"]
    assert not front.of(Titled)
    assert (await house.say("go on", front)).text == "again"
    assert front.of(Titled) == [Titled("hi")]


async def test_aborting_while_the_model_speaks_keeps_its_words(house: House) -> None:
    speaks = asyncio.Event()

    class Stalling:
        name = "stalling"

        def projection(self, instructions: str = "") -> Any:
            return Scripted([]).projection(instructions)

        async def reply(self, *_: Any, **__: Any) -> Any:
            yield TextDelta("half a ")
            yield TextDelta("sentence")
            speaks.set()
            await asyncio.Event().wait()

    house.model = Stalling()
    task = house.start("hi")
    await soon(speaks.wait())
    assert await house.turns.abort("s", OWNER)
    await soon(task)
    assert await house.texts() == ["hi", "half a sentence"]


async def test_an_abort_reaches_those_who_wait_too(house: House) -> None:
    house.plays(call("slow"), "later")
    one, other = Front(), Front()
    first = house.start("1", one)
    await soon(house.reached.wait())
    second = house.start("2", other)
    await until(lambda: (state := house.turns.state("s", OWNER)) and state.waiting)
    assert await house.turns.abort("s", OWNER)
    assert await all_of(first, second) == [Ended("aborted")] * 2
    assert one.ends == other.ends == [Ended("aborted")]
    assert "2" not in await house.texts()
    assert (await house.say("3")).text == "later"


async def test_who_goes_away_takes_the_turn_along(house: House) -> None:
    house.plays(call("slow"), "later")
    watcher = Front()
    house.turns.watch("s", OWNER, watcher)
    task = house.start("1")
    await soon(house.reached.wait())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await soon(task)
    assert watcher.ends == [Ended("aborted")]
    assert (await house.say("2")).text == "later"


async def test_a_turn_that_is_cancelled_at_any_moment_leaves_the_session_usable(house: House) -> None:
    for steps in range(40):
        house.plays("one", "two")
        front = Front()
        task = house.start("1", front, session=f"s{steps}")
        for _ in range(steps):
            await asyncio.sleep(0.0005)
        await house.turns.abort(f"s{steps}", OWNER)
        ended = await soon(task)
        assert front.ends == [ended]
        house.plays("two")
        assert (await house.say("2", session=f"s{steps}")).text == "two"


async def test_an_abort_right_behind_the_message_stops_it(house: House) -> None:
    house.plays("never", "later")
    front = Front()
    task = house.start("1", front)
    await asyncio.sleep(0)  # the turn is wanted, and has not made its first step
    assert await house.turns.abort("s", OWNER)
    assert await soon(task) == Ended("aborted")
    assert front.ends == [Ended("aborted")]
    assert (await house.say("2")).text == "never"


# The end of the gateway.


async def test_no_turn_begins_when_the_gateway_ends_and_nothing_is_left_running(house: House) -> None:
    house.plays(call("slow"), "done")
    first = house.start("1")
    await soon(house.reached.wait())
    second = house.start("2")
    await until(lambda: (state := house.turns.state("s", OWNER)) and state.waiting)
    before = asyncio.all_tasks()
    drain = asyncio.create_task(house.turns.drain(10))
    for refused in (second, house.start("3"), house.start("4", session="other")):
        with pytest.raises(SessionBusy, match="is being stopped"):
            await soon(refused)
    assert not first.done() and not drain.done()
    house.may_end.set()
    await soon(drain)
    assert (await soon(first)).reason == "done"
    assert not (asyncio.all_tasks() - before)


async def test_turns_that_do_not_end_in_time_are_aborted(house: House) -> None:
    house.plays(call("slow"), "done")
    front = Front()
    first = house.start("1", front)
    await soon(house.reached.wait())
    await soon(house.turns.drain(0.01))
    assert await soon(first) == Ended("aborted")
    assert await house.texts() == ["1", "<slow>", "<slow>"]
    known = await soon(house.store.conversations.get("s", owner=OWNER))
    assert known.state == "idle"
    await soon(house.turns.drain(1))


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
    assert await house.turns.abort("s", OWNER)
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
        await soon(house.turns.regenerate("s", OPERATOR, Front()))
    assert refused.value.code == "NO_USER_MESSAGE"
    assert await soon(house.store.conversations.find("s", owner=OWNER)) is None
    await house.store.conversations.create(owner=OWNER, session="s")
    with pytest.raises(NoUserMessage):
        await soon(house.turns.regenerate("s", OPERATOR, Front()))


async def test_the_last_answer_is_dropped_with_its_calls_and_given_again(house: House) -> None:
    house.plays("one", ["look", call("note", text="a")], "two", "better", "three")
    await house.say("1")
    await house.say("2")
    front = Front()
    assert await soon(house.turns.regenerate("s", OPERATOR, front)) == Ended("done", "better")
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
    assert (await soon(house.turns.regenerate("s", OPERATOR, Front()))).text == "at last"
    assert await house.texts() == ["hi", "at last"]


async def test_an_answer_that_another_process_dropped_is_forgotten_here_too(house: House, tmp_path: Path) -> None:
    house.plays("one", "three")
    await house.say("1")
    other = House(tmp_path, ["another one"])
    await other.app.open()
    await soon(other.turns.regenerate("s", OPERATOR, Front()))
    await other.turns.drain(0)
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
    house.turns.watch("s", OWNER, watcher)
    await soon(house.turns.go_on("s", OWNER))
    for trying in (house.say("2"), house.turns.regenerate("s", OPERATOR, Front())):
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
    house.turns.watch("s", OWNER, watcher)
    call_id = await open_call(house)
    await soon(house.app.engine.settle(call_id, Success("click")))
    await soon(house.turns.go_on("s", OWNER))
    assert await house.texts() == ["1", "<browser>", "<browser>", "clicked"]
    assert [event.id for event in watcher.of(CallFinished)] == [call_id]
    assert watcher.ends == [Ended("done", "clicked")]
    assert (await soon(house.store.conversations.get("s", owner=OWNER))).state == "idle"
    await soon(house.turns.go_on("s", OWNER))
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
    await soon(house.turns.go_on("nowhere", OWNER))
    assert await soon(house.store.conversations.find("nowhere", owner=OWNER)) is None
    house.plays("hello")
    await house.say("hi")
    await soon(house.turns.go_on("s", STRANGER.owner))
    assert "belongs to somebody else" in caplog.text


async def test_who_waits_for_a_session_to_go_on_may_go_away(house: House) -> None:
    with_browser(house)
    house.plays(call("browser"), call("slow"), "done")
    await house.say("1")
    await soon(house.app.engine.settle(await open_call(house), Success("click")))
    watcher = Front()
    house.turns.watch("s", OWNER, watcher)
    task = asyncio.create_task(house.turns.go_on("s", OWNER))
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
    house.turns.watch("s", OWNER, one)
    unwatch = house.turns.watch("s", OWNER, other)
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
        assert len(house.turns) == 0
    with pytest.raises(SessionRefused):
        await house.say("hi", session="not an id")
    house.turns.watch("s0", OWNER, Front())()
    assert len(house.turns) == 0


# Agents, models, sessions at hand.


async def test_the_agent_is_the_named_one_then_the_sessions_then_the_default(house: House) -> None:
    await house.app.agents.create(Agent("Clerk", ("read_file",), instructions="Be brief.", model="scripted"))
    house.plays(*["x"] * 4)
    await house.say("1")
    await house.say("2", agent="Clerk")
    await house.say("3")
    requests = house.requests
    assert requests[0].tools != ("read_file",)
    assert requests[1].tools == requests[2].tools == ("read_file",)
    assert requests[2].instructions.startswith("Be brief.")
    assert (await soon(house.store.conversations.get("s", owner=OWNER))).agent == "Clerk"
    await house.say("4", session="t")
    assert (await soon(house.store.conversations.get("t", owner=OWNER))).agent == "General"
    assert house.chosen == ["", "scripted"], "a model is made once for each name"


async def test_an_agent_that_was_changed_acts_so_from_the_next_turn(house: House) -> None:
    await house.app.agents.create(Agent("Clerk", instructions="Be brief."))
    house.plays("1", "2")
    await house.say("1", agent="Clerk")
    await house.app.agents.edit("Clerk", Agent("Clerk", instructions="Be long."))
    await house.say("2")
    assert house.requests[1].instructions.startswith("Be long.")


async def test_sessions_that_were_let_go_are_loaded_again(house: House) -> None:
    conversing, kept = house.app.conversing(), house.store.conversations
    sessions = OpenSessions(conversing, kept, house.app.agents, house.choose_model, most=2)
    first, _ = await soon(sessions.open("a", OWNER))
    assert (await soon(sessions.open("a", OWNER)))[0] is first
    await first.append(said("hi"))
    for other in ("b", "c"):
        await soon(sessions.open(other, OWNER))
    again, _ = await soon(sessions.open("a", OWNER))
    assert again is not first and again.messages == [said("hi")]


async def test_an_id_that_somebody_else_takes_meanwhile_is_refused(house: House) -> None:
    async def slowly(named: str) -> Choice:
        await house.store.conversations.create(owner=STRANGER.owner, session="s")
        return await house.choose_model(named)

    sessions = OpenSessions(house.app.conversing(), house.store.conversations, house.app.agents, slowly)
    with pytest.raises(SessionRefused, match="belongs to somebody else"):
        await soon(sessions.open("s", OWNER))


async def test_what_another_process_said_is_heard_before_the_next_turn(house: House, tmp_path: Path) -> None:
    house.plays("one", "three")
    await house.say("1")
    other = House(tmp_path, ["two"])
    await other.app.open()
    await other.say("2")
    await other.turns.drain(0)
    await other.app.close()
    await house.say("3")
    assert words(house.requests[-1].messages) == ["1", "one", "2", "two", "3"]


async def test_a_session_that_was_deleted_begins_anew(house: House) -> None:
    house.plays("one", "two")
    await house.say("1")
    await house.store.conversations.delete("s", owner=OWNER)
    await house.say("2")
    assert await house.texts() == ["2", "two"]


async def test_the_caller_of_a_turn_is_who_said_it(house: House) -> None:
    seen: list[Principal] = []

    class Who:
        spec = ToolSpec("who", "Who is it?", {"type": "object"})

        async def run(self, arguments: Any, ctx: Any) -> str:
            seen.append(ctx.who)
            return "you"

    house.app.registry.register(Who(), PLUGIN)
    house.plays(call("who"), "1", call("who"), "2")
    await house.say("1")
    narrow = Principal(OWNER, ("chat",))
    await soon(house.turns.say("s", narrow, said("2"), Front()))
    assert seen == [OPERATOR, narrow]


# Names.


async def test_a_session_gets_its_name_from_the_first_words_once(house: House) -> None:
    house.plays("one", "two")
    front = Front()
    await house.say("What  is\nthe \u202etime\u200b in Tokyo?", front)
    assert front.heard[-1] == Titled("What is the time in Tokyo?")
    await house.say("And in Rome?", front)
    assert len(front.of(Titled)) == 1
    assert (await soon(house.turns.bind("s", OPERATOR))).name == "What is the time in Tokyo?"


async def test_a_session_that_has_a_name_keeps_it(house: House) -> None:
    house.plays("one", "two", "three")
    front = Front()
    await house.say("1", front, name="Mine")
    await house.store.conversations.create(owner=OWNER, session="bare")
    await house.say("2", front, session="bare", name="Given")

    renaming: list[asyncio.Future[None]] = []

    def rename(_: Sequence[Message]) -> str:
        renaming.append(asyncio.ensure_future(house.store.conversations.rename("t", "Renamed", owner=OWNER)))
        return "three"

    house.plays(rename)
    await house.say("3", front, session="t")
    assert front.of(Titled) == []
    names = [(await soon(house.turns.bind(session, OPERATOR))).name for session in ("s", "bare", "t")]
    assert names == ["Mine", "Given", "Renamed"]


async def test_a_picture_alone_gives_no_name(house: House) -> None:
    house.plays("nice", "yes")
    picture = UserMessage((Media(Attachment("image", "image/png", b"png")),))
    front = Front()
    await soon(house.turns.say("s", OPERATOR, picture, front))
    assert front.of(Titled) == []
    await house.say("is it?", front)
    assert front.of(Titled) == [Titled("is it?")]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("short", "short"),
        ("word " * 20, "word word word word word word word word word word word word…"[:60]),
        ("x" * 80, "x" * 59 + "…"),
        ("Hello, " + "y" * 80, "Hello, " + "y" * 52 + "…"),
        ("\u200b\u202e", ""),
    ],
)
def test_a_title_is_one_line_of_at_most_60_characters(text: str, title: str) -> None:
    made = title_of([said(""), said(text)])
    assert made == title and len(made) <= 60


def test_a_name_that_is_huge_is_cut_without_reading_all_of_it() -> None:
    assert short("a " * 10_000_000, 120) == "a " * 59 + "a…"


# Debugging.


async def test_the_prompt_of_the_first_round_is_shown_to_who_asks(house: House) -> None:
    house.plays(call("note", text="a"), "done", "again", "quiet")
    front, watcher = Front(), Front()
    house.turns.watch("s", OWNER, watcher)
    await house.say("look", front, debug=True)
    (shown,) = front.of(Prompted)
    assert watcher.of(Prompted) == []
    assert isinstance(front.heard[0], Prompted)
    told = json.loads(shown.messages)
    assert told["messages"] == [{"type": "user", "parts": [{"type": "text", "text": "look"}]}]
    assert "note" in {tool["name"] for tool in told["tools"]} and "instructions" in told
    assert shown.estimated_tokens == len(shown.messages.encode()) // 4
    await soon(house.turns.regenerate("s", OPERATOR, front, debug=True))
    assert len(front.of(Prompted)) == 2
    await house.say("more", front)
    assert len(front.of(Prompted)) == 2


async def test_what_goes_wrong_beside_the_turns_is_in_the_log(house: House, caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        raise StoreError("The disk is full.")

    house.turns.beside(work())
    await until(lambda: "Work beside the turns failed: The disk is full." in caplog.text)
