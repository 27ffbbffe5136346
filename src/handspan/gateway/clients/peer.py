"""One client across its connections, as this node knows it (ws.md 6, 7)."""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from msgspec import Struct

from handspan.core.principals import Principal
from handspan.sources.ws.calls import RemoteCalls
from handspan.sources.ws.questions import RemoteQuestions
from handspan.sources.ws.tools import RemoteTools
from handspan.wire.ws import ServerFrame, encode
from handspan.wire.ws_frames import FailureFrame, PermissionAnswer, ProgressFrame, ResultFrame, ToolsRegistered

if TYPE_CHECKING:  # loaded with the first chat client, and with the first other node
    from handspan.gateway.clients.chat import ChatConnection
    from handspan.sources.nodes.relay import Relay

NORMAL_CLOSES: Final = frozenset((1000, 1001))
"""Close codes of a client that leaves on purpose (ws.md 6.8); all others are lost connections."""
_log = logging.getLogger(__name__)


class PeerSocket(Protocol):
    """A connection, as a peer needs it."""

    def send_text(self, data: bytes) -> None: ...

    def close(self, code: int = 1000, reason: str = "") -> None: ...

    def check_alive(self, seconds: float, then: Callable[[], None]) -> None: ...


class NoRelay:
    """In place of a `Relay`, for a client that no other node uses."""

    has_calls = is_awaited = False

    def take_answer(self, frame: ResultFrame | FailureFrame) -> bool:
        """Return False: no other node has a call."""
        return False

    def keep_early(self, frame: ResultFrame | FailureFrame) -> None:
        """Do nothing: no other node will ask for the answer."""

    def take_progress(self, frame: ProgressFrame) -> bool:
        """Return False: no other node has a call."""
        return False

    def take_permission(self, frame: PermissionAnswer) -> bool:
        """Return False: no other node has a question."""
        return False


NO_RELAY: Final = NoRelay()
Relayed: TypeAlias = "Relay | NoRelay"
"""The connection of a client, as other nodes use it."""


class FormerKey(Struct, frozen=True):
    """What two processes of one device have in common, when one is started in place of the other (ws.md 7.2)."""

    owner: str
    token: str
    label: str
    name: str


class Peer(Struct, eq=False):
    """One client, over all its connections."""

    id: str
    who: Principal
    former: FormerKey
    """How a program that is started in its place is known."""
    role: str
    label: str
    session: str
    calls: RemoteCalls
    questions: RemoteQuestions | None
    tools: RemoteTools
    socket: PeerSocket | None = None
    chat: "ChatConnection | None" = None
    grace: asyncio.TimerHandle | None = None
    """Ends a client that does not come back; None while it is connected."""
    is_moving: bool = False
    """Whether this node has sent the client to another node, where it is expected: its tools stay meanwhile."""
    relay: Relayed = NO_RELAY

    @property
    def token(self) -> str:
        """The hash of its access token."""
        return self.former.token

    @property
    def can(self) -> frozenset[str]:
        """The capabilities that both sides have."""
        return self.calls.capabilities

    @property
    def has_calls(self) -> bool:
        """Whether a call waits for the client, here or on another node."""
        here = any(not call.outcome.done() for call in self.calls.open.values())
        return here or self.relay.has_calls

    @property
    def is_awaited(self) -> bool:
        """Whether the client is needed: by a call, a question to its person, or a turn that it began."""
        return (
            self.has_calls
            or (self.questions is not None and self.questions.is_open)
            or self.relay.is_awaited
            or (self.chat is not None and self.chat.is_busy)
        )

    def send(self, frame: ServerFrame) -> None:
        """Send this frame if the link is up."""
        if self.socket is not None:
            self.socket.send_text(encode(frame))

    def up(self, socket: PeerSocket) -> None:
        """Use this connection from now on. After a reconnect, the waiting calls and questions are sent again."""
        self.socket = socket
        self.calls.open_link(socket.send_text)
        if self.questions is not None:
            self.questions.open_link(socket.send_text)

    def down(self) -> None:
        """Note that the link is gone: the calls wait, the tools go at once unless the client moves (ws.md 4.5)."""
        self.socket = None
        if not self.is_moving:
            self.tools.close()
        self.calls.drop_link()
        if self.questions is not None:
            self.questions.drop_link()
        if self.chat is not None:
            self.chat.down()

    def end(self, why: str) -> None:
        """End the client's calls and questions: it will not come back."""
        self.tools.close()
        self.calls.end(why)
        if self.questions is not None:
            self.questions.end()
        if self.chat is not None:
            self.chat.end()
            self.chat = None  # each would keep the other in memory


# Lines of the log.


def log_arrival(peer: Peer, notice: str, *, is_back: bool) -> None:
    """Log that a client has connected, or has come back, and why a device has another label than it asked for."""
    if notice:
        _log.warning("%s: %s", _name(peer), notice, extra=_about(peer, "connected"))
    if _log.isEnabledFor(logging.INFO):
        _log.info("%s %s", _name(peer), "is back" if is_back else "connected", extra=_about(peer, "connected"))


def log_departure(peer: Peer, code: int) -> None:
    """Log that a client's connection is gone, with its close code."""
    if _log.isEnabledFor(logging.INFO):
        waits = "" if peer.grace is None or code in NORMAL_CLOSES else ", and may come back"
        _log.info("%s disconnected (%d)%s", _name(peer), code, waits, extra=_about(peer, "disconnected"))


def log_offer(peer: Peer, registered: ToolsRegistered) -> None:
    """Log how many tools a client offers, and which of them were refused, and why."""
    if _log.isEnabledFor(logging.INFO):
        tools = "1 tool" if registered.registered == 1 else f"{registered.registered} tools"
        _log.info("%s offers %s", _name(peer), tools, extra=_about(peer, "tools"))
    for one in registered.rejected:
        _log.warning("%s: its tool %r was refused: %s", _name(peer), one.name, one.reason, extra=_about(peer, "tools"))


def _name(peer: Peer) -> str:
    return f"device {peer.label}" if peer.role == "device" else f"chat in {peer.session}"


def _about(peer: Peer, event: str) -> dict[str, str]:
    return {"event": event, "role": peer.role, "label": peer.label, "session": peer.session, "owner": peer.who.owner}
