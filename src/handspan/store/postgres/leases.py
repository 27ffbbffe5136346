"""Which processes are alive, as rows with the database's clock (SPEC A2, K1).

Each process holds a lock of the database on a connection of its own, and renews its row every second. The server
releases the lock when the connection is gone: so a killed process is noticed at once, and one whose connection broke
has `lease_seconds` to come back. A lease that counted as lost is deleted, and its process writes nothing any more.
"""

import asyncio
import contextlib
import os
import socket
import sys
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

LEASE_SECONDS: Final = 3.0
_LARGEST_SHARE: Final = 3
"""A lease is renewed so often in its time."""
_GATEWAY_WAITS: Final = 2000
"""Milliseconds for the server to notice that an earlier gateway is gone."""

_BACKEND: Final = "SELECT pg_backend_pid()"
_KEY: Final = "hashtextextended('handspan ' || current_schema() || ' ' || {}, 0)"


def lock_key(text: str) -> str:
    """Return the SQL of the key of a lock; `text`: the SQL of what it stands for."""
    return _KEY.format(text)


_LOCKED: Final = (
    "EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted AND database ="
    " (SELECT oid FROM pg_database WHERE datname = current_database())"
    f" AND (classid::bigint << 32 | objid::bigint) = {_KEY.format('leases.id')})"
)
_SAVE: Final = (
    "INSERT INTO leases (id, holder, is_gateway, backend, taken, seen)"
    " VALUES ($1, $2, $3, pg_backend_pid(), clock_timestamp(), clock_timestamp())"
)
_RENEW: Final = "UPDATE leases SET seen = clock_timestamp() WHERE id = $1 RETURNING backend = pg_backend_pid()"
_MOVE: Final = "UPDATE leases SET seen = clock_timestamp(), backend = pg_backend_pid() WHERE id = $1"
_IS_ALIVE: Final = f"SELECT {_LOCKED} OR seen > clock_timestamp() - make_interval(secs => $2) FROM leases WHERE id = $1"
_DELETE_LOST: Final = (
    f"DELETE FROM leases WHERE id = $1 AND NOT {_LOCKED} AND seen <= clock_timestamp() - make_interval(secs => $2)"
)
_UNDECIDED: Final = (
    f"SELECT count(*) FROM leases WHERE id <> $1 AND NOT {_LOCKED}"
    " AND seen > clock_timestamp() - make_interval(secs => $2)"
)
_SWEEP: Final = f"DELETE FROM leases WHERE NOT {_LOCKED} AND seen <= clock_timestamp() - make_interval(secs => $1)"
_HOLDER: Final = f"SELECT holder, taken FROM leases WHERE (is_gateway OR id IN (SELECT id FROM nodes)) AND {_LOCKED}"
_END_OLD: Final = (  # after a failover that number is another process of another server: its name tells them apart
    "SELECT pg_terminate_backend(pid) FROM leases JOIN pg_stat_activity ON pid = backend"
    " WHERE id = $1 AND pid <> pg_backend_pid() AND application_name = current_setting('application_name')"
)


