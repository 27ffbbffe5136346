"""The leases of nodes: several gateways use one database, and each lives by its row (SPEC K; A2).

A node renews its row three times in the time of a lease, by the database's clock. No connection counts: a frozen node
loses its lease though its connection stands. A lease that is over is deleted with all that belongs to the node, so it
never lives again: the node notices that its row is gone, and joins again under a new id.
"""

import asyncio
import contextlib
import logging
import math
import os
import time
from collections.abc import Callable
from typing import Final

from handspan.core.errors import StoreError
from handspan.core.version import VERSION
from handspan.store.postgres.connections import Raw, close_quietly, is_database_error, store_error
from handspan.store.postgres.database import PostgresDatabase
from handspan.store.postgres.leases import LEASE_SECONDS, RowLeases, describe_process, lock_key

_log = logging.getLogger(__name__)
_SHARE: Final = 3
"""A lease is renewed so often in its time."""
_GATEWAY_WAITS: Final = 2000

_SAVE: Final = (
    "INSERT INTO leases (id, holder, is_gateway, backend, taken, seen)"
    " VALUES ($1, $2, FALSE, pg_backend_pid(), clock_timestamp(), clock_timestamp())"
)
_SAVE_NODE: Final = "INSERT INTO nodes (id, name, address, version, role) VALUES ($1, $2, $3, $4, $5)"
_RENEW: Final = (
    "UPDATE leases SET seen = clock_timestamp() WHERE id = $1"
    " RETURNING EXTRACT(EPOCH FROM clock_timestamp())::double precision"
)
_IS_OVER: Final = "leases.seen <= clock_timestamp() - make_interval(secs => {})"
_FIND: Final = f"SELECT {_IS_OVER.format('?/*double precision*/')} FROM leases JOIN nodes USING (id) WHERE id = ?"
_LOST: Final = f"SELECT id FROM leases JOIN nodes USING (id) WHERE {_IS_OVER.format('?/*double precision*/')}"
_DELETE_LOST: Final = f"DELETE FROM leases WHERE id = ? AND {_IS_OVER.format('?/*double precision*/')}"
_FORGET_REQUESTS: Final = "DELETE FROM asked_requests WHERE at < clock_timestamp() - interval '1 hour'"
_KEY: Final = lock_key("$1::text")


class NodeLeases:
    """The lease of this node, and what it sees of the others."""

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
        self._connector = database.connector
        self._others = RowLeases(database, lease_seconds=lease_seconds)
        """Knows the leases of processes that are no nodes, such as commands."""
        self._seconds = lease_seconds
        self._name = name
        self._role = role
        self.address = ""
        """Where this node answers requests."""
        self.may_renew: Callable[[], bool] = lambda: True
        """A node that the others can't reach gives no sign of life."""
        self._raw: Raw | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._ahead = 0.0
        """Seconds that the database's clock is ahead of ours."""
        self._renewed_at = -math.inf
        self._steady_since = math.inf
        self.own = os.urandom(16).hex()
        """The incarnation of this node. Each row of its open work has it in the column `run`."""
        self.on_lost: Callable[[str], None] = lambda old: None
        """Is called with the old incarnation when the others counted it as lost. `own` is the new one by then."""

    async def take(self) -> None:
        """Join the others. Raises `StoreError` when a gateway that is alone uses the database, or it can't be used."""
        raw = await self._connector.connect("lease")
        try:
            await self._others.check_sessions(raw)
            await self._join(raw)
            await self._renew(raw)
        except Exception as error:
            await close_quietly(raw)
            raise store_error(error, self._connector.address) if is_database_error(error) else error from error
        self._raw = raw
        self._renewing = asyncio.create_task(self._renew_often())

    async def renew(self) -> None:
        """Renew the lease now. Raises `StoreError` when it is lost."""
        if self._raw is None or not await self._renew(self._raw):
            raise StoreError("The other nodes counted this one as lost. It joins again by itself.")

    async def release(self) -> None:
        """Give the lease up. Other nodes may close what this one left open."""
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
        is_over = await self._database.fetch_one(_FIND, (self._seconds, holder))
        if is_over is None:
            return await self._others.is_alive(holder)
        if is_over[0] and self.can_judge:
            return await self._database.execute(_DELETE_LOST, (holder, self._seconds)) == 0
        return True

    async def lost_nodes(self) -> list[str]:
        """Return the nodes whose lease is over; no node while this one can't judge."""
        if not self.can_judge:
            return []
        rows = await self._database.fetch_all(_LOST, (self._seconds,))
        return [node for (node,) in rows if node != self.own]

    @property
    def can_judge(self) -> bool:
        """Whether its own lease had no gap for a while: after an outage of the database, all leases are old."""
        now = time.monotonic()
        return now - self._steady_since >= self._seconds and now - self._renewed_at <= self._seconds

    async def sweep(self) -> None:
        """Remove the rows of commands that are gone, and of requests that were answered long ago."""
        await self._others.sweep(is_node=False)
        await self._database.execute(_FORGET_REQUESTS)

    # The connection that renews.

    async def _join(self, raw: Raw) -> None:
        """Take the lock that keeps a lone gateway out, then enter this node."""
        await raw.execute(f"SET lock_timeout = {_GATEWAY_WAITS}")
        try:
            await raw.execute(f"SELECT pg_advisory_lock_shared({lock_key(repr('the gateway'))})")
        except Exception as error:
            if getattr(error, "sqlstate", "") != "55P03":
                raise
            raise StoreError(await self._others.name_holder(raw)) from None
        await raw.execute(f"SET lock_timeout = {int(self._connector.address.timeout * 1000)}")
        await raw.execute(f"SELECT pg_advisory_lock({_KEY})", self.own)  # commands see by it that this node lives
        async with raw.transaction():
            await raw.execute(_SAVE, self.own, describe_process())
            await raw.execute(_SAVE_NODE, self.own, self._name, self.address, VERSION, self._role)

    async def _renew_often(self) -> None:
        while True:
            await asyncio.sleep(self._seconds / _SHARE)
            if not self.may_renew():
                continue
            try:
                if self._raw is None or self._raw.is_closed():
                    self._raw = await self._return()
                elif not await self._renew(self._raw):
                    await self._join_again(self._raw)
            except StoreError as error:
                _log.warning("The lease of this node was not renewed: %s", error)
            except Exception as error:
                if not is_database_error(error):
                    raise
                if self._raw is not None:
                    self._raw.terminate()

    async def _renew(self, raw: Raw) -> bool:
        asked = time.time()
        database_time = await raw.fetchval(_RENEW, self.own)
        if database_time is None:
            return False
        self._ahead = database_time - (asked + time.time()) / 2
        self._note_renewal()
        return True

    def now(self) -> float:
        """Return the time of day of the database: the clocks of nodes differ, and what expires has to be the same."""
        return time.time() + self._ahead

    async def _return(self) -> Raw:
        """Go on with a new connection."""
        raw = await self._connector.connect("lease")
        try:
            if not await self._renew(raw):
                await self._join_again(raw)
            else:
                await raw.execute(f"SELECT pg_try_advisory_lock_shared({lock_key(repr('the gateway'))})")
                await raw.execute(f"SELECT pg_try_advisory_lock({_KEY})", self.own)
        except BaseException:
            raw.terminate()
            raise
        return raw

    async def _join_again(self, raw: Raw) -> None:
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
