"""SPEC M3: the schemas that real servers list and real requests carried, and what the vendors' own SDKs say to them."""

import copy
import itertools
import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from handspan.core.tool import ToolSpec
from handspan.core.values import JsonObject
from handspan.models.model import LoweredTool
from handspan.models.schema.lowering import Target, lower_all
from tests.models.schema.rules import problems
from tests.models.schema.test_lowering import every_target
from tests.recorded import PROVIDERS, conversations, mcp_tools

HARD: JsonObject = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Arguments",
    "oneOf": [
        {"type": "object", "properties": {"kind": {"const": "a"}, "tree": {"$ref": "#/definitions/tree"}}},
        {"type": "object", "properties": {"kind": {"const": "b"}, "n": {"type": ["integer", "null"], "minimum": 1}}},
    ],
    "properties": {
        "mixed": {"enum": ["a", 1, True, None]},
        "tuple": {"type": "array", "items": [{"type": "string"}, {"type": "number"}], "additionalItems": False},
        "when": {"type": "string", "format": "date-time", "examples": ["2026-01-01T00:00:00Z"]},
        "where": {"type": "string", "format": "uri", "pattern": "^(?!ftp).+"},
        "share": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
        "map": {"type": "object", "additionalProperties": {"type": "integer"}},
    },
    "required": ["kind"],
    "definitions": {
        "tree": {
            "type": "object",
            "properties": {"v": {"type": "string"}, "kids": {"type": "array", "items": {"$ref": "#/definitions/tree"}}},
            "required": ["v"],
        }
    },
}
"""What every part of the subsets has to do with."""


def _declared_schemas(request: Any) -> Iterator[tuple[str, Any]]:
    for tool in (request.get("tools") or ()) if isinstance(request, dict) else ():
        for declared in tool.get("functionDeclarations") or [tool.get("function") or tool]:
            for key in ("parameters", "input_schema", "parametersJsonSchema", "parameters_json_schema"):
                if isinstance(declared.get(key), dict):
                    # Gemini's `parameters` write types in capitals
                    yield declared.get("name", "t"), _folded_types(declared[key])


@cache
def recorded_specs() -> tuple[ToolSpec, ...]:
    found: dict[str, ToolSpec] = {}
    for provider in PROVIDERS:
        for exchange in itertools.chain.from_iterable(conversations(provider).values()):
            for name, schema in _declared_schemas(exchange["request"].get("json")):
                text = json.dumps(schema, sort_keys=True)
                found.setdefault(text, ToolSpec(f"{name}_{len(found)}", "Does.", schema))
    return tuple(found.values())


@cache
def mcp_specs() -> tuple[ToolSpec, ...]:
    tools = [entry["tool"] for entry in mcp_tools()]
    return tuple(ToolSpec(tool["name"], tool.get("description", ""), tool["inputSchema"]) for tool in tools)


def all_specs() -> tuple[ToolSpec, ...]:
    return (ToolSpec("hard", "Does.", HARD), *mcp_specs(), *recorded_specs())


def all_lowered(target: Target) -> tuple[LoweredTool, ...]:
    return lower_all(all_specs(), target).tools


@every_target
def test_real_schemas_are_lowered_to_what_the_api_takes(target: Target) -> None:
    for specs, at_least in ((mcp_specs(), 25), (recorded_specs(), 25)):
        before = copy.deepcopy([spec.parameters for spec in specs])
        found = lower_all(specs, target)
        assert len(specs) >= at_least
        assert [spec.parameters for spec in specs] == before
        assert [problem for tool in found.tools for problem in problems(tool.schema, target, tool.strict)] == []
        assert [(quarantined.spec.name, quarantined.reason) for quarantined in found.quarantined] == []


def test_real_schemas_lose_nothing_where_the_api_takes_nearly_everything() -> None:
    for target in ("openai", "anthropic"):
        assert [loss for tool in lower_all(mcp_specs(), target).tools for loss in tool.losses] == []


def test_most_real_schemas_can_be_strict() -> None:
    found = lower_all(mcp_specs(), "openai-strict").tools
    assert sum(tool.strict for tool in found) >= 23


@every_target
def test_a_schema_with_every_trap_is_lowered(target: Target) -> None:
    found = all_lowered(target)[0]
    assert found.name == "hard"
    assert problems(found.schema, target, found.strict) == []
    assert found.losses


# The vendors' SDKs as oracles


@pytest.mark.filterwarnings("ignore")  # theirs are not ours
@pytest.mark.outside
def test_google_s_types_take_every_declaration() -> None:
    types = pytest.importorskip("google.genai.types")
    for tool in all_lowered("gemini-parameters"):
        read = types.FunctionDeclaration(name=tool.name, description="Does.", parameters=tool.schema)
        sent = read.model_dump(by_alias=True, exclude_none=True, mode="json")["parameters"]
        assert _folded_types(sent) == _folded_types(tool.schema)
    for tool in all_lowered("gemini"):
        types.FunctionDeclaration(name=tool.name, description="Does.", parameters_json_schema=tool.schema)
        types.JSONSchema.model_validate(_without_tuples(tool.schema))


def _without_tuples(value: Any) -> Any:
    """Without `prefixItems`, which Google's documents and answers take and this class does not know."""
    if isinstance(value, list):
        return [_without_tuples(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: _without_tuples(inner) for key, inner in value.items() if key != "prefixItems"}


def _folded_types(value: Any) -> Any:
    """The same for `STRING` and `string`, and for 1 and 1.0."""
    if isinstance(value, list):
        return [_folded_types(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: v.lower() if key == "type" and isinstance(v, str) else _folded_types(v) for key, v in value.items()}


@pytest.mark.filterwarnings("ignore")  # theirs are not ours
@pytest.mark.outside
def test_openai_s_own_strict_form_of_a_strict_schema_is_itself() -> None:
    module = pytest.importorskip("openai.lib._pydantic")
    strict = [tool for tool in all_lowered("openai-strict") if tool.strict]
    for tool in strict:
        theirs = copy.deepcopy(tool.schema)
        assert module._ensure_strict_json_schema(theirs, path=(), root=theirs) == tool.schema
    assert strict


@pytest.mark.filterwarnings("ignore")  # theirs are not ours
@pytest.mark.outside
def test_anthropic_s_types_take_every_tool() -> None:
    anthropic, pydantic = pytest.importorskip("anthropic.types"), pytest.importorskip("pydantic")
    adapter = pydantic.TypeAdapter(anthropic.ToolParam)
    for tool in all_lowered("anthropic"):
        adapter.validate_python({"name": tool.name, "description": "Does.", "input_schema": tool.schema})


@pytest.mark.filterwarnings("ignore")  # theirs are not ours
@pytest.mark.outside
def test_openai_s_types_take_every_tool() -> None:
    chat, pydantic = pytest.importorskip("openai.types.chat"), pytest.importorskip("pydantic")
    adapter = pydantic.TypeAdapter(chat.ChatCompletionFunctionToolParam)
    for tool in (*all_lowered("openai"), *all_lowered("openai-strict")):
        function = {"name": tool.name, "description": "Does.", "parameters": tool.schema, "strict": tool.strict}
        adapter.validate_python({"type": "function", "function": function})
