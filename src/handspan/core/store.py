"""Every Protocol of what lasts: what other rooms may ask of a store, whichever database it uses (SPEC A2, K1, S6).

`Store` at the end has all of them. Their data is in `core/records.py`. Every row has an owner. For any other owner the
row does not exist, and errors say the same as for something that never existed. Every method raises `StoreError` when
the database can't be used. A method that returns a count or a bool says what it has changed.
"""

from asyncio import Future
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Final, Protocol, Self, TypeAlias, TypeVar

from handspan.core.agents import Agent
from handspan.core.artifacts import Artifacts, StoredArtifact
from handspan.core.budgets import (
    Addition,
    BudgetLimit,
    CostEstimate,
    LimitState,
    NoRoom,
    Payer,
    Reservation,
    Settlement,
)
from handspan.core.calls import CallRecord, Note, ToolFacts
from handspan.core.channels import ChannelSender, InboxMessage, InboxState, Receipt
from handspan.core.events import TurnEnd
from handspan.core.messages import AssistantMessage, CallResult, Message, UserMessage
from handspan.core.nodes import NodeBook
from handspan.core.questions import Answer, Question, Questions
from handspan.core.records import (
    ALL_CALLS,
    ALL_SESSIONS,
    CallFilter,
    ContextMarks,
    DatedMessage,
    DeviceRow,
    FoundMemory,
    FoundTexts,
    MemoryFilter,
    MemoryRecord,
    Pin,
    PushSubscription,
    Recovery,
    ResponseRow,
    Rule,
    SessionEdit,
    SessionFilter,
    SessionKind,
    SessionPage,
    SessionRecord,
    SumBy,
    ThreadEntry,
    Token,
    ToolTiming,
    UsageSum,
    Version,
)
from handspan.core.results import ToolResult
from handspan.core.schedules import ScheduleBook
from handspan.core.values import JsonObject

_T = TypeVar("_T")

NowOrLater: TypeAlias = _T | Awaitable[_T]
"""An answer, or an awaitable of it. Only `Ledger.start` and `Ledger.finish` answer so, once each in every call.

Measured: if both had to be awaited always, a call of a tool in this process with a ledger in memory would take 8 %
longer (9.8 us instead of 9.1); with a ledger on disk a read-only tool would wait for the disk before it begins.
"""

MAX_TOOL_SETS: Final = 200
"""Tool sets of one page client. The oldest ones without an open call are removed first."""
MAX_MEMORIES: Final = 10_000
"""Memories of one owner. A search reads all of them."""


# Calls.


class Ledger(Protocol):
    """The state of every call: each accepted call gets exactly one result, even after a crash."""

    def now(self) -> float:
        """Return the time of day by which calls begin and expire: the same for all processes that share the ledger."""

    async def accept(self, record: CallRecord) -> None:
        """Enter this call: it waits, perhaps for a person, and its tool is not touched yet.

        Raises `ToolError` for a used id.
        """

    def start(self, record: CallRecord) -> NowOrLater[None]:
        """Record that the tool is about to be touched. Enter a call that was not accepted.

        Raises `ToolError` for a used id. Returns None if the record is written, or if the caller need not wait for the
        write, as for a read-only tool.
        """

    async def suspend(self, record: CallRecord) -> None:
        """Record that the outcome comes later, from elsewhere, until `record.expires_at`.

        Enter a call that was not accepted: some tools only hand their calls to a client. Raises `ToolError` for a used
        id.
        """

    def finish(self, record: CallRecord, result: ToolResult) -> NowOrLater[bool]:
        """Store the call's one result. The value, now or later, is False if the call has a result: nothing changes.

        Raises `StoreError` when the result can't be stored now; see `unwritten`.
        """

    def unwritten(self, call_id: str) -> Future[bool] | None:
        """Return the later value of `finish`, for a result that waits in memory until it can be stored; else None."""

    async def find(self, call_id: str) -> CallRecord | None:
        """Return the record of this call, or None; while the call runs here, the engine's own record."""

    async def note(self, call_id: str, text: str) -> bool:
        """Store a note beside a finished call. Return False if there is no such call, or it has `MAX_NOTES`."""

    async def notes(self, call_id: str, *, owner: str) -> Sequence[Note]:
        """Return what came for the owner's call after its result, the oldest first."""


