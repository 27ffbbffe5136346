"""The schema compiler: a tool's JSON Schema in, the schema for one API out, with a list of the losses (SPEC M3).

A rule that the API's subset lacks goes into the description for the model. A tool that the API can't take at all is
quarantined with the reason, and the request goes on without it. The engine always enforces the original schema.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias, final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from handspan.core.errors import DefinitionError
from handspan.core.names import is_outside_name, outside_name
from handspan.core.schema import Validator
from handspan.core.tool import ToolSpec
from handspan.models.model import LoweredTool, QuarantinedTool
from handspan.models.schema.dialects import (
    ANTHROPIC,
    GEMINI,
    GEMINI_PARAMETERS,
    OPENAI,
    OPENAI_STRICT,
    Dialect,
    WideDialect,
)
from handspan.models.schema.narrow import lower_narrow
from handspan.models.schema.report import Report, SchemaTooLarge, UnsupportedSchema
from handspan.models.schema.strict import check_strict_limits, drop_nulls
from handspan.models.schema.wide import lower_wide

__all__ = ["Target", "Toolset", "drop_nulls", "estimate_tokens", "lower", "lower_all"]

Target: TypeAlias = Literal["openai", "openai-strict", "anthropic", "gemini", "gemini-parameters"]
"""What a schema is lowered to. `gemini` is for `parametersJsonSchema`, `gemini-parameters` for `parameters`."""

_BYTES_OF_TOKEN: Final = 4
_UNROLL_LEVELS: Final = (2, 1, 0)
"""How often a recursive definition is written out inside itself. If it gets too large, the next number is tried."""


@final
class Toolset(Struct, frozen=True):
    """All tools of a request."""

    tools: tuple[LoweredTool, ...]
    names: dict[str, str]
    """Our name of each tool by its name on the wire."""
    quarantined: tuple[QuarantinedTool, ...] = ()


def lower(spec: ToolSpec, target: Target) -> LoweredTool | QuarantinedTool:
    """Return the tool for this API, with its losses; `QuarantinedTool` when the API can't take it.

    With `openai-strict`, a schema that strict mode can't express is sent without strict mode: `strict` is false, and
    the losses say why.
    """
    try:
        Validator(spec.parameters)
        match target:
            case "openai":
                return _lower_wide(spec, OPENAI)
            case "anthropic":
                return _lower_wide(spec, ANTHROPIC)
            case "gemini":
                return _lower_narrow(spec, GEMINI)
            case "gemini-parameters":
                return _lower_narrow(spec, GEMINI_PARAMETERS)
            case "openai-strict":
                return _lower_strict(spec)
    except (DefinitionError, UnsupportedSchema) as reason:
        return QuarantinedTool(spec, str(reason))


def lower_all(specs: Sequence[ToolSpec], target: Target) -> Toolset:
    """Return every tool for this API, in the given order. The toolset is cached by the identity of a tuple of specs."""
    return _cached_toolset(_IdentityKey(specs), target) if isinstance(specs, tuple) else _build_toolset(specs, target)


def estimate_tokens(spec: ToolSpec) -> int:
    """Return about how many tokens this tool takes in each request: a quarter of its bytes in OpenAI's form.

    It is 0 for a tool that is quarantined. Other APIs and models differ a little; none tells its count in advance.
    """
    return _estimate_cached(_IdentityKey(spec))


def _lower_wide(spec: ToolSpec, dialect: WideDialect, *losses: str) -> LoweredTool:
    report = Report()
    schema = lower_wide(spec.parameters, dialect, report)
    return LoweredTool(outside_name(spec.name), spec, schema, losses=(*losses, *report.losses))


def _lower_narrow(spec: ToolSpec, dialect: Dialect) -> LoweredTool:
    """Return the tool in a narrow dialect, with its recursion written out as deep as fits."""
    for unroll in _UNROLL_LEVELS:
        report = Report()
        try:
            schema = lower_narrow(spec.parameters, dialect, report, unroll)
            return LoweredTool(outside_name(spec.name), spec, schema, losses=report.losses)
        except SchemaTooLarge as reason:
            last = reason
    raise last


def _lower_strict(spec: ToolSpec) -> LoweredTool:
    """Return the tool in OpenAI's strict form; in the normal form, with the reason, if its schema can't be strict."""
    report = Report()
    try:
        schema = lower_narrow(spec.parameters, OPENAI_STRICT, report, 0)
        check_strict_limits(schema)
        return LoweredTool(outside_name(spec.name), spec, schema, strict=True, losses=report.losses)
    except UnsupportedSchema as reason:
        return _lower_wide(spec, OPENAI, f"strict mode is off for this tool: {reason}")


def _build_toolset(specs: Sequence[ToolSpec], target: Target) -> Toolset:
    """Return all tools in the form of one API, and those that it can't take, each with the reason."""
    # A tool whose name the wire takes keeps it, wherever it stands in the list. Only other names are mapped.
    taken = {spec.name for spec in specs if is_outside_name(spec.name)}
    names: dict[str, str] = {}
    tools: list[LoweredTool] = []
    quarantined: list[QuarantinedTool] = []
    seen: set[str] = set()
    for spec in specs:
        found = _lower_cached(_IdentityKey(spec), target)
        if spec.name in seen:
            quarantined.append(QuarantinedTool(spec, f"another tool is named {spec.name!r} too, and calls go by name"))
        elif isinstance(found, QuarantinedTool):
            quarantined.append(found)
        else:
            wire = spec.name if spec.name in taken else outside_name(spec.name, taken=taken | set(names))
            names[wire] = spec.name
            tools.append(found if found.name == wire else replace(found, name=wire))
        seen.add(spec.name)
    return Toolset(tuple(tools), names, tuple(quarantined))


class _IdentityKey:
    """A cache key by identity: specs hold schemas, which have no hash. That is safe because specs never change."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _IdentityKey) and self.value is other.value


@lru_cache(maxsize=4096)
def _lower_cached(spec: _IdentityKey, target: Target) -> LoweredTool | QuarantinedTool:
    return lower(spec.value, target)


@lru_cache(maxsize=4096)
def _estimate_cached(spec: _IdentityKey) -> int:
    tool = _lower_cached(spec, "openai")
    if isinstance(tool, QuarantinedTool):
        return 0
    sent = {"type": "function", "function": (tool.name, tool.spec.description, tool.schema)}
    return -(-len(msgspec.json.encode(sent)) // _BYTES_OF_TOKEN)


@lru_cache(maxsize=1024)
def _cached_toolset(specs: _IdentityKey, target: Target) -> Toolset:
    return _build_toolset(specs.value, target)
