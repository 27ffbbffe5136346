"""The chat format: what is sent, what is read, and what its many servers do otherwise."""

import base64
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from handspan.core.artifacts import ArtifactRef
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
from handspan.models.chat.codec import ChatCodec
from handspan.models.chat.servers import ANY_SERVER, DEEPSEEK, MISTRAL, OPENAI, ChatServer, server_at
from handspan.models.model import CallDelta, LoweredTool, ModelError, ModelEvent, Prompt, TextDelta, ThinkingDelta
from tests.models.openai import oracle as openai_oracle

NAMES = {"get_weather": "our_weather", "get_time": "our_time"}
PNG = Attachment("image", "image/png", b"png")


def read(
    *pieces: Json, server: ChatServer = ANY_SERVER, done: bool = True
) -> tuple[AssistantMessage, list[ModelEvent]]:
    """The answer that these chunks make, and what was told on the way."""
    decoder = ChatCodec(server).decoder(NAMES, "m")
    events: list[ModelEvent] = []
    for piece in pieces:
        events += decoder.feed("", piece if isinstance(piece, str) else msgspec.json.encode(piece).decode())
    events += decoder.feed("", "[DONE]") if done else []
    return decoder.finish(), events


def chunk(delta: Json = None, finish: str | None = None, **more: Json) -> JsonObject:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


def calling(*entries: Json) -> JsonObject:
    return chunk({"tool_calls": [*entries]})


def piece(arguments: Json = "", name: str | None = None, **more: Json) -> JsonObject:
    return {"function": {"name": name, "arguments": arguments}, **more}


def calls_of(message: AssistantMessage) -> list[tuple[str, str, str]]:
    return [(call.wire_id, call.name, call.arguments) for call in message.calls]


def whole(message: JsonObject, finish: str | None = "stop") -> AssistantMessage:
    return ChatCodec().decode({"choices": [{"message": message, "finish_reason": finish}]}, NAMES, "m")


def text_told(events: Sequence[ModelEvent]) -> str:
    return "".join(event.text for event in events if type(event) is TextDelta)


def encode_all(codec: ChatCodec, *messages: Message, with_before: bool = True) -> list[Any]:
    """The chat messages that these become, after the SDK's types have taken them."""
    items: list[bytes] = []
    before: Message | None = None
    for message in messages:
        items += codec.encode(message, before) if with_before else codec.encode(message)
        before = message
    body = codec.request(Prompt("m", "", items, [], stream=False))
    read_by_sdk: Any = openai_oracle.chat_request(body)["messages"]
    decoded: list[Any] = msgspec.json.decode(body)["messages"]
    assert [item["role"] for item in read_by_sdk] == [item["role"] for item in decoded]
    return decoded


def assistant_message(*parts: Part, native: Native | None = None) -> AssistantMessage:
    return AssistantMessage(parts, native=native)


def result(call: CallPart, *attachments: Attachment) -> CallResult:
    return CallResult(call.id, call.name, '{"status":"success","result":1}', attachments=attachments)


CALL = CallPart("our-id", "get_weather", '{"city":"Paris"}', "call_1")


# What goes wrong


def test_stream_without_an_end_is_cut_and_gives_no_call() -> None:
    with pytest.raises(ModelError) as error:
        read(calling(piece('{"city":"Pa', "get_weather", index=0, id="c1")), done=False)
    assert error.value.fault == "cut"


def test_stream_without_anything_is_cut() -> None:
    with pytest.raises(ModelError, match="broke off"):
        read()
    with pytest.raises(ModelError, match="broke off"):
        read(done=False)


def test_half_a_call_at_the_length_limit_is_none_of_the_calls() -> None:
    message, _ = read(
        calling(piece('{"city":"Paris"}', "get_weather", index=0, id="c1")),
        calling(piece('{"zone":"Eur', "get_time", index=1, id="c2")),
        chunk({}, "length"),
    )
    assert calls_of(message) == [("c1", "our_weather", '{"city":"Paris"}')]
    assert message.stop == "length"


@pytest.mark.parametrize("reason", ["length", "model_length", "max_tokens", "content_filter"])
def test_call_without_any_arguments_is_not_run_when_the_answer_was_cut(reason: str) -> None:
    message, _ = read(calling(piece("", "get_time", index=0, id="c1")), chunk({}, reason))
    assert message.calls == ()
    assert message.stop == ("refusal" if reason == "content_filter" else "length")
    assert message.native is None


