"""Lowers a schema for an API that takes nearly all of JSON Schema: Anthropic, and OpenAI without strict (SPEC M3)."""

from typing import Final

from handspan.core.values import Json, JsonObject
from handspan.models.schema.dialects import WideDialect
from handspan.models.schema.flatten import ANNOTATIONS, KNOWN, types_of
from handspan.models.schema.references import References, modernize
from handspan.models.schema.report import ImpossibleSchema, Report, UnsupportedSchema, check_name, join_description
from handspan.models.schema.root import flatten_root

_ONE: Final = frozenset(
    (
        *("items", "additionalProperties", "unevaluatedItems", "unevaluatedProperties", "contains", "propertyNames"),
        *("not", "if", "then", "else", "contentSchema"),
    )
)
"""Keywords with one schema."""
_SEVERAL: Final = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
"""Keywords with a list of schemas."""
_BY_NAME: Final = frozenset(("patternProperties", "dependentSchemas"))
"""Keywords with schemas by name."""
_TAKEN: Final = KNOWN | _ONE | _SEVERAL | _BY_NAME | {"const"}
"""Keywords that are sent; all others are left out."""


def lower_wide(root: JsonObject, dialect: WideDialect, report: Report) -> JsonObject:
    """Return the schema as this API takes it. Raises `UnsupportedSchema` when the API can't take it."""
    writer = _WideWriter(References(root), dialect, report)
    root_object = flatten_root(writer.references, root, report)
    lowered = writer.schema(root_object.keywords, "")
    lowered.setdefault("properties", {})
    description = root_object.keywords.get("description")
    if text := join_description(description if isinstance(description, str) else "", root_object.notes):
        lowered["description"] = text
    definitions: JsonObject = {
        name: writer.schema(target, name) for name, target in writer.references.pending_definitions()
    }  # after the root, which says which definitions are needed
    return lowered | ({"$defs": definitions} if definitions else {})


class _WideWriter:
    """Copies a schema with valid references, and without keywords that no model needs."""

    def __init__(self, references: References, dialect: WideDialect, report: Report) -> None:
        self.references = references
        self._dialect = dialect
        self._report = report

    def schema(self, given: Json, path: str) -> JsonObject:
        """Return this schema, which is at this path of the arguments, as the API takes it."""
        if not isinstance(given, dict):
            return {} if given is not False else {"not": {}}
        own, target = modernize(given), self.references.target(given)
        if target is not None and self.references.is_old:
            own = {key: own[key] for key in own if key in ANNOTATIONS}
        written: JsonObject = {}
        for key, value in own.items():
            if key in _TAKEN:
                written[key] = self._value(key, value, path)
        if isinstance(own.get("properties"), dict):
            written.update(self._properties(own, path))
        if target is not None:
            written.update(self._reference(target))
        if self._dialect.needs_items and "array" in types_of(own.get("type")):
            written.setdefault("items", {})
        return written

    def _reference(self, target: Json) -> JsonObject:
        if isinstance(target, dict):
            return {"$ref": self.references.pointer(target)}
        return {} if target is True else {"not": {}}

    def _value(self, key: str, value: Json, path: str) -> Json:
        if key in _ONE:
            inner = f"{path}[]" if key == "items" else path
            return value if isinstance(value, bool) else self.schema(value, inner)
        if key in _SEVERAL and isinstance(value, list):
            return [self.schema(item, path) for item in value]
        if key in _BY_NAME and isinstance(value, dict):
            return {name: self.schema(item, path) for name, item in value.items()}
        return value

    def _properties(self, own: JsonObject, path: str) -> JsonObject:
        """Return the properties that the API takes; an optional one that it refuses is left out."""
        given, required = own["properties"], own.get("required")
        assert isinstance(given, dict)  # the caller has checked it
        needed = required if isinstance(required, list) else []
        properties: JsonObject = {}
        for name, schema in given.items():
            inner = f"{path}.{name}" if path else name
            try:
                check_name(name, inner, self._dialect.parameter_name)
                if schema is False:
                    raise ImpossibleSchema("no value fits it")
                properties[name] = self.schema(schema, inner)
            except UnsupportedSchema as reason:
                if name in needed:
                    raise
                self._report.lose(inner, f"it is left out: {reason}")
        return {"properties": properties}
