"""Messages between agents and people on other networks: what travels, who may write, and the state of a channel."""

from collections.abc import Sequence
from typing import Final, Literal, Protocol, TypeAlias

from msgspec import Struct

CHANNEL_SESSION: Final = "channel-"
"""The beginning of the id of each session that a channel has opened."""
ANYONE: Final = "*"
"""In an allow list: every sender, and every chat."""

ChannelKind: TypeAlias = Literal["page", "telegram", "webhook", "apprise"]
ChannelStatus: TypeAlias = Literal["ready", "listening", "retrying", "failed", "closed"]
"""`ready`: it can send. `listening`: it receives, too. `retrying`: it is down now. `failed`: its settings are wrong."""
InboxState: TypeAlias = Literal["waiting", "replying", "done"]
"""`replying` is stored before the answer is sent; for a long answer, before its last part. After a crash that part is
not sent again, because it may have arrived."""
Receipt: TypeAlias = Literal["new", "known", "replayed"]
"""What the store says of a message. `known`: it has a message with this id. `replayed`: one with this signature."""


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
    """The owner for whom the message is sent."""
    session: str = ""
    """The session that the message belongs to; empty if it belongs to none."""
    reply_to: str = ""
    """The channel's id of the message that this one answers."""
    buttons: tuple[MessageButton, ...] = ()
    id: str = ""
    """Each try to deliver the message has the same id."""


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
    """The `data` of the button that the person pressed, in place of `content`."""
    proof: str = ""
    """The signature that came with the message; each signature is accepted once."""
    reply_to: str = ""
    """The channel's own id of this message, for answers to it."""


class InboxMessage(Struct, frozen=True):
    """A message that the gateway has accepted, and has not answered yet."""

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
    """The outcome of a message that a channel received."""

    status: Literal["accepted", "answered", "duplicate", "replayed", "refused", "limited"]
    text: str = ""
    """What the sender should read at once; empty: nothing."""


class Inbox(Protocol):
    """Takes what channels receive."""

    async def receive(
        self, channel: str, messages: Sequence[IncomingMessage], position: str = ""
    ) -> Sequence[MessageTaken]:
        """Store the messages, and the channel's position after them. Return the outcome of each message.

        Raises `ToolError` (`busy`) when too many messages wait: then none was taken.
        """
        ...

    async def position(self, channel: str) -> str:
        """Return the position that was stored last; empty at the first start."""
        ...
