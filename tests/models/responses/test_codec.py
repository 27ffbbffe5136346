"""The Responses format: what is sent, what is read, and what has to go back unchanged."""

import base64
from typing import Any

import msgspec
import pytest

from handspan.core.messages import (
    AssistantMessage,
    CallPart,
    CallResult,
    Media,
    Message,
    Native,
    Part,
    ResultsMessage,
    Text,
    Thinking,
    Usage,
    UserMessage,
)
from handspan.core.results import Attachment
from handspan.core.tool import ToolSpec
from handspan.core.values import Json, JsonObject
from handspan.models.model import CallDelta, LoweredTool, ModelError, ModelEvent, Prompt, TextDelta, ThinkingDelta
from handspan.models.responses.codec import ResponsesCodec
from tests.models.openai import oracle as openai_oracle

NAMES = {"get_weather": "our_weather", "get_time": "our_time"}
PNG = Attachment("image", "image/png", b"png")
CALL = CallPart("our-id", "get_weather", '{"city":"Paris"}', "call_1")

REASONING: JsonObject = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "First."}, {"type": "summary_text", "text": "Then."}],
    "encrypted_content": "gAAA",
}
WORDS: JsonObject = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "phase": "commentary",
    "content": [{"type": "output_text", "text": "Looking.", "annotations": []}],
}


def function_call(number: int = 1, arguments: Json = '{"city":"Paris"}', **more: Json) -> JsonObject:
    call: JsonObject = {
        "type": "function_call",
        "id": f"fc_{number}",
        "call_id": f"call_{number}",
        "name": "get_weather",
    }
    return {**call, "arguments": arguments, "status": "completed", **more}


def response(*items: Json, status: str = "completed", **more: Json) -> JsonObject:
    return {"object": "response", "status": status, "output": [*items], **more}


def whole(*items: Json, status: str = "completed", **more: Json) -> AssistantMessage:
    return ResponsesCodec().decode(response(*items, status=status, **more), NAMES, "m")


def read(*pieces: Json) -> tuple[AssistantMessage, list[ModelEvent]]:
    decoder = ResponsesCodec().decoder(NAMES, "m")
    events: list[ModelEvent] = []
    for piece in pieces:
        events += decoder.feed("", piece if isinstance(piece, str) else msgspec.json.encode(piece).decode())
    return decoder.finish(), events


def event(kind: str, place: int = 0, **more: Json) -> JsonObject:
    return {"type": f"response.{kind}", "output_index": place, **more}


def encode_all(codec: ResponsesCodec, *messages: Message, with_before: bool = True) -> list[Any]:
    """The input items that these become, after the SDK's types have taken them."""
    items: list[bytes] = []
    before: Message | None = None
    for message in messages:
        items += codec.encode(message, before) if with_before else codec.encode(message)
        before = message
    body = codec.request(Prompt("m", "", items, [], stream=False))
    decoded: list[Any] = msgspec.json.decode(body)["input"]
    assert len(openai_oracle.responses_request(body)["input"]) == len(decoded)  # type: ignore[arg-type] # a list
    return decoded


def assistant_message(*parts: Part, native: Native | None = None) -> AssistantMessage:
    return AssistantMessage(parts, native=native)


def result(call: CallPart, *attachments: Attachment) -> CallResult:
    return CallResult(call.id, call.name, '{"status":"success","result":1}', attachments=attachments)


# What goes wrong


