"""How many steps it takes to check a value against a schema. A limit on them keeps a schema from blocking the process.

A short schema can ask for a billion steps: for example thirty definitions, each of which refers twice to the next one.
The library that checks follows every reference each time, and nothing can interrupt it. So the steps are counted first,
where they can be many: for schemas with `$ref` at registration, for every schema before an error is explained.
"""

import re
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
"""Keywords with a list of schemas for the value itself."""
_SINGLES: Final = frozenset(("not", "if", "then", "else"))
"""Keywords with one schema for the value itself."""
_MAPS: Final = frozenset(("dependentSchemas", "dependencies"))
"""Keywords with schemas by name for the value itself."""
_CHILD_SCHEMAS: Final = frozenset(
    ("additionalProperties", "unevaluatedProperties", "items", "additionalItems", "unevaluatedItems", "contains")
)
"""Keywords with one schema for each child of the value."""
_DATA: Final = frozenset(("const", "enum", "default", "examples"))
"""Keywords with data, not schemas."""
_NOTES: Final = frozenset(("title", "description", "$comment", "default", "examples"))
"""Keywords that change no check."""

_INDEX: Final = re.compile("[0-9]{1,9}")
"""A step of a JSON pointer into a list. `int` takes other digits too, and refuses thousands of them."""
_UNKNOWN: Final = object()
"""Stands for a value that is not known yet: it may have any child."""


class SchemaCost:
    """Counts the steps that it takes to check values against one schema."""

    def __init__(self, schema: JsonObject) -> None:
        """Read this schema. Raises `DefinitionError` when a reference leads out of it."""
        self._schema = schema
        self._id_keyword = "id" if str(schema.get("$schema")).rstrip("#") == _DRAFT_4 else "$id"
        self._bases: dict[int, str] = {}
        """The base address of each part of the schema, by the part's `id()`."""
        self._known: dict[str, JsonObject] = {"": schema}
        """The parts of the schema that a reference can name."""
        self._ambiguous: set[str] = set()
        """Names that several different parts have: the library takes one of them, and we can't say which."""
        self._index(schema, "")
        self._check_references()

    def is_within(self, steps: int, value: object = _UNKNOWN) -> bool:
        """Whether so many steps are enough to check this value. Without a value: any, with each cycle followed once."""
        start: tuple[Json, object] = (self._schema, value)
        frames = [((0, 0), iter((start,)))]
        open_keys: set[tuple[int, int]] = set()
        while frames:
            key, branches = frames[-1]
            branch = next(branches, None)
            if branch is None:
                frames.pop()
                open_keys.discard(key)
                continue
            steps -= 1
            if steps < 0:
                return False
            schema, value = branch
            key = (id(schema), id(value))
            if isinstance(schema, dict) and key not in open_keys:
                open_keys.add(key)
                frames.append((key, self._branches(schema, value)))
        return True

    def _branches(self, schema: JsonObject, value: object) -> Iterator[tuple[Json, object]]:
        """Yield what the library checks next, as pairs of a schema and a value."""
        for keyword, inner in schema.items():
            if keyword in _REFS and isinstance(inner, str):
                yield self._resolve(schema, inner), value
            elif keyword in _SINGLES:
                yield inner, value
            elif keyword in _CHILD_SCHEMAS and isinstance(inner, dict):
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
                yield from _property_branches(inner, value)

    def _resolve(self, schema: JsonObject, ref: str) -> Json:
        """Return the part of the schema that a reference names."""
        base = self._bases.get(id(schema), "")
        uri, fragment = urldefrag(ref if not base else base + ref if ref.startswith("#") else urljoin(base, ref))
        is_anchor = fragment and not fragment.startswith("/")
        name = f"{uri}#{fragment}" if is_anchor else uri
        if name in self._ambiguous:
            raise DefinitionError(f"the $ref {ref!r} may mean several parts of the schema: give each a name of its own")
        found: Json = self._known.get(name)
        if not is_anchor:
            found = _follow_pointer(found, unquote(fragment))
        if found is None:
            raise DefinitionError(f"a $ref may only point into the schema itself, and {ref!r} leads nowhere there")
        return found

    def _check_references(self) -> None:
        """Resolve every reference that a check can reach: `_resolve` raises for a wrong one."""
        seen: set[int] = set()
        todo: list[Json] = [self._schema]
        while todo:
            schema = todo.pop()
            if isinstance(schema, dict) and id(schema) not in seen:
                seen.add(id(schema))
                todo += (inner for inner, _ in self._branches(schema, _UNKNOWN))

    def _index(self, value: Json, base: str) -> None:
        """Register what references can name: resources by their `$id`, anchors, and the base of every part."""
        if isinstance(value, list):
            for item in value:
                self._index(item, base)
        if not isinstance(value, dict):
            return
        own_id = value.get(self._id_keyword)
        if isinstance(own_id, str) and own_id.startswith("#"):  # up to draft 7 an anchor is written so
            self._register(f"{base}{own_id}", value)
        elif isinstance(own_id, str):
            base = urldefrag(urljoin(base, own_id)).url
            self._register(base, value)
        for keyword in _ANCHORS:
            if isinstance(anchor := value.get(keyword), str):
                self._register(f"{base}#{anchor}", value)
        self._bases[id(value)] = base
        for key, inner in value.items():
            if key not in _DATA:
                self._index(inner, base)

    def _register(self, name: str, value: JsonObject) -> None:
        if self._known.setdefault(name, value) != value:
            self._ambiguous.add(name)


