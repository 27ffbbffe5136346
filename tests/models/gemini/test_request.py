"""What we send to Gemini: tools and everything else around the contents."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from handspan.core.messages import (
    AssistantMessage,
    CallPart,
    CallResult,
    Media,
    Message,
    ResultsMessage,
    Text,
    Thinking,
    UserMessage,
)
from handspan.core.results import Attachment
from handspan.core.tool import ToolSpec
from handspan.core.values import Json, JsonObject
from handspan.models.gemini.codec import GeminiCodec
from handspan.models.http import join_url
from handspan.models.model import LoweredTool, Prompt
from tests.models.gemini.test_codec import NEW, OLD, PNG, native_answer, success_result


def tool(name: str, schema: JsonObject) -> LoweredTool:
    return LoweredTool(name, ToolSpec(name, f"What {name} does.", {"type": "object"}), schema)


def build_request(codec: GeminiCodec, declared: Sequence[LoweredTool] = (), **options: Json) -> dict[str, Any]:
    items = codec.encode(UserMessage((Text("hi"),)))
    body: dict[str, Any] = json.loads(codec.request(Prompt(NEW, "", items, declared, stream=True, options=options)))
    return body


def test_request_without_tools_and_instructions_has_contents_only() -> None:
    assert build_request(GeminiCodec(NEW)) == {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}


def test_tools_are_declared_with_their_json_schema_and_left_to_the_model() -> None:
    schema: JsonObject = {"type": "object", "properties": {"path": {"type": "string"}}}
    body = build_request(GeminiCodec(NEW), [tool("read", schema), tool("now", {"type": "object", "properties": {}})])
    assert body["tools"] == [
        {
            "functionDeclarations": [
                {"name": "read", "description": "What read does.", "parametersJsonSchema": schema},
                {
                    "name": "now",
                    "description": "What now does.",
                    "parametersJsonSchema": {"type": "object", "properties": {}},
                },
            ]
        }
    ]
    assert body["toolConfig"] == {"functionCallingConfig": {"mode": "AUTO"}}


def test_instructions_are_the_system_instruction() -> None:
    body = json.loads(GeminiCodec().request(Prompt(NEW, "Be brief.", [], [], stream=False)))
    assert body == {"contents": [], "systemInstruction": {"parts": [{"text": "Be brief."}]}}


def test_options_go_into_the_generation_config_under_its_names() -> None:
    body = build_request(
        GeminiCodec(),
        max_tokens=100,
        temperature=0,
        top_p=0.5,
        stop="END",
        thinkingConfig={"thinkingBudget": 0},
        seed=None,
    )
    assert body["generationConfig"] == {
        "maxOutputTokens": 100,
        "temperature": 0,
        "topP": 0.5,
        "stopSequences": ["END"],
        "thinkingConfig": {"thinkingBudget": 0},
    }


def test_options_that_are_fields_of_the_request_stay_beside_the_contents() -> None:
    settings: dict[str, Json] = {
        "generationConfig": {"temperature": 1},
        "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}],
        "temperature": 0,
        "toolConfig": {"functionCallingConfig": {"mode": "VALIDATED"}, "includeServerSideToolInvocations": True},
        "tools": [{"googleSearch": {}}],
    }
    body = build_request(GeminiCodec(), [tool("now", {"type": "object"})], **settings)
    assert body["generationConfig"] == {"temperature": 1}
    assert body["safetySettings"] == settings["safetySettings"]
    assert body["toolConfig"] == settings["toolConfig"]
    assert [sorted(item) for item in body["tools"]] == [["functionDeclarations"], ["googleSearch"]]


@pytest.mark.parametrize(
    ("model", "stream", "path"),
    [
        (NEW, True, f"/v1beta/models/{NEW}:streamGenerateContent?alt=sse"),
        (NEW, False, f"/v1beta/models/{NEW}:generateContent"),
        ("models/x", False, "/v1beta/models/x:generateContent"),
        ("tunedModels/x", False, "/v1beta/tunedModels/x:generateContent"),
        ("a?b#c d", False, "/v1beta/models/a%3Fb%23c%20d:generateContent"),
    ],
)
def test_model_stands_in_the_path(model: str, stream: bool, path: str) -> None:
    assert GeminiCodec().path(model, stream=stream) == path


@pytest.mark.parametrize(
    "url", ["https://a.example", "https://a.example/", "https://a.example/v1beta", "https://a.example/v1beta/"]
)
def test_base_url_may_hold_the_version(url: str) -> None:
    whole = join_url(url, GeminiCodec().path("m", stream=False))
    assert whole == "https://a.example/v1beta/models/m:generateContent"


def test_key_is_in_a_header_and_nowhere_else() -> None:
    codec = GeminiCodec()
    assert codec.headers("secret") == {"x-goog-api-key": "secret"}
    assert codec.headers("") == {}
    assert "secret" not in codec.path(NEW, stream=True)


# Google's own SDK takes all of it


@pytest.mark.outside
def test_sdk_types_accept_a_request_with_everything_in_it() -> None:
    types = pytest.importorskip("google.genai.types", reason="google-genai is not installed")
    calls = tuple(CallPart(f"c{number}", "look", '{"at": [1, 2.5]}', f"w{number}") for number in range(3))
    error = CallResult("c1", "look", '{"status":"error","code":"timeout","message":"slow"}', is_error=True)
    sound = Attachment("audio", "audio/wav", b"RIFF")
    history: list[Message] = [
        UserMessage((Text("see"), Media(PNG))),
        AssistantMessage((Thinking("hm"), Text("I look"), *calls), "calls"),
        ResultsMessage(
            (success_result({"a": 1}, "c0"), error, success_result({"$ref": "#/x"}, "c2", attachments=(PNG, sound)))
        ),
        native_answer({"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "c2ln"}),
        ResultsMessage((success_result([1]),)),
    ]
    schema: JsonObject = {"type": "object", "properties": {"path": {"type": "string"}}, "additionalProperties": False}
    for model in (NEW, OLD):
        codec = GeminiCodec(model)
        items = [item for message in history for item in codec.encode(message)]
        prompt = Prompt(model, "Be brief.", items, [tool("look", schema)], stream=True, options={"max_tokens": 9})
        body = json.loads(codec.request(prompt))
        for content in body.pop("contents"):
            types.Content.model_validate_json(json.dumps(content))
        types.Content.model_validate(body.pop("systemInstruction"))
        for declared in body.pop("tools"):
            types.Tool.model_validate(declared)
        types.ToolConfig.model_validate(body.pop("toolConfig"))
        types.GenerationConfig.model_validate(body.pop("generationConfig"))
        assert body == {}
