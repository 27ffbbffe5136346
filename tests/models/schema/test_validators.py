"""The validators refuse what the real APIs refuse: a check that can't fail would prove nothing."""

import copy
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from handspan.core.messages import Api
from tests.models.schema.validators import VALIDATORS, Body, Issued, Refused, check_gemini

Change: TypeAlias = Callable[[Body], object]

SCHEMA: Body = {"type": "object", "properties": {"city": {"type": "string"}}}
GOOD: dict[Api, Body] = {
    "openai-chat": {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "Go."}]},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "weather", "arguments": "{}"}},
                    {"id": "b", "type": "function", "function": {"name": "weather", "arguments": "{"}},
                ],
            },
            {"role": "tool", "tool_call_id": "b", "content": "fine"},
            {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "fine"}]},
            {"role": "assistant", "content": "Done."},
            {"role": "user", "content": "More."},
        ],
        "tools": [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}],
        "tool_choice": "auto",
    },
    "openai-responses": {
        "model": "m",
        "store": False,
        "input": [
            {"role": "user", "content": "Go."},
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed"},
            {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "weather", "arguments": "{}"},
            {"type": "function_call", "id": "fc_2", "call_id": "b", "name": "weather", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "b", "output": "fine"},
            {"type": "function_call_output", "call_id": "a", "output": [{"type": "input_text", "text": "fine"}]},
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "Done.", "annotations": []}],
            },
            {"role": "user", "content": [{"type": "input_text", "text": "More."}]},
        ],
        "tools": [{"type": "function", "name": "weather", "parameters": SCHEMA, "strict": False}],
    },
    "anthropic": {
        "model": "m",
        "max_tokens": 100,
        "system": "Be brief.",
        "messages": [
            {"role": "user", "content": "Go."},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Hm.", "signature": "sealed"},
                    {"type": "tool_use", "id": "a", "name": "weather", "input": {}},
                    {"type": "tool_use", "id": "b", "name": "weather", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "b", "content": "fine", "is_error": True},
                    {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "fine"}]},
                    {"type": "text", "text": "And more."},
                ],
            },
            {"role": "assistant", "content": "Done."},
            {"role": "user", "content": "More."},
        ],
        "tools": [{"name": "weather", "input_schema": SCHEMA}],
    },
    "gemini": {
        "contents": [
            {"role": "user", "parts": [{"text": "Go."}]},
            {
                "role": "model",
                "parts": [
                    {"functionCall": {"name": "weather", "args": {}}, "thoughtSignature": "sealed"},
                    {"functionCall": {"name": "camera", "args": {}, "id": "b"}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"name": "weather", "response": {"output": 1}}},
                    {"functionResponse": {"name": "camera", "id": "b", "response": {"output": 1}}},
                ],
            },
            {"role": "model", "parts": [{"text": "Done."}]},
            {"role": "user", "parts": [{"text": "More."}]},
        ],
        "tools": [{"functionDeclarations": [{"name": "weather", "parametersJsonSchema": SCHEMA}]}],
    },
}
LISTS: dict[Api, str] = {
    "openai-chat": "messages",
    "openai-responses": "input",
    "anthropic": "messages",
    "gemini": "contents",
}


def setting(*path: str | int, to: Any) -> Change:
    """The change that puts a value at that place."""

    def change(body: Body) -> None:
        inner: Any = body
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = to

    return change


def without(*path: str | int) -> Change:
    """The change that takes away what is at that place."""

    def change(body: Body) -> None:
        inner: Any = body
        for key in path[:-1]:
            inner = inner[key]
        del inner[path[-1]]

    return change


def moving(place: int, to: int) -> Callable[[Api], Change]:
    return lambda api: lambda body: body[LISTS[api]].insert(to, body[LISTS[api]].pop(place))


def check(api: Api, body: Body, issued: Issued | None = None) -> None:
    VALIDATORS[api](body, issued or Issued())


@pytest.mark.parametrize("api", GOOD)
def test_a_good_request_passes(api: Api) -> None:
    check(api, GOOD[api], Issued({"sealed"}, {"fc_1": "rs_1", "fc_2": "rs_1"}))


PICTURE = {"type": "input_image", "image_url": "data:image/bmp;base64,AA"}
STRICT: Body = {**SCHEMA, "required": ["city"], "additionalProperties": False}


