"""PostgreSQL fails over, again and again, while devices work and callers call.

Two real servers: a primary, and a replica that it waits for with each commit. The primary is killed, the replica is
promoted, and the next replica is made of it. The gateway has the addresses of all of them. Promised: what was told is
stored, on whichever server; the gateway heals without a restart, and its loop is never held up.
"""

import asyncio
import signal
import time
from pathlib import Path
from typing import Final

from msgspec import Struct

from handspan.store.postgres.connections import StoreAddress
from handspan.store.postgres.store import postgres_store
from tests.chaos.figures import Figure, none_of, percentile
from tests.chaos.outages import Outages, at_work, told_figures
from tests.chaos.witness import StoredCall, kept, read_journal
from tests.postgres_engine import HOW_TO_INSTALL, PostgresEngine, debian_programs, find_programs, run_sql_at
from tests.waiting import until


class Scale(Struct, frozen=True):
    """How much of it."""

    failovers: int = 4


SHORT: Final = Scale(1)


class _Servers:
    """The primary first, then its replicas, each of the one before it."""

    def __init__(self, count: int) -> None:
        self.primary = PostgresEngine(programs=debian_programs())
        self.all = [self.primary]
        self._count = count

    def start(self) -> None:
        self.primary.start()
        for _ in range(self._count):
            self.all.append(PostgresEngine(programs=debian_programs(), primary=self.primary))
            self.all[-1].start()
        self._wait_for_replicas()

    def fail_over(self) -> None:
        """Kill the primary as a power failure would, promote the next one, and let the others follow it."""
        old, self.primary = self.primary, self.all[self.all.index(self.primary) + 1]
        old.stop(signal.SIGQUIT)
        self.primary.promote()
        for replica in self.all[self.all.index(self.primary) + 1 :]:
            source = f"host=127.0.0.1 port={self.primary.port} user=postgres application_name=replica"
            run_sql_at(replica.url, f"ALTER SYSTEM SET primary_conninfo = '{source}'")
            run_sql_at(replica.url, "SELECT pg_reload_conf()")
        self._wait_for_replicas()

    def _wait_for_replicas(self) -> None:
        """Let each commit wait for all replicas, once they follow."""
        left = len(self.all) - 1 - self.all.index(self.primary)
        while run_sql_at(self.primary.url, "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'") != [
            (left,)
        ]:
            time.sleep(0.05)
        names = f"{left} (replica)" if left else ""
        run_sql_at(self.primary.url, f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
        run_sql_at(self.primary.url, "SELECT pg_reload_conf()")

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{engine.port}" for engine in self.all)
        return f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write"

    def remove(self) -> None:
        for engine in self.all:
            engine.remove()


async def failover(folder: Path, scale: Scale, seed: int) -> list[Figure]:
    """The figures of all failovers; none without a server."""
    if find_programs() is None:
        return [Figure(f"not run: {HOW_TO_INSTALL}", 0)]
    servers = await asyncio.to_thread(_Servers, scale.failovers)
    try:
        await asyncio.to_thread(servers.start)
        return await _play(folder, scale, servers)
    finally:
        await asyncio.to_thread(servers.remove)


async def _play(folder: Path, scale: Scale, servers: _Servers) -> list[Figure]:
    said: list[str] = []
    health: list[float] = []
    environ = {"HANDSPAN_DATABASE_URL": servers.url, "HANDSPAN_STORE__TIMEOUT": "15"}
    async with at_work(folder, environ) as (working, device):
        for _ in range(scale.failovers):
            failing = asyncio.create_task(asyncio.to_thread(servers.fail_over))
            while not failing.done():
                health.append(await working.health_seconds())
                await asyncio.sleep(0.05)
            await failing
            await working.go_on()
        said.append(await _last_outage(working, servers))
        ran = len(device.ran)
    journal = await _journal(servers.primary.url, folder)
    return [
        Figure("failovers", scale.failovers),
        Figure("calls that the device ran", ran),
        Figure("slowest /health meanwhile", percentile(health, 1.0) * 1000, "ms", at_most=5000),
        *told_figures(working, journal),
        none_of("outages that doctor does not explain", [text for text in said if "can't be used" not in text]),
    ]


async def _last_outage(working: Outages, servers: _Servers) -> str:
    """What doctor says while no server is there; then the last one comes back."""
    await asyncio.to_thread(servers.primary.stop, signal.SIGQUIT)
    await until(lambda: _is_unready(working))
    said = await working.doctor()
    await asyncio.to_thread(servers.primary.start)
    await working.go_on()
    return said


async def _is_unready(working: Outages) -> bool:
    return not await working.is_ready()


async def _journal(url: str, folder: Path) -> dict[str, StoredCall]:
    async with postgres_store(StoreAddress(url), folder / "state") as store:
        return kept(await read_journal(store))