def test_stream_without_an_end_is_cut_and_gives_no_call() -> None:
    with pytest.raises(ModelError) as error:
        read(
            event("output_item.added", item=function_call(arguments="")),
            event("output_item.done", item=function_call()),
        )
    assert error.value.fault == "cut"


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        ('{"type":"error","code":"rate_limit_exceeded","message":"slow down"}', "overloaded"),
        ('{"type":"error","error":{"type":"server_error","message":"oh"}}', "overloaded"),
        ('{"type":"error","code":"context_length_exceeded","message":"too much"}', "too_long"),
        ('{"error":{"code":"insufficient_quota","message":"pay"}}', "quota"),
        ('{"type":"response.failed","response":{"error":{"code":"server_error","message":"oh"}}}', "overloaded"),
        ('{"type":"response.failed","response":{"error":{"code":"invalid_prompt","message":"no"}}}', "refused"),
        ('{"type":"response.failed","response":{}}', "overloaded"),
        ("{broken", "unreadable"),
    ],
)
def test_error_in_the_middle_of_a_stream_is_an_error(data: str, fault: str) -> None:
    with pytest.raises(ModelError) as error:
        read(data)
    assert error.value.fault == fault


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({"error": {"code": "rate_limit_exceeded", "message": "slow down"}}, "overloaded"),
        (response(status="failed", error={"code": "server_error", "message": "oh"}), "overloaded"),
        (response(status="cancelled"), "overloaded"),
        (response(status="queued"), "unreadable"),
        (response(status="in_progress"), "unreadable"),
        ({"choices": []}, "unreadable"),
    ],
)
def test_whole_answer_that_is_none_is_an_error(body: JsonObject, fault: str) -> None:
    with pytest.raises(ModelError) as error:
        ResponsesCodec().decode(body, NAMES, "m")
    assert error.value.fault == fault


@pytest.mark.parametrize(
    "half",
    [
        function_call(2, '{"city":"Pa', status="incomplete"),
        function_call(2, '{"city":"Pa', status="in_progress"),
        function_call(2, '{"city":"Pa'),
        function_call(2, ""),
    ],
)
def test_half_a_call_at_the_length_limit_is_none_of_the_calls_and_never_goes_back(half: JsonObject) -> None:
    cut: JsonObject = {"reason": "max_output_tokens"}
    message = whole(function_call(1), REASONING, half, status="incomplete", incomplete_details=cut)
    assert [call.wire_id for call in message.calls] == ["call_1"]
    assert message.stop == "length"
    assert message.native == Native("openai-responses", "m", [function_call(1)])


def test_reasoning_that_led_to_nothing_is_shown_but_does_not_go_back() -> None:
    message = whole(REASONING, status="incomplete", incomplete_details={"reason": "max_output_tokens"})
    assert message.parts == (Thinking("First.\n\nThen."),)
    assert message.native is None
    assert ResponsesCodec().encode(message) == []


@pytest.mark.parametrize(
    ("details", "stop"),
    [
        ({"reason": "content_filter"}, "refusal"),
        ({"reason": "max_output_tokens"}, "length"),
        ({"reason": "x"}, "other"),
        (None, "other"),
    ],
)
def test_incomplete_answer_says_why(details: Json, stop: str) -> None:
    assert whole(WORDS, status="incomplete", incomplete_details=details).stop == stop


def test_image_that_is_no_base64_is_unreadable() -> None:
    with pytest.raises(ModelError, match="image"):
        whole({"type": "image_generation_call", "result": "###"})


# Reading


def test_words_thinking_and_calls_are_read_in_order() -> None:
    usage: JsonObject = {"input_tokens": 9, "output_tokens": 5, "input_tokens_details": {"cached_tokens": 4}}
    message = whole(REASONING, WORDS, function_call(1), function_call(2, "{}", name="get_time"), usage=usage)
    assert message.parts[:2] == (Thinking("First.\n\nThen."), Text("Looking."))
    assert [(call.wire_id, call.name, call.arguments) for call in message.calls] == [
        ("call_1", "our_weather", '{"city":"Paris"}'),
        ("call_2", "our_time", "{}"),
    ]
    assert len({call.id for call in message.calls}) == 2
    assert (message.stop, message.usage) == ("calls", Usage(9, 5, 4))


def test_answer_of_nothing_has_no_parts_and_unknown_usage() -> None:
    message = whole({**WORDS, "content": [{"type": "output_text", "text": ""}]}, {**REASONING, "summary": []})
    assert (message.parts, message.stop, message.usage) == ((), "end", None)
    assert whole().parts == ()


def test_unknown_name_stays_as_it_is_and_arguments_may_be_an_object() -> None:
    (call,) = whole(function_call(1, {"a": 1}, name="make_coffee")).calls
    assert (call.name, call.arguments) == ("make_coffee", '{"a":1}')


