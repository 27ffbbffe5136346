"""Sessions and their messages, as REST shows them; the webhook, which says something in one."""

from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from handspan.wire.rest.fields import SOMETHING, After, Limit, SessionId

_LONGEST_NAME: Final = 200


class SessionQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which part of the list. Old clients want all of it."""

    limit: Limit = 1000
    after: After = ""


class ShownSession(Struct, frozen=True, omit_defaults=True):
    """A session without its messages."""

    session_id: str
    created_at: str
    last_activity: str
    message_count: int
    state: str
    name: str = ""
    persona: str = ""
    """The agent."""


class SessionList(Struct, frozen=True):
    """Sessions, the last active first."""

    sessions: list[ShownSession]
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
    """A session to begin."""

    name: Annotated[str, Meta(max_length=_LONGEST_NAME)] = ""
    persona: Annotated[str, Meta(max_length=100)] = ""
    """The agent; empty: the default one."""


class MessagesQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which messages, and how much of them."""

    after: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    """Those after this `seq`."""
    full: bool = False
    """Calls and their results too."""


class ShownCall(Struct, frozen=True):
    """A call that the model asked for."""

    id: str
    name: str
    arguments: str
    """JSON text as the model wrote it."""


class ShownMessage(Struct, frozen=True, omit_defaults=True):
    """One message, or with `full` one result of a call."""

    seq: int
    role: Literal["user", "assistant", "tool"]
    content: str
    attachments: int = 0
    """How many images, sounds and files come with it."""
    model: str = ""
    calls: tuple[ShownCall, ...] = ()
    call_id: str = ""
    name: str = ""
    """The tool, for a result."""


class MessageList(Struct, frozen=True):
    """The messages of a session, the first one first."""

    session_id: str
    messages: list[ShownMessage]
    session_persistence: bool = True


class ShownState(Struct, frozen=True, omit_defaults=True):
    """What a session does now."""

    session_id: str
    state: Literal["idle", "running", "waiting"]
    """`waiting`: for a person or a device that has the outcome of a call."""
    turn_id: str = ""
    turn_started_at: str = ""


class NewName(Struct, frozen=True):
    """What the session shall be called."""

    name: Annotated[str, Meta(pattern=SOMETHING, max_length=_LONGEST_NAME)]


class Renamed(Struct, frozen=True):
    """What it is called now."""

    session_id: str
    name: str


class DeletedSession(Struct, frozen=True):
    """It is gone, with all that belonged to it (SPEC S6)."""

    deleted: bool
    session_id: str


class AbortStatus(Struct, frozen=True):
    """What was stopped."""

    status: Literal["aborted", "no_active_response"]


class WebhookBody(Struct, frozen=True):
    """What is said, and to whom."""

    message: Annotated[str, Meta(pattern=SOMETHING, max_length=60_000)]
    persona: Annotated[str, Meta(max_length=100)] | None = None
    """The agent."""


class WebhookHeaders(Struct, frozen=True, rename=lambda name: name.replace("_", "-")):
    """Where it is said. Without a session a new one begins."""

    x_session_id: SessionId = ""
    x_persona: Annotated[str, Meta(max_length=100)] = ""
    x_idempotency_key: Annotated[str, Meta(max_length=200)] = ""


class WebhookAnswer(Struct, frozen=True):
    """What the agent said. With `status` it is the stored answer to a request that came before."""

    response: str
    model: str
    session_id: str
    status: Literal["duplicate"] | UnsetType = UNSET
    idempotent: Literal[True] | UnsetType = UNSET


class WaitingAnswer(Struct, frozen=True):
    """The turn waits for a person or a device; it goes on by itself."""

    status: Literal["pending"]
    session_id: str
