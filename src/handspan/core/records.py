"""The plain values of the store: the data of `core/store.py`. Times are in seconds since 1970."""

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from handspan.core.errors import ErrorCode
from handspan.core.events import TurnEnd
from handspan.core.messages import CallPart, Message
from handspan.core.questions import Answer, QuestionKind
from handspan.core.schedules import ClaimedRun
from handspan.core.values import Json, JsonObject

SessionState: TypeAlias = Literal["idle", "running", "waiting"]
"""`waiting`: a turn stopped at calls whose results come from a person or a page; it continues with them."""

BRIEF_SESSION: Final = "brief-"
"""The id of a session that lasts for one request begins so (SPEC F3). Its usage and its calls outlast it."""

CallStatus: TypeAlias = Literal["open", "success", "error"] | ErrorCode
"""How a call ended, or `open`; `error` stands for every code."""


SessionKind: TypeAlias = Literal["chat", "run", "one_shot", "child"]
"""Where a session comes from: a person's chat, the run of a page (graph API) or of a schedule, one question with its
answer, or the call of an agent that asked another one."""


class SessionFilter(Struct, frozen=True):
    """Which sessions are wanted; None accepts any."""

    kinds: tuple[SessionKind, ...] | None = None
    pinned: bool | None = None
    archived: bool | None = None

    def fits(self, session: "SessionRecord") -> bool:
        """Whether this session is wanted."""
        return (
            (self.kinds is None or session.kind in self.kinds)
            and self.pinned in (None, session.pinned)
            and self.archived in (None, session.archived)
        )


ALL_SESSIONS: Final = SessionFilter()


class SessionEdit(Struct, frozen=True):
    """What to change of a session; None: it stays as it is."""

    name: str | None = None
    kind: SessionKind | None = None
    pinned: bool | None = None
    archived: bool | None = None
    model: str | None = None
    """Empty: the model of its agent."""


class CallFilter(Struct, frozen=True):
    """Which calls are wanted; None accepts any value."""

    session: str | None = None
    tool: str | None = None
    origin: str | None = None
    """A kind, or a kind with its name as in `device(phone)`."""
    status: CallStatus | None = None
    since: float | None = None
    """Seconds since 1970: calls that began then or later."""
    until: float | None = None
    """Calls that began earlier than this."""


ALL_CALLS: Final = CallFilter()

SumBy: TypeAlias = Literal["session", "model", "agent", "day"]


class SessionRecord(Struct, frozen=True):
    """What the store holds of a session, without its messages."""

    id: str
    owner: str
    agent: str
    name: str
    created: float
    active: float
    """The last activity."""
    state: SessionState
    length: int
    """The number of messages, which is the sequence number of the last one."""
    removed: int = 0
    """The number of removed messages. A new message's number is its sequence number plus this."""
    skills: str | None = None
    """The names of the skills that are on, one a line, if a person has changed them; None: those of its agent."""
    compacted: int = 0
    """How often the marks of its context have moved."""
    kind: SessionKind = "chat"
    model: str = ""
    """The model that a person chose for this session alone; empty: that of its agent."""
    pinned: bool = False
    archived: bool = False


class ContextMarks(Struct, frozen=True):
    """What models see of a long conversation in place of the whole (SPEC L1), by sequence numbers of messages."""

    short: int = 0
    """The last message whose results are one line; 0: none."""
    summarized: int = 0
    """The last message that the summary stands for; 0: none."""
    summary: str = ""
    made: int = 0
    """How many messages there were when the marks were set."""
    room: int = 0
    """The results of one message between `short` and `made` are cut to so many characters; 0: they are whole."""
    at: float = 0.0


class ResponseRow(Struct, frozen=True):
    """An answer that a client of OpenAI's API asks for again by its id (SPEC F2)."""

    id: str
    owner: str
    client: str
    """The client of its token: only that one finds it."""
    session: str
    length: int
    """How many messages the session had when the answer ended; 0: it has not."""
    body: bytes
    """JSON, as the client gets it."""
    input: bytes
    """A JSON list of what the request brought."""


class DatedMessage(Struct, frozen=True):
    """A message, and when it was stored."""

    message: Message
    at: float


class Version(Struct, frozen=True):
    """A part of a conversation that begins behind one of its messages, and that is current or was left (SPEC L8)."""

    branch: int
    """Its name: the number of its first message."""
    fork: int
    """The number of the message that it follows; 0: it is the whole conversation."""
    seq: int | None
    """The sequence number that its first message has, or gets when the version is chosen; None when its fork is itself
    in another version: that one is chosen with it."""
    length: int
    """How many messages it has."""
    text: str
    """How its first message begins."""
    at: float
    """When it began."""
    left_at: float | None
    """When it was left; None: it is the current one."""


class SessionPage(Struct, frozen=True):
    """Some sessions, the last active first."""

    sessions: tuple[SessionRecord, ...]
    next: str | None
    """The cursor of the next page; None at the end."""


class FoundText(Struct, frozen=True):
    """A text of a session that has the searched words, and its place."""

    session: SessionRecord
    seq: int
    """The sequence number of its message; in a version that was left, its place there. 0: it is the session's name."""
    text: str
    branch: int | None = None
    """The version that was left and has the message; None: the conversation has it."""
    is_result: bool = False
    """Whether it is the result of a call."""


class FoundTexts(Struct, frozen=True):
    """What a search found: one text for each session, the last active session first."""

    found: tuple[FoundText, ...]
    unindexed: int
    """How many sessions have messages that could not be searched yet. The index gets them soon."""


