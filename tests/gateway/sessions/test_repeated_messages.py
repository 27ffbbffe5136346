"""Messages with ids: told when they are kept, and said once however often they come (ws.md 3.1, 3.7)."""

import asyncio
import sqlite3

import pytest

from handspan import Pending, tool
from handspan.agent.limits import TurnLimits
from handspan.agent.refusals import IdTaken, SessionBusy
from handspan.agent.requests import NOTHING_TO_DO
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
from tests.gateway.sessions.session_kit import RecordingListener, SessionKit, all_of, said
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio

OWNER = OPERATOR.owner


def turn_of(listener: RecordingListener, message_id: str = "m1") -> str:
    """The turn in which the listener got the news that its message is stored."""
    (turn,) = {
        turn for one, turn in zip(listener.heard, listener.turns, strict=True) if one == MessageStored(message_id)
    }
    return turn


async def stopped_at_browser(kit: SessionKit) -> None:
    @tool
    async def browser(place: int = 0) -> Pending:
        """Answer later."""
        return Pending()

    kit.app.registry.register(browser, Origin("plugin", "test"))


async def settle(kit: SessionKit) -> None:
    (record,) = await soon(kit.store.ledger.open_calls(owner=OWNER))
    await soon(kit.app.engine.settle(record.id, Success("click")))


# Refused.


async def test_other_words_under_an_id_that_the_session_has_are_refused(kit: SessionKit) -> None:
    kit.plays("one", call("slow"), "two")
    await kit.say("1", message_id="m1")
    with pytest.raises(IdTaken, match="'m1'"):
        await kit.say("other", message_id="m1")
    running = kit.start("2", message_id="m2")
    await soon(kit.reached.wait())
    for message_id in ("m1", "m2"):  # of an earlier turn, and of the one that runs
        with pytest.raises(IdTaken):
            await kit.say("other", message_id=message_id)
    kit.may_end.set()
    await soon(running)
    assert await kit.texts() == ["1", "one", "2", "<slow>", "<slow>", "two"]


async def test_other_words_under_the_id_of_a_message_that_waits_are_refused(kit: SessionKit) -> None:
    kit.plays(call("slow"), "one", "two")
    first = kit.start("1")
    await soon(kit.reached.wait())
    second = kit.start("2", message_id="m2")
    await asyncio.sleep(0)
    with pytest.raises(IdTaken):
        await kit.say("other", message_id="m2")
    kit.may_end.set()
    await all_of(first, second)


async def test_a_message_that_is_stopped_while_it_waits_is_never_told_to_be_kept(kit: SessionKit) -> None:
    kit.plays(call("slow"), "again")
    first, listener = kit.start("1"), RecordingListener()
    await soon(kit.reached.wait())
    second = kit.start("2", listener, message_id="m2")
    await asyncio.sleep(0)
    assert kit.sessions.abort("s", OWNER)
    assert await all_of(first, second) == [Ended("aborted")] * 2
    assert listener.of(MessageStored) == []
    assert "2" not in await kit.texts()
    assert (await kit.say("2", listener, message_id="m2")).text == "again"  # it was never said
    assert (await kit.texts())[-2:] == ["2", "again"]


async def test_a_message_that_is_too_late_for_a_turn_that_waits_is_not_kept(kit: SessionKit) -> None:
    await stopped_at_browser(kit)
    kit.plays([call("slow"), call("browser")], "later")
    first, listener = kit.start("1"), RecordingListener()
    await soon(kit.reached.wait())
    second = kit.start("2", listener, join=True, message_id="m2")
    await asyncio.sleep(0)
    kit.may_end.set()
    assert (await soon(first)).reason == "pending"
    with pytest.raises(SessionBusy):
        await soon(second)
    assert listener.of(MessageStored) == []


# Kept.


