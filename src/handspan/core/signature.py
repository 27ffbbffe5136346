"""A Python function as a tool: its schema from the signature, its description from the docstring (SPEC T3).

pydantic and docstring-parser are heavy: they load with the first function, not before.
"""

import enum
import functools
import inspect
import types
import typing
import warnings
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from handspan.core.context import ToolContext
from handspan.core.errors import DefinitionError, ToolError
from handspan.core.late_imports import docstring_parser, pydantic
from handspan.core.names import check_own_name
from handspan.core.values import Arguments, JsonObject, join_path

AnyFunction = Callable[..., Any]

_JSON_TYPES: Final = frozenset((str, int, float, bool, type(None), dict, list, Any))
_DATA: Final = frozenset(("default", "const", "enum", "examples"))
"""Schema keywords whose value is data, not a schema."""


class Signature:
    """The description of a function for a model, and the conversion of a model's arguments to the function's."""

    __slots__ = ("_adapter", "_context_name", "_is_plain", "description", "name", "schema")

    def __init__(self, function: AnyFunction, *contexts: type) -> None:
        """Read a function. Raises `DefinitionError` with the reason when it can't be a tool.

        A parameter of one of the types `contexts` (none given: `ToolContext`) gets the context of the call.
        """
        contexts = contexts or (ToolContext,)
        written = _unwrap(function)
        self.name = _name(written)
        hints, parameters = _read_parameters(function, written)
        injected = [name for name in parameters if _is_context(hints.get(name), contexts)]
        if len(injected) > 1:
            raise DefinitionError(f"{self.name!r} asks for {contexts[0].__name__} twice: {', '.join(injected)}")
        self._context_name = injected[0] if injected else None
        visible = {name: parameter for name, parameter in parameters.items() if name not in injected}
        for name, parameter in parameters.items():
            _check_parameter(self.name, name, parameter, hints)
        texts = _Docstring(written)
        self.description = texts.summary
        self._adapter, self.schema = _adapter_and_schema(written, visible, hints)
        _add_descriptions(self.schema, texts.parameters, hints)
        self._is_plain = all(
            _is_json_type(hints[name])
            and not isinstance(parameter.default, pydantic.fields.FieldInfo)  # which only pydantic can read
            for name, parameter in visible.items()
        )

    @property
    def is_json_only(self) -> bool:
        """Whether the function takes the JSON arguments as they are, without `bind`."""
        return self._is_plain and self._context_name is None

    def name_tool(self, name: str | None, description: str | None) -> tuple[str, str]:
        """Return name and description of the tool: these, or else the function's. Raises `DefinitionError`."""
        name, description = name or self.name, description or self.description
        check_own_name(name)
        if not description:
            raise DefinitionError(f"{name!r} has no description: give it a docstring of one sentence")
        return name, description

    def bind(self, arguments: Arguments, ctx: object) -> dict[str, Any]:
        """Return the function's keyword arguments: models, enums and dates made from JSON, and the context."""
        return self._with_context(self._convert(arguments), ctx)

    def fill(self, arguments: Arguments, ctx: object) -> dict[str, Any]:
        """Return the same as `bind`. Where all types are JSON's own, the arguments stay as they are: 3.0 for an int."""
        return self._with_context(dict(arguments) if self._is_plain else self._convert(arguments), ctx)

    def _with_context(self, values: dict[str, Any], ctx: object) -> dict[str, Any]:
        if self._context_name is not None:
            values[self._context_name] = ctx
        return values

    def _convert(self, arguments: Arguments) -> dict[str, Any]:
        """Return the arguments as the function's types. Raises `ToolError` (`invalid_arguments`)."""
        try:
            # As JSON text: so pydantic accepts a string for a date or an enum, even in strict models.
            values: dict[str, Any] = self._adapter.validate_json(msgspec.json.encode(dict(arguments)))
        except pydantic.ValidationError as error:
            problems = "; ".join(
                f"parameter {join_path(problem['loc'])!r}: {problem['msg']}"
                for problem in error.errors(include_url=False, include_input=False, include_context=False)
            )
            raise ToolError("invalid_arguments", f"Invalid arguments: {problems}.") from None
        return values


