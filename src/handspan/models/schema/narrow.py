"""A schema in a narrow subset: OpenAI strict, and both forms of Gemini (SPEC M3).

Every schema becomes a shape first: the types it can have, each written on its own, and whether it can be null. What the
subset can't say is told in the description, so that the model still knows; the engine enforces the original.
"""

from typing import Final

import msgspec
from msgspec.structs import replace

from handspan.core.values import Json, JsonObject
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
from handspan.models.schema.forms import Parts, allows_everything
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
from handspan.models.schema.scalars import Scalars, type_of
from handspan.models.schema.shape import SchemaPosition, Shape

_MAX_PARTS: Final = 6000
_MAX_DEPTH: Final = 48
_MAX_BYTES: Final = 1024 * 1024
"""Of rules and words; what is large and written out often makes others wait."""
_WITH_PARTS: Final = frozenset(("properties", "items", "required"))
_TYPES: Final = {"object": OF_OBJECT, "array": OF_ARRAY, "string": OF_STRING, "number": OF_NUMBER}


def lower_narrow(root: JsonObject, dialect: Dialect, report: Report, unroll: int) -> JsonObject:
    """The schema in the words of this subset; recursion goes `unroll` levels deeper. Else `UnsupportedSchema`."""
    writer = _Writer(References(root), dialect, report, unroll)
    return writer.root(root)


