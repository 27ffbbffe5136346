"""Writes the types of REST and of a turn's events for the TypeScript SDK; --check only says which file is stale.

    python scripts/sdk_types.py [--check]

REST comes from the OpenAPI document, events from `core/events.py`: a type that changes here changes in the SDK, too.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

from handspan.core.events import Event
from handspan.gateway.rest.door import operations
from handspan.gateway.rest.openapi import encoded_document

SOURCES: Final = Path(__file__).parents[1] / "sdks/typescript/src"
_REST_HEAD: Final = """// Made by scripts/sdk_types.py from the gateway's OpenAPI document. `make docs` writes it anew.

import type { Json, JsonObject } from '../json.js';
"""
_EVENTS_HEAD: Final = """// Made by scripts/sdk_types.py from core/events.py. `make docs` writes it anew.

import type { Json, JsonObject } from '../json.js';
"""
_PLAIN: Final = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
_JSON: Final = "application/json"
_NONE: Final = "undefined"


def rest_file() -> str:
    """The types of REST, as a file of the SDK."""
    document = json.loads(encoded_document(tuple(operations()), ""))
    named = [_interface(name, schema) for name, schema in sorted(document["components"]["schemas"].items())]
    listed = [
        _operation(f"{method.upper()} {path}", operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if path.startswith("/api/") or (method, path) == ("post", "/pair")
    ]
    table = (
        "/** What each route of REST takes and answers. */\nexport interface Operations {\n" + "".join(listed) + "}\n"
    )
    return "\n".join([_REST_HEAD, *named, table])


def events_file() -> str:
    """The events of a turn, as a file of the SDK."""
    (whole,), named = msgspec.json.schema_components([Event], ref_template="#/{name}")
    types = [_interface(name, schema) for name, schema in sorted(named.items())]
    union = "".join(f"\n  | {_type(one)}" for one in whole["anyOf"])
    text = "What happens in a turn (ws.md 3.7); `ended` is the last. A newer gateway may send others: pass them over."
    return "\n".join([_EVENTS_HEAD, *types, f"/** {text} */\nexport type TurnEvent ={union};\n"])


def _interface(name: str, schema: dict[str, Any]) -> str:
    text = " ".join(schema.get("description", "").split())
    head = f"/** {text} */\n" if text else ""
    if schema.get("type") != "object" or "properties" not in schema:
        return f"{head}export type {name} = {_type(schema)};\n"
    fields = "".join(f"  {_field(key, one, schema)}\n" for key, one in schema["properties"].items())
    return f"{head}export interface {name} {{\n{fields}}}\n" if fields else f"{head}export type {name} = JsonObject;\n"


def _field(name: str, schema: dict[str, Any], owner: dict[str, Any]) -> str:
    key = name if re.fullmatch(r"[A-Za-z_]\w*", name) else f"'{name}'"
    if name in owner.get("required", ()):
        return f"{key}: {_type(schema)};"
    return f"{key}?: {_type(schema)} | undefined;"


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"].rsplit("/", 1)[-1])
    if "enum" in schema:
        return " | ".join(_literal(value) for value in schema["enum"])
    if "const" in schema:
        return _literal(schema["const"])
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_type(one) for one in schema["anyOf"]))
    kind = schema.get("type")
    if kind == "array":
        item = _type(schema.get("items") or {})
        return f"({item})[]" if "|" in item else f"{item}[]"
    if kind == "object":
        return (
            f"Record<string, {_type(schema['additionalProperties'])}>"
            if schema.get("additionalProperties")
            else "JsonObject"
        )
    return _PLAIN.get(str(kind), "Json")


def _literal(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else json.dumps(value)


def _operation(name: str, operation: dict[str, Any]) -> str:
    by_place: dict[str, list[str]] = {"path": [], "query": []}
    for one in operation["parameters"]:
        if one["in"] in by_place:
            optional = "" if one["required"] else "?"
            undefined = "" if one["required"] else " | undefined"
            by_place[one["in"]].append(f"{one['name']}{optional}: {_type(one['schema'])}{undefined}")
    path, query = (f"{{ {'; '.join(fields)} }}" if fields else _NONE for fields in by_place.values())
    shape = f"{{ path: {path}; query: {query}; body: {_body(operation)}; answer: {_answer(operation)} }}"
    return f"  '{name}': {shape};\n"


def _body(operation: dict[str, Any]) -> str:
    content = operation.get("requestBody", {}).get("content", {})
    if not content:
        return _NONE
    return _type(content[_JSON]["schema"]) if _JSON in content else "Blob"


def _answer(operation: dict[str, Any]) -> str:
    good = [one.get("content", {}) for status, one in operation["responses"].items() if status.startswith("2")]
    return " | ".join(dict.fromkeys(_type(one[_JSON]["schema"]) if _JSON in one else "Blob" for one in good))


def main() -> None:
    """Write the files, or check them."""
    for name, text in (("rest/types.ts", rest_file()), ("device/events.ts", events_file())):
        target = SOURCES / name
        if "--check" not in sys.argv:
            target.write_text(text)
        elif not target.is_file() or target.read_text() != text:
            sys.exit(f"{name} of the SDK is not what the gateway says. Run: make docs")


if __name__ == "__main__":
    main()