def _unwrap(function: AnyFunction) -> AnyFunction:
    """Return the function inside its `functools.partial`s. Raises `DefinitionError` if it can't be a tool."""
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, type):
        raise DefinitionError(f"{_name(function)!r} is a class: it is a tool by itself if it has `spec` and `run`")
    if not inspect.isroutine(function):
        raise DefinitionError(f"{function!r} is not a function: use one of its methods, as in tool(thing.method)")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise DefinitionError(f"{_name(function)!r} is a generator; a tool returns one value")
    return function


def _read_parameters(
    function: AnyFunction, written: AnyFunction
) -> tuple[dict[str, Any], dict[str, inspect.Parameter]]:
    """Return the types and the parameters that a model has to fill."""
    try:
        hints, parameters = _type_hints(written), dict(inspect.signature(function).parameters)
    except NameError as error:
        raise DefinitionError(
            f"the signature of {_name(written)!r} can't be read: {error}; import its types at the top of its module, "
            "not under TYPE_CHECKING"
        ) from None
    except (TypeError, ValueError) as error:
        raise DefinitionError(f"the signature of {_name(written)!r} can't be read: {error}") from None
    for name in _bound_keywords(function):  # a partial has filled these
        parameters.pop(name, None)
    for name, parameter in parameters.items():
        if parameter.default is None and name in hints:  # `x: int = None` allows None, too
            hints[name] = _allow_none(hints[name])
    return hints, parameters


def _allow_none(hint: Any) -> Any:
    if get_origin(hint) is Annotated:
        return Annotated[(_allow_none(hint.__origin__), *hint.__metadata__)]
    return hint if hint is Any else Union[hint, None]  # noqa: UP007 - `|` does not take every hint


def _type_hints(written: AnyFunction) -> dict[str, Any]:
    """Return the types of the parameters. The return type is left out, so it may even be one that can't be imported."""
    annotations: dict[str, Any] = getattr(written, "__annotations__", {})
    parts = types.SimpleNamespace(
        __annotations__={name: hint for name, hint in annotations.items() if name != "return"},
        __type_params__=getattr(written, "__type_params__", ()),
    )
    module = getattr(inspect.unwrap(written), "__globals__", {})
    return get_type_hints(parts, globalns=module, include_extras=True)


def _bound_keywords(function: AnyFunction) -> list[str]:
    names: list[str] = []
    while isinstance(function, functools.partial):
        names += function.keywords
        function = function.func
    return names


def _check_parameter(function: str, name: str, parameter: inspect.Parameter, hints: dict[str, Any]) -> None:
    """Raise `DefinitionError` for a parameter that JSON arguments can't fill."""
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
        raise DefinitionError(
            f"parameter {name!r} of {function!r} can't come from a JSON object: let each parameter have a name"
        )
    if name not in hints and name in ("self", "cls"):
        raise DefinitionError(f"{function!r} is a method: make the tool of an object's, as in tool(thing.{function})")
    if name not in hints:
        raise DefinitionError(f"parameter {name!r} of {function!r} has no type: write '{name}: str', for example")
    if _names_enum_members(hints[name]):  # pydantic describes them by their values, but accepts only the members
        raise DefinitionError(
            f"parameter {name!r} of {function!r} has an enum's members in a Literal: use the enum, or their values"
        )


def _names_enum_members(hint: Any) -> bool:
    if get_origin(hint) is Literal:
        return any(isinstance(item, enum.Enum) for item in get_args(hint))
    return any(_names_enum_members(inner) for inner in get_args(hint))


