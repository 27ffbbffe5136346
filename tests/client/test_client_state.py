"""The client's side of the protocol without a socket: what the vectors do not say."""

import pytest

from handspan.client.actions import (
    Action,
    AskPerson,
    DeliverEvent,
    DeliverFrame,
    RunCall,
    SaveState,
    SendFrame,
    SetTimeout,
    StopCall,
)
from handspan.client.chat_state import ChatState
from handspan.client.client_state import ClientState
from handspan.client.memory import MAX_CALLS, CallMemory
from handspan.client.tools import ClientTools
from handspan.core.events import Ended
from handspan.core.values import Json
from handspan.wire.ws import encode
from handspan.wire.ws_chat_frames import Abort, AnswerFrame, EventFrame, MessageAccepted, Regenerate, Say
from handspan.wire.ws_frames import (
    CallRequest,
    Connect,
    Connected,
    ErrorFrame,
    FailureFrame,
    GetRegisteredTools,
    PermissionAnswer,
    PermissionRequest,
    ProgressFrame,
    RegisteredTools,
    RegisterTools,
    RejectedTool,
    ResultFrame,
    ToolsRegistered,
)

NOW = 1_700_000_000.0
CAN = ["resume", "progress", "cancel", "deadline", "parts", "permissions", "unregister", "ack_batch"]


def peer(tools: ClientTools | None = None, concurrency: int = 1, can: list[str] = CAN, label: str = "") -> ClientState:
    """A peer that is connected."""
    made = ClientState(Connect(capabilities=CAN, role="device"), tools or two_tools(), CallMemory(), concurrency)
    made.open_link()
    made.receive(Connected(1, "hello", can, None, label, "t1", 60000, False), NOW)
    return made


def two_tools() -> ClientTools:
    tools = ClientTools()
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
    return [action.frame for action in actions if isinstance(action, SendFrame)]


def test_a_call_that_can_not_begin_in_time_is_answered_busy_with_who_is_in_its_way() -> None:
    one = peer()
    one.receive(CallRequest("c1", "pay", {}), NOW)
    assert one.receive(CallRequest("c2", "look", {}, 500), NOW) == [SetTimeout("c2", 0.5)]
    (answer,) = frames(one.calls.expire_call("c2", NOW))
    assert isinstance(answer, FailureFrame)
    assert (answer.id, answer.code) == ("c2", "busy")
    assert answer.error == "Tool 'look' could not begin within 0.5 s: this device is still busy with 'pay'."
    assert one.calls.expire_call("c2", NOW) == []


def test_a_call_that_takes_too_long_is_stopped_answered_once_and_keeps_its_place_until_it_ends() -> None:
    one = peer()
    one.receive(CallRequest("c1", "pay", {}, 500), NOW)
    stop, keep, send = one.calls.expire_call("c1", NOW)
    assert (stop, keep) == (StopCall("c1", "timeout"), SaveState())
    assert send == SendFrame(FailureFrame(id="c1", error="Tool 'pay' did not finish within 0.5 s.", code="timeout"))
    assert one.receive(CallRequest("c2", "pay", {}), NOW) == [SetTimeout("c2", 20.0)]
    actions = one.calls.finish_call("c1", ResultFrame(id="c1", output="late"), NOW)
    assert [type(action) for action in actions] == [RunCall]


def test_progress_lets_the_time_begin_anew() -> None:
    one = peer()
    one.receive(CallRequest("c1", "pay", {}, 500), NOW)
    assert one.calls.report_progress("c1", 1) == [SendFrame(ProgressFrame(id="c1", value=1)), SetTimeout("c1", 20.0)]
    one.drop_link([])
    assert one.calls.report_progress("c1", 2) == []
    assert one.calls.report_progress("c9", 2) == []


def test_what_must_not_run_twice_is_recorded_first() -> None:
    one = peer(concurrency=2)
    runs = [one.receive(CallRequest(name, name, {}), NOW)[-1] for name in ("pay", "look")]
    assert [run.is_recorded for run in runs if isinstance(run, RunCall)] == [True, False]


def test_an_answer_is_kept_before_it_is_sent() -> None:
    one = peer()
    one.receive(CallRequest("c1", "pay", {}), NOW)
    answer = ResultFrame(id="c1", output="paid")
    assert one.calls.finish_call("c1", answer, NOW)[:2] == [SaveState(), SendFrame(answer)]


def test_an_answer_waits_for_the_gateways_greeting_on_a_new_link() -> None:
    one = peer()
    one.receive(CallRequest("c1", "pay", {}), NOW)
    one.drop_link([])
    one.open_link()
    answer = ResultFrame(id="c1", output="paid")
    assert one.calls.finish_call("c1", answer, NOW) == [SaveState()]
    greeted = one.receive(Connected(1, "hello", CAN, None, "", "t1", 60000, True), NOW)
    assert frames(greeted) == [answer]


