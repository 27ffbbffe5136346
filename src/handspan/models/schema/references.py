"""Resolves the references of a schema, and translates keywords of older drafts to 2020-12."""

import re
from collections.abc import Callable
from typing import Final
from urllib.parse import unquote, urldefrag, urljoin

from handspan.core.values import Json, JsonObject
from handspan.models.schema.report import UnsupportedSchema

_REFS: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_DATA: Final = frozenset(("const", "enum", "default", "examples"))
_OLD: Final = re.compile(r"draft-0[3467]/")


class References:
    """Resolves the references of one schema, and lists the definitions that its lowered form needs."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._bases: dict[int, str] = {}
        self._by_uri: dict[str, JsonObject] = {}
        self._names_by_id: dict[int, str] = {}
        self._taken: set[str] = set()
        self._pending: list[tuple[str, JsonObject]] = []
        declared = root.get("$schema")
        self.is_old = isinstance(declared, str) and _OLD.search(declared) is not None
        """Before 2019-09, keywords beside a `$ref` have no effect."""
        groups = (root.get("$defs"), root.get("definitions"))
        self._declared_names = {
            id(schema): name for group in groups if isinstance(group, dict) for name, schema in group.items()
        }
        self._index(root, "")

    def target(self, schema: JsonObject) -> Json:
        """Return the schema that this one refers to; None when it has no reference."""
        ref = next((schema[keyword] for keyword in _REFS if isinstance(schema.get(keyword), str)), None)
        if not isinstance(ref, str):
            return None
        base = self._bases.get(id(schema), "")
        uri, fragment = urldefrag(ref if not base else base + ref if ref.startswith("#") else urljoin(base, ref))
        if fragment and not fragment.startswith("/"):
            found: Json = self._by_uri.get(f"{uri}#{fragment}")
        else:
            found = _follow_pointer(self._by_uri.get(uri), unquote(fragment))
        if not isinstance(found, dict | bool):
            raise UnsupportedSchema(f"the reference {ref!r} leads to no schema")
        return found

    def pointer(self, target: JsonObject) -> str:
        """Return the `$ref` to this schema in the lowered form, and list the definition as pending."""
        if target is self._root:
            return "#"
        if id(target) not in self._names_by_id:
            name = self._free_name(target)
            self._names_by_id[id(target)] = name
            self._pending.append((name, target))
        return f"#/$defs/{self._names_by_id[id(target)]}"

    def add_definitions(self, lowered: JsonObject, write: Callable[[str, JsonObject], JsonObject]) -> JsonObject:
        """Return the lowered root with each definition that it refers to. Writing a definition may add more."""
        definitions: JsonObject = {}
        while self._pending:
            name, target = self._pending.pop(0)
            definitions[name] = write(name, target)
        return lowered | ({"$defs": definitions} if definitions else {})

    def _free_name(self, target: JsonObject) -> str:
        stem = re.sub(r"[^A-Za-z0-9_]+", "_", self._declared_names.get(id(target), ""))[:40].strip("_") or "form"
        name = stem if stem not in self._taken else f"{stem}_{len(self._taken)}"
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name

    def _index(self, value: Json, base: str) -> None:
        """Note the schemas that references can name (by `$id` and by anchor), and the base URI of each schema."""
        if isinstance(value, list):
            for item in value:
                self._index(item, base)
        if not isinstance(value, dict):
            return
        own_id = value.get("$id", value.get("id") if self.is_old else None)
        if isinstance(own_id, str):
            base, anchor = urldefrag(urljoin(base, own_id))
            self._by_uri.setdefault(f"{base}#{anchor}" if anchor else base, value)
        if value is self._root:
            self._by_uri.setdefault(base, value)
            self._by_uri[""] = value
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(anchor_name := value.get(keyword), str):
                self._by_uri.setdefault(f"{base}#{anchor_name}", value)
        if value.get("$recursiveAnchor") is True:
            self._by_uri.setdefault(base, value)
        self._bases[id(value)] = base
        for key, inner in value.items():
            if key not in _DATA:
                self._index(inner, base)


def modernize(schema: JsonObject) -> JsonObject:
    """Return the same schema with the keywords of 2020-12 for tuples, dependencies and exclusive bounds."""
    changed = dict(schema)
    if isinstance(items := changed.get("items"), list):
        changed["prefixItems"] = items
        del changed["items"]
        if "additionalItems" in changed:
            changed["items"] = changed["additionalItems"]
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(is_exclusive := changed.get(exclusive), bool):
            del changed[exclusive]
            if is_exclusive and bound in changed:
                changed[exclusive] = changed.pop(bound)
    dependencies = changed.pop("dependencies", None)
    if isinstance(dependencies, dict):
        names: JsonObject = {key: needed for key, needed in dependencies.items() if isinstance(needed, list)}
        schemas: JsonObject = {key: needed for key, needed in dependencies.items() if not isinstance(needed, list)}
        changed.update({"dependentRequired": names} if names else {})
        changed.update({"dependentSchemas": schemas} if schemas else {})
    return changed


def _follow_pointer(found: Json, pointer: str) -> Json:
    """Return what this JSON pointer leads to; None if it leads nowhere."""
    for step in pointer.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict):
            found = found.get(key)
        elif isinstance(found, list) and key.isdecimal() and int(key) < len(found):
            found = found[int(key)]
        else:
            return None
    return found
