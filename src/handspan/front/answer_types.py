"""The Python type of an answer: its JSON Schema for the model, and the decoding of what the model sent."""

from collections.abc import Callable, Hashable
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final, Generic, TypeVar, cast

import msgspec

from handspan.agent.final_answer import final_answer_spec
from handspan.core.errors import DefinitionError, ToolError
from handspan.core.late_imports import pydantic
from handspan.core.schema import Validator
from handspan.core.tool import Handling
from handspan.core.values import Arguments, JsonObject

T = TypeVar("T")

_WRAPPED: Final = "answer"
"""The parameter that holds an answer which is not a JSON object, such as a number or a list."""


class AnswerType(Generic[T]):
    """The type of an answer: a dataclass, pydantic model, msgspec Struct, or another type that pydantic describes."""

    def __init__(self, wanted: type[T]) -> None:
        """Raise `DefinitionError` when no JSON Schema can be made of the type."""
        self.name: str = getattr(wanted, "__name__", str(wanted))
        is_struct = hasattr(wanted, "__struct_fields__")  # pydantic does not know the Structs of msgspec
        self._decode, schema = _by_msgspec(wanted) if is_struct else _by_pydantic(wanted, self.name)
        self._is_wrapped = schema.get("type") != "object"
        self.spec = final_answer_spec(_wrap(schema) if self._is_wrapped else schema)
        self.handling = Handling("loop", validator=Validator(self.spec.parameters))

    def from_arguments(self, arguments: Arguments) -> T:
        """Return the value of these arguments of the final call. Raises `ToolError` when they do not fit the type."""
        return self.from_json(msgspec.json.encode(arguments[_WRAPPED] if self._is_wrapped else dict(arguments)))

    def from_json(self, text: bytes) -> T:
        """Return the value of this JSON text. Raises `ToolError` when it does not fit the type."""
        try:
            return self._decode(text)
        except ValueError as error:  # the errors of pydantic and msgspec are ValueErrors
            raise ToolError("invalid_arguments", f"This is not a {self.name}: {_describe_problems(error)}.") from None


def read_answer_type(wanted: type[T]) -> AnswerType[T]:
    """Return the `AnswerType` of this type. It is cached, since a schema takes long to make."""
    return _cached_answer_type(cast(Hashable, wanted))


@lru_cache(maxsize=64)
def _cached_answer_type(wanted: Any) -> AnswerType[Any]:
    return AnswerType(wanted)


def _by_msgspec(wanted: type[T]) -> tuple[Callable[[bytes], T], JsonObject]:
    return msgspec.json.Decoder(wanted).decode, _inline_root(msgspec.json.schema(wanted))


def _by_pydantic(wanted: type[T], name: str) -> tuple[Callable[[bytes], T], JsonObject]:
    """Return both by pydantic; by msgspec, if only that knows the type. Raises `DefinitionError` if neither does."""
    try:
        adapter = pydantic.TypeAdapter(wanted)
        return adapter.validate_json, _inline_root(adapter.json_schema())
    except pydantic.PydanticUserError as error:
        with suppress(TypeError):  # such as a list of Structs
            return _by_msgspec(wanted)
        reason = str(error).splitlines()[0].rstrip(".")
        raise DefinitionError(
            f"{name!r} can't be an answer_type: {reason}. Use a dataclass, a pydantic model or a msgspec Struct."
        ) from None


def _inline_root(schema: dict[str, Any]) -> JsonObject:
    """Return the schema with its keywords at the top: the parameters of a tool can't be a reference."""
    root = schema
    while "$ref" in root:
        root = schema["$defs"][str(root["$ref"]).rsplit("/", 1)[-1]]
    return {**root, **({"$defs": schema["$defs"]} if "$defs" in schema else {})}


def _wrap(schema: JsonObject) -> JsonObject:
    inner = {name: value for name, value in schema.items() if name != "$defs"}
    outer: JsonObject = {"type": "object", "properties": {_WRAPPED: inner}, "required": [_WRAPPED]}
    return {**outer, "$defs": schema["$defs"]} if "$defs" in schema else outer


def _describe_problems(error: ValueError) -> str:
    lines = [line.strip() for line in str(error).splitlines() if "errors.pydantic.dev" not in line]
    return "; ".join(lines)