class Journal(Ledger, Protocol):
    """A ledger that the owners of the calls can read (SPEC E8)."""

    async def get(self, call_id: str, *, owner: str) -> CallRecord:
        """Return the owner's call. Raises `ToolError` (`file_not_found`)."""

    async def page(
        self, wanted: CallFilter = ALL_CALLS, *, owner: str, limit: int = 50, after: str | None = None
    ) -> tuple[Sequence[CallRecord], str | None]:
        """Return the owner's calls that fit, the newest first, and the cursor of the next page: `after`."""

    async def timings(self, wanted: CallFilter = ALL_CALLS, *, owner: str) -> Sequence[ToolTiming]:
        """Return how long the owner's finished calls took, one row for each tool, the most called one first."""

    async def open_calls(self, *, owner: str, session: str | None = None) -> Sequence[CallRecord]:
        """Return the owner's calls without a result, the oldest first."""

    async def take_over_calls(self) -> Sequence[CallRecord]:
        """Put the calls that wait for clients of lost processes under the lease of this process.

        So no other process waits for the same clients. Returns these calls, the oldest first.
        """


# Conversations.


class Conversations(Protocol):
    """Sessions and their messages. Raises `ToolError` (`file_not_found`) for a session that the owner does not have."""

    async def create(
        self,
        *,
        owner: str,
        agent: str = "General",
        name: str = "",
        session: str | None = None,
        kind: SessionKind = "chat",
    ) -> SessionRecord:
        """Return a new, empty session.

        `session` is its id. If the owner has a session of this id, that one is returned. Raises `NotYours` when another
        owner has one, and `SessionDeleted`.
        """

    async def find(self, session: str, *, owner: str) -> SessionRecord | None:
        """Return this session, or None if no owner has it.

        Raises `NotYours` when another owner has it, and `SessionDeleted` while it can be restored.
        """

    async def get(self, session: str, *, owner: str) -> SessionRecord:
        """Return this session, without its messages."""

    async def page(
        self, wanted: SessionFilter = ALL_SESSIONS, *, owner: str, limit: int = 50, after: str | None = None
    ) -> SessionPage:
        """Return the owner's sessions that fit, the last active first. `after` is the `next` of the previous page."""

    async def load(self, session: str, *, owner: str, after: int = 0) -> list[Message]:
        """Return the messages, or those after this sequence number."""

    async def load_dated(self, session: str, *, owner: str, after: int = 0) -> Sequence[DatedMessage]:
        """Return the same messages with their times."""

    async def append(
        self, session: str, *messages: Message, owner: str, after: int | None = None, cost: float | None = None
    ) -> None:
        """Add messages, all or none. Raises `UnpairedCalls` or `RepliesInARow` when one can't follow the one before it.

        `after` is the length that the caller knows: raises `ToolError` (`busy`) if the session has another length.
        Every assistant message counts as a reply in the usage, with its own `usage` and this cost in USD.
        """

    def keep(
        self,
        session: str,
        message: Message,
        *,
        owner: str,
        after: int,
        cost: float | None = None,
        settles: Sequence[Settlement] = (),
    ) -> Future[None] | None:
        """Begin to `append` one message. The write happens even if the caller does not wait, or is cancelled.

        The same write settles what requests did cost (`BudgetBook`).

        Returns None inside a `unit_of_work`: the end of the unit acknowledges the message.
        """

    async def rewind(self, session: str, length: int, *, owner: str) -> None:
        """Leave the messages after this sequence number as a version; the oldest of too many versions are deleted.

        Their calls stay in the journal, their cost in the sums.
        """

    async def versions(self, session: str, *, owner: str) -> Sequence[Version]:
        """Return all versions in the order in which they began: those that were left, and the current ones at forks."""

    async def left_messages(
        self, session: str, *, owner: str, branch: int | None = None
    ) -> Mapping[int, Sequence[DatedMessage]]:
        """Return the messages of the versions that were left, by the branch of each; or of this one alone."""

    async def choose_version(self, session: str, branch: int, *, owner: str) -> None:
        """Make this version the current one; what stood in its place becomes a version (SPEC L8).

        Raises `ToolError`: `file_not_found` for an unknown version, `busy` while calls wait for results.
        """

    async def begin_turn(self, session: str, *, owner: str) -> SessionRecord:
        """Mark the session as running and return it. Raises `ToolError` (`busy`) when it runs already.

        Inside a `unit_of_work` the error may come only from the commit; then nothing of the unit is stored.
        """

    async def end_turn(self, session: str, *, owner: str, waiting: bool = False, end: TurnEnd | None = None) -> None:
        """Mark the session as idle, or as `waiting` for results of its open calls.

        `end`: how the turn ended, stored with the last message; None after a whole answer.
        """

    async def ends(self, session: str, *, owner: str, after: int = 0) -> Mapping[int, TurnEnd]:
        """Return how turns ended, by the sequence numbers of their last messages, from `after` on (SPEC L7).

        The end of a turn that went on later does not count any more, nor one after which a turn runs again.
        """

    async def hand_over(self, session: str, *, owner: str) -> None:
        """Give up the turn of this process, or a turn that waits, without ending it: another process goes on with it.

        Until another process takes the turn, the session counts as running. Does nothing while another process runs it.
        """

    async def take_over_turn(self, session: str, *, owner: str) -> SessionRecord | None:
        """Make this process run the turn that was handed over. Return the session; None if no turn was handed over."""

    async def handed_over_turns(self) -> Sequence[tuple[str, str]]:
        """Return session and owner of the turns that were handed over, and that no process runs yet."""

    async def rename(self, session: str, name: str, *, owner: str) -> None:
        """Change the name."""

    async def edit(self, session: str, edit: SessionEdit, *, owner: str) -> None:
        """Change what a person set of the session. Its last activity stays."""

    async def give_name(self, session: str, name: str, *, owner: str) -> bool:
        """Set the first name. Return False if the session has a name; inside a `unit_of_work` always True."""

    async def choose_agent(self, session: str, agent: str, *, owner: str) -> None:
        """Continue this session with another agent, and with that agent's own skills."""

    async def choose_skills(self, session: str, skills: Sequence[str], *, owner: str) -> None:
        """Store which skills are on in this session, in place of its agent's own."""

    async def delete(
        self, session: str, *, owner: str, undo: bool = False, keeps_records: bool = False
    ) -> float | None:
        """Remove the session with everything in it. Only people do that: sessions have no retention (SPEC S6).

        `undo`: hide it from everybody at once, and remove it some seconds later: returns until when `restore` brings it
        back; None when it is removed already. `keeps_records`: what its replies used still counts, and its ended calls
        stay in the journal, as for a session that lasts for one request (SPEC E8, F3). Raises `ToolError` (`busy`)
        while it runs.
        """

    async def restore(self, session: str, *, owner: str) -> SessionRecord:
        """Bring back a session that was deleted with `undo`, and return it. Raises when it is removed already."""

    async def deleted(self, *, owner: str) -> Sequence[str]:
        """Return the ids of the owner's deleted sessions that `restore` still brings back."""

    async def remove_deleted(self) -> int:
        """Remove the deleted sessions of all owners that nobody can restore any more, and return their number."""

    async def find_idle(self, prefix: str, before: float) -> Sequence[tuple[str, str]]:
        """Return session and owner of idle sessions whose id begins so, and that were last active before this time."""


