"""How answers of the Anthropic Messages API are read, streamed and whole."""

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from random import Random
from typing import cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handspan.core.messages import AssistantMessage, CallPart, StopReason, Text, Thinking, Usage
from handspan.core.values import Json, JsonObject
from handspan.models.anthropic.codec import AnthropicCodec
from handspan.models.model import CallDelta, ModelError, ModelEvent, TextDelta, ThinkingDelta
from tests.models.anthropic import oracle as anthropic_oracle

CODEC = AnthropicCodec()
NAMES = {"wire_name": "our.name"}


def start(message_usage: Json = None) -> JsonObject:
    message: JsonObject = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x", "content": []}
    usage: Json = message_usage or {"input_tokens": 10, "output_tokens": 1}
    return {"type": "message_start", "message": {**message, "stop_reason": None, "stop_sequence": None, "usage": usage}}


def block_start(index: Json, kind: str, **content: Json) -> JsonObject:
    return {"type": "content_block_start", "index": index, "content_block": {"type": kind, **content}}


def delta(index: Json, kind: str, **content: Json) -> JsonObject:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **content}}


def block_stop(index: Json) -> JsonObject:
    return {"type": "content_block_stop", "index": index}


def end(reason: Json = "end_turn", **usage: Json) -> list[JsonObject]:
    counts: JsonObject = {"output_tokens": 5, **usage}
    stop: JsonObject = {"stop_reason": reason, "stop_sequence": None}
    return [{"type": "message_delta", "delta": stop, "usage": counts}, {"type": "message_stop"}]


def call_block(index: int = 0, arguments: Sequence[str] = ('{"path": "a"}',)) -> list[JsonObject]:
    begun = block_start(index, "tool_use", id=f"toolu_{index}", name="wire_name", input={})
    return [begun, *(delta(index, "input_json_delta", partial_json=piece) for piece in arguments), block_stop(index)]


def text_block(index: int, text: str) -> list[JsonObject]:
    return [block_start(index, "text", text=""), delta(index, "text_delta", text=text), block_stop(index)]


def read_events(events: Iterable[JsonObject]) -> tuple[list[ModelEvent], AssistantMessage]:
    """What is yielded on the way, and the message at the end."""
    decoder = CODEC.decoder(NAMES, "claude-x")
    yielded = [one for event in events for one in decoder.feed(str(event.get("type")), json.dumps(event))]
    return yielded, decoder.finish()


def message(events: Iterable[JsonObject]) -> AssistantMessage:
    return read_events([start(), *events])[1]


def native(answer: AssistantMessage) -> list[JsonObject]:
    assert answer.native is not None
    assert (answer.native.api, answer.native.model) == ("anthropic", "claude-x")
    return cast("list[JsonObject]", answer.native.content)


def whole(content: Json, reason: Json = "end_turn", **more: Json) -> AssistantMessage:
    return CODEC.decode({"type": "message", "content": content, "stop_reason": reason, **more}, NAMES, "claude-x")


def spoken(answer: AssistantMessage) -> list[tuple[str, str]]:
    return [(call.name, call.arguments) for call in answer.calls]


# Streams that go wrong


@pytest.mark.parametrize(
    "events",
    [
        [],
        [start()],
        [start(), *call_block()],
        [start(), *call_block()[:2]],
        [start(), *call_block(), *end("tool_use")[:1]],
        [start(), *call_block()[:2], *end("tool_use")],
    ],
)
def test_a_stream_without_its_end_is_cut_and_calls_nothing(events: list[JsonObject]) -> None:
    with pytest.raises(ModelError, match="broke off") as caught:
        read_events(events)
    assert caught.value.fault == "cut"


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        ("overloaded_error", "overloaded"),
        ("rate_limit_error", "overloaded"),
        ("api_error", "overloaded"),
        ("authentication_error", "auth"),
        ("invalid_request_error", "rejected"),
        ("of_tomorrow", "overloaded"),
    ],
)
def test_an_error_event_is_a_model_error(kind: str, fault: str) -> None:
    decoder = CODEC.decoder({}, "claude-x")
    decoder.feed("message_start", json.dumps(start()))
    with pytest.raises(ModelError, match="'Overloaded'") as caught:
        decoder.feed("error", json.dumps({"type": "error", "error": {"type": kind, "message": "Overloaded"}}))
    assert caught.value.fault == fault


