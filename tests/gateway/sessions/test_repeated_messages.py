"""Messages with ids: told when they are kept, and said once however often they come (ws.md 3.1, 3.7)."""

import asyncio
import sqlite3

import pytest

from handspan import Pending, tool
from handspan.agent.limits import TurnLimits
from handspan.agent.refusals import IdTaken, SessionBusy
from handspan.agent.session import NOTHING_TO_DO
from handspan.agent.turn_events import AnsweredBefore, MessageStored, find_answer, last_turn
from handspan.core.bus import TurnEvent
from handspan.core.events import Ended, RoundBegan, TextArrived
from handspan.core.messages import (
    AssistantMessage,
    CallPart,
    CallResult,
    Message,
    ResultsMessage,
    StopReason,
    Text,
    UserMessage,
)
from handspan.core.principals import OPERATOR, Origin
from handspan.core.results import Success
from handspan.models.model import ModelError
from handspan.models.scripted import call
from tests.gateway.sessions.talking import Front, House, all_of, said
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio

OWNER = OPERATOR.owner


def turn_of(front: Front, message_id: str = "m1") -> str:
    """The turn in which the front heard that its message is kept."""
    (turn,) = {turn for one, turn in zip(front.heard, front.turns, strict=True) if one == MessageStored(message_id)}
    return turn


async def stopped_at_browser(house: House) -> None:
    @tool
    async def browser(place: int = 0) -> Pending:
        """Answer later."""
        return Pending()

    house.app.registry.register(browser, Origin("plugin", "test"))


async def settle(house: House) -> None:
    (record,) = await soon(house.store.ledger.open_calls(owner=OWNER))
    await soon(house.app.engine.settle(record.id, Success("click")))


# Refused.


async def test_other_words_under_an_id_that_the_session_has_are_refused(house: House) -> None:
    house.plays("one", call("slow"), "two")
    await house.say("1", message_id="m1")
    with pytest.raises(IdTaken, match="'m1'"):
        await house.say("other", message_id="m1")
    running = house.start("2", message_id="m2")
    await soon(house.reached.wait())
    for message_id in ("m1", "m2"):  # of an earlier turn, and of the one that runs
        with pytest.raises(IdTaken):
            await house.say("other", message_id=message_id)
    house.may_end.set()
    await soon(running)
    assert await house.texts() == ["1", "one", "2", "<slow>", "<slow>", "two"]


async def test_other_words_under_the_id_of_a_message_that_waits_are_refused(house: House) -> None:
    house.plays(call("slow"), "one", "two")
    first = house.start("1")
    await soon(house.reached.wait())
    second = house.start("2", message_id="m2")
    await asyncio.sleep(0)
    with pytest.raises(IdTaken):
        await house.say("other", message_id="m2")
    house.may_end.set()
    await all_of(first, second)


async def test_a_message_that_is_stopped_while_it_waits_is_never_told_to_be_kept(house: House) -> None:
    house.plays(call("slow"), "again")
    first, front = house.start("1"), Front()
    await soon(house.reached.wait())
    second = house.start("2", front, message_id="m2")
    await asyncio.sleep(0)
    assert house.sessions.abort("s", OWNER)
    assert await all_of(first, second) == [Ended("aborted")] * 2
    assert front.of(MessageStored) == []
    assert "2" not in await house.texts()
    assert (await house.say("2", front, message_id="m2")).text == "again"  # it was never said
    assert (await house.texts())[-2:] == ["2", "again"]


async def test_a_message_that_is_too_late_for_a_turn_that_waits_is_not_kept(house: House) -> None:
    await stopped_at_browser(house)
    house.plays([call("slow"), call("browser")], "later")
    first, front = house.start("1"), Front()
    await soon(house.reached.wait())
    second = house.start("2", front, join=True, message_id="m2")
    await asyncio.sleep(0)
    house.may_end.set()
    assert (await soon(first)).reason == "pending"
    with pytest.raises(SessionBusy):
        await soon(second)
    assert front.of(MessageStored) == []


# Kept.


async def test_a_message_is_kept_before_it_is_told_so_and_before_anything_is_answered(house: House) -> None:
    kept: list[int] = []

    class Reader(Front):
        def __call__(self, happening: object, turn: str) -> None:
            super().__call__(happening, turn)  # type: ignore[arg-type] # a front hears happenings
            if isinstance(happening, MessageStored):
                sql = "SELECT COUNT(*) FROM messages WHERE session = 's'"
                kept.append(connection.execute(sql).fetchone()[0])

    house.plays("one")
    (database,) = (house.app.settings.state).glob("*.db")
    connection = sqlite3.connect(database)
    front = Reader()
    await house.say("1", front, message_id="m1")
    connection.close()
    assert kept == [1]
    assert front.heard[:2] == [MessageStored("m1"), RoundBegan(1)]


