"""Lowers a schema for an API that takes nearly all of JSON Schema: Anthropic, and OpenAI without strict (SPEC M3)."""

from typing import Final

from handspan.core.values import Json, JsonObject
from handspan.models.json_values import json_list, json_text
from handspan.models.schema.dialects import WideDialect, words
from handspan.models.schema.flatten import ANNOTATIONS, KNOWN, types_of
from handspan.models.schema.references import References, modernize
from handspan.models.schema.report import ImpossibleSchema, Report, UnsupportedSchema, check_name, join_description
from handspan.models.schema.root import flatten_root

_ONE: Final = words(
    "items additionalProperties unevaluatedItems unevaluatedProperties contains propertyNames contentSchema "
    "not if then else"
)
"""Keywords with one schema."""
_SEVERAL: Final = words("allOf anyOf oneOf prefixItems")
"""Keywords with a list of schemas."""
_BY_NAME: Final = words("patternProperties dependentSchemas")
"""Keywords with schemas by name."""
_TAKEN: Final = KNOWN.union(_ONE, _SEVERAL, _BY_NAME, ("const",))
"""Keywords that are sent; all others are left out."""


def lower_wide(root: JsonObject, dialect: WideDialect, report: Report) -> JsonObject:
    """Return the schema as this API takes it. Raises `UnsupportedSchema` when the API can't take it."""
    writer = _WideWriter(References(root), dialect, report)
    flat, notes = flatten_root(writer.references, root, report)
    lowered = writer.schema(flat.keywords, "")
    lowered.setdefault("properties", {})
    if text := join_description(json_text(flat.keywords.get("description")), notes):
        lowered["description"] = text
    return writer.references.add_definitions(lowered, lambda name, target: writer.schema(target, name))


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
        written: JsonObject = {key: self._value(key, value, path) for key, value in own.items() if key in _TAKEN}
        if isinstance(own.get("properties"), dict):
            written.update(self._properties(own, path))
        if isinstance(target, dict):
            written["$ref"] = self.references.pointer(target)
        elif target is False:
            written["not"] = {}
        if self._dialect.needs_items and "array" in types_of(own.get("type")):
            written.setdefault("items", {})
        return written

    def _value(self, key: str, value: Json, path: str) -> Json:
        """Return the value of one keyword, with the schemas in it lowered."""
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
        given, needed = own["properties"], json_list(own.get("required"))
        assert isinstance(given, dict)  # the caller has checked it
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
