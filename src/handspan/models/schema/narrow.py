"""Lowers a schema to a narrow subset: OpenAI strict, and both forms of Gemini (SPEC M3).

Every schema becomes a shape first: one form for each type that the value can have, and whether it can be null. A rule
that the subset lacks goes into the description for the model. The engine enforces the original schema.
"""

from typing import Final

import msgspec
from msgspec.structs import replace

from handspan.core.values import Json, JsonObject
from handspan.models.json_values import json_text
from handspan.models.schema.dialects import Dialect
from handspan.models.schema.flatten import (
    ANNOTATIONS,
    KNOWN,
    OF_ARRAY,
    OF_NUMBER,
    OF_OBJECT,
    OF_STRING,
    FlatSchema,
    RecursionCut,
    flatten,
    types_of,
)
from handspan.models.schema.forms import FormWriter, allows_everything, type_of
from handspan.models.schema.references import References, modernize
from handspan.models.schema.report import (
    ImpossibleSchema,
    Report,
    SchemaTooLarge,
    UnsupportedSchema,
    join_description,
    place_name,
)
from handspan.models.schema.root import choice_text, flatten_root, is_rule_only
from handspan.models.schema.shape import SchemaPosition, Shape

_MAX_PARTS: Final = 6000
_MAX_DEPTH: Final = 48
_MAX_BYTES: Final = 1024 * 1024
"""Bytes of all rules together: a large schema that is written out often would block other work."""
_WITH_PARTS: Final = frozenset(("properties", "items", "required"))
_TYPES: Final = {"object": OF_OBJECT, "array": OF_ARRAY, "string": OF_STRING, "number": OF_NUMBER}


def lower_narrow(root: JsonObject, dialect: Dialect, report: Report, unroll: int) -> JsonObject:
    """Return the schema in this subset. A recursive definition is written out `unroll` times inside itself.

    Raises `UnsupportedSchema` when the subset can't express the schema.
    """
    return _NarrowWriter(References(root), dialect, report, unroll).root(root)


