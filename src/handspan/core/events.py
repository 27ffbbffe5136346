"""What happens in a turn, as events for every listener: terminal, page, WebSocket, SDK."""

from typing import Final, Literal, TypeAlias, final

from msgspec import UNSET, Struct, UnsetType

from handspan.core.messages import Usage
from handspan.core.questions import Question
from handspan.core.values import Json

EndReason: TypeAlias = Literal["done", "limit", "errors", "length", "refusal", "pending", "aborted", "error"]
"""Why a turn ended. `pending`: the outcome of a call comes from elsewhere, and the turn continues with it."""


@final
class TextArrived(Struct, frozen=True, tag="text"):
    """More of the answer."""

    text: str


@final
class ThinkingArrived(Struct, frozen=True, tag="thinking"):
    """More of the model's thinking."""

    text: str


@final
class RoundBegan(Struct, frozen=True, tag="round"):
    """The model is asked: for the first time in this turn, or again with results."""

    number: int


@final
class CallArrived(Struct, frozen=True, tag="call_arguments"):
    """The model is writing a call: first its name, then more and more of its arguments."""

    index: int
    name: str
    arguments: str


@final
class CallStarted(Struct, frozen=True, tag="call_started"):
    """A tool is about to run."""

    id: str
    name: str
    arguments: str


@final
class CallProgress(Struct, frozen=True, tag="call_progress"):
    """A tool reports while it runs."""

    id: str
    name: str
    value: Json


@final
class CallFinished(Struct, frozen=True, tag="call_finished"):
    """A call has its result."""

    id: str
    name: str
    status: str
    """`success`, or the error's code."""
    duration: float
    envelope: str


@final
class QuestionAsked(Struct, frozen=True, tag="question"):
    """A person is asked before a call continues."""

    question: Question


@final
class ContextUse(Struct, frozen=True):
    """How full the context of the session's model is (SPEC L3)."""

    used: int
    """Tokens of the last request and its reply, or about so many of the next request."""
    limit: int
    """Tokens that the model can read."""


@final
class UsageCounted(Struct, frozen=True, tag="usage"):
    """What a reply used."""

    model: str
    usage: Usage
    context: ContextUse | UnsetType = UNSET
    """How full the context is after the reply, if the model has a limit."""
    cost: float | UnsetType = UNSET
    """US dollars, by the price of the model that answered, if that is known."""


@final
class RetryComing(Struct, frozen=True, tag="retry"):
    """The model's API could not answer; it is asked again after so many seconds."""

    reason: str
    seconds: float


@final
class RequestQueued(Struct, frozen=True, tag="queued"):
    """The request to the model waits for others that run: for a place (setting `model_requests`), or for money."""

    model: str
    running: int
    """How many others run; of this process."""
    reason: str | UnsetType = UNSET
    """Why it waits, for a person; unset: as many run as may run at once."""


@final
class ModelSwitched(Struct, frozen=True, tag="model_switched"):
    """A model can't answer: another one does, for the rest of the turn (SPEC L6)."""

    model: str
    """The name of the model that answers now."""
    of: str
    """The name of the model that was meant."""
    reason: str


@final
class BudgetLow(Struct, frozen=True, tag="budget_low"):
    """A budget is nearly spent. It is told once a day or month (SPEC L5)."""

    text: str


@final
class TurnFault(Struct, frozen=True):
    """Why a turn has failed, for programs; `Ended.text` is for people."""

    of: Literal["model", "call", "inside"]
    """The model, its settings or its API; something that the turn stored or called; or our own code."""
    code: str
    """A `ModelFault`, an `ErrorCode`, the name of the exception, `gateway_stopped` or `gateway_lost`."""


GATEWAY_STOPPED: Final = TurnFault("inside", "gateway_stopped")
"""Why a turn was aborted that no person stopped."""
GATEWAY_LOST: Final = TurnFault("inside", "gateway_lost")
"""Why a turn was aborted whose process ended in the middle of it, as after `kill -9`."""


@final
class Ended(Struct, frozen=True, tag="ended"):
    """The turn is over, or waits."""

    reason: EndReason
    text: str = ""
    """The last text of the model, or what went wrong."""
    fault: TurnFault | UnsetType = UNSET
    """With the reason `error`, if it is known; with `aborted`, if no person stopped the turn."""


@final
class TurnEnd(Struct, frozen=True, omit_defaults=True):
    """How a turn ended, as the session keeps it (SPEC L7). A turn that ended with its whole answer has none."""

    reason: EndReason
    at: float
    """Seconds since 1970."""
    model: str = ""
    """The model that answered, or should have."""
    text: str = ""
    """What went wrong, with the reason `error`."""
    fault: TurnFault | UnsetType = UNSET

    @classmethod
    def of(cls, ended: Ended, model: str, at: float) -> "TurnEnd | None":
        """Return what the session keeps of this end; None for a whole answer, and for a turn that goes on later."""
        if ended.reason in ("done", "pending"):
            return None
        return cls(ended.reason, at, model, ended.text if ended.reason == "error" else "", ended.fault)

    def to_event(self, text: str) -> Ended:
        """Return the end as listeners got it. `text`: the last text of the model."""
        return Ended(self.reason, self.text or text, self.fault)


@final
class Titled(Struct, frozen=True, tag="title"):
    """The session has its first title. It comes after the end of the turn."""

    title: str


@final
class WentBack(Struct, frozen=True, tag="went_back"):
    """The conversation goes on from another place: messages were left, or another version was chosen (SPEC L8)."""

    length: int
    """How many messages it has now."""


@final
class Compacted(Struct, frozen=True, tag="compacted"):
    """What the model sees of the conversation has become shorter. The conversation itself is whole (SPEC L1, L2)."""

    before: int
    """About how many tokens a request had."""
    after: int
    short: int
    """The results of so many messages, from the first one on, are one line each."""
    summarized: int = 0
    """The summary stands for so many messages, from the first one on."""
    summary: str = ""
    note: str = ""
    """Why there is no new summary; empty if none was needed, or there is one."""


SessionChange: TypeAlias = Titled | WentBack
"""What changes the session itself, and is no part of a turn's rounds."""


Event: TypeAlias = (
    TextArrived
    | ThinkingArrived
    | RoundBegan
    | CallArrived
    | CallStarted
    | CallProgress
    | CallFinished
    | QuestionAsked
    | UsageCounted
    | RetryComing
    | RequestQueued
    | Compacted
    | ModelSwitched
    | BudgetLow
    | Ended
)