def test_reasoning_that_a_server_shows_itself_is_thinking() -> None:
    open_reasoning: JsonObject = {
        "type": "reasoning",
        "id": "r",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "Hm"}],
    }
    assert whole(open_reasoning, WORDS).parts[0] == Thinking("Hm")


def test_refusal_is_words_and_a_reason() -> None:
    message = whole({**WORDS, "content": [{"type": "refusal", "refusal": "I can't."}]})
    assert (message.text, message.stop) == ("I can't.", "refusal")


def test_image_of_an_answer_is_media() -> None:
    item: JsonObject = {"type": "image_generation_call", "id": "ig_1", "result": base64.b64encode(b"png").decode()}
    assert whole(item).parts == (Media(PNG),)
    assert whole({**item, "output_format": "webp"}).parts == (Media(Attachment("image", "image/webp", b"png")),)
    assert whole({**item, "result": None}).parts == ()


def test_stream_tells_words_thinking_and_arguments_as_they_come() -> None:
    second = function_call(2, "{}", name="get_time")
    message, events = read(
        event("created", response={"status": "in_progress"}),
        event("output_item.added", item={"type": "reasoning"}),
        event("reasoning_summary_part.added", summary_index=0),
        event("reasoning_summary_text.delta", delta="First."),
        event("reasoning_summary_part.added", summary_index=1),
        event("reasoning_summary_text.delta", delta="Then."),
        event("output_item.done", item=REASONING),
        event("output_text.delta", 1, delta="Look"),
        event("output_text.delta", 1, delta=""),
        event("output_text.delta", 1, delta="ing."),
        event("output_item.done", 1, item=WORDS),
        event("output_item.added", 2, item=function_call(1, "")),
        event("output_item.added", 3, item={**second, "arguments": ""}),
        event("function_call_arguments.delta", 3, delta="{}"),
        *(event("function_call_arguments.delta", 2, delta=character) for character in '{"city":"Paris"}'),
        event("function_call_arguments.delta", 2, delta=""),
        event("output_item.done", 3, item=second),
        event("output_item.done", 2, item=function_call(1)),
        event("output_item.done", 4),
        event("completed", response=response(REASONING, WORDS, function_call(1), second)),
        event("output_text.delta", delta="after the end"),
        "[DONE]",
        "",
    )
    assert [one for one in events if type(one) is ThinkingDelta] == [
        ThinkingDelta("First."),
        ThinkingDelta("\n\n"),
        ThinkingDelta("Then."),
    ]
    assert [one for one in events if type(one) is TextDelta] == [TextDelta("Look"), TextDelta("ing.")]
    told = [one for one in events if type(one) is CallDelta]
    assert told[:3] == [CallDelta(0, "our_weather"), CallDelta(1, "our_time"), CallDelta(1, arguments="{}")]
    assert "".join(one.arguments for one in told if one.index == 0) == '{"city":"Paris"}'
    assert [call.wire_id for call in message.calls] == ["call_1", "call_2"]
    assert message.native == Native("openai-responses", "m", [REASONING, WORDS, function_call(1), second])


def test_event_that_names_its_kind_only_outside_is_read() -> None:
    decoder = ResponsesCodec().decoder(NAMES, "m")
    assert decoder.feed("response.output_text.delta", '{"delta":"Hi"}') == [TextDelta("Hi")]


@pytest.mark.parametrize("pieces", [[], [event("output_item.done", item=REASONING)]])
def test_items_are_taken_from_the_last_event_where_they_did_not_come_one_by_one(pieces: list[JsonObject]) -> None:
    message, _ = read(*pieces, event("completed", response=response(REASONING, WORDS)))
    assert message.parts == (Thinking("First.\n\nThen."), Text("Looking."))


def test_items_that_came_one_by_one_count_where_the_last_event_has_none() -> None:
    message, _ = read(event("output_item.done", item=WORDS), event("completed", response=response()))
    assert message.text == "Looking."


