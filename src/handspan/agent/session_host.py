"""What a session needs from the part that has all sessions."""

from typing import TYPE_CHECKING, Protocol

from handspan.agent.conversation import Conversation
from handspan.agent.loop import Loop
from handspan.agent.queue import TurnHost
from handspan.agent.stored_turns import StoredTurns
from handspan.core.bus import Bus
from handspan.core.principals import Principal
from handspan.core.records import SessionRecord

if TYPE_CHECKING:
    from handspan.agent.session import Session


class SessionHost(TurnHost, Protocol):
    """Loads the conversations of sessions, and releases sessions that are not used any more."""

    loop: Loop
    stored_turns: StoredTurns
    bus: Bus | None
    hands_over: bool
    """Whether other nodes take over the turns of this node."""

    async def open(
        self, session: "Session", who: Principal, *, agent: str = "", name: str = ""
    ) -> tuple[Conversation, SessionRecord]:
        """Return the conversation, ready for a turn, and the session's record. A missing session is made.

        Raises `SessionRefused`.
        """
        ...

    async def reopen(self, session: "Session", who: Principal | None = None) -> Conversation | None:
        """Return the conversation of an existing session, ready for a turn; None when the session does not exist."""
        ...

    def release(self, session: "Session") -> None:
        """Release the session if it is not needed: see `Session.is_used`."""
        ...