def has_references(encoded_schema: bytes) -> bool:
    """Whether a schema may have references. Without them the steps are not more than its length."""
    return b'Ref"' in encoded_schema or b'$ref"' in encoded_schema


def drop_repeated_all_of(schema: JsonObject) -> JsonObject:
    """Return the same schema with `true` in place of each member of an `allOf` that repeats an earlier one."""
    encoded = msgspec.json.encode(schema)
    if b"allOf/" in encoded:  # a reference may name a member by its position
        return schema
    rewritten = _rewrite(schema)
    assert isinstance(rewritten, dict)  # as the schema is
    return rewritten


def _rewrite(value: Json) -> Json:
    """Return the value with every `allOf` shortened."""
    if isinstance(value, list):
        return [_rewrite(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: (
            inner
            if key in _DATA
            else [_rewrite(item) for item in _replace_repeats(inner)]
            if key == "allOf" and isinstance(inner, list)
            else _rewrite(inner)
        )
        for key, inner in value.items()
    }


def _replace_repeats(members: list[Json]) -> Iterator[Json]:
    """Yield the members, with `true` in place of each one that asks the same as an earlier one."""
    seen: set[bytes] = set()
    for member in members:
        asked = {k: v for k, v in member.items() if k not in _NOTES} if isinstance(member, dict) else member
        key = msgspec.json.encode(asked, order="deterministic")
        yield True if key in seen else member
        seen.add(key)


def _follow_pointer(value: Json, pointer: str) -> Json:
    """Return the value at a JSON pointer; None when there is no such value."""
    for step in pointer.split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and _INDEX.fullmatch(step) and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def _children(value: object) -> Iterator[object]:
    """Yield the children of a value. An unknown value has one child, which is unknown, too."""
    match value:
        case Mapping():
            yield from value.values()
        case list():
            yield from value
        case _ if value is _UNKNOWN:
            yield value


def _property_branches(properties: JsonObject, value: object) -> Iterator[tuple[Json, object]]:
    """Yield the schema of each property that the value has, with that property's value."""
    if value is _UNKNOWN:
        yield from ((inner, value) for inner in properties.values())
    elif isinstance(value, Mapping):
        yield from ((inner, value[name]) for name, inner in properties.items() if name in value)