@pytest.mark.parametrize(
    ("api", "change", "reason"),
    [
        ("openai-chat", setting("model", to=""), "model"),
        ("openai-chat", setting("messages", to=[]), "too short"),
        ("openai-chat", without("messages", 3), "did not have response"),
        ("openai-chat", moving(5, 4)("openai-chat"), "did not have response"),
        ("openai-chat", moving(6, 3)("openai-chat"), "did not have response"),
        ("openai-chat", lambda body: body["messages"].__delitem__(slice(3, None)), "did not have response"),
        ("openai-chat", without("messages", 2), "preceding message"),
        ("openai-chat", setting("messages", 3, "tool_call_id", to="a"), "preceding message"),
        ("openai-chat", setting("messages", 4, "content", 0, "type", to="image_url"), "only text parts"),
        ("openai-chat", setting("messages", 4, "content", to=[]), "too short"),
        ("openai-chat", setting("messages", 4, "content", to=None), "expected a string"),
        ("openai-chat", setting("messages", 5, "content", to=None), "got null"),
        ("openai-chat", setting("messages", 5, "tool_calls", to=[]), "too short"),
        ("openai-chat", setting("messages", 5, "content", to=[{"type": "image_url"}]), "text only"),
        ("openai-chat", setting("messages", 5, "role", to="model"), "no role"),
        ("openai-chat", setting("messages", 6, "content", to=""), "expected content"),
        ("openai-chat", setting("messages", 6, "tool_calls", to=[]), "only for assistants"),
        ("openai-chat", setting("messages", 1, "content", 0, "type", to="image"), "invalid content"),
        (
            "openai-chat",
            setting("messages", 1, "content", 0, to={"type": "image_url", "image_url": {"url": "data:text/plain,x"}}),
            "supported image",
        ),
        ("openai-chat", setting("messages", 2, "tool_calls", 0, "id", to=""), "id is missing"),
        ("openai-chat", setting("messages", 2, "tool_calls", 0, "id", to="b"), "Duplicate"),
        ("openai-chat", setting("messages", 2, "tool_calls", 0, "type", to=""), "type must be"),
        ("openai-chat", setting("messages", 2, "tool_calls", 0, "function", "name", to="a.b"), "pattern"),
        ("openai-chat", setting("messages", 2, "tool_calls", 0, "function", "arguments", to={}), "expected a string"),
        ("openai-chat", setting("tools", to=[]), "too short"),
        ("openai-chat", without("tools"), "only allowed when 'tools'"),
        ("openai-chat", setting("stream_options", to={}), "stream is true"),
        ("openai-chat", setting("tools", 0, to={"type": "function", "name": "weather"}), "tools\\[0\\].function"),
        ("openai-chat", setting("tools", 0, "type", to="custom"), "'type'"),
        ("openai-chat", setting("tools", 0, "function", "name", to="a.b"), "pattern"),
        ("openai-chat", lambda body: body["tools"].append(body["tools"][0]), "unique"),
        ("openai-chat", setting("tools", 0, "function", "parameters", to={"type": "string"}), "type 'object'"),
        ("openai-chat", setting("tools", 0, "function", "parameters", to={**SCHEMA, "anyOf": []}), "top level"),
        (
            "openai-chat",
            setting("tools", 0, "function", "parameters", "properties", "city", to={"type": "array"}),
            "missing items",
        ),
        ("openai-chat", setting("tools", 0, "function", "strict", to=True), "additionalProperties"),
        ("openai-responses", setting("model", to=""), "model"),
        ("openai-responses", setting("input", to=[]), "input"),
        ("openai-responses", without("input", 4), "No tool output found for function call b"),
        ("openai-responses", without("input", 3), "No tool call found for function call output"),
        ("openai-responses", moving(5, 2)("openai-responses"), "required following item"),
        ("openai-responses", moving(4, 3)("openai-responses"), "No tool call found"),
        ("openai-responses", moving(1, 3)("openai-responses"), "required following item|without its reasoning"),
        ("openai-responses", moving(1, 7)("openai-responses"), "without its reasoning"),
        ("openai-responses", lambda body: body["input"].append(body["input"][1]), "required following item"),
        ("openai-responses", without("input", 1), "without its reasoning"),
        ("openai-responses", setting("input", 5, "call_id", to="b"), "Duplicate output"),
        ("openai-responses", setting("input", 3, "call_id", to="a"), "Duplicate call_id"),
        ("openai-responses", setting("input", 3, "call_id", to=""), "call_id"),
        ("openai-responses", setting("input", 2, "id", to="call_1"), "begin with 'fc'"),
        ("openai-responses", setting("input", 2, "name", to="a b"), "name"),
        ("openai-responses", setting("input", 2, "arguments", to={}), "arguments"),
        ("openai-responses", setting("input", 1, "id", to="x"), "begin with 'rs'"),
        ("openai-responses", without("input", 1, "summary"), "summary"),
        ("openai-responses", without("input", 1, "encrypted_content"), "store is false"),
        ("openai-responses", setting("input", 1, "encrypted_content", to="forged"), "could not be verified"),
        ("openai-responses", setting("input", 4, "output", to={}), "Invalid type"),
        ("openai-responses", setting("input", 5, "output", to=[]), "Invalid output"),
        ("openai-responses", setting("input", 5, "output", to=[PICTURE]), "supported image"),
        ("openai-responses", setting("input", 6, "content", 0, "type", to="input_text"), "Supported values"),
        ("openai-responses", setting("input", 6, "id", to="x"), "begin with 'msg'"),
        ("openai-responses", setting("input", 6, "role", to="model"), "role"),
        ("openai-responses", setting("input", 7, "content", to=""), "empty"),
        ("openai-responses", setting("input", 7, "content", to=[]), "Supported values"),
        ("openai-responses", setting("input", 7, "content", to=[PICTURE]), "supported image"),
        ("openai-responses", setting("input", 7, "type", to="item_reference"), "Invalid value"),
        ("openai-responses", setting("tools", 0, "function", to={}), "Unknown parameter"),
        ("openai-responses", setting("tools", 0, "type", to=""), "type"),
        ("openai-responses", without("tools", 0, "strict"), "strict has to be sent"),
        ("openai-responses", setting("tools", 0, "strict", to=True), "additionalProperties"),
        ("anthropic", setting("model", to=""), "model"),
        ("anthropic", without("max_tokens"), "max_tokens"),
        ("anthropic", setting("messages", to=[]), "at least one"),
        ("anthropic", setting("system", to=""), "system"),
        ("anthropic", lambda body: body.update(tool_choice={"type": "auto"}, tools=[]), "while providing tools"),
        ("anthropic", without("messages", 0), "first message"),
        ("anthropic", setting("messages", 3, "role", to="system"), "Input should be"),
        ("anthropic", without("messages", 2), "without `tool_result` blocks immediately after"),
        ("anthropic", moving(4, 2)("anthropic"), "without `tool_result` blocks immediately after"),
        ("anthropic", lambda body: body["messages"].__delitem__(slice(2, None)), "immediately after"),
        ("anthropic", without("messages", 2, "content", 0), "immediately after: b"),
        ("anthropic", without("messages", 1), "unexpected `tool_use_id`"),
        ("anthropic", setting("messages", 2, "content", 0, "tool_use_id", to="a"), "single result"),
        ("anthropic", lambda body: body["messages"][2]["content"].reverse(), "come first"),
        ("anthropic", setting("messages", 2, "content", 2, "type", to="thinking"), "thinking"),
        ("anthropic", setting("messages", 2, "content", 1, "content", to=[]), "empty list"),
        ("anthropic", setting("messages", 2, "content", 1, "content", 0, "text", to=""), "non-empty"),
        ("anthropic", setting("messages", 2, "content", 1, "content", 0, "type", to="tool_use"), "tool_result of"),
        (
            "anthropic",
            setting("messages", 2, "content", 0, "content", to=[{"type": "image", "source": {"type": "url"}}]),
            'if "is_error" is true',
        ),
        (
            "anthropic",
            setting(
                *("messages", 2, "content", 1, "content", 0),
                to={"type": "image", "source": {"type": "base64", "media_type": "image/bmp"}},
            ),
            "media_type",
        ),
        ("anthropic", setting("messages", 3, "content", to=""), "non-empty"),
        ("anthropic", setting("messages", 3, "content", to=[]), "non-empty content"),
        ("anthropic", setting("messages", 3, "content", to=" \n"), "non-whitespace"),
        (
            "anthropic",
            setting("messages", 3, "content", to=[{"type": "image", "source": {"type": "url"}}]),
            "permitted",
        ),
        ("anthropic", without("messages", 1, "content", 0, "signature"), "signature"),
        ("anthropic", setting("messages", 1, "content", 0, "signature", to="forged"), "Invalid `signature`"),
        ("anthropic", lambda body: body["messages"][1]["content"].reverse(), "final block"),
        ("anthropic", setting("messages", 1, "content", 1, "id", to="a.b"), "tool_use.id"),
        ("anthropic", setting("messages", 1, "content", 1, "id", to="b"), "unique"),
        ("anthropic", setting("messages", 1, "content", 1, "name", to=""), "tool_use.name"),
        ("anthropic", setting("messages", 1, "content", 1, "input", to="{}"), "dictionary"),
        ("anthropic", without("tools", 0, "input_schema"), "Field required"),
        ("anthropic", setting("tools", 0, "input_schema", "type", to="string"), "type 'object'"),
        ("anthropic", setting("tools", 0, "input_schema", "properties", "a b", to={}), "property keys"),
        ("gemini", setting("model", to="m"), "Unknown name"),
        ("gemini", setting("contents", to=[]), "not specified"),
        ("gemini", setting("contents", 3, "role", to="assistant"), "valid role"),
        ("gemini", setting("contents", 3, "parts", to=[]), "must not be empty"),
        ("gemini", setting("contents", 3, "parts", 0, "text", to=""), "must not be empty"),
        ("gemini", setting("contents", 3, "parts", 0, "type", to="text"), "Unknown name"),
        ("gemini", setting("contents", 3, "parts", 0, "inlineData", to={}), "exactly one"),
        ("gemini", setting("contents", 1, "parts", 0, "thoughtSignature", to="forged"), "not valid"),
        ("gemini", without("contents", 2), "number of function response parts"),
        ("gemini", without("contents", 2, "parts", 0), "number of function response parts"),
        ("gemini", without("contents", 1), "number of function response parts"),
        ("gemini", moving(4, 2)("gemini"), "number of function response parts"),
        ("gemini", without("contents", 0), "immediately after a user turn"),
        ("gemini", moving(3, 1)("gemini"), "immediately after a user turn"),
        ("gemini", setting("contents", 1, "role", to="user"), "is the model's"),
        ("gemini", lambda body: body["contents"].__delitem__(slice(2, None)), "no function responses"),
        ("gemini", lambda body: body["contents"].pop(), "end with a user"),
        ("gemini", lambda body: body["contents"][2]["parts"].reverse(), "response 'camera' for 'weather'"),
        ("gemini", setting("contents", 2, "parts", 0, "functionResponse", "id", to="x"), "that of its call"),
        ("gemini", without("contents", 2, "parts", 1, "functionResponse", "id"), "that of its call"),
        ("gemini", setting("contents", 2, "parts", 0, "functionResponse", "response", to=[]), "an object"),
        (
            "gemini",
            setting("contents", 2, "parts", 0, "functionResponse", "parts", to=[{"inlineData": {"mimeType": "a/b"}}]),
            "not supported",
        ),
        ("gemini", setting("contents", 1, "parts", 0, "functionCall", "name", to="1x"), "function name"),
        ("gemini", setting("contents", 1, "parts", 0, "functionCall", "args", to="{}"), "an object"),
        ("gemini", setting("tools", 0, "functionDeclarations", 0, "name", to="1x"), "pattern"),
        ("gemini", setting("tools", 0, "functionDeclarations", 0, "parameters", to={}), "only one kind"),
    ],
)
def test_what_the_api_would_refuse_is_refused(api: Api, change: Change, reason: str) -> None:
    body = copy.deepcopy(GOOD[api])
    change(body)
    with pytest.raises(Refused, match=reason):
        check(api, body, Issued({"sealed"}, {"fc_1": "rs_1", "fc_2": "rs_1"}))


