"""The whole store, on the tables of one database."""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Final, Generic, Protocol, Self, TypeVar

from msgspec import Struct

from handspan.core.errors import StoreError
from handspan.core.nodes import NodeBook
from handspan.core.records import Recovery
from handspan.core.store import ArtifactStore, Idempotency, Leases, SkillSwitches, Switches
from handspan.store.journal_clock import JournalClock, elapsed_seconds
from handspan.store.tables.agents import StoredAgents
from handspan.store.tables.channels import StoredChannels
from handspan.store.tables.clients import StoredBrowserTools, StoredDevices
from handspan.store.tables.conversations import StoredConversations
from handspan.store.tables.database import Database, UnitBlock
from handspan.store.tables.journal import find_newest, load_journal_time, prune, store_journal_time
from handspan.store.tables.ledger import StoredLedger, lost_leases
from handspan.store.tables.memories import StoredMemories
from handspan.store.tables.pins import StoredPins
from handspan.store.tables.questions import StoredQuestions, StoredRules
from handspan.store.tables.recovery import UnfinishedWork
from handspan.store.tables.rows import Row
from handspan.store.tables.threads import StoredThreads
from handspan.store.tables.tokens import StoredTokens
from handspan.store.tables.usage import StoredUsage

_log = logging.getLogger(__name__)

_HOUR: Final = 3600.0
_DAY: Final = 24 * _HOUR


class LastingDatabase(Database, Protocol):
    """A database that a store opens and closes."""

    async def open(self) -> None:
        """Create or open it. Raises `StoreError` when it can't be used."""

    async def close(self) -> None:
        """Finish all writes, then close it."""

    async def check_writes(self) -> str:
        """Return why the database takes no writes, with a remedy; empty when it takes them."""


_D = TypeVar("_D", bound=LastingDatabase)


class LastingLeases(Leases, Protocol):
    """Leases of which those of lost processes can be removed."""

    async def sweep(self) -> None:
        """Remove the leases of processes that are gone."""


class BesideTables(Struct, frozen=True):
    """The parts of a store that are not in the common tables: files, or what each database stores in its own way."""

    artifacts: ArtifactStore
    idempotency: Idempotency
    switches: Switches
    skill_switches: SkillSwitches
    nodes: NodeBook | None = None
    """Is set only where several gateways act as one."""


class TableStore(Generic[_D]):
    """Everything that lasts, in one database and beside it: `async with` opens and closes the store."""

    def __init__(
        self,
        database: _D,
        leases: LastingLeases,
        beside: BesideTables,
        clock: Callable[[], float] = time.time,
        journal_days: float | None = None,
        elapsed: Callable[[], float] = elapsed_seconds,
        find_now: Callable[[str, Row], Row | None] | None = None,
    ) -> None:
        """`journal_days`: None keeps finished calls for ever. `clock`: the time of day. `elapsed`: a clock that never
        steps. `find_now`: see `StoredLedger`.
        """
        self._clock = clock
        self._journal_days = journal_days
        self._pruning: asyncio.Task[None] | None = None
        self._journal_clock = JournalClock(clock, elapsed)
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
        self.conversations = StoredConversations(database, leases, self.artifacts, clock)
        self.questions = StoredQuestions(database, clock)
        self.rules = StoredRules(database, clock)
        self.pins = StoredPins(database)
        self.usage = StoredUsage(database)
        self.agents = StoredAgents(database)
        self.tokens = StoredTokens(database, clock)
        self.devices = StoredDevices(database)
        self.browser_tools = StoredBrowserTools(database)
        self.threads = StoredThreads(database, clock)
        self.channels = StoredChannels(database, clock)
        self.memories = StoredMemories(database, clock)

    async def open(self) -> None:
        """Create or open the database. Raises `StoreError` when it can't be used. Call `recover` next."""
        await self.database.open()
        try:
            await self.leases.take()
        except StoreError:
            await self.database.close()
            raise

    async def close(self) -> None:
        """Finish all writes, then close the database."""
        if self._pruning is not None:
            self._pruning.cancel()
            await asyncio.wait([self._pruning])
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
        """Commit the results and messages of the block as one when it ends; that end acknowledges them."""
        return UnitBlock(self.database, within)

    async def recover(self) -> Recovery:
        """Close the unfinished work of processes that are gone. Work of living processes is not touched."""
        now, lost = self._clock(), await lost_leases(self.database, self.leases)
        has_nodes, kept = self.nodes is not None, self.ledger.unwritten_results
        recovery = await self.database.write(
            lambda connection: UnfinishedWork(connection, now, lost, kept, has_nodes=has_nodes).recover()
        )
        await self.leases.sweep()
        self._begin_pruning()
        return recovery

    async def expire(self) -> tuple[str, ...]:
        """Give calls that waited too long their result, and return their ids. Call this now and then."""
        now, lost = self._clock(), await lost_leases(self.database, self.leases)
        await self.conversations.end_lost_turns()
        kept = self.ledger.unwritten_results
        expired = await self.database.write(lambda connection: UnfinishedWork(connection, now, lost, kept).expire())
        self._begin_pruning()
        return expired

    async def check_writes(self) -> str:
        """Return why the store takes no writes, with a remedy; empty when it takes them."""
        return await self.database.check_writes()

    async def prune(self) -> int:
        """Remove the calls that ended more than `journal_days` ago, and return their number."""
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