class _NarrowWriter:
    """Writes one schema in a narrow subset; `at` is the position, `notes` are rules for the description."""

    def __init__(self, references: References, dialect: Dialect, report: Report, unroll: int) -> None:
        self._references = references
        self._dialect = dialect
        self._report = report
        self._unroll = unroll
        self._forms = FormWriter(dialect, report, self._shape)
        self._parts_written = 0
        self._bytes_written = 0

    def root(self, root: JsonObject) -> JsonObject:
        """Return the root in this subset, with the definitions that it refers to."""
        flat, notes = flatten_root(self._references, root, self._report)
        shape = self._typed_shape(flat, SchemaPosition("", flat.trail), notes)
        lowered = shape.write(self._dialect)
        lowered.setdefault("properties", {})
        return self._references.add_definitions(
            lowered, lambda name, target: self._shape(target, SchemaPosition(name, ())).write(self._dialect)
        )

    def _shape(self, given: Json, at: SchemaPosition) -> Shape:
        """Return what a value of this schema can be."""
        if at.depth > _MAX_DEPTH:
            raise UnsupportedSchema(f"{place_name(at.path)} is nested too deeply")
        reference = self._reference(given, at) if self._dialect.is_strict else None
        if reference is not None:
            return reference
        try:
            flat = flatten(given, self._references, at.trail, self._unroll)
        except RecursionCut as cut:
            return self._cut_shape(cut.target, at)
        self._count_size(flat)
        notes = [self._report.describe_rule(at.path, key, value) for key, value in flat.clashes]
        at = replace(at, trail=flat.trail)
        return self._choice_shape(flat, at, notes) if flat.choices else self._typed_shape(flat, at, notes)

    def _count_size(self, flat: FlatSchema) -> None:
        """Add to the size of the output, and raise `SchemaTooLarge` above the limits.

        A definition is written out at each place that uses it, so a small schema can grow very large.
        """
        self._parts_written += flat.parts + 1
        if self._parts_written > _MAX_PARTS:
            raise SchemaTooLarge(f"written out, it has more than {_MAX_PARTS} parts")
        self._bytes_written += len(msgspec.json.encode([v for k, v in flat.keywords.items() if k not in _WITH_PARTS]))
        if self._bytes_written > _MAX_BYTES:
            raise SchemaTooLarge(f"written out, it has more than {_MAX_BYTES} bytes")

    # References and recursion

    def _reference(self, given: Json, at: SchemaPosition) -> Shape | None:
        """Return the reference itself when no rule stands beside it; None when there is no such reference."""
        target = self._references.target(given) if isinstance(given, dict) else None
        if not isinstance(target, dict) or not isinstance(given, dict):
            return None
        rules = {key for key in modernize(given) if key in KNOWN or key in ("allOf", "anyOf", "oneOf", "const", "if")}
        if rules - ANNOTATIONS and not self._references.is_old:
            return None
        return self._annotate(Shape([{"$ref": self._references.pointer(target)}]), given, at, [])

    def _cut_shape(self, target: JsonObject, at: SchemaPosition) -> Shape:
        """Return a value of the definition's type without its inner rules: the recursion ends here."""
        if self._dialect.is_strict:
            raise UnsupportedSchema(f"{place_name(at.path)} contains itself and has more rules beside the reference")
        self._report.lose(
            at.path, f"it contains itself; written out {self._unroll + 1} levels deep, further only described"
        )
        kinds = [name for name in types_of(target.get("type")) if name != "null"]
        kinds = kinds or (["object"] if "properties" in target else [])
        flat = FlatSchema(at.trail, {"type": list[Json](kinds)} if kinds else {})
        self._count_size(flat)
        return self._typed_shape(flat, at, ["the same form again, one level deeper"])

    # Choices

    def _choice_shape(self, flat: FlatSchema, at: SchemaPosition, notes: list[str]) -> Shape:
        """Return the shape that has the forms of all branches of the first choice, with the other rules in each."""
        (keyword, branches), *others = flat.choices
        base = {key: value for key, value in flat.keywords.items() if key not in ANNOTATIONS}
        if base and all(is_rule_only(branch) for branch in branches):
            self._report.lose(at.path, f"{keyword} is only stated in the description")
            notes = [*notes, choice_text(keyword, branches)]
            rest = FlatSchema(flat.trail, flat.keywords, others)
            return self._choice_shape(rest, at, notes) if others else self._typed_shape(rest, at, notes)
        if keyword == "oneOf" and len(branches) > 1:
            self._report.lose(at.path, "oneOf (exactly one form) is sent as anyOf (at least one)")
        if others:
            base["allOf"] = [{key: several} for key, several in others]
        union = Shape([])
        for branch in branches:
            self._add_branch(union, {"allOf": [branch, base]} if base else branch, replace(at, depth=at.depth + 1))
        if not union.forms and not union.nullable:
            raise UnsupportedSchema(f"{place_name(at.path)}: this API takes none of its forms")
        return self._annotate(union, flat.keywords, at, notes)

    def _add_branch(self, union: Shape, branch: Json, at: SchemaPosition) -> None:
        """Add the branch to the shape. A branch that the subset can't express is left out, but not in strict mode."""
        try:
            shape = self._shape(branch, at)
        except ImpossibleSchema:
            return
        except SchemaTooLarge:
            raise
        except UnsupportedSchema as reason:
            if self._dialect.is_strict:
                raise
            self._report.lose(at.path, f"one of its forms is left out: {reason}")
            return
        union.add(shape)

    # One schema without choices

    def _typed_shape(self, flat: FlatSchema, at: SchemaPosition, notes: list[str]) -> Shape:
        """Return the shape of a schema without choices: one form for each of its types."""
        keywords, notes = flat.keywords, [*notes]
        notes += [self._report.describe_rule(at.path, key, keywords[key]) for key in ("not", "if") if key in keywords]
        kinds = self._kinds(keywords, at)
        if not kinds:
            return self._annotate(self._anything(at), keywords, at, notes)
        values = keywords.get("enum")
        forms: list[JsonObject] = []
        for kind in (kind for kind in kinds if kind != "null"):
            form = self._forms.write(kind, keywords, at, notes)
            if isinstance(values, list):
                form |= self._forms.enum(kind, _of_kind(values, kind), at.path)
            forms.append(form)
        return self._annotate(Shape(forms, "null" in kinds), keywords, at, notes)

    def _kinds(self, keywords: JsonObject, at: SchemaPosition) -> list[str]:
        """Return the types of the value; none when it can have any type."""
        kinds = list(dict.fromkeys(types_of(keywords["type"]))) if "type" in keywords else []
        if isinstance(values := keywords.get("enum"), list):
            found = list(dict.fromkeys(map(type_of, values)))
            allowed = {*found, "number"} if "integer" in found else {*found}
            kinds = [kind for kind in kinds if kind in allowed] if kinds else found
            if not kinds:
                raise ImpossibleSchema("no value of its enum is of its type")
        elif not kinds:
            kinds = [kind for kind, rules in _TYPES.items() if any(rule in keywords for rule in rules)]
            if kinds:
                self._report.lose(at.path, f"it has no type and is sent as {' or '.join(kinds)}")
        return [kind for kind in kinds if kind != "integer" or "number" not in kinds]

    def _anything(self, at: SchemaPosition) -> Shape:
        """Return the shape of a value of any type."""
        if self._dialect.is_strict:
            raise UnsupportedSchema(f"{place_name(at.path)} takes a value of any type")
        if not self._dialect.is_proto:
            return Shape([{}])
        self._report.lose(at.path, "it takes any value; lists are sent as lists of strings")
        kinds = ("string", "number", "boolean", "object")
        forms: list[JsonObject] = [{"type": kind} for kind in kinds]
        return Shape([*forms, {"type": "array", "items": {"type": "string"}}], nullable=True)

    # Descriptions

    def _annotate(self, shape: Shape, keywords: JsonObject, at: SchemaPosition, notes: list[str]) -> Shape:
        """Return the shape with its description (or title), the notes in it, and its default."""
        text, title = json_text(keywords.get("description")), json_text(keywords.get("title"))
        if not text and at.path and _fold(title) != _fold(at.path.rpartition(".")[2]):
            text = title
        extra = [
            self._report.describe_rule(at.path, key, keywords[key])
            for key in ("default", "examples", "deprecated")
            if key in keywords and key not in self._dialect.keeps and not allows_everything(key, keywords[key])
        ]
        kept = {"default": keywords["default"]} if "default" in self._dialect.keeps and "default" in keywords else {}
        return replace(shape, description=join_description(text, [*notes, *extra]), default=kept)


def _of_kind(values: list[Json], kind: str) -> list[Json]:
    kinds = ("number", "integer") if kind == "number" else (kind,)
    return [value for value in values if type_of(value) in kinds]


def _fold(text: str) -> str:
    return text.replace(" ", "").replace("_", "").replace("-", "").casefold()
