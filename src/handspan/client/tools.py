"""The tools that a client offers: made from functions, from specs with code, or from specs alone."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias, TypeVar, overload

import msgspec
from msgspec import Struct

from handspan.client.context import CallContext
from handspan.client.functions import ToolCode, code_of, read_code
from handspan.core.context import ToolContext
from handspan.core.errors import DefinitionError, ToolError, WireError
from handspan.core.function_tool import FunctionTool
from handspan.core.names import did_you_mean
from handspan.core.schema import Validator
from handspan.core.signature import AnyFunction, Signature
from handspan.core.tool import DEFAULT_TIMEOUT, NO_CLAIMS, Annotations, Tool, ToolSpec
from handspan.core.values import Arguments, Json, JsonObject
from handspan.wire import strict_json
from handspan.wire.ws import FrameError, read_offer

ToolListener: TypeAlias = Callable[[str], None]
"""Gets the name of a tool that was added, replaced or removed."""
_DEFAULT_VERSION: Final = "1.0.0"
_Function = TypeVar("_Function", bound=AnyFunction)


class ClientTool(Struct, frozen=True):
    """A tool of a client."""

    spec: ToolSpec
    claims: Annotations | None
    """What the tool claims about its effects; None counts as destructive (ws.md 4.2)."""
    code: ToolCode | None
    validator: Validator

    @property
    def may_repeat(self) -> bool:
        """Whether running the tool twice has the same effect as running it once (ws.md 6.4)."""
        return self.spec.annotations.read_only or self.spec.annotations.idempotent

    def argument_error(self, arguments: Arguments) -> str:
        """Return what is wrong with these arguments; empty when they are valid (ws.md 5.11)."""
        try:
            self.validator.check(arguments if isinstance(arguments, dict) else dict(arguments))
        except ToolError as error:
            return error.message
        return ""

    def offer(self) -> JsonObject:
        """Return the tool as an entry of `register_tools`."""
        spec = self.spec
        offer: JsonObject = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
        if spec.permissions:
            offer["permissions"] = list(spec.permissions)
        if spec.timeout not in (None, DEFAULT_TIMEOUT):
            offer["timeout"] = spec.timeout
        if self.claims is not None:
            offer["annotations"] = msgspec.to_builtins(self.claims)
        if spec.version != _DEFAULT_VERSION:
            offer["version"] = spec.version
        return offer


class ClientTools:
    """The tools of one client, by name."""

    def __init__(self, tools: Mapping[str, ClientTool] | None = None, fallback: ToolCode | None = None) -> None:
        self._tools = dict(tools or {})
        self._fallback = fallback
        """Runs the tools that have no code of their own."""
        self.listeners: list[ToolListener] = []

    def __iter__(self) -> Iterator[ClientTool]:
        return iter(tuple(self._tools.values()))

    def copy(self) -> "ClientTools":
        """Return the same tools, for another connection."""
        return ClientTools(self._tools, self._fallback)

    def run_others_with(self, code: ToolCode) -> None:
        """Run this code for every tool that has none of its own."""
        self._fallback = code

    def find(self, name: str) -> ClientTool | None:
        """Return the tool of this name."""
        return self._tools.get(name)

    def hint(self, name: str) -> str:
        """Return a hint with the tool that the caller may have meant; empty when no name is similar."""
        return did_you_mean(name, self._tools)

    def code(self, tool: ClientTool) -> ToolCode | None:
        """Return the code that runs for this tool."""
        return tool.code or self._fallback

    @overload
    def tool(self, function: _Function, /) -> _Function: ...

    @overload
    def tool(
        self,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        permissions: tuple[str, ...] = (),
        timeout: float | None = DEFAULT_TIMEOUT,
        version: str = _DEFAULT_VERSION,
        annotations: Annotations | None = None,
    ) -> Callable[[_Function], _Function]: ...

    def tool(
        self,
        function: AnyFunction | None = None,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        permissions: tuple[str, ...] = (),
        timeout: float | None = DEFAULT_TIMEOUT,
        version: str = _DEFAULT_VERSION,
        annotations: Annotations | None = None,
    ) -> Any:
        """Offer a function as a tool: `@tool`, or `@tool(…)` with options. The function itself does not change.

        A parameter of type `CallContext` gets the context of the call. A tool without `annotations` counts as
        destructive.
        """

        def define(function: _Function) -> _Function:
            """Offer this function as a tool, and return it unchanged."""
            written: AnyFunction = function.function if isinstance(function, FunctionTool) else function
            # The members of a CallContext have the same names as those of a ToolContext.
            signature = Signature(written, CallContext, ToolContext)
            spec = ToolSpec(
                *signature.name_tool(name, description),
                signature.schema,
                permissions=tuple(permissions),
                timeout=timeout,
                version=version,
                annotations=annotations or NO_CLAIMS,
            )
            self._add(spec, annotations, read_code(signature, written))
            return function

        return define if function is None else define(function)

    def register(self, tool: ToolSpec | Mapping[str, Json] | Tool, code: Callable[..., Any] | None = None) -> None:
        """Offer a tool: a spec (or its fields) with its code, or an object with `spec` and `run`.

        The code gets the arguments, or the arguments and a `CallContext`. `parameters` may be JSON text.
        """
        if isinstance(tool, ToolSpec):
            spec, claims = _with_parsed_schema(tool), None if tool.annotations is NO_CLAIMS else tool.annotations
        elif isinstance(tool, Mapping):
            spec, claims = _read_fields(tool)
        else:
            spec, claims = tool.spec, None if tool.spec.annotations is NO_CLAIMS else tool.spec.annotations
            code = tool.run
        self._add(spec, claims, None if code is None else code_of(code))

    def unregister(self, name: str) -> bool:
        """Remove a tool. Return False when no tool has this name."""
        found = self._tools.pop(name, None) is not None
        if found:
            self._notify(name)
        return found

    def _add(self, spec: ToolSpec, claims: Annotations | None, code: ToolCode | None) -> None:
        self._tools[spec.name] = ClientTool(spec, claims, code, Validator(spec.parameters))
        self._notify(spec.name)

    def _notify(self, name: str) -> None:
        for listener in tuple(self.listeners):
            listener(name)


def _with_parsed_schema(spec: ToolSpec) -> ToolSpec:
    """Return the spec with its schema as an object, also when it was given as JSON text."""
    parameters: Json = spec.parameters
    return msgspec.structs.replace(spec, parameters=_parse_schema(parameters)) if isinstance(parameters, str) else spec


def _read_fields(fields: Mapping[str, Json]) -> tuple[ToolSpec, Annotations | None]:
    """Return the spec in these fields, and what it claims of its effects. Raises `DefinitionError`."""
    try:
        offer = read_offer({**fields, "parameters": _parse_schema(fields.get("parameters"))})
        given = offer.annotations
        claims = None if given is None else msgspec.convert(given, Annotations)
    except (FrameError, msgspec.ValidationError) as error:
        raise DefinitionError(f"a tool needs name, description and parameters: {error}") from None
    spec = ToolSpec(
        offer.name,
        offer.description,
        offer.parameters,
        permissions=tuple(offer.permissions),
        timeout=DEFAULT_TIMEOUT if offer.timeout is None else offer.timeout,
        version=offer.version,
        annotations=claims or NO_CLAIMS,
    )
    return spec, claims


def _parse_schema(parameters: Json) -> Json:
    if not isinstance(parameters, str):
        return parameters
    try:
        return strict_json.parse(parameters)
    except WireError as error:
        raise DefinitionError(f"the schema can't be used: {error}") from None
