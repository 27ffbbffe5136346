"""Parameter schemas: checked once when a tool is registered, enforced on every call (SPEC T1, E1, M3).

All of JSON Schema 2020-12 is legal, recursion too; what is refused is what would leave the house (a `$ref` to
somewhere else) or can't work (patterns that do not compile, schemas without end).
"""

import itertools
from collections.abc import Callable, Iterator
from typing import Final, NoReturn

import jsonschema_rs
import msgspec

from handspan.core.effort import Effort, has_references, without_repeated_all_of
from handspan.core.errors import DefinitionError, ToolError
from handspan.core.names import did_you_mean
from handspan.core.values import Arguments, Json, JsonObject

MAX_BYTES: Final = 256 * 1024
MAX_DEPTH: Final = 64
ARGUMENTS: Final = "the arguments object"

_MAX_PROBLEMS: Final = 20
_MAX_QUOTED: Final = 80
_MAX_TEXT: Final = 4000
_MAX_HINTED: Final = 500
_MAX_WAYS: Final = 3000
"""Through a schema, when a tool is registered: more of them, and every call's are counted."""
_MAX_STEPS: Final = 5000
"""Of checking one call's arguments, where they are counted."""
_FEW: Final = 20
_TOO_DEEP: Final = f"the schema is nested deeper than {MAX_DEPTH} levels"
_MASK: Final = "\ufffc"
_ABOUT_LENGTH: Final = (jsonschema_rs.ValidationErrorKind.MinItems, jsonschema_rs.ValidationErrorKind.Contains)
_TOO_MUCH: Final = (
    "they do not fit the tool's schema, or are too large to be checked against it: "
    "compare each parameter with the schema, or send less at once"
)


