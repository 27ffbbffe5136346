"""Every Protocol of what lasts: what the rooms above may ask of a store, whichever database fills it (SPEC A2, K1, S6).

`Store` at the end is all of it. Its nouns are in `core/records.py`. Every row has an owner. Any other owner gets
the same words as for something that never was. Any method raises `StoreError` when the database can't be used.
"""

from asyncio import Future
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Final, Protocol, Self, TypeAlias, TypeVar

from handspan.core.agents import Agent
from handspan.core.artifacts import ArtifactRef, Artifacts
from handspan.core.calls import CallRecord, Note, ToolFacts
from handspan.core.messages import AssistantMessage, Message, UserMessage
from handspan.core.questions import Answer, Question, Questions
from handspan.core.records import (
    CallStatus,
    DeviceRow,
    FoundMemory,
    MemoryFilter,
    MemoryRecord,
    Pin,
    Recovery,
    Rule,
    SessionPage,
    SessionRecord,
    SumBy,
    ThreadEntry,
    Token,
    UsageSum,
)
from handspan.core.results import ToolResult
from handspan.core.values import JsonObject

_T = TypeVar("_T")

NowOrLater: TypeAlias = _T | Awaitable[_T]
"""An answer, or something to await for it. Only `Ledger.start` and `Ledger.finish` answer so, once each in every call.

Measured: where both are always to be awaited, a call of a tool in this process with a ledger in memory takes 8 %
longer (9.8 us instead of 9.1); with a ledger on disk a read-only tool waits for the disk before it begins.
"""

MOST_TOOL_SETS: Final = 200
"""Sets of tools that a browser client may have; those go first that it brought longest ago, and no open call is of."""
MOST_MEMORIES: Final = 10_000
"""Of one owner: all are looked through in a search."""


# Calls.


class Ledger(Protocol):
    """Every call's state: exactly one result for every accepted call, whatever crashes."""

    async def accept(self, record: CallRecord) -> None:
        """Know this call: it waits, for a person perhaps, and no tool was touched. `ToolError` for a used id."""

    def start(self, record: CallRecord) -> NowOrLater[None]:
        """A tool is about to be touched. Accepts the call too if that has not happened. `ToolError` for a used id.

        None at once: it is written, or the caller needs not wait for that, as with a tool that only reads.
        """

    async def suspend(self, record: CallRecord) -> None:
        """The outcome of a call comes later, from elsewhere, until `record.expires_at`.

        Accepts the call too if that has not happened: some tools only hand it out. `ToolError` for a used id.
        """

    def finish(self, record: CallRecord, result: ToolResult) -> NowOrLater[bool]:
        """Keep this as the call's one result. False: it already has one, and nothing was changed."""

    async def find(self, call_id: str) -> CallRecord | None:
        """What is known of this call; while a tool is at work on it here, the very record that was started."""

    async def note(self, call_id: str, text: str) -> bool:
        """Keep this beside a call that has its result; False when there is none, or it has `MOST_NOTES` already."""

    async def notes(self, call_id: str, *, owner: str) -> Sequence[Note]:
        """What came for the owner's call when it had its result already, the first one first."""


