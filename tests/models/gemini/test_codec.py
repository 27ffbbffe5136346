"""What we send to Gemini: the messages of a conversation as contents."""

import base64
import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from handspan.core.artifacts import ArtifactRef
from handspan.core.messages import (
    AssistantMessage,
    CallPart,
    CallResult,
    Media,
    Message,
    Native,
    ResultsMessage,
    Text,
    Thinking,
    UserMessage,
)
from handspan.core.results import Attachment
from handspan.core.values import Json, JsonObject
from handspan.models.gemini.codec import GeminiCodec
from handspan.models.model import Codec

if TYPE_CHECKING:
    _the_seam: Codec = GeminiCodec()

NEW, OLD = "gemini-3-flash-preview", "gemini-2.5-flash"
PNG = Attachment("image", "image/png", b"\x89PNG\r\n\x1a\n", name="photo.png")
DUMMY = "skip_thought_signature_validator"


def encoded(message: Message, model: str = NEW) -> list[dict[str, Any]]:
    return [json.loads(item) for item in GeminiCodec(model).encode(message)]


def only(message: Message, model: str = NEW) -> list[dict[str, Any]]:
    """The parts of the one content that the message becomes."""
    (content,) = encoded(message, model)
    parts: list[dict[str, Any]] = content["parts"]
    return parts


def succeeded(value: Json, call_id: str = "c1", name: str = "look", **more: Any) -> CallResult:
    return CallResult(call_id, name, json.dumps({"status": "success", "result": value}), **more)


def answered(*parts: JsonObject, model: str = NEW, calls: int = 1) -> AssistantMessage:
    """What Gemini itself said, with its parts kept."""
    called = tuple(CallPart(f"c{number}", "look", "{}") for number in range(1, calls + 1))
    return AssistantMessage(called, "calls", model, None, Native("gemini", model, {"role": "model", "parts": [*parts]}))


# Results


def test_result_with_schema_references_is_sent_as_text_because_gemini_would_look_them_up() -> None:
    values: list[Json] = [{"a": [{"$ref": "#/$defs/X"}]}, {"$defs": {}}]
    for value in values:
        result = succeeded(value)
        (part,) = only(ResultsMessage((result,)))
        assert part["functionResponse"]["response"] == {"output": result.envelope}


def test_reference_that_hides_behind_an_escape_is_sent_as_text_too() -> None:
    result = CallResult("c1", "look", r'{"status":"success","result":{"\u0024ref":"#/x"}}')
    (part,) = only(ResultsMessage((result,)))
    assert part["functionResponse"]["response"] == {"output": result.envelope}


def test_words_about_references_are_no_references() -> None:
    (part,) = only(ResultsMessage((succeeded('use "$ref" or $defs'),)))
    assert part["functionResponse"]["response"] == {"output": 'use "$ref" or $defs'}


def test_error_goes_under_the_key_error() -> None:
    envelope = '{"status":"error","error_type":"timeout","code":"timeout","message":"too slow"}'
    (part,) = only(ResultsMessage((CallResult("c1", "look", envelope, is_error=True),)))
    assert part["functionResponse"] == {
        "id": "c1",
        "name": "look",
        "response": {"error": {"error_type": "timeout", "code": "timeout", "message": "too slow"}},
    }


def test_envelope_that_is_no_json_is_still_an_object_for_gemini() -> None:
    for is_error, key in ((False, "output"), (True, "error")):
        (part,) = only(ResultsMessage((CallResult("c1", "look", "oops", is_error=is_error),)))
        assert part["functionResponse"]["response"] == {key: "oops"}


@pytest.mark.parametrize("value", [None, 3, "words", [1, {"a": None}], {"deep": {"er": [True]}}])
def test_every_kind_of_result_is_wrapped_in_an_object(value: Json) -> None:
    (part,) = only(ResultsMessage((succeeded(value),)))
    assert part == {"functionResponse": {"id": "c1", "name": "look", "response": {"output": value}}}


def test_results_of_parallel_calls_are_one_content_with_as_many_parts_in_the_order_of_the_calls() -> None:
    results = tuple(succeeded(number, f"c{number}", f"tool_{number}") for number in range(3))
    (content,) = encoded(ResultsMessage(results))
    assert content["role"] == "user"
    assert [part["functionResponse"]["name"] for part in content["parts"]] == ["tool_0", "tool_1", "tool_2"]
    assert [part["functionResponse"]["response"]["output"] for part in content["parts"]] == [0, 1, 2]