def test_character_split_between_two_pieces_is_joined() -> None:
    message, events = read(
        '{"type":"response.output_text.delta","delta":"a\\ud83c"}',
        '{"type":"response.output_text.delta","delta":"\\udf27"}',
        '{"type":"response.reasoning_text.delta","delta":"\\ud83c"}',
        '{"type":"response.reasoning_text.delta","delta":"\\udf27"}',
        event("incomplete", response=response(WORDS, status="incomplete")),
    )
    assert events == [TextDelta("a"), TextDelta("🌧"), ThinkingDelta("🌧")]
    assert message.stop == "other"


# Sending


def test_request_keeps_nothing_at_the_server_and_asks_for_its_reasoning() -> None:
    spec = ToolSpec("get_time", "Tells the time.", {"type": "object", "properties": {}})
    tools = [LoweredTool("get_time", spec, spec.parameters), LoweredTool("strict", spec, spec.parameters, strict=True)]
    codec = ResponsesCodec()
    items = codec.encode(UserMessage((Text("Hi"),)))
    body = codec.request(
        Prompt("gpt-5", "Be brief.", items, tools, stream=True, options={"reasoning": {"effort": "low"}})
    )
    request: Any = openai_oracle.responses_request(body)
    assert request == msgspec.json.decode(body)
    function = {"type": "function", "name": "get_time", "description": "Tells the time.", "parameters": spec.parameters}
    assert request == {
        "model": "gpt-5",
        "instructions": "Be brief.",
        "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}],
        "tools": [{**function, "strict": False}, {**function, "name": "strict", "strict": True}],
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "low"},
        "stream": True,
    }


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-4.1-mini", "openai/gpt-4o", "ft:gpt-4o:me", "chatgpt-4o-latest"])
def test_models_that_do_not_reason_are_not_asked_for_reasoning(model: str) -> None:
    body = msgspec.json.decode(ResponsesCodec().request(Prompt(model, "", [], [], stream=False)))
    assert body == {"model": model, "input": [], "store": False, "stream": False}


def test_option_that_is_null_is_left_out() -> None:
    options: JsonObject = {"include": None, "store": True, "stream": True, "model": "x"}
    body = msgspec.json.decode(ResponsesCodec().request(Prompt("gpt-5", "", [], [], stream=False, options=options)))
    assert body == {"model": "gpt-5", "input": [], "store": True, "stream": False}


def test_key_is_in_the_header_and_no_key_is_no_header() -> None:
    assert ResponsesCodec().headers("sk-1") == {"authorization": "Bearer sk-1"}
    assert ResponsesCodec().headers("") == {}
    assert ResponsesCodec().path("m", stream=True) == "/responses"


def test_error_answer_is_explained() -> None:
    assert ResponsesCodec().fault(401, b"{}").fault == "auth"


@pytest.mark.parametrize("with_before", [True, False])
def test_two_rounds_with_reasoning_go_back_verbatim_with_their_results(with_before: bool) -> None:
    first, second = whole(REASONING, WORDS, function_call(1)), whole({**REASONING, "id": "rs_2"}, function_call(2))
    items = encode_all(
        ResponsesCodec("m"),
        UserMessage((Text("Hi"),)),
        first,
        ResultsMessage((result(first.calls[0]),)),
        second,
        ResultsMessage((result(second.calls[0]),)),
        with_before=with_before,
    )
    assert [item.get("id") or item["type"] for item in items] == [
        *("message", "rs_1", "msg_1", "fc_1", "function_call_output"),
        *("rs_2", "fc_2", "function_call_output"),
    ]
    assert items[1:3] == [REASONING, WORDS]
    assert items[3] == {**function_call(1), "call_id": items[4]["call_id"]}
    assert items[6]["call_id"] == items[7]["call_id"] != items[3]["call_id"]
    assert (items[3]["call_id"] == "call_1") == with_before


def test_items_of_servers_own_tools_go_back_too() -> None:
    search: JsonObject = {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "x"},
    }
    assert encode_all(ResponsesCodec(), whole(search, WORDS)) == [search, WORDS]


