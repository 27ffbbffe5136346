"""The connection of a lease: it holds locks of the database, and a task renews the lease's row over it (SPEC A2, K1).

The server releases the locks when the connection is gone: another process sees at once that they are free.
"""

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Awaitable, Callable
from typing import Final

from handspan.core.errors import StoreError
from handspan.store.postgres.connections import (
    TRANSACTION_MODE,
    Raw,
    close_quietly,
    is_database_error,
    store_error,
)
from handspan.store.postgres.database import PostgresDatabase
from handspan.store.tables.database import TableConnection

RENEWALS: Final = 3
"""How often a lease is renewed in the time that it lasts."""
_GATEWAY_WAITS: Final = 2000
"""Milliseconds for the server to notice that an earlier gateway is gone."""
_LOCK_NOT_AVAILABLE: Final = "55P03"
_BACKEND: Final = "SELECT pg_backend_pid()"
_KEY: Final = "hashtextextended('handspan ' || current_schema() || ' ' || {}, 0)"

Step = Callable[[Raw], Awaitable[bool]]
"""Renews the lease over this connection. Returns whether the lease still counts."""


def lock_key(text: str) -> str:
    """Return the SQL of a lock's key. `text`: the SQL of the name of the lock."""
    return _KEY.format(text)


OWN_KEY: Final = lock_key("$1::text")
"""The lock of one lease, by its id."""
GATEWAY_KEY: Final = lock_key("'the gateway'")
"""The lock of all gateways: a lone gateway holds it alone, nodes share it."""
LOCKED: Final = (
    "EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted AND database ="
    " (SELECT oid FROM pg_database WHERE datname = current_database())"
    f" AND (classid::bigint << 32 | objid::bigint) = {lock_key('leases.id')})"
)
"""Whether a connection holds the lock of the lease in this row of `leases`."""
_ADD: Final = (
    "INSERT INTO leases (id, holder, is_gateway, backend, taken, seen)"
    " VALUES ($1, $2, $3, pg_backend_pid(), clock_timestamp(), clock_timestamp())"
)
_HOLDER: Final = f"SELECT holder, taken FROM leases WHERE (is_gateway OR id IN (SELECT id FROM nodes)) AND {LOCKED}"


class LeaseConnection:
    """A connection that serves one lease only."""

    def __init__(self, database: PostgresDatabase, seconds: float) -> None:
        """`seconds`: how long the lease lasts without a renewal."""
        self._database = database
        self._connector = database.connector
        self._seconds = seconds
        self._raw: Raw | None = None
        self._renewing: asyncio.Task[None] | None = None
        self.may_renew: Callable[[], bool] = lambda: True
        """Whether the lease is to be renewed now."""
        self.on_missed: Callable[[StoreError], None] = lambda error: None
        """Is called with the error when a renewal failed."""

    async def open(self, join: Callable[[Raw], Awaitable[None]], renew: Step, come_back: Step) -> None:
        """Take the lease with `join`, and begin to renew it. Raises `StoreError` when the database can't be used.

        `renew` renews the lease over the same connection, `come_back` over a new one.
        """
        raw = await self._connector.connect("lease")
        try:
            await self._check_sessions(raw)
            await join(raw)
        except BaseException as error:
            await close_quietly(raw)
            if is_database_error(error):
                raise store_error(error, self._connector.address) from error
            raise
        self._raw = raw
        self._renewing = asyncio.create_task(self._renew_often(renew, come_back))

    async def renew(self, renew: Step) -> bool:
        """Renew the lease now. Return False when it is lost, or was never taken."""
        return self._raw is not None and await renew(self._raw)

    async def close(self, own: str) -> None:
        """Stop renewing, delete the row of this lease, and release its locks."""
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait([self._renewing])
            self._renewing = None
        raw, self._raw = self._raw, None
        if raw is not None:
            with contextlib.suppress(Exception):  # if this fails, the lease ends when its time is over
                await raw.execute("DELETE FROM leases WHERE id = $1", own)
            await close_quietly(raw)

    async def add_row(self, raw: Raw, own: str, *, is_gateway: bool) -> None:
        """Add the row of this lease, with a text for people: the program, its computer and its process id."""
        process = f"{os.path.basename(sys.argv[0] or 'python')} on {socket.gethostname()}, process {os.getpid()}"
        await raw.execute(_ADD, own, process, is_gateway)

    async def lock_gateway(self, raw: Raw, *, is_shared: bool) -> None:
        """Take the lock of all gateways. Raises `StoreError`, which names the holder, when the lock is not free."""
        await raw.execute(f"SET lock_timeout = {_GATEWAY_WAITS}")
        try:
            await raw.execute(f"SELECT pg_advisory_lock{'_shared' if is_shared else ''}({GATEWAY_KEY})")
        except Exception as error:
            if getattr(error, "sqlstate", "") != _LOCK_NOT_AVAILABLE:
                raise
            raise StoreError(await self._describe_holder(raw)) from None
        finally:
            if not raw.is_closed():
                await raw.execute(f"SET lock_timeout = {int(self._connector.address.timeout * 1000)}")

    async def _check_sessions(self, raw: Raw) -> None:
        """Raise `StoreError` when connections move between the server's processes (PgBouncer in transaction mode)."""

        async def look_beside(other: TableConnection) -> tuple[int, int]:
            return await other.fetch_value(_BACKEND), await raw.fetchval(_BACKEND)

        before = await raw.fetchval(_BACKEND)
        beside, after = await self._database.read(look_beside)
        if before != after or before == beside:
            raise StoreError(f"The database {self._connector.address.name} can't be used: {TRANSACTION_MODE}.")

    async def _describe_holder(self, raw: Raw) -> str:
        """Return the text that refuses this gateway, and names the one that uses the database."""
        row = await raw.fetchrow(_HOLDER)
        holder = f"{row['holder']}, since {row['taken']:%Y-%m-%d %H:%M:%S} UTC" if row else "an unknown process"
        text = f"Another gateway uses the database {self._connector.address.name}: {holder}."
        return f"{text} Stop that one, or give this one another `store.url`."

    async def _renew_often(self, renew: Step, come_back: Step) -> None:
        """Renew the lease in time, until it is lost. Make a new connection when the old one broke."""
        counts = True
        while counts:
            await asyncio.sleep(self._seconds / RENEWALS)
            if not self.may_renew():
                continue
            try:
                if self._raw is None or self._raw.is_closed():
                    counts = await self._reconnect(come_back)
                else:
                    counts = await renew(self._raw)
            except StoreError as error:  # the database is out of reach, or has refused
                self.on_missed(error)
            except Exception as error:
                if not is_database_error(error):
                    raise
                if self._raw is not None:
                    self._raw.terminate()

    async def _reconnect(self, come_back: Step) -> bool:
        """Connect again, and take the locks. Return whether the lease still counts."""
        raw = await self._connector.connect("lease")
        try:
            counts = await come_back(raw)
        except BaseException:
            raw.terminate()
            raise
        self._raw = raw
        return counts
