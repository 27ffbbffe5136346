"""The type of JSON values, said once."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
else:  # msgspec and pydantic read annotations at run time and can't follow a recursive alias
    Json: TypeAlias = Any

JsonObject: TypeAlias = dict[str, Json]
Arguments: TypeAlias = Mapping[str, Json]
"""What a tool is called with: already parsed, already valid against its schema; never changed by anyone."""
