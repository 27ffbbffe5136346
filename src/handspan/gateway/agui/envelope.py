"""Which error is which, before a stream (an HTTP status) and in it (`RUN_ERROR`)."""

from typing import Final

from handspan.agent.refusals import GatewayStops, NoTurnsHere, SessionBusy, SessionRefused, TurnRefused
from handspan.core.errors import ConfigError, DefinitionError, InvalidAnswer, StoreError, ToolError, WireError
from handspan.gateway.http.message import AsgiResponse
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.http.routing import JSON, PRIVATE
from handspan.gateway.runs.attachments import AttachmentRefused
from handspan.gateway.runs.chats import NothingSaid
from handspan.gateway.runs.results import ResultsRefused
from handspan.gateway.runs.tool_sets import OffersRefused
from handspan.wire.agui.events import RunError

_UNFORESEEN: Final = "The gateway failed inside: its log says more."


def refuse(refusal: Refusal) -> AsgiResponse:
    """Return the response to a request that was refused."""
    return AsgiResponse(refusal.body(), refusal.status, {**PRIVATE, **refusal.headers}, JSON)


def error_line(refusal: Refusal) -> bytes:
    """Return an error as the last event of a stream."""
    return RunError(refusal.message, refusal.code).encode()


def refusal_of(error: Exception) -> Refusal:
    """Return the refusal for an error; for an unexpected one, a constant one."""
    match error:
        case Refusal():
            return error
        case WireError() | AttachmentRefused() | NothingSaid():
            return Refusal(400, "invalid_request", str(error))
        case OffersRefused():
            return Refusal(400, "invalid_tools", str(error))
        case ResultsRefused(fault=fault):
            return Refusal(409, f"{fault}_tool_call", error.message)
        case InvalidAnswer():
            return Refusal(422, "invalid_answer", str(error))
        case GatewayStops():
            return Refusal(503, "stopping", str(error), 5)
        case NoTurnsHere():
            return Refusal(421, "no_turns_here", str(error))
        case SessionBusy() | ToolError(code="busy"):
            return Refusal(429, "busy", str(error), 1)
        case SessionRefused(code="AGENT_INIT_FAILED"):
            return Refusal(404, "unknown_agent", str(error))
        case StoreError():
            return Refusal(503, "store_failed", error.message, 5)
        case TurnRefused() | DefinitionError() | ConfigError() | ToolError():
            return Refusal(400, "refused", str(error))
        case _:
            return Refusal(500, "internal_error", _UNFORESEEN)
