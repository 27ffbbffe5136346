"""Messages between agents and people on other networks: what travels, who may write, and the state of a channel."""

from collections.abc import Sequence
from typing import Final, Literal, Protocol, TypeAlias

from msgspec import Struct

CHANNEL_SESSION: Final = "channel-"
"""How the ids of sessions begin that a channel has opened."""
ANYONE: Final = "*"
"""In an allow list: every sender, and every chat."""

ChannelKind: TypeAlias = Literal["page", "telegram", "webhook", "apprise"]
ChannelStatus: TypeAlias = Literal["ready", "listening", "retrying", "failed", "closed"]
"""`ready`: it can send. `listening`: it receives, too. `retrying`: it is down now. `failed`: its settings are wrong."""
InboxState: TypeAlias = Literal["waiting", "replying", "done"]
"""`replying` is stored before the answer is sent, the last part of a long one: after a crash it is not sent again,
because it may have arrived."""
Receipt: TypeAlias = Literal["new", "known", "replayed"]
"""What the store says of a message: `known`: it has one of this id. `replayed`: it has one with this signature."""


class MessageButton(Struct, frozen=True):
    """An answer that a person can give with one press."""

    label: str
    data: str
    """What comes back in `IncomingMessage.pressed`; 64 bytes at most."""


class OutgoingMessage(Struct, frozen=True):
    """A message to one chat of a channel."""

    channel: str
    chat_id: str
    content: str
    owner: str = ""
    """The owner for whom it is sent."""
    session: str = ""
    """The session that it belongs to; empty for a message of its own."""
    reply_to: str = ""
    """The channel's id of the message that it answers."""
    buttons: tuple[MessageButton, ...] = ()
    id: str = ""
    """The same for each try to deliver it."""


class IncomingMessage(Struct, frozen=True):
    """A message of a person, as a channel received it."""

    channel: str
    id: str
    """Unique in its channel: the same message, received again, has the same id."""
    sender_id: str
    chat_id: str
    content: str
    sender_name: str = ""
    pressed: str = ""
    """The data of a button, in place of `content`."""
    proof: str = ""
    """The signature that came with it; each is taken once."""
    reply_to: str = ""
    """The channel's own id of this message, for answers to it."""


class InboxMessage(Struct, frozen=True):
    """A message that was taken, and is not answered yet."""

    message: IncomingMessage
    owner: str
    state: InboxState = "waiting"
    sent: int = 0
    """How many parts of a long answer have gone out, each once."""


class ChannelSender(Struct, frozen=True):
    """A person who may write to agents on a channel."""

    channel: str
    sender: str
    """The channel's own id of the person."""
    owner: str
    """The owner for whom the person acts."""
    name: str = ""
    at: float = 0.0
    """Seconds since 1970."""


class ChannelState(Struct, frozen=True):
    """Whether a channel works, and why not."""

    kind: ChannelKind
    status: ChannelStatus
    reason: str = ""
    """Why it does not work, or what went wrong last; with what to do."""
    delivered: int = 0
    received: int = 0
    retry_in: float | None = None
    """Seconds until the next try."""


class MessageTaken(Struct, frozen=True):
    """What came of a message that a channel received."""

    status: Literal["accepted", "answered", "duplicate", "replayed", "refused", "limited"]
    text: str = ""
    """What the sender should read at once; empty: nothing."""


class ChannelNodes(Protocol):
    """The nodes of a gateway of several, as channels need them. Raises `StoreError` when the database is away."""

    async def hold_work(self, name: str) -> bool:
        """Whether this node has the work of this name: it takes it, if no other node has. It goes with the node."""
        ...

    async def leave_work(self, name: str) -> None:
        """Leave the work of this name to another node."""
        ...

    async def follow(self, owner: str) -> None:
        """Let the devices and the events of this owner on other nodes be known here."""
        ...


class Inbox(Protocol):
    """Takes what channels receive."""

    async def receive(
        self, channel: str, messages: Sequence[IncomingMessage], position: str = ""
    ) -> Sequence[MessageTaken]:
        """Return what came of each message, once all are stored, with the position of the channel after them.

        Raises `ToolError` (`busy`) when too many messages wait: then none was taken.
        """
        ...

    async def position(self, channel: str) -> str:
        """Return the position that was stored last; empty at the first start."""
        ...
