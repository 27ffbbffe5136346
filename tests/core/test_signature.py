"""SPEC T3: what a signature says to a model, and what the function gets."""

import dataclasses
import datetime
import enum
import functools
import inspect
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, Optional, Union

import pytest
from pydantic import BaseModel, ConfigDict, Field, Strict, field_validator

from handspan.core.context import ToolContext
from handspan.core.errors import DefinitionError, ToolError
from handspan.core.schema import Validator
from handspan.core.signature import AnyFunction, Signature
from handspan.core.values import JsonObject
from tests.core import future_annotations


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Person(BaseModel):
    first_name: str = Field(alias="first-name")
    age: int = 3


ADA = Person.model_validate({"first-name": "Ada"})


class Strictly(BaseModel):
    model_config = ConfigDict(strict=True)

    when: datetime.date
    color: Color
    pair: tuple[int, int]


class Node(BaseModel):
    value: int
    children: list["Node"] = []


class Even(BaseModel):
    number: int

    @field_validator("number")
    @classmethod
    def _is_even(cls, number: int) -> int:
        if number % 2:
            raise ValueError("must be even")
        return number


@dataclasses.dataclass
class Size:
    width: int
    height: int = 1


class Opaque:
    pass


class Machine:
    factor = 2

    def multiply(self, number: int) -> int:
        """Multiply."""
        return self.factor * number

    @classmethod
    def of(cls, number: int) -> int:
        """Multiply by two."""
        return cls.factor * number

    @staticmethod
    def plain(number: int) -> int:
        """Leave it."""
        return number

    def __call__(self, number: int) -> int:
        return number


def properties(function: AnyFunction) -> dict[str, Any]:
    schema: Any = Signature(function).schema
    found: dict[str, Any] = schema["properties"]
    return found


def call(function: AnyFunction, arguments: JsonObject, ctx: ToolContext) -> Any:
    """What the function returns when a model calls it: the schema first, then the function with its own types."""
    signature = Signature(function)
    Validator(signature.schema).check(arguments)
    return function(**(arguments if signature.is_json_only else signature.bind(arguments, ctx)))


# Functions that can't be described.


def no_type(x) -> None: ...  # type: ignore[no-untyped-def] # on purpose
def any_number(*x: int) -> None: ...
def any_names(**x: int) -> None: ...
def nameless(x: int, /) -> None: ...
def nameless_context(ctx: ToolContext, /, x: int) -> None: ...
def two_contexts(one: ToolContext, two: ToolContext | None = None) -> None: ...
def opaque(a: int, x: Opaque) -> None: ...
def function_wanted(x: Callable[[int], int]) -> None: ...
def never(x: NoReturn) -> None: ...
def unknown(x: "Missing") -> None: ...  # type: ignore[name-defined] # noqa: F821 - on purpose
def not_a_type(x: 5) -> None: ...  # type: ignore[valid-type] # on purpose
def two_defaults(x: Annotated[list[int], Field(default_factory=list)] = []) -> None: ...  # noqa: B006 - on purpose
def enum_literal(x: Literal[Color.RED] | None = None) -> None: ...


def generator(x: int) -> Any:
    yield x


