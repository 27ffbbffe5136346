"""Whose turn it is: the queue, stopping, and the end of the gateway (ws.md 3, SPEC A2, A4)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from handspan.agent.queue import MAX_WAITING
from handspan.agent.refusals import SessionBusy
from handspan.core.events import GATEWAY_STOPPED, Ended, Titled
from handspan.core.principals import OPERATOR
from handspan.models.model import TextDelta
from handspan.models.scripted import Scripted, call
from tests.gateway.sessions.session_kit import STRANGER, RecordingListener, SessionKit, all_of
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio

OWNER = OPERATOR.owner


# The queue.


async def test_the_ninth_who_waits_is_refused(kit: SessionKit) -> None:
    kit.plays(call("slow"), *(f"answer {number}" for number in range(MAX_WAITING + 1)))
    first = kit.start("first")
    await soon(kit.reached.wait())
    waiting = [kit.start(str(number)) for number in range(MAX_WAITING)]
    await until(lambda: (state := kit.sessions.state("s", OWNER)) and state.waiting == MAX_WAITING)
    with pytest.raises(SessionBusy, match=r"Session s queue full \(8 pending requests\)"):
        await kit.say("one too many")
    kit.may_end.set()
    ends = await all_of(first, *waiting)
    assert [end.text for end in ends] == [f"answer {number}" for number in range(MAX_WAITING + 1)]
    assert [text for text in await kit.texts() if text.isdigit()] == [str(number) for number in range(MAX_WAITING)]


async def test_who_waits_too_long_is_refused_and_the_next_one_has_its_turn(tmp_path: Path) -> None:
    async with SessionKit(tmp_path, [call("slow"), "first", "second"], wait_seconds=0.05) as kit:
        first = kit.start("1")
        await soon(kit.reached.wait())
        with pytest.raises(SessionBusy, match="Timed out waiting for session s"):
            await kit.say("too late")
        kit.may_end.set()
        assert (await soon(first)).text == "first"
        assert (await kit.say("2")).text == "second"
        assert "too late" not in await kit.texts()


async def test_sessions_do_not_wait_for_each_other(kit: SessionKit) -> None:
    kit.plays(call("slow"), "other", "first")
    first = kit.start("1", session="a")
    await soon(kit.reached.wait())
    assert (await kit.say("2", session="b")).text == "other"
    running = kit.sessions.running(OWNER)
    assert [(turn.session_id, turn.waiting) for turn in running] == [("a", 0)]
    assert kit.sessions.running(STRANGER.owner) == []
    kit.may_end.set()
    assert (await soon(first)).text == "first"
    assert kit.sessions.running(OWNER) == []


# Stopping.


async def test_there_is_nothing_to_abort(kit: SessionKit) -> None:
    assert not kit.sessions.abort("s", OWNER)
    kit.plays("hello")
    await kit.say("hi")
    assert not kit.sessions.abort("s", OWNER)


async def test_nobody_else_can_abort(kit: SessionKit) -> None:
    kit.plays(call("slow"), "done")
    task = kit.start("hi")
    await soon(kit.reached.wait())
    assert not kit.sessions.abort("s", STRANGER.owner)
    kit.may_end.set()
    assert (await soon(task)).reason == "done"


async def test_what_arrived_before_an_abort_is_kept(kit: SessionKit) -> None:
    kit.plays(["let me see", call("slow")], "again")
    listener = RecordingListener()
    task = kit.start("hi", listener)
    await soon(kit.reached.wait())
    assert kit.sessions.abort("s", OWNER)
    assert kit.sessions.abort("s", OWNER), "a second time is no harm"
    assert await soon(task) == Ended("aborted")
    assert listener.ends == [Ended("aborted")]
    assert await kit.texts() == ["hi", "let me see", "<slow>", "<slow>"]
    assert listener.of(Titled) == [Titled("hi")]
    assert (await kit.say("go on", listener)).text == "again"
    assert listener.of(Titled) == [Titled("hi")]


async def test_aborting_while_the_model_speaks_keeps_its_words(kit: SessionKit) -> None:
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

    kit.model = Stalling()
    task = kit.start("hi")
    await soon(speaks.wait())
    assert kit.sessions.abort("s", OWNER)
    await soon(task)
    assert await kit.texts() == ["hi", "half a sentence"]


async def test_an_abort_reaches_those_who_wait_too(kit: SessionKit) -> None:
    kit.plays(call("slow"), "later")
    one, other = RecordingListener(), RecordingListener()
    first = kit.start("1", one)
    await soon(kit.reached.wait())
    second = kit.start("2", other)
    await until(lambda: (state := kit.sessions.state("s", OWNER)) and state.waiting)
    assert kit.sessions.abort("s", OWNER)
    assert await all_of(first, second) == [Ended("aborted")] * 2
    assert one.ends == other.ends == [Ended("aborted")]
    assert "2" not in await kit.texts()
    assert (await kit.say("3")).text == "later"


async def test_who_goes_away_takes_the_turn_along(kit: SessionKit) -> None:
    kit.plays(call("slow"), "later")
    watcher = RecordingListener()
    kit.sessions.get("s", OWNER).listen(watcher)
    task = kit.start("1")
    await soon(kit.reached.wait())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await soon(task)
    assert watcher.ends == [Ended("aborted")]
    assert (await kit.say("2")).text == "later"


async def test_a_turn_that_is_cancelled_at_any_moment_leaves_the_session_usable(kit: SessionKit) -> None:
    for steps in range(40):
        kit.plays("one", "two")
        listener = RecordingListener()
        task = kit.start("1", listener, session=f"s{steps}")
        for _ in range(steps):
            await asyncio.sleep(0.0005)
        kit.sessions.abort(f"s{steps}", OWNER)
        ended = await soon(task)
        assert listener.ends == [ended]
        kit.plays("two")
        assert (await kit.say("2", session=f"s{steps}")).text == "two"


async def test_an_abort_right_behind_the_message_stops_it(kit: SessionKit) -> None:
    kit.plays("never", "later")
    listener = RecordingListener()
    task = kit.start("1", listener)
    await asyncio.sleep(0)  # the turn is wanted, and has not made its first step
    assert kit.sessions.abort("s", OWNER)
    assert await soon(task) == Ended("aborted")
    assert listener.ends == [Ended("aborted")]
    assert (await kit.say("2")).text == "never"


# The end of the gateway.


async def test_no_turn_begins_when_the_gateway_ends_and_nothing_is_left_running(kit: SessionKit) -> None:
    kit.plays(call("slow"), "done")
    first = kit.start("1")
    await soon(kit.reached.wait())
    second = kit.start("2")
    await until(lambda: (state := kit.sessions.state("s", OWNER)) and state.waiting)
    before = asyncio.all_tasks()
    drain = asyncio.create_task(kit.sessions.drain(10))
    for refused in (second, kit.start("3"), kit.start("4", session="other")):
        with pytest.raises(SessionBusy, match="is being stopped"):
            await soon(refused)
    assert not first.done() and not drain.done()
    kit.may_end.set()
    await soon(drain)
    assert (await soon(first)).reason == "done"
    assert not (asyncio.all_tasks() - before)


async def test_turns_that_do_not_end_in_time_are_aborted(kit: SessionKit) -> None:
    kit.plays(call("slow"), "done")
    listener = RecordingListener()
    first = kit.start("1", listener)
    await soon(kit.reached.wait())
    await soon(kit.sessions.drain(0.01))
    assert await soon(first) == Ended("aborted")
    assert listener.ends == [Ended("aborted", "", GATEWAY_STOPPED)], "no person has stopped it"
    assert await kit.texts() == ["1", "<slow>", "<slow>"]
    known = await soon(kit.store.conversations.get("s", owner=OWNER))
    assert known.state == "idle"
    await soon(kit.sessions.drain(1))