def test_call_with_broken_arguments_is_kept_so_that_the_engine_can_say_what_is_wrong() -> None:
    message, _ = read(calling(piece('{"city":', "get_weather", index=0)), chunk({}, "tool_calls"))
    assert [call.arguments for call in message.calls] == ['{"city":']


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        ('{"error":{"message":"slow down","code":"rate_limit_exceeded"}}', "overloaded"),
        ('{"error":"it broke"}', "rejected"),
        ('{"object":"error","message":"no","code":400}', "rejected"),
        ('{"choices":[{"error":{"code":502,"message":"upstream"},"delta":{}}]}', "overloaded"),
        ("{not json", "unreadable"),
        ('"text"', "unreadable"),
    ],
)
def test_error_in_the_middle_of_a_stream_is_an_error(data: str, fault: str) -> None:
    decoder = ChatCodec().decoder(NAMES, "m")
    decoder.feed("", msgspec.json.encode(chunk({"content": "Well"})).decode())
    with pytest.raises(ModelError) as error:
        decoder.feed("", data)
    assert error.value.fault == fault


def test_event_named_error_is_an_error_whatever_it_holds() -> None:
    with pytest.raises(ModelError, match="went wrong"):
        ChatCodec().decoder(NAMES, "m").feed("error", '{"message":"went wrong"}')


@pytest.mark.parametrize("reason", ["error", "insufficient_system_resource"])
def test_answer_that_its_server_broke_off_is_an_error(reason: str) -> None:
    with pytest.raises(ModelError) as error:
        read(chunk({"content": "Hel"}), chunk({}, reason))
    assert error.value.fault == "overloaded"


@pytest.mark.parametrize("body", [{}, {"choices": []}, {"choices": "x"}, {"id": 1}])
def test_whole_answer_without_choices_is_unreadable(body: JsonObject) -> None:
    with pytest.raises(ModelError, match="'choices'"):
        ChatCodec().decode(body, NAMES, "m")


def test_whole_answer_that_is_an_error_in_spite_of_its_status_is_an_error() -> None:
    with pytest.raises(ModelError, match="not today") as error:
        ChatCodec().decode({"error": {"code": 429, "message": "not today"}}, NAMES, "m")
    assert error.value.status == 429


def test_image_that_is_no_base64_is_unreadable() -> None:
    with pytest.raises(ModelError, match="image"):
        whole({"images": [{"image_url": {"url": "data:image/png;base64,###"}}]})


# Reading


def test_words_arrive_piece_by_piece_and_null_content_is_nothing() -> None:
    message, events = read(
        chunk({"role": "assistant", "content": None}),
        chunk({"content": ""}),
        chunk({"content": "Hel"}),
        chunk(None),
        chunk({"content": "lo"}),
        chunk({}, "stop"),
        {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}},
    )
    assert message == AssistantMessage((Text("Hello"),), "end", "m", Usage(3, 2))
    assert events == [TextDelta("Hel"), TextDelta("lo")]


def test_answer_of_nothing_has_no_parts() -> None:
    assert whole({"content": None, "tool_calls": None}).parts == ()
    assert whole({"content": [{"type": "text", "text": ""}], "tool_calls": []}).parts == ()


def test_arguments_that_come_byte_by_byte_are_joined() -> None:
    text = '{"city":"Zürich 🌧"}'
    message, events = read(
        calling(piece("", "get_weather", index=0, id="c1", type="function")),
        *(calling(piece(character, index=0)) for character in text),
        chunk({}, "tool_calls"),
    )
    assert calls_of(message) == [("c1", "our_weather", text)]
    assert events[0] == CallDelta(0, "our_weather")
    assert "".join(event.arguments for event in events if type(event) is CallDelta) == text
    assert message.stop == "calls"


def test_parallel_calls_are_told_apart_by_their_index_even_when_interleaved() -> None:
    message, events = read(
        calling(piece("{", "get_weather", index=0, id="a"), piece("{", "get_time", index=1, id="b")),
        calling(piece('"zone":1', index=1)),
        calling(piece('"city":2', index=0)),
        calling(piece("}", index=1), piece("}", index=0)),
        chunk({}, "tool_calls"),
    )
    assert calls_of(message) == [("a", "our_weather", '{"city":2}'), ("b", "our_time", '{"zone":1}')]
    assert [event.index for event in events if type(event) is CallDelta] == [0, 1, 1, 0, 1, 0]


def test_every_call_gets_an_id_of_our_own() -> None:
    entries = [piece("{}", "get_time", index=number) for number in range(3)]
    message, _ = read(calling(*entries), chunk({}, "tool_calls"))
    assert len({call.id for call in message.calls}) == 3
    assert [call.wire_id for call in message.calls] == ["", "", ""]


