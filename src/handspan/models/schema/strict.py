"""How large a schema OpenAI's strict mode takes (their page on structured outputs)."""

from typing import Final

from handspan.core.values import Json, JsonObject
from handspan.models.schema.report import UnsupportedSchema

_MAX_PROPERTIES: Final = 5000
_MAX_LEVELS: Final = 10
_MAX_ENUM_VALUES: Final = 1000
_MAX_CHARACTERS: Final = 120_000
_MANY_VALUES: Final = 250
_MAX_CHARACTERS_OF_MANY: Final = 15_000


def check_strict_limits(schema: JsonObject) -> None:
    """Refuse (`UnsupportedSchema`) a strict schema that is too large for the API."""
    count = _Count()
    count.add(schema, 1)
    definitions = schema.get("$defs")
    for name, definition in definitions.items() if isinstance(definitions, dict) else ():
        count.characters += len(name)
        count.add(definition, 1)
    for has, most, what in (
        (count.properties, _MAX_PROPERTIES, "properties"),
        (count.levels, _MAX_LEVELS, "levels of nesting"),
        (count.values, _MAX_ENUM_VALUES, "enum values"),
        (count.characters, _MAX_CHARACTERS, "characters in its names and enums"),
        (count.of_many, _MAX_CHARACTERS_OF_MANY, "characters in one long enum"),
    ):
        if has > most:
            raise UnsupportedSchema(f"it has {has} {what}, and {most} are taken")


class _Count:
    def __init__(self) -> None:
        self.properties = self.levels = self.values = self.characters = self.of_many = 0

    def add(self, schema: Json, level: int) -> None:
        if not isinstance(schema, dict):
            return
        self.levels = max(self.levels, level)
        self._add_enum(schema.get("enum"))
        properties, choices = schema.get("properties"), schema.get("anyOf")
        for name, inner in properties.items() if isinstance(properties, dict) else ():
            self.properties += 1
            self.characters += len(name)
            self.add(inner, level + 1 if _has_parts(inner) else level)
        for inner in choices if isinstance(choices, list) else ():
            self.add(inner, level)
        self.add(schema.get("items"), level + 1 if _has_parts(schema.get("items")) else level)

    def _add_enum(self, values: Json) -> None:
        if isinstance(values, list):
            length = sum(len(value) for value in values if isinstance(value, str))
            self.values += len(values)
            self.characters += length
            self.of_many = max(self.of_many, length if len(values) > _MANY_VALUES else 0)


def _has_parts(schema: Json) -> bool:
    return isinstance(schema, dict) and bool({"properties", "items", "anyOf"} & set(schema))
