"""The client of a request, as runs know it."""

from typing import Final

from msgspec import Struct

from handspan.core.calls import CallRecord
from handspan.core.principals import Principal
from handspan.gateway.entry.auth import Admitted

_ID_LENGTH: Final = 16
"""Characters of a token's hash that make the client's id: enough to tell clients apart, and useless as a token."""


class RunClient(Struct, frozen=True):
    """The client of a request: the owner of its token, and an id made from the token."""

    who: Principal
    id: str

    @property
    def owner(self) -> str:
        """The owner of the client's token."""
        return self.who.owner

    @classmethod
    def of(cls, admitted: Admitted) -> "RunClient":
        """Return the client that authentication let in. Raises `Refusal` when its token may not chat."""
        admitted.require("chat")
        return cls(admitted.who, admitted.token[:_ID_LENGTH])

    @classmethod
    def of_front(cls, admitted: Admitted) -> "RunClient":
        """Return the client of a front, whose token may be bound to agents. Raises `Refusal` without `chat`."""
        admitted.require_front()
        return cls(admitted.who, admitted.token[:_ID_LENGTH])

    def runs(self, call: CallRecord) -> bool:
        """Whether this call was sent to this client, for the same owner."""
        origin = call.tool.origin if call.tool.answered_by == "request" else None
        return origin is not None and (origin.name, call.owner) == (self.id, self.owner)
