"""What `Handspan.ask` returns, and what it raises."""

from contextlib import suppress
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct, UnsetType

from handspan.agent.refusals import SessionBusy as SessionBusy  # `ask` raises it: programs find it here
from handspan.agent.turn_events import SessionEvent
from handspan.core.errors import HandspanError
from handspan.core.events import CallFinished, CallStarted, Ended, EndReason, TurnFault, UsageCounted
from handspan.core.messages import Usage
from handspan.core.values import Json

T = TypeVar("T")

_REASONS: dict[EndReason, str] = {
    "aborted": "The turn was stopped before it had an answer: Handspan was closed, or the caller was cancelled.",
    "length": "The model's answer was cut off at its length limit: ask for less, or raise the limit (max_tokens).",
    "pending": "The result of a tool comes later, so this turn has no answer yet.",
    "refusal": "The model refused to answer: ask in another way, or ask another model.",
}


class CallMade(Struct, frozen=True):
    """One tool call of a turn, with its result."""

    id: str
    name: str
    arguments: Json
    """The arguments; the model's own text if that is not JSON."""
    status: str
    """`success`, or the code of the error."""
    result: Json
    """What the tool returned, or the message of the error."""
    duration: float
    """Seconds."""


class AgentAnswer(Struct, Generic[T], frozen=True):
    """The answer to one `ask`. `str(answer)` is its text."""

    value: T
    """The answer as a value of `answer_type`; the text if there is no such type."""
    text: str
    """The model's last text."""
    session: str
    """Give it to the next `ask` to continue this conversation."""
    calls: tuple[CallMade, ...] = ()
    """The tool calls in the order in which they finished."""
    usage: Usage = Usage()
    """The tokens of all replies together. None means unknown."""
    reason: EndReason = "done"
    """`limit` or `errors`: the agent had to answer before it had made all the calls that it wanted to make."""

    def __str__(self) -> str:
        return self.text


class UsageError(HandspanError):
    """A Handspan is closed, belongs to another event loop, or is used in the wrong form (sync or async)."""


class AskFailed(HandspanError):
    """There is no answer. The message has the reason and what to do."""

    def __init__(self, message: str, ended: Ended, session: str) -> None:
        super().__init__(message)
        self.reason: EndReason = ended.reason
        self.fault: TurnFault | None = None if isinstance(ended.fault, UnsetType) else ended.fault
        """What has failed, for programs to read; None when it is not known."""
        self.text = ended.text
        """The text that the model had sent before."""
        self.session = session


class AnswerMismatch(AskFailed):
    """The model gave no answer of `answer_type`, though it read what was wrong with its tries."""


def check_ended(ended: Ended, session: str) -> Ended:
    """Return `ended` itself. Raises `AskFailed` when the turn ended without a whole answer."""
    if ended.reason in _REASONS:
        raise AskFailed(_REASONS[ended.reason], ended, session)
    if ended.reason == "error":
        raise AskFailed(ended.text, ended, session)
    return ended


class TurnRecorder:
    """Listens to the turns of one `ask`, and collects the calls and tokens for its answer."""

    def __init__(self) -> None:
        self.calls: list[CallMade] = []
        self._usages: list[Usage] = []
        self._arguments: dict[str, str] = {}

    def record(self, event: SessionEvent, turn: str) -> None:
        """Collect what the answer needs of this event. A `Listener` of the turn."""
        match event:
            case CallStarted(id=call_id, arguments=arguments):
                self._arguments[call_id] = arguments
            case CallFinished():
                self.calls.append(_make_call(event, self._arguments.pop(event.id, "")))
            case UsageCounted(usage=usage):
                self._usages.append(usage)

    @property
    def usage(self) -> Usage:
        """The tokens of all replies together."""
        return Usage(*(_sum([getattr(usage, name) for usage in self._usages]) for name in Usage.__struct_fields__))


def _make_call(finished: CallFinished, arguments: str) -> CallMade:
    envelope: dict[str, Any] = msgspec.json.decode(finished.envelope)
    result = envelope.get("result", envelope.get("message"))
    given: Json = arguments
    with suppress(msgspec.DecodeError):
        given = msgspec.json.decode(arguments or "{}")
    return CallMade(finished.id, finished.name, given, finished.status, result=result, duration=finished.duration)


def _sum(counts: list[int | None]) -> int | None:
    """Return the sum; None when one of the counts is unknown (SPEC M6)."""
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None