def test_reasoning_goes_back_to_no_other_model_and_to_no_other_api() -> None:
    message = whole(REASONING, WORDS, function_call(1))
    plain = [
        {"type": "message", "role": "assistant", "content": "Looking."},
        {"type": "function_call", "call_id": "call_1", "name": "our_weather", "arguments": '{"city":"Paris"}'},
    ]
    assert encode_all(ResponsesCodec("other"), message) == plain
    foreign = msgspec.structs.replace(message, native=Native("gemini", "m", {"parts": []}))
    assert encode_all(ResponsesCodec(), foreign) == plain


def test_native_that_does_not_fit_its_parts_is_not_used() -> None:
    native = Native("openai-responses", "m", [REASONING, function_call(1), function_call(2)])
    assert [item["type"] for item in encode_all(ResponsesCodec(), assistant_message(CALL, native=native))] == [
        "function_call"
    ]


def test_parts_that_say_nothing_are_left_out() -> None:
    assert ResponsesCodec().encode(assistant_message(Thinking("Hm"), Text(""))) == []


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("wire_id", ["call_1", "functions.get_weather:0", "", "x" * 65])
def test_result_has_the_id_of_its_call_whatever_the_model_called_it(wire_id: str, native: bool) -> None:
    message = whole(function_call(1, call_id=wire_id))
    message = message if native else msgspec.structs.replace(message, native=None)
    call, output = encode_all(ResponsesCodec(), message, ResultsMessage((result(message.calls[0]),)))
    assert call["call_id"] == output["call_id"]
    assert (call["call_id"] == wire_id) == (wire_id == "call_1")
    assert 1 <= len(call["call_id"]) <= 64


def test_broken_arguments_and_invented_names_go_back_in_a_form_that_the_api_takes() -> None:
    message = whole(function_call(1, '{"a', name="a b"))
    (item,) = encode_all(ResponsesCodec(), message)
    assert msgspec.json.decode(item["arguments"]) == {"not_valid_json": '{"a'}
    assert item["name"].startswith("a_b_")


def test_three_parallel_calls_with_an_error_and_an_image_get_three_outputs_with_the_image_inside() -> None:
    calls = [CallPart(f"our-{number}", "get_weather", "", f"call_{number}") for number in range(3)]
    failed = CallResult("our-1", "get_weather", '{"status":"error"}', is_error=True)
    pdf = Attachment("file", "application/pdf", b"pdf", name="a.pdf")
    unseen = Attachment("audio", "audio/wav", b"wav")
    results = ResultsMessage((result(calls[0], unseen), failed, result(calls[2], PNG, pdf)))
    items = encode_all(ResponsesCodec(), assistant_message(*calls), results)
    assert [item["call_id"] for item in items] == ["call_0", "call_1", "call_2"] * 2
    assert items[0]["arguments"] == "{}"
    assert [items[3]["output"], items[4]["output"]] == ['{"status":"success","result":1}', '{"status":"error"}']
    assert items[5]["output"] == [
        {"type": "input_text", "text": '{"status":"success","result":1}'},
        {"type": "input_image", "image_url": "data:image/png;base64,cG5n", "detail": "auto"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,cGRm"},
    ]


def test_media_goes_in_the_form_that_the_api_has_for_it_and_else_as_a_note() -> None:
    sound = Attachment("audio", "audio/wav", b"wav")
    (item,) = encode_all(ResponsesCodec(), UserMessage((Text(""), Media(PNG), Media(sound))))
    note = "[audio, audio/wav, 3 bytes; it can't be shown here]"
    assert [part["type"] for part in item["content"]] == ["input_image", "input_text"]
    assert item["content"][1]["text"] == note
    assert encode_all(ResponsesCodec(), assistant_message(Media(sound)))[0]["content"] == note


def test_user_message_of_nothing_still_says_something() -> None:
    assert encode_all(ResponsesCodec(), UserMessage(()))[0]["content"] == "(an empty message)"


def test_lone_surrogates_do_not_stop_a_request() -> None:
    items = ResponsesCodec().encode(assistant_message(Text("a\ud83c")))
    body = ResponsesCodec().request(Prompt("m", "b\ud83c", items, [], stream=False))
    assert msgspec.json.decode(body)["instructions"] == "b\ufffd"
