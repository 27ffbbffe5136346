"""The type of JSON values, and their bytes."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

if TYPE_CHECKING:
    Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
else:  # msgspec and pydantic read annotations at run time and can't use a recursive alias
    Json: TypeAlias = Any

JsonObject: TypeAlias = dict[str, Json]
Arguments: TypeAlias = Mapping[str, Json]
"""What a tool is called with: parsed, valid against its schema, and never changed."""


def sanitize(text: str) -> str:
    """Return the text with question marks for lone surrogates, which no database stores."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def encode(value: object) -> bytes:
    """Return the value as JSON. Lone surrogates become question marks."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_sanitize_all(msgspec.to_builtins(value)))


def _sanitize_all(value: Json) -> Json:
    match value:
        case str():
            return sanitize(value)
        case Mapping():
            return {sanitize(key): _sanitize_all(item) for key, item in value.items()}
        case list() | tuple():
            return [_sanitize_all(item) for item in value]
        case _:
            return value
