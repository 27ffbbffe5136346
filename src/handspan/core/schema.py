"""Parameter schemas: compiled once when a tool is registered, checked on every call (SPEC T1, E1, M3).

All of JSON Schema 2020-12 is allowed, recursion too. Refused are references to other documents (a `$ref` to an
address), patterns that do not compile, and schemas that are too large or too deep.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NoReturn

import msgspec

from handspan.core.errors import DefinitionError, ToolError
from handspan.core.late_imports import jsonschema_rs
from handspan.core.lenient import read_leniently
from handspan.core.names import did_you_mean, list_known
from handspan.core.schema_cost import SchemaCost, drop_repeated_all_of, has_references
from handspan.core.values import Arguments, Json, JsonObject, clip, is_deeper, join_path

MAX_BYTES: Final = 256 * 1024
MAX_DEPTH: Final = 64
ARGUMENTS: Final = "the arguments object"

_MAX_PROBLEMS: Final = 20
_MAX_READINGS: Final = 4
"""How often arguments are read again: an object that came as a text may hold a number that came as a text."""
_MAX_QUOTED: Final = 80
_MAX_TEXT: Final = 4000
_MAX_HINTED: Final = 500
_MAX_BRANCHES: Final = 3000
"""The most steps through a schema at registration. If a schema has more, the steps of every call are counted, too."""
_MAX_STEPS: Final = 5000
"""The most steps of one call's check, if they are counted."""
_MAX_BACKTRACKS: Final = 5000
"""The most steps back of one pattern in one text. Only look-around and back-references need them.

A look-ahead before each character of a path of 4096 bytes fits. The library's own limit of a million takes up to 20 ms
for each text of a list, and the event loop waits for the whole list.
"""
_FIRST_ITEMS: Final = 20
"""Items of each list that stay when the errors of too large arguments are looked for."""
_TOO_DEEP: Final = f"the schema is nested deeper than {MAX_DEPTH} levels"
_MASK: Final = "\ufffc"
"""Stands for the checked value in the messages of the library."""
_TOO_MUCH: Final = (
    "they do not fit the tool's schema, or are too large to be checked against it: "
    "compare each parameter with the schema, or send less at once"
)


