"""The whole store, on the tables of one database."""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Final, Generic, Self, TypeVar

from msgspec import Struct

from handspan.core.errors import StoreError
from handspan.core.nodes import NodeBook
from handspan.core.records import Recovery
from handspan.core.store import ArtifactStore, Idempotency, Leases, SkillSwitches, Switches
from handspan.store.journal_clock import JournalClock, elapsed_seconds
from handspan.store.tables.agents import StoredAgents
from handspan.store.tables.budgets import StoredBudgets
from handspan.store.tables.channels import StoredChannels
from handspan.store.tables.clients import StoredBrowserTools, StoredDevices, StoredResponses
from handspan.store.tables.contexts import StoredContexts
from handspan.store.tables.conversations import StoredConversations
from handspan.store.tables.database import Database, unit_of_work
from handspan.store.tables.journal import find_newest, load_journal_time, prune, store_journal_time
from handspan.store.tables.ledger import StoredLedger, lost_leases
from handspan.store.tables.memories import StoredMemories
from handspan.store.tables.pins import StoredPins
from handspan.store.tables.push import StoredPush
from handspan.store.tables.questions import StoredQuestions, StoredRules
from handspan.store.tables.recovery import UnfinishedWork
from handspan.store.tables.rows import Row
from handspan.store.tables.schedules import StoredSchedules
from handspan.store.tables.search import SearchSql, StoredSearch
from handspan.store.tables.threads import StoredThreads
from handspan.store.tables.tokens import StoredTokens
from handspan.store.tables.usage import StoredUsage

_log = logging.getLogger(__name__)

_HOUR: Final = 3600.0
_DAY: Final = 24 * _HOUR


_D = TypeVar("_D", bound=Database)


class BesideTables(Struct, frozen=True):
    """The parts of a store that are not in the common tables: files, or what each database stores in its own way."""

    artifacts: ArtifactStore
    idempotency: Idempotency
    switches: Switches
    skill_switches: SkillSwitches
    nodes: NodeBook | None = None
    """Is set only where several gateways act as one."""


class StoreOptions(Struct, frozen=True):
    """What tells a store the time, and how much it keeps."""

    clock: Callable[[], float] = time.time
    """The time of day."""
    journal_days: float | None = None
    """Finished calls are removed after so many days; None: never."""
    elapsed: Callable[[], float] = elapsed_seconds
    """A clock that never steps."""
    most_versions: int = 50
    """How many versions of a session stay beside the current one."""
    undo_seconds: float = 30.0
    """How long a session can be restored that was deleted with `undo`."""


class TableStore(Generic[_D]):
    """Everything that lasts, in one database and beside it. Implements `Store`."""

    def __init__(
        self,
        database: _D,
        leases: Leases,
        beside: BesideTables,
        options: StoreOptions,
        search: SearchSql,
        find_now: Callable[[str, Row], Row | None] | None = None,
    ) -> None:
        """`find_now`: see `StoredLedger`."""
        self._clock = clock = options.clock
        self._journal_days = options.journal_days
        self._pruning: asyncio.Task[None] | None = None
        self._sweeping: asyncio.Task[None] | None = None
        """Removes deleted sessions, and brings messages into the index of the search."""
        self._journal_clock = JournalClock(clock, options.elapsed)
        self._next_pruning = 0.0
        """When the next pruning may begin, by the clock that never steps."""
        self.database = database
        self.leases = leases
        self.artifacts = beside.artifacts
        self.idempotency = beside.idempotency
        self.switches = beside.switches
        self.skill_switches = beside.skill_switches
        self.nodes = beside.nodes
        self.ledger = StoredLedger(database, leases, clock, find_now)
        self.conversations = StoredConversations(
            database,
            leases,
            self.artifacts,
            clock,
            most_versions=options.most_versions,
            undo_seconds=options.undo_seconds,
        )
        self.contexts = StoredContexts(database, leases, clock)
        self.search = StoredSearch(database, search)
        self.questions = StoredQuestions(database, clock)
        self.rules = StoredRules(database, clock)
        self.pins = StoredPins(database)
        self.usage = StoredUsage(database)
        self.budgets = StoredBudgets(database, leases)
        self.agents = StoredAgents(database)
        self.tokens = StoredTokens(database, clock)
        self.devices = StoredDevices(database)
        self.browser_tools = StoredBrowserTools(database)
        self.responses = StoredResponses(database)
        self.threads = StoredThreads(database, clock)
        self.channels = StoredChannels(database, clock)
        self.memories = StoredMemories(database, clock)
        self.push = StoredPush(database, clock)
        self.schedules = StoredSchedules(database, leases, clock)

    async def open(self) -> None:
        await self.database.open()
        try:
            await self.leases.take()
        except StoreError:
            await self.database.close()
            raise

    async def close(self) -> None:
        """Write what still waits, and close the database. The lease goes last."""
        for task in (self._pruning, self._sweeping):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        self.ledger.late_starts.write_all()
        await self.ledger.unwritten_results.close()
        await self.artifacts.close()
        await self.database.close()
        await self.leases.release()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def unit_of_work(self, within: float | None = None) -> AbstractAsyncContextManager[None]:
        return unit_of_work(self.database, within)

    async def recover(self) -> Recovery:
        now, lost = self._clock(), await lost_leases(self.database, self.leases)
        kept = self.ledger.unwritten_results
        own = self.leases.own
        recovery = await self.database.write(
            lambda connection: UnfinishedWork(connection, now, lost, kept, own=own).recover()
        )
        await self.leases.sweep()
        self._begin_pruning()
        return recovery

    async def expire(self) -> tuple[str, ...]:
        """End what has expired and what lost processes have left. Return the ids of calls that have ended so."""
        now, lost = self._clock(), await lost_leases(self.database, self.leases)
        await self.conversations.end_lost_turns()
        kept = self.ledger.unwritten_results
        expired = await self.database.write(lambda connection: UnfinishedWork(connection, now, lost, kept).expire())
        self._begin_pruning()
        if self._sweeping is None or self._sweeping.done():
            self._sweeping = asyncio.create_task(self._sweep_quietly())
        return expired

    async def check_writes(self) -> str:
        return await self.database.check_writes()

    async def prune(self) -> int:
        """Remove the calls that ended more than `journal_days` ago, and return their number.

        Their age counts by the journal's own clock: a wrong clock of the computer must not remove new calls.
        """
        if self._journal_days is None:
            return 0
        if not self._journal_clock.is_set:
            stored = await self.database.read(load_journal_time)
            self._journal_clock.set(None if stored else await self.database.read(find_newest), stored)
        await store_journal_time(self.database, self._journal_clock.snapshot())
        return await prune(self.database, self._journal_clock.now() - self._journal_days * _DAY)

    def _begin_pruning(self) -> None:
        """Prune in the background, at most once an hour."""
        is_running = self._pruning is not None and not self._pruning.done()
        now = self._journal_clock.elapsed()
        if self._journal_days is not None and not is_running and now >= self._next_pruning:
            self._next_pruning = now + _HOUR
            self._pruning = asyncio.create_task(self._prune_quietly())

    async def _prune_quietly(self) -> None:
        try:
            await self.prune()
        except StoreError as error:  # the next try may succeed
            _log.error("Old calls could not be removed: %s", error)

    async def _sweep_quietly(self) -> None:
        try:
            await self.conversations.remove_deleted()
            await self.search.index()
        except StoreError as error:  # the next try may succeed
            _log.error("Deleted sessions could not be removed, or new messages not be indexed: %s", error)