def _adapter_and_schema(
    function: AnyFunction, parameters: dict[str, inspect.Parameter], hints: dict[str, Any]
) -> tuple[Any, JsonObject]:
    """Return pydantic's converter for the parameters, and their JSON Schema."""

    def keywords(**values: Any) -> dict[str, Any]:
        return values

    # pydantic describes and converts the arguments of a function: this one has the same parameters and returns them.
    keywords.__signature__ = inspect.Signature(  # type: ignore[attr-defined] # functions take any attribute
        [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters.values()]
    )
    keywords.__annotations__ = {name: hints[name] for name in parameters}
    keywords.__module__ = function.__module__
    try:
        describable: Any = keywords
        adapter: Any = pydantic.TypeAdapter(describable)
        with warnings.catch_warnings():  # a default without a JSON form is left out of the schema; the function has it
            warnings.simplefilter("ignore", pydantic.json_schema.PydanticJsonSchemaWarning)
            schema: JsonObject = adapter.json_schema()
    except (pydantic.PydanticUserError, TypeError, ValueError, NameError, ImportError) as error:
        reason = str(error).partition("\n")[0].partition(". Set `arbitrary_types_allowed")[0]
        where = _find_unusable({name: hints[name] for name in parameters})
        raise DefinitionError(
            f"{_name(function)!r} has a parameter{where} that JSON can't describe: {reason}"
        ) from None
    return adapter, _drop_titles(schema)


def _find_unusable(hints: dict[str, Any]) -> str:
    """Return the name of the first parameter that pydantic can't describe, quoted, or nothing."""
    for name, hint in hints.items():
        try:
            pydantic.TypeAdapter(hint).json_schema()
        except Exception:  # the same error again, or one of another parameter
            return f", {name!r},"
    return ""


def _drop_titles(schema: Any) -> Any:
    """Return the schema without the titles that pydantic adds: they repeat the names and cost tokens."""
    match schema:
        case dict():
            return {
                key: (
                    value
                    if key in _DATA
                    else {name: _drop_titles(inner) for name, inner in value.items()}
                    if key in ("properties", "$defs") and isinstance(value, dict)
                    else _drop_titles(value)
                )
                for key, value in schema.items()
                if not (key == "title" and isinstance(value, str))
            }
        case list():
            return [_drop_titles(item) for item in schema]
        case _:
            return schema


def _add_descriptions(schema: JsonObject, texts: dict[str, str], hints: dict[str, Any]) -> None:
    properties = schema["properties"]
    assert isinstance(properties, dict)  # pydantic always writes it, even if it is empty
    for name, described in properties.items():
        metadata = getattr(hints.get(name), "__metadata__", ())  # such as the text in `Annotated[int, "how many"]`
        text = next((item for item in metadata if isinstance(item, str)), "") or texts.get(name)
        if text and isinstance(described, dict) and "description" not in described:
            described["description"] = text


def _is_context(hint: Any, contexts: tuple[type, ...]) -> bool:
    """Whether a parameter of this type gets the context: one of these types, also annotated or optional."""
    if get_origin(hint) is Annotated:
        return _is_context(hint.__origin__, contexts)
    if get_origin(hint) in (Union, types.UnionType):
        return all(inner is type(None) or _is_context(inner, contexts) for inner in get_args(hint))
    return hint in contexts


def _is_json_type(hint: Any) -> bool:
    """Whether a value of this type is its own JSON form, so that it needs no conversion."""
    origin = get_origin(hint)
    if origin is None:
        return hint in _JSON_TYPES
    if origin is Annotated:
        return all(isinstance(item, str) for item in hint.__metadata__) and _is_json_type(hint.__origin__)
    if origin is Literal:
        return all(type(item) in _JSON_TYPES for item in get_args(hint))
    if origin is dict and get_args(hint)[0] not in (str, Any):  # JSON has no other keys
        return False
    if origin in (Union, types.UnionType, list, dict):
        return all(_is_json_type(inner) for inner in get_args(hint))
    return False


class _Docstring:
    """The texts of a docstring: the summary, and one for each parameter."""

    def __init__(self, function: AnyFunction) -> None:
        text = inspect.getdoc(function) or ""
        parsed = docstring_parser.parse(text)
        self.summary = " ".join(filter(None, (parsed.short_description, parsed.long_description))).strip()
        self.parameters = {
            name.strip(): " ".join((item.description or "").split())
            for item in parsed.params
            for name in item.arg_name.split(",")  # numpy's style describes several in one line
        }


def _name(function: AnyFunction) -> str:
    return typing.cast(str, getattr(function, "__name__", type(function).__name__))
