"""Functions as the code of a client's tools: which arguments they get, and where they run."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeAlias, cast, get_type_hints

from msgspec import Struct

from handspan.client.context import CallContext
from handspan.core.context import ToolContext
from handspan.core.errors import DefinitionError
from handspan.core.names import check_own_name
from handspan.core.signature import AnyFunction, Signature
from handspan.core.tool import DEFAULT_TIMEOUT, NO_CLAIMS, Annotations, ToolSpec
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


def read_function(
    function: AnyFunction,
    name: str | None = None,
    description: str | None = None,
    permissions: tuple[str, ...] = (),
    timeout: float | None = DEFAULT_TIMEOUT,
    version: str = "1.0.0",
    annotations: Annotations | None = None,
) -> tuple[ToolSpec, ToolCode]:
    """Return the spec from the function's signature and docstring (as `@tool` reads them), and the code.

    Raises `DefinitionError` when the function can't be described.
    """
    context = _context_parameter(function)
    # A parameter that a partial has filled in is not described: the model does not see the context.
    signature = Signature(functools.partial(function, **{context: None}) if context else function)
    spec = ToolSpec(
        name or signature.name,
        description or signature.description,
        signature.schema,
        tuple(permissions),
        timeout,
        version,
        annotations or NO_CLAIMS,
    )
    check_own_name(spec.name)
    if not spec.description:
        raise DefinitionError(f"{spec.name!r} has no description: give it a docstring of one sentence")

    def run(arguments: Arguments, ctx: CallContext) -> Any:
        # A function written for the gateway takes a ToolContext: the members of a CallContext have the same names.
        bound = dict(arguments) if signature.is_json_only else signature.bind(arguments, cast(ToolContext, ctx))
        return function(**{**bound, context: ctx} if context else bound)

    return spec, ToolCode(run, is_async(function))


def code_of(function: Callable[..., Any]) -> ToolCode:
    """Return the code of a function that takes the arguments, or the arguments and the context."""
    takes_context = len(_required_parameters(function)) >= 2
    return ToolCode(function if takes_context else lambda arguments, _: function(arguments), is_async(function))


def _context_parameter(function: AnyFunction) -> str:
    """Return the name of the parameter of type `CallContext`; empty when there is none."""
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    try:
        hints = get_type_hints(inner)
    except (NameError, TypeError):  # `Signature` raises the error that says what is wrong
        return ""
    return next((name for name, hint in hints.items() if hint is CallContext and name != "return"), "")


def _required_parameters(function: Callable[..., Any]) -> list[str]:
    """Return the positional parameters without a default; empty when the signature can't be read."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [one.name for one in parameters if one.kind in kinds and one.default is inspect.Parameter.empty]
