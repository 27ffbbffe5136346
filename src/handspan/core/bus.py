"""What one part of the gateway tells the others: the Protocol of the bus, and every event that travels on it.

An event is a frozen struct of plain values and names its owner, so that it can also travel between processes. Delivery
is at most once: what matters is in the store, and an event only says that it is time to look.
"""

from collections.abc import Callable
from typing import Protocol, TypeAlias, TypeVar, final

from msgspec import Struct

from handspan.core.calls import ToolFacts
from handspan.core.events import Event, Titled
from handspan.core.questions import Decision, Question, QuestionKind


@final
class TokenRevoked(Struct, frozen=True, gc=False, tag="token_revoked"):
    """A token is not valid any more; what it has opened must close."""

    owner: str
    token: str
    """The hash of the token."""


@final
class ToolsChanged(Struct, frozen=True, gc=False, tag="tools_changed"):
    """Tools of this owner were brought, changed or taken away."""

    owner: str
    """Empty: everybody's tools."""


@final
class DeviceChanged(Struct, frozen=True, gc=False, tag="device_changed"):
    """A device of this owner has come or gone."""

    owner: str


@final
class QuestionOpened(Struct, frozen=True, gc=False, tag="question_opened"):
    """A question is stored, and a person can answer it."""

    owner: str
    question: Question


@final
class QuestionEnded(Struct, frozen=True, gc=False, tag="question_ended"):
    """A question is not open any more: it was answered, it has expired, or its call was given up."""

    owner: str
    session: str
    call_id: str
    """Empty where no call waited for the answer."""
    id: str
    kind: QuestionKind
    decision: Decision | None
    """None when its call was given up. What else the answer holds is for the call alone."""
    by: str = ""
    """The word that the client which answered gave with its answer."""


@final
class CallCompleted(Struct, frozen=True, gc=False, tag="call_completed"):
    """A call has its one result, and the ledger has stored it."""

    owner: str
    session: str
    id: str
    name: str
    tool: ToolFacts
    status: str
    """`success`, or the error's code."""
    duration: float


@final
class TurnEvent(Struct, frozen=True, gc=False, tag="turn_event"):
    """Something happened in a turn."""

    owner: str
    session: str
    turn: str
    event: Event | Titled


BusEvent: TypeAlias = (
    TokenRevoked | ToolsChanged | DeviceChanged | QuestionOpened | QuestionEnded | CallCompleted | TurnEvent
)

_E = TypeVar("_E", bound=BusEvent)


class Bus(Protocol):
    """Takes events to their listeners."""

    def publish(self, event: BusEvent) -> None:
        """Let every listener for this kind of event have it. Never waits, and no failure of a listener reaches here."""
        ...

    def subscribe(self, kind: type[_E], listener: Callable[[_E], None]) -> Callable[[], None]:
        """Call the listener with every event of this kind from now on, until the returned function is called."""
        ...
