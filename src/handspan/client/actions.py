"""What the client's state machine wants done. They are done in order, one after another."""

from typing import TypeAlias

from msgspec import Struct

from handspan.core.events import Event
from handspan.wire.ws_frames import CallRequest, ClientFrame, PermissionRequest, ResultFrame, ServerFrame


class Send(Struct, frozen=True):
    """Send this frame over the link that is up now."""

    frame: ClientFrame


class Keep(Struct, frozen=True):
    """Write what has to outlive this process."""


class Shrink(Struct, frozen=True):
    """Give this answer a form that a message can hold, and say `shrunk` then."""

    answer: ResultFrame


class RunCall(Struct, frozen=True):
    """Run this call's code."""

    request: CallRequest
    is_recorded: bool
    """First write, down to the disk, that it was started: it must not run twice (ws.md 6.4)."""
    asks: bool
    """First ask the person for the tool's permissions: the gateway did not (ws.md 5.9)."""


class Watch(Struct, frozen=True):
    """Say `expired` when so much time has passed, counted from now."""

    call_id: str
    seconds: float


class StopCall(Struct, frozen=True):
    """Nobody waits for this call any more: stop its code."""

    call_id: str
    reason: str


class AskPerson(Struct, frozen=True):
    """Ask the person at this device."""

    request: PermissionRequest


class Tell(Struct, frozen=True):
    """Show this frame to whoever listens."""

    frame: ServerFrame


class Happened(Struct, frozen=True):
    """Something happened in the conversation."""

    event: Event
    is_own: bool = True
    """It belongs to the turn that this client began, or joined; others are of whoever else talks in the session."""


Action: TypeAlias = Send | Keep | Shrink | RunCall | Watch | StopCall | AskPerson | Tell | Happened
