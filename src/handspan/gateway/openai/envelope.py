"""Errors in OpenAI's form, and which error is which."""

from typing import Final

from msgspec import UnsetType

from handspan.agent.refusals import GatewayStops, NoTurnsHere, SessionBusy, SessionRefused, TurnRefused
from handspan.core.errors import ConfigError, DefinitionError, StoreError, ToolError
from handspan.core.events import Ended
from handspan.gateway.http.message import AsgiResponse
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.http.routing import JSON, PRIVATE
from handspan.gateway.runs.chats import NothingSaid
from handspan.gateway.runs.results import ResultsRefused
from handspan.gateway.runs.tool_sets import OffersRefused
from handspan.wire.openai.errors import encode_error
from handspan.wire.openai.reading import WrongParameter

NO_RETRY: Final = {"x-should-retry": "false"}
"""Tells OpenAI's clients not to send a request again by themselves: something has run already."""
_STATUS: Final = {"too_long": 400, "refused": 400, "rejected": 400, "overloaded": 503, "budget_spent": 429}
_CODES: Final = {
    "too_long": "context_length_exceeded",
    "refused": "content_filter",
    "budget_spent": "insufficient_quota",
}
_UNFORESEEN: Final = "The gateway failed inside: its log says more."


class OpenAiRefusal(Refusal):
    """A refusal that names a parameter."""

    def __init__(
        self, status: int, message: str, param: str | None = None, code: str | None = None, *, has_run: bool = False
    ) -> None:
        """`has_run`: something has run for this request, so it must not be sent again by itself."""
        super().__init__(status, code or "", message, headers=NO_RETRY if has_run else None)
        self.param = param


class RunFailed(OpenAiRefusal):
    """A run ended with an error."""


def refuse(refusal: Refusal) -> AsgiResponse:
    """Return the response to a request that was refused or failed."""
    headers = {**PRIVATE, **refusal.headers}
    return AsgiResponse(error_bytes(refusal), refusal.status, headers, JSON)


def error_bytes(refusal: Refusal) -> bytes:
    """Return the error as JSON."""
    param = refusal.param if isinstance(refusal, OpenAiRefusal) else None
    code = refusal.code if isinstance(refusal, OpenAiRefusal) else None
    return encode_error(refusal.status, refusal.message, param, code or None)


def refusal_of(error: Exception) -> Refusal:
    """Return the refusal for an error; for an unexpected one, a constant one."""
    match error:
        case Refusal():
            return error
        case WrongParameter(param=param, code=code):
            return OpenAiRefusal(400, str(error), param, code)
        case OffersRefused():
            return OpenAiRefusal(400, str(error), "tools", "invalid_value")
        case ResultsRefused(fault=fault):
            return OpenAiRefusal(400, error.message, "messages", f"{fault}_tool_call")
        case NothingSaid():
            return OpenAiRefusal(400, str(error), "messages", "invalid_value")
        case GatewayStops():
            return Refusal(503, "stopping", str(error), 5)
        case NoTurnsHere():
            return Refusal(421, "no_turns_here", str(error))
        case SessionBusy():
            return Refusal(429, "busy", str(error), 1)
        case SessionRefused(code="AGENT_INIT_FAILED"):
            return OpenAiRefusal(404, str(error), "model", "model_not_found")
        case TurnRefused() | DefinitionError() | ConfigError():
            return OpenAiRefusal(400, str(error))
        case StoreError():
            return Refusal(503, "unavailable", error.message, 5)
        case ToolError(code="busy"):
            return Refusal(429, "busy", error.message, 1)
        case ToolError():
            return OpenAiRefusal(400, error.message)
        case _:
            return Refusal(500, "inside", _UNFORESEEN)


def failure_of(ended: Ended, *, has_run: bool) -> RunFailed:
    """Return the refusal for a run that ended with an error, in words of the gateway's own."""
    code = "" if isinstance(ended.fault, UnsetType) else ended.fault.code
    status = _STATUS.get(code, 502)
    return RunFailed(status, ended.text or "The run failed.", code=_CODES.get(code, code or None), has_run=has_run)
