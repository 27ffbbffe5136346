"""What lasts of conversations: sessions, messages, what they cost, agents; and who keeps all that (SPEC A2, S6).

The store fills these Protocols with SQLite; another database can fill them without touching the rooms above. Every row
has an owner, and who is not the owner gets the same words as for something that never was.
"""

from asyncio import Future
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from handspan.core.agents import Agent
from handspan.core.calls import CallRecord, Ledger
from handspan.core.errors import ToolError
from handspan.core.messages import Message
from handspan.core.questions import Answer, Question, Questions

SessionState: TypeAlias = Literal["idle", "running", "waiting"]
"""`waiting`: a turn stopped at calls whose results come from a person or a browser; it goes on when they are there."""

SumBy: TypeAlias = Literal["session", "model", "day"]


class StoreError(ToolError):
    """What must last can't be kept or read; the message says why and what to do. Nothing acknowledged is lost."""

    def __init__(self, message: str) -> None:
        super().__init__("execution_failed", message)


class NotYours(ToolError):
    """A session of this id is somebody else's. Only who asks for an id of their own choice is told so."""

    def __init__(self, session: str) -> None:
        super().__init__(
            "permission_denied", f"The session {session[:60]!r} belongs to somebody else: choose another id."
        )


class Session(Struct, frozen=True):
    """One conversation, without its messages."""

    id: str
    owner: str
    agent: str
    name: str
    created: float
    active: float
    """The last activity; seconds since 1970, like `created`."""
    state: SessionState
    length: int
    """How many messages it has; the sequence number of the last one."""
    removed: int = 0
    """How many it had and has no more: a new message's number is its sequence number and this."""


class SessionPage(Struct, frozen=True):
    """Some sessions, the last active first."""

    sessions: tuple[Session, ...]
    next: str | None
    """Where the next page begins; None at the end."""


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


class Recovery(Struct, frozen=True):
    """What was found half done, and how it was closed. All are call ids, but `closed`."""

    interrupted: tuple[str, ...] = ()
    """Never handed out: safe to call again."""
    unknown_outcome: tuple[str, ...] = ()
    """Handed out when the process ended, and nobody knows what came of it."""
    repeatable: tuple[str, ...] = ()
    """Those of `unknown_outcome` that only read: they may be called again."""
    expired: tuple[str, ...] = ()
    """They waited for a person, a browser or a client, and nobody came in time."""
    waiting: tuple[str, ...] = ()
    """Still open, and answerable."""
    closed: tuple[str, ...] = ()
    """Sessions whose turn was running; it is closed and does not go on by itself."""


class Conversations(Protocol):
    """Sessions and their messages. A session that the owner does not have is a `ToolError` (`file_not_found`)."""

    async def create(
        self, *, owner: str, agent: str = "General", name: str = "", session: str | None = None
    ) -> Session:
        """A new, empty session; with an id in `session` the owner's one, made only if need be. `NotYours`."""
        ...

    async def find(self, session: str, *, owner: str) -> Session | None:
        """This session, for who may also begin one under this id: None where there is none. `NotYours`."""
        ...

    async def get(self, session: str, *, owner: str) -> Session:
        """This session, without its messages."""
        ...

    async def page(self, *, owner: str, limit: int = 50, after: str | None = None) -> SessionPage:
        """The owner's sessions, the last active first; `after` is the `next` of the page before."""
        ...

    async def load(self, session: str, *, owner: str, after: int = 0) -> list[Message]:
        """The messages, or those after this sequence number."""
        ...

    async def append(
        self, session: str, *messages: Message, owner: str, after: int | None = None, cost: float | None = None
    ) -> None:
        """Add messages, all or none. `UnpairedCalls` when one must not stand there.

        `after` is the length that the caller knows: a session that has gone on meanwhile is a `ToolError` (`busy`).
        Every assistant message counts as a reply in the usage, with its own `usage` and this cost in USD.
        """
        ...

    def keep(
        self, session: str, message: Message, *, owner: str, after: int, cost: float | None = None
    ) -> Future[None] | None:
        """`append` for one message that is on its way even if nobody waits; None when `together` acknowledges it."""
        ...

    async def rewind(self, session: str, length: int, *, owner: str) -> None:
        """Drop the messages after this sequence number. Their calls stay in the journal, and what they cost counts."""
        ...

    async def begin_turn(self, session: str, *, owner: str) -> Session:
        """The session, running from now on. `ToolError` (`busy`) when it runs already."""
        ...

    async def end_turn(self, session: str, *, owner: str, waiting: bool = False) -> None:
        """The session does not run any more; `waiting`: its open calls get their results later."""
        ...

    async def rename(self, session: str, name: str, *, owner: str) -> None:
        """Give it another name."""
        ...

    async def give_name(self, session: str, name: str, *, owner: str) -> bool:
        """Give it its first name; False when it has one."""
        ...

    async def choose_agent(self, session: str, agent: str, *, owner: str) -> None:
        """Let another agent go on with it."""
        ...

    async def delete(self, session: str, *, owner: str) -> None:
        """Remove it with all that belongs to it (SPEC S6). `ToolError` (`busy`) while it runs."""
        ...


