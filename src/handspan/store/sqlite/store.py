"""The whole store, on one database in the state folder."""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from handspan.core.errors import StoreError
from handspan.core.records import Recovery
from handspan.core.store import ArtifactStore
from handspan.store.artifacts import FolderArtifacts
from handspan.store.idempotency import FileIdempotency
from handspan.store.journal_clock import JournalClock, elapsed_seconds
from handspan.store.sqlite.agents import StoredAgents
from handspan.store.sqlite.clients import StoredBrowserTools, StoredDevices
from handspan.store.sqlite.conversations import StoredConversations
from handspan.store.sqlite.database import Database
from handspan.store.sqlite.journal import find_newest, prune
from handspan.store.sqlite.leases import FileLeases, lost_leases
from handspan.store.sqlite.ledger import StoredLedger
from handspan.store.sqlite.memories import StoredMemories
from handspan.store.sqlite.pins import StoredPins
from handspan.store.sqlite.questions import StoredQuestions, StoredRules
from handspan.store.sqlite.recovery import UnfinishedWork
from handspan.store.sqlite.threads import StoredThreads
from handspan.store.sqlite.tokens import StoredTokens
from handspan.store.sqlite.usage import StoredUsage
from handspan.store.switches import FileSkillSwitches, FileSwitches

_log = logging.getLogger(__name__)

_HOUR: Final = 3600.0
_DAY: Final = 24 * _HOUR


class SqliteStore:
    """Everything that lasts, in one folder: `async with SqliteStore(folder) as store:`."""

    def __init__(
        self,
        folder: Path,
        artifacts: ArtifactStore | None = None,
        clock: Callable[[], float] = time.time,
        journal_days: float | None = None,
        elapsed: Callable[[], float] = elapsed_seconds,
    ) -> None:
        """`artifacts`: None stores them in the same folder. `journal_days`: None keeps finished calls for ever.

        `clock`: the time of day. `elapsed`: a clock that never steps.
        """
        self._clock = clock
        self._journal_days = journal_days
        self._pruning: asyncio.Task[None] | None = None
        self._journal_clock = JournalClock(clock, elapsed)
        self._next_pruning = 0.0
        """By the clock that never steps."""
        self.database = Database(folder)
        self.leases = FileLeases(folder / "runs")
        self.artifacts: ArtifactStore = artifacts or FolderArtifacts(folder / "artifacts")
        self.idempotency = FileIdempotency(folder)
        self.switches = FileSwitches(folder)
        self.skill_switches = FileSkillSwitches(folder)
        self.ledger = StoredLedger(self.database, self.leases, clock)
        self.conversations = StoredConversations(self.database, self.leases, self.artifacts, clock)
        self.questions = StoredQuestions(self.database, clock)
        self.rules = StoredRules(self.database, clock)
        self.pins = StoredPins(self.database)
        self.usage = StoredUsage(self.database)
        self.agents = StoredAgents(self.database)
        self.tokens = StoredTokens(self.database, clock)
        self.devices = StoredDevices(self.database)
        self.browser_tools = StoredBrowserTools(self.database)
        self.threads = StoredThreads(self.database, clock)
        self.memories = StoredMemories(self.database, clock)

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
        await self.ledger.unwritten_results.close()
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
        return self.database.unit_of_work(within)

    async def recover(self) -> Recovery:
        """Close the unfinished work of processes that are gone. Work of living processes is not touched."""
        now, lost = self._clock(), await lost_leases(self.database, self.leases)
        recovery = await self.database.write(lambda connection: UnfinishedWork(connection, now, lost).recover())
        await self.leases.sweep()
        self._begin_pruning()
        return recovery

    async def expire(self) -> tuple[str, ...]:
        """Give calls that waited too long their result, and return their ids. Call it now and then."""
        now, lost = self._clock(), await lost_leases(self.database, self.leases)
        kept = self.ledger.unwritten_results
        expired = await self.database.write(lambda connection: UnfinishedWork(connection, now, lost, kept).expire())
        self._begin_pruning()
        return expired

    async def check_writes(self) -> str:
        """Return why the store takes no writes, with a remedy; empty when it does."""
        return await self.database.check_writes()

    async def prune(self) -> int:
        """Remove the calls that ended more than `journal_days` ago, and return their number."""
        if self._journal_days is None:
            return 0
        if not self._journal_clock.is_set:
            self._journal_clock.set(await self.database.read(find_newest))
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
