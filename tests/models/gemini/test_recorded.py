"""Recorded exchanges with Gemini, read and said again."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from handspan.core.messages import (
    AssistantMessage,
    CallResult,
    Message,
    ResultsMessage,
    Text,
    UserMessage,
    check_all,
)
from handspan.core.results import Attachment
from handspan.core.tool import ToolSpec
from handspan.models.gemini.codec import GeminiCodec
from handspan.models.model import LoweredTool, ModelError, Prompt, TextDelta
from tests.recorded import Fields, conversations, events_of

CASES = conversations("gemini")
DUMMY_IN_BASE64 = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="
"""What the recording client put on unsigned calls, for old models too."""

each_case = pytest.mark.parametrize("exchanges", CASES.values(), ids=CASES)


def model_of(exchange: Fields) -> str:
    name: str = exchange["request"]["path"].rpartition("/")[2].partition(":")[0]
    return name


def pieces(exchange: Fields) -> list[str]:
    """The data of each event of the stream."""
    return [data for _, data in events_of(exchange["response"])]


def bodies(exchange: Fields) -> list[Fields]:
    response = exchange["response"]
    return [json.loads(piece) for piece in pieces(exchange)] if "events" in response else [response["json"]]


def raw_parts(exchange: Fields) -> Iterator[Fields]:
    """Every part of the answer, by a plain reading."""
    for body in bodies(exchange):
        for candidate in body.get("candidates", ()):
            yield from candidate.get("content", {}).get("parts", ())


def read(exchange: Fields) -> AssistantMessage:
    codec, model = GeminiCodec(model_of(exchange)), model_of(exchange)
    if "events" not in exchange["response"]:
        return codec.decode(exchange["response"]["json"], {}, model)
    decoder = codec.decoder({}, model)
    events = [event for piece in pieces(exchange) for event in decoder.feed("", piece)]
    message = decoder.finish()
    assert "".join(event.text for event in events if type(event) is TextDelta) == message.text
    return message


@each_case
def test_recorded_answer_has_the_same_calls_words_and_usage_in_our_reading(exchanges: list[Fields]) -> None:
    for exchange in exchanges:
        if exchange["response"]["status"] != 200:
            error = GeminiCodec().fault(exchange["response"]["status"], json.dumps(bodies(exchange)[0]).encode())
            assert error.fault == "rejected"
            assert bodies(exchange)[0]["error"]["message"][:100] in str(error)
            continue
        message, parts = read(exchange), list(raw_parts(exchange))
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        assert len(message.calls) == exchange["tool_calls_in_response"] == len(calls)
        assert message.stop == ("calls" if calls else "end")
        for call, raw in zip(message.calls, calls, strict=True):
            assert (call.name, json.loads(call.arguments)) == (raw["name"], raw.get("args", {}))
            assert call.wire_id == raw.get("id", "")
        assert message.text == "".join(part.get("text", "") for part in parts if not part.get("thought"))
        assert message.usage is not None
        usage = bodies(exchange)[-1]["usageMetadata"]
        spent = usage.get("candidatesTokenCount", 0) + usage.get("thoughtsTokenCount", 0)
        assert message.usage.output == spent
        assert message.usage.reasoning == usage.get("thoughtsTokenCount")
        assert (message.usage.input or 0) + spent == usage["totalTokenCount"]


@each_case
def test_recorded_answer_keeps_every_signature_in_its_place(exchanges: list[Fields]) -> None:
    for exchange in exchanges:
        if exchange["response"]["status"] == 200:
            native = read(exchange).native
            assert native is not None
            content: Any = native.content
            signed = [part for part in raw_parts(exchange) if "thoughtSignature" in part]
            assert [part for part in content["parts"] if "thoughtSignature" in part] == signed


@each_case
def test_recorded_stream_that_is_cut_anywhere_gives_no_calls(exchanges: list[Fields]) -> None:
    for exchange in exchanges:
        if "events" in exchange["response"]:
            decoder = GeminiCodec().decoder({}, "")
            for piece in pieces(exchange)[:-1]:
                decoder.feed("", piece)
                with pytest.raises(ModelError, match="broke off"):
                    decoder.finish()


@each_case
@pytest.mark.outside
def test_googles_sdk_reads_the_recorded_answer_to_the_same_calls(exchanges: list[Fields]) -> None:
    types = pytest.importorskip("google.genai.types", reason="google-genai is not installed")
    for exchange in exchanges:
        if exchange["response"]["status"] == 200:
            theirs = [types.Part.model_validate_json(json.dumps(part)) for part in raw_parts(exchange)]
            flat = [part.function_call for part in theirs if part.function_call]
            ours = read(exchange).calls
            assert [(call.name, call.args) for call in flat] == [
                (call.name, json.loads(call.arguments)) for call in ours
            ]


# The same conversations, said by us


def said_by_person(content: Fields) -> UserMessage:
    """A recorded user content as our message; files at Google's place are nothing that we have."""
    return UserMessage(tuple(Text(part["text"]) for part in content["parts"] if "text" in part))


