"""The envelope of every answer of the graph API (`protocol/graph.md` 1.1, 1.2)."""

from typing import Final

import msgspec
from msgspec import Struct

from handspan.core.values import Json
from handspan.wire.graph.faults import Detail

_ENCODER: Final = msgspec.json.Encoder()


class Metadata(Struct, frozen=True):
    """The request that is answered, and the time."""

    request_id: str
    timestamp: str
    """ISO 8601 in UTC."""
    message: str = "OK"


class SuccessBody(Struct, frozen=True):
    """The answer to a request that succeeded (graph.md 1.1)."""

    data: Json
    metadata: Metadata


class ErrorDetails(Struct, frozen=True):
    """What is wrong, in a code, a message and a list of places."""

    code: str
    message: str
    details: list[Detail]


class FailureBody(Struct, frozen=True):
    """The answer to a request that was refused or failed (graph.md 1.2)."""

    error: ErrorDetails
    metadata: Metadata


def encode_success(data: object, request_id: str, at: str) -> bytes:
    """Return the body of a success (graph.md 1.1). `data`: anything that msgspec encodes as JSON."""
    return _ENCODER.encode(SuccessBody(data, Metadata(request_id, at)))  # type: ignore[arg-type]  # see above


def encode_failure(code: str, message: str, details: list[Detail], request_id: str, at: str) -> bytes:
    """Return the body of an error (graph.md 1.2)."""
    return _ENCODER.encode(FailureBody(ErrorDetails(code, message, details), Metadata(request_id, at, message)))
