"""One tool as a terminal shows it: its parameters as a table, and an example call (SPEC U2)."""

import shlex
from collections.abc import Iterator, Mapping
from typing import Final

import click
from msgspec import UNSET, UnsetType, structs

from handspan.cli.render import one_line, render_columns
from handspan.core.principals import Origin
from handspan.core.values import Json, JsonObject, encode, escape_invisible, round_seconds, strip_invisible
from handspan.wire.rest.tools import ToolView

_DEEPEST: Final = 5
"""Levels of a schema that the table and the example show: a schema may be recursive."""
_EXAMPLES: Final[dict[str, Json]] = {"string": "text", "integer": 1, "number": 1.5, "boolean": True, "null": None}
_COLUMNS: Final = ("parameter", "type", "", "description")


def print_tool(tool: ToolView) -> None:
    """Print all that is known about a tool."""
    click.echo(f"{tool.name}: {strip_invisible(tool.description).strip()}\n")
    for name, value in _facts(tool):
        click.echo(strip_invisible(f"{name + ':':13}{value}"))
    rows = list(_parameters(tool.parameters, tool.parameters))
    click.echo("" if rows else "\nIt takes no parameters.")
    for line in render_columns([_COLUMNS, *rows]) if rows else ():
        click.echo(line)
    arguments = escape_invisible(encode(_example(tool.parameters, tool.parameters)).decode())
    click.echo(f"\nFor example:  handspan call {tool.name} {shlex.quote(arguments)}")


def _facts(tool: ToolView) -> Iterator[tuple[str, str]]:
    """Yield the lines above a tool's parameters: a name and a text each."""
    yield "origin", f"{Origin(tool.origin.kind, tool.origin.name)}, version {tool.version}"
    yield "permissions", ", ".join(tool.permissions) or "none"
    yield "timeout", "none of its own" if tool.timeout is None else round_seconds(tool.timeout)
    claims = [(name, value) for name, value in structs.asdict(tool.annotations).items() if value]
    yield "annotations", ", ".join(name if value is True else f"{name} {value}" for name, value in claims) or "none"
    yield "agents", ", ".join(tool.agents) or "none"
    if tool.disabled_by is not None:
        yield "off", f"switched off by {tool.disabled_by!r}"
    if tool.missing:
        yield "not offered", tool.missing


def _parameters(schema: Json, root: JsonObject, path: str = "", depth: int = 0) -> Iterator[tuple[str, ...]]:
    """Yield a row for each property, followed by the rows of its inner properties: `box.width`, `points[].x`."""
    given = _resolve(schema, root)
    properties, required = given.get("properties"), given.get("required")
    for name, part in properties.items() if isinstance(properties, dict) and depth < _DEEPEST else ():
        one = _resolve(part, root)
        is_required = isinstance(required, list) and name in required
        text = one_line(strip_invisible(str(one.get("description", ""))))
        yield strip_invisible(path + name), _type(one), "required" if is_required else _default(one), text
        yield from _parameters(one, root, f"{path}{name}.", depth + 1)
        if isinstance(one.get("items"), dict):
            yield from _parameters(one["items"], root, f"{path}{name}[].", depth + 1)


def _type(schema: Mapping[str, Json]) -> str:
    """Return the type of a parameter in one line: its choices, its forms or its types."""
    choices = schema.get("enum")
    if isinstance(choices, list):
        return " | ".join(escape_invisible(encode(choice).decode()) for choice in choices)
    forms = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(forms, list):
        return " | ".join(_type(form) for form in forms if isinstance(form, dict))
    kinds = schema.get("type", "any")
    return " | ".join(map(str, kinds)) if isinstance(kinds, list) else str(kinds)


def _default(schema: Mapping[str, Json]) -> str:
    return f"= {escape_invisible(encode(schema['default']).decode())}" if "default" in schema else ""


def _example(schema: Json, root: JsonObject, depth: int = 0) -> Json:
    """Return a value of the schema's type, with the required properties alone."""
    given = _resolve(schema, root)
    chosen = _first_choice(given)
    forms = given.get("anyOf") or given.get("oneOf")
    if not isinstance(chosen, UnsetType):
        return chosen
    if isinstance(forms, list) and forms and depth < _DEEPEST:
        return _example(forms[0], root, depth + 1)
    kind = given.get("type", "object" if "properties" in given else "string")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    if kind == "array":
        return [_example(given.get("items", {}), root, depth + 1)] if depth < _DEEPEST else []
    if kind != "object":
        return given.get("minimum", _EXAMPLES.get(str(kind), "text"))
    properties, required = given.get("properties"), given.get("required")
    if not isinstance(properties, dict) or not isinstance(required, list) or depth >= _DEEPEST:
        return {}
    return {str(name): _example(properties.get(str(name), {}), root, depth + 1) for name in required}


def _first_choice(schema: Mapping[str, Json]) -> Json | UnsetType:
    """Return a value that the schema itself names; `UNSET` when it names none."""
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    for key in ("examples", "enum"):
        values = schema.get(key)
        if isinstance(values, list) and values:
            return values[0]
    return UNSET


def _resolve(schema: Json, root: JsonObject) -> JsonObject:
    """Return the schema, or the definition that it refers to with `#/…`."""
    for _ in range(_DEEPEST):
        if not isinstance(schema, dict):
            return {}
        target = schema.get("$ref")
        if not isinstance(target, str) or not target.startswith("#/"):
            return schema
        found: Json = root
        for step in target[2:].split("/"):
            found = found.get(step, {}) if isinstance(found, dict) else {}
        schema = found
    return {}
