"""What clients may offer as a tool, over WebSocket or the graph API: the rules, and a cache of schemas (SPEC W5)."""

from collections.abc import Sequence
from typing import Any, Final
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct

from handspan.core.bounded import BoundedDict
from handspan.core.errors import DefinitionError
from handspan.core.names import matches_any
from handspan.core.schema import Validator
from handspan.core.tool import UNKNOWN_EFFECTS, Annotations, ToolSpec
from handspan.core.values import Json, JsonObject, strip_schema
from handspan.wire.ws_frames import WireLimits

_MOST_SESSIONS: Final = 256


class OfferRules(Struct, frozen=True):
    """What clients may register at this gateway (SPEC W5)."""

    limits: WireLimits = WireLimits()
    allow: tuple[str, ...] | None = None
    """Globs of names that may be offered; None: all."""
    deny: tuple[str, ...] = ()
    """Globs of names that may not be offered."""
    deny_permissions: tuple[str, ...] = ()
    """Globs of permissions. A tool that needs one of these may not be offered."""
    longest_call: float = 600.0
    """The most seconds that a call with progress may take."""

    def check(self, name: str, description: str, permissions: Sequence[str]) -> None:
        """Raise `DefinitionError` when a tool with this name, description and permissions may not be offered."""
        if not name:
            raise DefinitionError("A tool needs a name.")
        if len(description.encode("utf-8", "replace")) > self.limits.description_bytes:
            raise DefinitionError(f"Its description is longer than {self.limits.description_bytes} bytes: shorten it.")
        if matches_any(self.deny, name) or (self.allow is not None and not matches_any(self.allow, name)):
            raise DefinitionError("Clients may not register a tool of this name here (setting gateway.remote).")
        if denied := [one for one in permissions if matches_any(self.deny_permissions, one)]:
            raise DefinitionError(f"Tools that need {denied[0]!r} may not be registered here (setting gateway.remote).")

    def check_schema(self, schema: "OfferedSchema") -> None:
        """Raise `DefinitionError` when the schema is too large or too deep."""
        if schema.size > self.limits.schema_bytes:
            raise DefinitionError(f"Its schema has {schema.size} bytes; {self.limits.schema_bytes} are the limit.")
        if schema.depth > self.limits.schema_depth:
            raise DefinitionError(f"Its schema is nested more than {self.limits.schema_depth} levels deep.")


class OfferedSchema:
    """The parameters of an offered tool, with their compiled validator."""

    __slots__ = ("__weakref__", "depth", "parameters", "size", "validator")

    def __init__(self, parameters: JsonObject, size: int) -> None:
        self.parameters = parameters
        self.size = size
        self.depth = _depth(parameters)
        self.validator = Validator(parameters)


class SchemaCache:
    """Compiled schemas. Thousands of devices of one kind share a few schemas."""

    def __init__(self) -> None:
        self._schemas: WeakValueDictionary[bytes, OfferedSchema] = WeakValueDictionary()

    def get(self, parameters: JsonObject) -> OfferedSchema:
        """Return this schema, compiled, with its words cleaned (S4). Raises `DefinitionError` for an invalid schema."""
        key = msgspec.json.encode(parameters)
        schema = self._schemas.get(key)
        if schema is None:
            schema = self._schemas[key] = OfferedSchema(strip_schema(parameters), len(key))
        return schema


class SessionOffers:
    """The first definition of each tool that clients offered, in the sessions used last (SPEC T5)."""

    def __init__(self) -> None:
        self._specs: BoundedDict[str, dict[str, ToolSpec]] = BoundedDict(_MOST_SESSIONS)
        """The first definitions by session and name, the session used last at the end."""

    def compare(self, session: str, spec: ToolSpec) -> ToolSpec | None:
        """Return the session's first definition of this tool if it differs from `spec`; else None."""
        specs = self._specs.setdefault(session, {})
        self._specs.move_to_end(session)
        first = specs.setdefault(spec.name, spec)
        return None if first.fingerprint == spec.fingerprint else first


def annotations_of(claims: JsonObject | None) -> Annotations:
    """Return what a client claims about its tool's effects. Without a known claim the tool is not trusted (SPEC P4)."""
    given = claims or {}
    known: dict[str, Any] = {
        name: value for name, value in given.items() if name in _EFFECTS and isinstance(value, bool)
    }
    if not known:
        return UNKNOWN_EFFECTS
    group = given.get("group")
    if not isinstance(group, str) or not 0 < len(group) <= _LONGEST_GROUP:
        return Annotations(**known)
    return Annotations(**known, group=group)


_EFFECTS: Final = frozenset(Annotations.__struct_fields__) - {"group"}
_LONGEST_GROUP: Final = 64


def _depth(value: Json) -> int:
    """Return how many levels of lists and objects the value has."""
    level: list[Json] = [value]
    depth = 0
    while nested := [item for item in level if isinstance(item, (dict, list))]:
        depth += 1
        level = [below for item in nested for below in (item.values() if isinstance(item, dict) else item)]
    return depth
