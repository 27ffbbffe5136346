"""Would this API take this schema? Written from the vendors' rules alone, not from the compiler."""

import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import msgspec

from handspan.core.values import Json, JsonObject

SCHEMA_KEYS = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
LIST_KEYS = ("anyOf", "oneOf", "allOf", "prefixItems")
MAP_KEYS = ("properties", "patternProperties", "$defs", "dependentSchemas")
TYPES = {"object", "array", "string", "number", "integer", "boolean", "null"}


def walk(schema: Json, path: str = "") -> Iterator[tuple[str, JsonObject]]:
    """Every schema inside, with its place."""
    if not isinstance(schema, dict):
        return
    yield path, schema
    for key in SCHEMA_KEYS:
        yield from walk(schema.get(key), f"{path}/{key}")
    for key in LIST_KEYS:
        several = schema.get(key)
        for index, inner in enumerate(several if isinstance(several, list) else ()):
            yield from walk(inner, f"{path}/{key}/{index}")
    for key in MAP_KEYS:
        by_name = schema.get(key)
        for name, inner in by_name.items() if isinstance(by_name, dict) else ():
            yield from walk(inner, f"{path}/{key}/{name}")


def problems(schema: JsonObject, target: str, strict: bool = False) -> list[str]:
    """Why this API would answer 400; empty when it would not."""
    found = list(_of_json(schema))
    match target:
        case "openai-strict" if strict:
            found += _of_strict(schema)
        case "openai" | "openai-strict":
            found += _of_openai(schema)
        case "anthropic":
            found += _of_anthropic(schema)
        case "gemini":
            found += _of_gemini(schema)
        case "gemini-parameters":
            found += _of_parameters(schema)
        case _:
            found += ["no such target"]
    return found


def _of_json(schema: JsonObject) -> Iterator[str]:
    if len(msgspec.json.encode(schema)) > 2_000_000:
        yield "too large"
    if schema.get("type") != "object":
        yield "the root is no object"
    if not isinstance(schema.get("properties"), dict):
        yield "the root has no properties"
    for path, inner in walk(schema):
        for key in ("$schema", "$id", "$comment", "definitions", "$anchor", "$dynamicRef"):
            if key in inner:
                yield f"{path}: {key}"
        if "$ref" in inner and not _leads_somewhere(schema, inner["$ref"]):
            yield f"{path}: {inner['$ref']} leads nowhere"
        if inner is not schema and "$defs" in inner:
            yield f"{path}: definitions below the root"


def _leads_somewhere(schema: JsonObject, ref: Json) -> bool:
    definitions = schema.get("$defs")
    if not isinstance(ref, str) or not isinstance(definitions, dict | None):
        return False
    return ref == "#" or (ref.startswith("#/$defs/") and ref.removeprefix("#/$defs/") in (definitions or {}))


def _of_openai(schema: JsonObject) -> Iterator[str]:
    yield from _of_draft(schema)
    for key in ("oneOf", "anyOf", "allOf", "enum", "const", "not", "$ref"):
        if key in schema:
            yield f"{key} at the top level"
    for path, inner in walk(schema):
        kinds = inner.get("type")
        if (kinds == "array" or (isinstance(kinds, list) and "array" in kinds)) and "items" not in inner:
            yield f"{path}: array schema missing items"


def _of_anthropic(schema: JsonObject) -> Iterator[str]:
    yield from _of_draft(schema)
    for key in ("oneOf", "anyOf", "allOf", "$ref"):
        if key in schema:
            yield f"{key} at the top level"
    for path, inner in walk(schema):
        yield from _bad_names(path, inner, r"[a-zA-Z0-9_.-]{1,64}")


def _of_draft(schema: JsonObject) -> Iterator[str]:
    try:
        jsonschema_rs.Draft202012Validator(schema)
    except ValueError as error:
        yield f"no JSON Schema of draft 2020-12: {error}"


def _bad_names(path: str, schema: JsonObject, pattern: str) -> Iterator[str]:
    properties = schema.get("properties")
    for name in properties if isinstance(properties, dict) else ():
        if not re.fullmatch(pattern, name):
            yield f"{path}: bad name {name!r}"


# OpenAI strict


STRICT_KEYS = {
    None: {"type", "description", "anyOf", "$ref", "$defs", "enum"},
    "object": {"properties", "required", "additionalProperties"},
    "array": {"items", "minItems", "maxItems"},
    "string": {"pattern", "format"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
}
STRICT_FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}


def _of_strict(schema: JsonObject) -> Iterator[str]:
    yield from _of_draft(schema)
    if "anyOf" in schema or "$ref" in schema:
        yield "the root must be a plain object"
    for path, inner in walk(schema):
        yield from _of_strict_node(path, inner)


