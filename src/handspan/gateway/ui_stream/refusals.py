"""Which error is which refusal, and an error as the end of a stream."""

from typing import Final

from handspan.agent.refusals import GatewayStops, NoTurnsHere, SessionBusy, TurnRefused
from handspan.core.errors import ConfigError, DefinitionError, StoreError, ToolError
from handspan.gateway.http.message import AsgiResponse
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.http.routing import JSON, PRIVATE
from handspan.gateway.runs.chats import NothingSaid
from handspan.gateway.runs.results import ResultsRefused
from handspan.gateway.runs.tool_sets import OffersRefused
from handspan.wire.ui_stream import FailedChunk, render_chunk

_UNFORESEEN: Final = "The gateway failed inside: its log says more."


def refuse(refusal: Refusal) -> AsgiResponse:
    """Return the response to a request that was refused or failed."""
    return AsgiResponse(refusal.body(), refusal.status, {**PRIVATE, **refusal.headers}, JSON)


def error_line(refusal: Refusal) -> bytes:
    """Return an error as an event of the stream."""
    return render_chunk(FailedChunk(refusal.message))


def refusal_of(error: Exception) -> Refusal:
    """Return the refusal for an error; for an unexpected one, a constant one."""
    match error:
        case Refusal():
            return error
        case OffersRefused():
            return Refusal(400, "invalid_tools", str(error))
        case ResultsRefused(fault=fault):
            return Refusal(400, f"{fault}_call", error.message)
        case GatewayStops():
            return Refusal(503, "stopping", str(error), 5)
        case NoTurnsHere():
            return Refusal(421, "no_turns_here", str(error))
        case SessionBusy():
            return Refusal(429, "busy", str(error), 1)
        case NothingSaid() | TurnRefused() | DefinitionError() | ConfigError():
            return Refusal(400, "invalid_request", str(error))
        case StoreError():
            return Refusal(503, "unavailable", error.message, 5)
        case ToolError(code="busy"):
            return Refusal(429, "busy", error.message, 1)
        case ToolError(code=code):
            return Refusal(400, code, error.message)
        case _:
            return Refusal(500, "internal", _UNFORESEEN)
