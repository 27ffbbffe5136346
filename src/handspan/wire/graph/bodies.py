"""A body of the graph API as an object, or as one of the types that describe a body (`protocol/graph.md`)."""

from typing import Final

import msgspec

from handspan.core.errors import WireError
from handspan.core.values import JsonObject
from handspan.wire import strict_json
from handspan.wire.graph.faults import BodyError, Detail, Faults, Kind, Place, kind_of
from handspan.wire.json_size import MOST_VALUES, TooManyValues

BODY: Final[Place] = ("body",)


def read_object(body: bytes | str) -> JsonObject:
    """The object that a body holds; `BodyError` when it is none."""
    try:
        value = strict_json.parse(body, max_values=MOST_VALUES)
    except TooManyValues as error:
        raise BodyError([Detail(list(BODY), str(error), "value_error")]) from None
    except WireError as error:
        raise BodyError([Detail(list(BODY), str(error), "json_invalid")]) from None
    if not isinstance(value, dict):
        raise BodyError([Detail(list(BODY), f"Send an object, not {kind_of(value)}.", "type_error")])
    return value


def read_body(body: bytes, kind: type[Kind]) -> Kind:
    """The body as this type; no body at all is an object without fields. `BodyError` names each place."""
    value = read_object(body) if body.strip() not in (b"", b"null") else {}
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        faults = Faults()
        read = faults.read(value, kind, BODY)
        faults.refuse()
        assert read is not None, "what could not be read has its fault"
        return read
