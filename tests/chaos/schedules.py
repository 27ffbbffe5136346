"""kill -9 of gateways while schedules are due, on one node and on three: each time is said once (SPEC J1)."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Final
from unittest import mock

from msgspec import Struct

from handspan.core.principals import OPERATOR
from handspan.core.schedules import At, Maker, Schedule, SchedulePlan
from handspan.testing import GatewayProcess
from tests.chaos.figures import Figure, none_of
from tests.chaos.kills import PLAIN_PROCESS
from tests.nats_engine import NatsEngine
from tests.nodes.gateways import make_node
from tests.postgres_engine import schema_url
from tests.stores import CHOSEN, open_store, rows_in

_FIRST_SECONDS: Final = 5.0
"""Until the first one is due, about when the gateways are up."""
_WAIT: Final = 900.0


class Scale(Struct, frozen=True):
    """How much of it."""

    times: int = 1000
    seconds: int = 60
    kills: int = 20


SHORT: Final = Scale(40, 4, 2)


async def schedules(folder: Path, scale: Scale, seed: int) -> list[Figure]:
    """The figures of one gateway."""
    state = folder / "state"
    async with _gateway(folder, state, scale) as gateways:
        return await _kill_while_due(gateways, state, scale, seed)


async def node_schedules(folder: Path, scale: Scale, seed: int) -> list[Figure]:
    """The figures of three nodes."""
    with mock.patch.dict(os.environ, {CHOSEN: "postgres"}), NatsEngine() as nats:
        state = folder / "state"
        await _add(state, scale)
        nodes = [make_node(folder, f"node{number}", schema_url(state), nats.url) for number in range(3)]
        try:
            await asyncio.gather(*(node.start() for node in nodes))
            return await _kill_while_due(nodes, state, scale, seed)
        finally:
            await asyncio.gather(*(node.kill() for node in nodes if node.is_running))


@asynccontextmanager
async def _gateway(folder: Path, state: Path, scale: Scale) -> AsyncIterator[Sequence[GatewayProcess]]:
    gateway = GatewayProcess(folder, environ=PLAIN_PROCESS)
    assert gateway.state == state
    await _add(state, scale)
    async with gateway:
        yield [gateway]


async def _add(state: Path, scale: Scale) -> None:
    """Store what will be due."""
    async with open_store(state) as store:
        now = store.ledger.now()
        for number in range(scale.times):
            at = round(now + _FIRST_SECONDS + scale.seconds * number / scale.times, 3)
            plan = SchedulePlan(At(at), f"Hello, number {number}.", deliver="none")
            await store.schedules.add(Schedule(f"s{number}", plan, Maker(OPERATOR.owner, ("chat",)), now, at))


async def _kill_while_due(gateways: Sequence[GatewayProcess], state: Path, scale: Scale, seed: int) -> list[Figure]:
    chance = Random(f"{seed}/schedules")

    def count(sql: str) -> int:
        return int(str(rows_in(state, f"SELECT COUNT(*) FROM {sql}")[0][0]))

    for _ in range(scale.kills):
        await asyncio.sleep(chance.random() * 2 * scale.seconds / scale.kills)
        gateway = chance.choice(gateways)
        await gateway.kill()
        await gateway.start()
    async with asyncio.timeout(_WAIT):
        while count("schedule_runs WHERE state = 'done'") < scale.times:
            await asyncio.sleep(0.2)
    ours = "WHERE id LIKE 'scheduled-%'"
    wrong = rows_in(state, f"SELECT id, length FROM sessions {ours} AND length <> 2")
    ends = rows_in(state, "SELECT reason, text FROM schedule_runs WHERE reason <> 'done'")
    logs = [one.log for one in gateways]
    return [
        Figure("kills", scale.kills),
        Figure("due times", scale.times),
        Figure("runs", count("schedule_runs"), at_least=scale.times, at_most=scale.times),
        Figure("chats", count(f"sessions {ours}"), at_least=scale.times, at_most=scale.times),
        none_of("chats with other than one message and one answer", map(str, wrong)),
        none_of("runs that did not end well", map(str, ends)),
        none_of("tracebacks in the log", [log[log.index("Traceback") :][:4000] for log in logs if "Traceback" in log]),
    ]
