"""The shape of a value before it is written as a schema: the types that it can have, and whether it can be null."""

from msgspec import Struct, field

from handspan.core.values import Json, JsonObject
from handspan.models.schema.dialects import Dialect
from handspan.models.schema.report import join_description


class SchemaPosition(Struct, frozen=True):
    """Where the compiler is: the path in the arguments, the definitions around it, and the depth."""

    path: str
    trail: tuple[int, ...]
    """The identity of each definition around this place, outermost first."""
    depth: int = 0

    def inner(self, name: str) -> "SchemaPosition":
        """Return the position of this property."""
        return SchemaPosition(f"{self.path}.{name}" if self.path else name, self.trail, self.depth + 1)

    def item(self) -> "SchemaPosition":
        """Return the position of the items of this array."""
        return SchemaPosition(f"{self.path}[]", self.trail, self.depth + 1)


class Shape(Struct):
    """What a value can be."""

    forms: list[JsonObject]
    """One schema for each type; none when only null fits. An empty schema accepts anything."""
    nullable: bool = False
    description: str = ""
    default: JsonObject = field(default_factory=dict)
    """`{"default": …}` where the API takes one."""

    def add(self, other: "Shape") -> None:
        """Accept also what the other shape accepts."""
        self.nullable |= other.nullable
        for form in other.forms:
            described = _add_text(form, other.description)
            self.forms += [described] if described not in self.forms else []

    def write(self, dialect: Dialect) -> JsonObject:
        """Return the schema of this shape in this subset."""
        return self._write_proto() if dialect.is_proto else self._write_json_schema()

    def _write_json_schema(self) -> JsonObject:
        """Return the schema with `anyOf` and the type null."""
        only = self.forms[0] if len(self.forms) == 1 else None
        if not self.forms:
            written: JsonObject = {"type": "null"}
        elif only is not None and (not self.nullable or not only):
            written = only
        elif only is not None and "type" in only and "enum" not in only:
            written = {**only, "type": [only["type"], "null"]}
        else:
            null: list[Json] = [{"type": "null"}] if self.nullable else []
            written = {"anyOf": [*self.forms, *null]}
        return _add_text(written, self.description) | self.default

    def _write_proto(self) -> JsonObject:
        """Return the schema for a protobuf: null is a flag of a type, and nothing may stand beside `anyOf`."""
        if not self.forms:
            text = join_description(self.description, ["must be null"])
            return {"type": "string", "nullable": True, "description": text}
        forms = [_add_text(form, self.description) for form in self.forms]
        if self.nullable:
            forms[0] = {**forms[0], "nullable": True}
        return forms[0] if len(forms) == 1 else {"anyOf": list[Json](forms)}


def _add_text(form: JsonObject, text: str) -> JsonObject:
    """Return the form with this text at the start of its description."""
    own = form.get("description")
    if not text or own == text:
        return form
    if "$ref" in form:  # strict mode: nothing may stand beside a reference
        return {"anyOf": [form], "description": text}
    return {**form, "description": f"{text} {own}" if own else text}