def _of_strict_node(path: str, schema: JsonObject) -> Iterator[str]:
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    assert isinstance(kinds, list)
    allowed = set(STRICT_KEYS[None])
    for kind in kinds:
        allowed |= STRICT_KEYS.get("number" if kind == "integer" else str(kind), set())
    if set(schema) - allowed:
        yield f"{path}: {set(schema) - allowed} not permitted"
    if "$ref" in schema and len(schema) > 1:
        yield f"{path}: $ref can't have other keywords"
    if not {"type", "anyOf", "$ref"} & set(schema):
        yield f"{path}: no type"
    if "object" in kinds:
        if schema.get("additionalProperties") is not False:
            yield f"{path}: additionalProperties must be false"
        if not isinstance(schema.get("properties"), dict) or schema.get("required") != list(
            _dict(schema["properties"])
        ):
            yield f"{path}: every property has to be required"
    if "array" in kinds and not _dict(schema.get("items")):
        yield f"{path}: array without typed items"
    if "format" in schema and schema["format"] not in STRICT_FORMATS:
        yield f"{path}: format {schema['format']}"
    if re.search(r"\(\?(=|!|<=|<!)", str(schema.get("pattern", ""))):
        yield f"{path}: look-around"


def _dict(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}


# Gemini


GEMINI_KEYS = {
    *("type", "format", "description", "enum", "anyOf", "default", "items", "prefixItems", "minItems", "maxItems"),
    *("uniqueItems", "minimum", "maximum", "minLength", "maxLength", "pattern", "properties", "required"),
    *("additionalProperties", "minProperties", "maxProperties"),
}


def _of_gemini(schema: JsonObject) -> Iterator[str]:
    yield from _of_draft(schema)
    for path, inner in walk(schema):
        if set(inner) - GEMINI_KEYS:
            yield f"{path}: unknown {set(inner) - GEMINI_KEYS}"
        for value in _list(inner.get("enum")):
            if isinstance(value, bool) or not isinstance(value, str | int | float) or value == "":
                yield f"{path}: enum value {value!r}"
        if inner.get("format", "date-time") != "date-time":
            yield f"{path}: format {inner['format']}"
        yield from _of_gemini_names(path, inner)


def _of_gemini_names(path: str, schema: JsonObject) -> Iterator[str]:
    yield from _bad_names(path, schema, r"[A-Za-z_][A-Za-z0-9_]{0,63}")
    for name in _list(schema.get("required")):
        if name not in _dict(schema.get("properties")):
            yield f"{path}: required {name!r} is not defined"


PARAMETER_KEYS = {
    "object": {"properties", "required", "minProperties", "maxProperties"},
    "array": {"items", "minItems", "maxItems"},
    "string": {"enum", "format", "minLength", "maxLength", "pattern"},
    "number": {"format", "minimum", "maximum"},
    "integer": {"format", "minimum", "maximum"},
    "boolean": set[str](),
}
PARAMETER_FORMATS = {
    "string": {"date-time", "enum"},
    "integer": {"int32", "int64"},
    "number": {"float", "double"},
}


def _of_parameters(schema: JsonObject) -> Iterator[str]:
    for path, inner in walk(schema):
        kind = inner.get("type")
        if "anyOf" in inner:
            if set(inner) != {"anyOf"}:
                yield f"{path}: other fields beside anyOf"
            continue
        if not isinstance(kind, str) or kind not in PARAMETER_KEYS:
            yield f"{path}: type {kind!r}"
            continue
        extra = set(inner) - {"type", "description", "nullable"} - PARAMETER_KEYS[kind]
        if extra:
            yield f"{path}: unknown or only for other types: {extra}"
        for value in _list(inner.get("enum")):
            if not isinstance(value, str) or not value:
                yield f"{path}: enum value {value!r}"
        if "format" in inner and inner["format"] not in PARAMETER_FORMATS[kind]:
            yield f"{path}: format {inner['format']}"
        if kind == "array" and not _dict(inner.get("items")):
            yield f"{path}: items: missing field"
        if path and inner.get("properties") == {}:
            yield f"{path}: properties: should be non-empty"
        if re.search(r"\(\?(=|!|<=|<!)", str(inner.get("pattern", ""))):
            yield f"{path}: look-around"
        yield from _of_gemini_names(path, inner)


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def as_json_schema(schema: Any) -> Any:
    """A schema of Gemini's `parameters` as JSON Schema, to check values with it."""
    if isinstance(schema, list):
        return [as_json_schema(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    changed = {key: as_json_schema(value) for key, value in schema.items() if (key, value) != ("nullable", True)}
    return {"anyOf": [changed, {"type": "null"}]} if schema.get("nullable") is True else changed