def test_many_large_tools_are_offered_in_several_frames() -> None:
    tools = ClientTools()
    for number in range(40):
        tools.register({"name": f"t{number}", "description": "x" * 20_000, "parameters": {"type": "object"}})
    one = ClientState(Connect(), tools, CallMemory())
    hello, *offers = frames(one.open_link())
    assert isinstance(hello, Connect)
    assert len(offers) > 1
    assert all(isinstance(offer, RegisterTools) and len(encode(offer)) < 300_000 for offer in offers)
    assert sum(len(offer.tools) for offer in offers if isinstance(offer, RegisterTools)) == 40


def test_tools_that_the_gateway_did_not_take_are_known() -> None:
    one = peer()
    one.receive(ToolsRegistered(2, 1, [RejectedTool("pay", "not here")]), NOW)
    assert one.rejected == {"pay": "not here"}
    one.drop_link([])
    one.open_link()
    assert one.rejected == {}


def test_a_question_names_the_tool_as_the_program_does() -> None:
    one = peer(label="phone")
    (asked,) = one.receive(PermissionRequest("q1", "c1", "phone__pay", "money", 1000), NOW)
    (other,) = one.receive(PermissionRequest("q2", "c1", "phone__other", "money", 1000), NOW)
    assert isinstance(asked, AskPerson)
    assert isinstance(other, AskPerson)
    assert (asked.request.tool, other.request.tool) == ("pay", "phone__other")


def test_only_so_many_questions_are_remembered() -> None:
    one = peer()
    for number in range(MAX_CALLS + 1):
        one.receive(PermissionRequest(f"q{number}", "c1", "pay", "money", 1000), NOW)
    assert len(one.receive(PermissionRequest("q0", "c1", "pay", "money", 1000), NOW)) == 1
    assert one.receive(PermissionRequest(f"q{MAX_CALLS}", "c1", "pay", "money", 1000), NOW) == []


def test_an_answer_of_a_person_waits_until_it_is_asked_for_again() -> None:
    one = peer()
    one.receive(PermissionRequest("q1", "c1", "pay", "money", 1000), NOW)
    one.drop_link([])
    assert one.calls.answer_permission("q1", "allow", "") == []
    one.open_link()
    one.receive(Connected(1, "hello", CAN, None, "", "t1", 60000, True), NOW)
    again = one.receive(PermissionRequest("q1", "c1", "pay", "money", 1000), NOW)
    assert again == [SendFrame(PermissionAnswer("q1", "allow"))]


def test_a_tool_without_a_limit_of_time_is_not_watched() -> None:
    tools = ClientTools()

    @tools.tool(timeout=None)
    def wait() -> None:
        """Wait."""

    one = peer(tools)
    assert [type(action) for action in one.receive(CallRequest("c1", "wait", {}), NOW)] == [RunCall]
    assert one.calls.report_progress("c1", 1) == [SendFrame(ProgressFrame(id="c1", value=1))]


@pytest.mark.parametrize("is_open", [True, False])
def test_a_tool_that_is_new_is_offered_when_there_is_a_link(is_open: bool) -> None:
    tools = two_tools()
    one = peer(tools)
    if not is_open:
        one.drop_link([])
    tools.register({"name": "new", "description": "New.", "parameters": {"type": "object"}})
    offered = frames(one.change_tool("new"))
    assert len(offered) == is_open


def test_a_call_that_was_stopped_does_not_run_again() -> None:
    one = peer()
    one.receive(CallRequest("c1", "pay", {}), NOW)
    one.calls.finish_call("c1", None, NOW)
    assert one.receive(CallRequest("c1", "pay", {}, None, True), NOW) == []


def test_an_unanswered_link_has_no_turn_to_give_up() -> None:
    assert peer().give_up("no") == []


# A chat.


def chat() -> ClientState:
    made = ClientState(Connect(capabilities=[*CAN, "events"]), ClientTools(), CallMemory(), 1, ChatState())
    made.open_link()
    made.receive(Connected(1, "hello", [*CAN, "events"], None, "", "t1", 60000, False), NOW)
    return made


def back(one: ClientState, resumed: bool = True) -> list[Action]:
    """The link is there again, and greeted."""
    one.open_link()
    return one.receive(Connected(1, "hello", [*CAN, "events"], None, "", "t1", 60000, resumed), NOW)


