"""The envelope of the graph API (graph.md 1): whatever happens, a client gets an answer that it can read."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from handspan.agent.refusals import GatewayStops, TurnRefused
from handspan.core.calls import new_call_id
from handspan.core.errors import ConfigError, StoreError, ToolError
from handspan.gateway.http.message import AsgiResponse
from handspan.gateway.http.refusals import Refusal, graph_body
from handspan.gateway.http.routing import JSON
from handspan.wire.graph import reading as graph
from handspan.wire.graph.faults import BodyError

_REFUSED_TURNS: Final = {"SESSION_BUSY": 409, "SESSION_OWNER_MISMATCH": 403}
_UNFORESEEN: Final = "The gateway failed inside: its log says more. Try again."


def succeed(data: object) -> AsgiResponse:
    """A success (graph.md 1.1)."""
    request_id, at = new_call_id(), _now()
    return AsgiResponse(graph.success(data, request_id, at), 200, _headers(request_id, at), JSON)


def refuse(refusal: Refusal) -> AsgiResponse:
    """Anything else (graph.md 1.2)."""
    request_id, at = new_call_id(), _now()
    headers = {**_headers(request_id, at), **refusal.headers}
    return AsgiResponse(graph_body(refusal, request_id, at), refusal.status, headers, JSON)


def refusal_of(error: Exception) -> Refusal:
    """What went wrong, with the status of graph.md 1.3, and its code where the status has several."""
    match error:
        case Refusal():
            return error
        case BodyError(details=details):
            return Refusal(422, "VALIDATION_ERROR", str(error), details=details)
        case GatewayStops():
            return Refusal(503, "stopping", str(error))
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
