"""What happens in a turn, as frames (ws.md 3.2-3.8)."""

from collections.abc import Iterable
from typing import Any, get_args

import msgspec
import pytest
from msgspec import UNSET, UnsetType, structs

from handspan.agent.turn_events import Prompted, QuestionOver, SessionEvent
from handspan.core.events import (
    CallArrived,
    CallFinished,
    CallProgress,
    CallStarted,
    Compacted,
    Ended,
    EndReason,
    Event,
    QuestionAsked,
    RequestQueued,
    RetryComing,
    RoundBegan,
    TextArrived,
    ThinkingArrived,
    Titled,
    TurnFault,
    UsageCounted,
)
from handspan.core.messages import Usage
from handspan.core.questions import Question, QuestionAction, QuestionKind
from handspan.core.results import Attachment, Failure, encode_envelope, succeed
from handspan.gateway.clients.chat_frames import ChatFrames, EventFrames, error_frame, output_of, question_frame
from handspan.models.model import ModelFault
from handspan.wire.ws import encode

QUESTION = Question("q", "approval", "c1", "write_file", {"path": "a"}, "why", "ann", "s", "f", 300.0)


def sent(frames: ChatFrames | EventFrames, *events: SessionEvent) -> list[Any]:
    """The frames of all these, as the client reads them."""
    return [msgspec.json.decode(encode(frame)) for one in events for frame in frames.frames(one)]


def types(frames: Iterable[dict[str, Any]]) -> list[str]:
    return [frame["type"] for frame in frames]


def finished(call_id: str, result: object = "ok", name: str = "note") -> CallFinished:
    failed = isinstance(result, Failure)
    envelope = encode_envelope(result if isinstance(result, Failure) else succeed(result)).decode()
    return CallFinished(call_id, name, "x" if failed else "success", 0.1, envelope)


# Turns that end badly.


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (TurnFault("model", "auth"), "AUTH_ERROR"),
        *((TurnFault("model", fault), "PROVIDER_ERROR") for fault in get_args(ModelFault) if fault != "auth"),
        (TurnFault("call", "execution_failed"), "AGENT_ERROR"),
        (TurnFault("call", "auth_required"), "AGENT_ERROR"),
        (TurnFault("inside", "ConnectionError"), "AGENT_ERROR"),
        (UNSET, "AGENT_ERROR"),
    ],
)
def test_the_code_of_a_failed_turn_follows_from_its_fault_whatever_its_words(
    fault: TurnFault | UnsetType, code: str
) -> None:
    text = "Incorrect API key provided by the model's server."
    assert sent(ChatFrames(), TextArrived("half"), Ended("error", text, fault))[1:] == [
        {"type": "error", "message": text, "code": code}
    ]


def test_an_error_is_shown_without_what_nobody_sees_and_not_at_any_length() -> None:
    frame = error_frame(Ended("error", "\u202ebad\x1b[31m" + "x" * 5000))
    assert frame.message.startswith("bad[31mxxx") and len(frame.message) == 1000 and frame.message.endswith("…")


def test_an_aborted_turn_leaves_nothing_for_the_next_one() -> None:
    frames = ChatFrames()
    broken = sent(frames, TextArrived("half"), CallStarted("c1", "note", "{}"), Ended("aborted"))
    assert types(broken) == ["chunk", "tool_call", "aborted"]
    assert sent(frames, TextArrived("whole"), Ended("done", "whole")) == [
        {"type": "chunk", "content": "whole"},
        {"type": "chunk_reset"},
        {"type": "done", "full_response": "whole"},
    ]


# Turns that end well.