class Journal(Ledger, Protocol):
    """A ledger that can also be read by the owners of the calls (SPEC E8)."""

    async def get(self, call_id: str, *, owner: str) -> CallRecord:
        """The owner's call; `ToolError` (`file_not_found`) when there is none."""
        ...

    async def page(
        self, *, owner: str, session: str | None = None, limit: int = 50, after: str | None = None
    ) -> tuple[Sequence[CallRecord], str | None]:
        """The owner's calls, the last one first, and where the next page begins."""
        ...

    async def open_calls(self, *, owner: str, session: str | None = None) -> Sequence[CallRecord]:
        """The owner's calls that have no result yet, the first one first."""
        ...

    async def left_open(self) -> Sequence[CallRecord]:
        """The calls that processes which are gone had handed to clients who may come back, the first one first.

        They are for this process from now on, so that no other waits for the same clients.
        """
        ...


class KeptQuestions(Questions, Protocol):
    """Questions that wait for their answer for as long as they like, and survive a restart (SPEC P5)."""

    async def open_for(self, *, owner: str, session: str | None = None) -> Sequence[Question]:
        """What this owner could answer now; `expires_in` is what is left of it."""
        ...

    async def answer(self, question_id: str, answer: Answer, *, owner: str) -> bool:
        """Answer a question of one's own; False when it is not open any more, or is somebody else's."""
        ...


class UsageBook(Protocol):
    """What the replies used."""

    async def sums(self, by: SumBy, *, owner: str, session: str | None = None, since: str = "") -> Sequence[UsageSum]:
        """One sum for each session, model or day (UTC, `2026-01-31`); of one session, or since one day."""
        ...


class AgentBook(Protocol):
    """An owner's agents. An unknown name is a `ToolError` (`file_not_found`), a taken one (`invalid_arguments`)."""

    async def all(self, *, owner: str) -> Sequence[Agent]:
        """The owner's agents by name; the built-in one first."""
        ...

    async def find(self, name: str, *, owner: str) -> Agent | None:
        """The agent of this name; None when there is none."""
        ...

    async def create(self, agent: Agent, *, owner: str) -> None:
        """Keep a new agent."""
        ...

    async def clone(self, name: str, new_name: str, *, owner: str) -> Agent:
        """The same agent once more, under another name."""
        ...

    async def edit(self, name: str, agent: Agent, *, owner: str) -> None:
        """Put this in its place; with another name its sessions follow. The built-in one keeps its name."""
        ...

    async def delete(self, name: str, *, owner: str) -> int:
        """Remove it and move its sessions to the built-in one, which can't be removed; how many were moved."""
        ...


class Store(Protocol):
    """All that lasts."""

    @property
    def ledger(self) -> Journal: ...

    @property
    def conversations(self) -> Conversations: ...

    @property
    def questions(self) -> KeptQuestions: ...

    @property
    def usage(self) -> UsageBook: ...

    @property
    def agents(self) -> AgentBook: ...

    def together(self, within: float | None = None) -> AbstractAsyncContextManager[None]:
        """A block whose results and messages are committed as one when it ends: that end acknowledges them.

        So does the end of a turn inside it. `within`: nothing waits for that longer than so many seconds.
        """
        ...

    async def recover(self) -> Recovery:
        """Close what a process that is gone left half done. For the start, before anything else."""
        ...

    async def expire(self) -> tuple[str, ...]:
        """Give the calls that waited too long their result; their ids. To be called now and then."""
        ...
