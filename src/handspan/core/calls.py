"""A request to run one tool once, and its record in the ledger (SPEC E2, E8)."""

import uuid
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType, structs

from handspan.core.context import Deadline
from handspan.core.fast import IS_FAST
from handspan.core.fast_ids import draw_id
from handspan.core.principals import Origin, OriginKind
from handspan.core.results import ToolResult
from handspan.core.tool import AnsweredBy
from handspan.core.values import Arguments

CallState: TypeAlias = Literal["accepted", "started", "pending", "done"]
"""`accepted`: the tool was not touched yet. `started`: it was touched. `pending`: it was touched, and its outcome comes
from elsewhere. `done`: the call has its result."""


class ToolCall(Struct, frozen=True, gc=False):
    """A request to run one tool once."""

    name: str
    arguments: Arguments | bytes | str
    """Parsed, or the raw JSON text."""
    id: str
    """Unique for ever and impossible to guess: see `new_call_id`. A model's own id for the call is a different one."""
    deadline: Deadline | None = None
    """The caller's own limit, if it has one."""
    request: str = ""
    """The fingerprint of the request that began the call under an idempotency key; empty without one."""


class ToolFacts(Struct, frozen=True, omit_defaults=True):
    """What a record says about the tool, as it was at the time of the call."""

    origin: Origin | None
    version: str
    read_only: bool
    outlives: bool = False
    """The outcome may still come when this process is gone, because the client can come back (ws.md 6.7)."""
    answered_by: AnsweredBy = "tool"
    internal: bool = False
    """The tool is hidden from models: a skill showed it for this call, or the operator called it by `mcp call`."""
    request: str = ""
    """The fingerprint of the request that began the call (`ToolCall.request`): a repeated request is compared with it.

    The arguments can't be compared: a lenient reading (A6), a hook or a person may have changed them.
    """


UNKNOWN_TOOL = ToolFacts(None, "", read_only=False)
_ANSWERED_BY: Final[dict[OriginKind, AnsweredBy]] = {
    "remote": "connection",
    "device": "connection",
    "browser": "request",
}
_facts: Final = msgspec.json.Decoder(ToolFacts)


def decode_facts(stored: bytes) -> ToolFacts:
    """Decode the facts of a stored record. Add `answered_by` to records of versions that did not write it."""
    facts = _facts.decode(stored)
    if facts.origin is None or facts.answered_by != "tool":
        return facts
    answered_by = _ANSWERED_BY.get(facts.origin.kind)
    return facts if answered_by is None else structs.replace(facts, answered_by=answered_by)


class AskingModel(Struct, frozen=True, omit_defaults=True):
    """The model whose reply asked for a call, and why that one answered if another was meant (SPEC L6)."""

    model: str
    in_place_of: str = ""
    """The name of the model that was meant; empty: this one."""
    reason: str = ""
    """Why that one did not answer, in words for a person."""


class CallRecord(Struct, gc=False):
    """What the gateway knows about one call. Only the ledger and the engine write it."""

    id: str
    name: str
    tool: ToolFacts
    arguments: Arguments | bytes | str
    owner: str
    session: str
    agent: str
    at: float
    """When the call began, in seconds since 1970."""
    size: int = 0
    """The approximate size of this record in bytes."""
    asked_by: AskingModel | None = None
    """None: no model asked for the call, or an earlier version wrote the record."""
    state: CallState | None = None
    """None before the ledger has the call."""
    expires_at: float | None = None
    """When a call that is pending, or may outlive its process, ends without an answer; in seconds since 1970."""
    duration: float = 0.0
    """Seconds from the begin of the call to its result, without `waited`."""
    waited: float = 0.0
    """Seconds that the call waited for a person."""
    is_edited: bool = False
    """Whether a person changed the arguments before approving the call."""
    result: ToolResult | UnsetType = UNSET
    true_result: ToolResult | UnsetType = UNSET
    """The tool's own answer, if a hook has replaced it by `result`."""


def can_wait(record: CallRecord, *, is_asking: bool = False, is_late: bool = False) -> bool:
    """Whether an open call can wait without the process that works on it, after its stop as after its death (SPEC A2).

    `is_asking`: the store has a question of the call to a person. `is_late`: the time of the call is over.
    """
    tool = record.tool
    match record.state:
        case "accepted":
            return is_asking
        case "started":  # a tool that only reads does no harm when it runs once more
            return (tool.outlives and not is_late) or (is_asking and (tool.outlives or tool.read_only))
        case "pending":
            return not is_late or (is_asking and tool.answered_by == "connection")
        case _:
            return False


class Note(Struct, frozen=True):
    """Something that came for a call after its result."""

    at: float
    text: str


MAX_NOTES: Final = 5
LONGEST_NOTE: Final = 64 * 1024


def cut_note(text: str) -> str:
    """Return the text; if it is too long for a note, its beginning with a mark."""
    size = len(text.encode(errors="replace"))
    if size <= LONGEST_NOTE:
        return text
    mark = f" … (cut: {size} bytes in all)"
    room = LONGEST_NOTE - len(mark.encode())
    return text.encode(errors="replace")[:room].decode(errors="ignore") + mark


new_call_id: Final[Callable[[], str]] = draw_id if IS_FAST else lambda: str(uuid.uuid4())
"""Returns an id in UUID form that is impossible to guess."""
