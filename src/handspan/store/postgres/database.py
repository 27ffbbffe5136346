"""The PostgreSQL database: one connection that writes, and some that read."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from handspan.core.errors import HandspanError, StoreError
from handspan.store.postgres.connections import (
    Connector,
    PostgresConnection,
    Raw,
    StoreAddress,
    close_quietly,
    is_database_error,
    needs_new_connection,
    store_error,
)
from handspan.store.postgres.migrations import MIGRATIONS
from handspan.store.postgres.writer import OneStatement, PostgresWriter
from handspan.store.tables.database import Work, WriteJob, check_version, future_here
from handspan.store.tables.rows import Row

_T = TypeVar("_T")

_PROOF_SECONDS: Final = 5.0
"""How long a successful write counts as proof that the next one works."""
_PROBE_SECONDS: Final = 2.0
_FEWEST: Final = 3
"""Connections: one that writes, one that holds the lease, one that reads."""
_PROBE: Final = "UPDATE migrations SET at = clock_timestamp() WHERE version = 0"
_VERSION: Final = "SELECT COALESCE(MAX(version), 0) FROM migrations"
_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended('handspan migrations ' || current_schema(), 0))"
_PREPARE: Final = """
CREATE TABLE IF NOT EXISTS migrations (version INTEGER PRIMARY KEY, at TIMESTAMPTZ NOT NULL);
INSERT INTO migrations VALUES (0, now()) ON CONFLICT DO NOTHING;
"""


class PostgresDatabase:
    """One database of a server. Implements `Database`."""

    def __init__(self, address: StoreAddress) -> None:
        self.address = address
        self.connector = Connector(address)
        self._writer: PostgresWriter | None = None
        self._readers: list[Raw] = []
        self._slots = asyncio.Semaphore(max(address.connections, _FEWEST) - _FEWEST + 1)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._probing: asyncio.Future[int] | None = None
        """The write that shows whether the database takes writes."""
        self._stopped = ""
        """Why every write is refused; empty while writes are allowed."""

    @property
    def commits(self) -> int:
        """The number of committed transactions since the database was opened."""
        return self._writer.commits if self._writer else 0

    async def open(self) -> None:
        """Connect, and bring the tables to this version. Raises `StoreError`."""
        self._loop = asyncio.get_running_loop()
        self.address.check()
        raw = await self.connector.connect("reader")
        try:
            await self._migrate(raw)
        except BaseException as error:
            await close_quietly(raw)
            if not is_database_error(error):
                raise
            raise store_error(error, self.address) from error
        self._readers.append(raw)
        self._writer = PostgresWriter(self.connector)
        self._writer.open()

    async def close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            await writer.close()
        while self._readers:
            await close_quietly(self._readers.pop())

    def stop_writes(self, reason: str) -> None:
        """Refuse every write from now on, for this reason: this process has lost its lease."""
        self._stopped = reason

    # Writing.

    def write(self, work: Work[_T]) -> asyncio.Future[_T]:
        """Return a future of what the work returns, once it is committed."""
        future: asyncio.Future[_T] = future_here(self._loop)
        if self._writer is None:
            future.set_exception(self._closed_error())
        elif self._stopped:
            future.set_exception(StoreError(self._stopped))
        else:
            self._writer.put(WriteJob(work, future))
        return future

    def execute(self, sql: str, values: Row = ()) -> asyncio.Future[int]:
        return self.write(OneStatement(sql, values))

    async def check_writes(self) -> str:
        """Return why the database takes no writes; empty when it takes them. A write of the last seconds is proof."""
        if self._stopped:
            return self._stopped
        if (writer := self._writer) is None:
            return self._closed_error().message
        if writer.has_lacked(_PROOF_SECONDS):
            return writer.lack
        if time.monotonic() - writer.wrote_at < _PROOF_SECONDS:
            return ""
        if self.connector.problem:
            return self.connector.problem
        if self._probing is None or self._probing.done():
            self._probing = self.execute(_PROBE)
        try:
            async with asyncio.timeout(_PROBE_SECONDS):
                await asyncio.shield(self._probing)
        except TimeoutError:
            is_refused = writer.has_lacked(_PROBE_SECONDS)
            return writer.lack if is_refused else store_error(TimeoutError(), self.address).message
        except StoreError as error:
            return error.message
        return ""

    # Reading.

    async def read(self, work: Work[_T]) -> _T:
        async def run(raw: Raw) -> _T:
            async with raw.transaction(isolation="repeatable_read", readonly=True):
                return await work(PostgresConnection(raw))

        return await self._read(run)

    async def read_few(self, work: Work[_T]) -> _T:
        """Return the value of a work that reads, without a transaction around it."""
        return await self._read(lambda raw: work(PostgresConnection(raw)))

    async def fetch_all(self, sql: str, values: Row = ()) -> Sequence[Row]:
        return await self._read(lambda raw: PostgresConnection(raw).fetch_all(sql, values))

    async def fetch_one(self, sql: str, values: Row = ()) -> Row | None:
        return await self._read(lambda raw: PostgresConnection(raw).fetch_one(sql, values))

    async def _read(self, run: Callable[[Raw], Awaitable[_T]]) -> _T:
        """Run this on a connection, as soon as one may be used. Raises `StoreError` when the database fails."""
        if self._writer is None:
            raise self._closed_error()
        try:
            async with asyncio.timeout(self.address.timeout):
                await self._slots.acquire()
        except TimeoutError:
            text = "all its connections are in use. Raise `store.connections`, or look after a slow database"
            raise StoreError(f"The database {self.address.name} can't be used: {text}.") from None
        try:
            return await self._read_on_any(run)
        except (HandspanError, asyncio.CancelledError):
            raise
        except Exception as error:
            if not is_database_error(error):
                raise
            raise store_error(error, self.address) from error
        finally:
            self._slots.release()

    async def _read_on_any(self, run: Callable[[Raw], Awaitable[_T]]) -> _T:
        """Run this on a free connection. If all of them are broken, run it on a new one."""
        while self._readers:
            raw = self._readers.pop()
            if raw.is_closed():
                continue
            try:
                return await self._read_on(raw, run)
            except Exception as error:
                if not (is_database_error(error) and needs_new_connection(error, raw)):
                    raise
        return await self._read_on(await self.connector.connect_with_retries("reader"), run)

    async def _read_on(self, raw: Raw, run: Callable[[Raw], Awaitable[_T]]) -> _T:
        """Run this on one connection. Afterwards the connection is free, or closed if it can't be used any more."""
        is_sound = False
        try:
            found = await run(raw)
            is_sound = True
            return found
        except Exception as error:
            is_sound = isinstance(error, HandspanError) or not needs_new_connection(error, raw)
            raise
        finally:
            if is_sound and self._writer is not None and not raw.is_closed():
                self._readers.append(raw)
            else:
                raw.terminate()

    # The tables.

    async def _migrate(self, raw: Raw) -> None:
        """Run the missing steps in one transaction. Other processes wait meanwhile."""
        if await raw.fetchval("SELECT to_regclass('migrations')") is not None and await self._version(raw) == len(
            MIGRATIONS
        ):
            return
        async with raw.transaction():
            await raw.execute(_LOCK)
            await raw.execute(_PREPARE)
            for number in range(await self._version(raw), len(MIGRATIONS)):  # another process may have run them
                await raw.execute(MIGRATIONS[number])
                await raw.execute("INSERT INTO migrations VALUES ($1, now())", number + 1)

    async def _version(self, raw: Raw) -> int:
        """Return how many steps the database has. Raises `StoreError` if a newer version wrote it."""
        return check_version(await raw.fetchval(_VERSION), len(MIGRATIONS), self.address.name, "`store.url`")

    def _closed_error(self) -> StoreError:
        return StoreError(f"The database {self.address.name} is closed: nothing can be kept or read any more.")