class Validator:
    """Enforces one schema."""

    __slots__ = ("_compiled", "_effort", "_schema", "_whole", "is_valid")

    def __init__(self, schema: JsonObject, *, whole: str = ARGUMENTS) -> None:
        """Compile this schema; `DefinitionError` with the reason when that is not possible.

        `whole` names in words what is checked. Only arguments have to be an object.
        """
        encoded = _check_bounds(schema)
        if whole == ARGUMENTS:
            _check_object(schema)
        self._schema = schema
        self._whole = whole
        self._effort = Effort(schema) if has_references(encoded) else None
        if self._effort is None or self._effort.is_within(_MAX_WAYS):
            self._compiled = _compile(schema)
            self.is_valid: Callable[[Json | Arguments], bool] = self._compiled.is_valid
            return
        schema = without_repeated_all_of(schema)
        self._effort = Effort(schema)
        self._compiled = _compile(schema)
        is_small_now = self._effort.is_within(_MAX_WAYS)
        self.is_valid = self._compiled.is_valid if is_small_now else self._is_valid_with_care

    def problems(self, arguments: Json) -> list[str]:
        """Everything that is wrong with these arguments, in words that a model can act on; empty when nothing is."""
        try:
            if (isinstance(arguments, dict) or self._whole != ARGUMENTS) and self.is_valid(arguments):
                return []
            errors = self._errors(arguments)
            told = list(dict.fromkeys(self._say(error) for error in itertools.islice(errors, _MAX_PROBLEMS)))
            return (told if next(errors, None) is None else [*told, "and more"]) or [_TOO_MUCH]
        except RecursionError:
            return ["they are nested too deeply"]
        except ValueError as error:
            return [str(error)]

    def check(self, arguments: Json) -> None:
        """Raise `invalid_arguments` with every problem at once."""
        problems = self.problems(arguments)
        if problems:
            said = _clipped("; ".join(problems), _MAX_TEXT)
            raise ToolError("invalid_arguments", f"Invalid arguments: {said}{'' if said.endswith('?') else '.'}")

    def _is_valid_with_care(self, arguments: Json | Arguments) -> bool:
        """For a schema whose ways multiply: only arguments that can be checked in no time can be valid."""
        assert self._effort is not None
        return self._effort.is_within(_MAX_STEPS, arguments) and self._compiled.is_valid(arguments)

    def _errors(self, arguments: Json) -> Iterator[jsonschema_rs.ValidationError]:
        """The library finds every error before it gives the first one, so what is too much for that is left out."""
        effort = self._effort or Effort(self._schema)
        if effort.is_within(_MAX_STEPS, arguments):
            return iter(self._compiled.iter_errors(arguments))
        shortened = _shortened(arguments)
        if effort.is_within(_MAX_STEPS, shortened):
            errors = self._compiled.iter_errors(shortened)
            return (error for error in errors if not isinstance(error.kind, _ABOUT_LENGTH))
        return iter(())

    def _say(self, error: jsonschema_rs.ValidationError, with_hints: bool = True) -> str:
        where = _path(error.instance_path)
        match error.kind:
            case jsonschema_rs.ValidationErrorKind.Required(property=name):
                return f"missing required parameter {_joined(where, name)!r}"
            case (
                jsonschema_rs.ValidationErrorKind.AdditionalProperties(unexpected=names)
                | jsonschema_rs.ValidationErrorKind.UnevaluatedProperties(unexpected=names)
            ):
                known = self._properties_at(error.schema_path)[:_MAX_HINTED] if with_hints else []
                hints = [did_you_mean(name, known) for name in names[:3]] + [""] * _MAX_PROBLEMS
                return "; ".join(
                    f"unknown parameter {_joined(where, name)!r}.{hint}".removesuffix(".")
                    for name, hint in zip(names[:_MAX_PROBLEMS], hints, strict=False)
                )
            case jsonschema_rs.ValidationErrorKind.Enum(options=options):
                return f"{self._named(where)} must be one of {_quoted(options)}, not {_quoted(error.instance)}"
            case jsonschema_rs.ValidationErrorKind.Type(types=types):
                wanted = " or ".join(sorted(types))
                return f"{self._named(where)} must be of type {wanted}, not {_typed(error.instance)}"
            case jsonschema_rs.ValidationErrorKind.FalseSchema():
                is_object = not where or error.schema_path[-1:] == ["additionalProperties"]
                return f"{self._named(where)} {'must be empty' if is_object else 'is not allowed'}"
            case (
                jsonschema_rs.ValidationErrorKind.AnyOf(context=context)
                | jsonschema_rs.ValidationErrorKind.OneOfNotValid(context=context)
            ):
                return self._say_all(error, context)
            case _:
                # A masked message has a placeholder where the value would stand in its full length.
                return _clipped(f"{self._named(where)}: {error.message.replace(_MASK, _quoted(error.instance))}", 300)

    def _say_all(self, error: jsonschema_rs.ValidationError, context: list[list[jsonschema_rs.ValidationError]]) -> str:
        """Why none of several forms fits: in one breath when each of them is just another type."""
        where, wanted = _path(error.instance_path), set[str]()
        for branch in context:
            match [(problem.kind, problem.instance_path) for problem in branch]:
                case [(jsonschema_rs.ValidationErrorKind.Type(types=types), path)] if path == error.instance_path:
                    wanted.update(types)
                case _:
                    choices = [" and ".join(self._say(inner, False) for inner in branch) for branch in context]
                    told = " / ".join(dict.fromkeys(choices))
                    return _clipped(f"{self._named(where)} fits none of its {len(context)} forms: {told}", 600)
        return f"{self._named(where)} must be of type {' or '.join(sorted(wanted))}, not {_typed(error.instance)}"

    def _named(self, path: str) -> str:
        return f"parameter {path!r}" if path else self._whole

    def _properties_at(self, schema_path: list[str | int]) -> list[str]:
        """The property names that the object schema at this path lists."""
        found: Json = self._schema
        for step in schema_path[:-1]:
            if isinstance(found, dict) and isinstance(step, str):
                found = found.get(step)
            elif isinstance(found, list) and isinstance(step, int):
                found = found[step]
        properties = found.get("properties") if isinstance(found, dict) else None
        return list(properties) if isinstance(properties, dict) else []


