"""A tool as the offline model sees it: the words of its name and description, and a slot for each parameter."""

import re
from typing import Final, Literal, TypeAlias, final

from msgspec import Struct

from handspan.core.errors import DefinitionError
from handspan.core.names import split_name
from handspan.core.schema import Validator
from handspan.core.tool import ToolSpec
from handspan.core.values import Json, JsonObject
from handspan.models.offline_words import FILLER_STEMS, WEAK_STEMS, meanings, split_words, stem, stems, word_set

SlotKind: TypeAlias = Literal[
    "url", "path", "zone", "command", "number", "boolean", "choice", "texts", "numbers", "query", "text", "other"
]

_MOST_DESCRIPTION: Final = 200
_MOST_SLOTS: Final = 64
_MOST_REFS: Final = 8

_URL: Final = frozenset(map(stem, ("url", "uri", "href", "link", "address")))
_PATH: Final = frozenset(map(stem, word_set("path paths file files filename filepath dir directory folder")))
_FOLDER: Final = frozenset(map(stem, ("directory", "folder", "dir", "tree")))
_ZONE: Final = frozenset(map(stem, ("timezone", "tz", "zone")))
_COMMAND: Final = frozenset(map(stem, ("command", "cmd", "script")))
_QUERY: Final = frozenset(
    map(stem, word_set("query search term keyword topic question name symbol city location place"))
)
_BODY: Final = frozenset(map(stem, word_set("content text message body data input prompt note comment")))
_NAMED_VALUE: Final = r"'([\w.-]+)'"


@final
class Slot(Struct, frozen=True):
    """One parameter."""

    name: str
    kind: SlotKind
    stems: frozenset[str]
    is_required: bool
    description: str = ""
    choices: tuple[str, ...] = ()
    is_whole: bool = False
    """A number without a fraction."""
    is_for_files: bool = False
    """A list whose items are paths."""
    is_for_folders: bool = False
    """A path of a directory: without one, the workspace itself is meant."""

    @property
    def is_body(self) -> bool:
        """Takes the words that a person gives, rather than a name or an address."""
        return self.kind == "text" and bool(self.stems & _BODY)


@final
class KnownTool:
    """One offered tool, ready to be compared with a request."""

    __slots__ = (
        "_validator",
        "alike",
        "core",
        "described",
        "name",
        "named",
        "namespace",
        "own_name",
        "slots",
        "sorts",
        "spec",
        "told",
        "words",
    )

    def __init__(self, spec: ToolSpec) -> None:
        self.spec = spec
        self.name = spec.name
        namespace, self.own_name = split_name(spec.name)
        self.namespace = stems(namespace)
        self.words = tuple(word.lower() for word in split_words(self.own_name))
        self.named = tuple(dict.fromkeys(map(stem, self.words)))
        self.core = tuple(word for word in self.named if word not in WEAK_STEMS | FILLER_STEMS) or self.named or ("",)
        self.alike = frozenset[str]().union(*map(meanings, self.core))
        self.described = stems(_first_sentence(spec.description))
        self.slots = _slots(spec.parameters, self.words)
        self.told = frozenset[str]().union(
            *(slot.stems for slot in self.slots),
            *(stems(choice) for slot in self.slots for choice in slot.choices),
        )
        self.sorts = frozenset(slot.kind for slot in self.slots)
        self._validator: Validator | None = None

    @property
    def required(self) -> tuple[Slot, ...]:
        """The slots that have to be filled."""
        return tuple(slot for slot in self.slots if slot.is_required)

    def problems(self, arguments: JsonObject) -> list[str]:
        """What is wrong with these arguments; empty when the engine would take them."""
        try:
            self._validator = self._validator or Validator(self.spec.parameters)
        except DefinitionError as error:
            return [f"its schema can't be used ({error})"]
        return self._validator.problems(arguments)


