"""A request to run one tool once, and the record that is kept of it (SPEC E2, E8)."""

from collections.abc import Callable
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType, structs

from handspan.core.deadlines import Deadline
from handspan.core.fast import IS_FAST
from handspan.core.fast_ids import draw_id
from handspan.core.principals import Origin, OriginKind
from handspan.core.results import ToolResult
from handspan.core.tool import AnsweredBy
from handspan.core.values import Arguments

CallState: TypeAlias = Literal["accepted", "started", "pending", "done"]
"""`accepted`: no tool was touched. `started`: one was. `pending`: it was, and its outcome comes from elsewhere."""


class ToolCall(Struct, frozen=True, gc=False):
    """A request to run one tool once."""

    name: str
    arguments: Arguments | bytes | str
    """Parsed, or the raw JSON text as it came."""
    id: str
    """Unique for ever and not to be guessed: see `new_call_id`. A model's own id for the call is not this one."""
    deadline: Deadline | None = None
    """The caller's own limit, where it has one."""


class ToolFacts(Struct, frozen=True, omit_defaults=True):
    """What a record says of the tool, as it was when it was called."""

    origin: Origin | None
    version: str
    read_only: bool
    outlives: bool = False
    """An outcome may still come when this process is gone: the client that was asked can come back (ws.md 6.7)."""
    answered_by: AnsweredBy = "tool"


UNKNOWN_TOOL = ToolFacts(None, "", False)
_ANSWERED_BY: Final[dict[OriginKind, AnsweredBy]] = {
    "remote": "connection",
    "device": "connection",
    "browser": "request",
}
_facts: Final = msgspec.json.Decoder(ToolFacts)


def decode_facts(stored: bytes) -> ToolFacts:
    """The facts of a record that was stored as JSON. What earlier versions did not write, `answered_by`, is added."""
    facts = _facts.decode(stored)
    if facts.origin is None or facts.answered_by != "tool":
        return facts
    answered_by = _ANSWERED_BY.get(facts.origin.kind)
    return facts if answered_by is None else structs.replace(facts, answered_by=answered_by)


class CallRecord(Struct, gc=False):
    """What is known of one call. Only the ledger and the engine write it."""

    id: str
    name: str
    tool: ToolFacts
    arguments: Arguments | bytes | str
    owner: str
    session: str
    agent: str
    at: float
    """When it began, in seconds since 1970."""
    size: int = 0
    """Roughly how many bytes this record holds."""
    state: CallState | None = None
    """None until the ledger knows it."""
    expires_at: float | None = None
    """When a call that is pending, or outlives its process, ends by itself; in seconds since 1970."""
    duration: float = 0.0
    result: ToolResult | UnsetType = UNSET
    true_result: ToolResult | UnsetType = UNSET
    """What the tool really answered, where a hook put something else in its place."""


class Note(Struct, frozen=True):
    """What came for a call that had its result already."""

    at: float
    text: str


MOST_NOTES: Final = 5
LONGEST_NOTE: Final = 64 * 1024


def cut_note(text: str) -> str:
    """The text, or as much of it as a note may have, with a mark that says so."""
    size = len(text.encode(errors="replace"))
    if size <= LONGEST_NOTE:
        return text
    mark = f" … (cut: {size} bytes in all)"
    room = LONGEST_NOTE - len(mark.encode())
    return text.encode(errors="replace")[:room].decode(errors="ignore") + mark


def _draw_uuid() -> str:
    import uuid  # noqa: PLC0415 - it loads for longer than all of `core`, and only the slow way needs it

    return str(uuid.uuid4())


new_call_id: Final[Callable[[], str]] = draw_id if IS_FAST else _draw_uuid
"""Returns an id in UUID form that no one can guess."""