class RowLeases:
    """A lease is a row of the database and a lock that belongs to a connection."""

    def __init__(
        self, database: PostgresDatabase, *, is_gateway: bool = False, lease_seconds: float = LEASE_SECONDS
    ) -> None:
        """`is_gateway`: only one such process may use the database."""
        self._database = database
        self._connector = database.connector
        self._is_gateway = is_gateway
        self._seconds = lease_seconds
        self._raw: Raw | None = None
        self._renewing: asyncio.Task[None] | None = None
        self.own = os.urandom(16).hex()
        """The name of this process's lease. Each row of its open work has this name in the column `run`."""

    async def take(self) -> None:
        """Take the lease. Raises `StoreError` when another gateway uses the database, or it can't be used."""
        raw = await self._connector.connect("lease")
        try:
            await self.check_sessions(raw)
            await self._lock(raw)
            await raw.execute(_SAVE, self.own, describe_process(), self._is_gateway)
            if self._is_gateway:  # this process has the lock of all gateways: so no earlier one lives
                await raw.execute("DELETE FROM leases WHERE is_gateway AND id <> $1", self.own)
            await self._wait_for_undecided(raw)
        except Exception as error:
            await close_quietly(raw)
            if is_database_error(error):
                raise store_error(error, self._connector.address) from error
            raise
        self._raw = raw
        self._renewing = asyncio.create_task(self._renew_often())

    async def renew(self) -> None:
        """Renew the lease now. Raises `StoreError` when it is lost."""
        if self._raw is None or not await self._renew(self._raw):
            raise StoreError(self._lose("Another process has taken over what this one worked on"))

    async def release(self) -> None:
        """Give the lease up. Other processes may close what this one left open."""
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait([self._renewing])
            self._renewing = None
        raw, self._raw = self._raw, None
        if raw is not None:
            with contextlib.suppress(Exception):  # without this the lease ends by its time
                await raw.execute("DELETE FROM leases WHERE id = $1", self.own)
            await close_quietly(raw)

    async def is_alive(self, holder: str) -> bool:
        """Whether the process that took this lease still lives. A lost lease is deleted: it never lives again."""
        alive = await self._database.fetch_one(_IS_ALIVE, (holder, self._seconds))
        if alive is None:
            return False
        if not alive[0]:
            return await self._database.execute(_DELETE_LOST, (holder, self._seconds)) == 0
        return True

    async def sweep(self, *, is_node: bool = True) -> None:
        """Remove the rows of processes that are gone; `is_node`: those of nodes, too."""
        sql = _SWEEP if is_node else f"{_SWEEP} AND id NOT IN (SELECT id FROM nodes)"
        await self._database.execute(sql, (self._seconds,))

    # The connection that holds the locks.

    async def check_sessions(self, raw: Raw) -> None:
        """Raise `StoreError` when a connection changes its process of the server (PgBouncer in transaction mode)."""

        async def look_beside(other: TableConnection) -> tuple[int, int]:
            return await other.fetch_value(_BACKEND), await raw.fetchval(_BACKEND)

        before = await raw.fetchval(_BACKEND)
        beside, after = await self._database.read(look_beside)
        if before != after or before == beside:
            raise StoreError(f"The database {self._connector.address.name} can't be used: {TRANSACTION_MODE}.")

    async def _lock(self, raw: Raw) -> None:
        """Take the lock of this lease; for a gateway the one lock of all gateways, too."""
        await raw.execute(f"SELECT pg_advisory_lock({_KEY.format('$1::text')})", self.own)
        if not self._is_gateway:
            return
        key = _KEY.format("'the gateway'")
        await raw.execute(f"SET lock_timeout = {_GATEWAY_WAITS}")
        try:
            await raw.execute(f"SELECT pg_advisory_lock({key})")
        except Exception as error:
            if getattr(error, "sqlstate", "") != "55P03":
                raise
            raise StoreError(await self.name_holder(raw)) from None
        finally:
            if not raw.is_closed():
                await raw.execute(f"SET lock_timeout = {int(self._connector.address.timeout * 1000)}")

    async def name_holder(self, raw: Raw) -> str:
        """Return why this gateway is refused, and which one has the database."""
        row = await raw.fetchrow(_HOLDER)
        holder = f"{row['holder']}, since {row['taken']:%Y-%m-%d %H:%M:%S} UTC" if row else "an unknown process"
        text = f"Another gateway uses the database {self._connector.address.name}: {holder}."
        return f"{text} Stop that one, or give this one another `store.url`."

    async def _wait_for_undecided(self, raw: Raw) -> None:
        """Wait until every other lease is held or over: so a start after a crash finds all that was left open."""
        for _ in range(_LARGEST_SHARE * 2):
            if await raw.fetchval(_UNDECIDED, self.own, self._seconds) == 0:
                return
            await asyncio.sleep(self._seconds / _LARGEST_SHARE)

    async def _renew_often(self) -> None:
        """Renew the lease in time. Make the connection anew when it broke."""
        while True:
            await asyncio.sleep(self._seconds / _LARGEST_SHARE)
            try:
                if self._raw is None or self._raw.is_closed():
                    self._raw = await self._return()
                elif not await self._renew(self._raw):
                    self._lose("Another process has taken over what this one worked on")
                    return
            except StoreError:
                continue  # not to be reached now; or refused, and said by `_return`
            except Exception as error:
                if not is_database_error(error):
                    raise
                if self._raw is not None:
                    self._raw.terminate()

    async def _renew(self, raw: Raw) -> bool:
        is_here = await raw.fetchval(_RENEW, self.own)
        if is_here is False:
            self._lose(f"The database can't be used: {TRANSACTION_MODE}.")
        return is_here is not None

    async def _return(self) -> Raw:
        """Take the locks again on a new connection. Ends the server's side of the old one, which may not know yet."""
        raw = await self._connector.connect("lease")
        try:
            await raw.execute(_END_OLD, self.own)
            await self._lock(raw)
            if await raw.execute(_MOVE, self.own) == "UPDATE 0":
                raise StoreError("Another process has taken over what this one worked on")
        except StoreError as error:
            self._lose(error.message)
            raw.terminate()
            raise
        except BaseException:
            raw.terminate()
            raise
        return raw

    def _lose(self, reason: str) -> str:
        text = reason if reason.endswith(".") else f"{reason}. Restart this gateway."
        self._database.stop_writes(text)
        return text


def describe_process() -> str:
    """Return where this process runs, for people."""
    return f"{os.path.basename(sys.argv[0] or 'python')} on {socket.gethostname()}, process {os.getpid()}"
