"""One client across its connections, as this node knows it (ws.md 6, 7)."""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from msgspec import Struct

from handspan.core.principals import Principal
from handspan.sources.ws.calls import RemoteCalls
from handspan.sources.ws.questions import RemoteQuestions
from handspan.sources.ws.tools import RemoteTools
from handspan.wire.ws import encode
from handspan.wire.ws_frames import (
    Abort,
    AnswerFrame,
    FailureFrame,
    LoginStart,
    PermissionAnswer,
    ProgressFrame,
    Regenerate,
    ResultFrame,
    Say,
    ServerFrame,
)


class PeerSocket(Protocol):
    """A connection, as a peer needs it."""

    def send_text(self, data: bytes) -> None: ...

    def close(self, code: int = 1000, reason: str = "") -> None: ...

    def check_alive(self, seconds: float, then: Callable[[], None]) -> None: ...


class PeerChat(Protocol):
    """The conversation of a chat client."""

    @property
    def is_busy(self) -> bool:
        """Whether a turn runs that the client began."""
        ...

    def say(self, frame: Say) -> None:
        """Answer a message of the client in a turn."""
        ...

    def take(self, frame: Abort | Regenerate | AnswerFrame | LoginStart) -> None:
        """Do what the client asks for, other than `say`."""
        ...

    def up(self, last_event: int | None) -> None:
        """Send the client what it missed: its link is back."""
        ...

    def catch_up(self) -> None:
        """Send a new client the events of the round that runs."""
        ...

    def down(self) -> None:
        """Note that the link is gone; the peer may come back."""
        ...

    def end(self) -> None:
        """Stop listening: the peer will not come back."""
        ...


class Relayed(Protocol):
    """The connection of a client, as other nodes use it (`sources/nodes/relay.py`)."""

    @property
    def has_calls(self) -> bool:
        """Whether a call of another node waits for the client."""
        ...

    @property
    def is_awaited(self) -> bool:
        """Whether another node waits for the client."""
        ...

    def take_answer(self, frame: ResultFrame | FailureFrame) -> bool:
        """Pass on the answer to a call of another node. Return False when there is no such call."""
        ...

    def keep_early(self, frame: ResultFrame | FailureFrame) -> None:
        """Keep the answer to a call that another node has, and has not asked for on this connection yet."""
        ...

    def take_progress(self, frame: ProgressFrame) -> bool:
        """Pass on the progress of a call of another node. Return False when there is no such call."""
        ...

    def take_permission(self, frame: PermissionAnswer) -> bool:
        """Pass on the answer to a question of another node. Return False when there is no such question."""
        ...


class NoRelay:
    """Implements `Relayed` for a client that no other node uses."""

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


class FormerKey(Struct, frozen=True):
    """What two processes of one device have in common, when one is started in place of the other (ws.md 7.2)."""

    owner: str
    token: str
    label: str
    name: str


class Peer:
    """One client, over all its connections."""

    __slots__ = (
        "calls",
        "chat",
        "former",
        "grace",
        "id",
        "is_moving",
        "label",
        "questions",
        "relay",
        "role",
        "session",
        "socket",
        "token",
        "tools",
        "who",
    )

    def __init__(
        self,
        peer_id: str,
        who: Principal,
        former: FormerKey,
        *,
        role: str,
        label: str,
        session: str,
        calls: RemoteCalls,
        questions: RemoteQuestions | None,
        tools: RemoteTools,
    ) -> None:
        self.id = peer_id
        self.who = who
        self.token = former.token
        """The hash of its access token."""
        self.role = role
        self.label = label
        self.session = session
        self.former = former
        """How a program that is started in its place is known."""
        self.socket: PeerSocket | None = None
        self.chat: PeerChat | None = None
        self.grace: asyncio.TimerHandle | None = None
        """Ends a client that does not come back; None while it is connected."""
        self.is_moving = False
        """Whether this node has sent the client to another node, where it is expected: its tools stay meanwhile."""
        self.calls = calls
        self.questions = questions
        self.relay: Relayed = NO_RELAY
        self.tools = tools

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
