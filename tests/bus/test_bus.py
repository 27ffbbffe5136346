"""What every bus promises: an event reaches all listeners for its kind, whatever one of them does."""

from collections.abc import Callable
from typing import get_args

import pytest

from handspan.core.bus import (
    AbortRequested,
    BudgetChanged,
    Bus,
    BusEvent,
    CallCompleted,
    DeviceChanged,
    LoginRequested,
    MessagePosted,
    MessageShown,
    QuestionEnded,
    QuestionOpened,
    RulesForgotten,
    ScheduleChanged,
    SwitchesChanged,
    TokenRevoked,
    ToolsChanged,
    TryNoted,
    TurnEvent,
)
from handspan.core.calls import UNKNOWN_TOOL, ToolFacts
from handspan.core.events import CallProgress, Ended, QuestionAsked, TextArrived, Titled, UsageCounted
from handspan.core.messages import Usage
from handspan.core.principals import Origin
from handspan.core.questions import Question

QUESTION = Question("q1", "approval", "c1", "pay", {"to": "bob", "sum": [1, 2.5]}, "money", "ann", "s", "f1", 30.0)
PHONE = ToolFacts(Origin("device", "phone", "peer-1"), "2", False, outlives=True)

EVENTS: list[BusEvent] = [
    TokenRevoked("ann", "hash"),
    ToolsChanged("ann"),
    DeviceChanged("ann"),
    QuestionOpened("ann", QUESTION),
    QuestionEnded("ann", "s", "c1", "q1", "approval", "allow", "peer-1"),
    QuestionEnded("ann", "s", "c1", "q1", "input", None),
    LoginRequested("ann", "c1/login/1", "c1"),
    AbortRequested("ann", "s"),
    RulesForgotten("ann", "pay"),
    SwitchesChanged(""),
    TryNoted("", "token", "203.0.113.7"),
    MessagePosted("ann", "m1", "page", "all", "Grüße", "s"),
    MessageShown("ann", "m1"),
    CallCompleted("ann", "s", "c1", "phone__camera", PHONE, "success", 0.25),
    CallCompleted("ann", "", "c2", "nothing", UNKNOWN_TOOL, "tool_not_found", 0.0),
    TurnEvent("ann", "s", "t1", TextArrived("é\u2028")),
    TurnEvent("ann", "s", "t1", CallProgress("c1", "pay", {"done": [1, None, True]})),
    TurnEvent("ann", "s", "t1", QuestionAsked(QUESTION)),
    TurnEvent("ann", "s", "t1", UsageCounted("m", Usage(input=1, output=2))),
    TurnEvent("ann", "s", "t1", Ended("error", "no")),
    TurnEvent("ann", "s", "t1", Titled("A name")),
    BudgetChanged(),
    ScheduleChanged("ann", "s1", 5.0),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_every_event_arrives_as_it_was_published(bus: Bus, event: BusEvent) -> None:
    arrived: list[BusEvent] = []
    bus.subscribe(type(event), arrived.append)
    bus.publish(event)
    assert arrived == [event] and type(arrived[0]) is type(event)


def test_all_kinds_of_events_are_tried_here() -> None:
    assert {type(event) for event in EVENTS} == set(get_args(BusEvent))


def test_an_event_reaches_the_listeners_for_its_kind_only_in_the_order_of_their_subscription(bus: Bus) -> None:
    arrived: list[str] = []
    bus.subscribe(ToolsChanged, lambda event: arrived.append(f"first {event.owner}"))
    bus.subscribe(DeviceChanged, lambda event: arrived.append("never"))
    bus.subscribe(ToolsChanged, lambda event: arrived.append(f"second {event.owner}"))
    bus.publish(ToolsChanged("ann"))
    assert arrived == ["first ann", "second ann"]


def test_an_event_without_listeners_is_lost(bus: Bus) -> None:
    arrived: list[ToolsChanged] = []
    bus.publish(ToolsChanged("ann"))
    bus.subscribe(ToolsChanged, arrived.append)
    assert arrived == []


def test_a_listener_that_fails_disturbs_neither_the_others_nor_the_publisher(
    bus: Bus, caplog: pytest.LogCaptureFixture
) -> None:
    arrived: list[ToolsChanged] = []

    def fail(event: ToolsChanged) -> None:
        raise RuntimeError("broken listener")

    bus.subscribe(ToolsChanged, fail)
    bus.subscribe(ToolsChanged, arrived.append)
    bus.publish(ToolsChanged("ann"))
    assert arrived == [ToolsChanged("ann")]
    assert "A listener for ToolsChanged failed" in caplog.text and "broken listener" in caplog.text


def test_a_listener_that_unsubscribes_gets_nothing_more_and_others_stay(bus: Bus) -> None:
    arrived: list[ToolsChanged] = []
    ends = [bus.subscribe(ToolsChanged, arrived.append) for _ in range(2)]
    bus.publish(ToolsChanged("1"))
    ends[0]()
    ends[0]()  # once is enough
    bus.publish(ToolsChanged("2"))
    ends[1]()
    bus.publish(ToolsChanged("3"))
    assert [event.owner for event in arrived] == ["1", "1", "2"]


def test_listeners_may_come_and_go_and_publish_while_an_event_is_delivered(bus: Bus) -> None:
    arrived: list[str] = []
    ends: list[Callable[[], None]] = []

    def once(event: ToolsChanged) -> None:
        ends.pop()()
        bus.subscribe(ToolsChanged, lambda late: arrived.append(f"late {late.owner}"))
        bus.publish(DeviceChanged(event.owner))

    ends.append(bus.subscribe(ToolsChanged, once))
    bus.subscribe(ToolsChanged, lambda event: arrived.append(event.owner))
    bus.subscribe(DeviceChanged, lambda event: arrived.append(f"device {event.owner}"))
    bus.publish(ToolsChanged("1"))
    bus.publish(ToolsChanged("2"))
    assert arrived == ["device 1", "1", "2", "late 2"]
