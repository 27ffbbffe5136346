"""What doors are told of sessions and turns."""

from msgspec import Struct

from handspan.gateway.conversations.rooms import Room


class Bound(Struct, frozen=True):
    """A session that a client may talk in. Nothing is kept of it before something is said."""

    session_id: str
    message_count: int
    name: str
    agent: str
    """The agent that was named, or that the session has; empty for the default one."""
    persona: str = ""
    """Only the one that was named: for `say`. The session's own may change while a client is bound."""
    removed: int = 0
    """How many messages it has lost so far."""


class RunningTurn(Struct, frozen=True):
    """A turn that runs in this process."""

    session_id: str
    turn_id: str
    wanted_at: float
    """Seconds since 1970."""
    waiting: int
    """How many wait behind it."""


def running_in(room: Room) -> RunningTurn:
    """The turn that runs in this room, which has one."""
    turn = room.turns[0]
    return RunningTurn(room.id, turn.id, turn.wanted_at, len(room.turns) - 1)