def test_id_that_two_calls_share_is_kept_by_the_first_only() -> None:
    message = whole({"tool_calls": [piece("{}", "get_time", id="x"), piece("{}", "get_weather", id="x", index=1)]})
    assert [call.wire_id for call in message.calls] == ["x", ""]


def test_unknown_name_stays_as_it_is() -> None:
    assert whole({"tool_calls": [piece("{}", "make_coffee", id="x")]}).calls[0].name == "make_coffee"


@pytest.mark.parametrize(
    "pieces",
    [
        # no index: an id or a name begins a call, anything else goes on with the last one
        [piece('{"a":', "get_time", id="1"), piece("1}"), piece("{}", "get_weather", id="2")],
        # no index and no id
        [piece('{"a":1}', "get_time"), piece("{}", "get_weather")],
        # no index, the id in every piece
        [piece('{"a":', "get_time", id="1"), piece("1}", id="1"), piece("{}", "get_weather", id="2")],
        # every call has the same index, with ids and without
        [piece('{"a":1}', "get_time", id="1", index=0), piece("{}", "get_weather", id="2", index=0)],
        [piece('{"a":1}', "get_time", index=0), piece("{}", "get_weather", index=0)],
        # a new id with every piece, but a name only with the first
        [
            piece('{"a":', "get_time", id="1", index=0),
            piece("1}", id="9", index=0),
            piece("{}", "get_weather", id="2", index=1),
        ],
        # arguments already an object
        [piece({"a": 1}, "get_time", index=0), piece({}, "get_weather", index=1)],
        # the name in every piece, empty ids
        [
            piece('{"a":', "get_time", index=0, id=""),
            piece("1}", "get_time", index=0, id=""),
            piece("{}", "get_weather", index=1),
        ],
        # the name in pieces
        [
            piece("", "get_", index=0),
            piece("", "time", index=0),
            piece('{"a":1}', index=0),
            piece("{}", "get_weather", index=1),
        ],
        # the whole call repeated at the end
        [
            piece('{"a":1}', "get_time", index=0, id="1"),
            piece("{}", "get_weather", index=1),
            piece('{"a":1}', "get_time", index=0, id="1"),
        ],
        # an entry of nothing
        [piece('{"a":1}', "get_time", index=0), piece(None, index=7), piece("{}", "get_weather", index=1)],
    ],
)
def test_calls_are_read_whatever_the_server_leaves_out(pieces: list[Json]) -> None:
    message, _ = read(*(calling(entry) for entry in pieces), chunk({}, "stop"))
    read_calls = [(call.name, msgspec.json.decode(call.arguments or "{}")) for call in message.calls]
    assert read_calls == [("our_time", {"a": 1}), ("our_weather", {})]
    assert message.stop == "calls"


def test_finish_reason_tool_calls_without_calls_is_an_ordinary_end() -> None:
    assert read(chunk({"content": "Done."}), chunk({}, "tool_calls"))[0].stop == "end"


def test_call_in_the_old_form_is_read() -> None:
    message, _ = read(
        chunk({"function_call": {"name": "get_time", "arguments": ""}}),
        chunk({"function_call": {"arguments": "{}"}}, "function_call"),
    )
    assert calls_of(message) == [("", "our_time", "{}")]


@pytest.mark.parametrize(("reason", "stop"), [(None, "end"), ("eos", "end"), ("whatever", "other"), ("", "end")])
def test_reason_to_stop_of_a_whole_answer_may_be_anything(reason: str | None, stop: str) -> None:
    assert whole({"content": "Hi"}, reason).stop == stop


def test_end_mark_alone_is_an_end_too() -> None:
    assert read(chunk({"content": "Hi"}))[0].text == "Hi"


def test_finish_reason_alone_is_an_end_too() -> None:
    assert read(chunk({"content": "Hi"}), chunk({}, "stop"), done=False)[0].text == "Hi"


def test_nothing_counts_after_the_end_mark() -> None:
    decoder = ChatCodec().decoder(NAMES, "m")
    decoder.feed("", msgspec.json.encode(chunk({"content": "Hi"}, "stop")).decode())
    decoder.feed("", " [DONE] ")
    assert decoder.feed("", msgspec.json.encode(chunk({"content": "!"})).decode()) == []
    assert decoder.feed("", "") == []
    assert decoder.finish().text == "Hi"