async def test_a_message_is_kept_before_it_is_told_so_and_before_anything_is_answered(kit: SessionKit) -> None:
    kept: list[int] = []

    class Reader(RecordingListener):
        def __call__(self, event: object, turn: str) -> None:
            super().__call__(event, turn)  # type: ignore[arg-type] # a listener gets events
            if isinstance(event, MessageStored):
                sql = "SELECT COUNT(*) FROM messages WHERE session = 's'"
                kept.append(connection.execute(sql).fetchone()[0])

    kit.plays("one")
    (database,) = (kit.app.settings.state).glob("*.db")
    connection = sqlite3.connect(database)
    listener = Reader()
    await kit.say("1", listener, message_id="m1")
    connection.close()
    assert kept == [1]
    assert listener.heard[:2] == [MessageStored("m1"), RoundBegan(1)]


async def test_all_events_of_a_turn_have_its_id_and_no_other_turn_has_it(kit: SessionKit) -> None:
    kit.plays("one", "two")
    watcher, listener = RecordingListener(), RecordingListener()
    kit.sessions.get("s", OWNER).listen(watcher)
    await kit.say("1", listener, message_id="m1")
    first = set(listener.turns)
    assert first == {turn_of(listener)} == set(watcher.turns)
    await kit.say("2", watcher)
    assert len(set(watcher.turns)) == 2
    assert [message.turn for message in await kit.kept() if isinstance(message, UserMessage)] == [
        turn_of(listener),
        watcher.turns[-1],
    ]


async def test_no_model_is_told_the_id(kit: SessionKit) -> None:
    kit.plays("one")
    listener = RecordingListener()
    await kit.say("1", listener, message_id="m1", debug=True)
    (shown,) = [one for one in listener.heard if type(one).__name__ == "Prompted"]
    assert "m1" not in shown.messages and listener.turns[0] not in shown.messages  # type: ignore[union-attr] # it is one


async def test_who_joins_hears_the_turn_that_it_became_part_of(kit: SessionKit) -> None:
    kit.plays(call("slow"), "both")
    one, other = RecordingListener(), RecordingListener()
    first = kit.start("1", one, message_id="m1")
    await soon(kit.reached.wait())
    second = kit.start("2", other, join=True, message_id="m2")
    await asyncio.sleep(0)
    assert other.of(MessageStored) == []
    kit.may_end.set()
    await all_of(first, second)
    assert turn_of(other, "m2") == turn_of(one, "m1")
    assert one.of(MessageStored) == [MessageStored("m1")]


# Said again.


async def test_a_message_that_comes_again_while_it_is_answered_is_part_of_that_turn(kit: SessionKit) -> None:
    kit.plays(call("slow"), "one")
    one, other = RecordingListener(), RecordingListener()
    first = kit.start("1", one, message_id="m1")
    await soon(kit.reached.wait())
    again = [
        kit.start("1", listener, message_id="m1", join=joins) for listener in (other, one) for joins in (True, False)
    ]
    await until(lambda: len(other.of(MessageStored)) == 2)
    kit.may_end.set()
    assert await all_of(first, *again) == [Ended("done", "one")] * 5
    assert await kit.texts() == ["1", "<slow>", "<slow>", "one"]
    assert turn_of(other) == turn_of(one)
    assert one.ends == other.ends == [Ended("done", "one")]


async def test_a_message_that_comes_again_while_it_waits_is_kept_once_and_both_hear_it(kit: SessionKit) -> None:
    kit.plays(call("slow"), "one", "two")
    one, other = RecordingListener(), RecordingListener()
    first = kit.start("1")
    await soon(kit.reached.wait())
    second = [kit.start("2", listener, message_id="m2") for listener in (one, other, one)]
    await asyncio.sleep(0)
    assert one.of(MessageStored) == other.of(MessageStored) == []
    kit.may_end.set()
    await all_of(first, *second)
    assert await kit.texts() == ["1", "<slow>", "<slow>", "one", "2", "two"]
    assert one.of(MessageStored) == other.of(MessageStored) == [MessageStored("m2")]
    assert one.ends == other.ends == [Ended("done", "two")]


