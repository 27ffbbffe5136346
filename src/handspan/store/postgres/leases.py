"""Which processes are alive, as rows with the database's clock (SPEC A2, K1).

Each process holds a lock of the database on a connection of its own, and renews its row every second. The server
releases the lock when the connection is gone. A process without its lock has `lease_seconds` to come back. A lease that
counted as lost is deleted, and its process writes nothing any more.
"""

import asyncio
import os
from typing import Final

from handspan.core.errors import StoreError
from handspan.store.postgres.connections import TRANSACTION_MODE, Raw
from handspan.store.postgres.database import PostgresDatabase
from handspan.store.postgres.lease_connection import LOCKED, OWN_KEY, RENEWALS, LeaseConnection

LEASE_SECONDS: Final = 3.0
_TAKEN_OVER: Final = "Another process has taken over what this one worked on"

_RENEW: Final = "UPDATE leases SET seen = clock_timestamp() WHERE id = $1 RETURNING backend = pg_backend_pid()"
_MOVE: Final = "UPDATE leases SET seen = clock_timestamp(), backend = pg_backend_pid() WHERE id = $1"
_IS_ALIVE: Final = f"SELECT {LOCKED} OR seen > clock_timestamp() - make_interval(secs => $2) FROM leases WHERE id = $1"
_DELETE_LOST: Final = (
    f"DELETE FROM leases WHERE id = $1 AND NOT {LOCKED} AND seen <= clock_timestamp() - make_interval(secs => $2)"
)
_UNLOCKED: Final = (
    f"SELECT count(*) FROM leases WHERE id <> $1 AND NOT {LOCKED}"
    " AND seen > clock_timestamp() - make_interval(secs => $2)"
)
_SWEEP: Final = f"DELETE FROM leases WHERE NOT {LOCKED} AND seen <= clock_timestamp() - make_interval(secs => $1)"
_END_OLD: Final = (  # after a failover this pid may be another process, of another server: so compare the name, too
    "SELECT pg_terminate_backend(pid) FROM leases JOIN pg_stat_activity ON pid = backend"
    " WHERE id = $1 AND pid <> pg_backend_pid() AND application_name = current_setting('application_name')"
)


class RowLeases:
    """A lease is a row of the database and a lock that belongs to a connection. Implements `Leases`."""

    def __init__(
        self, database: PostgresDatabase, *, is_gateway: bool = False, lease_seconds: float = LEASE_SECONDS
    ) -> None:
        """`is_gateway`: this process is a gateway, and only one gateway may use the database."""
        self._database = database
        self._is_gateway = is_gateway
        self._seconds = lease_seconds
        self._connection = LeaseConnection(database, lease_seconds)
        self.own = os.urandom(16).hex()
        """The name of this process's lease. Each row of its open work has this name in the column `run`."""
        self.shares_turns = False

    async def take(self) -> None:
        """Take the lease. Raises `StoreError` when another gateway uses the database, or when it can't be used."""
        await self._connection.open(self._join, self._renew_or_stop, self._come_back)

    async def renew(self) -> None:
        if not await self._connection.renew(self._renew):
            raise StoreError(self._lose(_TAKEN_OVER))

    async def release(self) -> None:
        await self._connection.close(self.own)

    async def is_alive(self, holder: str) -> bool:
        """Whether the process that took this lease still lives. A lost lease is deleted: it never lives again."""
        alive = await self._database.fetch_one(_IS_ALIVE, (holder, self._seconds))
        if alive is None:
            return False
        if not alive[0]:
            return await self._database.execute(_DELETE_LOST, (holder, self._seconds)) == 0
        return True

    async def sweep(self, *, is_node: bool = True) -> None:
        """Remove the leases of processes that are gone; `is_node`: those of nodes, too."""
        sql = _SWEEP if is_node else f"{_SWEEP} AND id NOT IN (SELECT id FROM nodes)"
        await self._database.execute(sql, (self._seconds,))

    # Over the connection that holds the locks.

    async def _join(self, raw: Raw) -> None:
        await self._lock(raw)
        await self._connection.add_row(raw, self.own, is_gateway=self._is_gateway)
        if self._is_gateway:  # this process has the lock of all gateways: so no earlier gateway lives
            await raw.execute("DELETE FROM leases WHERE is_gateway AND id <> $1", self.own)
        await self._wait_for_unlocked(raw)

    async def _lock(self, raw: Raw) -> None:
        """Take the lock of this lease; for a gateway the one lock of all gateways, too."""
        await raw.execute(f"SELECT pg_advisory_lock({OWN_KEY})", self.own)
        if self._is_gateway:
            await self._connection.lock_gateway(raw, is_shared=False)

    async def _wait_for_unlocked(self, raw: Raw) -> None:
        """Wait until every other lease is locked by its process or has expired, for two lease times at most.

        So a start after a crash finds all work that was left open.
        """
        for _ in range(RENEWALS * 2):
            if await raw.fetchval(_UNLOCKED, self.own, self._seconds) == 0:
                return
            await asyncio.sleep(self._seconds / RENEWALS)

    async def _renew_or_stop(self, raw: Raw) -> bool:
        """Renew the lease. Stop all writes if it is lost. Return whether it still counts."""
        counts = await self._renew(raw)
        if not counts:
            self._lose(_TAKEN_OVER)
        return counts

    async def _renew(self, raw: Raw) -> bool:
        """Renew the row of the lease. Return False if the row is gone."""
        is_same_backend = await raw.fetchval(_RENEW, self.own)
        if is_same_backend is False:
            self._lose(f"The database can't be used: {TRANSACTION_MODE}.")
        return is_same_backend is not None

    async def _come_back(self, raw: Raw) -> bool:
        """Take the locks again on a new connection. First end the server's side of the old one: it may still stand."""
        await raw.execute(_END_OLD, self.own)
        try:
            await self._lock(raw)
            if await raw.execute(_MOVE, self.own) == "UPDATE 0":
                raise StoreError(_TAKEN_OVER)
        except StoreError as error:
            self._lose(error.message)
            raise
        return True

    def _lose(self, reason: str) -> str:
        """Stop all writes of this process. Return the text that says why."""
        text = reason if reason.endswith(".") else f"{reason}. Restart this gateway."
        self._database.stop_writes(text)
        return text