def test_a_turn_with_two_rounds_is_told_in_the_order_of_the_protocol() -> None:
    events: list[SessionEvent] = [
        Prompted("{}", 7),
        RoundBegan(1),
        ThinkingArrived("hm"),
        TextArrived("Let me "),
        TextArrived("see."),
        CallArrived(0, "note", ""),
        UsageCounted("m", Usage(1, 1)),
        CallStarted("c1", "note", '{"text": "a"}'),
        CallStarted("c2", "note", ""),
        CallProgress("c1", "note", "half"),
        finished("c2", 2),
        finished("c1", "one"),
        RoundBegan(2),
        RetryComing("busy", 1.0),
        TextArrived(" Done."),
        Ended("done", " Done."),
        Titled("Notes"),
    ]
    assert sent(ChatFrames(), *events) == [
        {"type": "debug_prompt", "messages": "{}", "estimated_tokens": 7},
        {"type": "thinking", "content": "hm"},
        {"type": "chunk", "content": "Let me "},
        {"type": "chunk", "content": "see."},
        {"type": "tool_call", "id": "c1", "name": "note", "args": {"text": "a"}},
        {"type": "tool_call", "id": "c2", "name": "note", "args": {}},
        {"type": "tool_result", "id": "c1", "name": "note", "output": "one"},
        {"type": "tool_result", "id": "c2", "name": "note", "output": "2"},
        {"type": "chunk", "content": " Done."},
        {"type": "chunk_reset"},
        {"type": "done", "full_response": "Let me see. Done."},
        {"type": "title_updated", "title": "Notes"},
    ]


@pytest.mark.parametrize("reason", ["done", "limit", "errors", "length", "refusal"])
def test_every_other_end_is_done_even_without_a_word(reason: EndReason) -> None:
    assert sent(ChatFrames(), Ended(reason)) == [{"type": "chunk_reset"}, {"type": "done", "full_response": ""}]


@pytest.mark.parametrize("arguments", ["{broken", "[1]", "3", '"x"'])
def test_arguments_are_an_object_whatever_the_model_wrote(arguments: str) -> None:
    (frame,) = sent(ChatFrames(), CallStarted("c", "note", arguments))
    assert frame["args"] == {"raw": arguments}


def test_a_turn_that_waited_goes_on_as_one() -> None:
    frames = ChatFrames()
    before: list[SessionEvent] = [
        TextArrived("a"),
        CallStarted("c1", "note", "{}"),
        CallStarted("c2", "click", "{}"),
        finished("c1"),
        Ended("pending"),
    ]
    assert types(sent(frames, *before)) == ["chunk", "tool_call", "tool_call"]
    after = sent(frames, finished("c1"), finished("c2"), TextArrived("b"), Ended("done", "b"))
    assert types(after) == ["tool_result", "tool_result", "chunk", "chunk_reset", "done"]
    assert after[-1]["full_response"] == "ab"


def test_a_front_that_came_later_hears_results_of_calls_that_it_has_not_seen_begin() -> None:
    assert types(sent(ChatFrames(), finished("c1"), finished("c2"))) == ["tool_result", "tool_result"]


# Results as ClawSeed shows them.


@pytest.mark.parametrize(
    ("result", "output"),
    [
        ("plain", "plain"),
        ("", ""),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        (None, "null"),
        (True, "true"),
        (Failure("file_not_found", "File not found: a"), "Error: File not found: a"),
    ],
)
def test_the_output_of_a_call_is_a_string(result: object, output: str) -> None:
    (frame,) = sent(ChatFrames(), finished("c", result))
    assert frame["output"] == output


def test_what_comes_with_a_result_is_named() -> None:
    picture = Attachment("image", "image/png", b"12345")
    shown = output_of(encode_envelope(succeed(None, (picture,))).decode())
    assert msgspec.json.decode(shown) == {"attachments": [{"kind": "image", "media_type": "image/png", "bytes": 5}]}
    assert output_of(encode_envelope(succeed("a cat", (picture,))).decode()) == "a cat"


# Questions.


def test_questions_are_for_clients_that_can_show_them() -> None:
    events: list[SessionEvent] = [QuestionAsked(QUESTION), QuestionOver("q", "approval", "me")]
    assert sent(ChatFrames(), *events) == []
    assert types(sent(EventFrames(), *events)) == ["event"]
    asked: dict[str, Any] = {
        "type": "question",
        "id": "q",
        "kind": "approval",
        "call_id": "c1",
        "tool": "write_file",
        "arguments": {"path": "a"},
        "subject": "why",
        "expires_ms": 300_000,
    }
    assert msgspec.json.decode(encode(question_frame(QUESTION))) == asked
    closed = {"type": "question_closed", "id": "q", "accepted": True}
    assert sent(ChatFrames(questions=True, me="me"), *events) == [asked, closed]
    assert sent(EventFrames(questions=True, me="me"), *events)[1:] == [asked, closed]


