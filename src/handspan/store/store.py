"""All that lasts, over one database in the state folder."""

import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import TracebackType
from typing import Self

from handspan.core.conversations import Recovery, StoreError
from handspan.store.agents import StoredAgents
from handspan.store.artifacts import FolderArtifacts
from handspan.store.conversations import StoredConversations
from handspan.store.database import Database
from handspan.store.ledger import StoredLedger
from handspan.store.questions import StoredQuestions
from handspan.store.recovery import Closing
from handspan.store.runs import Runs
from handspan.store.tokens import StoredTokens
from handspan.store.usage import StoredUsage


class SqliteStore:
    """Sessions, calls, questions, usage, agents and tokens. `async with SqliteStore(folder) as store:` opens it."""

    def __init__(
        self, folder: Path, artifacts: FolderArtifacts | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self._clock = clock
        self._runs = Runs(folder / "runs")
        self.database = Database(folder)
        self.ledger = StoredLedger(self.database, self._runs.own)
        self.conversations = StoredConversations(self.database, self._runs.own, artifacts, clock)
        self.questions = StoredQuestions(self.database, clock)
        self.usage = StoredUsage(self.database)
        self.agents = StoredAgents(self.database)
        self.tokens = StoredTokens(self.database, clock)

    async def open(self) -> None:
        """Make or find the database; `StoreError` when it can't be used. Then `recover`, before anything else."""
        await self.database.open()
        try:
            self._runs.open()
        except OSError as error:
            await self.database.close()
            raise StoreError(f"The folder {error.filename!r} can't be used: {error.strerror}.") from None

    async def close(self) -> None:
        """Write everything that was put, then let go."""
        await self.database.close()
        self._runs.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def together(self) -> AbstractAsyncContextManager[None]:
        """A block whose results and messages are committed as one when it ends: that end acknowledges them."""
        return self.database.together()

    async def recover(self) -> Recovery:
        """Close what a process that is gone left half done; other processes that live are left alone."""
        now, is_alive = self._clock(), self._runs.is_alive
        recovery = await self.database.write(lambda connection: Closing(connection, now, is_alive).recover())
        self._runs.sweep()
        return recovery

    async def expire(self) -> tuple[str, ...]:
        """Give the calls that waited too long their result; their ids. To be called now and then."""
        now, is_alive = self._clock(), self._runs.is_alive
        return await self.database.write(lambda connection: Closing(connection, now, is_alive).expire())