def test_call_and_result_have_the_same_id_and_name_whoever_made_the_call() -> None:
    made_up = "what ever!"
    for call in (CallPart("c1", "look", "{}", "toolu_1"), CallPart("c1", "look", "{}"), CallPart("c1", made_up, "{}")):
        named: JsonObject = {"functionCall": {"name": call.name, "id": "wire"}}
        for native in (None, Native("gemini", NEW, {"role": "model", "parts": [named]}), Native("anthropic", "x", [])):
            (called,) = only(AssistantMessage((call,), "calls", native=native))
            (result,) = only(ResultsMessage((succeeded(1, call.id, call.name),)))
            assert called["functionCall"]["id"] == result["functionResponse"]["id"] == "c1"
            assert called["functionCall"]["name"] == result["functionResponse"]["name"]
            assert called["functionCall"]["args"] == {}


@pytest.mark.parametrize("name", ["what ever!", "", "9lives", "x" * 200])
def test_name_that_gemini_would_refuse_is_made_one_that_it_takes(name: str) -> None:
    (call,) = only(AssistantMessage((CallPart("c1", name, "{}"),)))
    assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}", call["functionCall"]["name"])


def test_name_that_only_gemini_takes_stays() -> None:
    (call,) = only(AssistantMessage((CallPart("c1", "default_api:look.at", "{}"),)))
    assert call["functionCall"]["name"] == "default_api:look.at"


# Media


def test_image_of_a_result_is_inside_of_it_for_gemini_3() -> None:
    (part,) = only(ResultsMessage((succeeded(None, attachments=(PNG,)),)), NEW)
    data = base64.b64encode(PNG.data).decode()
    assert part["functionResponse"]["parts"] == [{"inlineData": {"mimeType": "image/png", "data": data}}]


@pytest.mark.parametrize("model", [OLD, "gemini-flash-latest", "gemini-1.5-pro", ""])
def test_image_of_a_result_follows_in_a_content_of_its_own_where_results_hold_none(model: str) -> None:
    results, media = encoded(ResultsMessage((succeeded(1), succeeded(2, attachments=(PNG,)))), model)
    assert ["functionResponse" in part for part in results["parts"]] == [True, True]
    assert not any("parts" in part["functionResponse"] for part in results["parts"])
    assert media["role"] == "user"
    assert media["parts"][0] == {"text": "What came with the result of 'look':"}
    assert media["parts"][1]["inlineData"]["mimeType"] == "image/png"


def test_sound_of_a_result_follows_even_for_gemini_3() -> None:
    sound = Attachment("audio", "audio/wav", b"RIFF")
    results, media = encoded(ResultsMessage((succeeded(1, attachments=(PNG, sound)),)), NEW)
    assert len(results["parts"][0]["functionResponse"]["parts"]) == 1
    assert [part.get("inlineData", {}).get("mimeType") for part in media["parts"]] == [None, "audio/wav"]


@pytest.mark.parametrize(
    ("attachment", "told"),
    [
        (
            Attachment("file", "application/zip", b"PK\xff\xfe", name="a.zip"),
            "[file 'a.zip': application/zip, 4 bytes; ",
        ),
        (Attachment("image", "image/gif", b"GIF89a\x00"), "[image: image/gif, 7 bytes; Gemini can't take this type]"),
        (
            Attachment("image", "image/png", artifact=ArtifactRef("art-1", 9000, "image/png")),
            "[image: image/png, 9000 bytes, kept as artifact 'art-1']",
        ),
    ],
)
def test_attachment_that_gemini_would_refuse_is_told_in_words(attachment: Attachment, told: str) -> None:
    (part,) = only(UserMessage((Media(attachment),)))
    assert part["text"].startswith(told)
    _, beside = encoded(ResultsMessage((succeeded(1, attachments=(attachment,)),)))
    assert beside["parts"][1]["text"].startswith(told)


@pytest.mark.parametrize(
    ("media_type", "sent"),
    [
        ("image/jpg", "image/jpeg"),
        ("text/markdown; charset=utf-8", "text/markdown"),
        ("application/json", "text/plain"),
        ("IMAGE/PNG", "image/png"),
    ],
)
def test_media_type_is_sent_as_gemini_knows_it(media_type: str, sent: str) -> None:
    (part,) = only(UserMessage((Media(Attachment("file", media_type, b"{}")),)))
    assert part["inlineData"]["mimeType"] == sent


# What people say