class ContextBook(Protocol):
    """What models see of conversations that have become long, and how much each model can read (SPEC L1)."""

    async def marks(self, session: str, *, owner: str) -> ContextMarks:
        """Return the marks of the conversation as it is now. A version from before a mark does not know it."""

    async def set_marks(self, session: str, marks: ContextMarks, *, owner: str) -> None:
        """Store these marks. Raises `TakenOver` unless the session's turn runs in this process."""

    async def summaries(self, session: str, *, owner: str) -> Sequence[ContextMarks]:
        """Return the marks with a summary that the conversation has had, the oldest first."""

    async def count_summary(self, session: str, reply: AssistantMessage, cost: float | None, *, owner: str) -> None:
        """Count what the model's reply to a request for a summary used, and its cost in USD."""

    async def find_result(self, session: str, call_id: str, *, owner: str) -> CallResult | None:
        """Return the stored result of this call of the conversation, whole; None if it has none."""

    async def last_count(self, session: str, *, owner: str) -> int | None:
        """Return how many tokens the last reply of the conversation read and wrote, if its API has said so."""

    async def windows(self) -> Mapping[str, int]:
        """Return how many tokens models can read, by their names, as learned from refusals."""

    async def learn_window(self, model: str, tokens: int) -> None:
        """Store how many tokens this model can read."""