async def test_all_events_of_a_turn_have_its_id_and_no_other_turn_has_it(house: House) -> None:
    house.plays("one", "two")
    watcher, front = Front(), Front()
    house.sessions.get("s", OWNER).listen(watcher)
    await house.say("1", front, message_id="m1")
    first = set(front.turns)
    assert first == {turn_of(front)} == set(watcher.turns)
    await house.say("2", watcher)
    assert len(set(watcher.turns)) == 2
    assert [message.turn for message in await house.kept() if isinstance(message, UserMessage)] == [
        turn_of(front),
        watcher.turns[-1],
    ]


async def test_no_model_is_told_the_id(house: House) -> None:
    house.plays("one")
    front = Front()
    await house.say("1", front, message_id="m1", debug=True)
    (shown,) = [one for one in front.heard if type(one).__name__ == "Prompted"]
    assert "m1" not in shown.messages and front.turns[0] not in shown.messages  # type: ignore[union-attr] # it is one


async def test_who_joins_hears_the_turn_that_it_became_part_of(house: House) -> None:
    house.plays(call("slow"), "both")
    one, other = Front(), Front()
    first = house.start("1", one, message_id="m1")
    await soon(house.reached.wait())
    second = house.start("2", other, join=True, message_id="m2")
    await asyncio.sleep(0)
    assert other.of(MessageStored) == []
    house.may_end.set()
    await all_of(first, second)
    assert turn_of(other, "m2") == turn_of(one, "m1")
    assert one.of(MessageStored) == [MessageStored("m1")]


# Said again.


async def test_a_message_that_comes_again_while_it_is_answered_is_part_of_that_turn(house: House) -> None:
    house.plays(call("slow"), "one")
    one, other = Front(), Front()
    first = house.start("1", one, message_id="m1")
    await soon(house.reached.wait())
    again = [house.start("1", front, message_id="m1", join=joins) for front in (other, one) for joins in (True, False)]
    await until(lambda: len(other.of(MessageStored)) == 2)
    house.may_end.set()
    assert await all_of(first, *again) == [Ended("done", "one")] * 5
    assert await house.texts() == ["1", "<slow>", "<slow>", "one"]
    assert turn_of(other) == turn_of(one)
    assert one.ends == other.ends == [Ended("done", "one")]


async def test_a_message_that_comes_again_while_it_waits_is_kept_once_and_both_hear_it(house: House) -> None:
    house.plays(call("slow"), "one", "two")
    one, other = Front(), Front()
    first = house.start("1")
    await soon(house.reached.wait())
    second = [house.start("2", front, message_id="m2") for front in (one, other, one)]
    await asyncio.sleep(0)
    assert one.of(MessageStored) == other.of(MessageStored) == []
    house.may_end.set()
    await all_of(first, *second)
    assert await house.texts() == ["1", "<slow>", "<slow>", "one", "2", "two"]
    assert one.of(MessageStored) == other.of(MessageStored) == [MessageStored("m2")]
    assert one.ends == other.ends == [Ended("done", "two")]


async def test_a_message_that_was_answered_is_told_its_end_and_nobody_else_hears_of_it(house: House) -> None:
    house.plays([call("note", text="a")], "one")
    front, watcher = Front(), Front()
    await house.say("1", front, message_id="m1")
    house.sessions.get("s", OWNER).listen(watcher)
    counted: list[object] = []
    house.bus.subscribe(TurnEvent, counted.append)
    again = Front()
    assert await house.say("1", again, message_id="m1") == Ended("done", "one")
    assert again.heard == [MessageStored("m1"), AnsweredBefore(Ended("done", "one"), "one")]
    assert set(again.turns) == {turn_of(front)}
    assert watcher.heard == counted == []
    assert len(await house.kept()) == 4


async def test_a_message_that_was_answered_is_told_so_while_another_turn_runs(house: House) -> None:
    house.plays("one", call("slow"), "two")
    front, again = Front(), Front()
    await house.say("1", front, message_id="m1")
    running = house.start("2")
    await soon(house.reached.wait())
    for joins in (False, True):
        assert await house.say("1", again, message_id="m1", join=joins) == Ended("done", "one")
    house.may_end.set()
    await soon(running)
    assert again.ends == []
    assert set(again.turns) == {turn_of(front)}
    assert await house.texts() == ["1", "one", "2", "<slow>", "<slow>", "two"]


