"""The actions that the client's state machines return. The connection carries them out in order, one at a time."""

from typing import TypeAlias

from msgspec import Struct

from handspan.core.events import Event
from handspan.wire.ws import ClientFrame, ServerFrame
from handspan.wire.ws_frames import CallRequest, FailureFrame, LoginStart, PermissionRequest, ResultFrame


class SendFrame(Struct, frozen=True):
    """Send this frame over the link that is open now."""

    frame: ClientFrame


class SaveState(Struct, frozen=True):
    """Write the call memory to the state file."""


class ShrinkAnswer(Struct, frozen=True):
    """Make this answer fit into one message, then call `replace_answer`."""

    answer: ResultFrame


class RunCall(Struct, frozen=True):
    """Run the code of this call."""

    request: CallRequest
    is_recorded: bool
    """Write its start to the disk before it runs: this call must not run twice (ws.md 6.4)."""
    asks_person: bool
    """Ask the person for the tool's permissions before it runs: the gateway did not ask (ws.md 5.9)."""


class SetTimeout(Struct, frozen=True):
    """Call `expire_call` after this many seconds, counted from now."""

    call_id: str
    seconds: float


class StopCall(Struct, frozen=True):
    """Stop the code of this call: its answer is not needed any more."""

    call_id: str
    reason: str


class AskPerson(Struct, frozen=True):
    """Ask the person at this device for a permission."""

    request: PermissionRequest


class StopAsking(Struct, frozen=True):
    """Stop asking the person: the call of this question has ended."""

    question_id: str


class StartLogin(Struct, frozen=True):
    """Start the login that a call waits for."""

    request: LoginStart
    refused: FailureFrame | None
    """How the call was answered; None when that is not known any more."""


class DeliverFrame(Struct, frozen=True):
    """Give this frame to the owner of the connection."""

    frame: ServerFrame


class DeliverEvent(Struct, frozen=True):
    """Give this event of the conversation to the owner of the connection."""

    event: Event
    is_own: bool = True
    """Whether it belongs to a turn that this client began or joined, not to a turn of another client."""


Action: TypeAlias = (
    SendFrame
    | SaveState
    | ShrinkAnswer
    | RunCall
    | SetTimeout
    | StopCall
    | AskPerson
    | StopAsking
    | StartLogin
    | DeliverFrame
    | DeliverEvent
)
