"""SPEC T3: one decorator makes a tool of a function, and the function stays one."""

import asyncio
import functools
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handspan.core.context import ToolContext
from handspan.core.errors import DefinitionError
from handspan.core.function_tool import FunctionTool, tool
from handspan.core.tool import DEFAULT_TIMEOUT, NO_CLAIMS, READ_ONLY

pytestmark = pytest.mark.anyio


@tool
def shout(text: str, times: int = 1) -> str:
    """Say it louder."""
    return text.upper() * times


@tool(isolated=True)
async def alone(text: str) -> str:
    """Say it elsewhere."""
    return f"{text} on {threading.current_thread().name}"


@tool
async def greet(name: str, ctx: ToolContext) -> str:
    """Greet somebody."""
    return f"{name} in {ctx.session}"


# Refused at definition.


@pytest.mark.parametrize("name", ["Shout", "shout-it", "shout__it", "_shout"])
def test_a_name_that_is_not_snake_case_is_refused(name: str) -> None:
    with pytest.raises(DefinitionError, match=f"'{name}' can't be a tool's name"):
        tool(name=name)(shout.function)


def test_a_function_with_a_name_that_is_not_snake_case_is_refused() -> None:
    def readFile() -> str:
        """Read."""
        return ""

    with pytest.raises(DefinitionError, match="'readFile' can't be a tool's name"):
        tool(readFile)


def test_a_lambda_needs_a_name() -> None:
    with pytest.raises(DefinitionError, match="'<lambda>' can't be a tool's name"):
        tool(description="Nothing.")(lambda: None)


def test_a_function_without_words_is_refused() -> None:
    def silent(x: int) -> int:
        return x

    with pytest.raises(DefinitionError, match="'silent' has no description: give it a docstring"):
        tool(silent)
    assert tool(description="Gives it back.")(silent).spec.description == "Gives it back."


def test_a_function_that_a_worker_process_could_not_find_is_refused() -> None:
    def inside() -> None:
        """Nothing."""

    for function in (inside, functools.partial(shout.function, times=2)):
        with pytest.raises(DefinitionError, match="a worker process only finds functions at the top of a module"):
            tool(isolated=True)(function)


# The spec.


def test_a_bare_decorator_takes_everything_from_the_function() -> None:
    spec = shout.spec
    assert (spec.name, spec.description, spec.timeout, spec.version, spec.permissions, spec.annotations) == (
        "shout",
        "Say it louder.",
        DEFAULT_TIMEOUT,
        "1.0.0",
        (),
        NO_CLAIMS,
    )
    assert spec.parameters["required"] == ["text"]


def test_the_decorator_says_what_the_signature_can_not() -> None:
    made = tool(
        name="whisper",
        description="Say it softly.",
        permissions=("microphone",),
        timeout=3,
        version="2.1.0",
        annotations=READ_ONLY,
    )(shout.function)
    spec = made.spec
    assert (spec.name, spec.description, spec.permissions, spec.timeout, spec.version, spec.annotations) == (
        "whisper",
        "Say it softly.",
        ("microphone",),
        3,
        "2.1.0",
        READ_ONLY,
    )


# Running.


def test_the_function_can_still_be_called_as_it_was() -> None:
    assert shout("a", 2) == shout(text="a", times=2) == "AA"
    assert vars(shout)["__name__"] == "shout" and shout.__doc__ == "Say it louder."


def test_a_plain_function_runs_on_a_thread_and_returns_its_value(ctx: ToolContext) -> None:
    assert shout.handling.placement == "thread"
    assert shout.run({"text": "a", "times": 3}, ctx) == "AAA"


async def test_an_async_function_runs_on_the_loop(ctx: ToolContext) -> None:
    assert greet.handling.placement == "loop"
    assert await greet.run({"name": "Ada"}, ctx) == f"Ada in {ctx.session}"


def test_an_async_function_moved_aside_brings_its_own_loop(ctx: ToolContext) -> None:
    moved = tool(thread=True)(greet.function)
    assert moved.handling.placement == "thread"
    assert moved.run({"name": "Ada"}, ctx) == f"Ada in {ctx.session}"
    assert alone.handling.placement == "process"
    assert alone.run({"text": "hi"}, ctx) == f"hi on {threading.current_thread().name}"


async def test_a_partial_of_an_async_function_is_async_too(ctx: ToolContext) -> None:
    made = tool(functools.partial(greet.function, name="Ada"))
    assert (made.spec.name, made.spec.parameters["properties"], made.handling.placement) == ("greet", {}, "loop")
    assert await made.run({}, ctx) == f"Ada in {ctx.session}"


def test_a_bound_method_is_a_tool_of_its_object(ctx: ToolContext) -> None:
    class Counter:
        def __init__(self) -> None:
            self.count = 0

        def increase(self, by: int = 1) -> int:
            """Count on."""
            self.count += by
            return self.count

    one, other = tool(Counter().increase), tool(Counter().increase)
    assert [one.run({"by": 2}, ctx), one.run({}, ctx), other.run({}, ctx)] == [2, 3, 1]


async def test_a_tool_can_be_made_again_under_another_name(ctx: ToolContext) -> None:
    again = tool(name="hello")(greet)
    assert isinstance(again, FunctionTool)
    assert (again.spec.name, greet.spec.name, again.handling.placement) == ("hello", "greet", "loop")
    assert await again.run({"name": "Ada"}, ctx) == f"Ada in {ctx.session}"


def test_attributes_of_the_function_do_not_get_in_the_way_of_the_tools_own(ctx: ToolContext) -> None:
    def odd(x: int) -> int:
        """Give it back."""
        return x

    odd.__dict__.update(spec="mine", handling="mine", function="mine", run="mine", extra="kept")
    made = tool(odd)
    assert (made.spec.name, made.handling.placement, made.function) == ("odd", "thread", odd)
    assert vars(made)["extra"] == "kept"


def test_what_the_function_raises_comes_out_as_it_is(ctx: ToolContext) -> None:
    @tool
    def fail() -> None:
        """Fail."""
        raise ZeroDivisionError("as it is")

    with pytest.raises(ZeroDivisionError, match="as it is"):
        fail.run({}, ctx)


def test_calling_an_async_tool_as_the_function_it_is_gives_a_coroutine(ctx: ToolContext) -> None:
    assert asyncio.run(greet("Ada", ctx)) == f"Ada in {ctx.session}"


@given(st.dictionaries(st.sampled_from(["a", "b"]), st.text(), min_size=2))
def test_plain_arguments_reach_the_function_untouched(arguments: dict[str, Any]) -> None:
    @tool
    def pair(a: str, b: str) -> tuple[str, str]:
        """Give them back."""
        return a, b

    none: Any = None
    assert pair.run(arguments, none) == (arguments["a"], arguments["b"])
