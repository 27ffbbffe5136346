"""The vectors of `protocol/vectors/`: read, and compared as their README says."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

PROTOCOL = Path(__file__).parents[2] / "protocol"


class Case(msgspec.Struct):
    """One case."""

    name: str
    clauses: list[str]
    steps: list[dict[str, Any]]
    rows: list[str] = []
    client: dict[str, Any] = {}
    tools: list[dict[str, Any]] = []


class File(msgspec.Struct):
    """One file."""

    about: str
    cases: list[Case]


def cases(side: str) -> Iterator[tuple[str, Case]]:
    """Every case of `device` or `gateway`, with a name to show."""
    for path in sorted((PROTOCOL / "vectors" / side).glob("*.json")):
        for case in msgspec.json.decode(path.read_bytes(), type=File, strict=True).cases:
            yield f"{path.stem}: {case.name}", case


@cache
def schema(side: str, kind: str) -> dict[str, Any]:
    """The schema of a frame: `client` or `server`."""
    found: dict[str, Any] = json.loads((PROTOCOL / "schema" / side / f"{kind}.json").read_text(encoding="utf-8"))
    return found


def lean(frame: Any, side: str) -> Any:
    """The frame without the fields that have their default."""
    if not isinstance(frame, dict) or not isinstance(frame.get("type"), str):
        return frame
    known = schema(side, frame["type"])["properties"]
    nothing = object()
    return {key: value for key, value in frame.items() if value != known.get(key, {}).get("default", nothing)}


class FramePatterns:
    """Compares, and remembers what `$set` says."""

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}

    def matches(self, pattern: Any, value: Any) -> bool:
        """Whether the value is as the pattern says."""
        match pattern:
            case "$any" | "$optional":
                return True
            case "$text":
                return isinstance(value, str) and value != ""
            case str() if pattern.startswith("$set:"):
                self._known[pattern[5:]] = value
                return True
            case {"$has": wanted}:
                return isinstance(value, list) and all(one in value for one in wanted)
            case {"$lacks": unwanted}:
                return isinstance(value, list) and not any(one in value for one in unwanted)
            case dict():
                pattern = _without_missing(self.filled(pattern), value)
                return (
                    isinstance(value, dict)
                    and pattern.keys() == value.keys()
                    and all(self.matches(inner, value[key]) for key, inner in pattern.items())
                )
            case list():
                return (
                    isinstance(value, list)
                    and len(pattern) == len(value)
                    and all(self.matches(inner, one) for inner, one in zip(pattern, value, strict=True))
                )
        filled = self.filled(pattern)
        return type(filled) is type(value) and bool(filled == value)

    def filled(self, value: Any) -> Any:
        """The value with what was remembered in place of `$get`."""
        match value:
            case str() if value.startswith("$get:"):
                return self._known[value[5:]]
            case dict():
                return {key: self.filled(inner) for key, inner in value.items()}
            case list():
                return [self.filled(inner) for inner in value]
        return value


def _without_missing(pattern: dict[str, Any], value: Any) -> dict[str, Any]:
    """The pattern without the optional fields that this value does not have."""
    return {key: inner for key, inner in pattern.items() if inner != "$optional" or key in value}
