"""Calls: one that a program makes, its events, and the journal, as REST shows them (SPEC E8, X5)."""

from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from handspan.core.calls import CallState
from handspan.core.errors import ErrorCode, ErrorType
from handspan.core.records import CallStatus
from handspan.core.values import Json, JsonObject
from handspan.wire.rest.fields import After, Limit, SessionId


class SucceededCall(Struct, frozen=True, tag_field="status", tag="success", omit_defaults=True):
    """The call did what it should."""

    result: Json
    attachments: list[JsonObject] = []


class FailedCall(Struct, frozen=True, tag_field="status", tag="error"):
    """The call did not do what it should."""

    error_type: ErrorType
    code: ErrorCode
    message: str


CallEnvelope: TypeAlias = SucceededCall | FailedCall


class CallBegan(Struct, frozen=True, tag_field="event", tag="began"):
    """The call is on its way; its record is at `/api/calls/{call_id}` as soon as it is known."""

    call_id: str


class CallReported(Struct, frozen=True, tag_field="event", tag="progress"):
    """The tool reports while it runs."""

    value: Json


class CallMissed(Struct, frozen=True, tag_field="event", tag="missed"):
    """Some progress was dropped: the client read too slowly."""

    count: int


class CallAsks(Struct, frozen=True, tag_field="event", tag="question"):
    """A person is asked; the call goes on when the question (`/api/questions`) is answered."""

    question: str


class CallEnded(Struct, frozen=True, tag_field="event", tag="result"):
    """The call's one result. Nothing comes after it."""

    result: CallEnvelope


class CallWaits(Struct, frozen=True, tag_field="event", tag="pending"):
    """The result comes later, and not here: look at `/api/calls/{call_id}`. Nothing comes after it."""

    call_id: str
    questions: list[str]


CallEvent: TypeAlias = CallBegan | CallReported | CallMissed | CallAsks | CallEnded | CallWaits
Key = Annotated[str, Meta(max_length=200, description="The same key and the same request: run once.")]


class CallBody(Struct, frozen=True, forbid_unknown_fields=True):
    """What to call it with, and for whom."""

    args: dict[str, Json] = {}
    agent: Annotated[str, Meta(max_length=100)] = ""
    """The agent whose tools and mode count; empty: the default one."""
    session: SessionId = ""
    """With the tools of this session, and in its journal."""


class CallHeaders(Struct, frozen=True, rename=lambda name: name.replace("_", "-")):
    """How a request that is sent again is known."""

    idempotency_key: Key = ""


class PendingCall(Struct, frozen=True):
    """The call has no result yet: look for it at `/api/calls/{call_id}`."""

    status: Literal["pending"]
    call_id: str
    questions: list[str]
    """What a person is asked for it."""


Instant = Annotated[str, Meta(max_length=64, extra_json_schema={"format": "date-time"})]


class CallQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which calls."""

    session: SessionId = ""
    tool: Annotated[str, Meta(max_length=200)] = ""
    status: Literal[""] | CallStatus = ""
    """`error` is every code."""
    since: Instant | UnsetType = UNSET
    """Those that began then or later."""
    until: Instant | UnsetType = UNSET
    """Those that began earlier."""
    limit: Limit = 50
    after: After = ""


class ListedCall(Struct, frozen=True):
    """One call in a list."""

    id: str
    tool: str
    origin: str
    """As `device(phone)`; empty where there was no such tool."""
    version: str
    session: str
    agent: str
    state: CallState
    status: str
    """`success`, the code of its error, or `open`."""
    at: str
    duration: float
    """Seconds."""


class CallPage(Struct, frozen=True):
    """Calls, the last one first."""

    calls: list[ListedCall]
    next: str | None
    """Where the next page begins; null at the end."""


class ShownNote(Struct, frozen=True):
    """What was heard after the call had ended."""

    at: str
    text: str


class ShownCallRecord(Struct, frozen=True):
    """All that is known of one call."""

    id: str
    tool: str
    origin: str
    version: str
    session: str
    agent: str
    state: CallState
    status: str
    at: str
    duration: float
    arguments: Json
    """An object; the text as it came where it was none."""
    result: CallEnvelope | None
    """Null while the call is open."""
    true_result: CallEnvelope | None
    """What the tool answered, where a hook put something else in its place."""
    expires_at: str | None
    notes: list[ShownNote]


class WaitQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """How long to wait for a call that is still open."""

    wait: Annotated[float, Meta(ge=0, le=25, description="Seconds.")] = 0.0