async def async_generator(x: int) -> Any:
    yield x


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (no_type, "parameter 'x' of 'no_type' has no type: write 'x: str', for example"),
        (lambda x: x, "parameter 'x' of '<lambda>' has no type"),
        (any_number, "parameter 'x' of 'any_number' can't come from a JSON object"),
        (any_names, "parameter 'x' of 'any_names' can't come from a JSON object"),
        (nameless, "parameter 'x' of 'nameless' can't come from a JSON object"),
        (nameless_context, "parameter 'ctx' of 'nameless_context' can't come from a JSON object"),
        (two_contexts, "'two_contexts' asks for ToolContext twice: one, two"),
        (opaque, "'opaque' has a parameter, 'x', that JSON can't describe"),
        (function_wanted, "'function_wanted' has a parameter, 'x', that JSON can't describe"),
        (never, "'never' has a parameter, 'x', that JSON can't describe"),
        (not_a_type, "'not_a_type' has a parameter, 'x', that JSON can't describe"),
        (two_defaults, "'two_defaults' has a parameter that JSON can't describe: cannot specify both default and"),
        (unknown, "name 'Missing' is not defined; import its types at the top of its module"),
        (future_annotations.price, "name 'Decimal' is not defined; import its types at the top of its module"),
        (enum_literal, "parameter 'x' of 'enum_literal' has an enum's members in a Literal: use the enum"),
        (generator, "'generator' is a generator; a tool returns one value"),
        (async_generator, "'async_generator' is a generator"),
        (Machine.multiply, "'multiply' is a method: make the tool of an object's, as in tool(thing.multiply)"),
        (Machine, "'Machine' is a class: it is a tool by itself if it has `spec` and `run`"),
        (Machine(), "is not a function: use one of its methods"),
        (functools.partial(Machine()), "is not a function"),
        (vars(Machine)["of"], "the signature of 'of' can't be read"),
        (len, "parameter 'obj' of 'len' can't come from a JSON object"),
    ],
)
def test_a_function_that_can_not_be_described_is_refused_with_the_reason(function: AnyFunction, reason: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        Signature(function)
    assert reason in str(refused.value)
    assert "arbitrary_types_allowed" not in str(refused.value) and "\n" not in str(refused.value)


# Schemas.


def test_the_schema_has_no_titles_and_takes_nothing_unknown() -> None:
    def move(title: str, steps: int = 1) -> None:
        """Move."""

    assert Signature(move).schema == {
        "type": "object",
        "properties": {"title": {"type": "string"}, "steps": {"type": "integer", "default": 1}},
        "required": ["title"],
        "additionalProperties": False,
    }


def test_a_function_without_parameters_takes_an_empty_object(ctx: ToolContext) -> None:
    def ping() -> str:
        return "pong"

    assert Signature(ping).schema == {"type": "object", "properties": {}, "additionalProperties": False}
    assert call(ping, {}, ctx) == "pong"


def test_a_title_that_is_data_stays(ctx: ToolContext) -> None:
    class Card(BaseModel):
        title: str = "Dr"
        default: dict[str, str] = {"title": "x"}

    def show(card: Card = Card(), extra: dict[str, Any] = {"title": "T"}) -> Any:  # noqa: B006, B008 - as people write
        return card, extra

    assert properties(show)["card"]["default"] == {"title": "Dr", "default": {"title": "x"}}
    assert properties(show)["extra"]["default"] == {"title": "T"}
    assert call(show, {}, ctx) == (Card(), {"title": "T"})


def google(path: str, depth: int = 1) -> None:
    """List a folder.

    With everything in it.

    Args:
        path: the folder,
            relative to the workspace
        depth (int, optional): how deep to look

    Returns:
        Nothing.
    """


def sphinx(path: str, depth: int = 1) -> None:
    """List a folder.

    With everything in it.

    :param path: the folder, relative to the workspace
    :param int depth: how deep to look
    :returns: nothing
    """


def numpy(path: str, depth: int = 1, width: int = 1) -> None:
    """List a folder.

    With everything in it.

    Parameters
    ----------
    path : str
        the folder, relative to the workspace
    depth, width : int
        how deep to look
    """


@pytest.mark.parametrize("function", [google, sphinx, numpy])
def test_the_words_come_from_the_docstring_in_every_usual_style(function: AnyFunction) -> None:
    assert Signature(function).description == "List a folder. With everything in it."
    shown = properties(function)
    assert shown["path"]["description"] == "the folder, relative to the workspace"
    assert all(shown[name]["description"] == "how deep to look" for name in shown if name != "path")


@pytest.mark.parametrize("text", [":param", ":param x", ":", "Args:", "Args:\n", "@", "Note:\n  x", "a\n:raises"])
def test_an_odd_docstring_is_still_a_description(text: str) -> None:
    def odd(x: int) -> None: ...

    odd.__doc__ = text
    assert Signature(odd).description.startswith(text[:1])


def test_words_at_the_parameter_win_over_the_docstring() -> None:
    def pay(
        amount: Annotated[int, "in cents"],
        tip: Annotated[int, Field(description="on top")] = 0,
        note: Annotated[str, "for the bill"] = None,  # type: ignore[assignment] # noqa: RUF013 - as people write
    ) -> None:
        """Pay.

        :param amount: in euros
        :param tip: none
        """

    shown = properties(pay)
    assert [shown[name]["description"] for name in ("amount", "tip", "note")] == ["in cents", "on top", "for the bill"]


def test_a_function_without_docstring_has_no_description() -> None:
    assert Signature(nothing_said).description == ""
    assert Signature(functools.partial(nothing_said, 1)).description == ""


def nothing_said(x: int) -> None: ...


# What the function gets.


def test_models_enums_dates_and_more_are_made_from_their_json_forms(ctx: ToolContext) -> None:
    def take(
        person: Person,
        color: Color,
        when: datetime.datetime,
        key: uuid.UUID,
        file: Path,
        wait: datetime.timedelta,
        size: Size,
        tags: set[str],
        pair: tuple[int, str],
        by_number: dict[int, str],
        either: int | Color | None,
    ) -> dict[str, Any]:
        return locals()

    given: JsonObject = {
        "person": {"first-name": "Ada"},
        "color": "blue",
        "when": "2026-01-02T03:04:05Z",
        "key": str(uuid.UUID(int=7)),
        "file": "a/b.txt",
        "wait": "PT5S",
        "size": {"width": 2},
        "tags": ["a", "b"],
        "pair": [1, "x"],
        "by_number": {"1": "one"},
        "either": "red",
    }
    assert call(take, given, ctx) == {
        "person": ADA,
        "color": Color.BLUE,
        "when": datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
        "key": uuid.UUID(int=7),
        "file": Path("a/b.txt"),
        "wait": datetime.timedelta(seconds=5),
        "size": Size(2),
        "tags": {"a", "b"},
        "pair": (1, "x"),
        "by_number": {1: "one"},
        "either": Color.RED,
    }


def test_a_strict_model_takes_the_json_forms_of_its_types_all_the_same(ctx: ToolContext) -> None:
    def take(strictly: Strictly, key: Annotated[uuid.UUID, Strict()]) -> Any:
        return strictly.when, strictly.color, strictly.pair, key

    given: JsonObject = {
        "strictly": {"when": "2026-01-02", "color": "red", "pair": [1, 2]},
        "key": str(uuid.UUID(int=7)),
    }
    assert call(take, given, ctx) == (datetime.date(2026, 1, 2), Color.RED, (1, 2), uuid.UUID(int=7))


def test_models_that_contain_themselves_work(ctx: ToolContext) -> None:
    def count(tree: Node) -> int:
        return 1 + sum(count(child) for child in tree.children)

    assert call(count, {"tree": {"value": 1, "children": [{"value": 2, "children": [{"value": 3}]}]}}, ctx) == 3
    with pytest.raises(ToolError, match=r"missing required parameter 'tree\.children\[0\]\.value'"):
        call(count, {"tree": {"value": 1, "children": [{}]}}, ctx)


def test_a_model_is_filled_by_its_aliases_and_by_nothing_else(ctx: ToolContext) -> None:
    def greet(person: Person) -> str:
        return person.first_name

    assert call(greet, {"person": {"first-name": "Ada"}}, ctx) == "Ada"
    with pytest.raises(ToolError, match=r"missing required parameter 'person\.first-name'"):
        call(greet, {"person": {"first_name": "Ada"}}, ctx)


def test_a_parameter_with_an_alias_is_known_by_it(ctx: ToolContext) -> None:
    def greet(
        first: Annotated[str, Field(alias="first-name")], last: Annotated[str, Field(alias="last-name")] = "?"
    ) -> str:
        return f"{first} {last}"

    assert set(properties(greet)) == {"first-name", "last-name"}
    assert call(greet, {"first-name": "Ada", "last-name": "L"}, ctx) == "Ada L"
    assert call(greet, {"first-name": "Ada"}, ctx) == "Ada ?"


def test_what_is_not_given_is_the_functions_own_default(ctx: ToolContext) -> None:
    nothing = object()

    def take(
        color: Color = Color.RED,
        person: Person = ADA,
        when: datetime.date = datetime.date(2026, 1, 2),
        some: list[str] = [],  # noqa: B006 - as people write
        odd: int = nothing,  # type: ignore[assignment] # a marker that JSON can't show
        lock: Any = threading.Lock,
    ) -> Any:
        return color, person.first_name, when, some, odd is nothing, lock is threading.Lock

    assert call(take, {}, ctx) == (Color.RED, "Ada", datetime.date(2026, 1, 2), [], True, True)
    shown = properties(take)
    assert shown["color"]["default"] == "red"
    assert shown["person"]["default"] == {"first-name": "Ada", "age": 3}
    assert shown["when"]["default"] == "2026-01-02"
    assert "default" not in shown["odd"] and "default" not in shown["lock"]
    assert "required" not in Signature(take).schema


def test_a_default_in_a_field_is_a_default(ctx: ToolContext) -> None:
    def take(
        number: int = Field(5, ge=1, description="how many"),
        color: Color = Field(Color.RED),  # noqa: B008 - as people write
    ) -> Any:
        return number, color

    def made(some: Annotated[list[int], Field(default_factory=lambda: [1])]) -> Any:
        return some

    assert properties(take)["number"] == {"type": "integer", "default": 5, "minimum": 1, "description": "how many"}
    assert call(take, {}, ctx) == (5, Color.RED)
    assert call(made, {}, ctx) == [1]
    with pytest.raises(ToolError, match="less than the minimum"):
        call(take, {"number": 0}, ctx)


def test_an_optional_parameter_may_be_null_and_may_be_left_out(ctx: ToolContext) -> None:
    def take(
        a: Optional[int] = None,  # noqa: UP045 - as people write
        b: Union[str, None] = None,  # noqa: UP007 - as people write
        c: Color | None = None,
        d: int = None,  # type: ignore[assignment] # noqa: RUF013 - as people write
        e: Any = None,
    ) -> Any:
        return a, b, c, d, e

    assert call(take, {}, ctx) == (None,) * 5
    assert call(take, dict.fromkeys("abcde"), ctx) == (None,) * 5
    assert call(take, {"a": 1, "b": "x", "c": "red", "d": 2, "e": [1]}, ctx) == (1, "x", Color.RED, 2, [1])
    assert properties(take)["e"] == {"default": None}


def test_a_required_parameter_that_may_be_null_must_be_given(ctx: ToolContext) -> None:
    def take(a: int | None) -> Any:
        return a

    assert call(take, {"a": None}, ctx) is None
    with pytest.raises(ToolError, match="missing required parameter 'a'"):
        call(take, {}, ctx)


ODD_NAMES = (
    "self",
    "cls",
    "schema",
    "json",
    "model_dump",
    "args",
    "kwargs",
    "function",
    "arguments",
    "values",
    "title",
)


def plain_odd(
    self: str, cls: str, schema: str, json: str, model_dump: str, args: str, kwargs: str, function: str, arguments: str,
    values: str, title: str, _private: str = "p",
) -> dict[str, str]:  # fmt: skip
    return locals()


def typed_odd(
    self: Color, cls: Color, schema: Color, json: Color, model_dump: Color, args: Color, kwargs: Color, function: Color,
    arguments: Color, values: Color, title: Color, _private: Color = Color.BLUE,
) -> dict[str, Color]:  # fmt: skip
    return locals()


def test_a_parameter_may_have_any_name(ctx: ToolContext) -> None:
    assert call(plain_odd, {name: name for name in ODD_NAMES}, ctx) == {
        **{name: name for name in ODD_NAMES},
        "_private": "p",
    }
    assert call(typed_odd, dict.fromkeys(ODD_NAMES, "red"), ctx) == {
        **dict.fromkeys(ODD_NAMES, Color.RED),
        "_private": Color.BLUE,
    }


def test_keyword_only_parameters_are_parameters(ctx: ToolContext) -> None:
    def take(a: int, *, b: Color, c: int = 3) -> Any:
        return a, b, c

    assert call(take, {"a": 1, "b": "red"}, ctx) == (1, Color.RED, 3)
    assert Signature(take).schema["required"] == ["a", "b"]


def test_what_json_schema_can_not_say_is_checked_by_the_type_itself(ctx: ToolContext) -> None:
    def take(evens: list[Even]) -> Any:
        return evens

    with pytest.raises(ToolError) as invalid:
        call(take, {"evens": [{"number": 2}, {"number": 3}]}, ctx)
    assert invalid.value.code == "invalid_arguments"
    assert invalid.value.message == ("Invalid arguments: parameter 'evens[1].number': Value error, must be even.")


def test_whole_numbers_written_with_a_point_reach_typed_functions_as_integers(ctx: ToolContext) -> None:
    def take(number: int, color: Color) -> Any:
        return number

    taken = call(take, {"number": 2.0, "color": "red"}, ctx)
    assert (taken, type(taken)) == (2, int)


# The context.


def bare(a: int, ctx: ToolContext) -> Any:
    return a, ctx


def optional(a: int, ctx: ToolContext | None = None) -> Any:
    return a, ctx


def annotated(ctx: Annotated[ToolContext, "of the call"], a: int) -> Any:
    return a, ctx


def implicit(a: int, context: ToolContext = None) -> Any:  # type: ignore[assignment] # as people write
    return a, context


def quoted(a: int, *, ctx: "ToolContext") -> Any:
    return a, ctx


@pytest.mark.parametrize("function", [bare, optional, annotated, implicit, quoted])
def test_the_context_is_injected_however_it_is_asked_for_and_no_model_sees_it(
    function: AnyFunction, ctx: ToolContext
) -> None:
    assert set(properties(function)) == {"a"}
    given, got = call(function, {"a": 1}, ctx)
    assert given == 1 and got is ctx
    with pytest.raises(ToolError, match="unknown parameter 'ctx'"):
        call(function, {"a": 1, "ctx": {}}, ctx)


# Annotations that are text, methods, partials, wrappers.


def test_annotations_that_are_only_text_are_read(ctx: ToolContext) -> None:
    shown = properties(future_annotations.weather)
    assert set(shown) == {"place", "unit"}
    assert shown["unit"]["description"] == "of the answer"
    place, unit, call_id = call(future_annotations.weather, {"place": {"city": "Bonn"}}, ctx)
    assert (place.city, unit, call_id) == ("Bonn", future_annotations.Unit.METRIC, ctx.call_id)


@pytest.mark.parametrize(
    ("method", "result"),
    [(Machine().multiply, 6), (Machine.of, 6), (Machine.plain, 3), (Machine().plain, 3), (vars(Machine)["plain"], 3)],
)
def test_methods_of_objects_and_classes_are_functions(method: AnyFunction, result: int, ctx: ToolContext) -> None:
    assert set(properties(method)) == {"number"}
    assert call(method, {"number": 3}, ctx) == result


def test_what_a_partial_has_filled_in_is_not_shown_to_anybody(ctx: ToolContext) -> None:
    def fetch(host: str, path: str, *, color: Color, token: str = "none") -> Any:
        """Fetch a thing.

        :param path: what to fetch
        """
        return host, path, color, token

    filled = functools.partial(functools.partial(fetch, "example.com", token="secret"), color=Color.RED)
    signature = Signature(filled)
    assert (signature.name, signature.description) == ("fetch", "Fetch a thing.")
    assert signature.schema == {
        "type": "object",
        "properties": {"path": {"type": "string", "description": "what to fetch"}},
        "required": ["path"],
        "additionalProperties": False,
    }
    assert call(filled, {"path": "/"}, ctx) == ("example.com", "/", Color.RED, "secret")


def test_a_wrapped_function_is_described_by_what_it_wraps(ctx: ToolContext) -> None:
    @functools.wraps(future_annotations.weather)
    def wrapper(*args: Any, **keywords: Any) -> Any:
        return future_annotations.weather(*args, **keywords)

    cached = functools.lru_cache(Machine.plain)
    assert set(properties(wrapper)) == {"place", "unit"}
    assert call(cached, {"number": 3}, ctx) == 3


# Plain functions.


@pytest.mark.parametrize(
    ("hint", "plain"),
    [
        (str, True),
        (int, True),
        (Any, True),
        (dict[str, Any], True),
        (list[dict[str, int | None]], True),
        (Annotated[int, "words"], True),
        (Literal["a", 1, None], True),
        (Optional[str], True),  # noqa: UP045 - as people write
        (dict[int, str], False),
        (list[Color], False),
        (Annotated[int, Field(ge=1)], False),
        (tuple[int, ...], False),
        (bytes, False),
        (Person | None, False),
        (datetime.date, False),
    ],
    ids=str,
)
def test_only_what_is_its_own_json_form_is_handed_over_without_a_look(hint: Any, plain: bool) -> None:
    def take(x: Any) -> Any:
        return x

    take.__annotations__ = {"x": hint}
    assert Signature(take).is_json_only is plain


def test_reading_a_signature_leaves_the_function_as_it_was() -> None:
    before = (inspect.signature(google), dict(google.__annotations__), google.__doc__)
    Signature(google)
    assert (inspect.signature(google), dict(google.__annotations__), google.__doc__) == before
