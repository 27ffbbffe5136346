"""Channels in REST: their state, their people, and signed messages that come in."""

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from handspan.core.channels import ChannelKind, ChannelState
from handspan.core.values import Json

ChatId: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]


class SenderView(Struct, frozen=True):
    """A person who was paired with a channel."""

    sender: str
    """The channel's own id of the person."""
    owner: str
    name: str
    paired: str


class ChannelView(Struct, frozen=True):
    """A channel and the people who may write there."""

    name: str
    kind: ChannelKind
    owner: str
    agent: str
    """The agent that answers; empty: the default agent."""
    receives: bool
    """Whether people can write to the agent here."""
    state: ChannelState
    allow: tuple[str, ...]
    """Ids from the settings that may write, and be written to."""
    senders: list[SenderView]


class ChannelList(Struct, frozen=True):
    """All channels."""

    channels: list[ChannelView]


class ChannelTest(Struct, frozen=True, forbid_unknown_fields=True):
    """A message to try a channel with."""

    chat_id: ChatId
    content: Annotated[str, Meta(min_length=1, max_length=4000)] = "This is a test of a Handspan channel."


class ChannelTested(Struct, frozen=True):
    """The message was delivered."""

    channel: str
    chat_id: str
    sent: bool = True


class NewSender(Struct, frozen=True, forbid_unknown_fields=True):
    """A person who may write to agents from now on."""

    sender: ChatId
    name: Annotated[str, Meta(max_length=60)] = ""


class SenderChanged(Struct, frozen=True):
    """Whether this person may write now."""

    channel: str
    sender: str
    paired: bool


class SignedMessage(Struct, frozen=True):
    """A message of a person, signed by the program that passes it on. Fields that are not here are ignored."""

    sender_id: ChatId
    content: Annotated[str, Meta(max_length=32_000)] = ""
    chat_id: Annotated[str, Meta(max_length=200)] = ""
    """Empty: the sender's own chat."""
    id: Annotated[str, Meta(max_length=200)] = ""
    """The sender's id of this message: the same again is not answered twice. Empty: the signature is its id."""
    sender_name: Annotated[str, Meta(max_length=60)] = ""
    button: Annotated[str, Meta(max_length=64)] = ""
    """The `data` of a button that the person pressed, in place of `content`."""
    media: list[Json] = []
    """Has to be empty: only text is read."""


class SignatureHeaders(Struct, frozen=True, rename=lambda name: name.replace("_", "-")):
    """The signature over time and body."""

    x_handspan_timestamp: str = ""
    """Seconds since 1970."""
    x_handspan_signature: str = ""
    """`v1=` and the hex of HMAC-SHA256 over the timestamp, a dot and the body."""


class SignedAnswer(Struct, frozen=True):
    """What came of the message. The agent's answer comes to the channel's own address."""

    status: Literal["accepted", "answered", "duplicate"]
    id: str
    text: str = ""
    """What the person should read at once."""