def results_of(content: Fields, answer: AssistantMessage) -> ResultsMessage:
    results = []
    for call, part in zip(answer.calls, content["parts"], strict=True):
        response = part.get("functionResponse") or part["function_response"]
        outcome = response["response"]
        is_error = "error" in outcome
        value = outcome["error"] if is_error else outcome.get("return_value", outcome.get("output", outcome))
        told = {"status": "error", "message": value} if is_error else {"status": "success", "result": value}
        images = [item["inline_data"] for item in response.get("parts", ()) if "inline_data" in item]
        media = tuple(Attachment("image", image["mime_type"], b"JPEG") for image in images)
        results.append(CallResult(call.id, response["name"], json.dumps(told), is_error, media))
    return ResultsMessage(tuple(results))


def rebuilt(exchanges: list[Fields], place: int) -> list[Message]:
    """The conversation that led to this exchange, with the models' answers as we read them in the exchanges before."""
    contents = exchanges[place]["request"]["json"]["contents"]
    answers = [read(earlier) for earlier in exchanges[:place]]
    needed = sum(content["role"] == "model" for content in contents)
    history: list[Message] = []
    answer = iter(answers[len(answers) - needed :])
    for content in contents:
        if content["role"] == "model":
            history.append(next(answer))
        elif any("functionResponse" in part or "function_response" in part for part in content["parts"]):
            assert type(history[-1]) is AssistantMessage
            history.append(results_of(content, history[-1]))
        elif any("text" in part for part in content["parts"]):
            history.append(said_by_person(content))
    check_all(history)
    return history


def what_matters(content: Fields, model: str) -> Fields:
    """A content without what the recording client and we say in words of our own."""
    parts = [_plain_part(part, model) for part in content["parts"] if not {"fileData", "file_data"} & part.keys()]
    return {"role": content["role"], "parts": [part for part in parts if part]}


def _plain_part(part: Fields, model: str) -> Fields:
    plain = {_camel(key): value for key, value in part.items()}
    if "functionResponse" in plain:
        response = plain["functionResponse"]
        outcome = response["response"]
        value = outcome.get("output", outcome.get("return_value", outcome))
        if "error" in outcome:
            value = outcome["error"]["message"] if isinstance(outcome["error"], dict) else outcome["error"]
        media = [item for item in response.get("parts", ()) if {"inlineData", "inline_data"} & item.keys()]
        return {"name": response["name"], "is_error": "error" in outcome, "value": value, "media": len(media)}
    if "functionCall" in plain:
        plain["functionCall"] = {key: value for key, value in plain["functionCall"].items() if key != "id"}
    for key in ("toolCall", "toolResponse"):
        if key in plain:
            plain[key] = {_camel(name): value for name, value in plain[key].items()}
    if "thoughtSignature" in plain:
        # The client wrote base64 for URLs.
        plain["thoughtSignature"] = plain["thoughtSignature"].replace("-", "+").replace("_", "/")
        if plain["thoughtSignature"] == DUMMY_IN_BASE64 and "gemini-2" in model:
            del plain["thoughtSignature"]
    if "text" in plain:
        plain["text"] = plain["text"].strip()
    return plain


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


@each_case
def test_recorded_conversation_said_by_us_has_the_same_contents(exchanges: list[Fields]) -> None:
    for place, exchange in enumerate(exchanges):
        model = model_of(exchange)
        codec = GeminiCodec(model)
        ours = [json.loads(item) for message in rebuilt(exchanges, place) for item in codec.encode(message)]
        theirs = [what_matters(content, model) for content in exchange["request"]["json"]["contents"]]
        assert [what_matters(content, model) for content in ours] == [content for content in theirs if content["parts"]]


@each_case
@pytest.mark.outside
def test_googles_sdk_accepts_the_recorded_conversation_said_by_us(exchanges: list[Fields]) -> None:
    types = pytest.importorskip("google.genai.types", reason="google-genai is not installed")
    for place, exchange in enumerate(exchanges):
        codec = GeminiCodec(model_of(exchange))
        for message in rebuilt(exchanges, place):
            for item in codec.encode(message):
                types.Content.model_validate_json(item)


@each_case
def test_recorded_tools_declared_by_us_are_the_same(exchanges: list[Fields]) -> None:
    for exchange in exchanges:
        recorded = [
            declaration
            for tool in exchange["request"]["json"].get("tools", ())
            for declaration in tool.get("functionDeclarations") or tool.get("function_declarations", ())
        ]
        schemas = [
            item.get("parametersJsonSchema") or item.get("parameters_json_schema") or {"type": "object"}
            for item in recorded
        ]
        tools = [
            LoweredTool(item["name"], ToolSpec(item["name"], item.get("description", ""), schema), schema)
            for item, schema in zip(recorded, schemas, strict=True)
        ]
        body = json.loads(GeminiCodec().request(Prompt("", "", [], tools, stream=False)))
        ours = [item for tool in body.get("tools", ()) for item in tool["functionDeclarations"]]
        assert [(item["name"], item["description"]) for item in ours] == [
            (item["name"], item.get("description", "")) for item in recorded
        ]
        assert [item["parametersJsonSchema"] for item in ours] == schemas


def test_recorded_people_say_nothing_that_the_rebuilding_forgets() -> None:
    kinds = {
        key
        for exchanges in CASES.values()
        for exchange in exchanges
        for content in exchange["request"]["json"]["contents"]
        for part in content["parts"]
        for key in part
        if content["role"] == "user"
    }
    assert kinds == {"text", "fileData", "functionResponse", "function_response"}
