"""Requests and answers of the graph API (graph.md 1): path, query and body are read, answers get their envelope.

A client gets an answer that it can read, whatever happens. `BodyError` names the place that is wrong (graph.md 1.3).
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

from handspan.agent.refusals import GatewayStops, NoTurnsHere, TurnRefused
from handspan.core.calls import new_call_id
from handspan.core.errors import ConfigError, StoreError, ToolError
from handspan.gateway.http.bodies import read_body
from handspan.gateway.http.message import AsgiRequest, AsgiResponse
from handspan.gateway.http.refusals import Refusal, graph_body
from handspan.gateway.http.routing import JSON
from handspan.wire.graph.envelope import encode_success
from handspan.wire.graph.faults import BodyError, Faults, quote

BODY_BYTES: Final = 10 * 1024 * 1024
"""The largest body: messages hold images."""
BODY_SECONDS: Final = 30.0
MAX_LISTED: Final = 1000
"""The most entries of one list."""
_WHOLE: Final = re.compile(r"-?[0-9]{1,15}")
_REFUSED_TURNS: Final = {"SESSION_BUSY": 409, "SESSION_OWNER_MISMATCH": 403}
_UNFORESEEN: Final = "The gateway failed inside: its log says more. Try again."


class Paging(Struct, frozen=True):
    """The part of a list that a request asks for."""

    search: str
    offset: int
    limit: int


def read_paging(request: AsgiRequest) -> Paging:
    """Return the part of a list that the query asks for."""
    faults, query = Faults(), request.query_params
    offset = _number(query.get("offset", "0"), "offset", 0, 10**15, faults)
    limit = _number(query.get("limit", "100"), "limit", 1, MAX_LISTED, faults)
    faults.raise_if_any()
    return Paging(query.get("search", ""), offset, limit)


async def read_body_bytes(request: AsgiRequest) -> bytes:
    """Return the whole body. Raises `Refusal` when it is too large or comes too slowly."""
    return await read_body(request, BODY_BYTES, BODY_SECONDS)


def path_id(request: AsgiRequest, name: str) -> str:
    """Return the id in the path under this name. Raises `BodyError` when it is blank."""
    given: str = request.path_params[name]
    faults = Faults()
    if not given.strip():
        faults.add(("path", name), "It is blank: send the id.")
    faults.raise_if_any()
    return given


def succeed(data: object) -> AsgiResponse:
    """Return the response to a request that succeeded (graph.md 1.1)."""
    request_id, at = new_call_id(), _now()
    return AsgiResponse(encode_success(data, request_id, at), 200, _headers(request_id, at), JSON)


def refuse(refusal: Refusal) -> AsgiResponse:
    """Return the response to a request that was refused or failed (graph.md 1.2)."""
    request_id, at = new_call_id(), _now()
    headers = {**_headers(request_id, at), **refusal.headers}
    return AsgiResponse(graph_body(refusal, request_id, at), refusal.status, headers, JSON)


def refusal_of(error: Exception) -> Refusal:
    """Return the refusal for an error: the status of graph.md 1.3, and a code where the status has several."""
    match error:
        case Refusal():
            return error
        case BodyError(details=details):
            return Refusal(422, "VALIDATION_ERROR", str(error), details=details)
        case GatewayStops():
            return Refusal(503, "stopping", str(error))
        case NoTurnsHere():
            return Refusal(421, "NO_TURNS_HERE", str(error))
        case TurnRefused(code=code):
            return Refusal(_REFUSED_TURNS.get(code, 422), "refused", str(error))
        case StoreError():
            return Refusal(503, "STORAGE_ERROR", error.message)
        case ToolError(code="file_not_found"):
            return Refusal(404, "RESOURCE_NOT_FOUND", error.message)
        case ToolError(code="busy"):
            return Refusal(409, "GRAPH_BUSY", error.message)
        case ToolError():
            return Refusal(422, "VALIDATION_ERROR", error.message)
        case ConfigError():
            return Refusal(422, "VALIDATION_ERROR", str(error))
        case _:
            return Refusal(500, "GRAPH_ERROR", _UNFORESEEN)


def _headers(request_id: str, at: str) -> Mapping[str, str]:
    return {"x-request-id": request_id, "x-timestamp": at, "cache-control": "no-store"}


def _now() -> str:
    return datetime.now(UTC).isoformat()


def _number(text: str, name: str, low: int, high: int, faults: Faults) -> int:
    place = ("query", name)
    if not _WHOLE.fullmatch(text):
        faults.add(place, f"Send a whole number, not {quote(text)}.", "type_error")
        return low
    number = int(text)
    if not low <= number <= high:
        faults.add(place, f"{number} is out of range: send {low} to {high}, or leave it out.")
    return number
