"""The schema compiler: JSON Schema in, what each API takes out, with a report of what was lost (SPEC M3).

What an API can't say goes into the descriptions, so that the model still knows; a tool that can't be said at all is
quarantined with its reason, and the others go on. The engine enforces the original schema in any case.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Generic, Literal, TypeAlias, TypeVar, assert_never, final

from msgspec import Struct
from msgspec.structs import replace

from handspan.core.errors import DefinitionError
from handspan.core.names import is_outside_name, outside_name
from handspan.core.schema import Validator
from handspan.core.tool import ToolSpec
from handspan.core.values import JsonObject
from handspan.models.model import LoweredTool, QuarantinedTool
from handspan.models.schema.dialects import ANTHROPIC, GEMINI, GEMINI_PARAMETERS, OPENAI, OPENAI_STRICT, Dialect
from handspan.models.schema.narrow import lower_narrow
from handspan.models.schema.nulls import drop_nulls
from handspan.models.schema.report import Report, SchemaTooLarge, UnsupportedSchema
from handspan.models.schema.strict import check_strict_limits
from handspan.models.schema.wide import lower_wide

__all__ = ["Target", "Toolset", "drop_nulls", "lower", "lower_all"]

Target: TypeAlias = Literal["openai", "openai-strict", "anthropic", "gemini", "gemini-parameters"]
"""`gemini` is for `parametersJsonSchema`, `gemini-parameters` for `parameters`."""

_UNROLLED: Final = (2, 1, 0)
"""How often a recursive definition is written out inside itself; less when that grows too large."""


@final
class Toolset(Struct, frozen=True):
    """All tools of a request."""

    tools: tuple[LoweredTool, ...]
    names: dict[str, str]
    """From the names on the wire back to ours."""
    quarantined: tuple[QuarantinedTool, ...] = ()


def lower(spec: ToolSpec, target: Target) -> LoweredTool | QuarantinedTool:
    """The tool in the words of this API, with what was lost.

    With `openai-strict`, a tool whose schema strict mode can't say is sent without it (`strict` is false, and the
    losses say why): that is better than a tool that can't be called.
    """
    try:
        Validator(spec.parameters)
        return _lowered(spec, target)
    except (DefinitionError, UnsupportedSchema) as reason:
        return QuarantinedTool(spec, str(reason))


def lower_all(specs: Sequence[ToolSpec], target: Target) -> Toolset:
    """Every tool in the words of this API, in the order given. The same tuple gives the same toolset, at no cost."""
    return _remembered_toolset(_Same(specs), target) if isinstance(specs, tuple) else _toolset(specs, target)


def _lowered(spec: ToolSpec, target: Target) -> LoweredTool:
    name, root, report = outside_name(spec.name), spec.parameters, Report()
    match target:
        case "openai":
            return LoweredTool(name, spec, lower_wide(root, OPENAI, report), losses=report.losses)
        case "anthropic":
            return LoweredTool(name, spec, lower_wide(root, ANTHROPIC, report), losses=report.losses)
        case "gemini":
            return _narrowed(name, spec, GEMINI)
        case "gemini-parameters":
            return _narrowed(name, spec, GEMINI_PARAMETERS)
        case "openai-strict":
            return _strictly(name, spec)
    assert_never(target)


def _narrowed(name: str, spec: ToolSpec, dialect: Dialect) -> LoweredTool:
    for unroll in _UNROLLED:
        report = Report()
        try:
            return LoweredTool(name, spec, lower_narrow(spec.parameters, dialect, report, unroll), losses=report.losses)
        except SchemaTooLarge as reason:
            last = reason
    raise last


def _strictly(name: str, spec: ToolSpec) -> LoweredTool:
    report = Report()
    try:
        schema: JsonObject = lower_narrow(spec.parameters, OPENAI_STRICT, report, 0)
        check_strict_limits(schema)
        return LoweredTool(name, spec, schema, strict=True, losses=report.losses)
    except UnsupportedSchema as reason:
        report = Report()
        schema = lower_wide(spec.parameters, OPENAI, report)
        return LoweredTool(name, spec, schema, losses=(f"strict mode is off for this tool: {reason}", *report.losses))


def _toolset(specs: Sequence[ToolSpec], target: Target) -> Toolset:
    # A name that fits belongs to its own tool, whatever stands before it: only others are mapped.
    taken = {spec.name for spec in specs if is_outside_name(spec.name)}
    names: dict[str, str] = {}
    tools: list[LoweredTool] = []
    quarantined: list[QuarantinedTool] = []
    ours: set[str] = set()
    for spec in specs:
        found = _remembered(_Same(spec), target)
        if spec.name in ours:
            quarantined.append(QuarantinedTool(spec, f"another tool is named {spec.name!r} too, and calls go by name"))
        elif isinstance(found, QuarantinedTool):
            quarantined.append(found)
        else:
            wire = spec.name if spec.name in taken else outside_name(spec.name, taken=taken | set(names))
            names[wire] = spec.name
            tools.append(found if found.name == wire else replace(found, name=wire))
        ours.add(spec.name)
    return Toolset(tuple(tools), names, tuple(quarantined))


Kept = TypeVar("Kept")


class _Same(Generic[Kept]):
    """A key that is equal only to itself: specs hold schemas, which have no hash, and are never changed."""

    __slots__ = ("_hash", "value")

    def __init__(self, value: Kept) -> None:
        self.value = value
        self._hash = id(value)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value


@lru_cache(maxsize=4096)
def _remembered(spec: _Same[ToolSpec], target: Target) -> LoweredTool | QuarantinedTool:
    return lower(spec.value, target)


@lru_cache(maxsize=1024)
def _remembered_toolset(specs: _Same[tuple[ToolSpec, ...]], target: Target) -> Toolset:
    return _toolset(specs.value, target)
