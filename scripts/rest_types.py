"""Writes the types of REST for the TypeScript SDK, from the OpenAPI document. --check only says if they are stale."""

import json
import re
import sys
from pathlib import Path
from typing import Any, Final

from handspan.gateway.rest.door import operations
from handspan.gateway.rest.openapi import encoded_document

TARGET: Final = Path(__file__).parents[1] / "sdks/typescript/src/rest/types.ts"
_HEAD: Final = """// Made by scripts/rest_types.py from the OpenAPI document of the gateway. `make docs` writes it anew.

import type { Json, JsonObject } from '../device/frames.js';
"""
_PLAIN: Final = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
_JSON: Final = "application/json"
_NONE: Final = "undefined"


def types_file() -> str:
    """The text of the file."""
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
    return "\n".join([_HEAD, *named, table])


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
    """Write the file, or check it."""
    text = types_file()
    if "--check" not in sys.argv:
        TARGET.parent.mkdir(exist_ok=True)
        TARGET.write_text(text)
    elif not TARGET.is_file() or TARGET.read_text() != text:
        sys.exit(f"{TARGET.name} is not what the OpenAPI document says. Run: make docs")


if __name__ == "__main__":
    main()
