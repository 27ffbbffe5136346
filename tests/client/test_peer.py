"""The client's side of the protocol without a socket: what the vectors do not say."""

import pytest

from handspan.client.actions import Action, AskPerson, Happened, Keep, RunCall, Send, StopCall, Tell, Watch
from handspan.client.memory import MOST_IDS, CallMemory
from handspan.client.peer import ClientState
from handspan.client.talk import ChatState
from handspan.client.tools import Tools
from handspan.core.events import Ended
from handspan.core.values import Json
from handspan.wire.ws import encode
from handspan.wire.ws_frames import (
    Abort,
    AnswerFrame,
    CallRequest,
    Connect,
    Connected,
    ErrorFrame,
    EventFrame,
    FailureFrame,
    GetRegisteredTools,
    MessageAccepted,
    PermissionAnswer,
    PermissionRequest,
    ProgressFrame,
    Regenerate,
    RegisteredTools,
    RegisterTools,
    RejectedTool,
    ResultFrame,
    Say,
    ToolsRegistered,
)

NOW = 1_700_000_000.0
CAN = ["resume", "progress", "cancel", "deadline", "parts", "permissions", "unregister", "ack_batch"]


def peer(tools: Tools | None = None, concurrency: int = 1, can: list[str] = CAN, label: str = "") -> ClientState:
    """A peer that is connected."""
    made = ClientState(Connect(capabilities=CAN, role="device"), tools or two_tools(), CallMemory(), concurrency)
    made.opened()
    made.heard(Connected(1, "hello", can, None, label, "t1", 60000, False), NOW)
    return made


def two_tools() -> Tools:
    tools = Tools()
    claims: dict[str, dict[str, Json]] = {"pay": {}, "look": {"read_only": True}}
    for name, annotations in claims.items():
        tools.register(
            {
                "name": name,
                "description": "A tool.",
                "parameters": {"type": "object"},
                "annotations": annotations,
                "timeout": 20.0,
            },
            lambda arguments: None,
        )
    return tools


def frames(actions: list[Action]) -> list[object]:
    return [action.frame for action in actions if isinstance(action, Send)]


def test_a_call_that_can_not_begin_in_time_is_answered_busy_with_who_is_in_its_way() -> None:
    one = peer()
    one.heard(CallRequest("c1", "pay", {}), NOW)
    assert one.heard(CallRequest("c2", "look", {}, 500), NOW) == [Watch("c2", 0.5)]
    (answer,) = frames(one.expired("c2", NOW))
    assert isinstance(answer, FailureFrame)
    assert (answer.id, answer.code) == ("c2", "busy")
    assert answer.error == "Tool 'look' could not begin within 0.5 s: this device is still busy with 'pay'."
    assert one.expired("c2", NOW) == []


def test_a_call_that_takes_too_long_is_stopped_answered_once_and_keeps_its_place_until_it_ends() -> None:
    one = peer()
    one.heard(CallRequest("c1", "pay", {}, 500), NOW)
    stop, keep, send = one.expired("c1", NOW)
    assert (stop, keep) == (StopCall("c1", "timeout"), Keep())
    assert send == Send(FailureFrame(id="c1", error="Tool 'pay' did not finish within 0.5 s.", code="timeout"))
    assert one.heard(CallRequest("c2", "pay", {}), NOW) == [Watch("c2", 20.0)]
    actions = one.finished("c1", ResultFrame(id="c1", output="late"), NOW)
    assert [type(action) for action in actions] == [RunCall]


def test_progress_lets_the_time_begin_anew() -> None:
    one = peer()
    one.heard(CallRequest("c1", "pay", {}, 500), NOW)
    assert one.progressed("c1", 1) == [Send(ProgressFrame(id="c1", value=1)), Watch("c1", 20.0)]
    one.dropped([])
    assert one.progressed("c1", 2) == []
    assert one.progressed("c9", 2) == []


def test_what_must_not_run_twice_is_recorded_first() -> None:
    one = peer(concurrency=2)
    runs = [one.heard(CallRequest(name, name, {}), NOW)[-1] for name in ("pay", "look")]
    assert [run.is_recorded for run in runs if isinstance(run, RunCall)] == [True, False]


def test_an_answer_is_kept_before_it_is_sent() -> None:
    one = peer()
    one.heard(CallRequest("c1", "pay", {}), NOW)
    answer = ResultFrame(id="c1", output="paid")
    assert one.finished("c1", answer, NOW)[:2] == [Keep(), Send(answer)]


