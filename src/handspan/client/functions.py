"""Functions as the code of a client's tools: what they are called with, and where they run."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast, get_type_hints

from handspan.client.context import CallContext
from handspan.core.context import ToolContext
from handspan.core.errors import DefinitionError
from handspan.core.names import check_own_name
from handspan.core.signature import AnyFunction, Signature
from handspan.core.tool import DEFAULT_TIMEOUT, NO_CLAIMS, Annotations, ToolSpec
from handspan.core.values import Arguments

Code: TypeAlias = Callable[[Arguments, CallContext], Any]
"""What runs for a call: a coroutine function on the event loop, any other on a thread."""


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives a coroutine: a function, or an object whose call is one."""
    called = getattr(function, "__call__", None)  # noqa: B004 - the method is looked at, not whether there is one
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


def tool_of_function(
    function: AnyFunction,
    name: str | None = None,
    description: str | None = None,
    permissions: tuple[str, ...] = (),
    timeout: float | None = DEFAULT_TIMEOUT,
    version: str = "1.0.0",
    annotations: Annotations | None = None,
) -> tuple[ToolSpec, Code]:
    """The spec that the function's signature and docstring give (as `@tool` reads them), and the code."""
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

    def keywords(arguments: Arguments, ctx: CallContext) -> dict[str, Any]:
        # A function written for the gateway asks for ToolContext: what a call has here has the same names.
        bound = dict(arguments) if signature.is_json_only else signature.bind(arguments, cast(ToolContext, ctx))
        return {**bound, context: ctx} if context else bound

    return spec, _with_keywords(function, keywords)


def code_of(function: Callable[..., Any]) -> Code:
    """Code of a function of the arguments, or of the arguments and the context."""
    if len(_positional(function)) >= 2:
        return function

    def plain(arguments: Arguments, ctx: CallContext) -> Any:
        return function(arguments)

    async def on_loop(arguments: Arguments, ctx: CallContext) -> Any:
        return await function(arguments)

    return on_loop if is_async(function) else plain


def _with_keywords(function: AnyFunction, keywords: Callable[[Arguments, CallContext], Mapping[str, Any]]) -> Code:
    def plain(arguments: Arguments, ctx: CallContext) -> Any:
        return function(**keywords(arguments, ctx))

    async def on_loop(arguments: Arguments, ctx: CallContext) -> Any:
        return await function(**keywords(arguments, ctx))

    return on_loop if is_async(function) else plain


def _context_parameter(function: AnyFunction) -> str:
    """The name of the parameter that wants the call's context."""
    written = function
    while isinstance(written, functools.partial):
        written = written.func
    try:
        hints = get_type_hints(written)
    except (NameError, TypeError):  # the signature can't be read: whoever describes it says so
        return ""
    return next((name for name, hint in hints.items() if hint is CallContext and name != "return"), "")


def _positional(function: Callable[..., Any]) -> list[str]:
    """The parameters that it must be given, by place. What can't be read takes the arguments alone."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [one.name for one in parameters if one.kind in places and one.default is inspect.Parameter.empty]
