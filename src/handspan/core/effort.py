"""How much work it is to check a value against a schema, so that nobody can make us do it without end.

A schema of a few lines can ask for a billion steps: each of thirty definitions names the next one twice. The library
that checks goes every way as often as it is named, and nothing can stop it meanwhile. So the ways are counted first,
where there can be many: with `$ref`s when a tool is registered, with any schema when an error is to be explained.
"""

from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import unquote, urldefrag, urljoin

import msgspec

from handspan.core.errors import DefinitionError
from handspan.core.values import Json, JsonObject

_REFS: Final = frozenset(("$ref", "$dynamicRef", "$recursiveRef"))
_ANCHORS: Final = ("$anchor", "$dynamicAnchor")
_DRAFT_4: Final = "http://json-schema.org/draft-04/schema"
_LISTS: Final = frozenset(("allOf", "anyOf", "oneOf"))
_SINGLES: Final = frozenset(("not", "if", "then", "else"))
_MAPS: Final = frozenset(("dependentSchemas", "dependencies"))
_OF_CHILDREN: Final = frozenset(
    ("additionalProperties", "unevaluatedProperties", "items", "additionalItems", "unevaluatedItems", "contains")
)
_DATA: Final = frozenset(("const", "enum", "default", "examples"))
_WORDS: Final = frozenset(("title", "description", "$comment", "default", "examples"))

_UNKNOWN: Final = object()
"""In place of a value that is not there yet: it may have any child."""


class Effort:
    """Counts the steps of checking values against one schema."""

    def __init__(self, schema: JsonObject) -> None:
        """Read this schema; `DefinitionError` when one of its references leads out of it."""
        self._schema = schema
        self._id_word = "id" if str(schema.get("$schema")).rstrip("#") == _DRAFT_4 else "$id"
        self._bases: dict[int, str] = {}
        self._known: dict[str, JsonObject] = {"": schema}
        self._ambiguous: set[str] = set()
        """Names that several parts have which are not the same: the library takes one of them, nobody knows which."""
        self._index(schema, "")
        self._follow_every_reference()

    def is_within(self, steps: int, value: object = _UNKNOWN) -> bool:
        """Whether so many steps are enough for this value, or for any that does not make the schema go in circles."""
        start: tuple[Json, object] = (self._schema, value)
        frames = [((0, 0), iter((start,)))]
        on_the_way: set[tuple[int, int]] = set()
        while frames:
            key, ways = frames[-1]
            way = next(ways, None)
            if way is None:
                frames.pop()
                on_the_way.discard(key)
                continue
            steps -= 1
            if steps < 0:
                return False
            schema, value = way
            key = (id(schema), id(value))
            if isinstance(schema, dict) and key not in on_the_way:
                on_the_way.add(key)
                frames.append((key, self._ways(schema, value)))
        return True

    def _ways(self, schema: JsonObject, value: object) -> Iterator[tuple[Json, object]]:
        """What has to be checked when this value is checked against this schema."""
        for keyword, inner in schema.items():
            if keyword in _REFS and isinstance(inner, str):
                yield self._target(schema, inner), value
            elif keyword in _SINGLES:
                yield inner, value
            elif keyword in _OF_CHILDREN and isinstance(inner, dict):
                yield from ((inner, child) for child in _children(value))
            elif keyword in _LISTS and isinstance(inner, list):
                yield from ((item, value) for item in inner)
            elif keyword in _MAPS and isinstance(inner, dict):
                yield from ((item, value) for item in inner.values())
            elif keyword in ("prefixItems", "items") and isinstance(inner, list):
                yield from ((item, child) for item in inner for child in _children(value))
            elif keyword == "patternProperties" and isinstance(inner, dict):
                yield from ((item, child) for item in inner.values() for child in _children(value))
            elif keyword == "properties" and isinstance(inner, dict):
                yield from _of_properties(inner, value)

    def _target(self, schema: JsonObject, ref: str) -> Json:
        """Where a reference leads."""
        base = self._bases.get(id(schema), "")
        uri, fragment = urldefrag(ref if not base else base + ref if ref.startswith("#") else urljoin(base, ref))
        is_anchor = fragment and not fragment.startswith("/")
        name = f"{uri}#{fragment}" if is_anchor else uri
        if name in self._ambiguous:
            raise DefinitionError(f"the $ref {ref!r} may mean several parts of the schema: give each a name of its own")
        found: Json = self._known.get(name)
        if not is_anchor:
            found = _pointed_at(found, unquote(fragment))
        if found is None:
            raise DefinitionError(f"a $ref may only point into the schema itself, and {ref!r} leads nowhere there")
        return found

    def _follow_every_reference(self) -> None:
        seen: set[int] = set()
        todo: list[Json] = [self._schema]
        while todo:
            schema = todo.pop()
            if isinstance(schema, dict) and id(schema) not in seen:
                seen.add(id(schema))
                todo += (inner for inner, _ in self._ways(schema, _UNKNOWN))

    def _index(self, value: Json, base: str) -> None:
        """Note what references can name: resources by their `$id`, anchors, and everyone's base."""
        if isinstance(value, list):
            for item in value:
                self._index(item, base)
        if not isinstance(value, dict):
            return
        own_id = value.get(self._id_word)
        if isinstance(own_id, str) and own_id.startswith("#"):  # up to draft 7 this is how an anchor is written
            self._note(f"{base}{own_id}", value)
        elif isinstance(own_id, str):
            base = urldefrag(urljoin(base, own_id)).url
            self._note(base, value)
        for keyword in _ANCHORS:
            if isinstance(anchor := value.get(keyword), str):
                self._note(f"{base}#{anchor}", value)
        self._bases[id(value)] = base
        for key, inner in value.items():
            if key not in _DATA:
                self._index(inner, base)

    def _note(self, name: str, value: JsonObject) -> None:
        if self._known.setdefault(name, value) != value:
            self._ambiguous.add(name)