async def test_a_message_that_was_answered_does_not_join_a_turn_that_is_just_beginning(house: House) -> None:
    house.plays("one", "two", "three")
    await house.say("1", message_id="m1")
    again, other = Front(), Front()
    await all_of(house.start("2"), house.start("1", again, message_id="m1", join=True))
    assert again.heard[:2] == [MessageStored("m1"), AnsweredBefore(Ended("done", "one"), "one")]
    await all_of(house.start("3"), house.start("something else", other, message_id="m1", join=True))
    assert other.of(MessageStored) == []  # it is not kept, and the running turn is none the worse
    assert await house.texts() == ["1", "one", "2", "two", "3", "three"]


async def test_a_message_whose_turn_failed_is_answered_when_it_comes_again(house: House) -> None:
    house.plays(ModelError("overloaded", "The server is down."), "one")
    front, again = Front(), Front()
    assert (await house.say("1", front, message_id="m1")).reason == "error"
    assert await house.say("1", again, message_id="m1") == Ended("done", "one")
    assert turn_of(again) == turn_of(front)
    assert await house.texts() == ["1", "one"]


async def test_a_message_whose_turn_failed_is_answered_by_the_turn_that_runs(house: House) -> None:
    house.plays(ModelError("overloaded", "The server is down."), call("slow"), "both")
    front, again = Front(), Front()
    await house.say("1", message_id="m1")
    running = house.start("2", front, message_id="m2")
    await soon(house.reached.wait())
    waiting = house.start("1", again, message_id="m1")
    await until(lambda: again.heard)
    house.may_end.set()
    assert await all_of(running, waiting) == [Ended("done", "both")] * 2
    assert turn_of(again) == turn_of(front, "m2")
    assert again.ends == [Ended("done", "both")]


async def test_a_message_whose_turn_was_cut_off_is_answered_under_the_same_turn(house: House) -> None:
    await house.store.conversations.create(owner=OWNER, session="s")
    cut = UserMessage((Text("1"),), "m1", "t1")  # as a gateway leaves it that is killed now
    await house.store.conversations.append("s", cut, owner=OWNER)
    house.plays("one")
    front, watcher = Front(), Front()
    house.sessions.get("s", OWNER).listen(watcher)
    assert await house.say("1", front, message_id="m1") == Ended("done", "one")
    assert set(front.turns) == set(watcher.turns) == {"t1"}
    assert front.of(TextArrived) == watcher.of(TextArrived) != []
    assert await house.texts() == ["1", "one"]
    assert (await soon(house.sessions.bind("s", OPERATOR))).name == "1"


async def test_a_turn_that_waits_goes_on_under_its_id(house: House) -> None:
    await stopped_at_browser(house)
    house.plays(call("browser"), "clicked", call("browser"), "clicked again")
    watcher = Front()
    unwatch = house.sessions.get("s", OWNER).listen(watcher)
    await house.say("1", message_id="m1")
    again = Front()
    assert (await house.say("1", again, message_id="m1")).reason == "pending"
    assert again.heard == [MessageStored("m1")]
    await settle(house)
    await soon(house.sessions.go_on("s", OWNER))
    assert set(watcher.turns) == {turn_of(again)}
    await soon(house.sessions.get("s", OPERATOR.owner).regenerate(OPERATOR, Front()).end())
    unwatch()  # nobody is there who remembers the turn: the conversation does
    await settle(house)
    last = Front()
    house.sessions.get("s", OWNER).listen(last)
    await soon(house.sessions.go_on("s", OWNER))
    assert last.ends == [Ended("done", "clicked again")]
    assert set(last.turns) == {turn_of(again)}


async def test_a_message_that_comes_again_while_a_resume_finds_nothing_to_do_is_told_its_answer(house: House) -> None:
    house.plays("one")
    await house.say("1", message_id="m1")
    session = house.sessions.get("s", OWNER)
    for moment in range(8):  # at each step of a resume, as when the last of several calls was settled
        resumed, again = session.resume(), Front()
        for _ in range(moment):
            await asyncio.sleep(0)
        assert await house.say("1", again, message_id="m1") == Ended("done", "one")
        assert again.heard == [MessageStored("m1"), AnsweredBefore(Ended("done", "one"), "one")], moment
        assert await soon(resumed.end()) == NOTHING_TO_DO