class TextSearch(Protocol):
    """The search of what was said in sessions, by an index of words (`core/words.py`)."""

    async def find(
        self,
        query: str,
        wanted: SessionFilter = ALL_SESSIONS,
        *,
        owner: str,
        limit: int = 50,
        left: bool = False,
        results: bool = False,
    ) -> FoundTexts:
        """Return the owner's sessions that have all words of the query in one message or in their name.

        `left`: also in versions that were left. `results`: also in results of calls. What was stored before is found.
        """

    async def index(self) -> None:
        """Bring into the index what is not in it yet, such as all messages of an older version's database."""


class ThreadBook(Protocol):
    """Sessions as threads of the graph API (graph.md 8). Raises `ToolError` (`file_not_found`) for an unknown one."""

    async def page(self, *, owner: str, search: str = "", offset: int = 0, limit: int = 100) -> Sequence[SessionRecord]:
        """Return the owner's threads with this text in their name or id, the last active first."""

    async def entries(
        self, thread: str, *, owner: str, offset: int = 0, limit: int | None = None
    ) -> Sequence[ThreadEntry]:
        """Return the entries of the thread, or a part of them, the oldest first."""

    async def find(self, thread: str, number: int, *, owner: str) -> Sequence[ThreadEntry]:
        """Return the entries of one message; none if there is no such message."""

    async def numbers(self, thread: str, *, owner: str) -> Sequence[int]:
        """Return the numbers of the messages, in their order."""

    async def tools_called(self, thread: str, *, owner: str) -> Sequence[ToolFacts]:
        """Return the tools that were called in the thread, as they were then; the last called one is the last."""

    async def add(self, thread: str, messages: Sequence[UserMessage | AssistantMessage], *, owner: str) -> None:
        """Append messages, all or none. They cost nothing, because no model was asked.

        Raises `ToolError`: `busy` while a turn runs or calls wait for results, `invalid_arguments` for an assistant's
        message without a user's before it.
        """

    async def remove(self, thread: str, number: int, *, owner: str) -> int:
        """Remove this message and those that depend on it. Return their number; 0 if it does not exist any more.

        Raises `ToolError` (`busy`) while a turn runs or calls wait for results.
        """

    async def clear(self, thread: str, *, owner: str) -> int:
        """Remove all messages and return their number. Raises `ToolError` (`busy`) as `remove` does."""


class UsageBook(Protocol):
    """What replies used."""

    async def sums(self, by: SumBy, *, owner: str, session: str | None = None, since: str = "") -> Sequence[UsageSum]:
        """Return one sum for each session, model, agent or day.

        `session`: only of this session. `since`: only since this day (UTC, `2026-01-31`).
        """


class BudgetBook(Protocol):
    """How much of each budget is spent, and what requests to models may still cost (SPEC L5)."""

    async def reserve(
        self,
        reservation: str,
        payer: Payer,
        estimate: CostEstimate,
        limits: Sequence[BudgetLimit],
        *,
        day: str,
        settles: Sequence[Settlement] = (),
    ) -> Reservation | NoRoom:
        """Reserve what this request may cost, under this id, or return why it does not fit. First settle `settles`.

        Recovery releases the reservations of a process that is gone.
        """

    async def settle(self, settlements: Sequence[Settlement]) -> None:
        """Count what requests did cost. One whose reservation is gone counts nothing."""

    async def add(self, addition: Addition) -> bool:
        """Add to a budget. Return False if that was done before."""

    async def states(self, limits: Sequence[BudgetLimit], *, day: str) -> Sequence[LimitState]:
        """Return how far each of these limits is used on this day."""


class AgentBook(Protocol):
    """An owner's agents. Raises `ToolError`: `file_not_found` for unknown names, `invalid_arguments` for taken ones."""

    async def all(self, *, owner: str) -> Sequence[Agent]:
        """Return the owner's agents by name; the built-in one comes first."""

    async def find(self, name: str, *, owner: str) -> Agent | None:
        """Return the agent of this name, or None."""

    async def create(self, agent: Agent, *, owner: str) -> None:
        """Store a new agent."""

    async def clone(self, name: str, new_name: str, *, owner: str) -> Agent:
        """Store a copy under another name and return it."""

    async def edit(self, name: str, change: Callable[[Agent], Agent], *, owner: str) -> Agent:
        """Replace this agent by what `change` makes of it, and return the new one. Edits run one after another.

        If the name changes, the agent's sessions follow. The built-in agent can't be renamed. `change` may run more
        than once.
        """

    async def delete(self, name: str, *, owner: str) -> int:
        """Remove this agent and give its sessions to the built-in one. Return their number."""