def has_references(encoded_schema: bytes) -> bool:
    """Whether a schema may have references: without them it has no more ways than it is long."""
    return b'Ref"' in encoded_schema or b'$ref"' in encoded_schema


def without_repeated_all_of(schema: JsonObject) -> JsonObject:
    """The same schema, where no `allOf` asks twice for the same: `true` stands in the second one's place."""
    encoded = msgspec.json.encode(schema)
    if b"allOf/" in encoded:  # a reference may name one of them by its place
        return schema
    rewritten = _rewritten(schema)
    assert isinstance(rewritten, dict)  # it was one
    return rewritten


def _rewritten(value: Json) -> Json:
    if isinstance(value, list):
        return [_rewritten(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: (
            inner
            if key in _DATA
            else [_rewritten(item) for item in _once(inner)]
            if key == "allOf" and isinstance(inner, list)
            else _rewritten(inner)
        )
        for key, inner in value.items()
    }


def _once(members: list[Json]) -> Iterator[Json]:
    seen: set[bytes] = set()
    for member in members:
        asked = {k: v for k, v in member.items() if k not in _WORDS} if isinstance(member, dict) else member
        key = msgspec.json.encode(asked, order="deterministic")
        yield True if key in seen else member
        seen.add(key)


def _pointed_at(found: Json, pointer: str) -> Json:
    for step in pointer.split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict):
            found = found.get(step)
        elif isinstance(found, list) and step.isdigit() and int(step) < len(found):
            found = found[int(step)]
        else:
            return None
    return found


def _children(value: object) -> Iterator[object]:
    match value:
        case Mapping():
            yield from value.values()
        case list():
            yield from value
        case _ if value is _UNKNOWN:
            yield value


def _of_properties(properties: JsonObject, value: object) -> Iterator[tuple[Json, object]]:
    if value is _UNKNOWN:
        yield from ((inner, value) for inner in properties.values())
    elif isinstance(value, Mapping):
        yield from ((inner, value[name]) for name, inner in properties.items() if name in value)