async def test_a_message_that_wants_to_join_a_resume_with_nothing_to_do_has_a_turn_of_its_own(house: House) -> None:
    house.plays("one", "two")
    await house.say("1")
    resumed = house.sessions.get("s", OWNER).resume()
    await asyncio.sleep(0)
    assert await house.say("2", join=True) == Ended("done", "two")
    assert await soon(resumed.end()) == NOTHING_TO_DO


async def test_any_number_of_calls_that_are_settled_at_once_let_the_turn_go_on(house: House) -> None:
    await stopped_at_browser(house)
    house.plays([call("browser", place=place) for place in range(12)], "all clicked")
    watcher = Front()
    house.sessions.get("s", OWNER).listen(watcher)
    assert (await house.say("1", message_id="m1")).reason == "pending"

    async def settle_one(call_id: str) -> None:
        await house.app.engine.settle(call_id, Success("click"))
        await house.sessions.go_on("s", OWNER)

    records = await soon(house.store.ledger.open_calls(owner=OWNER))
    await soon(asyncio.gather(*(settle_one(record.id) for record in records)))
    assert watcher.ends == [Ended("pending"), Ended("done", "all clicked")]


async def test_an_answer_given_anew_is_another_turn_even_if_it_waits(house: House) -> None:
    await stopped_at_browser(house)
    house.plays("one", call("browser"), "two")
    front, watcher = Front(), Front()
    await house.say("1", front, message_id="m1")
    house.sessions.get("s", OWNER).listen(watcher)
    await soon(house.sessions.get("s", OPERATOR.owner).regenerate(OPERATOR, Front()).end())
    await settle(house)
    await soon(house.sessions.go_on("s", OWNER))
    assert watcher.ends == [Ended("pending"), Ended("done", "two")]
    assert len(set(watcher.turns)) == 1
    assert turn_of(front) not in watcher.turns


async def test_what_waited_ends_as_itself_before_the_next_message_is_answered(house: House) -> None:
    await stopped_at_browser(house)
    house.plays(call("browser"), "clicked", "and more")
    one, other = Front(), Front()
    await house.say("1", one, message_id="m1")
    await settle(house)
    await house.say("2", other, message_id="m2")
    ends = [(one, turn) for one, turn in zip(other.heard, other.turns, strict=True) if isinstance(one, Ended)]
    assert ends == [
        (Ended("done", "clicked"), turn_of(one)),
        (Ended("done", "and more"), turn_of(other, "m2")),
    ]


# What a conversation tells.


def reply(text: str, stop: StopReason = "end") -> AssistantMessage:
    return AssistantMessage((Text(text),), stop)


@pytest.mark.parametrize(
    ("after", "answered"),
    [
        ([], None),
        ([reply("one")], AnsweredBefore(Ended("done", "one"), "one")),
        ([reply("cut", "length")], AnsweredBefore(Ended("length", "cut"), "cut")),
        ([reply("sto", "aborted")], AnsweredBefore(Ended("aborted", "sto"), "sto")),
        ([reply("one"), said("later"), reply("two")], AnsweredBefore(Ended("done", "one"), "one")),
        ([said("meanwhile"), reply("both")], AnsweredBefore(Ended("done", "both"), "both")),
        ([reply("one"), UserMessage((Text("joined"),), "m2", "t1")], None),
        (
            [reply("one, "), UserMessage((Text("joined"),), "m2", "t1"), reply("two")],
            AnsweredBefore(Ended("done", "two"), "one, two"),
        ),
    ],
)
def test_how_a_message_was_answered(after: list[Message], answered: AnsweredBefore | None) -> None:
    message = UserMessage((Text("1"),), "m1", "t1")
    assert find_answer(message, [said("before"), reply("it"), message, *after], TurnLimits()) == answered


def test_an_answer_at_the_limit_of_rounds_is_told_as_one_again() -> None:
    message = UserMessage((Text("hi"),), "m1", "t1")
    part = CallPart("c1", "add", "{}")
    results = ResultsMessage((CallResult("c1", "add", "{}"),))
    conversation: list[Message] = [message, AssistantMessage((part,), "calls"), results, reply("enough")]
    for rounds, reason in ((1, "limit"), (2, "done")):
        answered = find_answer(message, conversation, TurnLimits(rounds=rounds))
        assert answered is not None and answered.ended.reason == reason


def test_the_last_turn_is_that_of_the_last_message() -> None:
    assert last_turn([]) == last_turn([said("1")]) == ""
    assert last_turn([said("1"), UserMessage((Text("2"),), "", "t2"), reply("x")]) == "t2"