@pytest.mark.parametrize(
    "data",
    [
        "{",
        "[]",
        "null",
        '{"type": NaN}',
        "[" * 100_000,
        json.dumps({"type": "content_block_start", "index": 0, "content_block": None}),
        json.dumps(delta(0, "text_delta", text="no start")),
        json.dumps(block_stop(None)),
    ],
)
def test_what_can_not_be_read_is_a_model_error(data: str) -> None:
    with pytest.raises(ModelError, match="can't be read") as caught:
        CODEC.decoder({}, "claude-x").feed("", data)
    assert caught.value.fault == "unreadable"


def test_events_that_say_nothing_are_ignored() -> None:
    decoder = CODEC.decoder({}, "claude-x")
    for name, data in [("ping", '{"type": "ping"}'), ("", ""), ("", " [DONE] "), ("of_tomorrow", '{"type": "new"}')]:
        assert decoder.feed(name, data) == ()
    for event in end():
        assert decoder.feed("", json.dumps(event)) == ()
    assert decoder.feed("after", "not even JSON") == ()
    assert decoder.finish().parts == ()


def test_the_name_of_an_event_counts_where_its_data_has_no_type() -> None:
    decoder = CODEC.decoder({}, "claude-x")
    with pytest.raises(ModelError, match="'Busy'"):
        decoder.feed("error", '{"error": {"message": "Busy"}}')


# Calls


def test_a_call_is_put_together_from_single_bytes_of_its_arguments() -> None:
    arguments = '{"path": "ä😀\\u00e4", "n": 1.50}'
    yielded, answer = read_events([start(), *call_block(0, arguments), *end("tool_use")])
    assert spoken(answer) == [("our.name", arguments)]
    assert native(answer) == [
        {"type": "tool_use", "id": "toolu_0", "name": "wire_name", "input": {"path": "ä😀ä", "n": 1.5}}
    ]
    assert yielded[0] == CallDelta(0, name="our.name")
    assert "".join(one.arguments for one in yielded if isinstance(one, CallDelta)) == arguments
    assert answer.stop == "calls"


def test_each_call_has_an_id_of_ours_and_keeps_that_of_the_wire() -> None:
    calls = message([*call_block(0), *call_block(1), *end("tool_use")]).calls
    assert [call.wire_id for call in calls] == ["toolu_0", "toolu_1"]
    assert len({call.id for call in calls} | {"toolu_0", "toolu_1"}) == 4


@pytest.mark.parametrize("pieces", [[], [""], [" "]])
def test_no_arguments_are_an_empty_object(pieces: list[str]) -> None:
    answer = message([*call_block(0, pieces), *end("tool_use")])
    assert spoken(answer) == [("our.name", "{}")]
    assert native(answer)[0]["input"] == {}


def test_broken_arguments_stay_as_they_came_and_go_back_in_an_object() -> None:
    answer = message([*call_block(0, ['{"path": ']), *end("tool_use")])
    assert spoken(answer) == [("our.name", '{"path": ')]
    assert native(answer)[0]["input"] == {"INVALID_JSON": '{"path": '}


@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded"])
def test_a_call_that_was_cut_off_is_not_among_the_calls_but_those_before_it_are(reason: str) -> None:
    answer = message([*call_block(0), *call_block(1, ['{"path": "/et']), *end(reason)])
    assert [call.wire_id for call in answer.calls] == ["toolu_0"]
    assert answer.stop == "length"
    same = whole([*native(answer)], reason)
    assert [call.wire_id for call in same.calls] == ["toolu_0"]


def test_a_call_before_words_that_were_cut_off_is_among_the_calls() -> None:
    assert len(message([*call_block(0), *text_block(1, "and th"), *end("max_tokens")]).calls) == 1


def test_nothing_of_a_refused_answer_is_called() -> None:
    answer = message([*text_block(0, "Well"), *call_block(1), *end("refusal")])
    assert (answer.calls, answer.stop, answer.text) == ((), "refusal", "Well")


