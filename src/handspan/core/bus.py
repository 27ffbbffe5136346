"""The bus, which announces to other parts of the gateway what has happened, and every event that it carries.

An event is a frozen struct of plain values and names its owner, so that it can travel between processes. It is
delivered at most once: the facts are in the store, and an event only says that it is time to look there.
"""

from collections.abc import Callable
from typing import Protocol, TypeAlias, TypeVar, final

from msgspec import Struct

from handspan.core.calls import ToolFacts
from handspan.core.events import Event, SessionChange
from handspan.core.questions import Decision, Question, QuestionKind


@final
class TokenRevoked(Struct, frozen=True, gc=False, tag="token_revoked"):
    """A token is not valid any more; connections that it opened must close."""

    owner: str
    token: str
    """The hash of the token."""


@final
class ToolsChanged(Struct, frozen=True, gc=False, tag="tools_changed"):
    """Tools of this owner were added, changed or removed."""

    owner: str
    """Empty: tools of all owners."""


@final
class DeviceChanged(Struct, frozen=True, gc=False, tag="device_changed"):
    """A device of this owner has connected or disconnected."""

    owner: str


@final
class QuestionOpened(Struct, frozen=True, gc=False, tag="question_opened"):
    """A question is stored, and a person can answer it."""

    owner: str
    question: Question


@final
class QuestionEnded(Struct, frozen=True, gc=False, tag="question_ended"):
    """A question is not open any more: it was answered, has expired, or its call was abandoned."""

    owner: str
    session: str
    call_id: str
    """Empty if no call waits for the answer."""
    id: str
    kind: QuestionKind
    decision: Decision | None
    """None if the call was abandoned. The other parts of the answer are only for the call."""
    by: str = ""
    """The id of the WebSocket client that answered; empty if the answer came by another door."""


@final
class ScheduleChanged(Struct, frozen=True, gc=False, tag="schedule_changed"):
    """A schedule of this owner was made, changed or removed, or a run of it has ended."""

    owner: str
    id: str
    next: float | None
    """When it is due; None: not earlier than was known."""


@final
class BudgetChanged(Struct, frozen=True, gc=False, tag="budget_changed"):
    """There may be money for requests that wait: another one has ended, or a person has added some."""

    owner: str = ""
    """Empty: requests of all owners may wait for it."""


@final
class LoginRequested(Struct, frozen=True, gc=False, tag="login_requested"):
    """A person wants to begin the login that a question asks for: the device of the call has to start it."""

    owner: str
    question: str
    call_id: str
    """The call that waits for the login."""


@final
class AbortRequested(Struct, frozen=True, gc=False, tag="abort_requested"):
    """A person wants the turns of this session to stop. They may run on another node."""

    owner: str
    session: str


@final
class SwitchesChanged(Struct, frozen=True, gc=False, tag="switches_changed"):
    """A person has switched tools off or on, for all owners."""

    owner: str
    """Empty: all owners."""


@final
class TryNoted(Struct, frozen=True, gc=False, tag="try_noted"):
    """An address has tried something that is limited, such as a token or a pairing code: every node counts it."""

    owner: str
    """Empty: no owner is known yet."""
    kind: str
    address: str


@final
class RulesForgotten(Struct, frozen=True, gc=False, tag="rules_forgotten"):
    """A person took back what was answered about this tool with "always" or "never"."""

    owner: str
    tool: str


@final
class MessagePosted(Struct, frozen=True, gc=False, tag="message_posted"):
    """An agent writes to the person: every node shows the message on the person's pages and clients that it serves."""

    owner: str
    id: str
    channel: str
    chat_id: str
    """A session, or `all`."""
    content: str
    session: str
    """The session of the agent that writes; empty if there is none."""


@final
class MessageShown(Struct, frozen=True, gc=False, tag="message_shown"):
    """A node has shown a message or a question to a page or client of the person."""

    owner: str
    id: str
    """The id of the `MessagePosted`, or of the question."""


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
    event: Event | SessionChange


BusEvent: TypeAlias = (
    TokenRevoked
    | ToolsChanged
    | DeviceChanged
    | QuestionOpened
    | QuestionEnded
    | BudgetChanged
    | ScheduleChanged
    | LoginRequested
    | AbortRequested
    | RulesForgotten
    | SwitchesChanged
    | TryNoted
    | MessagePosted
    | MessageShown
    | CallCompleted
    | TurnEvent
)

_E = TypeVar("_E", bound=BusEvent)


class Bus(Protocol):
    """Delivers events to their listeners."""

    is_remote: bool
    """Whether the event that a listener gets now comes from another node."""

    def publish(self, event: BusEvent) -> None:
        """Call every listener for this kind of event. Never waits, and never raises the error of a listener."""

    def subscribe(self, kind: type[_E], listener: Callable[[_E], None]) -> Callable[[], None]:
        """Call the listener with every later event of this kind, until the returned function is called."""

    def follow_session(self, session: str) -> Callable[[], None]:
        """Get the events of this session's turns on other nodes, too, until the returned function is called."""