def _compile(schema: JsonObject) -> jsonschema_rs.Validator:
    try:
        return jsonschema_rs.validator_for(schema, retriever=_refuse, mask=_MASK)
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        raise DefinitionError(f"the schema can't be used: {_reason(error)}{_where_in_schema(error)}") from None


def _reason(error: Exception) -> str:
    """The library's reason in a line: its text goes on with the schema itself."""
    text = (
        str(error)
        .partition("\n")[0]
        .partition(". Custom meta-schemas")[0]
        .replace(_MASK, _quoted(getattr(error, "instance", None)))
    )
    missing, is_elsewhere, _ = text.partition(" is not present in a registry")
    if is_elsewhere:
        return f"a $ref may only point into the schema itself, not to {missing.removeprefix('Resource ')}"
    return _clipped(text, 300)


def _refuse(uri: str) -> NoReturn:
    raise ValueError(f"nothing is fetched, not even {uri!r}")


def _check_bounds(schema: JsonObject) -> bytes:
    """The schema as JSON; `DefinitionError` when it is none that arguments could have."""
    if not isinstance(schema, dict):
        raise DefinitionError(f"the schema must be a JSON object, not {_type_of(schema)}")
    try:
        encoded = msgspec.json.encode(schema)
    except RecursionError:
        raise DefinitionError(_TOO_DEEP) from None
    except (TypeError, ValueError) as error:
        raise DefinitionError(f"the schema is not JSON: {error}") from None
    if len(encoded) > MAX_BYTES:
        raise DefinitionError(f"the schema has {len(encoded)} bytes; at most {MAX_BYTES} are taken")
    if _deeper_than(schema, MAX_DEPTH):
        raise DefinitionError(_TOO_DEEP)
    return encoded


def _check_object(schema: JsonObject) -> None:
    wanted = schema.get("type", "object")
    if wanted != "object" and not (isinstance(wanted, list) and "object" in wanted):
        raise DefinitionError(f"arguments are always an object, but the schema asks for type {wanted!r}")


def _shortened(value: Json) -> Json:
    """The first few items of every list: what is wrong with a long one is mostly wrong with these too."""
    match value:
        case list():
            return [_shortened(item) for item in value[:_FEW]]
        case dict():
            return {key: _shortened(item) for key, item in value.items()}
        case _:
            return value


def _deeper_than(value: Json, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        level = [
            inner
            for item in level
            if isinstance(item, dict | list)
            for inner in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return False
    return any(isinstance(item, dict | list) for item in level)


def _where_in_schema(error: Exception) -> str:
    path = getattr(error, "instance_path", None)
    return f" (at {_path(path)!r})" if path else ""


def _path(steps: list[str | int]) -> str:
    """A path as a person writes it: `files[2].name`."""
    path = ""
    for step in steps:
        path = f"{path}[{step}]" if isinstance(step, int) else _joined(path, step)
    return path


def _joined(path: str, name: str) -> str:
    return _clipped(f"{path}.{name}" if path else name, _MAX_QUOTED)


def _typed(value: object) -> str:
    return "null" if value is None else f"{_type_of(value)} {_quoted(value)}"


def _quoted(value: object) -> str:
    """A value as JSON, short enough for a message."""
    if isinstance(value, str):
        return _clipped(repr(value[: _MAX_QUOTED + 1]), _MAX_QUOTED)
    try:
        return _clipped(msgspec.json.encode(value).decode(), _MAX_QUOTED)
    except (TypeError, ValueError, RecursionError):
        return _type_of(value)


def _clipped(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _type_of(value: object) -> str:
    names = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
    return "null" if value is None else names.get(type(value), type(value).__name__)
