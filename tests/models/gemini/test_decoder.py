"""What Gemini answers, read whole and in pieces."""

import json
from typing import TYPE_CHECKING, Any

import pytest

from handspan.core.messages import AssistantMessage, CallPart, Media, Text, Thinking, Usage
from handspan.core.values import Json, JsonObject
from handspan.models.gemini.codec import GeminiCodec
from handspan.models.gemini.decoder import GeminiDecoder
from handspan.models.model import CallDelta, Decoder, ModelError, ModelEvent, TextDelta, ThinkingDelta

if TYPE_CHECKING:
    _the_seam: Decoder = GeminiDecoder({}, "")

MODEL = "gemini-3-flash-preview"
NAMES = {"wire_look": "look"}


def piece(*parts: JsonObject, finish: str = "", **more: Any) -> JsonObject:
    candidate: JsonObject = {"content": {"role": "model", "parts": [*parts]}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], **more}


def calling(name: str = "wire_look", **more: Json) -> JsonObject:
    return {"functionCall": {"name": name, "args": {"at": 1}}, **more}


def read_stream(*pieces: JsonObject) -> tuple[AssistantMessage, list[ModelEvent]]:
    decoder = GeminiCodec(MODEL).decoder(NAMES, MODEL)
    events = [event for data in pieces for event in decoder.feed("", json.dumps(data))]
    return decoder.finish(), events


def decode(body: JsonObject) -> AssistantMessage:
    return GeminiCodec(MODEL).decode(body, NAMES, MODEL)


def native_content(message: AssistantMessage) -> Any:
    assert message.native is not None
    assert (message.native.api, message.native.model) == ("gemini", MODEL)
    content: Any = message.native.content
    assert content["role"] == "model"
    return content["parts"]


# What must not be taken for an answer


@pytest.mark.parametrize("pieces", [[], [piece(calling())], [piece({"text": "half"})], [{"usageMetadata": {}}]])
def test_stream_without_a_finish_reason_is_cut_and_gives_no_calls(pieces: list[JsonObject]) -> None:
    with pytest.raises(ModelError, match="broke off") as caught:
        read_stream(*pieces)
    assert caught.value.fault == "cut"


@pytest.mark.parametrize("data", ["{", "[]", '"x"', '{"candidates": 3}', "[" * 5000, '{"candidates":[{"content":[]}]}'])
def test_piece_that_is_no_answer_is_unreadable(data: str) -> None:
    with pytest.raises(ModelError, match="makes no sense") as caught:
        GeminiCodec().decoder({}, MODEL).feed("", data)
    assert caught.value.fault == "unreadable"


@pytest.mark.parametrize("body", [{}, {"candidates": []}, {"candidates": None}, {"candidates": 3}])
def test_whole_answer_without_candidates_is_unreadable(body: JsonObject) -> None:
    with pytest.raises(ModelError) as caught:
        decode(body)
    assert caught.value.fault == "unreadable"


@pytest.mark.parametrize(
    "part",
    [
        {"functionCall": {"args": {}}},
        {"functionCall": "look"},
        {"text": 3},
        {"inlineData": {"mimeType": "image/png", "data": "%%%"}},
        {"functionCall": {"name": "look", "partialArgs": [{"jsonPath": "$.a"}], "willContinue": True}},
        {"functionCall": {"name": "look", "willContinue": True}},
    ],
)
def test_part_that_makes_no_sense_is_unreadable_and_never_half_a_call(part: JsonObject) -> None:
    for read in (decode, read_stream):
        with pytest.raises(ModelError) as caught:
            read(piece(part, finish="STOP"))
        assert caught.value.fault == "unreadable"


def test_error_in_mid_stream_says_what_an_error_answer_would() -> None:
    decoder = GeminiCodec().decoder({}, MODEL)
    decoder.feed("", json.dumps(piece({"text": "so"})))
    with pytest.raises(ModelError) as caught:
        decoder.feed("", '{"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}')
    assert (caught.value.fault, caught.value.status) == ("overloaded", 503)
    with pytest.raises(ModelError) as caught:
        decoder.feed("", '{"error": "no more"}')
    assert "no more" in str(caught.value)


def test_token_limit_drops_a_call_at_the_very_end_and_only_that() -> None:
    whole = calling(thoughtSignature="c2ln")
    message, _ = read_stream(piece({"text": "so"}, whole, calling(), finish="MAX_TOKENS"))
    assert message.stop == "length"
    assert [part.name for part in message.calls] == ["look"]
    assert native_content(message) == [{"text": "so"}, whole]  # a dropped call would never get its result
    assert decode(piece(calling(), finish="MAX_TOKENS")).native is None
    assert decode(piece(calling(), {"text": "and"}, finish="MAX_TOKENS")).calls


