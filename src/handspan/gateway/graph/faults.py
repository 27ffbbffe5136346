"""Why a request is not done, in the codes of http.md 1.3."""

from collections.abc import Mapping, Sequence
from typing import Final

from handspan.agent.refusals import GatewayStops, TurnRefused
from handspan.core.errors import ConfigError, HandspanError, StoreError, ToolError
from handspan.gateway.entry.refusals import Refused
from handspan.gateway.rest.errors import Problem
from handspan.wire.graph_faults import BodyError, Detail, code_of

_REFUSED_TURNS: Final = {"SESSION_BUSY": 409, "SESSION_OWNER_MISMATCH": 403}


class GraphFault(HandspanError):
    """A request is refused, or could not be done; the message says what to do."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        details: Sequence[Detail] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.details = list(details)
        self.headers = headers or {}
        """What the answer says beside it, such as when to come again."""


def fault_of(error: Exception) -> GraphFault | None:
    """What went wrong, in the words of the graph API; None for what nobody foresaw."""
    match error:
        case GraphFault():
            return error
        case BodyError(details=details):
            return GraphFault(422, "VALIDATION_ERROR", str(error), details)
        case GatewayStops():
            return GraphFault(503, code_of(503), str(error))
        case TurnRefused(code=code):
            status = _REFUSED_TURNS.get(code, 422)
            return GraphFault(status, code_of(status), str(error))
        case StoreError():
            return GraphFault(503, "STORAGE_ERROR", error.message)
        case ToolError(code="file_not_found"):
            return GraphFault(404, "RESOURCE_NOT_FOUND", error.message)
        case ToolError(code="busy"):
            return GraphFault(409, "GRAPH_BUSY", error.message)
        case ToolError():
            return GraphFault(422, "VALIDATION_ERROR", error.message)
        case Problem(headers=headers):
            return GraphFault(error.status, code_of(error.status), error.message, headers=headers)
        case Refused():
            told = {name.decode(): value.decode() for name, value in error.headers}
            return GraphFault(error.status, code_of(error.status), error.message, headers=told)
        case ConfigError():
            return GraphFault(422, "VALIDATION_ERROR", str(error))
        case _:
            return None