class _Writer:
    def __init__(self, references: References, dialect: Dialect, report: Report, unroll: int) -> None:
        self._references = references
        self._dialect = dialect
        self._report = report
        self._unroll = unroll
        self._scalars = Scalars(dialect, report)
        self._parts = Parts(dialect, report, self._shape)
        self._spent_parts = 0
        self._spent_bytes = 0

    def root(self, root: JsonObject) -> JsonObject:
        plain = flatten_root(self._references, root, self._report)
        shape = self._typed_shape(FlatSchema(plain.trail, plain.keywords), SchemaPosition("", plain.trail), plain.words)
        lowered = shape.written(self._dialect)
        lowered.setdefault("properties", {})
        definitions: JsonObject = {
            name: self._schema(target, SchemaPosition(name, ())) for name, target in self._references.unwritten()
        }
        return lowered | ({"$defs": definitions} if definitions else {})

    def _schema(self, given: Json, at: SchemaPosition) -> JsonObject:
        return self._shape(given, at).written(self._dialect)

    def _shape(self, given: Json, at: SchemaPosition) -> Shape:
        if at.depth > _MAX_DEPTH:
            raise UnsupportedSchema(f"{place_name(at.path)} is nested too deeply")
        reference = self._reference(given, at) if self._dialect.is_strict else None
        if reference is not None:
            return reference
        try:
            flat = flatten(given, self._references, at.trail, self._unroll)
        except RecursionCut as cut:
            return self._cut(cut.target, at)
        self._spend(flat)
        words = [self._report.told(at.path, key, value) for key, value in flat.clashes]
        if flat.choices:
            return self._choice(flat, at.within(flat.trail), words)
        return self._typed_shape(flat, at.within(flat.trail), words)

    def _spend(self, flat: FlatSchema) -> None:
        """What is used in many places is written out in each of them: that must not go on without end."""
        self._spent_parts += flat.parts + 1
        if self._spent_parts > _MAX_PARTS:
            raise SchemaTooLarge(f"written out, it has more than {_MAX_PARTS} parts")
        self._spent_bytes += len(msgspec.json.encode([v for k, v in flat.keywords.items() if k not in _WITH_PARTS]))
        if self._spent_bytes > _MAX_BYTES:
            raise SchemaTooLarge(f"written out, it has more than {_MAX_BYTES} bytes")

    # References and recursion

    def _reference(self, given: Json, at: SchemaPosition) -> Shape | None:
        """The reference as it is, when nothing but words stands beside it."""
        target = self._references.target(given) if isinstance(given, dict) else None
        if not isinstance(target, dict) or not isinstance(given, dict):
            return None
        rules = {key for key in modernize(given) if key in KNOWN or key in ("allOf", "anyOf", "oneOf", "const", "if")}
        if rules - ANNOTATIONS and not self._references.is_old:
            return None
        return self._annotated(Shape([{"$ref": self._references.pointer(target)}]), given, at, [])

    def _cut(self, target: JsonObject, at: SchemaPosition) -> Shape:
        """A value of the definition's type, without its inside: deeper than this, only words tell."""
        if self._dialect.is_strict:
            raise UnsupportedSchema(f"{place_name(at.path)} contains itself and has more rules beside the reference")
        self._report.lose(at.path, f"it contains itself; written out {self._unroll + 1} levels deep, further only told")
        kinds = [name for name in types_of(target.get("type")) if name != "null"]
        kinds = kinds or (["object"] if "properties" in target else [])
        flat = FlatSchema(at.trail, {"type": list[Json](kinds)} if kinds else {})
        self._spend(flat)
        return self._typed_shape(flat, at, ["the same form again, one level deeper"])

    # Choices

    def _choice(self, flat: FlatSchema, at: SchemaPosition, words: list[str]) -> Shape:
        (keyword, branches), *others = flat.choices
        base = {key: value for key, value in flat.keywords.items() if key not in ANNOTATIONS}
        if base and all(is_rule_only(branch) for branch in branches):
            self._report.lose(at.path, f"{keyword} is only told in the description")
            words = [*words, choice_text(keyword, branches)]
            rest = FlatSchema(flat.trail, flat.keywords, others)
            return self._choice(rest, at, words) if others else self._typed_shape(rest, at, words)
        if keyword == "oneOf" and len(branches) > 1:
            self._report.lose(at.path, "oneOf (exactly one form) is sent as anyOf (at least one)")
        if others:
            base["allOf"] = [{key: several} for key, several in others]
        union = Shape([])
        for branch in branches:
            self._add_branch(union, {"allOf": [branch, base]} if base else branch, at.deeper())
        if not union.forms and not union.nullable:
            raise UnsupportedSchema(f"{place_name(at.path)}: none of its forms can be said")
        return self._annotated(union, flat.keywords, at, words)

    def _add_branch(self, union: Shape, branch: Json, at: SchemaPosition) -> None:
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

    def _typed_shape(self, flat: FlatSchema, at: SchemaPosition, words: list[str]) -> Shape:
        keywords, words = flat.keywords, [*words]
        words += [self._report.told(at.path, key, keywords[key]) for key in ("not", "if") if key in keywords]
        kinds = self._kinds(keywords, at)
        if not kinds:
            return self._annotated(self._anything(at), keywords, at, words)
        values = keywords.get("enum")
        forms: list[JsonObject] = []
        for kind in (kind for kind in kinds if kind != "null"):
            form = self._form(kind, keywords, at, words)
            if isinstance(values, list):
                form |= self._scalars.enum(kind, _of_kind(values, kind), at.path)
            forms.append(form)
        return self._annotated(Shape(forms, "null" in kinds), keywords, at, words)

    def _kinds(self, keywords: JsonObject, at: SchemaPosition) -> list[str]:
        """The types of the value; none when it can have any."""
        kinds = list(dict.fromkeys(types_of(keywords["type"]))) if "type" in keywords else []
        if isinstance(values := keywords.get("enum"), list):
            found = list(dict.fromkeys(map(type_of, values)))
            kinds = _shared(kinds, found) if kinds else found
            if not kinds:
                raise ImpossibleSchema("no value of its enum is of its type")
        elif not kinds:
            kinds = [kind for kind, rules in _TYPES.items() if any(rule in keywords for rule in rules)]
            if kinds:
                self._report.lose(at.path, f"it has no type and is sent as {' or '.join(kinds)}")
        return [kind for kind in kinds if kind != "integer" or "number" not in kinds]

    def _anything(self, at: SchemaPosition) -> Shape:
        if self._dialect.is_strict:
            raise UnsupportedSchema(f"{place_name(at.path)} takes a value of any type")
        if not self._dialect.is_proto:
            return Shape([{}])
        self._report.lose(at.path, "it takes any value; lists are sent as lists of strings")
        kinds = ("string", "number", "boolean", "object")
        forms: list[JsonObject] = [{"type": kind} for kind in kinds]
        return Shape([*forms, {"type": "array", "items": {"type": "string"}}], True)

    def _form(self, kind: str, keywords: JsonObject, at: SchemaPosition, words: list[str]) -> JsonObject:
        if kind == "object":
            return self._parts.object(keywords, at, words)
        if kind == "array":
            return self._parts.array(keywords, at, words)
        return self._scalars.write(kind, keywords, at.path, words)

    # Words, and the whole

    def _annotated(self, shape: Shape, keywords: JsonObject, at: SchemaPosition, words: list[str]) -> Shape:
        description, title = keywords.get("description"), keywords.get("title")
        text = description if isinstance(description, str) else ""
        if not text and at.path and isinstance(title, str) and _folded(title) != _folded(at.path.rpartition(".")[2]):
            text = title
        told = [
            self._report.told(at.path, key, keywords[key])
            for key in ("default", "examples", "deprecated")
            if key in keywords and key not in self._dialect.keeps and not allows_everything(key, keywords[key])
        ]
        kept = {"default": keywords["default"]} if {"default"} & self._dialect.keeps & set(keywords) else {}
        return replace(shape, description=join_description(text, [*words, *told]), default=kept)


def _shared(kinds: list[str], found: list[str]) -> list[str]:
    """The types that are allowed and that the values have."""
    return [kind for kind in kinds if kind in found or (kind == "number" and "integer" in found)]


def _of_kind(values: list[Json], kind: str) -> list[Json]:
    kinds = ("number", "integer") if kind == "number" else (kind,)
    return [value for value in values if type_of(value) in kinds]


def _folded(text: str) -> str:
    return text.replace(" ", "").replace("_", "").replace("-", "").casefold()
