"""What offers tools over MCP. A provider has a namespace and tools; a composite joins several providers (SPEC C3)."""

import inspect
from collections.abc import Awaitable, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

from msgspec import Struct
from msgspec.structs import replace

from handspan.core.errors import DefinitionError, ToolError
from handspan.core.names import SEPARATOR, split_name
from handspan.core.tool import NO_CLAIMS, Annotations
from handspan.core.values import Arguments, JsonObject

_T = TypeVar("_T")
MaybeAwaitable: TypeAlias = _T | Awaitable[_T]


class ProvidedTool(Struct, frozen=True):
    """A tool as a provider lists it. `name` is the tool's own name, without the namespace."""

    name: str
    description: str = ""
    parameters: JsonObject = {}
    annotations: Annotations = NO_CLAIMS
    output_schema: JsonObject | None = None


@runtime_checkable
class ToolProvider(Protocol):
    """Has tools and runs them. Each method may be plain or async."""

    def namespace(self) -> str:
        """Return the prefix of the tools' names; empty: the names have no prefix."""
        ...

    def list_tools(self) -> MaybeAwaitable[Sequence[ProvidedTool]]:
        """Return the provider's tools."""
        ...

    def call_tool(self, name: str, args: Arguments) -> MaybeAwaitable[Any]:
        """Run a tool and return its result: a JSON value, or a `Success` with images and files.

        `name` has no prefix. An exception is a failed call: its text goes to the client's model.
        """
        ...


class CompositeToolProvider:
    """Several providers as one: their tools are called `{namespace}__{tool}`."""

    def __init__(self, providers: Sequence[ToolProvider] = ()) -> None:
        self._providers: dict[str, ToolProvider] = {}
        for provider in providers:
            self.add(provider)

    def namespace(self) -> str:
        """Return an empty text: the names already have their prefixes."""
        return ""

    def add(self, provider: ToolProvider) -> None:
        """Add a provider. Raises `DefinitionError` when its namespace can't be a prefix, or is taken."""
        namespace = provider.namespace()
        if not namespace or SEPARATOR in namespace:
            raise DefinitionError(
                f"The namespace {namespace!r} can't be used: it must not be empty and must not contain {SEPARATOR!r}."
            )
        if namespace in self._providers:
            raise DefinitionError(f"The namespace {namespace!r} is taken: give each provider its own.")
        self._providers[namespace] = provider

    async def list_tools(self) -> list[ProvidedTool]:
        """Return the tools of all providers, with their prefixes."""
        return [
            replace(tool, name=f"{namespace}{SEPARATOR}{tool.name}")
            for namespace, provider in self._providers.items()
            for tool in await resolve(provider.list_tools())
        ]

    async def call_tool(self, name: str, args: Arguments) -> Any:
        """Run a tool of the provider that the prefix names; without a prefix, of the first provider that lists it."""
        namespace, own_name = split_name(name)
        if not namespace:
            return await self._call_first(name, args)
        provider = self._providers.get(namespace)
        if provider is None:
            raise ToolError("tool_not_found", f"There is no provider for the namespace {namespace!r}.")
        return await resolve(provider.call_tool(own_name, args))

    async def _call_first(self, name: str, args: Arguments) -> Any:
        for provider in self._providers.values():
            if any(tool.name == name for tool in await resolve(provider.list_tools())):
                return await resolve(provider.call_tool(name, args))
        raise ToolError("tool_not_found", f"No provider has a tool {name!r}.")


async def resolve(value: MaybeAwaitable[_T]) -> _T:
    """Return the value, after waiting for it if it is awaitable."""
    if inspect.isawaitable(value):
        return await value
    return value