def test_token_limit_while_thinking_is_an_empty_answer() -> None:
    body: JsonObject = {"candidates": [{"content": {"role": "model"}, "finishReason": "MAX_TOKENS"}]}
    message = decode(body)
    assert (message.parts, message.stop, message.native) == ((), "length", None)


@pytest.mark.parametrize("finish", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "OTHER", "NEWER_THAN_WE_KNOW"])
def test_answer_that_ended_badly_without_a_word_is_an_error_with_the_reason(finish: str) -> None:
    body: JsonObject = {"candidates": [{"finishReason": finish, "finishMessage": "call:print(1"}]}
    with pytest.raises(ModelError, match=rf"{finish}.*call:print\(1") as caught:
        decode(body)
    assert caught.value.fault == "unreadable"


def test_answer_that_ended_badly_after_some_words_keeps_them() -> None:
    message = decode(piece({"text": "so far"}, finish="MALFORMED_FUNCTION_CALL"))
    assert (message.text, message.stop) == ("so far", "other")


@pytest.mark.parametrize("finish", ["SAFETY", "RECITATION", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII", "MODEL_ARMOR"])
def test_answer_that_was_stopped_for_its_content_is_a_refusal(finish: str) -> None:
    assert decode(piece({"text": "so"}, finish=finish)).stop == "refusal"
    wordless: JsonObject = {"candidates": [{"finishReason": finish}]}
    for message in (decode(wordless), read_stream(wordless)[0]):
        assert (message.stop, message.parts) == ("refusal", ())


def test_prompt_that_was_blocked_is_a_refusal() -> None:
    body: JsonObject = {
        "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
        "usageMetadata": {"promptTokenCount": 8},
    }
    for message in (decode(body), read_stream(body)[0]):
        assert (message.parts, message.stop, message.native) == ((), "refusal", None)
        assert message.usage == Usage(input=8)


def test_prompt_that_was_blocked_is_a_refusal_also_beside_an_empty_candidate() -> None:
    feedback: JsonObject = {"promptFeedback": {"blockReason": "MODEL_ARMOR"}}
    for message in (
        decode({**feedback, "candidates": [{"finishReason": "OTHER"}]}),
        read_stream(feedback, {"candidates": [{"finishReason": "OTHER"}]})[0],
    ):
        assert (message.stop, message.parts) == ("refusal", ())


def test_feedback_without_a_reason_blocks_nothing() -> None:
    message, _ = read_stream(piece({"text": "fine"}, finish="STOP", promptFeedback={"safetyRatings": []}))
    assert message.stop == "end"


# Calls


@pytest.mark.parametrize("finish", ["STOP", "MALFORMED_FUNCTION_CALL", "OTHER"])
def test_calls_are_seen_in_the_parts_whatever_the_finish_reason(finish: str) -> None:
    message = decode(piece(calling(), calling("other"), finish=finish))
    assert message.stop == "calls"
    assert [(call.name, json.loads(call.arguments)) for call in message.calls] == [
        ("look", {"at": 1}),
        ("other", {"at": 1}),
    ]


def test_each_call_has_an_id_of_ours_and_the_one_of_the_model_only_if_it_gave_one() -> None:
    given: JsonObject = {"functionCall": {"name": "look", "id": "w1"}}
    first, second = decode(piece(given, calling(), finish="STOP")).calls
    assert (first.wire_id, second.wire_id) == ("w1", "")
    assert first.id and second.id and first.id != second.id
    assert first.arguments == "{}"


def test_arguments_that_a_compatible_server_sends_as_text_stay_that_text() -> None:
    part: JsonObject = {"functionCall": {"name": "look", "args": '{"at": '}}
    assert decode(piece(part, finish="STOP")).calls[0].arguments == '{"at": '


def test_parallel_calls_over_several_pieces_are_told_apart() -> None:
    message, events = read_stream(piece(calling()), piece(calling("b")), piece({"text": ""}, finish="STOP"))
    assert events == [CallDelta(0, "look", '{"at":1}'), CallDelta(1, "b", '{"at":1}')]
    assert [call.name for call in message.calls] == ["look", "b"]


# Words


def test_words_over_several_pieces_become_one_text_and_thoughts_stay_apart() -> None:
    message, events = read_stream(
        piece({"text": "let me ", "thought": True}),
        piece({"text": "see", "thought": True}),
        piece({"text": "Hel"}),
        piece({"text": "lo"}, finish="STOP"),
    )
    assert message.parts == (Thinking("let me see"), Text("Hello"))
    assert events == [ThinkingDelta("let me "), ThinkingDelta("see"), TextDelta("Hel"), TextDelta("lo")]
    assert native_content(message) == [{"text": "let me see", "thought": True}, {"text": "Hello"}]


def test_signed_parts_are_never_joined_and_never_lost() -> None:
    pieces: list[JsonObject] = [
        {"text": "a"},
        {"text": "b", "thoughtSignature": "c2ln"},
        {"text": "c"},
        {"text": "d"},
        {"text": "", "thoughtSignature": "bGFzdA=="},
    ]
    message, _ = read_stream(*map(piece, pieces), piece(finish="STOP"))
    assert native_content(message) == [*pieces[:2], {"text": "cd"}, pieces[4]]
    assert message.parts == (Text("abcd"),)


def test_parts_of_a_whole_answer_stay_as_they_are() -> None:
    parts: list[JsonObject] = [
        {"text": "a"},
        {"text": "b"},
        {"executableCode": {"code": "1", "language": "PYTHON"}},
        {"toolCall": {"id": "1"}, "thoughtSignature": "c2ln"},
        calling(thoughtSignature="c2ln"),
    ]
    message = decode(piece(*parts, {"text": ""}, finish="STOP"))
    assert native_content(message) == parts
    assert message.text == "ab"


def test_answer_goes_back_as_it_came_but_for_the_ids_of_its_calls() -> None:
    parts: list[JsonObject] = [
        calling("a", thoughtSignature="c+/2ln"),
        calling("b"),
        {"text": "", "thoughtSignature": "x"},
    ]
    message, _ = read_stream(*map(piece, parts), piece(finish="STOP"))
    (item,) = GeminiCodec(MODEL).encode(message)
    content = json.loads(item)
    ids = [part["functionCall"].pop("id") for part in content["parts"][:2]]
    assert ids == [call.id for call in message.calls]
    assert content == {"role": "model", "parts": parts}


def test_image_of_the_model_is_media() -> None:
    part: JsonObject = {"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}}
    sound: JsonObject = {"inlineData": {"mimeType": "audio/wav", "data": ""}}
    paper: JsonObject = {"inlineData": {"mimeType": "application/pdf"}}
    message = decode(piece(part, sound, paper, finish="STOP"))
    media = [part.attachment for part in message.parts if type(part) is Media]
    assert [(item.kind, item.data) for item in media] == [("image", b"\x89PNG"), ("audio", b""), ("file", b"")]


def test_only_the_first_candidate_counts() -> None:
    body = piece({"text": "one"}, finish="STOP")
    assert isinstance(body["candidates"], list)
    body["candidates"].append({"index": 1, "content": {"parts": [calling()]}, "finishReason": "SAFETY"})
    message = decode(body)
    assert (message.parts, message.stop) == ((Text("one"),), "end")


def test_whole_answer_may_leave_out_why_it_ended() -> None:
    assert decode(piece({"text": "hi"})).stop == "end"


@pytest.mark.parametrize("data", ["", " ", "[DONE]"])
def test_empty_piece_says_nothing(data: str) -> None:
    assert not GeminiCodec().decoder({}, MODEL).feed("", data)


# Usage


def test_usage_is_that_of_the_last_piece_with_thoughts_as_output() -> None:
    first: JsonObject = {"promptTokenCount": 99, "totalTokenCount": 99}
    last: JsonObject = {
        "promptTokenCount": 10,
        "toolUsePromptTokenCount": 5,
        "cachedContentTokenCount": 4,
        "candidatesTokenCount": 7,
        "thoughtsTokenCount": 20,
    }
    message, _ = read_stream(
        piece({"text": "a"}, usageMetadata=first), piece(usageMetadata=last), piece({"text": "b"}, finish="STOP")
    )
    assert message.usage == Usage(input=15, output=27, cached=4, reasoning=20)


def test_unknown_usage_stays_unknown() -> None:
    assert decode(piece({"text": "a"}, finish="STOP")).usage is None
    assert decode(piece({"text": "a"}, finish="STOP", usageMetadata={})).usage == Usage()


def test_model_is_the_one_that_was_asked() -> None:
    assert decode(piece({"text": "a"}, finish="STOP", modelVersion="gemini-3-flash-preview-0917")).model == MODEL


def test_call_part_is_what_the_message_lists_as_calls() -> None:
    message = decode(piece({"text": "x"}, calling(), finish="STOP"))
    assert message.calls == tuple(part for part in message.parts if type(part) is CallPart)
    assert message.text == "x"
