"""Collects what is wrong with a body, place by place (`protocol/graph.md` 1.2)."""

import re
from collections.abc import Iterator
from typing import Any, Final, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from handspan.core.errors import WireError
from handspan.core.values import Json

FaultType: TypeAlias = Literal["missing", "type_error", "value_error", "json_invalid"]
Place: TypeAlias = tuple[str, ...]
Kind = TypeVar("Kind", bound=Struct)

MAX_DETAILS: Final = 50
"""An answer names no more places: a body can be wrong in a million."""
_LONGEST_MESSAGE: Final = 200
_LONGEST_QUOTE: Final = 60

_BY_STATUS: Final[dict[int, str]] = {
    401: "AUTHENTICATION_ERROR",
    403: "PERMISSION_ERROR",
    404: "RESOURCE_NOT_FOUND",
    405: "METHOD_NOT_ALLOWED",
    408: "REQUEST_TIMEOUT",
    409: "GRAPH_BUSY",
    413: "REQUEST_TOO_LARGE",
    429: "RATE_LIMIT_EXCEEDED",
    503: "STORAGE_ERROR",
    504: "GRAPH_TIMEOUT",
}


_CODES: Final = frozenset(_BY_STATUS.values()) | {
    "GRAPH_ANSWERED_CALL",
    "GRAPH_ERROR",
    "GRAPH_EXPIRED_CALL",
    "GRAPH_UNKNOWN_CALL",
    "GRAPH_WRONG_THREAD",
    "VALIDATION_ERROR",
}


def error_code(status: int, own: str = "") -> str:
    """Return the error's own code, if graph.md 1.3 has it. Else the code of its status."""
    if own in _CODES:
        return own
    return _BY_STATUS.get(status, "VALIDATION_ERROR" if status < 500 else "GRAPH_ERROR")


class Detail(Struct, frozen=True):
    """One wrong field of a body."""

    loc: list[str]
    """Where: `["body", "messages", "0", "content"]`."""
    msg: str
    """What is wrong, and what to send."""
    type: str
    """The kind of fault, for programs."""


class BodyError(WireError):
    """A body is wrong. `details` names each place (422, VALIDATION_ERROR)."""

    def __init__(self, details: list[Detail]) -> None:
        first = details[0]
        more = f" (and {len(details) - 1} more, see details)" if len(details) > 1 else ""
        super().__init__(f"{'.'.join(first.loc)}: {first.msg}{more}")
        self.details = details[:MAX_DETAILS]


class Faults:
    """The faults that are found while a body is read."""

    def __init__(self) -> None:
        self.details: list[Detail] = []

    @property
    def is_full(self) -> bool:
        """Whether the list is full: reading may stop."""
        return len(self.details) >= MAX_DETAILS

    def add(self, place: Place, msg: str, kind: FaultType = "value_error") -> None:
        """Add a fault."""
        self.details.append(Detail(list(place), msg, kind))

    def raise_if_any(self) -> None:
        """Raise `BodyError` with all faults, if there are any."""
        if self.details:
            raise BodyError(self.details)

    def read(self, value: Json, kind: type[Kind], place: Place) -> Kind | None:
        """Return the value as this type. None: it does not fit, and its faults were added. A null field is missing."""
        if not isinstance(value, dict):
            self.add(place, f"Send an object, not {kind_name(value)}.", "type_error")
            return None
        try:
            return msgspec.convert(_drop_nulls(value), kind)
        except msgspec.ValidationError as error:
            self.details += _field_by_field(value, kind, place) or [to_detail(error, place)]
            return None

    def read_list(self, value: Json, place: Place, example: str) -> Iterator[tuple[Place, Json]]:
        """Yield the entries of a list with their places, until the faults are full. Another value is a fault."""
        if value is None:
            self.add(place, f"It is missing: send a list such as {example}.", "missing")
        elif not isinstance(value, list):
            self.add(place, f"Send a list such as {example}, not {kind_name(value)}.", "type_error")
        else:
            for index, entry in enumerate(value):
                if self.is_full:
                    return
                yield (*place, str(index)), entry


def to_detail(error: msgspec.ValidationError, place: Place) -> Detail:
    """Return an error of msgspec as a detail, with its place."""
    message, _, path = str(error).partition(" - at `$")
    message = message[:_LONGEST_MESSAGE]  # it quotes the value, however long that is
    loc = [*place, *re.findall(r"[^.\[\]`]+", path)]
    if missing := re.search(r"missing required field `([^`]+)`", message):
        return Detail([*loc, missing[1]], "It is missing.", "missing")
    if "matching regex" in message:  # all patterns mean: not blank
        return Detail(loc, "It is blank: send some text.", "value_error")
    kind = "type_error" if re.match(r"Expected `[^`]+`, got ", message) else "value_error"
    return Detail(loc, f"{re.sub(r'`([^`]+)`', _in_words, message)}.", kind)


def kind_name(value: Json) -> str:
    """Return the kind of a JSON value, for a sentence: "a list"."""
    return _KINDS[type(value)]


def quote(value: Any) -> str:
    """Return the value, shortened for a message. Objects and lists are "{…}" and "[…]"."""
    if isinstance(value, dict | list):
        return "{…}" if isinstance(value, dict) else "[…]"
    text = repr(value[: _LONGEST_QUOTE + 1] if isinstance(value, str) else value)
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}…"


def _field_by_field(value: dict[str, Json], kind: type[Struct], place: Place) -> list[Detail]:
    """Return every wrong field. msgspec itself stops at the first."""
    found = []
    for field in msgspec.structs.fields(kind):
        here = (*place, field.encode_name)
        item = value.get(field.encode_name)
        if item is not None:
            try:
                msgspec.convert(item, field.type)
            except msgspec.ValidationError as error:
                found.append(to_detail(error, here))
        elif field.required:
            found.append(Detail(list(here), "It is missing.", "missing"))
    return found


def _in_words(quoted: re.Match[str]) -> str:
    return " or ".join(_WORDS.get(word, word) for word in quoted[1].split(" | "))


def _drop_nulls(value: dict[str, Json]) -> dict[str, Json]:
    return {key: item for key, item in value.items() if item is not None}


_WORDS: Final = {
    "object": "an object",
    "array": "a list",
    "str": "a text",
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
}
_KINDS: Final[dict[type, str]] = {
    dict: "an object",
    list: "a list",
    str: "a text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    type(None): "null",
}