def test_only_the_first_choice_counts() -> None:
    second: JsonObject = {"choices": [{"index": 1, "delta": {"content": "B"}}]}
    assert read(second, chunk({"content": "A"}), second, chunk({}, "stop"))[0].text == "A"


def test_refusal_is_words_and_a_reason() -> None:
    message, events = read(chunk({"refusal": "I can't "}), chunk({"refusal": "do that."}), chunk({}, "stop"))
    assert (message.text, message.stop) == ("I can't do that.", "refusal")
    assert text_told(events) == "I can't do that."


def test_character_split_between_two_pieces_is_joined() -> None:
    message, events = read(
        '{"choices":[{"delta":{"content":"a\\ud83c"}}]}',
        '{"choices":[{"delta":{"content":"\\udf27b","reasoning":"\\ud83c"}}]}',
        '{"choices":[{"delta":{"reasoning":"\\udf27"}}]}',
        chunk({}, "stop"),
    )
    assert message.text == text_told(events) == "a🌧b"
    assert ThinkingDelta("🌧") in events


def test_half_a_character_that_stays_alone_is_replaced() -> None:
    message, _ = read(
        '{"choices":[{"delta":{"content":"a\\ud83c"}}]}',
        calling(piece('{"a":"', "get_time", index=0)),
        '{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\\udf27\\"}"}}]}}]}',
        chunk({}, "stop"),
    )
    assert message.text == "a\ufffd"
    assert message.calls[0].arguments == '{"a":"\ufffd"}'


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 5,
                "prompt_tokens_details": {"cached_tokens": 4},
                "completion_tokens_details": {"reasoning_tokens": 3},
            },
            Usage(9, 5, 4, 3),
        ),
        ({"prompt_tokens": 9, "completion_tokens": 5, "prompt_cache_hit_tokens": 2}, Usage(9, 5, 2)),
        ({"prompt_tokens": 9, "completion_tokens": 5, "num_cached_tokens": 0}, Usage(9, 5, 0)),
        ({"prompt_tokens": 9}, Usage(9)),
        (None, None),
    ],
)
def test_unknown_counts_of_tokens_stay_unknown(usage: Json, counted: Usage | None) -> None:
    assert read(chunk({"content": "Hi"}, "stop", usage=usage))[0].usage == counted


def test_tokens_that_groq_counts_elsewhere_are_found() -> None:
    usage: JsonObject = {"usage": {"prompt_tokens": 1, "completion_tokens": 2}}
    assert read(chunk({"content": "Hi"}, "stop", x_groq=usage))[0].usage == Usage(1, 2)


def test_images_of_an_answer_are_media() -> None:
    url = f"data:image/png;base64,{base64.b64encode(b'png').decode()}"
    message = whole(
        {"content": "Here", "images": [{"image_url": {"url": url}}, {"image_url": {"url": "https://x/y.png"}}]}
    )
    assert message.parts == (Text("Here"), Media(PNG))
    assert whole({"content": [{"type": "image_url", "image_url": {"url": url}}]}).parts == (Media(PNG),)


# Reasoning


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_thinking_and_goes_back_with_the_calls_it_led_to(field: str) -> None:
    message, events = read(
        chunk({field: "", "content": None}),
        chunk({field: "Let me "}),
        chunk({field: "see.", "content": None}),
        chunk({"content": "Looking."}),
        calling(piece('{"city":"Paris"}', "get_weather", index=0, id="c1")),
        chunk({}, "tool_calls"),
    )
    assert message.parts[:2] == (Thinking("Let me see."), Text("Looking."))
    assert [event for event in events if type(event) is ThinkingDelta] == [
        ThinkingDelta("Let me "),
        ThinkingDelta("see."),
    ]
    (back,) = encode_all(ChatCodec(), message)[:1]
    assert back == {
        "role": "assistant",
        "content": "Looking.",
        field: "Let me see.",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"Paris"}'}}
        ],
    }


def test_reasoning_that_is_said_in_two_fields_is_shown_once() -> None:
    message, events = read(chunk({"reasoning": "Hm", "reasoning_content": "Hm"}), chunk({"content": "A"}, "stop"))
    assert message.parts == (Thinking("Hm"), Text("A"))
    assert events[0] == ThinkingDelta("Hm")


def test_reasoning_does_not_go_back_where_nothing_was_called() -> None:
    message = whole({"content": "Hi", "reasoning_content": "Hm"})
    assert message.native is None
    assert encode_all(ChatCodec(), message) == [{"role": "assistant", "content": "Hi"}]


