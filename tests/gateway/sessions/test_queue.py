"""Whose turn it is: the queue, stopping, and the end of the gateway (ws.md 3, SPEC A2, A4)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from handspan.agent.queue import MOST_WAITING
from handspan.agent.refusals import SessionBusy
from handspan.core.events import Ended, Titled
from handspan.core.principals import OPERATOR
from handspan.models.model import TextDelta
from handspan.models.scripted import Scripted, call
from tests.gateway.sessions.talking import STRANGER, Front, House, all_of
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio

OWNER = OPERATOR.owner


# The queue.


async def test_the_ninth_who_waits_is_refused(house: House) -> None:
    house.plays(call("slow"), *(f"answer {number}" for number in range(MOST_WAITING + 1)))
    first = house.start("first")
    await soon(house.reached.wait())
    waiting = [house.start(str(number)) for number in range(MOST_WAITING)]
    await until(lambda: (state := house.sessions.state("s", OWNER)) and state.waiting == MOST_WAITING)
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
    running = house.sessions.running(OWNER)
    assert [(turn.session_id, turn.waiting) for turn in running] == [("a", 0)]
    assert house.sessions.running(STRANGER.owner) == []
    house.may_end.set()
    assert (await soon(first)).text == "first"
    assert house.sessions.running(OWNER) == []


# Stopping.


async def test_there_is_nothing_to_abort(house: House) -> None:
    assert not house.sessions.abort("s", OWNER)
    house.plays("hello")
    await house.say("hi")
    assert not house.sessions.abort("s", OWNER)


async def test_nobody_else_can_abort(house: House) -> None:
    house.plays(call("slow"), "done")
    task = house.start("hi")
    await soon(house.reached.wait())
    assert not house.sessions.abort("s", STRANGER.owner)
    house.may_end.set()
    assert (await soon(task)).reason == "done"


async def test_what_arrived_before_an_abort_is_kept(house: House) -> None:
    house.plays(["let me see", call("slow")], "again")
    front = Front()
    task = house.start("hi", front)
    await soon(house.reached.wait())
    assert house.sessions.abort("s", OWNER)
    assert house.sessions.abort("s", OWNER), "a second time is no harm"
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
    assert house.sessions.abort("s", OWNER)
    await soon(task)
    assert await house.texts() == ["hi", "half a sentence"]


async def test_an_abort_reaches_those_who_wait_too(house: House) -> None:
    house.plays(call("slow"), "later")
    one, other = Front(), Front()
    first = house.start("1", one)
    await soon(house.reached.wait())
    second = house.start("2", other)
    await until(lambda: (state := house.sessions.state("s", OWNER)) and state.waiting)
    assert house.sessions.abort("s", OWNER)
    assert await all_of(first, second) == [Ended("aborted")] * 2
    assert one.ends == other.ends == [Ended("aborted")]
    assert "2" not in await house.texts()
    assert (await house.say("3")).text == "later"


async def test_who_goes_away_takes_the_turn_along(house: House) -> None:
    house.plays(call("slow"), "later")
    watcher = Front()
    house.sessions.get("s", OWNER).listen(watcher)
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
        house.sessions.abort(f"s{steps}", OWNER)
        ended = await soon(task)
        assert front.ends == [ended]
        house.plays("two")
        assert (await house.say("2", session=f"s{steps}")).text == "two"


async def test_an_abort_right_behind_the_message_stops_it(house: House) -> None:
    house.plays("never", "later")
    front = Front()
    task = house.start("1", front)
    await asyncio.sleep(0)  # the turn is wanted, and has not made its first step
    assert house.sessions.abort("s", OWNER)
    assert await soon(task) == Ended("aborted")
    assert front.ends == [Ended("aborted")]
    assert (await house.say("2")).text == "never"


# The end of the gateway.


async def test_no_turn_begins_when_the_gateway_ends_and_nothing_is_left_running(house: House) -> None:
    house.plays(call("slow"), "done")
    first = house.start("1")
    await soon(house.reached.wait())
    second = house.start("2")
    await until(lambda: (state := house.sessions.state("s", OWNER)) and state.waiting)
    before = asyncio.all_tasks()
    drain = asyncio.create_task(house.sessions.drain(10))
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
    await soon(house.sessions.drain(0.01))
    assert await soon(first) == Ended("aborted")
    assert await house.texts() == ["1", "<slow>", "<slow>"]
    known = await soon(house.store.conversations.get("s", owner=OWNER))
    assert known.state == "idle"
    await soon(house.sessions.drain(1))
