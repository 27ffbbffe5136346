"""All that lasts, over one database in the state folder."""

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
from handspan.core.store import KeptArtifacts
from handspan.store.artifacts import FolderArtifacts
from handspan.store.idempotency import FileIdempotency
from handspan.store.sqlite.agents import StoredAgents
from handspan.store.sqlite.browser import StoredBrowserTools
from handspan.store.sqlite.conversations import StoredConversations
from handspan.store.sqlite.database import Database
from handspan.store.sqlite.devices import StoredDevices
from handspan.store.sqlite.leases import FileLeases, lost_leases
from handspan.store.sqlite.ledger import StoredLedger
from handspan.store.sqlite.memories import StoredMemories
from handspan.store.sqlite.pins import StoredPins
from handspan.store.sqlite.pruning import prune
from handspan.store.sqlite.questions import StoredQuestions
from handspan.store.sqlite.recovery import Closing
from handspan.store.sqlite.rules import StoredRules
from handspan.store.sqlite.threads import StoredThreads
from handspan.store.sqlite.tokens import StoredTokens
from handspan.store.sqlite.usage import StoredUsage
from handspan.store.switches import FileSkillSwitches, FileSwitches

_log = logging.getLogger(__name__)

_HOUR: Final = 3600.0
_DAY: Final = 24 * _HOUR


class SqliteStore:
    """All that lasts in one folder: `async with SqliteStore(folder) as store:`."""

    def __init__(
        self,
        folder: Path,
        artifacts: KeptArtifacts | None = None,
        clock: Callable[[], float] = time.time,
        journal_days: float | None = None,
    ) -> None:
        """`artifacts`: those in the same folder. `journal_days`: how long finished calls are kept; None: for ever."""
        self._clock = clock
        self._journal_days = journal_days
        self._pruning: asyncio.Task[None] | None = None
        self._prunes_next = 0.0
        self.database = Database(folder)
        self.leases = FileLeases(folder / "runs")
        self.artifacts: KeptArtifacts = artifacts or FolderArtifacts(folder / "artifacts")
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
        """Make or find the database; `StoreError` when it can't be used. Then `recover`, before anything else."""
        await self.database.open()
        try:
            await self.leases.take()
        except StoreError:
            await self.database.close()
            raise

    async def close(self) -> None:
        """Write everything that was put, then let go."""
        if self._pruning is not None:
            self._pruning.cancel()
            await asyncio.wait([self._pruning])
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
        """A block whose results and messages are committed as one when it ends: that end acknowledges them."""
        return self.database.unit_of_work(within)

    async def recover(self) -> Recovery:
        """Close what a process that is gone left half done; other processes that live are left alone."""
        now, lost = self._clock(), await lost_leases(self.database, self.leases)
        recovery = await self.database.write(lambda connection: Closing(connection, now, lost).recover())
        await self.leases.sweep()
        self._begin_to_prune()
        return recovery

    async def expire(self) -> tuple[str, ...]:
        """Give the calls that waited too long their result; their ids. To be called now and then."""
        now, lost = self._clock(), await lost_leases(self.database, self.leases)
        expired = await self.database.write(lambda connection: Closing(connection, now, lost).expire())
        self._begin_to_prune()
        return expired

    async def prune(self) -> int:
        """Remove the calls that ended more than `journal_days` ago; how many there were."""
        if self._journal_days is None:
            return 0
        return await prune(self.database, self._clock() - self._journal_days * _DAY)

    def _begin_to_prune(self) -> None:
        """Beside all else, not too often; nobody waits for it."""
        is_at_it = self._pruning is not None and not self._pruning.done()
        if self._journal_days is not None and not is_at_it and self._clock() >= self._prunes_next:
            self._prunes_next = self._clock() + _HOUR
            self._pruning = asyncio.create_task(self._prune_quietly())

    async def _prune_quietly(self) -> None:
        try:
            await self.prune()
        except StoreError as error:  # the next time may go better
            _log.error("Old calls could not be removed: %s", error)