def test_reasoning_goes_back_to_no_other_model_and_to_no_other_api() -> None:
    message = whole({"content": "Hi", "reasoning_content": "Hm", "tool_calls": [piece("{}", "get_time", id="c")]})
    assert "reasoning_content" in encode_all(ChatCodec(model="m"), message)[0]
    assert "reasoning_content" not in encode_all(ChatCodec(model="other"), message)[0]
    foreign = assistant_message(
        Thinking("Hm"), Text("Hi"), CALL, native=Native("anthropic", "claude", [{"type": "thinking"}])
    )
    assert encode_all(ChatCodec(), foreign)[0]["content"] == "Hi"
    assert "Hm" not in str(encode_all(ChatCodec(), foreign))


def test_native_that_does_not_fit_its_parts_is_not_used() -> None:
    native = Native("openai-chat", "m", {"role": "assistant", "reasoning": "Hm", "tool_calls": []})
    assert encode_all(ChatCodec(), assistant_message(Text("Hi"), CALL, native=native))[0]["content"] == "Hi"


def test_deepseek_gets_its_field_even_where_nobody_thought() -> None:
    assert encode_all(ChatCodec(DEEPSEEK), assistant_message(CALL))[0]["reasoning_content"] == ""
    assert "reasoning_content" not in encode_all(ChatCodec(DEEPSEEK), assistant_message(Text("Hi")))[0]
    assert "reasoning_content" not in encode_all(ChatCodec(), assistant_message(CALL))[0]


def test_thinking_blocks_of_mistral_are_thinking_and_go_back_as_blocks() -> None:
    message, events = read(
        chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Let "}]}]}),
        chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "me"}]}]}),
        chunk({"content": [{"type": "thinking", "thinking": " see"}]}),
        chunk({"content": [{"type": "text", "text": "Now"}]}),
        calling(piece("{}", "get_time", index=0, id="abcdefghi")),
        chunk({}, "tool_calls"),
        server=MISTRAL,
    )
    assert message.parts[:2] == (Thinking("Let me see"), Text("Now"))
    assert events[:3] == [ThinkingDelta("Let "), ThinkingDelta("me"), ThinkingDelta(" see")]
    (item,) = ChatCodec(MISTRAL).encode(message, None)
    assert msgspec.json.decode(item)["content"] == [
        {"type": "thinking", "thinking": [{"type": "text", "text": "Let me see"}]},
        {"type": "text", "text": "Now"},
    ]


def test_reasoning_details_of_openrouter_go_back_as_they_came() -> None:
    detail: JsonObject = {"type": "reasoning.text", "index": 0, "format": "x"}
    encrypted: JsonObject = {"type": "reasoning.encrypted", "data": "AAA", "id": "r1"}
    message, _ = read(
        chunk({"reasoning": "Let", "reasoning_details": [{**detail, "text": "Let"}]}),
        chunk({"reasoning": " me", "reasoning_details": [{**detail, "text": " me", "signature": None}]}),
        chunk({"reasoning_details": [{**detail, "signature": "sig"}, encrypted]}),
        chunk({"reasoning_details": [encrypted]}),
        calling(piece("{}", "get_time", index=0, id="c")),
        chunk({}, "tool_calls"),
    )
    assert encode_all(ChatCodec(), message)[0]["reasoning_details"] == [
        {**detail, "text": "Let me", "signature": "sig"},
        encrypted,
        encrypted,
    ]


def test_unknown_fields_of_a_call_go_back_with_it() -> None:
    signature: JsonObject = {"google": {"thought_signature": "sig"}}
    message = whole({"tool_calls": [piece("{}", "get_time", id="c", index=0, extra_content=signature)]})
    assert encode_all(ChatCodec(), message)[0]["tool_calls"] == [
        {"id": "c", "type": "function", "function": {"name": "get_time", "arguments": "{}"}, "extra_content": signature}
    ]


# Calls printed as text


def test_call_that_was_printed_as_text_is_a_call_and_is_never_shown() -> None:
    text = 'Let me look.\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
    message, events = read(*(chunk({"content": character}) for character in text), chunk({}, "stop"))
    assert message.parts[0] == Text("Let me look.")
    assert calls_of(message) == [("", "our_weather", '{"city":"Paris"}')]
    assert message.stop == "calls"
    assert text_told(events).strip() == "Let me look."
    assert encode_all(ChatCodec(), message)[0]["tool_calls"][0]["function"]["arguments"] == '{"city":"Paris"}'


