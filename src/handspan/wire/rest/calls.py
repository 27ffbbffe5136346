"""Calls in REST: a call of a program, its events, the journal, and what the replies used (SPEC E8, X5, M6)."""

from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from handspan.core.calls import CallState
from handspan.core.errors import ErrorCode, ErrorType
from handspan.core.records import CallStatus, SumBy, ToolTiming, UsageSum
from handspan.core.values import Json, JsonObject
from handspan.wire.rest.fields import After, Limit, SessionId


class SucceededCall(Struct, frozen=True, tag_field="status", tag="success", omit_defaults=True):
    """The call succeeded."""

    result: Json
    attachments: list[JsonObject] = []
    notice: str = ""
    """What the caller has to know beside the result, such as arguments that a person changed."""


class FailedCall(Struct, frozen=True, tag_field="status", tag="error"):
    """The call failed."""

    error_type: ErrorType
    code: ErrorCode
    message: str


CallEnvelope: TypeAlias = SucceededCall | FailedCall


class CallBegan(Struct, frozen=True, tag_field="event", tag="began"):
    """The call begins. Its record is at `/api/calls/{call_id}` as soon as it is stored."""

    call_id: str


class CallReported(Struct, frozen=True, tag_field="event", tag="progress"):
    """Progress of the tool while it runs."""

    value: Json


class CallMissed(Struct, frozen=True, tag_field="event", tag="missed"):
    """Some progress was dropped: the client read too slowly."""

    count: int


class CallAsks(Struct, frozen=True, tag_field="event", tag="question"):
    """A person is asked. The call goes on when the question (`/api/questions`) is answered."""

    question: str
    device: str = ""
    """The label of the device that asks its own person. Empty: the question is in `/api/questions`."""


class CallEnded(Struct, frozen=True, tag_field="event", tag="result"):
    """The result of the call. It is the last event."""

    result: CallEnvelope


class CallWaits(Struct, frozen=True, tag_field="event", tag="pending"):
    """The result comes later, at `/api/calls/{call_id}`. It is the last event."""

    call_id: str
    questions: list[str]


CallEvent: TypeAlias = CallBegan | CallReported | CallMissed | CallAsks | CallEnded | CallWaits
Key = Annotated[str, Meta(max_length=200, description="The same key and the same request: run once.")]


class CallBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments, the agent and the session of a call."""

    args: dict[str, Json] = {}
    agent: Annotated[str, Meta(max_length=100)] = ""
    """The agent whose tools and mode apply. Empty: the default one."""
    session: SessionId = ""
    """The session whose tools and journal the call uses."""


class CallHeaders(Struct, frozen=True, rename=lambda name: name.replace("_", "-")):
    """The key of a request that may be sent again, and what becomes of a call whose client leaves."""

    idempotency_key: Key = ""
    prefer: Annotated[str, Meta(max_length=200)] = ""
    """`respond-async`: the call goes on when the client of its stream disconnects."""


class PendingCall(Struct, frozen=True):
    """The call has no result yet. It will be at `/api/calls/{call_id}`."""

    status: Literal["pending"]
    call_id: str
    questions: list[str]
    """The ids of the questions to a person."""
    waiting_for: list[str] = []
    """What each of them asks and where, in words."""


Instant = Annotated[str, Meta(max_length=64, extra_json_schema={"format": "date-time"})]


class TimingQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which calls count; those without a result never do."""

    session: SessionId = ""
    tool: Annotated[str, Meta(max_length=200)] = ""
    origin: Annotated[str, Meta(max_length=200)] = ""
    """A kind (`device`), or a kind with its name (`device(phone)`)."""


class CallQuery(TimingQuery, frozen=True):
    """Which calls to list."""

    status: Literal[""] | CallStatus = ""
    """`error` means every code."""
    since: Instant | UnsetType = UNSET
    """Calls that began then or later."""
    until: Instant | UnsetType = UNSET
    """Calls that began earlier."""
    limit: Limit = 50
    after: After = ""


class ListedCall(Struct, frozen=True):
    """One call in a list."""

    id: str
    tool: str
    origin: str
    """As `device(phone)`. Empty: there was no such tool."""
    version: str
    session: str
    parent: str
    """The call for which its agent works; empty: none, it works for a person."""
    agent: str
    state: CallState
    status: str
    """`success`, the code of its error, or `open`."""
    at: str
    duration: float
    """Seconds, without those in `waited`."""
    waited: float
    """Seconds that it waited for a person."""
    model: str
    """The model that asked for it. Empty: no model did, or an earlier version wrote the record."""
    in_place_of: str
    """The name of the model that was meant; empty: that one."""
    reason: str
    """Why another model than that one has answered."""


class CallPage(Struct, frozen=True):
    """Calls, the newest first."""

    calls: list[ListedCall]
    next: str | None
    """Where the next page begins; null at the end."""


class TimingList(Struct, frozen=True):
    """How long tools take, the most called one first."""

    tools: list[ToolTiming]


class NoteView(Struct, frozen=True):
    """A note on something that came after the call had ended."""

    at: str
    text: str


class CallRecordView(ListedCall, frozen=True):
    """The whole record of one call."""

    arguments: Json
    """An object; or the text as it came, if that was no object."""
    result: CallEnvelope | None
    """Null while the call is open."""
    true_result: CallEnvelope | None
    """The tool's own result, if a hook replaced it."""
    expires_at: str | None
    notes: list[NoteView]
    internal: bool
    """The tool is hidden from models: a skill showed it for this call, or the operator called it by its server."""


class WaitQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """How long to wait for a call that is still open."""

    wait: Annotated[float, Meta(ge=0, le=25, description="Seconds.")] = 0.0


class UsageQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """What to sum."""

    by: SumBy = "model"
    session: SessionId = ""
    since: Annotated[
        str, Meta(pattern=r"^([0-9]{4}-[0-9]{2}-[0-9]{2})?$", description="A day (UTC), as 2026-01-31.")
    ] = ""


class UsageList(Struct, frozen=True):
    """One sum for each session, model, agent or day. A count that the model did not report is null, never 0."""

    by: str
    usage: list[UsageSum]