class Validator:
    """Checks values against one schema."""

    __slots__ = ("_compiled", "_cost", "_schema", "_subject", "is_valid")

    def __init__(self, schema: JsonObject, *, subject: str = ARGUMENTS, is_known: bool = False) -> None:
        """Compile this schema. Raises `DefinitionError` with the reason when that is not possible.

        `subject` names the checked value in messages. Only arguments have to be an object. `is_known`: the schema
        belongs to this program and is known to compile. It is compiled at the first check, because loading the library
        slows the start.
        """
        self._schema = schema
        self._subject = subject
        self._cost: SchemaCost | None = None
        self._compiled: jsonschema_rs.Validator | None = None
        self.is_valid: Callable[[Json | Arguments], bool] = self._compile_and_check
        if not is_known:
            self._compile()

    def _compile_and_check(self, arguments: Json | Arguments) -> bool:
        """Stand in for `is_valid` until the schema is compiled. A caller may hold this method for longer."""
        if self._compiled is None:
            self._compile()
        return self.is_valid(arguments)

    def _compile(self) -> "jsonschema_rs.Validator":
        """Compile the schema. If references make checks expensive, simplify it, or let each check count its steps."""
        schema = self._schema
        encoded = _check_size(schema)
        if self._subject == ARGUMENTS:
            _check_object(schema)
        self._cost = SchemaCost(schema) if has_references(encoded) else None
        is_cheap = self._cost is None or self._cost.is_within(_MAX_BRANCHES)
        if not is_cheap:
            schema = drop_repeated_all_of(schema)
            self._cost = SchemaCost(schema)
            is_cheap = self._cost.is_within(_MAX_BRANCHES)
        compiled = self._compiled = _compile(schema)
        self.is_valid = compiled.is_valid if is_cheap else self._is_cheap_and_valid
        return compiled

    def problems(self, arguments: Json) -> list[str]:
        """Return everything that is wrong with these arguments, in words for a model; empty if they are valid."""
        try:
            if (isinstance(arguments, dict) or self._subject != ARGUMENTS) and self.is_valid(arguments):
                return []
            errors = self._errors(arguments)
            texts = list(dict.fromkeys(self._describe(error) for error in itertools.islice(errors, _MAX_PROBLEMS)))
            return (texts if next(errors, None) is None else [*texts, "and more"]) or [_TOO_MUCH]
        except RecursionError:
            return ["they are nested too deeply"]
        except ValueError as error:
            return [str(error)]

    def check(self, arguments: Json) -> None:
        """Raise `ToolError` (`invalid_arguments`) with every problem."""
        problems = self.problems(arguments)
        if problems:
            raise ToolError("invalid_arguments", f"Invalid arguments: {join_problems(problems)}")

    def read(self, arguments: JsonObject) -> JsonObject:
        """Repair arguments that are not valid: return them as their sender meant them (SPEC A6).

        Raises `ToolError` (`invalid_arguments`) with every problem when their meaning is not clear.
        """
        read: Json = arguments
        try:
            for _ in range(_MAX_READINGS):
                before, errors = read, itertools.islice(self._errors(read), _MAX_PROBLEMS)
                read = read_leniently(before, errors)
                if read is before:
                    break
                if isinstance(read, dict) and self.is_valid(read):
                    return read
        except (RecursionError, ValueError):
            pass  # `check` reports it below
        self.check(arguments)
        return arguments

    def _is_cheap_and_valid(self, arguments: Json | Arguments) -> bool:
        """Stand in for `is_valid` if the branches of a schema multiply: arguments with too many steps are not valid."""
        assert self._cost is not None and self._compiled is not None
        return self._cost.is_within(_MAX_STEPS, arguments) and self._compiled.is_valid(arguments)

    def _errors(self, arguments: Json) -> "Iterator[jsonschema_rs.ValidationError]":
        """Return the errors, without those that take too many steps to find.

        The library finds all errors before it returns the first one, and nothing can interrupt it.
        """
        compiled = self._compiled or self._compile()
        cost = self._cost or SchemaCost(self._schema)
        if cost.is_within(_MAX_STEPS, arguments):
            return iter(compiled.iter_errors(arguments))
        shorter = _shorten(arguments)
        if cost.is_within(_MAX_STEPS, shorter):
            kinds = jsonschema_rs.ValidationErrorKind  # `_shorten` leaves items of lists out
            too_few = (kinds.MinItems, kinds.Contains)
            return (error for error in compiled.iter_errors(shorter) if not isinstance(error.kind, too_few))
        return iter(())

    def _describe(self, error: "jsonschema_rs.ValidationError", *, with_hints: bool = True) -> str:
        """Return one problem as text for a model."""
        where = _path(error.instance_path)
        match error.kind:
            case jsonschema_rs.ValidationErrorKind.Required(property=name):
                return f"missing required parameter {_join(where, name)!r}"
            case (
                jsonschema_rs.ValidationErrorKind.AdditionalProperties(unexpected=names)
                | jsonschema_rs.ValidationErrorKind.UnevaluatedProperties(unexpected=names)
            ):
                known = self._properties_at(error.schema_path) if with_hints else []
                hints = [did_you_mean(name, known[:_MAX_HINTED]) for name in names[:3]] + [""] * _MAX_PROBLEMS
                text = "; ".join(
                    f"unknown parameter {_join(where, name)!r}.{hint}".removesuffix(".")
                    for name, hint in zip(names[:_MAX_PROBLEMS], hints, strict=False)
                )
                return text if any(hints) else f"{text}.{list_known(known)}".removesuffix(".")
            case jsonschema_rs.ValidationErrorKind.Enum(options=options):
                return f"{self._name_of(where)} must be one of {_quote(options)}, not {_quote(error.instance)}"
            case jsonschema_rs.ValidationErrorKind.Type(types=types):
                wanted = " or ".join(sorted(types))
                return f"{self._name_of(where)} must be of type {wanted}, not {_quote_with_type(error.instance)}"
            case jsonschema_rs.ValidationErrorKind.FalseSchema():
                is_object = not where or error.schema_path[-1:] == ["additionalProperties"]
                return f"{self._name_of(where)} {'must be empty' if is_object else 'is not allowed'}"
            case (
                jsonschema_rs.ValidationErrorKind.AnyOf(context=context)
                | jsonschema_rs.ValidationErrorKind.OneOfNotValid(context=context)
            ):
                return self._describe_forms(error, context)
            case jsonschema_rs.ValidationErrorKind.BacktrackLimitExceeded():
                return f"{self._name_of(where)} takes too long to be compared with its pattern: send a shorter text"
            case _:
                # The message has a placeholder for the value, which could be long.
                return clip(f"{self._name_of(where)}: {error.message.replace(_MASK, _quote(error.instance))}", 300)

    def _describe_forms(
        self, error: "jsonschema_rs.ValidationError", context: "list[list[jsonschema_rs.ValidationError]]"
    ) -> str:
        """Return why the value fits none of several forms: one short sentence if each form is only another type."""
        where, wanted = _path(error.instance_path), set[str]()
        for branch in context:
            match [(problem.kind, problem.instance_path) for problem in branch]:
                case [(jsonschema_rs.ValidationErrorKind.Type(types=types), path)] if path == error.instance_path:
                    wanted.update(types)
                case _:
                    choices = [
                        " and ".join(self._describe(inner, with_hints=False) for inner in branch) for branch in context
                    ]
                    text = " / ".join(dict.fromkeys(choices))
                    return clip(f"{self._name_of(where)} fits none of its {len(context)} forms: {text}", 600)
        types_text = " or ".join(sorted(wanted))
        return f"{self._name_of(where)} must be of type {types_text}, not {_quote_with_type(error.instance)}"

    def _name_of(self, path: str) -> str:
        return f"parameter {path!r}" if path else self._subject

    def _properties_at(self, schema_path: list[str | int]) -> list[str]:
        """Return the property names of the object schema at this path."""
        found: Json = self._schema
        for step in schema_path[:-1]:
            if isinstance(found, dict) and isinstance(step, str):
                found = found.get(step)
            elif isinstance(found, list) and isinstance(step, int):
                found = found[step]
        properties = found.get("properties") if isinstance(found, dict) else None
        return list(properties) if isinstance(properties, dict) else []