def test_printed_call_of_a_tool_that_was_not_offered_stays_text() -> None:
    text = '<tool_call>{"name": "rm", "arguments": {}}</tool_call> ok'
    message, events = read(*(chunk({"content": character}) for character in text), chunk({}, "stop"))
    assert (message.text, message.calls) == (text, ())
    assert text_told(events) == text


def test_openai_itself_never_prints_calls() -> None:
    text = '<tool_call>{"name": "get_time", "arguments": {}}</tool_call>'
    message, events = read(chunk({"content": text}), chunk({}, "stop"), server=OPENAI)
    assert (message.text, text_told(events), message.calls) == (text, text, ())


def test_printed_call_beside_real_calls_stays_text() -> None:
    text = '<tool_call>{"name": "get_time", "arguments": {}}</tool_call>'
    message, events = read(
        chunk({"content": text}), calling(piece("{}", "get_weather", index=0, id="c")), chunk({}, "tool_calls")
    )
    assert calls_of(message) == [("c", "our_weather", "{}")]
    assert message.text == text_told(events) == text


def test_thinking_before_a_printed_call_is_kept() -> None:
    text = '[TOOL_CALLS][{"name": "get_time", "arguments": {}}]'
    message = whole({"reasoning": "Hm", "content": text})
    assert message.parts[0] == Thinking("Hm")
    assert calls_of(message) == [("", "our_time", "{}")]


# Sending