def test_an_answer_waits_for_the_gateways_greeting_on_a_new_link() -> None:
    one = peer()
    one.heard(CallRequest("c1", "pay", {}), NOW)
    one.dropped([])
    one.opened()
    answer = ResultFrame(id="c1", output="paid")
    assert one.finished("c1", answer, NOW) == [Keep()]
    greeted = one.heard(Connected(1, "hello", CAN, None, "", "t1", 60000, True), NOW)
    assert frames(greeted) == [answer]


def test_many_large_tools_are_offered_in_several_frames() -> None:
    tools = Tools()
    for number in range(40):
        tools.register({"name": f"t{number}", "description": "x" * 20_000, "parameters": {"type": "object"}})
    one = ClientState(Connect(), tools, CallMemory())
    hello, *offers = frames(one.opened())
    assert isinstance(hello, Connect)
    assert len(offers) > 1
    assert all(isinstance(offer, RegisterTools) and len(encode(offer)) < 300_000 for offer in offers)
    assert sum(len(offer.tools) for offer in offers if isinstance(offer, RegisterTools)) == 40


def test_tools_that_the_gateway_did_not_take_are_known() -> None:
    one = peer()
    one.heard(ToolsRegistered(2, 1, [RejectedTool("pay", "not here")]), NOW)
    assert one.rejected == {"pay": "not here"}
    one.dropped([])
    one.opened()
    assert one.rejected == {}


def test_a_question_names_the_tool_as_the_program_does() -> None:
    one = peer(label="phone")
    (asked,) = one.heard(PermissionRequest("q1", "c1", "phone__pay", "money", 1000), NOW)
    (other,) = one.heard(PermissionRequest("q2", "c1", "phone__other", "money", 1000), NOW)
    assert isinstance(asked, AskPerson)
    assert isinstance(other, AskPerson)
    assert (asked.request.tool, other.request.tool) == ("pay", "phone__other")


def test_only_so_many_questions_are_remembered() -> None:
    one = peer()
    for number in range(MOST_IDS + 1):
        one.heard(PermissionRequest(f"q{number}", "c1", "pay", "money", 1000), NOW)
    assert len(one.heard(PermissionRequest("q0", "c1", "pay", "money", 1000), NOW)) == 1
    assert one.heard(PermissionRequest(f"q{MOST_IDS}", "c1", "pay", "money", 1000), NOW) == []


def test_an_answer_of_a_person_waits_until_it_is_asked_for_again() -> None:
    one = peer()
    one.heard(PermissionRequest("q1", "c1", "pay", "money", 1000), NOW)
    one.dropped([])
    assert one.permitted("q1", "allow", "") == []
    one.opened()
    one.heard(Connected(1, "hello", CAN, None, "", "t1", 60000, True), NOW)
    again = one.heard(PermissionRequest("q1", "c1", "pay", "money", 1000), NOW)
    assert again == [Send(PermissionAnswer("q1", "allow"))]


def test_a_tool_without_a_limit_of_time_is_not_watched() -> None:
    tools = Tools()

    @tools.tool(timeout=None)
    def wait() -> None:
        """Wait."""

    one = peer(tools)
    assert [type(action) for action in one.heard(CallRequest("c1", "wait", {}), NOW)] == [RunCall]
    assert one.progressed("c1", 1) == [Send(ProgressFrame(id="c1", value=1))]


@pytest.mark.parametrize("is_open", [True, False])
def test_a_tool_that_is_new_is_offered_when_there_is_a_link(is_open: bool) -> None:
    tools = two_tools()
    one = peer(tools)
    if not is_open:
        one.dropped([])
    tools.register({"name": "new", "description": "New.", "parameters": {"type": "object"}})
    offered = frames(one.changed("new"))
    assert len(offered) == is_open


def test_a_call_that_was_stopped_does_not_run_again() -> None:
    one = peer()
    one.heard(CallRequest("c1", "pay", {}), NOW)
    one.finished("c1", None, NOW)
    assert one.heard(CallRequest("c1", "pay", {}, None, True), NOW) == []


def test_an_unanswered_link_has_no_turn_to_give_up() -> None:
    assert peer().give_up("no") == []


# A chat.


def chat() -> ClientState:
    made = ClientState(Connect(capabilities=[*CAN, "events"]), Tools(), CallMemory(), 1, ChatState())
    made.opened()
    made.heard(Connected(1, "hello", [*CAN, "events"], None, "", "t1", 60000, False), NOW)
    return made


def back(one: ClientState, resumed: bool = True) -> list[Action]:
    """The link is there again, and greeted."""
    one.opened()
    return one.heard(Connected(1, "hello", [*CAN, "events"], None, "", "t1", 60000, resumed), NOW)