@pytest.mark.outside
def test_interleaved_blocks_are_kept_apart_by_their_index() -> None:
    first, second, words = call_block(0, ['{"a"', ":1}"]), call_block(1, ['{"b"', ":2}"]), text_block(2, "Hi")
    mixed = [event for trio in zip(first, second, [*words, words[1]], strict=True) for event in trio]
    events = [start(), *mixed[:-1], *end("tool_use")]
    _, answer = read_events(events)
    assert spoken(answer) == [("our.name", '{"a":1}'), ("our.name", '{"b":2}')]
    assert native(answer) == anthropic_oracle.content_by_sdk(events)


def test_a_server_that_gives_every_block_the_same_index_or_none_is_understood() -> None:
    one = [{**event, "index": 0} for event in [*text_block(0, "Hi"), *call_block(1)]]
    none = [{**event, "index": None} for event in [*text_block(0, "Hi"), *call_block(1)]]
    for events in (one, none):
        answer = message([*events, *end("tool_use")])
        assert (answer.text, spoken(answer)) == ("Hi", [("our.name", '{"path": "a"}')])


@pytest.mark.parametrize("arguments", [{"path": "a"}, '{"path":"a"}'])
def test_arguments_that_come_whole_with_the_start_are_taken_and_shown(arguments: Json) -> None:
    begun = block_start(0, "tool_use", id="x", name="unknown", input=arguments)
    yielded, answer = read_events([start(), begun, block_stop(0), block_stop(0), *end("tool_use")])
    assert yielded == [CallDelta(0, name="unknown"), CallDelta(0, arguments='{"path":"a"}')]
    assert spoken(answer) == [("unknown", '{"path":"a"}')]
    assert native(answer)[0]["input"] == {"path": "a"}


def test_null_fields_are_taken_as_missing() -> None:
    events: list[JsonObject] = [
        block_start(0, "tool_use", id=None, name=None, input=None),
        delta(0, "input_json_delta", partial_json=None),
        {"type": "content_block_delta", "index": 0, "delta": None},
        block_stop(0),
        block_start(1, "text", text=None, citations=None),
        delta(1, "text_delta", text=None),
        block_stop(1),
        {"type": "message_delta", "delta": None, "usage": None},
        *end("tool_use", input_tokens=None),
    ]
    answer = message(events)
    assert [(call.name, call.arguments, call.wire_id) for call in answer.calls] == [("", "{}", "")]
    assert native(answer)[1] == {"type": "text", "text": "", "citations": None}
    assert answer.usage == Usage(input=10, output=5)


@given(st.text(), st.dictionaries(st.text(), st.text() | st.integers() | st.none()), st.randoms(use_true_random=False))
def test_it_does_not_matter_where_a_stream_is_split(text: str, arguments: JsonObject, random: Random) -> None:
    spelled = json.dumps(arguments, ensure_ascii=random.random() < 0.5)
    events = [
        block_start(0, "text", text=""),
        *(delta(0, "text_delta", text=piece) for piece in pieces(text, random)),
        block_stop(0),
        *call_block(1, pieces(spelled, random)),
        *end("tool_use"),
    ]
    answer = message(events)
    assert (answer.text, spoken(answer)) == (text, [("our.name", spelled)])
    assert native(answer)[1]["input"] == arguments


