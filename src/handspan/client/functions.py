"""Functions as the code of a client's tools: which arguments they get, and where they run."""

import inspect
from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec import Struct

from handspan.client.context import CallContext
from handspan.core.signature import AnyFunction, Signature
from handspan.core.values import Arguments

Code: TypeAlias = Callable[[Arguments, CallContext], Any]
"""Runs a call: returns its value, or a coroutine that does."""


class ToolCode(Struct, frozen=True):
    """The code of a tool."""

    run: Code
    is_async: bool
    """Async code runs on the event loop, any other code on a thread."""


def is_async(function: Callable[..., Any]) -> bool:
    """Whether a call of this returns a coroutine: an async function, or an object with an async `__call__`."""
    method = getattr(function, "__call__", None)  # noqa: B004 - the method itself is needed, not whether there is one
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(method)


def read_code(signature: Signature, function: AnyFunction) -> ToolCode:
    """Return the code of a function with this signature."""
    return ToolCode(lambda arguments, ctx: function(**signature.fill(arguments, ctx)), is_async(function))


def code_of(function: Callable[..., Any]) -> ToolCode:
    """Return the code of a function that takes the arguments, or the arguments and the context."""
    takes_context = len(_required_parameters(function)) >= 2
    return ToolCode(function if takes_context else lambda arguments, _: function(arguments), is_async(function))


def _required_parameters(function: Callable[..., Any]) -> list[str]:
    """Return the positional parameters without a default; empty when the signature can't be read."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [one.name for one in parameters if one.kind in kinds and one.default is inspect.Parameter.empty]