@pytest.mark.parametrize("kind", ["input", "login", "trust"])
def test_kinds_that_a_client_does_not_know_are_hidden_from_it(kind: QuestionKind) -> None:
    schema, action = {"type": "string"}, QuestionAction("https://shop.example", new={})
    question = structs.replace(QUESTION, kind=kind, call_id="", schema=schema, action=action)
    events: list[SessionEvent] = [QuestionAsked(question), QuestionOver("q", kind, "me"), QuestionAsked(QUESTION)]
    assert types(sent(ChatFrames(questions=True), *events)) == ["question"]
    rendered = EventFrames(questions=True)
    assert types(sent(rendered, *events)) == ["event", "question"] and rendered.seq == 1
    assert types(sent(EventFrames(), *events)) == ["event"]
    for frames in (ChatFrames(questions=True), EventFrames(questions=True)):
        assert sent(frames, QuestionOver("q", kind, "me")) == [], "it was asked before the client came"
    shown, closed, _ = sent(ChatFrames(questions=True, all_kinds=True, me="me"), *events)
    assert (shown["kind"], shown["call_id"], shown["schema"]) == (kind, "", schema)
    assert shown["action"] == {"url": "https://shop.example", "new": {}}
    assert closed == {"type": "question_closed", "id": "q", "accepted": True}
    told = sent(EventFrames(questions=True, all_kinds=True), *events)
    assert types(told) == ["event", "question", "question_closed", "event", "question"]
    assert told[0]["event"]["question"]["schema"] == schema


@pytest.mark.parametrize(("me", "by"), [("me", "you"), ("", ""), ("me", ""), ("", "you")])
def test_only_the_one_whose_answer_counted_is_told_so(me: str, by: str) -> None:
    (frame,) = sent(ChatFrames(questions=True, me=me), QuestionOver("q", "approval", by))
    assert frame["accepted"] is False


# Events.

EVENTS: list[Event] = [
    RoundBegan(1),
    ThinkingArrived("hm"),
    TextArrived("a"),
    CallArrived(0, "note", "{}"),
    CallStarted("c1", "note", "{}"),
    CallProgress("c1", "note", {"done": 0.5}),
    finished("c1"),
    QuestionAsked(QUESTION),
    UsageCounted("m", Usage(1, None)),
    RetryComing("busy", 1.5),
    RequestQueued("m", 100),
    RequestQueued("m", 2, "It waits for money."),
    UsageCounted("m", Usage(1, 2), cost=0.5),
    Compacted(900, 400, 7, 3, "# Goal"),
    Ended("done", "a"),
]


def test_every_event_of_a_turn_is_told_with_a_number() -> None:
    frames = EventFrames(seq=5)
    told = sent(frames, *EVENTS)
    assert types(told) == ["event"] * len(EVENTS)
    assert [frame["seq"] for frame in told] == list(range(6, 6 + len(EVENTS)))
    assert frames.seq == 5 + len(EVENTS)
    assert types(frame["event"] for frame in told) == [
        "round",
        "thinking",
        "text",
        "call_arguments",
        "call_started",
        "call_progress",
        "call_finished",
        "question",
        "usage",
        "retry",
        "queued",
        "queued",
        "usage",
        "compacted",
        "ended",
    ]
    assert told[11]["event"]["reason"] == "It waits for money."
    assert "reason" not in told[10]["event"] and "cost" not in told[8]["event"] and told[12]["event"]["cost"] == 0.5
    assert told[-1]["event"] == {"type": "ended", "reason": "done", "text": "a"}
    assert told[7]["event"]["question"]["arguments"] == {"path": "a"}


def test_what_is_no_event_stays_a_frame_of_its_own() -> None:
    frames = EventFrames()
    assert types(sent(frames, Prompted("{}", 1), Titled("x"), QuestionOver("q", "approval"))) == [
        "debug_prompt",
        "title_updated",
    ]
    assert frames.seq == 0
    failed = sent(frames, Ended("error", "No key.", TurnFault("model", "auth")))
    assert types(failed) == ["event", "error"] and failed[1]["code"] == "AUTH_ERROR"
    fault = {"of": "model", "code": "auth"}
    assert failed[0]["event"] == {"type": "ended", "reason": "error", "text": "No key.", "fault": fault}
    assert types(sent(frames, Ended("aborted"), Ended("pending"))) == ["event", "event"]