@pytest.mark.parametrize(
    "schema",
    [
        {**SCHEMA, "additionalProperties": False},
        {**STRICT, "minProperties": 1},
        {**STRICT, "properties": {"city": {"type": "string", "format": "uri"}}},
        {**STRICT, "properties": {"city": {"$ref": "#/$defs/x", "description": "x"}}},
        {**STRICT, "properties": {"city": {"anyOf": [{"type": "object", "properties": {}}]}}},
        {**STRICT, "properties": {"city": {"type": "array", "items": {"type": "string", "minLength": 1}}}},
    ],
)
def test_strict_mode_takes_less(schema: Body) -> None:
    body = copy.deepcopy(GOOD["openai-responses"])
    body["tools"][0] |= {"strict": True, "parameters": STRICT}
    check("openai-responses", body)
    body["tools"][0]["parameters"] = schema
    with pytest.raises(Refused):
        check("openai-responses", body)


@pytest.mark.parametrize(
    "part",
    [
        {"type": ["string", "null"]},
        {"const": "x"},
        {"type": "integer", "enum": [1]},
        {"type": "integer", "exclusiveMinimum": 1},
        {"anyOf": [{"type": "string"}], "description": "x"},
        {"type": "object", "additionalProperties": False},
    ],
)
def test_geminis_subset_takes_less(part: Body) -> None:
    body = copy.deepcopy(GOOD["gemini"])
    declaration: Body = {"name": "weather", "parameters": copy.deepcopy(SCHEMA)}
    body["tools"][0]["functionDeclarations"] = [declaration]
    check("gemini", body)
    declaration["parameters"]["properties"]["city"] = part
    with pytest.raises(Refused):
        check("gemini", body)


def test_gemini_3_wants_the_first_call_signed() -> None:
    body = copy.deepcopy(GOOD["gemini"])
    del body["contents"][1]["parts"][0]["thoughtSignature"]
    check_gemini(body, model="gemini-2.5-flash")
    with pytest.raises(Refused, match="missing a thought_signature"):
        check_gemini(body, model="gemini-3-flash")