async def test_a_message_that_was_answered_is_told_its_end_and_nobody_else_hears_of_it(kit: SessionKit) -> None:
    kit.plays([call("note", text="a")], "one")
    listener, watcher = RecordingListener(), RecordingListener()
    await kit.say("1", listener, message_id="m1")
    kit.sessions.get("s", OWNER).listen(watcher)
    counted: list[object] = []
    kit.bus.subscribe(TurnEvent, counted.append)
    again = RecordingListener()
    assert await kit.say("1", again, message_id="m1") == Ended("done", "one")
    assert again.heard == [MessageStored("m1"), AnsweredBefore(Ended("done", "one"), "one")]
    assert set(again.turns) == {turn_of(listener)}
    assert watcher.heard == counted == []
    assert len(await kit.kept()) == 4


async def test_a_message_that_was_answered_is_told_so_while_another_turn_runs(kit: SessionKit) -> None:
    kit.plays("one", call("slow"), "two")
    listener, again = RecordingListener(), RecordingListener()
    await kit.say("1", listener, message_id="m1")
    running = kit.start("2")
    await soon(kit.reached.wait())
    for joins in (False, True):
        assert await kit.say("1", again, message_id="m1", join=joins) == Ended("done", "one")
    kit.may_end.set()
    await soon(running)
    assert again.ends == []
    assert set(again.turns) == {turn_of(listener)}
    assert await kit.texts() == ["1", "one", "2", "<slow>", "<slow>", "two"]


async def test_a_message_that_was_answered_does_not_join_a_turn_that_is_just_beginning(kit: SessionKit) -> None:
    kit.plays("one", "two", "three")
    await kit.say("1", message_id="m1")
    again, other = RecordingListener(), RecordingListener()
    await all_of(kit.start("2"), kit.start("1", again, message_id="m1", join=True))
    assert again.heard[:2] == [MessageStored("m1"), AnsweredBefore(Ended("done", "one"), "one")]
    await all_of(kit.start("3"), kit.start("something else", other, message_id="m1", join=True))
    assert other.of(MessageStored) == []  # it is not kept, and the running turn is none the worse
    assert await kit.texts() == ["1", "one", "2", "two", "3", "three"]


async def test_a_message_whose_turn_failed_is_answered_when_it_comes_again(kit: SessionKit) -> None:
    kit.plays(ModelError("overloaded", "The server is down."), "one")
    listener, again = RecordingListener(), RecordingListener()
    assert (await kit.say("1", listener, message_id="m1")).reason == "error"
    assert await kit.say("1", again, message_id="m1") == Ended("done", "one")
    assert turn_of(again) == turn_of(listener)
    assert await kit.texts() == ["1", "one"]


async def test_a_message_whose_turn_failed_is_answered_by_the_turn_that_runs(kit: SessionKit) -> None:
    kit.plays(ModelError("overloaded", "The server is down."), call("slow"), "both")
    listener, again = RecordingListener(), RecordingListener()
    await kit.say("1", message_id="m1")
    running = kit.start("2", listener, message_id="m2")
    await soon(kit.reached.wait())
    waiting = kit.start("1", again, message_id="m1")
    await until(lambda: again.heard)
    kit.may_end.set()
    assert await all_of(running, waiting) == [Ended("done", "both")] * 2
    assert turn_of(again) == turn_of(listener, "m2")
    assert again.ends == [Ended("done", "both")]


async def test_a_message_whose_turn_was_cut_off_is_answered_under_the_same_turn(kit: SessionKit) -> None:
    await kit.store.conversations.create(owner=OWNER, session="s")
    cut = UserMessage((Text("1"),), "m1", "t1")  # as a gateway leaves it that is killed now
    await kit.store.conversations.append("s", cut, owner=OWNER)
    kit.plays("one")
    listener, watcher = RecordingListener(), RecordingListener()
    kit.sessions.get("s", OWNER).listen(watcher)
    assert await kit.say("1", listener, message_id="m1") == Ended("done", "one")
    assert set(listener.turns) == set(watcher.turns) == {"t1"}
    assert listener.of(TextArrived) == watcher.of(TextArrived) != []
    assert await kit.texts() == ["1", "one"]
    assert (await soon(kit.sessions.bind("s", OPERATOR))).name == "1"