def pieces(text: str, random: Random) -> list[str]:
    """The text cut at any places, also between the halves of one character."""
    halves = text.encode("utf-16-le")
    places = sorted(2 * random.randint(0, len(halves) // 2) for _ in range(4))
    cuts = [0, *places, len(halves)]
    return [halves[a:b].decode("utf-16-le", "surrogatepass") for a, b in pairwise(cuts)]


# Words


@pytest.mark.outside
def test_words_and_thinking_arrive_as_they_come() -> None:
    events = [
        start(),
        block_start(0, "thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="Let me"),
        delta(0, "thinking_delta", thinking=" see."),
        delta(0, "signature_delta", signature="c2ln"),
        block_stop(0),
        block_start(1, "redacted_thinking", data="eHl6"),
        block_stop(1),
        block_start(2, "text", text="Hel"),
        delta(2, "text_delta", text="lo"),
        block_stop(2),
        *end(),
    ]
    yielded, answer = read_events(events)
    assert yielded == [ThinkingDelta("Let me"), ThinkingDelta(" see."), TextDelta("Hel"), TextDelta("lo")]
    assert answer.parts == (Thinking("Let me see."), Text("Hello"))
    assert native(answer) == anthropic_oracle.content_by_sdk(events)
    assert native(answer)[0] == {"type": "thinking", "thinking": "Let me see.", "signature": "c2ln"}


def test_thinking_that_begins_with_words_is_shown_from_the_start() -> None:
    yielded, answer = read_events(
        [start(), block_start(0, "thinking", thinking="Hm", signature="c2ln"), block_stop(0), *end()]
    )
    assert yielded == [ThinkingDelta("Hm")]
    assert answer.parts == (Thinking("Hm"),)


def test_a_character_whose_halves_come_in_two_events_is_put_together() -> None:
    events = [
        block_start(0, "text", text=""),
        delta(0, "text_delta", text="a\ud83d"),
        delta(0, "text_delta", text="\ude00b\ud83d"),
        block_stop(0),
        *call_block(1, ['{"path": "\ud83d', '\ude00"}']),
        *end("tool_use"),
    ]
    yielded, answer = read_events([start(), *events])
    assert [one.text for one in yielded if isinstance(one, TextDelta)] == ["a", "😀b"]
    assert answer.text == "a😀b\ufffd"
    assert spoken(answer) == [("our.name", '{"path": "😀"}')]
    msgspec.json.encode(answer)


def test_half_a_character_in_an_answer_that_came_whole_is_replaced() -> None:
    answer = whole(
        [{"type": "text", "text": "a\ud83d"}, {"type": "tool_use", "id": "\udc00", "name": "f", "input": {}}]
    )
    assert (answer.text, answer.calls[0].wire_id) == ("a\ufffd", "\ufffd")
    msgspec.json.encode(answer)


def test_a_block_of_words_that_is_not_closed_is_taken_when_the_message_is_complete() -> None:
    assert message([*text_block(0, "Hi")[:-1], *end()]).text == "Hi"


@pytest.mark.outside
def test_citations_and_blocks_of_server_tools_are_kept_for_the_way_back_and_otherwise_ignored() -> None:
    cited: JsonObject = {
        "type": "web_search_result_location",
        "cited_text": "x",
        "url": "https://a.example",
        "title": "A",
    }
    cited["encrypted_index"] = "i"
    found: JsonObject = {"type": "web_search_result", "url": "https://a.example", "title": "A", "page_age": None}
    found["encrypted_content"] = "e"
    events = [
        start(),
        block_start(0, "server_tool_use", id="srvtoolu_1", name="web_search", input={}),
        delta(0, "input_json_delta", partial_json='{"query": "x"}'),
        block_stop(0),
        block_start(1, "web_search_tool_result", tool_use_id="srvtoolu_1", content=[found]),
        block_stop(1),
        block_start(2, "text", text="", citations=[]),
        delta(2, "citations_delta", citation=cited),
        delta(2, "citations_delta", citation=cited),
        delta(2, "text_delta", text="Found."),
        block_stop(2),
        *end(),
    ]
    yielded, answer = read_events(events)
    assert yielded == [TextDelta("Found.")]
    assert answer.parts == (Text("Found."),)
    assert native(answer) == anthropic_oracle.content_by_sdk(events)
    assert native(answer)[0]["input"] == {"query": "x"}
    assert native(answer)[2]["citations"] == [cited, cited]


def test_a_citation_without_a_list_begins_one() -> None:
    events = [
        block_start(0, "text", text="a"),
        delta(0, "citations_delta", citation={"type": "x"}),
        block_stop(0),
        *end(),
    ]
    assert native(message(events)) == [{"type": "text", "text": "a", "citations": [{"type": "x"}]}]


def test_blocks_and_deltas_of_unknown_kinds_are_kept() -> None:
    events = [
        block_start(0, "of_tomorrow", content=None, more=1),
        delta(0, "tomorrow_delta", content="a"),
        delta(0, "tomorrow_delta", content="b", more=2),
        block_stop(0),
        *end(),
    ]
    answer = message(events)
    assert native(answer) == [{"type": "of_tomorrow", "content": "ab", "more": 2}]
    assert answer.parts == ()


# How it ends


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("end_turn", "end"),
        ("stop_sequence", "end"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "refusal"),
        ("pause_turn", "other"),
        ("of_tomorrow", "other"),
        (None, "other"),
        ("tool_use", "end"),
    ],
)
def test_every_reason_to_stop_is_known(reason: Json, stop: StopReason) -> None:
    assert message([*text_block(0, "Hi"), *end(reason)]).stop == stop
    assert whole([{"type": "text", "text": "Hi"}], reason).stop == stop


@pytest.mark.parametrize("reason", ["tool_use", "end_turn", None])
def test_calls_count_whatever_the_reason_says(reason: Json) -> None:
    answer = message([*call_block(), *end(reason)])
    assert (answer.stop, len(answer.calls)) == ("calls", 1)


def test_usage_counts_what_came_from_the_cache_as_input() -> None:
    counts: JsonObject = {"input_tokens": 10, "cache_creation_input_tokens": 100, "cache_read_input_tokens": 1000}
    answer = message([start(counts), *end(output_tokens_details={"thinking_tokens": 3})])
    assert answer.usage == Usage(input=1110, output=5, cached=1000, reasoning=3, cache_written=100)


def test_later_counts_replace_earlier_ones() -> None:
    assert message(end(input_tokens=50)).usage == Usage(input=50, output=5)


def test_unknown_usage_stays_unknown() -> None:
    assert whole([]).usage is None
    assert whole([], usage={"input_tokens": True, "output_tokens": "7"}).usage is None
    assert whole([], usage={"cache_read_input_tokens": 5, "output_tokens": -1}).usage == Usage(cached=5)
    assert message([{"type": "message_delta", "delta": {}}, {"type": "message_stop"}]).usage == Usage(input=10)


# Whole answers


def test_a_whole_answer_is_read_as_a_streamed_one() -> None:
    content: list[Json] = [
        {"type": "thinking", "thinking": "Hm", "signature": "c2ln"},
        {"type": "text", "text": "I read."},
        {
            "type": "tool_use",
            "id": "toolu_2",
            "name": "wire_name",
            "input": {"path": "a"},
            "caller": {"type": "direct"},
        },
    ]
    answer = whole(content, "tool_use", usage={"input_tokens": 1, "output_tokens": 2})
    assert answer.parts[:2] == (Thinking("Hm"), Text("I read."))
    assert [(call.name, call.arguments, call.wire_id) for call in answer.calls] == [
        ("our.name", '{"path":"a"}', "toolu_2")
    ]
    assert native(answer) == content
    assert (answer.stop, answer.model, answer.usage) == ("calls", "claude-x", Usage(1, 2))
    assert isinstance(answer.parts[2], CallPart)


@pytest.mark.parametrize("content", [None, [], ""])
def test_an_answer_may_be_empty(content: Json) -> None:
    assert whole(content).parts == ()


def test_content_that_is_a_text_is_taken_as_one() -> None:
    assert whole("Hi").text == "Hi"


@pytest.mark.parametrize("body", [{}, {"content": {"type": "text"}}, {"content": ["text"]}, {"content": 5}])
def test_a_whole_answer_that_makes_no_sense_is_a_model_error(body: JsonObject) -> None:
    with pytest.raises(ModelError, match="can't be read") as caught:
        CODEC.decode(body, {}, "claude-x")
    assert caught.value.fault == "unreadable"


@pytest.mark.parametrize("body", [{"type": "error", "error": {"message": "Busy"}}, {"error": "Busy"}])
def test_an_error_in_place_of_a_whole_answer_is_a_model_error(body: JsonObject) -> None:
    with pytest.raises(ModelError, match="'Busy'"):
        CODEC.decode(body, {}, "claude-x")
