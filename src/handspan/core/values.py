"""The type of JSON values, said once; and their bytes."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

if TYPE_CHECKING:
    Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
else:  # msgspec and pydantic read annotations at run time and can't follow a recursive alias
    Json: TypeAlias = Any

JsonObject: TypeAlias = dict[str, Json]
Arguments: TypeAlias = Mapping[str, Json]
"""What a tool is called with: already parsed, already valid against its schema; never changed by anyone."""


def plain(text: str) -> str:
    """The text without what no database takes: halves of characters."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def encode(value: object) -> bytes:
    """The value as JSON; halves of characters become question marks."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_plain(msgspec.to_builtins(value)))


def _plain(value: Json) -> Json:
    match value:
        case str():
            return plain(value)
        case Mapping():
            return {plain(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case _:
            return value
