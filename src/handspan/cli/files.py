"""What commands read from files and write to them: JSON, messages, tools."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import msgspec

from handspan.core.errors import HandspanError, WireError
from handspan.core.messages import Message
from handspan.core.tool import ToolSpec
from handspan.core.values import Json, JsonObject
from handspan.wire import strict_json

_NO_PARAMETERS: Final[JsonObject] = {"type": "object", "properties": {}}


def read_json(given: str) -> Json:
    """Return the content of the file of that name ('-' is standard input), else the argument itself, as JSON."""
    path = Path(given)
    try:
        is_file = path.is_file()
    except (OSError, ValueError):  # longer than a file name can be: JSON, then
        is_file = False
    try:
        if given == "-":
            return strict_json.parse(sys.stdin.buffer.read())
        return strict_json.parse(path.read_bytes() if is_file else given)
    except WireError as error:
        what = f"The file {given!r}" if is_file else f"{given[:60]!r} is no file, and as JSON it"
        raise click.UsageError(f"{what} can't be read: {error}") from None


def read_batch() -> Iterator[tuple[int, Json | WireError]]:
    """Yield each line of standard input that is not empty: its number, and its JSON or why it can't be read."""
    for number, line in enumerate(sys.stdin.buffer, 1):
        if text := line.strip():
            try:
                yield number, strict_json.parse(text)
            except WireError as error:
                yield number, error


def write_new_file(file: Path, content: bytes) -> None:
    """Write a file that is not there yet. Raises `HandspanError` when that is not possible."""
    try:
        with file.open("xb") as new:
            new.write(content)
    except OSError as error:
        raise HandspanError(f"{str(file)!r} can't be written: {error.strerror}.") from None


def as_messages(value: Json) -> list[Message]:
    """Return a conversation: a list of our messages, where a text alone is what a person says."""
    items = value if isinstance(value, list) else [value]
    plain: list[Json] = [
        {"type": "user", "parts": [{"type": "text", "text": item}]} if isinstance(item, str) else item for item in items
    ]
    try:
        return msgspec.convert(plain, list[Message])
    except msgspec.ValidationError as error:
        raise click.UsageError(f"The messages can't be read: {error}") from None


def as_specs(value: Json) -> list[ToolSpec]:
    """Return the tools: one or a list of {name, description, parameters}, or as OpenAI, Anthropic or MCP write them."""
    items = value if isinstance(value, list) else [value]
    try:
        return msgspec.convert([_as_spec(item) for item in items], list[ToolSpec])
    except msgspec.ValidationError as error:
        raise click.UsageError(f"The tools can't be read: {error}") from None


def _as_spec(item: Json) -> Json:
    """Return the spec in our own form. A description and a schema may be missing; a name may not."""
    if not isinstance(item, dict):
        return item
    given = item["function"] if isinstance(item.get("function"), dict) else item
    assert isinstance(given, dict)
    schemas = (given.get(key) for key in ("parameters", "inputSchema", "input_schema"))
    parameters = next((schema for schema in schemas if schema is not None), _NO_PARAMETERS)
    spec: JsonObject = {"description": given.get("description") or "", "parameters": parameters}
    return {**spec, "name": given["name"]} if "name" in given else spec
