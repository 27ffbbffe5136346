"""Compares answers of the graph API with patterns, as `protocol/vectors/README.md` says."""

import re
from typing import Any


class GraphPatterns:
    """Compares, and remembers what `$set` says."""

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}

    def differences(self, pattern: Any, value: Any, place: str = "") -> list[str]:
        """What is not as the pattern says, place by place; nothing when all is."""
        match pattern:
            case "$any":
                return []
            case "$text":
                return [] if isinstance(value, str) and value else [f"{place}: {value!r} is no text"]
            case "$number":
                return [] if type(value) in (int, float) else [f"{place}: {value!r} is no number"]
            case str() if pattern.startswith("$set:"):
                self.known[pattern[5:]] = value
                return []
            case {"$contains": str(part)}:
                found = isinstance(value, str) and self.filled(part) in value
                return [] if found else [f"{place}: {part!r} is not in {value!r}"]
            case {"$has": list(wanted)}:
                return self._has(wanted, value, place)
            case dict():
                return self._object(pattern, value, place)
            case list():
                return self._array(pattern, value, place)
        filled = self.filled(pattern)
        same = type(filled) is type(value) and filled == value
        return [] if same else [f"{place}: {value!r} is not {filled!r}"]

    def filled(self, value: Any) -> Any:
        """The value with what was remembered in place of `$get:x`, and of `{x}` within a text that begins with `/`."""
        match value:
            case str() if value.startswith("$get:"):
                return self.known[value[5:]]
            case str() if value.startswith("/"):
                return re.sub(r"\{(\w+)\}", lambda found: str(self.known[found[1]]), value)
            case dict():
                return {key: self.filled(inner) for key, inner in value.items()}
            case list():
                return [self.filled(inner) for inner in value]
        return value

    def _object(self, pattern: dict[str, Any], value: Any, place: str) -> list[str]:
        if not isinstance(value, dict):
            return [f"{place}: {value!r} is no object"]
        found = [f"{place}.{key}: is missing" for key in pattern if key not in value]
        for key, inner in pattern.items():
            if key in value:
                found += self.differences(inner, value[key], f"{place}.{key}")
        return found

    def _array(self, pattern: list[Any], value: Any, place: str) -> list[str]:
        if not isinstance(value, list):
            return [f"{place}: {value!r} is no array"]
        if len(pattern) != len(value):
            return [f"{place}: has {len(value)} entries, not {len(pattern)}: {value!r}"]
        pairs = enumerate(zip(pattern, value, strict=True))
        return [found for number, (one, other) in pairs for found in self.differences(one, other, f"{place}.{number}")]

    def _has(self, wanted: list[Any], value: Any, place: str) -> list[str]:
        entries = value if isinstance(value, list) else []
        return [
            f"{place}: nothing in it is like {one!r}: {value!r}"
            for one in wanted
            if not any(self.differences(one, entry) == [] for entry in entries)
        ]