async def test_a_turn_that_waits_goes_on_under_its_id(kit: SessionKit) -> None:
    await stopped_at_browser(kit)
    kit.plays(call("browser"), "clicked", call("browser"), "clicked again")
    watcher = RecordingListener()
    unwatch = kit.sessions.get("s", OWNER).listen(watcher)
    await kit.say("1", message_id="m1")
    again = RecordingListener()
    assert (await kit.say("1", again, message_id="m1")).reason == "pending"
    assert again.heard == [MessageStored("m1")]
    await settle(kit)
    await soon(kit.sessions.resume_turn("s", OWNER))
    assert set(watcher.turns) == {turn_of(again)}
    await soon(kit.sessions.get("s", OPERATOR.owner).regenerate(OPERATOR, RecordingListener()).wait_for_end())
    unwatch()  # nobody is there who remembers the turn: the conversation does
    await settle(kit)
    last = RecordingListener()
    kit.sessions.get("s", OWNER).listen(last)
    await soon(kit.sessions.resume_turn("s", OWNER))
    assert last.ends == [Ended("done", "clicked again")]
    assert set(last.turns) == {turn_of(again)}


async def test_a_message_that_comes_again_while_a_resume_finds_nothing_to_do_is_told_its_answer(
    kit: SessionKit,
) -> None:
    kit.plays("one")
    await kit.say("1", message_id="m1")
    session = kit.sessions.get("s", OWNER)
    for moment in range(8):  # at each step of a resume, as when the last of several calls was settled
        resumed, again = session.resume(), RecordingListener()
        for _ in range(moment):
            await asyncio.sleep(0)
        assert await kit.say("1", again, message_id="m1") == Ended("done", "one")
        assert again.heard == [MessageStored("m1"), AnsweredBefore(Ended("done", "one"), "one")], moment
        assert await soon(resumed.wait_for_end()) == NOTHING_TO_DO


async def test_a_message_that_wants_to_join_a_resume_with_nothing_to_do_has_a_turn_of_its_own(kit: SessionKit) -> None:
    kit.plays("one", "two")
    await kit.say("1")
    resumed = kit.sessions.get("s", OWNER).resume()
    await asyncio.sleep(0)
    assert await kit.say("2", join=True) == Ended("done", "two")
    assert await soon(resumed.wait_for_end()) == NOTHING_TO_DO


async def test_any_number_of_calls_that_are_settled_at_once_let_the_turn_go_on(kit: SessionKit) -> None:
    await stopped_at_browser(kit)
    kit.plays([call("browser", place=place) for place in range(12)], "all clicked")
    watcher = RecordingListener()
    kit.sessions.get("s", OWNER).listen(watcher)
    assert (await kit.say("1", message_id="m1")).reason == "pending"

    async def settle_one(call_id: str) -> None:
        await kit.app.engine.settle(call_id, Success("click"))
        await kit.sessions.resume_turn("s", OWNER)

    records = await soon(kit.store.ledger.open_calls(owner=OWNER))
    await soon(asyncio.gather(*(settle_one(record.id) for record in records)))
    assert watcher.ends == [Ended("pending"), Ended("done", "all clicked")]


async def test_an_answer_given_anew_is_another_turn_even_if_it_waits(kit: SessionKit) -> None:
    await stopped_at_browser(kit)
    kit.plays("one", call("browser"), "two")
    listener, watcher = RecordingListener(), RecordingListener()
    await kit.say("1", listener, message_id="m1")
    kit.sessions.get("s", OWNER).listen(watcher)
    await soon(kit.sessions.get("s", OPERATOR.owner).regenerate(OPERATOR, RecordingListener()).wait_for_end())
    await settle(kit)
    await soon(kit.sessions.resume_turn("s", OWNER))
    assert watcher.ends == [Ended("pending"), Ended("done", "two")]
    assert len(set(watcher.turns)) == 1
    assert turn_of(listener) not in watcher.turns


async def test_what_waited_ends_as_itself_before_the_next_message_is_answered(kit: SessionKit) -> None:
    await stopped_at_browser(kit)
    kit.plays(call("browser"), "clicked", "and more")
    one, other = RecordingListener(), RecordingListener()
    await kit.say("1", one, message_id="m1")
    await settle(kit)
    await kit.say("2", other, message_id="m2")
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