def _compile(schema: JsonObject) -> "jsonschema_rs.Validator":
    """Return what checks values against this schema. Raises `DefinitionError` for a schema that can't be used."""
    try:
        return jsonschema_rs.validator_for(
            schema,
            retriever=_refuse_fetch,
            mask=_MASK,
            pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=_MAX_BACKTRACKS),
        )
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        path = getattr(error, "instance_path", None)
        where = f" (at {_path(path)!r})" if path else ""
        raise DefinitionError(f"the schema can't be used: {_reason(error)}{where}") from None


def _reason(error: Exception) -> str:
    """Return the library's reason in one line. The rest of the library's text repeats the schema."""
    text = (
        str(error)
        .partition("\n")[0]
        .partition(". Custom meta-schemas")[0]
        .replace(_MASK, _quote(getattr(error, "instance", None)))
    )
    missing, is_elsewhere, _ = text.partition(" is not present in a registry")
    if is_elsewhere:
        return f"a $ref may only point into the schema itself, not to {missing.removeprefix('Resource ')}"
    return clip(text, 300)


def _refuse_fetch(uri: str) -> NoReturn:
    raise ValueError(f"nothing is fetched, not even {uri!r}")


def _check_size(schema: JsonObject) -> bytes:
    """Return the schema as JSON. Raises `DefinitionError` if it is not JSON, too large or too deep."""
    if not isinstance(schema, dict):
        raise DefinitionError(f"the schema must be a JSON object, not {_json_type(schema)}")
    try:
        encoded = msgspec.json.encode(schema)
    except RecursionError:
        raise DefinitionError(_TOO_DEEP) from None
    except (TypeError, ValueError) as error:
        raise DefinitionError(f"the schema is not JSON: {error}") from None
    if len(encoded) > MAX_BYTES:
        raise DefinitionError(f"the schema has {len(encoded)} bytes; at most {MAX_BYTES} are taken")
    if is_deeper(schema, MAX_DEPTH):
        raise DefinitionError(_TOO_DEEP)
    return encoded


def _check_object(schema: JsonObject) -> None:
    wanted = schema.get("type", "object")
    if wanted != "object" and not (isinstance(wanted, list) and "object" in wanted):
        raise DefinitionError(f"arguments are always an object, but the schema asks for type {wanted!r}")


def _shorten(value: Json) -> Json:
    """Return the value with only the first items of every list: most problems of a long list show there."""
    match value:
        case list():
            return [_shorten(item) for item in value[:_FIRST_ITEMS]]
        case dict():
            return {key: _shorten(item) for key, item in value.items()}
        case _:
            return value


def _path(steps: list[str | int]) -> str:
    return clip(join_path(steps), _MAX_QUOTED)


def _join(path: str, name: str) -> str:
    return clip(f"{path}.{name}" if path else name, _MAX_QUOTED)


def _quote_with_type(value: object) -> str:
    return "null" if value is None else f"{_json_type(value)} {_quote(value)}"


def _quote(value: object) -> str:
    """Return the value as JSON, short enough for a message."""
    if isinstance(value, str):
        return clip(repr(value[: _MAX_QUOTED + 1]), _MAX_QUOTED)
    try:
        return clip(msgspec.json.encode(value).decode(), _MAX_QUOTED)
    except (TypeError, ValueError, RecursionError):
        return _json_type(value)


def join_problems(problems: Sequence[str]) -> str:
    """Return these problems as one sentence with its end: the last one may be a question."""
    text = clip("; ".join(problems), _MAX_TEXT).removesuffix(".")
    return text if text.endswith("?") else f"{text}."


def _json_type(value: object) -> str:
    names = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
    return "null" if value is None else names.get(type(value), type(value).__name__)
