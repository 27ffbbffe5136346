"""What the store keeps, as plain values: the nouns of `core/store.py`. Times are in seconds since 1970."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from handspan.core.errors import ErrorCode
from handspan.core.messages import CallPart, Message
from handspan.core.questions import Answer, QuestionKind
from handspan.core.values import Json, JsonObject

SessionState: TypeAlias = Literal["idle", "running", "waiting"]
"""`waiting`: a turn stopped at calls whose results come from a person or a browser; it goes on when they are there."""

CallStatus: TypeAlias = Literal["open", "success", "error"] | ErrorCode
"""How a call ended, or that it has not; `error` stands for every code."""

SumBy: TypeAlias = Literal["session", "model", "day"]


class SessionRecord(Struct, frozen=True):
    """What the store keeps of a session, without its messages."""

    id: str
    owner: str
    agent: str
    name: str
    created: float
    active: float
    """The last activity."""
    state: SessionState
    length: int
    """How many messages it has; the sequence number of the last one."""
    removed: int = 0
    """How many it had and has no more: a new message's number is its sequence number and this."""


class SessionPage(Struct, frozen=True):
    """Some sessions, the last active first."""

    sessions: tuple[SessionRecord, ...]
    next: str | None
    """Where the next page begins; None at the end."""


class ThreadEntry(Struct, frozen=True):
    """What clients over HTTP see as one message: a message, or each one of the results of a round."""

    number: int
    """Its name for as long as it is there; no other message ever gets it."""
    at: float
    message: Message
    place: int | None = None
    """Which of the results it is."""
    call: CallPart | None = None
    """What that result answers."""


class Recovery(Struct, frozen=True):
    """What was found half done, and how it was closed. All are call ids, but `closed`."""

    interrupted: tuple[str, ...] = ()
    """Never handed out: safe to call again."""
    unknown_outcome: tuple[str, ...] = ()
    """Handed out when the process ended; the outcome is unknown."""
    repeatable: tuple[str, ...] = ()
    """Those of `unknown_outcome` that only read: they may be called again."""
    expired: tuple[str, ...] = ()
    """They waited for a person, a browser or a client, and no answer came in time."""
    waiting: tuple[str, ...] = ()
    """Still open, and answerable."""
    closed: tuple[str, ...] = ()
    """Sessions whose turn was running; it is closed and does not go on by itself."""


class Total(Struct, frozen=True):
    """A sum of what is known, and how many replies did not say (SPEC M6)."""

    known: float | None
    """None when no reply said anything: unknown is never 0."""
    unknown: int


class UsageSum(Struct, frozen=True):
    """What the replies of one session, model or day used."""

    of: str
    replies: int
    input: Total
    output: Total
    cached: Total
    reasoning: Total
    cost: Total


class Rule(Struct, frozen=True):
    """An answer that holds for every question like this one, so that the person is not asked again (SPEC P2)."""

    owner: str
    kind: QuestionKind
    tool: str
    fingerprint: str
    """Of the tool's definition: a changed one is asked about again (SPEC T5)."""
    subject: str
    """The permission, or the reason why approval is needed."""
    answer: Answer


class Token(Struct, frozen=True):
    """What is known of one token; never the token itself (SPEC S5)."""

    hash: str
    owner: str
    scopes: tuple[str, ...]
    label: str
    created: float
    last_seen: float | None
    revoked: float | None


class DeviceRow(Struct, frozen=True):
    """What lasts of one device of one owner (SPEC W10, T5)."""

    owner: str
    id: str
    """The label that it asked for; with `_2`, `_3` … where another device had that one."""
    label: str
    """What it is called now: its tools are `{label}__{tool}`."""
    name: str
    """What it says of itself, for people."""
    last_seen: float
    """To the minute."""
    tools: Mapping[str, str] = {}
    """The fingerprints of the tools that it offered last, by its own names for them."""
    gone: Mapping[str, str] = {}
    """Those of tools that it had before: a definition that goes and comes back changed has changed too."""
    changed: tuple[str, ...] = ()
    """Tools whose definition changed, and that no person has looked at yet."""


class Pin(Struct, frozen=True):
    """A tool's definition as it was when it was first seen, or last approved by a person (SPEC T5)."""

    owner: str
    """Empty: for every owner."""
    origin: str
    """As `Origin` writes itself: `mcp(github)`, `device(phone)`."""
    name: str
    fingerprint: str
    definition: JsonObject


class MemoryRecord(Struct, frozen=True):
    """A short text that clients keep for their owner (graph.md 9.5)."""

    id: str
    owner: str
    at: float
    thread: str
    """Empty: of no thread."""
    kind: str
    category: str
    content: str
    metadata: JsonObject

    @property
    def shown_metadata(self) -> JsonObject:
        """All that is known beside its words; what filters look at."""
        return {**self.metadata, "category": self.category}


class MemoryFilter(Struct, frozen=True):
    """What a memory has to be like; None: anything."""

    kind: str | None = None
    category: str | None = None
    filters: JsonObject | None = None
    """Fields that its metadata has to have, with these values."""

    def fits(self, memory: MemoryRecord) -> bool:
        """Whether the filters let it through; kind and category are for the database."""
        known = memory.shown_metadata
        return all(name in known and _is_same(known[name], value) for name, value in (self.filters or {}).items())


class FoundMemory(Struct, frozen=True):
    """A memory, and which part of the words that were looked for it has: above 0, up to 1."""

    memory: MemoryRecord
    score: float


def _is_same(one: Json, other: Json) -> bool:
    """Whether two JSON values are one: to Python true is 1 as well."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)