@pytest.mark.parametrize("resumed", [True, False])
def test_what_is_said_while_the_link_is_down_is_said_when_it_is_back(resumed: bool) -> None:
    one = chat()
    assert one.drop_link([]) == []
    assert one.send(Say("hello")) == []
    assert frames(back(one, resumed)) == [Say("hello")]


def test_what_did_not_get_away_is_said_again_in_order_and_results_are_not_among_it() -> None:
    one = chat()
    message, abort = Say("hello", id="m1"), Abort()
    assert one.send(message) == [SendFrame(message)]
    one.drop_link([message, ResultFrame(id="c1"), abort])
    one.send(AnswerFrame("q1", "allow"))
    assert frames(back(one)) == [message, abort, AnswerFrame("q1", "allow")]
    assert frames(back(one)) == [message]  # now it may have arrived


def ends(actions: list[Action]) -> list[Ended]:
    return [action.event for action in actions if isinstance(action, DeliverEvent) and isinstance(action.event, Ended)]


def test_a_new_answer_that_may_have_been_asked_for_is_not_asked_for_again() -> None:
    one = chat()
    one.send(Regenerate())
    one.drop_link([])
    assert frames(back(one)) == [GetRegisteredTools()]
    assert [ended.reason for ended in ends(one.receive(RegisteredTools([]), NOW))] == ["error"]
    assert one.receive(RegisteredTools([]), NOW) == [DeliverFrame(RegisteredTools([]))]


def test_a_new_answer_of_which_something_was_heard_just_goes_on() -> None:
    one = chat()
    one.send(Regenerate())
    one.receive(EventFrame(1, {"type": "round", "number": 1}), NOW)
    one.drop_link([])
    assert frames(back(one)) == []


def test_a_new_answer_is_lost_with_a_gateway_that_does_not_know_the_chat() -> None:
    one = chat()
    one.send(Regenerate())
    one.drop_link([])
    (lost,) = ends(back(one, resumed=False))
    assert (lost.reason, "does not know" in lost.text) == ("error", True)


@pytest.mark.parametrize("resumed", [True, False])
def test_a_message_is_sent_again_on_every_link_until_its_turn_has_ended(resumed: bool) -> None:
    one, message = chat(), Say("pay", id="m1")
    one.send(message)
    one.drop_link([])
    assert frames(back(one, resumed)) == [message]
    one.receive(MessageAccepted("m1", "t1"), NOW)
    one.receive(EventFrame(1, {"type": "round", "number": 1}, "t1"), NOW)
    one.drop_link([])
    assert frames(back(one, resumed)) == [message]
    assert ends(one.receive(EventFrame(2, {"type": "ended", "reason": "done", "text": ""}, "t1"), NOW)) == [
        Ended("done")
    ]
    one.drop_link([])
    assert frames(back(one, resumed)) == []


def test_what_is_said_into_a_turn_is_sent_again_until_it_is_accepted_or_refused() -> None:
    one, first, taken, refused = chat(), Say("1", id="m1"), Say("2", False, True, "m2"), Say("3", False, True, "m3")
    for frame in (first, taken, refused):
        one.send(frame)
    one.drop_link([])
    assert frames(back(one)) == [first, taken, refused]
    one.receive(MessageAccepted("m1", "t1"), NOW)
    one.receive(MessageAccepted("m2", "t1"), NOW)
    one.drop_link([])
    assert frames(back(one)) == [first, refused]
    assert ends(one.receive(ErrorFrame("busy", "SESSION_BUSY", "m3"), NOW)) == [Ended("error", "busy")]
    one.drop_link([])
    assert frames(back(one)) == []


def test_a_message_is_not_sent_again_to_a_gateway_that_would_say_it_twice() -> None:
    one = chat()
    one.send(Say("pay", id="m1"))
    one.drop_link([])
    one.open_link()
    came = one.receive(Connected(1, "hello", ["events"]), NOW)
    assert (frames(came), [ended.reason for ended in ends(came)]) == ([], ["error"])


def test_a_message_that_was_answered_without_being_accepted_is_not_sent_again() -> None:
    one = chat()
    one.send(Say("pay", id="m1"))
    assert ends(one.receive(EventFrame(1, {"type": "ended", "reason": "done"}), NOW)) == [Ended("done")]
    one.drop_link([])
    assert frames(back(one)) == []


def test_messages_of_a_turn_that_was_given_up_are_not_sent_when_the_link_is_back() -> None:
    one = chat()
    one.drop_link([])
    one.send(Say("pay", id="m1"))
    assert ends(one.give_up("down")) == [Ended("error", "down")]
    assert frames(back(one)) == []


def test_a_chat_that_is_silent_comes_back_in_silence() -> None:
    one = chat()
    one.drop_link([])
    assert frames(back(one)) == []
    assert one.give_up("no") == []