def test_half_of_a_surrogate_pair_does_not_break_the_request() -> None:
    (part,) = only(UserMessage((Text("bad \ud83d name, \ud83d\ude00 — ü"),)))
    assert part == {"text": "bad \ufffd name, \U0001f600 — ü"}


def test_empty_words_are_left_out_unless_nothing_else_is_said() -> None:
    assert only(UserMessage((Text(""), Text("hi")))) == [{"text": "hi"}]
    assert only(UserMessage((Text(""),))) == only(UserMessage(())) == [{"text": " "}]


def test_user_message_has_role_user_and_its_parts_in_order() -> None:
    (content,) = encoded(UserMessage((Text("see"), Media(PNG))))
    assert content["role"] == "user"
    assert [sorted(part) for part in content["parts"]] == [["text"], ["inlineData"]]


# What models said


def test_native_parts_go_back_as_they_came_in_the_same_grouping() -> None:
    parts: list[JsonObject] = [
        {"text": "thinking", "thought": True},
        {"functionCall": {"name": "look", "args": {"n": 1.0}, "id": "c1"}, "thoughtSignature": "a+/b=="},
        {"functionCall": {"name": "look", "args": {}, "id": "c2"}},
        {"text": "", "thoughtSignature": "c2ln"},
        {"toolCall": {"id": "x", "toolType": "GOOGLE_SEARCH_WEB"}, "thoughtSignature": "eA=="},
    ]
    for model in (NEW, OLD):
        (content,) = encoded(answered(*parts, calls=2), model)
        assert content == {"role": "model", "parts": parts}


def test_calls_without_any_signature_get_the_dummy_on_the_first_only_for_gemini_3() -> None:
    unsigned: list[JsonObject] = [{"text": "so"}]
    unsigned += [{"functionCall": {"name": "look", "args": {}, "id": f"c{number}"}} for number in (1, 2, 3)]
    parts = only(answered(*unsigned, model="gemini-2.0-flash", calls=3), NEW)
    assert [part.get("thoughtSignature") for part in parts] == [None, DUMMY, None, None]
    assert only(answered(*unsigned, calls=3), OLD) == unsigned
    assert "thoughtSignature" not in unsigned[1]


def test_history_of_another_api_loses_its_state_and_gets_the_dummy_on_the_first_call_of_each_step() -> None:
    native = Native("anthropic", "claude", [{"type": "thinking", "signature": "theirs"}])
    calls = (CallPart("c1", "look", '{"at": 1}', "toolu_1"), CallPart("c2", "look", ""))
    step = AssistantMessage((Thinking("hm"), Text("I look"), *calls), "calls", "claude", None, native)
    expected: list[dict[str, Any]] = [
        {"text": "I look"},
        {"functionCall": {"id": "c1", "name": "look", "args": {"at": 1}}, "thoughtSignature": DUMMY},
        {"functionCall": {"id": "c2", "name": "look", "args": {}}},
    ]
    assert only(step, NEW) == expected
    assert only(step, "gemini-flash-latest") == expected
    del expected[1]["thoughtSignature"]
    assert only(step, OLD) == expected


def test_text_of_another_model_needs_no_signature() -> None:
    assert only(AssistantMessage((Text("hello"),), "end", "gpt"), NEW) == [{"text": "hello"}]


def test_native_parts_that_ask_for_other_calls_than_the_message_are_not_sent() -> None:
    parts: list[JsonObject] = [{"functionCall": {"name": "look", "args": {}}} for _ in range(2)]
    assert len(only(answered(*parts, calls=1))) == 1  # otherwise one call would have no result


@pytest.mark.parametrize("content", [["no object"], {"role": "model"}, None])
def test_native_content_of_the_wrong_shape_is_not_sent(content: Json) -> None:
    message = AssistantMessage((Text("hello"),), native=Native("gemini", NEW, content))
    assert only(message) == [{"text": "hello"}]


@pytest.mark.parametrize("arguments", ['{"path": "a', "[1]", '"text"', "[" * 5000, '"\ud800"'])
def test_arguments_that_are_no_object_are_shown_as_they_were_written(arguments: str) -> None:
    (part,) = only(AssistantMessage((CallPart("c1", "look", arguments),)))
    assert part["functionCall"]["args"] == {"arguments": arguments.replace("\ud800", "\ufffd")}


@pytest.mark.parametrize("parts", [(), (Text(""),), (Thinking("only that"),)])
def test_answer_that_says_nothing_is_left_out(parts: tuple[Text | Thinking, ...]) -> None:
    assert encoded(AssistantMessage(parts)) == []
