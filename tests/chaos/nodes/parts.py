"""The faults of the parts of a fleet: each breaks one, lets some time pass, and mends it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from handspan.testing import FaultProxy
from tests.chaos.nodes.drill import Drill
from tests.nodes.gateways import LEASE
from tests.waiting import WAIT

_AWAY_SECONDS: Final = 10.0
"""The default of `cluster.away`: how long a node without NATS keeps its clients."""


async def kill_node(drill: Drill, place: int | None = None) -> None:
    """kill -9 of a node, and a start some seconds later."""
    node = drill.fleet.nodes[drill.place() if place is None else place]
    drill.done["node killed"] += 1
    await node.kill()
    await drill.pause(5)
    await node.start()


async def freeze_node(drill: Drill, seconds: float | None = None) -> None:
    """SIGSTOP, for less and for more than a lease."""
    place = drill.place()
    node = drill.fleet.nodes[place]
    drill.done["node frozen"] += 1
    node.freeze()
    drill.fleet.balancer.out.add(place)
    try:
        await asyncio.sleep(drill.chance.random() * 2 * LEASE if seconds is None else seconds)
    finally:
        node.thaw()
        drill.fleet.balancer.out.discard(place)


async def restart_node(drill: Drill, place: int | None = None) -> None:
    """SIGTERM, and a start when it has ended: as in an upgrade."""
    place = drill.place() if place is None else place
    node = drill.fleet.nodes[place]
    drill.done["node stopped"] += 1
    drill.fleet.balancer.out.add(place)
    try:
        code = await node.terminate(2 * WAIT)
        assert code == 0, f"the node ended with {code}: {node.log[-2000:]}"
        await node.start()
    finally:
        drill.fleet.balancer.out.discard(place)


async def kill_nats(drill: Drill, seconds: float | None = None) -> None:
    """kill -9 of a server of NATS."""
    server = drill.chance.choice(drill.fleet.nats)
    drill.done["nats killed"] += 1
    await asyncio.to_thread(server.stop)
    await asyncio.sleep(drill.chance.random() * 3 if seconds is None else seconds)
    await asyncio.to_thread(server.start)


async def freeze_nats(drill: Drill, seconds: float | None = None) -> None:
    """SIGSTOP of a server of NATS."""
    server = drill.chance.choice(drill.fleet.nats)
    drill.done["nats frozen"] += 1
    server.freeze()
    try:
        await asyncio.sleep(drill.chance.random() * 6 if seconds is None else seconds)
    finally:
        server.thaw()


async def stop_database(drill: Drill, seconds: float | None = None) -> None:
    """PostgreSQL ends all connections, and is away."""
    drill.done["database stopped"] += 1
    await asyncio.to_thread(drill.fleet.database.stop)
    await asyncio.sleep(drill.chance.random() * 6 if seconds is None else seconds)
    await asyncio.to_thread(drill.fleet.database.start)


FAULTS: Final[tuple[Callable[[Drill], Awaitable[None]], ...]] = (
    kill_node,
    freeze_node,
    restart_node,
    kill_nats,
    freeze_nats,
    stop_database,
)


async def cut_off(proxy: FaultProxy, seconds: float) -> None:
    """Break every connection of a node to one engine, and refuse new ones."""
    proxy.refuse()
    proxy.cut()
    await asyncio.sleep(seconds)
    proxy.heal()


async def silence(proxy: FaultProxy, seconds: float) -> None:
    """Let nothing pass between a node and one engine, with all connections open. Then they are broken."""
    proxy.half_open()
    await asyncio.sleep(seconds)
    proxy.cut()
    proxy.heal()


async def cut_off_from_nats(drill: Drill) -> None:
    """One node without NATS: for less and for more than it keeps its clients, with and without a sign of it."""
    for seconds, break_link in ((4.0, cut_off), (_AWAY_SECONDS + 4, cut_off), (8.0, silence)):
        drill.done["node cut off from NATS"] += 1
        await break_link(drill.chance.choice(drill.fleet.to_nats), seconds)
        await drill.load.works()


async def cut_off_from_database(drill: Drill) -> None:
    """One node without PostgreSQL: for less and for more than a lease, with and without a sign of it."""
    for seconds, break_link in ((LEASE / 2, cut_off), (LEASE * 3, cut_off), (LEASE * 3, silence)):
        drill.done["node cut off from PostgreSQL"] += 1
        await break_link(drill.chance.choice(drill.fleet.to_database), seconds)
        await drill.load.works()
