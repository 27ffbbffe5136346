"""The decorator that makes a tool of a function (SPEC T3).

@tool
def shout(text: str, times: int = 1) -> str:
    "Say it louder."
    return text.upper() * times
"""

import asyncio
import functools
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final, Generic, ParamSpec, TypeVar, overload

from handspan.core.context import ToolContext
from handspan.core.errors import DefinitionError
from handspan.core.signature import AnyFunction, Signature
from handspan.core.tool import DEFAULT_TIMEOUT, NO_CLAIMS, Annotations, Handling, Placement, ToolSpec, check_timeout
from handspan.core.values import Arguments

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
is_loading: Final = ContextVar("is_loading", default=False)
"""Whether a worker process loads the file of an isolated tool just now."""


def refuse_second_run() -> None:
    """Raise `DefinitionError` while a worker loads a file: the program in it would begin again, without end."""
    if is_loading.get():
        raise DefinitionError(
            "a worker process loads this file to find an isolated tool, and must not begin the program again: "
            'put what starts the program below `if __name__ == "__main__":`'
        )


class FunctionTool(Generic[P, R_co]):
    """A function as a tool. It can still be called like the function, and type checkers see its signature."""

    def __init__(self, function: Callable[P, R_co], spec: ToolSpec, signature: Signature, placement: Placement) -> None:
        functools.update_wrapper(self, function)  # first: it copies attributes, and ours must win
        self.spec = spec
        self.handling = Handling(placement)
        self.function: AnyFunction = function
        self._signature = signature
        self.is_json_only = signature.is_json_only
        """The function takes the arguments as they are, and no context."""
        self._needs_loop = placement != "loop" and inspect.iscoroutinefunction(function)

    def run(self, arguments: Arguments, ctx: ToolContext) -> Any:
        """Return what the function returns; a coroutine if the function is async and runs on the loop."""
        keywords = arguments if self.is_json_only else self._signature.bind(arguments, ctx)
        if self._needs_loop:  # an async function on a thread or in a process needs an event loop there
            return asyncio.run(self.function(**keywords))
        return self.function(**keywords)

    def __call__(self, *args: P.args, **keywords: P.kwargs) -> R_co:
        result: R_co = self.function(*args, **keywords)
        return result


@overload
def tool(function: Callable[P, R_co], /) -> FunctionTool[P, R_co]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    permissions: tuple[str, ...] = (),
    timeout: float | None = DEFAULT_TIMEOUT,
    version: str = "1.0.0",
    annotations: Annotations = NO_CLAIMS,
    thread: bool = False,
    isolated: bool = False,
) -> Callable[[Callable[P, R_co]], FunctionTool[P, R_co]]: ...


def tool(
    function: AnyFunction | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    permissions: tuple[str, ...] = (),
    timeout: float | None = DEFAULT_TIMEOUT,
    version: str = "1.0.0",
    annotations: Annotations = NO_CLAIMS,
    thread: bool = False,
    isolated: bool = False,
) -> FunctionTool[..., Any] | Callable[[AnyFunction], FunctionTool[..., Any]]:
    """Make a tool of a function: `@tool` alone, or with options that the signature can't express.

    A plain function runs on a worker thread, an async one on the event loop. `thread=True` runs an async one on a
    thread; `isolated=True` runs the function in a worker process, so that even a segfault is only an error.
    """

    def define(function: AnyFunction) -> FunctionTool[..., Any]:
        """Return the tool of this function."""
        if isinstance(function, FunctionTool):  # one function as two tools
            function = function.function
        signature = Signature(function)
        spec = ToolSpec(
            *signature.name_tool(name, description),
            signature.schema,
            permissions=tuple(permissions),
            timeout=timeout,
            version=version,
            annotations=annotations,
        )
        check_timeout(spec.name, timeout)
        _check_permissions(spec.name, permissions)
        return FunctionTool(function, spec, signature, _choose_placement(function, thread=thread, isolated=isolated))

    return define if function is None else define(function)


def _check_permissions(name: str, permissions: object) -> None:
    if isinstance(permissions, str):  # a tuple of it would be a permission for each letter
        raise DefinitionError(f"{name!r} needs a tuple of permissions: write permissions=({permissions!r},)")


def _choose_placement(function: AnyFunction, *, thread: bool, isolated: bool) -> Placement:
    if isolated:
        if "<locals>" in getattr(function, "__qualname__", "<locals>"):
            raise DefinitionError(
                f"{function!r} can't be isolated: a worker process only finds functions at the top of a module"
            )
        return "process"
    return "loop" if inspect.iscoroutinefunction(function) and not thread else "thread"
