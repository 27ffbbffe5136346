"""The leases of nodes: several gateways use one database, and each lives by its row (SPEC K; A2).

A node renews its row three times in the time of a lease, by the database's clock. Only the row counts, not the
connection: a frozen node loses its lease though its connection stands. A lease that is over is deleted with all rows of
the node, and never lives again: the node notices that its row is gone, and joins again under a new id.
"""

import logging
import math
import os
import time
from collections.abc import Callable
from typing import Final

from handspan.core.errors import StoreError
from handspan.core.version import VERSION
from handspan.store.postgres.connections import Raw
from handspan.store.postgres.database import PostgresDatabase
from handspan.store.postgres.lease_connection import GATEWAY_KEY, OWN_KEY, LeaseConnection
from handspan.store.postgres.leases import LEASE_SECONDS, RowLeases

_log = logging.getLogger(__name__)

_ADD_NODE: Final = "INSERT INTO nodes (id, name, address, version, role, numbered) VALUES ($1, $2, $3, $4, $5, TRUE)"
_RENEW: Final = (
    "UPDATE leases SET seen = clock_timestamp() WHERE id = $1"
    " RETURNING EXTRACT(EPOCH FROM clock_timestamp())::double precision"
)
_IS_OVER: Final = "leases.seen <= clock_timestamp() - make_interval(secs => {})"
_FIND: Final = f"SELECT {_IS_OVER.format('?/*double precision*/')} FROM leases JOIN nodes USING (id) WHERE id = ?"
_LOST: Final = f"SELECT id FROM leases JOIN nodes USING (id) WHERE {_IS_OVER.format('?/*double precision*/')}"
_DELETE_LOST: Final = f"DELETE FROM leases WHERE id = ? AND {_IS_OVER.format('?/*double precision*/')}"
_FORGET_REQUESTS: Final = (  # a request without an answer still runs; after a day its node failed to store the answer
    "DELETE FROM asked_requests WHERE at < clock_timestamp()"
    " - CASE WHEN answer IS NULL THEN interval '1 day' ELSE interval '1 hour' END"
)


class NodeLeases:
    """The lease of this node, and which leases of other nodes are over. Implements `Leases`."""

    def __init__(
        self,
        database: PostgresDatabase,
        *,
        name: str,
        role: str,
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        """`name` and `role` are for people, and for the other nodes."""
        self._database = database
        self._others = RowLeases(database, lease_seconds=lease_seconds)
        """Knows the leases of processes that are no nodes, such as commands."""
        self._connection = LeaseConnection(database, lease_seconds)
        self._connection.on_missed = _log_missed
        self._seconds = lease_seconds
        self._name = name
        self._role = role
        self.address = ""
        """Where this node answers requests."""
        self._ahead = 0.0
        """Seconds that the database's clock is ahead of the clock of this node."""
        self._renewed_at = -math.inf
        """When the lease was last renewed, by the monotonic clock."""
        self._steady_since = math.inf
        """Since when the lease was always renewed in time."""
        self.own = os.urandom(16).hex()
        """The incarnation of this node. Each row of its open work has this id in the column `run`."""
        self.shares_turns = True
        """Other nodes go on with turns that this one hands over; a gateway alone has no others (`Leases`)."""
        self.on_lost: Callable[[str], None] = lambda old: None
        """Is called with the old incarnation when other nodes counted it as lost. `own` is the new one by then."""

    def renew_while(self, may_renew: Callable[[], bool]) -> None:
        """Renew the lease only while `may_renew` returns True: a node that others can't reach must lose its lease."""
        self._connection.may_renew = may_renew

    async def take(self) -> None:
        """Join the other nodes. Raises `StoreError` when a lone gateway uses the database, or when it can't be used."""
        await self._connection.open(self._join_first, self._renew_or_join, self._come_back)

    async def renew(self) -> None:
        if not await self._connection.renew(self._renew):
            raise StoreError("The other nodes counted this one as lost. It joins again by itself.")

    async def release(self) -> None:
        await self._connection.close(self.own)

    async def is_alive(self, holder: str) -> bool:
        """Whether the process that took this lease still lives. A lost lease is deleted: it never lives again."""
        is_over = await self._database.fetch_one(_FIND, (self._seconds, holder))
        if is_over is None:
            return await self._others.is_alive(holder)
        if is_over[0] and self.can_judge:
            return await self._database.execute(_DELETE_LOST, (holder, self._seconds)) == 0
        return True

    async def lost_nodes(self) -> list[str]:
        """Return the nodes whose lease is over; no node while `can_judge` is False."""
        if not self.can_judge:
            return []
        rows = await self._database.fetch_all(_LOST, (self._seconds,))
        return [node for (node,) in rows if node != self.own]

    @property
    def can_judge(self) -> bool:
        """Whether this node may count others as lost: its own lease had no gap for a while.

        After an outage of the database, all leases look old.
        """
        now = time.monotonic()
        return now - self._steady_since >= self._seconds and now - self._renewed_at <= self._seconds

    async def sweep(self) -> None:
        """Remove the leases of commands that are gone, and the rows of old requests."""
        await self._others.sweep(is_node=False)
        await self._database.execute(_FORGET_REQUESTS)

    def now(self) -> float:
        """Return the time of day by the database's clock: the clocks of nodes differ, and expiry has to be the same."""
        return time.time() + self._ahead

    # Over the connection that holds the locks.

    async def _join_first(self, raw: Raw) -> None:
        await self._join(raw)
        await self._renew(raw)

    async def _join(self, raw: Raw) -> None:
        """Take the lock that keeps a lone gateway out, then enter this node."""
        await self._connection.lock_gateway(raw, is_shared=True)
        await raw.execute(f"SELECT pg_advisory_lock({OWN_KEY})", self.own)  # commands see by it that this node lives
        async with raw.transaction():
            await self._connection.add_row(raw, self.own, is_gateway=False)
            node = (self.own, self._name, self.address, VERSION, self._role)
            await raw.execute(_ADD_NODE, *node)

    async def _renew_or_join(self, raw: Raw) -> bool:
        """Renew the lease, or join again if it is lost. Return True: a node always has a lease then."""
        if not await self._renew(raw):
            await self._join_again(raw)
        return True

    async def _renew(self, raw: Raw) -> bool:
        """Renew the row of the lease, and read the database's clock. Return False if the row is gone."""
        asked = time.time()
        database_time = await raw.fetchval(_RENEW, self.own)
        if database_time is None:
            return False
        self._ahead = database_time - (asked + time.time()) / 2
        self._note_renewal()
        return True

    async def _come_back(self, raw: Raw) -> bool:
        """Renew the lease over a new connection, and take its locks again."""
        if not await self._renew(raw):
            await self._join_again(raw)
        else:
            await raw.execute(f"SELECT pg_try_advisory_lock_shared({GATEWAY_KEY})")
            await raw.execute(f"SELECT pg_try_advisory_lock({OWN_KEY})", self.own)
        return True

    async def _join_again(self, raw: Raw) -> None:
        """Join the other nodes under a new incarnation, and call `on_lost`."""
        old, self.own = self.own, os.urandom(16).hex()
        self._steady_since = math.inf
        try:
            await self._join(raw)
        except BaseException:
            self.own = old
            raise
        self._note_renewal()
        _log.warning("The other nodes counted this one as lost: it has joined them again.")
        self.on_lost(old)

    def _note_renewal(self) -> None:
        now = time.monotonic()
        if now - self._renewed_at > self._seconds:
            self._steady_since = now
        self._renewed_at = now


def _log_missed(error: StoreError) -> None:
    _log.warning("The lease of this node was not renewed: %s", error)
