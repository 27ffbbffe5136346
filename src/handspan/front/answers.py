"""What `Handspan.ask` returns, and what it raises."""

from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct, UnsetType

from handspan.agent.turn_events import Happening
from handspan.core.errors import HandspanError
from handspan.core.events import CallFinished, CallStarted, Ended, EndReason, TurnFault, UsageCounted
from handspan.core.messages import Usage
from handspan.core.values import Json

T = TypeVar("T")

_WHY: dict[EndReason, str] = {
    "aborted": "The turn was stopped before it had an answer: Handspan was closed, or the caller was cancelled.",
    "length": "The model's answer was cut off at its length limit: ask for less, or raise the limit (max_tokens).",
    "pending": "A tool said that its result comes later, so this turn has no answer yet.",
    "refusal": "The model refused to answer: ask in another way, or ask another model.",
}


class CallMade(Struct, frozen=True):
    """One tool call of a turn, with its result."""

    id: str
    name: str
    arguments: Json
    """The arguments; the text that the model wrote where it is not JSON."""
    status: str
    """`success`, or the code of the error."""
    result: Json
    """What the tool returned, or the message of the error."""
    duration: float
    """Seconds."""


class AgentAnswer(Struct, Generic[T], frozen=True):
    """The answer to one `ask`. `str(answer)` is its text."""

    value: T
    """The answer as `answer_type`; without one the text."""
    text: str
    """The model's last words."""
    session: str
    """Give it to the next `ask` to go on with this conversation."""
    calls: tuple[CallMade, ...] = ()
    """The tool calls in the order in which they finished."""
    usage: Usage = Usage()
    """The tokens of all replies together. None is unknown."""
    reason: EndReason = "done"
    """`limit` or `errors`: the agent had to answer before it had made all the calls that it wanted to make."""

    def __str__(self) -> str:
        return self.text


class UsageError(HandspanError):
    """A Handspan is used where it can't be: closed, in another event loop, or in the wrong form."""


class AskFailed(HandspanError):
    """There is no answer. The message says why and what to do."""

    def __init__(self, message: str, ended: Ended, session: str) -> None:
        super().__init__(message)
        self.reason: EndReason = ended.reason
        self.fault: TurnFault | None = None if isinstance(ended.fault, UnsetType) else ended.fault
        """For programs: what has failed, where it is known."""
        self.text = ended.text
        """What the model had said."""
        self.session = session


class AnswerMismatch(AskFailed):
    """The model gave no answer of the type that was asked for, though it was told what was wrong."""


def check_ended(ended: Ended, session: str) -> Ended:
    """The same end; raises `AskFailed` when the turn ended without a whole answer."""
    if ended.reason in _WHY:
        raise AskFailed(_WHY[ended.reason], ended, session)
    if ended.reason == "error":
        raise AskFailed(ended.text, ended, session)
    return ended


class TurnRecorder:
    """Listens to the turns of one `ask`, and keeps what its answer tells of them."""

    def __init__(self) -> None:
        self.calls: list[CallMade] = []
        self._usages: list[Usage] = []
        self._arguments: dict[str, str] = {}

    def record(self, happening: Happening, turn: str) -> None:
        """Keep what the answer tells of this event; it is a `Listener`."""
        match happening:
            case CallStarted(id=call_id, arguments=arguments):
                self._arguments[call_id] = arguments
            case CallFinished():
                self.calls.append(_call_made(happening, self._arguments.pop(happening.id, "")))
            case UsageCounted(usage=usage):
                self._usages.append(usage)

    @property
    def usage(self) -> Usage:
        """The sum of all replies."""
        return Usage(*(_sum([getattr(usage, name) for usage in self._usages]) for name in Usage.__struct_fields__))


def _call_made(finished: CallFinished, arguments: str) -> CallMade:
    envelope: dict[str, Any] = msgspec.json.decode(finished.envelope)
    result = envelope.get("result", envelope.get("message"))
    return CallMade(finished.id, finished.name, _parse(arguments), finished.status, result, finished.duration)


def _parse(arguments: str) -> Json:
    try:
        parsed: Json = msgspec.json.decode(arguments or "{}")
        return parsed
    except msgspec.DecodeError:
        return arguments


def _sum(counts: list[int | None]) -> int | None:
    """SPEC M6: a sum is unknown when one of its parts is."""
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None