class ThreadEntry(Struct, frozen=True):
    """What the graph API shows as one message: a message, or one of the results of a round."""

    number: int
    """The message's name while it exists; no other message ever gets it."""
    at: float
    message: Message
    place: int | None = None
    """The index of the result."""
    call: CallPart | None = None
    """The call that the result answers."""
    ended: TurnEnd | None = None
    """How the turn ended with this entry; None: it went on, or ended with a whole answer."""


class Recovery(Struct, frozen=True):
    """The unfinished work that was found, and how it was closed. All are call ids, except the last three."""

    interrupted: tuple[str, ...] = ()
    """Never run: safe to call again."""
    unknown_outcome: tuple[str, ...] = ()
    """Running when the process ended: the outcome is unknown."""
    repeatable: tuple[str, ...] = ()
    """The read-only calls of `unknown_outcome`: they may be called again."""
    expired: tuple[str, ...] = ()
    """Calls that waited for a person, a page or a client, and got no answer in time."""
    waiting: tuple[str, ...] = ()
    """Calls that are still open and can be answered."""
    closed: tuple[str, ...] = ()
    """Sessions whose running turn was closed. It does not continue by itself."""
    answered: tuple[tuple[str, str], ...] = ()
    """Session and owner of the turns that wait, and whose calls all have their results: they can go on."""
    runs: tuple[ClaimedRun, ...] = ()
    """The runs of schedules that are this process's from now on."""


class Total(Struct, frozen=True):
    """A sum of known counts, and the number of replies without a count (SPEC M6)."""

    known: float | None
    """None if no reply has a count: unknown is not 0."""
    unknown: int


class UsageSum(Struct, frozen=True):
    """What the replies of one session, model, agent or day used."""

    of: str
    replies: int
    input: Total
    output: Total
    cached: Total
    reasoning: Total
    cost: Total


class ToolTiming(Struct, frozen=True):
    """How long the finished calls of one tool took: seconds, without those for a person (SPEC E8)."""

    tool: str
    calls: int
    failed: int
    p50: float
    """Half of the calls took no longer."""
    p95: float
    """95 of 100 calls took no longer."""


class Rule(Struct, frozen=True):
    """An answer to every question like this one, so that the person is not asked again (SPEC P2)."""

    owner: str
    kind: QuestionKind
    tool: str
    fingerprint: str
    """The fingerprint of the tool's definition: a changed tool is asked about again (SPEC T5)."""
    subject: str
    """The permission, or the reason why approval is needed."""
    answer: Answer


TOKEN_ID_LENGTH: Final = 16
"""Characters of a token's hash that make its id: enough to tell the owner's tokens apart."""


class Token(Struct, frozen=True):
    """What is known about one token; never the token itself (SPEC S5)."""

    hash: str
    owner: str
    scopes: tuple[str, ...]
    label: str
    created: float
    last_seen: float | None
    revoked: float | None


class DeviceRow(Struct, frozen=True):
    """What is stored about one device of one owner (SPEC W10, T5)."""

    owner: str
    id: str
    """The label that it asked for; with `_2`, `_3` … if another device had that label."""
    label: str
    """Its label now: its tools are `{label}__{tool}`."""
    name: str
    """Its own name for itself, for people."""
    last_seen: float
    """To the minute."""
    tools: Mapping[str, str] = {}
    """The fingerprints of the tools that it offered last, by the device's own names."""
    gone: Mapping[str, str] = {}
    """The fingerprints of tools that it offered earlier: so a tool that comes back changed is noticed."""
    changed: tuple[str, ...] = ()
    """Tools whose definition has changed, and which no person has looked at yet."""
    token: str = ""
    """The hash of the access token that it connected with last. Empty: it has not connected since this is stored."""


class PushSubscription(Struct, frozen=True):
    """A browser that gets notifications: where its push service is, and the keys that encrypt for it (SPEC J4)."""

    id: str
    owner: str
    token: str
    """The hash of the token that it was made with. When that is revoked, the subscription has ended."""
    endpoint: str
    """The address of the push service for this browser. It is a secret: programs that have it can send there."""
    p256dh: str
    auth: str
    label: str
    created: float = 0.0
    last_success: float | None = None
    token_seen: float = 0.0
    """When its token was last used, to the minute."""
    scopes: tuple[str, ...] = ()
    """Those of its token: the browser is told only of what its person may see."""


class Pin(Struct, frozen=True):
    """A tool's definition as it was first seen, or last approved by a person (SPEC T5)."""

    owner: str
    """Empty: for every owner."""
    origin: str
    """The text of an `Origin`: `mcp(github)`, `device(phone)`."""
    name: str
    fingerprint: str
    definition: JsonObject


class MemoryRecord(Struct, frozen=True):
    """A short text that clients store for their owner (graph.md 9.5)."""

    id: str
    owner: str
    at: float
    thread: str
    """Empty: no thread."""
    kind: str
    category: str
    content: str
    metadata: JsonObject

    @property
    def shown_metadata(self) -> JsonObject:
        """The metadata that clients see, with the category; filters look at this."""
        return {**self.metadata, "category": self.category}


class MemoryFilter(Struct, frozen=True):
    """Which memories are wanted; None accepts any."""

    kind: str | None = None
    category: str | None = None
    filters: JsonObject | None = None
    """Metadata fields that a memory must have, with their values."""

    def fits(self, memory: MemoryRecord) -> bool:
        """Whether the metadata fits. The database checks kind and category."""
        known = memory.shown_metadata
        return all(name in known and _is_same(known[name], value) for name, value in (self.filters or {}).items())


class FoundMemory(Struct, frozen=True):
    """A memory and the share of the searched words that it has: above 0, up to 1."""

    memory: MemoryRecord
    score: float


def _is_same(one: Json, other: Json) -> bool:
    """Whether two JSON values are equal: in Python true equals 1, in JSON it does not."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)
