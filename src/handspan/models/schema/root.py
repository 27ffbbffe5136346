"""The root of a schema as one object with named parameters (SPEC M3).

OpenAI and Anthropic refuse `anyOf`, `oneOf` and `allOf` at the root. OpenAI also refuses `enum`, `const` and `not`.
"""

from collections import deque
from typing import Final

from handspan.core.values import Json, JsonObject
from handspan.models.json_values import json_list, json_object
from handspan.models.schema.flatten import ANNOTATIONS, FlatSchema, RecursionCut, flatten, is_same_json
from handspan.models.schema.references import References
from handspan.models.schema.report import ImpossibleSchema, Report, SchemaTooLarge, UnsupportedSchema, quote_json

_DESCRIBED_ONLY: Final = ("enum", "not", "if")
_MAX_FORMS: Final = 1000
"""The most forms of a choice, with the parts that they are joined from."""
_RULES: Final = frozenset(("required", "not", "dependentRequired", "type", "title", "description", "$comment"))


def flatten_root(references: References, root: JsonObject, report: Report) -> tuple[FlatSchema, list[str]]:
    """Return the root as one object without choices, and the rules that only its description can state.

    `report` gets what is lost.
    """
    try:
        flat = flatten(root, references, (), 0)
    except ImpossibleSchema as reason:
        raise UnsupportedSchema(f"no arguments fit the schema: {reason}") from None
    keywords = {key: value for key, value in flat.keywords.items() if key not in _DESCRIBED_ONLY}
    notes = [report.describe_rule("", key, value) for key, value in flat.clashes]
    notes += [report.describe_rule("", key, flat.keywords[key]) for key in _DESCRIBED_ONLY if key in flat.keywords]
    trail = (*flat.trail, id(root))
    notes += [_add_forms(choice, keywords, references, report, trail=trail) for choice in flat.choices]
    keywords["type"] = "object"
    return FlatSchema(trail, keywords), notes


def is_rule_only(branch: Json) -> bool:
    """Return whether a branch of a choice adds only rules and no properties, such as `{"required": ["a"]}`."""
    return isinstance(branch, dict) and not set(branch) - _RULES and branch.get("type", "object") == "object"


def choice_text(keyword: str, branches: list[Json]) -> str:
    """Return what a choice between rules requires, in words."""
    forms = [_rule_text(branch) for branch in branches if isinstance(branch, dict)]
    return f"{'exactly' if keyword == 'oneOf' else 'at least'} one of: {' / '.join(forms)}"


def _rule_text(branch: JsonObject) -> str:
    required = branch.get("required")
    if set(branch) <= {"required", "title", "description", "type"} and isinstance(required, list):
        return f"with {', '.join(map(repr, required))}"
    return quote_json({key: branch[key] for key in branch if key not in ("title", "description")})


def _add_forms(
    choice: tuple[str, list[Json]], keywords: JsonObject, references: References, report: Report, trail: tuple[int, ...]
) -> str:
    """Add the properties of all forms of a choice to `keywords`. Return the text that says which belong together."""
    keyword, branches = choice
    if all(is_rule_only(branch) for branch in branches):
        report.lose("", f"{keyword} {quote_json(branches)} is only stated in the description")
        return choice_text(keyword, branches)
    flats = _object_forms(branches, references, trail)
    if not flats:
        raise UnsupportedSchema("none of the forms that the arguments can have is an object")
    report.lose(
        "", f"{keyword} at the top is sent as one object; only the description states which parameters go together"
    )
    merged = dict(json_object(keywords.get("properties")))
    for name in dict.fromkeys(name for flat in flats for name in _properties(flat)):
        merged.setdefault(name, _either_of([_properties(flat)[name] for flat in flats if name in _properties(flat)]))
    needed_by_all = [name for name in _required_names(flats[0]) if all(name in _required_names(flat) for flat in flats)]
    keywords["properties"] = merged
    keywords["required"] = list(dict.fromkeys([*json_list(keywords.get("required")), *needed_by_all]))
    if all(flat.keywords.get("additionalProperties") is False for flat in flats):
        keywords.setdefault("additionalProperties", False)
    forms = " / ".join(_form_text(flat) for flat in flats)
    return f"{'exactly' if keyword == 'oneOf' else 'at least'} one of {len(flats)} forms: {forms}"


def _object_forms(branches: list[Json], references: References, trail: tuple[int, ...]) -> list[FlatSchema]:
    """Return every form that an object can have here; the forms of an inner choice are listed with the others."""
    forms: list[FlatSchema] = []
    todo = deque([(FlatSchema(trail), branch) for branch in branches])
    spent = 0
    while todo:
        outer, branch = todo.popleft()
        try:
            flat = _join(outer, flatten({"allOf": [branch, {"type": "object"}]}, references, outer.trail, 0))
        except (ImpossibleSchema, RecursionCut):  # no object fits it, or it is the choice itself
            continue
        inner = [form for _, several in flat.choices for form in several]
        todo.extend((flat, form) for form in inner)
        forms += [flat] if not inner else []
        spent += 1 + flat.parts
        if spent > _MAX_FORMS:
            raise SchemaTooLarge("the arguments have too many forms to write them as one object")
    return forms


def _join(outer: FlatSchema, inner: FlatSchema) -> FlatSchema:
    """Return the inner form with the rules of the outer one."""
    keywords = {**outer.keywords, **inner.keywords}
    keywords["properties"] = {**_properties(outer), **_properties(inner)}
    keywords["required"] = list[Json](dict.fromkeys([*_required_names(outer), *_required_names(inner)]))
    return FlatSchema(inner.trail, keywords, inner.choices, parts=inner.parts)


def _properties(flat: FlatSchema) -> JsonObject:
    return json_object(flat.keywords.get("properties"))


def _required_names(flat: FlatSchema) -> list[str]:
    return [name for name in json_list(flat.keywords.get("required")) if isinstance(name, str)]


def _either_of(schemas: list[Json]) -> Json:
    """Return one schema for a parameter that several forms describe. Constants become one enum."""
    distinct: list[Json] = []
    for schema in schemas:
        distinct += [] if schema in distinct else [schema]
    if len(distinct) == 1:
        return distinct[0]
    values: list[Json] = []
    for schema in distinct:
        if not isinstance(schema, dict) or set(schema) - {"const", "enum", "type", *ANNOTATIONS}:
            return {"anyOf": distinct}
        listed = schema.get("enum", [schema["const"]] if "const" in schema else None)
        if not isinstance(listed, list):
            return {"anyOf": distinct}
        values += [value for value in listed if not any(is_same_json(value, known) for known in values)]
    return {"enum": values}


def _form_text(flat: FlatSchema) -> str:
    title = flat.keywords.get("title")
    parts = [f"{title}:"] if isinstance(title, str) else []
    for name in dict.fromkeys([*_required_names(flat), *_properties(flat)]):
        schema = _properties(flat).get(name)
        described = f"{name}={quote_json(schema['const'])}" if isinstance(schema, dict) and "const" in schema else name
        parts.append(described if name in _required_names(flat) else f"[{described}]")
    return " ".join(parts) or "anything"