@pytest.mark.parametrize("resumed", [True, False])
def test_what_is_said_while_the_link_is_down_is_said_when_it_is_back(resumed: bool) -> None:
    one = chat()
    assert one.dropped([]) == []
    assert one.say(Say("hello")) == []
    assert frames(back(one, resumed)) == [Say("hello")]


def test_what_did_not_get_away_is_said_again_in_order_and_results_are_not_among_it() -> None:
    one = chat()
    message, abort = Say("hello", id="m1"), Abort()
    assert one.say(message) == [Send(message)]
    one.dropped([message, ResultFrame(id="c1"), abort])
    one.say(AnswerFrame("q1", "allow"))
    assert frames(back(one)) == [message, abort, AnswerFrame("q1", "allow")]
    assert frames(back(one)) == [message]  # now it may have arrived


def ends(actions: list[Action]) -> list[Ended]:
    return [action.event for action in actions if isinstance(action, Happened) and isinstance(action.event, Ended)]


def test_a_new_answer_that_may_have_been_asked_for_is_not_asked_for_again() -> None:
    one = chat()
    one.say(Regenerate())
    one.dropped([])
    assert frames(back(one)) == [GetRegisteredTools()]
    assert [ended.reason for ended in ends(one.heard(RegisteredTools([]), NOW))] == ["error"]
    assert one.heard(RegisteredTools([]), NOW) == [Tell(RegisteredTools([]))]


def test_a_new_answer_of_which_something_was_heard_just_goes_on() -> None:
    one = chat()
    one.say(Regenerate())
    one.heard(EventFrame(1, {"type": "round", "number": 1}), NOW)
    one.dropped([])
    assert frames(back(one)) == []


def test_a_new_answer_is_lost_with_a_gateway_that_does_not_know_the_chat() -> None:
    one = chat()
    one.say(Regenerate())
    one.dropped([])
    (lost,) = ends(back(one, resumed=False))
    assert (lost.reason, "does not know" in lost.text) == ("error", True)


@pytest.mark.parametrize("resumed", [True, False])
def test_a_message_is_sent_again_on_every_link_until_its_turn_has_ended(resumed: bool) -> None:
    one, message = chat(), Say("pay", id="m1")
    one.say(message)
    one.dropped([])
    assert frames(back(one, resumed)) == [message]
    one.heard(MessageAccepted("m1", "t1"), NOW)
    one.heard(EventFrame(1, {"type": "round", "number": 1}, "t1"), NOW)
    one.dropped([])
    assert frames(back(one, resumed)) == [message]
    assert ends(one.heard(EventFrame(2, {"type": "ended", "reason": "done", "text": ""}, "t1"), NOW)) == [Ended("done")]
    one.dropped([])
    assert frames(back(one, resumed)) == []


def test_what_is_said_into_a_turn_is_sent_again_until_it_is_accepted_or_refused() -> None:
    one, first, taken, refused = chat(), Say("1", id="m1"), Say("2", False, True, "m2"), Say("3", False, True, "m3")
    for frame in (first, taken, refused):
        one.say(frame)
    one.dropped([])
    assert frames(back(one)) == [first, taken, refused]
    one.heard(MessageAccepted("m1", "t1"), NOW)
    one.heard(MessageAccepted("m2", "t1"), NOW)
    one.dropped([])
    assert frames(back(one)) == [first, refused]
    assert ends(one.heard(ErrorFrame("busy", "SESSION_BUSY", "m3"), NOW)) == [Ended("error", "busy")]
    one.dropped([])
    assert frames(back(one)) == []


def test_a_message_is_not_sent_again_to_a_gateway_that_would_say_it_twice() -> None:
    one = chat()
    one.say(Say("pay", id="m1"))
    one.dropped([])
    one.opened()
    came = one.heard(Connected(1, "hello", ["events"]), NOW)
    assert (frames(came), [ended.reason for ended in ends(came)]) == ([], ["error"])


def test_a_message_that_was_answered_without_being_accepted_is_not_sent_again() -> None:
    one = chat()
    one.say(Say("pay", id="m1"))
    assert ends(one.heard(EventFrame(1, {"type": "ended", "reason": "done"}), NOW)) == [Ended("done")]
    one.dropped([])
    assert frames(back(one)) == []


def test_what_nobody_waits_for_any_more_is_not_said_when_the_link_is_back() -> None:
    one = chat()
    one.dropped([])
    one.say(Say("pay", id="m1"))
    assert ends(one.give_up("down")) == [Ended("error", "down")]
    assert frames(back(one)) == []


def test_a_chat_that_is_silent_comes_back_in_silence() -> None:
    one = chat()
    one.dropped([])
    assert frames(back(one)) == []
    assert one.give_up("no") == []
