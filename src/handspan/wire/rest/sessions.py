"""Sessions and their messages in REST, and the webhook, which sends a message to a session."""

from typing import Annotated, Final, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from handspan.core.events import ContextUse, EndReason, TurnFault
from handspan.core.results import AttachmentKind
from handspan.wire.rest.fields import SOMETHING, After, Limit, SessionId

_LONGEST_NAME: Final = 200
ModelName: TypeAlias = Annotated[str, Meta(max_length=200)]


NewKind: TypeAlias = Literal["chat", "run", "one_shot"]
"""A person's chat, the run of a page, or one question with its answer."""
Kind: TypeAlias = Literal[NewKind, "child"]
"""Also: what an agent does for another one that asked it."""
OF_PEOPLE: Final = "chat,run,one_shot"
"""The kinds of sessions in which people and programs talk to agents."""
_KINDS: Final = "(chat|run|one_shot|child)"
Kinds: TypeAlias = Annotated[
    str,
    Meta(
        pattern=rf"^({_KINDS}(,{_KINDS})*)?$",
        description="Only of these kinds: chat, run, one_shot, child; with commas.",
    ),
]


class SessionQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which part of the list. The default is large, because old clients expect the whole list."""

    limit: Limit = 1000
    after: After = ""
    kind: Kinds = ""
    pinned: bool | UnsetType = UNSET
    archived: bool | UnsetType = UNSET


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
    kind: Kind
    name: str = ""
    persona: str = ""
    """The agent."""
    parent: str = ""
    """The call by which another agent asked for it; empty: none did."""
    pinned: bool = False
    archived: bool = False
    model: str = ""
    """The model that was chosen for this session alone; empty: that of its agent."""
    ended: EndView | UnsetType = UNSET
    """How the last turn ended, if not with a whole answer. Lists do not have it."""
    context: ContextUse | UnsetType = UNSET
    """How full the context of its model is, if that is known. Lists do not have it."""


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
    kind: NewKind = "chat"
    model: ModelName = ""
    """The model for this session alone. Empty: that of its agent."""


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
    at: str
    """When it was stored: a reply when it was whole, results when all of them were there."""
    attachments: int = 0
    """How many images, sounds and files the message has."""
    files: tuple[FileView, ...] = ()
    id: str = ""
    """The sender's own id of a person's message (ws.md 3.1)."""
    turn: str = ""
    """The turn that a person's message began or joined."""
    model: str = ""
    in_place_of: str = ""
    """The model that was meant, if another one has answered (SPEC L6)."""
    reason: str = ""
    """Why it did not answer itself."""
    agent: str = ""
    """The agent of a reply. Another one than before: the session has changed its agent."""
    thinking: str = ""
    calls: tuple[CallView, ...] = ()
    call_id: str = ""
    name: str = ""
    """The tool of a result."""


class SummaryView(Struct, frozen=True):
    """A summary that a model got in place of messages."""

    after: int
    """The `seq` of the last message that it stands for."""
    at: str
    text: str


class MessageList(Struct, frozen=True):
    """The messages of a session, the oldest first."""

    session_id: str
    messages: list[MessageView]
    session_persistence: bool = True
    ends: list[EndView] = []
    """How turns ended that did not end with a whole answer, from the message `after` on."""
    summaries: list[SummaryView] = []
    """What models have got in place of earlier messages, from the message `after` on. All messages stay."""


class SearchQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The words to search for, in upper or lower case, with or without accents."""

    query: Annotated[
        str, Meta(description="Words, all of which have to be in one message. Each finds longer words, too.")
    ]
    limit: Annotated[int, Meta(ge=1, le=200, description="How many at most.")] = 50
    left: Annotated[bool, Meta(description="Search versions that were left, too.")] = False
    results: Annotated[bool, Meta(description="Search results of calls, too.")] = False
    kind: Kinds = ""
    archived: bool | UnsetType = UNSET


class ExcerptPart(Struct, frozen=True, omit_defaults=True):
    """A part of an excerpt."""

    text: str
    found: bool = False
    """Whether it is one of the words."""


class FoundSession(Struct, frozen=True):
    """A session with the words in its name or in what was said."""

    session: SessionView
    seq: int
    """The first message with the words; 0: only the name has them."""
    excerpt: str
    """The words in their sentence; empty for a name."""
    marked: list[ExcerptPart]
    """The same in parts, with the words marked; for a name, the name."""
    branch: int | UnsetType = UNSET
    """The version that has the words, if it is one that was left; `seq` counts from its first message then."""
    in_result: Literal[True] | UnsetType = UNSET
    """The words are in the result of a call."""


class FoundSessions(Struct, frozen=True):
    """The sessions that were found, the last active first."""

    found: list[FoundSession]
    unindexed: int
    """How many sessions have messages that could not be searched yet, as after an update of the gateway; mostly 0."""


class SessionStateView(Struct, frozen=True, omit_defaults=True):
    """The state of a session."""

    session_id: str
    state: Literal["idle", "running", "waiting"]
    """`waiting`: a call waits for a person or a device."""
    turn_id: str = ""
    turn_started_at: str = ""


class SessionUpdate(Struct, frozen=True):
    """What to change of a session. What is not named stays."""

    name: Annotated[str, Meta(pattern=SOMETHING, max_length=_LONGEST_NAME)] | UnsetType = UNSET
    kind: NewKind | UnsetType = UNSET
    pinned: bool | UnsetType = UNSET
    archived: bool | UnsetType = UNSET
    model: ModelName | UnsetType = UNSET
    """The model for this session alone, from the next turn on. Empty: that of its agent."""


class ChangedSession(Struct, frozen=True):
    """What a person set of the session, as it is now."""

    session_id: str
    name: str
    kind: Kind
    pinned: bool
    archived: bool
    model: str


class DeleteQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """How to delete."""

    undo: Annotated[bool, Meta(description="Hide it now, and delete it a little later, unless it is restored.")] = False


class DeletedSession(Struct, frozen=True):
    """The session was removed, with everything that belonged to it (SPEC S6)."""

    deleted: bool
    session_id: str
    until: str | UnsetType = UNSET
    """It can be restored until then, and is hidden until then."""


class VersionView(Struct, frozen=True):
    """A version: what follows one message of the conversation, now or before somebody went back."""

    branch: int
    """Its name, by which it can be chosen."""
    fork: int
    """What the versions of one place have in common: the number of the message that they follow; 0 at the beginning."""
    seq: int | None
    """The `seq` that its first message has, or gets when the version is chosen; null while another version has to be
    chosen with it."""
    length: int
    """How many messages it has."""
    text: str
    """How its first message begins."""
    at: str
    """When it began."""
    is_current: bool
    left_at: str | None
    """When it was left; null for a current one."""


class VersionList(Struct, frozen=True):
    """The versions of a session, in the order in which they began. A conversation that never went back has none."""

    session_id: str
    versions: list[VersionView]


class LeftVersion(Struct, frozen=True):
    """The messages of a version that was left. Their `seq` counts from its first message."""

    session_id: str
    branch: int
    messages: list[MessageView]


class ChosenVersion(Struct, frozen=True):
    """The version that is current now."""

    session_id: str
    branch: int
    message_count: int
    """How many messages the conversation has now."""


class ContextView(Struct, frozen=True):
    """About how many tokens the next request of a session has, and for what."""

    session_id: str
    used: int
    limit: int | None
    """The tokens that the model can read; null without a limit."""
    instructions: int
    tools: int
    summary: int
    """The summary of earlier messages."""
    history: int
    """What was said, without results of calls."""
    results: int


class CompactBody(Struct, frozen=True):
    """What the person wants to be in the summary."""

    keep: Annotated[str, Meta(max_length=2000)] = ""


class CompactedSession(Struct, frozen=True):
    """What the model sees of the session is shorter now. The session itself is as it was."""

    session_id: str
    before: int
    """About how many tokens a request had."""
    after: int
    summarized: int
    """The summary stands for so many messages, from the first one on."""
    summary: str
    note: str
    """Why there is no new summary; empty if there is one."""


class UndoneTurn(Struct, frozen=True):
    """The last message of the person is left, and all that followed it. Both are a version now."""

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
