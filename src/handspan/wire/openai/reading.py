"""Reads bodies of OpenAI's API: a null is as good as a missing field, an unknown field is ignored and named."""

import re
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from handspan.core.errors import WireError
from handspan.core.values import Json, JsonObject
from handspan.wire import strict_json
from handspan.wire.json_size import MAX_VALUES

Body = TypeVar("Body", bound=Struct)
_MOST_NAMED: Final = 20
_LONGEST_NAME: Final = 64
_SCHEMAS: Final = frozenset(("parameters", "schema"))
"""Fields with a JSON Schema: there a null may have a meaning."""
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+")


class WrongParameter(WireError):
    """A parameter of a request to OpenAI's API is wrong; says which one."""

    def __init__(self, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.param = param
        self.code = code


def read_body(raw: bytes, kind: type[Body]) -> tuple[Body, list[str]]:
    """Return the body, and the names of parameters that are ignored. Raises `WrongParameter`."""
    try:
        value = strict_json.parse(raw, max_values=MAX_VALUES)
    except WireError as error:
        raise WrongParameter(f"The body can't be read. {error}") from None
    if not isinstance(value, dict):
        raise WrongParameter("The body is not a JSON object: send one.")
    given: JsonObject = {key: item for key, item in value.items() if item is not None}
    known = {field.encode_name for field in msgspec.structs.fields(kind)}
    return convert(given, kind), _names([key for key in given if key not in known])


def convert(value: Json, kind: type[Body], place: str = "") -> Body:
    """Return the value as this type, without its nulls. Raises `WrongParameter`, which names the place."""
    try:
        return msgspec.convert(_drop_nulls(value), kind)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        param = f"{place}{path.rstrip('`')}".lstrip(".") or place or None
        if missing := re.search(r"missing required field `([^`]+)`", message):
            param = f"{param}.{missing[1]}" if param else missing[1]
            text = f"Missing required parameter: {param!r}."
            raise WrongParameter(text, param, "missing_required_parameter") from None
        shown = re.sub(r"`([^`]+)`", r"\1", message[:200])
        raise WrongParameter(f"Invalid value for {param or 'the body'!r}: {shown}.", param, "invalid_value") from None


def _drop_nulls(value: Json) -> Json:
    """Return the value without fields that are null: clients send them for what they do not say."""
    if isinstance(value, dict):
        given = ((key, item) for key, item in value.items() if item is not None)
        return {key: item if key in _SCHEMAS else _drop_nulls(item) for key, item in given}
    return [_drop_nulls(item) for item in value] if isinstance(value, list) else value


def _names(unknown: list[str]) -> list[str]:
    """Return names that a header can hold."""
    return [name for name in sorted(unknown) if len(name) <= _LONGEST_NAME and _NAME.fullmatch(name)][:_MOST_NAMED]
