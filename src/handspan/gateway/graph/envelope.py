"""Answers of the graph API (graph.md 1): those that succeed get their envelope, errors become refusals.

A client gets an answer that it can read, whatever happens.
"""

from datetime import UTC, datetime
from typing import Final

from handspan.agent.refusals import GatewayStops, NoTurnsHere, TurnRefused
from handspan.core.calls import new_call_id
from handspan.core.errors import ConfigError, InvalidAnswer, StoreError, ToolError
from handspan.gateway.http.message import AsgiResponse
from handspan.gateway.http.refusals import Refusal, graph_body
from handspan.gateway.http.routing import JSON
from handspan.gateway.runs.tool_sets import OffersRefused
from handspan.wire.graph.answers import encode_success
from handspan.wire.graph.faults import BodyError, Detail

_REFUSED_TURNS: Final = {"SESSION_BUSY": 409, "SESSION_OWNER_MISMATCH": 403}
_UNFORESEEN: Final = "The gateway failed inside: its log says more. Try again."


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
        case OffersRefused(wrong=wrong):
            return refusal_of(BodyError([_tool_detail(place, text) for place, text in wrong]))
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
        case ToolError() | ConfigError() | InvalidAnswer():
            return Refusal(422, "VALIDATION_ERROR", str(error))
        case _:
            return Refusal(500, "GRAPH_ERROR", _UNFORESEEN)


def _tool_detail(place: int | None, text: str) -> Detail:
    return Detail(["body", "tools", *([] if place is None else [str(place)])], text, "value_error")


def _headers(request_id: str, at: str) -> dict[str, str]:
    return {"x-request-id": request_id, "x-timestamp": at, "cache-control": "no-store"}


def _now() -> str:
    return datetime.now(UTC).isoformat()