class Journal(Ledger, Protocol):
    """A ledger that can also be read by the owners of the calls (SPEC E8)."""

    async def get(self, call_id: str, *, owner: str) -> CallRecord:
        """The owner's call; `ToolError` (`file_not_found`) when there is none."""

    async def page(
        self,
        *,
        owner: str,
        session: str | None = None,
        tool: str | None = None,
        status: CallStatus | None = None,
        since: float | None = None,
        until: float | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> tuple[Sequence[CallRecord], str | None]:
        """The owner's calls that are so, the last one first, and where the next page begins.

        `since`: those that began then or later; `until`: those that began earlier; `after`: where a page ended.
        """

    async def open_calls(self, *, owner: str, session: str | None = None) -> Sequence[CallRecord]:
        """The owner's calls that have no result yet, the first one first."""

    async def take_over_calls(self) -> Sequence[CallRecord]:
        """The calls that processes which are gone had handed to clients that may come back, the first one first.

        They are for this process from now on, so that no other waits for the same clients.
        """


# Conversations.


class Conversations(Protocol):
    """Sessions and their messages. A session that the owner does not have is a `ToolError` (`file_not_found`)."""

    async def create(
        self, *, owner: str, agent: str = "General", name: str = "", session: str | None = None
    ) -> SessionRecord:
        """A new, empty session; with an id in `session` the owner's one, made only if need be. `NotYours`."""

    async def find(self, session: str, *, owner: str) -> SessionRecord | None:
        """This session, for a caller that may also begin one under this id; None where there is none. `NotYours`."""

    async def get(self, session: str, *, owner: str) -> SessionRecord:
        """This session, without its messages."""

    async def page(self, *, owner: str, limit: int = 50, after: str | None = None) -> SessionPage:
        """The owner's sessions, the last active first; `after` is the `next` of the page before."""

    async def load(self, session: str, *, owner: str, after: int = 0) -> list[Message]:
        """The messages, or those after this sequence number."""

    async def append(
        self, session: str, *messages: Message, owner: str, after: int | None = None, cost: float | None = None
    ) -> None:
        """Add messages, all or none. `UnpairedCalls` when one must not stand there.

        `after` is the length that the caller knows: a session that has gone on meanwhile is a `ToolError` (`busy`).
        Every assistant message counts as a reply in the usage, with its own `usage` and this cost in USD.
        """

    def keep(
        self, session: str, message: Message, *, owner: str, after: int, cost: float | None = None
    ) -> Future[None] | None:
        """`append` for one message. It is on its way even if the caller does not wait, or is cancelled.

        None inside a `unit_of_work`: its end acknowledges the message.
        """

    async def rewind(self, session: str, length: int, *, owner: str) -> None:
        """Drop the messages after this sequence number. Their calls stay in the journal, and what they cost counts."""

    async def begin_turn(self, session: str, *, owner: str) -> SessionRecord:
        """The session, running from now on. `ToolError` (`busy`) when it runs already.

        Inside a `unit_of_work` that may come out only when the block is committed: nothing of it is kept then.
        """

    async def end_turn(self, session: str, *, owner: str, waiting: bool = False) -> None:
        """The session does not run any more; `waiting`: its open calls get their results later."""

    async def rename(self, session: str, name: str, *, owner: str) -> None:
        """Give it another name."""

    async def give_name(self, session: str, name: str, *, owner: str) -> bool:
        """Give it its first name; False when it has one. Inside a `unit_of_work` that is not known yet."""

    async def choose_agent(self, session: str, agent: str, *, owner: str) -> None:
        """Let another agent go on with it."""

    async def delete(self, session: str, *, owner: str) -> None:
        """Remove it with all that belongs to it (SPEC S6). `ToolError` (`busy`) while it runs."""


class ThreadBook(Protocol):
    """Sessions as clients over HTTP know them (graph.md 8). An unknown one is a `ToolError` (`file_not_found`)."""

    async def page(self, *, owner: str, search: str = "", offset: int = 0, limit: int = 100) -> Sequence[SessionRecord]:
        """The owner's threads with this in their name or id, the last active first."""

    async def entries(
        self, thread: str, *, owner: str, offset: int = 0, limit: int | None = None
    ) -> Sequence[ThreadEntry]:
        """What was said in it, the first one first; or so much of it."""

    async def find(self, thread: str, number: int, *, owner: str) -> Sequence[ThreadEntry]:
        """The entries of one message; none when there is no such message."""

    async def numbers(self, thread: str, *, owner: str) -> Sequence[int]:
        """The numbers of its messages, in their order."""

    async def tools_called(self, thread: str, *, owner: str) -> Sequence[ToolFacts]:
        """The tools that were called in it, as they were then; the one that was called last comes last."""

    async def add(self, thread: str, messages: Sequence[UserMessage | AssistantMessage], *, owner: str) -> None:
        """Put messages at the end, all or none; they cost nothing, since no model was asked.

        `ToolError`: `busy` while the thread is at work or waits for calls, `invalid_arguments` where an assistant would
        speak first, or twice in a row.
        """

    async def remove(self, thread: str, number: int, *, owner: str) -> int:
        """Remove a message with those that can't stand without it; how many they were. `ToolError` (`busy`).

        0: it is gone already.
        """

    async def clear(self, thread: str, *, owner: str) -> int:
        """Remove all messages; how many they were. `ToolError` (`busy`) while it is at work, or waits for calls."""


class UsageBook(Protocol):
    """What the replies used."""

    async def sums(self, by: SumBy, *, owner: str, session: str | None = None, since: str = "") -> Sequence[UsageSum]:
        """One sum for each session, model or day (UTC, `2026-01-31`); of one session, or since one day."""


class AgentBook(Protocol):
    """An owner's agents. An unknown name is a `ToolError` (`file_not_found`), a taken one (`invalid_arguments`)."""

    async def all(self, *, owner: str) -> Sequence[Agent]:
        """The owner's agents by name; the built-in one first."""

    async def find(self, name: str, *, owner: str) -> Agent | None:
        """The agent of this name; None when there is none."""

    async def create(self, agent: Agent, *, owner: str) -> None:
        """Keep a new agent."""

    async def clone(self, name: str, new_name: str, *, owner: str) -> Agent:
        """The same agent once more, under another name."""

    async def edit(self, name: str, agent: Agent, *, owner: str) -> None:
        """Put this in its place; with another name its sessions follow. The built-in one keeps its name."""

    async def delete(self, name: str, *, owner: str) -> int:
        """Remove it and move its sessions to the built-in one, which can't be removed; how many were moved."""


# What people decided.


class KeptQuestions(Questions, Protocol):
    """Questions that wait for their answer for as long as they like, and survive a restart (SPEC P5)."""

    async def open_for(self, *, owner: str, session: str | None = None) -> Sequence[Question]:
        """What this owner could answer now; `expires_in` is what is left of it."""

    async def answer(self, question_id: str, answer: Answer, *, owner: str) -> bool:
        """Answer a question of one's own; False when it is not open any more, or is another owner's."""


class RuleBook(Protocol):
    """What owners answered with "always" or "never" (SPEC P2)."""

    async def all(self, *, owner: str) -> Sequence[Rule]:
        """The owner's rules, by tool and subject."""

    async def remember(self, rule: Rule) -> None:
        """Keep this, in place of one for the same owner, kind, tool, definition and subject."""

    async def forget(self, tool: str, *, owner: str) -> int:
        """Ask the owner about this tool again; how many rules there were."""


class Pins(Protocol):
    """The definitions of tools from outside, as they were first seen or last approved (SPEC T5)."""

    async def all(self, *, owner: str, origin: str | None = None) -> Sequence[Pin]:
        """The owner's pins, or those of one origin; by origin and name."""

    async def get(self, name: str, *, owner: str, origin: str) -> Pin | None:
        """The pin of this tool; None when it was never seen."""

    async def set(self, *pins: Pin) -> None:
        """Keep these, in place of those of the same owner, origin and name; all or none."""


class Switches(Protocol):
    """Which tools a person has switched off, beyond the settings (SPEC R9). `ConfigError` when that can't be read."""

    async def off(self) -> Sequence[str]:
        """The patterns that are switched off."""

    async def switch_off(self, pattern: str) -> bool:
        """Remember that this is off; False when it was."""

    async def switch_on(self, pattern: str) -> bool:
        """Forget that this is off; False when it was not."""


class SkillSwitches(Protocol):
    """Which skills of the workspace a person has enabled (SPEC A3). `ConfigError` when that can't be read."""

    async def enabled(self) -> Mapping[str, str]:
        """By name the fingerprints of what a person agreed to."""

    async def enable(self, name: str, fingerprint: str) -> bool:
        """Remember that this is enabled as it is; False when it was."""

    async def disable(self, name: str) -> bool:
        """Forget that this was enabled; False when it was not."""


# Clients.


class TokenBook(Protocol):
    """Tokens by their hashes (SPEC S5). A revoked one stays to be seen, and opens nothing any more."""

    async def add(self, token_hash: str, *, owner: str, scopes: tuple[str, ...], label: str = "") -> Token:
        """Let the token with this hash in. `ToolError` when it is known already, even if revoked."""

    async def find(self, token_hash: str) -> Token | None:
        """The token, unless it is unknown or revoked. That it was seen is noted soon, to the minute."""

    async def all(self, *, owner: str) -> Sequence[Token]:
        """The owner's tokens, revoked ones too, the first one first."""

    async def revoke(self, token_hash: str, *, owner: str) -> bool:
        """Let it in no more; False when the owner has no such token, or it was revoked before."""


class DeviceBook(Protocol):
    """Keeps the devices of all owners."""

    async def all(self) -> Sequence[DeviceRow]:
        """Every device of every owner."""

    async def save(self, rows: Sequence[DeviceRow]) -> None:
        """Keep these, in place of those of the same owner and id; all or none."""

    async def delete(self, devices: Sequence[tuple[str, str]]) -> None:
        """Forget these, each given as owner and id; all or none."""


class ToolSetBook(Protocol):
    """What each browser client set up, and the sets of tools that its requests brought (graph.md 3.2, 5.5)."""

    async def find(self, client: str, set_id: str = "") -> bytes | None:
        """This set of the client, or what it has set up; None when there is none."""

    async def save(self, client: str, set_id: str, tools: bytes) -> None:
        """Keep this set, or put it in place of what was set up; at most `MOST_TOOL_SETS` stay."""


class MemoryBook(Protocol):
    """Short texts that clients keep for their owner. An unknown one is a `ToolError` (`file_not_found`)."""

    async def add(
        self, content: str, *, owner: str, kind: str, category: str, metadata: JsonObject, thread: str = ""
    ) -> MemoryRecord:
        """Keep it. `ToolError` (`invalid_arguments`) when the owner has `MOST_MEMORIES` already."""

    async def get(self, memory_id: str, *, owner: str) -> MemoryRecord:
        """This one."""

    async def change(self, memory_id: str, content: str, metadata: JsonObject | None, *, owner: str) -> None:
        """Let it say this from now on; without metadata that stays as it is."""

    async def delete(self, memory_id: str, *, owner: str) -> None:
        """Remove it."""

    async def all(self, *, owner: str, limit: int) -> Sequence[MemoryRecord]:
        """The newest ones, the newest first."""

    async def search(
        self, query: str, wanted: MemoryFilter, *, owner: str, limit: int, least: float = 0.0
    ) -> Sequence[FoundMemory]:
        """Those that have some of the words, the best first; of equals the newest first. `least`: the lowest score."""

    async def forget(self, wanted: MemoryFilter, *, owner: str) -> int:
        """Remove those that are so; how many they were."""


class Idempotency(Protocol):
    """What lasts of requests that come with a key of their client's: the ids of their calls, which the ledger knows."""

    async def call_id(self, owner: str, key: str) -> str:
        """The id of the call that this owner asks for under this key: always the same, and not to be guessed."""


class KeptArtifacts(Artifacts, Protocol):
    """The artifacts that tools see, with what doors need beside: files in pieces, and the end of a session."""

    async def receive(
        self,
        pieces: AsyncIterator[bytes],
        *,
        owner: str,
        session: str = "",
        media_type: str = "text/plain",
        name: str = "",
    ) -> ArtifactRef:
        """Keep what comes in pieces, never all of it in memory; `ToolError` when there is no room for it.

        It lasts when this returns. What breaks off, whatever is raised meanwhile, leaves nothing behind.
        """

    async def forget_session(self, session: str, *, owner: str) -> int:
        """Remove what this session of this owner left (SPEC S6); how many there were. `StoreError` when one stays."""


# All of it.


class Leases(Protocol):
    """Which processes are alive. Each holds one lease; what the holder of a lost one left open others may close."""

    @property
    def own(self) -> str:
        """The name of this process's lease, in every row that it works on. No other ever has it."""

    async def take(self) -> None:
        """Be seen as alive. `StoreError` when that can't be."""

    async def renew(self) -> None:
        """Go on being seen as alive, where a lease runs out by itself. `StoreError` when it is lost."""

    async def release(self) -> None:
        """Be gone. What this process left open may now be closed by others."""

    async def is_alive(self, holder: str) -> bool:
        """Whether the process that took this lease is still there. Once it is not, it never is again."""


class Store(Protocol):
    """All that lasts. `async with` opens and closes it; then `recover`, before anything else."""

    @property
    def ledger(self) -> Journal: ...
    @property
    def conversations(self) -> Conversations: ...
    @property
    def threads(self) -> ThreadBook: ...
    @property
    def usage(self) -> UsageBook: ...
    @property
    def agents(self) -> AgentBook: ...
    @property
    def questions(self) -> KeptQuestions: ...
    @property
    def rules(self) -> RuleBook: ...
    @property
    def pins(self) -> Pins: ...
    @property
    def switches(self) -> Switches: ...
    @property
    def skill_switches(self) -> SkillSwitches: ...
    @property
    def tokens(self) -> TokenBook: ...
    @property
    def devices(self) -> DeviceBook: ...
    @property
    def browser_tools(self) -> ToolSetBook: ...
    @property
    def memories(self) -> MemoryBook: ...
    @property
    def idempotency(self) -> Idempotency: ...
    @property
    def artifacts(self) -> KeptArtifacts: ...
    @property
    def leases(self) -> Leases: ...

    async def open(self) -> None:
        """Make or find the database. `StoreError` when it can't be used."""

    async def close(self) -> None:
        """Write everything that was put, then let go."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def unit_of_work(self, within: float | None = None) -> AbstractAsyncContextManager[None]:
        """A block whose results and messages are committed as one when it ends: that end acknowledges them.

        So does the end of a turn inside it. They are written even when the block fails or is cancelled: what happened
        has happened. `within`: nothing waits for that longer than so many seconds.
        """

    async def recover(self) -> Recovery:
        """Close what a process that is gone left half done; other processes that live are left alone."""

    async def expire(self) -> tuple[str, ...]:
        """Give the calls that waited too long their result; their ids. To be called now and then."""

    async def prune(self) -> int:
        """Remove the calls that ended too long ago; how many there were."""
