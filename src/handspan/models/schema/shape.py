"""What a value can be, before it is written down: the types it can have, each on its own, and perhaps null."""

from msgspec import Struct, field

from handspan.core.values import Json, JsonObject
from handspan.models.schema.dialects import Dialect
from handspan.models.schema.report import join_description


class SchemaPosition(Struct, frozen=True):
    """Where we are: in the arguments, in the definitions, and how deep."""

    path: str
    trail: tuple[int, ...]
    depth: int = 0

    def inner(self, name: str) -> "SchemaPosition":
        return SchemaPosition(f"{self.path}.{name}" if self.path else name, self.trail, self.depth + 1)

    def item(self) -> "SchemaPosition":
        return SchemaPosition(f"{self.path}[]", self.trail, self.depth + 1)

    def within(self, trail: tuple[int, ...]) -> "SchemaPosition":
        return SchemaPosition(self.path, trail, self.depth)

    def deeper(self) -> "SchemaPosition":
        return SchemaPosition(self.path, self.trail, self.depth + 1)


class Shape(Struct):
    """What a value can be."""

    forms: list[JsonObject]
    """One schema for each type; none when only null fits. An empty one takes anything."""
    nullable: bool = False
    description: str = ""
    default: JsonObject = field(default_factory=dict)
    """`{"default": …}` where the API takes one."""

    def add(self, other: "Shape") -> None:
        """Be also what the other one can be."""
        self.nullable |= other.nullable
        for form in other.forms:
            told = _with_text(form, other.description)
            self.forms += [told] if told not in self.forms else []

    def written(self, dialect: Dialect) -> JsonObject:
        """As this subset writes it."""
        return self._as_proto() if dialect.is_proto else self._as_json_schema()

    def _as_json_schema(self) -> JsonObject:
        """Written with `anyOf` and the type null."""
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
        return _with_text(written, self.description) | self.default

    def _as_proto(self) -> JsonObject:
        """Written for a protobuf: null is a flag of a type, and nothing may stand beside `anyOf`."""
        if not self.forms:
            text = join_description(self.description, ["must be null"])
            return {"type": "string", "nullable": True, "description": text}
        forms = [_with_text(form, self.description) for form in self.forms]
        if self.nullable:
            forms[0] = {**forms[0], "nullable": True}
        return forms[0] if len(forms) == 1 else {"anyOf": list[Json](forms)}


def _with_text(form: JsonObject, text: str) -> JsonObject:
    own = form.get("description")
    if not text or own == text:
        return form
    if "$ref" in form:  # strict: nothing may stand beside a reference
        return {"anyOf": [form], "description": text}
    return {**form, "description": f"{text} {own}" if own else text}