# What people decided.


class QuestionBook(Questions, Protocol):
    """Questions that survive a restart (SPEC P5)."""

    async def open_for(self, *, owner: str, session: str | None = None) -> Sequence[Question]:
        """Return the questions that this owner can answer now. `expires_in` is the time that is left."""

    async def answer(self, question_id: str, answer: Answer, *, owner: str) -> bool:
        """Answer the owner's question. Return False if it is not open, or another owner's."""

    async def take_back(self, question_id: str, *, owner: str) -> bool:
        """End the owner's question without an answer. Return False if it is not open, or another owner's."""


class RuleBook(Protocol):
    """What owners answered with "always" or "never" (SPEC P2)."""

    async def all(self, *, owner: str) -> Sequence[Rule]:
        """Return the owner's rules, sorted by tool and subject."""

    async def remember(self, rule: Rule) -> None:
        """Store this rule, in place of one for the same owner, kind, tool, definition and subject."""

    async def forget(self, tool: str, *, owner: str) -> int:
        """Remove the owner's rules for this tool and return their number."""


class Pins(Protocol):
    """The definitions of tools from outside, as they were first seen or last approved (SPEC T5)."""

    async def all(self, *, owner: str, origin: str | None = None) -> Sequence[Pin]:
        """Return the owner's pins, or those of one origin; sorted by origin and name."""

    async def get(self, name: str, *, owner: str, origin: str) -> Pin | None:
        """Return the pin of this tool, or None."""

    async def set(self, *pins: Pin) -> None:
        """Store these pins, in place of those of the same owner, origin and name; all or none."""


class Switches(Protocol):
    """Which tools a person has switched off, beside the settings (SPEC R9). Raises `ConfigError` for a damaged file."""

    async def off(self) -> Sequence[str]:
        """Return the patterns that are switched off."""

    async def switch_off(self, pattern: str) -> bool:
        """Switch this pattern off. Return False if it was off."""

    async def switch_on(self, pattern: str) -> bool:
        """Switch this pattern on. Return False if it was on."""


class SkillSwitches(Protocol):
    """Which skills of the workspace a person has enabled (SPEC A3). Raises `ConfigError` for a damaged file."""

    async def enabled_skills(self) -> Mapping[str, str]:
        """Return the fingerprint of each enabled skill, by name."""

    async def enable(self, name: str, fingerprint: str) -> bool:
        """Enable this skill as it is now. Return False if it was already enabled with this fingerprint."""

    async def disable(self, name: str) -> bool:
        """Disable this skill. Return False if it was not enabled."""


# Clients.


class TokenBook(Protocol):
    """Tokens by their hashes (SPEC S5). A revoked token stays in the list, and gives no access."""

    async def add(self, token_hash: str, *, owner: str, scopes: tuple[str, ...], label: str = "") -> Token:
        """Store a token with this hash. Raises `ToolError` when the hash is known, even if it is revoked."""

    async def find(self, token_hash: str) -> Token | None:
        """Return the token, or None if it is unknown or revoked. Its `last_seen` is updated once a minute."""

    async def all(self, *, owner: str) -> Sequence[Token]:
        """Return the owner's tokens, the revoked ones too, the oldest first."""

    async def revoke(self, token_hash: str, *, owner: str) -> bool:
        """Revoke a token. Return False if the owner has no such token, or it was revoked before."""


class DeviceBook(Protocol):
    """The devices of all owners."""

    async def all(self, *, owner: str | None = None) -> Sequence[DeviceRow]:
        """Return every device of every owner, or of one."""

    async def save(self, rows: Sequence[DeviceRow]) -> None:
        """Store these devices, in place of those of the same owner and id; all or none."""

    async def delete(self, devices: Sequence[tuple[str, str]]) -> None:
        """Remove these devices, each given as owner and id; all or none."""


