"""Objects and arrays in a narrow subset of JSON Schema: what has parts asks for the shape of each."""

from collections.abc import Callable

from handspan.core.values import Json, JsonObject
from handspan.models.schema.dialects import Dialect
from handspan.models.schema.report import ImpossibleSchema, Report, SchemaTooLarge, UnsupportedSchema, place_name
from handspan.models.schema.scalars import to_integer
from handspan.models.schema.shape import SchemaPosition, Shape


class Parts:
    """Writes objects and arrays; what can't be said comes back as words."""

    def __init__(self, dialect: Dialect, report: Report, shape: Callable[[Json, SchemaPosition], Shape]) -> None:
        self._dialect = dialect
        self._report = report
        self._shape = shape

    def _schema(self, given: Json, at: SchemaPosition) -> JsonObject:
        return self._shape(given, at).written(self._dialect)

    def _rest(
        self, keys: tuple[str, ...], keywords: JsonObject, written: JsonObject, at: SchemaPosition, words: list[str]
    ) -> None:
        """The rules that are kept as they are or told."""
        for key in (key for key in keys if key in keywords and not allows_everything(key, keywords[key])):
            if key in self._dialect.keeps:
                written[key] = to_integer(keywords[key])
            else:
                words.append(self._report.told(at.path, key, keywords[key]))

    # Objects

    def object(self, keywords: JsonObject, at: SchemaPosition, words: list[str]) -> JsonObject:
        given, required = keywords.get("properties"), keywords.get("required")
        properties: JsonObject = dict(given) if isinstance(given, dict) else {}
        needed = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
        properties |= {name: True for name in needed if name not in properties}
        if self._dialect.is_strict:
            self._check_closed(keywords, properties, at)
        said = self._properties(properties, needed, at)
        written: JsonObject = {"type": "object"}
        if said or self._dialect.is_strict:  # Gemini refuses an object with an empty list of properties
            written["properties"] = said
        if self._dialect.is_strict:
            written |= {"required": list[Json](said), "additionalProperties": False}
        else:
            written |= {"required": list[Json](needed)} if needed else {}
            self._additional(keywords, written, at, words)
        rest = ("minProperties", "maxProperties", "propertyNames", "dependentRequired", "dependentSchemas")
        self._rest(rest, keywords, written, at, words)
        return written

    def _properties(self, properties: JsonObject, needed: list[str], at: SchemaPosition) -> JsonObject:
        said: JsonObject = {}
        for name, schema in properties.items():
            inner = at.inner(name)
            try:
                self._check_name(name, inner)
                shape = self._shape(schema, inner)
            except SchemaTooLarge:
                raise
            except UnsupportedSchema as reason:
                if isinstance(reason, ImpossibleSchema) and name in needed:
                    raise ImpossibleSchema(f"{place_name(inner.path)}: {reason}") from None
                if name in needed or (self._dialect.is_strict and not isinstance(reason, ImpossibleSchema)):
                    raise
                self._report.lose(inner.path, f"it is left out: {reason}")
                continue
            if self._dialect.is_strict and name not in needed:
                shape.nullable = True  # `drop_nulls` takes the null out again
            said[name] = shape.written(self._dialect)
        return said

    def _check_name(self, name: str, at: SchemaPosition) -> None:
        pattern = self._dialect.parameter_name
        if pattern is not None and not pattern.fullmatch(name):
            raise UnsupportedSchema(f"{place_name(at.path)}: this API takes only names that match {pattern.pattern!r}")

    def _check_closed(self, keywords: JsonObject, properties: JsonObject, at: SchemaPosition) -> None:
        further = keywords.get("additionalProperties", keywords.get("unevaluatedProperties"))
        is_free = further is None and not properties and bool(at.path)
        if is_free or further not in (None, False) or keywords.get("patternProperties"):
            raise UnsupportedSchema(f"{place_name(at.path)} takes names that are not listed")
        if further is None:
            self._report.lose(at.path, "only the names that are listed can be sent")

    def _additional(self, keywords: JsonObject, written: JsonObject, at: SchemaPosition, words: list[str]) -> None:
        further = keywords.get("additionalProperties", keywords.get("unevaluatedProperties"))
        if patterns := keywords.get("patternProperties"):
            words.append(self._report.told(at.path, "patternProperties", patterns))
        if "additionalProperties" not in self._dialect.keeps:
            if isinstance(further, dict) and further:
                words.append(self._report.told(at.path, "additionalProperties", further))
        elif isinstance(further, dict) and further:
            self._keep_additional(further, written, at)
        elif further is False and not patterns:
            written["additionalProperties"] = False

    def _keep_additional(self, further: JsonObject, written: JsonObject, at: SchemaPosition) -> None:
        try:
            written["additionalProperties"] = self._schema(further, at.inner("*"))
        except ImpossibleSchema:
            written["additionalProperties"] = False

    # Arrays

    def array(self, keywords: JsonObject, at: SchemaPosition, words: list[str]) -> JsonObject:
        written: JsonObject = {"type": "array"}
        prefix, items = keywords.get("prefixItems"), keywords.get("items", True)
        keywords = dict(keywords)
        firsts = prefix if isinstance(prefix, list) else []
        if items is False:
            most = keywords.get("maxItems", len(firsts))
            keywords["maxItems"] = min(most, len(firsts)) if isinstance(most, int | float) else len(firsts)
        if firsts and "prefixItems" in self._dialect.keeps:
            written["prefixItems"] = [self._schema(first, at.item()) for first in firsts]
            if isinstance(items, dict):
                written["items"] = self._schema(items, at.item())
        else:
            written["items"] = self._items(firsts, items, at, words)
        self._rest(
            ("minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains", "unevaluatedItems"),
            keywords,
            written,
            at,
            words,
        )
        return written

    def _items(self, firsts: list[Json], items: Json, at: SchemaPosition, words: list[str]) -> JsonObject:
        if firsts:
            words.append(self._report.told(at.path, "prefixItems", firsts))
        choices = [*firsts, items] if items is not False else firsts
        if not choices:
            return {"type": "string"}  # of none: `maxItems` is 0
        return self._schema(choices[0] if len(choices) == 1 else {"anyOf": choices}, at.item())


def allows_everything(key: str, value: Json) -> bool:
    """Whether a rule lets everything through."""
    if key in ("uniqueItems", "deprecated"):
        return value is not True
    if key == "default":
        return value is None
    return key != "contains" and (value is True or value in ({}, []))