def _first_sentence(description: str) -> str:
    return re.split(r"[.;\n]\s", description[:_MOST_DESCRIPTION], maxsplit=1)[0]


def _slots(schema: JsonObject, tool_words: tuple[str, ...]) -> tuple[Slot, ...]:
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, dict):
        return ()
    needed = set(map(str, required)) if isinstance(required, list) else set()
    # What is required is looked at first, in the order of the schema.
    resolved = {name: _resolved(inner, schema) for name, inner in properties.items()}
    for name, inner in resolved.items():
        if "items" in inner:
            resolved[name] = {**inner, "items": _resolved(inner["items"], schema)}
    slots = [_slot(name, inner, name in needed, tool_words) for name, inner in resolved.items()]
    return tuple(sorted(slots, key=lambda slot: not slot.is_required)[:_MOST_SLOTS])


def _resolved(schema: Json, root: JsonObject) -> JsonObject:
    """The schema itself, behind references, and of several forms the first that is not null."""
    for _ in range(_MOST_REFS):
        if not isinstance(schema, dict):
            return {}
        forms = schema.get("anyOf") or schema.get("oneOf")
        if isinstance(ref := schema.get("$ref"), str):
            schema = _referenced(ref, root)
        elif isinstance(forms, list):
            told = {"description": schema["description"]} if "description" in schema else {}
            chosen = next(
                (form for form in forms if isinstance(form, dict) and form.get("type") != "null"), JsonObject()
            )
            schema = {**chosen, **told}
        else:
            return schema
    return {}


def _referenced(ref: str, root: JsonObject) -> Json:
    found: Json = root
    for step in ref.removeprefix("#").split("/")[1:]:
        found = found.get(step) if isinstance(found, dict) else None
    return found


def _slot(name: str, schema: JsonObject, is_required: bool, tool_words: tuple[str, ...]) -> Slot:
    description = schema.get("description")
    told = description if isinstance(description, str) else ""
    words = stems(name)
    items = schema.get("items")
    return Slot(
        name,
        _kind(words, told, schema),
        words,
        is_required,
        told,
        _choices(schema, told),
        _type(schema) == "integer",
        isinstance(items, dict) and bool(words & _PATH),
        "file" not in tool_words and bool(_FOLDER & (stems(told) | words | stems(" ".join(tool_words)))),
    )


def _kind(words: frozenset[str], told: str, schema: JsonObject) -> SlotKind:
    if isinstance(schema.get("enum"), list):
        return "choice"
    match _type(schema):
        case "integer" | "number":
            return "number"
        case "boolean":
            return "boolean"
        case "array":
            items = schema.get("items")
            kinds: dict[str, SlotKind] = {"string": "texts", "number": "numbers", "integer": "numbers"}
            return kinds.get(_type(items), "other") if isinstance(items, dict) else "other"
        case "string" | "":
            return _kind_of_text(words, told, schema)
        case _:
            return "other"


def _kind_of_text(words: frozenset[str], told: str, schema: JsonObject) -> SlotKind:
    if words & _ZONE or {"time", "zone"} <= words:
        return "zone"
    if words & _URL or schema.get("format") in ("uri", "url"):
        return "url"
    if words & _COMMAND:
        return "command"
    if words & _PATH or "path" in stems(told):
        return "path"
    return "query" if words & _QUERY else "text"


def _type(schema: Json) -> str:
    kind = schema.get("type") if isinstance(schema, dict) else None
    if isinstance(kind, list):
        kind = next((one for one in kind if one != "null"), None)
    return kind if isinstance(kind, str) else ""


def _choices(schema: JsonObject, told: str) -> tuple[str, ...]:
    """The values of an enum; or those that a description names, where it names several."""
    values = schema.get("enum")
    if isinstance(values, list):
        return tuple(value for value in values if isinstance(value, str))
    named = re.findall(_NAMED_VALUE, told)
    return tuple(named) if len(named) > 1 and _type(schema) == "string" else ()