class ResponseBook(Protocol):
    """Answers by their ids (SPEC F2). They go with their session."""

    async def find(self, response_id: str, *, owner: str, client: str) -> ResponseRow | None:
        """Return this answer of the client, or None."""

    async def save(self, row: ResponseRow) -> None:
        """Store an answer, in place of an earlier state of it."""

    async def delete(self, response_id: str, *, owner: str, client: str) -> bool:
        """Forget the id. Return False if the client has no such answer."""


class ToolSetBook(Protocol):
    """The tools that each page client set up, and the sets that its requests brought (graph.md 3.2, 5.5)."""

    async def find(self, client: str, set_id: str = "") -> bytes | None:
        """Return this set of the client; without an id, the tools that the client has set up. None if there is none."""

    async def save(self, client: str, set_id: str, tools: bytes) -> None:
        """Store this set; with an empty id, replace the tools that the client has set up.

        At most `MAX_TOOL_SETS` sets stay, beside those in use.
        """


class MemoryBook(Protocol):
    """Short texts that clients store for their owner. Raises `ToolError` (`file_not_found`) for an unknown memory."""

    async def add(
        self, content: str, *, owner: str, kind: str, category: str, metadata: JsonObject, thread: str = ""
    ) -> MemoryRecord:
        """Store a memory. Raises `ToolError` (`invalid_arguments`) when the owner has `MAX_MEMORIES`."""

    async def get(self, memory_id: str, *, owner: str) -> MemoryRecord:
        """Return this memory."""

    async def change(self, memory_id: str, content: str, metadata: JsonObject | None, *, owner: str) -> None:
        """Replace the content, and the metadata unless it is None."""

    async def delete(self, memory_id: str, *, owner: str) -> None:
        """Remove this memory."""

    async def all(self, *, owner: str, limit: int) -> Sequence[MemoryRecord]:
        """Return the newest memories, the newest first."""

    async def search(
        self, query: str, wanted: MemoryFilter, *, owner: str, limit: int, least: float = 0.0
    ) -> Sequence[FoundMemory]:
        """Return memories with some of the words and a score of `least`, the best first; of equals the newest first."""

    async def forget(self, wanted: MemoryFilter, *, owner: str) -> int:
        """Remove the memories that fit the filter and return their number."""


class ChannelBook(Protocol):
    """What channels remember: people who may write, chats with their sessions, messages that wait for an answer."""

    async def senders(self, channel: str) -> Sequence[ChannelSender]:
        """Return the people who were paired with this channel, the first paired first."""

    async def find_sender(self, channel: str, sender: str) -> ChannelSender | None:
        """Return this person, or None if they were never paired, or not any more."""

    async def pair(self, sender: ChannelSender) -> None:
        """Let this person write. Replace what was stored about them."""

    async def unpair(self, channel: str, sender: str) -> bool:
        """Let this person write no more. Return False if they were not paired."""

    async def session_of(self, channel: str, chat: str, *, owner: str) -> str:
        """Return the session of this chat; empty if it has none."""

    async def use_session(self, channel: str, chat: str, session: str, *, owner: str) -> None:
        """Continue this chat in this session."""

    async def chats(self, channel: str, *, owner: str) -> Sequence[str]:
        """Return the chats in which this owner's people wrote."""

    async def position(self, channel: str) -> str:
        """Return how far the channel has read its feed; empty at its first start."""

    async def take(self, channel: str, messages: Sequence[InboxMessage], position: str = "") -> Sequence[Receipt]:
        """Store these messages and the new position, all or none. Return for each whether it is new.

        A message is known for a day at least, also when it was answered.
        """

    async def unanswered_messages(self, channel: str) -> Sequence[InboxMessage]:
        """Return the messages that are not `done`, the oldest first."""

    async def set_state(self, channel: str, message_id: str, state: InboxState, sent: int = 0) -> None:
        """Note how far the answer is, and how many parts of it have gone out.

        With `done` the content is removed: the session has it.
        """


class PushBook(Protocol):
    """Browsers that get notifications. Those whose token was revoked are not there."""

    async def secret(self) -> bytes:
        """Return the secret of which this gateway's key at push services is made. The first call makes it."""

    async def all(self, *, owner: str) -> Sequence[PushSubscription]:
        """Return the owner's subscriptions, the oldest first."""

    async def find(self, subscription_id: str) -> PushSubscription | None:
        """Return this subscription, whoever its owner is: only for requests that prove that they come from it."""

    async def add(self, given: PushSubscription, most: int) -> str:
        """Store a subscription and return its id: that of the owner's earlier one for the same endpoint.

        Return an empty text, and store nothing, when the owner has so many already.
        """

    async def remove(self, subscription_id: str, *, owner: str) -> bool:
        """Remove a subscription. Return False when the owner has none of this id."""

    async def note_success(self, subscription_id: str) -> None:
        """Note that its push service has just accepted a message."""