def test_request_has_the_prompt_first_and_asks_for_usage() -> None:
    spec = ToolSpec("get_time", "Tells the time.", {"type": "object", "properties": {}})
    tools = [LoweredTool("get_time", spec, spec.parameters), LoweredTool("strict", spec, spec.parameters, strict=True)]
    codec = ChatCodec()
    items = codec.encode(UserMessage((Text("Hi"),)))
    body = codec.request(
        Prompt("m", "Be brief.", items, tools, stream=True, options={"temperature": 0, "stream": False})
    )
    request: Any = openai_oracle.chat_request(body)
    assert request == msgspec.json.decode(body)
    assert request["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    function = {"name": "get_time", "description": "Tells the time.", "parameters": spec.parameters}
    assert request["tools"][0] == {"type": "function", "function": function}
    assert request["tools"][1]["function"]["strict"] is True
    assert (request["stream"], request["stream_options"]) == (True, {"include_usage": True})
    assert request["temperature"] == 0


def test_request_without_prompt_tools_and_stream_has_no_field_for_them() -> None:
    body = ChatCodec().request(Prompt("m", "", [], [], stream=False))
    assert msgspec.json.decode(body) == {"model": "m", "messages": [], "stream": False}


@pytest.mark.parametrize(("server", "options"), [(MISTRAL, {}), (ANY_SERVER, {"stream_options": None})])
def test_usage_is_not_asked_for_where_the_server_or_the_settings_forbid_it(
    server: ChatServer, options: JsonObject
) -> None:
    body = msgspec.json.decode(ChatCodec(server).request(Prompt("m", "", [], [], stream=True, options=options)))
    assert "stream_options" not in body


def test_key_is_in_the_header_and_no_key_is_no_header() -> None:
    assert ChatCodec().headers("sk-1") == {"authorization": "Bearer sk-1"}
    assert ChatCodec().headers("") == {}
    assert ChatCodec().path("m", stream=True) == "/chat/completions"


def test_user_message_is_a_string_where_it_can_be() -> None:
    assert encode_all(ChatCodec(), UserMessage((Text("a"), Text(""), Text("b")))) == [
        {"role": "user", "content": "a\n\nb"}
    ]


@pytest.mark.parametrize("parts", [(), (Text(""),)])
def test_user_message_of_nothing_still_says_something(parts: tuple[Text, ...]) -> None:
    assert encode_all(ChatCodec(), UserMessage(parts)) == [{"role": "user", "content": "(an empty message)"}]


def test_media_of_a_user_goes_in_the_form_that_the_api_has_for_it() -> None:
    media = [
        PNG,
        Attachment("audio", "audio/x-wav", b"wav"),
        Attachment("audio", "audio/mpeg", b"mp3"),
        Attachment("file", "application/pdf", b"pdf", name="a.pdf"),
        Attachment("file", "application/pdf", b"pdf"),
        Attachment("file", "text/csv; charset=utf-8", b"a,b", name="t.csv"),
    ]
    (message,) = encode_all(ChatCodec(), UserMessage((Text("See:"), *map(Media, media))))
    assert message["content"] == [
        {"type": "text", "text": "See:"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,cG5n"}},
        {"type": "input_audio", "input_audio": {"data": "d2F2", "format": "wav"}},
        {"type": "input_audio", "input_audio": {"data": "bXAz", "format": "mp3"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,cGRm"}},
        {"type": "file", "file": {"filename": "document.pdf", "file_data": "data:application/pdf;base64,cGRm"}},
        {"type": "text", "text": "File 't.csv' (text/csv):\na,b"},
    ]


@pytest.mark.parametrize(
    ("item", "note"),
    [
        (
            Attachment("image", "image/tiff", b"12", name="x.tiff"),
            "[image 'x.tiff', image/tiff, 2 bytes; it can't be shown here]",
        ),
        (Attachment("audio", "audio/ogg", b"12"), "[audio, audio/ogg, 2 bytes; it can't be shown here]"),
        (Attachment("file", "text/plain", b"\xff\xfe"), "[file, text/plain, 2 bytes; it can't be shown here]"),
        (
            Attachment("image", "image/png", artifact=ArtifactRef("art-1", 9)),
            "[image, image/png, 9 bytes, kept as artifact 'art-1'; it can't be shown here]",
        ),
        (Attachment("audio", "audio/wav"), "[audio, audio/wav, 0 bytes; it can't be shown here]"),
    ],
)
def test_media_that_the_api_can_not_take_is_a_note(item: Attachment, note: str) -> None:
    assert encode_all(ChatCodec(), UserMessage((Media(item),))) == [{"role": "user", "content": note}]
    assert encode_all(ChatCodec(), assistant_message(Media(item))) == [{"role": "assistant", "content": note}]


def test_answer_of_nothing_is_left_out() -> None:
    assert ChatCodec().encode(assistant_message(Thinking("Hm"), Text(""))) == []


def test_calls_without_words_have_null_content() -> None:
    (message,) = encode_all(ChatCodec(), assistant_message(CALL))
    assert message["content"] is None


def test_three_parallel_calls_with_an_error_and_an_image_get_three_tool_messages_and_the_image_after_them() -> None:
    calls = [CallPart(f"our-{number}", "get_weather", "{}", f"call_{number}") for number in range(3)]
    failed = CallResult("our-1", "get_weather", '{"status":"error"}', is_error=True)
    unseen = Attachment("image", "image/tiff", b"tiff")
    messages = encode_all(
        ChatCodec(),
        assistant_message(*calls),
        ResultsMessage((result(calls[0]), failed, result(calls[2], PNG, unseen))),
    )
    assert [message["role"] for message in messages] == ["assistant", "tool", "tool", "tool", "user"]
    assert [message["tool_call_id"] for message in messages[1:4]] == ["call_0", "call_1", "call_2"]
    assert messages[2]["content"] == '{"status":"error"}'
    assert messages[4]["content"] == [
        {"type": "text", "text": "This image is from the result of get_weather (call call_2):"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,cG5n"}},
    ]


def test_a_long_id_goes_back_only_to_the_model_that_gave_it_and_is_replaced_in_its_reasoning_too() -> None:
    long = "tool_" + "x" * 60
    call = CallPart("our-id", "get_weather", "{}", long)
    details: list[Json] = [
        {"type": "reasoning.encrypted", "id": long, "data": "x"},
        {"type": "reasoning.text", "id": "r"},
    ]
    entry: Json = {"id": long, "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}
    content: Json = {"role": "assistant", "content": None, "reasoning_details": details, "tool_calls": [entry]}
    message = AssistantMessage((call,), model="m1", native=Native("openai-chat", "m1", content))
    for model, server, is_kept in (("m1", ANY_SERVER, True), ("m2", ANY_SERVER, False), ("m1", OPENAI, False)):
        codec = ChatCodec(server, model)
        sent = msgspec.json.decode(codec.encode(message, None)[0])
        answered = msgspec.json.decode(codec.encode(ResultsMessage((result(call),)), message)[0])
        (sent_call,) = sent["tool_calls"]
        assert answered["tool_call_id"] == sent_call["id"]
        assert (sent_call["id"] == long) == is_kept
        if model == "m1":
            assert [one["id"] for one in sent["reasoning_details"]] == [sent_call["id"], "r"]


@pytest.mark.parametrize("with_before", [True, False])
@pytest.mark.parametrize("wire_id", ["call_1", "functions.get_weather:0", "", "x" * 41, "with blank", "toolu_ü"])
@pytest.mark.parametrize("server", [ANY_SERVER, OPENAI, MISTRAL])
def test_result_has_the_id_of_its_call_whatever_the_model_called_it(
    server: ChatServer, wire_id: str, with_before: bool
) -> None:
    call = CallPart("our-id", "get_weather", "{}", wire_id)
    messages = encode_all(
        ChatCodec(server), assistant_message(call), ResultsMessage((result(call),)), with_before=with_before
    )
    sent_id = messages[0]["tool_calls"][0]["id"]
    assert messages[1]["tool_call_id"] == sent_id
    assert 1 <= len(sent_id) <= (41 if server is ANY_SERVER else 40), "only OpenAI has a limit of 40 characters"
    fits = wire_id in ("call_1", "functions.get_weather:0") and server is not MISTRAL
    fits = fits or (wire_id == "x" * 41 and server is ANY_SERVER)
    assert (sent_id == wire_id) == (with_before and fits)
    if server is MISTRAL:
        assert len(sent_id) == 9
        assert sent_id.isalnum()


def test_made_id_is_always_the_same_and_differs_between_calls() -> None:
    first, again, other = (
        encode_all(ChatCodec(), assistant_message(CallPart(our, "t", "{}")))[0]["tool_calls"][0]["id"] for our in "aab"
    )
    assert first == again != other


def test_native_call_without_id_gets_one_too() -> None:
    message = whole({"reasoning": "Hm", "tool_calls": [piece("{}", "get_time")]})
    messages = encode_all(ChatCodec(), message, ResultsMessage((result(message.calls[0]),)))
    assert messages[0]["reasoning"] == "Hm"
    assert messages[0]["tool_calls"][0]["id"] == messages[1]["tool_call_id"] != ""


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize(
    ("arguments", "back"),
    [
        ("", "{}"),
        (" ", "{}"),
        ('{"a": 1}', '{"a": 1}'),
        ('{"a', '{"not_valid_json":"{\\"a"}'),
        ("[1]", '{"not_valid_json":"[1]"}'),
    ],
)
def test_arguments_go_back_as_an_object_so_that_no_server_chokes_on_an_old_turn(
    arguments: str, back: str, native: bool
) -> None:
    message = whole({"reasoning": "Hm" if native else None, "tool_calls": [piece(arguments, "get_time", id="c")]})
    assert encode_all(ChatCodec(), message)[0]["tool_calls"][0]["function"]["arguments"] == back


def test_invented_name_goes_back_in_a_form_that_the_api_takes() -> None:
    for message in (
        whole({"reasoning": "Hm", "tool_calls": [piece("{}", "functions.get time", id="c")]}),
        assistant_message(CallPart("id", "functions.get time", "{}")),
        assistant_message(CallPart("id", "", "{}")),
    ):
        name = encode_all(ChatCodec(), message)[0]["tool_calls"][0]["function"]["name"]
        assert name.replace("_", "").isalnum()


def test_lone_surrogates_do_not_stop_a_request() -> None:
    body = ChatCodec().request(
        Prompt(
            "m",
            "a\ud83c",
            ChatCodec().encode(UserMessage((Text("b\udf27"),))),
            [],
            stream=False,
            options={"user": "\ud83c\udf27"},
        )
    )
    assert [item["content"] for item in msgspec.json.decode(body)["messages"]] == ["a\ufffd", "b\ufffd"]
    assert msgspec.json.decode(body)["user"] == "🌧"


def test_mistral_gets_an_answer_between_results_and_user() -> None:
    results = ResultsMessage((result(CALL, PNG),))
    roles = [
        item["role"]
        for item in encode_all(ChatCodec(MISTRAL), assistant_message(CALL), results, UserMessage((Text("Well?"),)))
    ]
    assert roles == ["assistant", "tool", "assistant", "user", "assistant", "user"]
    roles = [
        item["role"]
        for item in encode_all(ChatCodec(), assistant_message(CALL), results, UserMessage((Text("Well?"),)))
    ]
    assert roles == ["assistant", "tool", "user", "user"]


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("https://api.openai.com/v1", OPENAI),
        ("https://me.openai.azure.com/openai/v1", OPENAI),
        ("https://api.mistral.ai/v1", MISTRAL),
        ("https://api.deepseek.com", DEEPSEEK),
        ("http://localhost:11434/v1", ANY_SERVER),
        ("https://notopenai.com/v1", ANY_SERVER),
        ("nonsense", ANY_SERVER),
    ],
)
def test_server_is_known_by_its_host(url: str, server: ChatServer) -> None:
    assert server_at(url) is server
