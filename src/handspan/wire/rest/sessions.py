"""Sessions and their messages in REST, and the webhook, which sends a message to a session."""

from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from handspan.core.events import EndReason, TurnFault
from handspan.core.results import AttachmentKind
from handspan.wire.rest.fields import SOMETHING, After, Limit, SessionId

_LONGEST_NAME: Final = 200


class SessionQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which part of the list. The default is large, because old clients expect the whole list."""

    limit: Limit = 1000
    after: After = ""


class EndView(Struct, frozen=True, omit_defaults=True):
    """How a turn ended that did not end with a whole answer."""

    after: int
    """The `seq` of the turn's last message."""
    reason: EndReason
    at: str
    model: str = ""
    """The model that answered, or should have."""
    text: str = ""
    """What went wrong, with the reason `error`."""
    fault: TurnFault | UnsetType = UNSET
    """What has failed, for programs."""


class SessionView(Struct, frozen=True, omit_defaults=True):
    """A session without its messages."""

    session_id: str
    created_at: str
    last_activity: str
    message_count: int
    state: str
    name: str = ""
    persona: str = ""
    """The agent."""
    ended: EndView | UnsetType = UNSET
    """How the last turn ended, if not with a whole answer. Lists do not have it."""


class SessionList(Struct, frozen=True):
    """Sessions, the last active first."""

    sessions: list[SessionView]
    next: str | None
    """Where the next page begins; null at the end."""


class RunningSession(Struct, frozen=True):
    """A session whose turn runs now."""

    session_id: str
    created_at: str
    last_activity: str
    message_count: int
    turn_id: str
    turn_started_at: str


class RunningList(Struct, frozen=True):
    """Sessions whose turn runs now."""

    sessions: list[RunningSession]


class NewSession(Struct, frozen=True):
    """A session to create."""

    name: Annotated[str, Meta(max_length=_LONGEST_NAME)] = ""
    persona: Annotated[str, Meta(max_length=100)] = ""
    """The agent. Empty: the default one."""


class MessagesQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which messages to list."""

    after: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    """Only messages after this `seq`."""
    full: bool = False
    """With calls and their results."""


class CallView(Struct, frozen=True):
    """A call that the model asked for."""

    id: str
    name: str
    arguments: str
    """JSON text of the model."""


class FileView(Struct, frozen=True):
    """An image, a sound or a file of a message or a result. It is at `…/messages/{seq}/files/{index}`."""

    index: int
    kind: AttachmentKind
    media_type: str
    name: str


class MessageView(Struct, frozen=True, omit_defaults=True):
    """One message, or with `full` one result of a call."""

    seq: int
    role: Literal["user", "assistant", "tool"]
    content: str
    attachments: int = 0
    """How many images, sounds and files the message has."""
    files: tuple[FileView, ...] = ()
    id: str = ""
    """The sender's own id of a person's message (ws.md 3.1)."""
    turn: str = ""
    """The turn that a person's message began or joined."""
    model: str = ""
    thinking: str = ""
    calls: tuple[CallView, ...] = ()
    call_id: str = ""
    name: str = ""
    """The tool of a result."""


class MessageList(Struct, frozen=True):
    """The messages of a session, the oldest first."""

    session_id: str
    messages: list[MessageView]
    session_persistence: bool = True
    ends: list[EndView] = []
    """How turns ended that did not end with a whole answer, from the message `after` on."""


class SearchQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The words to search for, in upper or lower case."""

    query: Annotated[str, Meta(pattern=SOMETHING, max_length=200)]
    limit: Annotated[int, Meta(ge=1, le=200, description="How many at most.")] = 50


class FoundSession(Struct, frozen=True):
    """A session with the words in its name or in what was said."""

    session: SessionView
    seq: int
    """The first message with the words; 0: only the name has them."""
    excerpt: str
    """The words in their sentence; empty for a name."""


class FoundSessions(Struct, frozen=True):
    """The sessions that were found, the last active first."""

    found: list[FoundSession]
    searched: int
    """How many sessions were searched: the last active ones."""


class SessionStateView(Struct, frozen=True, omit_defaults=True):
    """The state of a session."""

    session_id: str
    state: Literal["idle", "running", "waiting"]
    """`waiting`: a call waits for a person or a device."""
    turn_id: str = ""
    turn_started_at: str = ""


class NewName(Struct, frozen=True):
    """The new name of a session."""

    name: Annotated[str, Meta(pattern=SOMETHING, max_length=_LONGEST_NAME)]


class Renamed(Struct, frozen=True):
    """The name of the session now."""

    session_id: str
    name: str


class DeletedSession(Struct, frozen=True):
    """The session was removed, with everything that belonged to it (SPEC S6)."""

    deleted: bool
    session_id: str


class UndoneTurn(Struct, frozen=True):
    """The last message of the person is removed, and all that followed it."""

    session_id: str
    removed: int
    """How many messages."""


class RetriedTurn(Struct, frozen=True):
    """How the turn ended that answers the last message again."""

    session_id: str
    reason: EndReason
    """`pending`: it waits for a person or a device, and goes on without a new request."""
    text: str
    """The answer, or what went wrong."""
    fault: TurnFault | UnsetType = UNSET


class AbortStatus(Struct, frozen=True):
    """Whether a turn was stopped."""

    status: Literal["aborted", "no_active_response"]


class WebhookBody(Struct, frozen=True):
    """The message, and the agent that answers it."""

    message: Annotated[str, Meta(pattern=SOMETHING, max_length=60_000)]
    persona: Annotated[str, Meta(max_length=100)] | None = None
    """The agent."""


class WebhookHeaders(Struct, frozen=True, rename=lambda name: name.replace("_", "-")):
    """The session of the message. Without one, a new session begins."""

    x_session_id: SessionId = ""
    x_persona: Annotated[str, Meta(max_length=100)] = ""
    x_idempotency_key: Annotated[str, Meta(max_length=200)] = ""


class WebhookAnswer(Struct, frozen=True):
    """The answer of the agent. With `status` it is the stored answer to an earlier request."""

    response: str
    model: str
    session_id: str
    status: Literal["duplicate"] | UnsetType = UNSET
    idempotent: Literal[True] | UnsetType = UNSET


class WaitingAnswer(Struct, frozen=True):
    """The turn waits for a person or a device, and goes on without a new request."""

    status: Literal["pending"]
    session_id: str