class Idempotency(Protocol):
    """Call ids for requests with a client's idempotency key. The ledger knows a repeated request by its id."""

    async def call_id(self, owner: str, key: str) -> str:
        """Return the call id for this owner and key: always the same, and impossible to guess."""


class ArtifactStore(Artifacts, Protocol):
    """The artifacts of tools, with what doors need in addition: the list, and the end of a session."""

    async def all(self, *, owner: str) -> Sequence[StoredArtifact]:
        """Return the owner's artifacts, the newest first."""

    async def forget_session(self, session: str, *, owner: str) -> int:
        """Remove the artifacts of this session and return their number (SPEC S6). Raises `StoreError` if one stays."""

    async def remove(self, artifact_id: str, *, owner: str) -> None:
        """Remove this artifact, if the owner has it. Raises `StoreError`."""

    async def check(self) -> str:
        """Return why no artifact can be stored, with a remedy; empty when artifacts can be stored."""

    async def close(self) -> None:
        """Close the connections that are open. The store does this when it closes."""


# The whole store.


class Leases(Protocol):
    """Which processes are alive. Each has one lease; others may close the unfinished work of a process without one."""

    @property
    def own(self) -> str:
        """The name of this process's lease. Every row that the process works on has it; no other process gets it."""

    @property
    def shares_turns(self) -> bool:
        """Whether another process goes on with a turn that was handed over; else the next start closes it."""

    async def take(self) -> None:
        """Take the lease. Raises `StoreError` when that fails."""

    async def renew(self) -> None:
        """Renew the lease, if it has a time limit. Raises `StoreError` when it is lost."""

    async def release(self) -> None:
        """Give the lease up. Other processes may close what this one left open."""

    async def is_alive(self, holder: str) -> bool:
        """Whether the process that took this lease still lives. A dead one never lives again."""

    async def sweep(self) -> None:
        """Remove the leases of processes that are gone."""


class Store(Protocol):
    """Everything that lasts. `async with` opens and closes it; call `recover` before anything else."""

    @property
    def ledger(self) -> Journal: ...
    @property
    def conversations(self) -> Conversations: ...
    @property
    def contexts(self) -> ContextBook: ...
    @property
    def threads(self) -> ThreadBook: ...
    @property
    def search(self) -> TextSearch: ...
    @property
    def usage(self) -> UsageBook: ...
    @property
    def budgets(self) -> BudgetBook: ...
    @property
    def agents(self) -> AgentBook: ...
    @property
    def questions(self) -> QuestionBook: ...
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
    def responses(self) -> ResponseBook: ...
    @property
    def memories(self) -> MemoryBook: ...
    @property
    def channels(self) -> ChannelBook: ...
    @property
    def push(self) -> PushBook: ...
    @property
    def schedules(self) -> ScheduleBook: ...
    @property
    def idempotency(self) -> Idempotency: ...
    @property
    def artifacts(self) -> ArtifactStore: ...
    @property
    def leases(self) -> Leases: ...
    @property
    def nodes(self) -> NodeBook | None:
        """None where this gateway is alone."""

    async def open(self) -> None:
        """Create or open the database. Raises `StoreError` when it can't be used."""

    async def close(self) -> None:
        """Finish all writes, then close the database."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def unit_of_work(self, within: float | None = None) -> AbstractAsyncContextManager[None]:
        """Commit the results and messages of a block as one when it ends; that end acknowledges them.

        The end of a turn inside the block commits, too. The writes happen even when the block fails or is cancelled:
        what they record has happened. `within`: no write waits longer than so many seconds.
        """

    async def recover(self) -> Recovery:
        """Close the unfinished work of processes that are gone. Work of living processes is not touched."""

    async def expire(self) -> tuple[str, ...]:
        """Give calls that waited too long their result, and return their ids. Call it now and then."""

    async def check_writes(self) -> str:
        """Return why the store takes no writes, with a remedy; empty when it takes them."""

    async def prune(self) -> int:
        """Remove the calls that ended too long ago, and return their number."""
