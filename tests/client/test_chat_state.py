"""Whose turn an event belongs to, when several fronts talk in one session."""

from typing import Any

from handspan.client.chat_state import ChatState
from handspan.core.events import Ended, Event
from handspan.wire.ws_chat_frames import EventFrame, MessageAccepted, Regenerate, Say
from handspan.wire.ws_chat_frames import QuestionFrame as QuestionFrame
from handspan.wire.ws_frames import ErrorFrame

EVENTS = frozenset(("events", "resume"))


class Front:
    """A talk, and what happens in it."""

    def __init__(self) -> None:
        self.talk = ChatState()
        self._seq = 0

    def happens(self, kind: str, turn: str = "", **fields: Any) -> list[tuple[Event, bool]]:
        """An event comes: what it is, and whether it is ours."""
        self._seq += 1
        events = self.talk.receive(EventFrame(self._seq, {"type": kind, **fields}, turn), EVENTS)
        return [(one.event, one.is_own) for one in events]

    def is_ours(self, kind: str, turn: str = "", **fields: Any) -> bool:
        ((_, is_own),) = self.happens(kind, turn, **fields)
        return is_own


def test_a_turn_of_another_client_is_not_ours() -> None:
    front = Front()
    assert not front.is_ours("round", number=1)
    assert not front.is_ours("ended", reason="done")


def test_our_turn_begins_when_that_of_another_client_has_ended() -> None:
    front = Front()
    front.happens("text", text="theirs")
    front.talk.begin_turn(Say("mine"))
    assert not front.is_ours("text", text="theirs")
    assert not front.is_ours("ended", reason="done")
    assert front.is_ours("text", text="mine")
    assert front.is_ours("ended", reason="done")
    assert front.talk.opening is None


def test_our_turn_begins_with_its_first_round_even_if_the_end_before_it_was_missed() -> None:
    front = Front()
    front.happens("text", text="theirs")
    front.talk.begin_turn(Say("mine"))
    assert front.is_ours("round", number=1)


def test_a_joining_message_is_part_of_the_turn_of_another_client() -> None:
    front = Front()
    front.happens("text", text="theirs")
    front.talk.begin_turn(Say("and mine", join=True))
    assert front.is_ours("ended", reason="done")


def test_a_refused_turn_leaves_the_running_turn_of_another_client_alone() -> None:
    front = Front()
    front.happens("text", text="theirs")
    front.talk.begin_turn(Say("mine"))
    (lost,) = front.talk.receive(ErrorFrame("busy", "SESSION_BUSY"), EVENTS)
    assert (lost.event, lost.is_own) == (Ended("error", "busy"), True)
    front.talk.begin_turn(Say("mine again"))
    assert not front.is_ours("ended", reason="done")
    assert front.is_ours("ended", reason="done")


def test_questions_and_turns_that_wait_do_not_hold_up_ours() -> None:
    front = Front()
    front.talk.receive(QuestionFrame("q1", "approval", "c1", "pay", {}, "money", 1000), EVENTS)
    front.talk.begin_turn(Say("mine"))
    assert front.is_ours("ended", reason="done")
    assert not front.is_ours("ended", reason="pending")
    front.talk.begin_turn(Say("mine"))
    assert front.is_ours("text", text="mine")


def test_an_event_that_is_known_or_of_tomorrow_is_passed_over() -> None:
    front = Front()
    front.happens("text", text="one")
    assert front.talk.receive(EventFrame(1, {"type": "text", "text": "one"}), EVENTS) == []
    assert front.happens("an event of tomorrow") == []
    assert front.talk.last_event == 2


def test_what_is_ours_is_said_by_the_gateway_and_not_guessed() -> None:
    front = Front()
    front.talk.begin_turn(Say("mine", id="m1"))
    assert not front.is_ours("round", "t1", number=1)
    assert front.talk.receive(MessageAccepted("m1", "t2"), EVENTS) == []
    assert not front.is_ours("ended", "t1", reason="done")
    assert front.is_ours("round", "t2", number=1)
    assert front.is_ours("ended", "t2", reason="pending")
    assert not front.is_ours("text", "t3", text="between")
    assert front.is_ours("ended", "t2", reason="done")
    assert front.talk.opening is None


def test_a_message_that_was_kept_when_its_turn_was_over_ends_with_it() -> None:
    front = Front()
    front.talk.begin_turn(Say("and mine", join=True, id="m1"))
    assert not front.is_ours("ended", "t1", reason="error", text="no key")
    (ended,) = front.talk.receive(MessageAccepted("m1", "t1"), EVENTS)
    assert (ended.event, ended.is_own) == (Ended("error", "no key"), True)


def test_a_turn_that_failed_elsewhere_does_not_end_ours() -> None:
    front = Front()
    front.talk.begin_turn(Say("mine", id="m1"))
    front.talk.receive(MessageAccepted("m1", "t1"), EVENTS)
    front.happens("ended", "t2", reason="error", text="no key")
    assert front.talk.receive(ErrorFrame("no key", "AUTH_ERROR"), EVENTS) == []
    assert front.is_ours("ended", "t1", reason="done")


def test_a_message_that_was_stopped_behind_the_turn_of_others_ends_as_aborted() -> None:
    front = Front()
    front.happens("text", "t1", text="theirs")
    front.talk.begin_turn(Say("mine", id="m1"))
    (ended,) = front.talk.receive(ErrorFrame("stopped", "ABORTED", "m1"), EVENTS)
    assert (ended.event, ended.is_own, front.talk.opening) == (Ended("aborted"), True, None)


def test_without_an_id_the_first_round_is_where_ours_begins() -> None:
    front = Front()
    front.happens("text", "t1", text="theirs")
    front.talk.begin_turn(Regenerate())
    assert not front.is_ours("ended", "t1", reason="done")
    assert front.is_ours("round", "t2", number=1)


def test_a_gateway_that_does_not_resume_says_nothing_of_turns() -> None:
    talk = ChatState()
    talk.begin_turn(Say("mine", id="m1"))
    (event,) = talk.receive(EventFrame(1, {"type": "text", "text": "hi"}, "t1"), frozenset(("events",)))
    assert event.is_own
    (lost,) = talk.receive(ErrorFrame("busy", "SESSION_BUSY"), frozenset(("events",)))
    assert lost.event == Ended("error", "busy")
