"""Three nodes are stopped and started again, one after the other, while people talk at all of them.

Every turn has two rounds with calls of devices. A person whose link is closed goes to another node, and says the same
message again under its id. At the end every message was answered once, no turn was aborted, and no call ran twice.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Final

from msgspec import Struct
from websockets.exceptions import WebSocketException

from handspan.client import Client
from handspan.testing import FakeDevice, GatewayProcess
from handspan.testing.device import NotSaid
from tests.chaos.figures import Figure, none_of
from tests.nats_engine import NatsEngine
from tests.nodes.gateways import make_node, tools_of
from tests.postgres_engine import PostgresEngine, run_sql_at
from tests.waiting import until

_NODES: Final = 3
_PATIENCE: Final = 120.0
_TOKEN: Final = "operator-of-all-nodes-0123456789abcdef"
"""One for all nodes: a token of a node's own is revoked when the node stops, and the device could not come back."""
_TURN: Final = "call arm__lift {}\nthen\ncall arm__lift {}\nthen\nDone with {results}"


class Scale(Struct, frozen=True):
    """How much of it."""

    rounds: int = 4
    """How often each node is stopped."""
    people: int = 6


SHORT: Final = Scale(1, 2)


class _Talks:
    """People who talk, each in a session of their own, and the device that their turns call."""

    def __init__(self, nodes: list[GatewayProcess], people: int, seed: int) -> None:
        self.nodes = nodes
        self.is_over = asyncio.Event()
        self.answers: dict[str, str] = {}
        self.returns = 0
        self._people = people
        self._chance = Random(f"{seed}/people")

    async def device(self) -> None:
        """Lift until it is cancelled. The device comes back to the node that it began with."""
        node = self.nodes[0]
        client = Client(node.url, node.token, label="arm", concurrency=16)

        @client.tool
        async def lift() -> str:
            """Lift a parcel."""
            await asyncio.sleep(self._chance.random() * 0.3)
            return "lifted"

        await client.run()

    async def person(self, number: int) -> None:
        """Say one thing after the other until it is over."""
        count = 0
        while not self.is_over.is_set():
            count += 1
            message = f"{number}-{count}"
            self.answers[message] = ""
            async with asyncio.timeout(_PATIENCE):
                while not self.answers[message]:
                    with contextlib.suppress(OSError, NotSaid, WebSocketException):  # its node stops: go to another one
                        self.answers[message] = await self._say(f"talk-{number}", message)
                        continue
                    self.returns += 1
                    await asyncio.sleep(0.05)

    async def _say(self, session: str, message: str) -> str:
        node = self._chance.choice([one for one in self.nodes if one.is_running] or self.nodes)
        async with FakeDevice(node.url, node.token) as chat:
            await chat.connect(role="chat", session_id=session, capabilities=["resume"])
            await chat.send({"type": "message", "content": _TURN, "id": message})
            return str((await chat.expect("done", 30))["full_response"])

    @contextlib.asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """Everything talks inside."""
        device = asyncio.create_task(self.device())
        await until(lambda: _all_list(self.nodes))
        people = [asyncio.create_task(self.person(number)) for number in range(self._people)]
        try:
            yield
        finally:
            self.is_over.set()
            await asyncio.gather(*people)
            device.cancel()  # not before: the last turns still call it
            await asyncio.gather(device, return_exceptions=True)


async def _all_list(nodes: list[GatewayProcess]) -> bool:
    return all(["arm__lift" in await tools_of(node) for node in nodes])


async def drain(folder: Path, scale: Scale, seed: int) -> list[Figure]:
    """Every promise of a rolling restart."""
    engine = PostgresEngine()
    try:
        await asyncio.to_thread(engine.start)
        with NatsEngine() as nats:
            nodes = [
                make_node(folder, f"node{number}", engine.url, nats.url, cluster__operator_token=_TOKEN)
                for number in range(_NODES)
            ]
            async with contextlib.AsyncExitStack() as stack:
                for node in nodes:
                    await stack.enter_async_context(node)
                return await _rolled(nodes, engine.url, scale, seed)
    finally:
        engine.remove()


async def _rolled(nodes: list[GatewayProcess], database: str, scale: Scale, seed: int) -> list[Figure]:
    talks, codes = _Talks(nodes, scale.people, seed), list[int]()
    async with talks.at_work():
        for node in nodes * scale.rounds:
            codes.append(await node.terminate(_PATIENCE))
            await node.start()
            await until(lambda: _all_list(nodes))
    unfinished = run_sql_at(database, "SELECT id, state FROM sessions WHERE state <> 'idle'")
    twice = run_sql_at(
        database,
        "SELECT session, convert_from(body, 'UTF8')::json->>'id' FROM messages"
        " WHERE convert_from(body, 'UTF8') LIKE '{\"type\":\"user\"%' GROUP BY 1, 2 HAVING count(*) > 1",
    )
    # A call that begins while the device is on its way back to its node is refused: it did not run.
    failed = run_sql_at(database, "SELECT id, status FROM calls WHERE status NOT IN ('success', 'tool_not_available')")
    aborted = run_sql_at(
        database, "SELECT session, seq FROM messages WHERE convert_from(body, 'UTF8') LIKE '%\"stop\":\"aborted\"%'"
    )
    wrong = [f"{message}: {answer}" for message, answer in talks.answers.items() if not answer.startswith("Done with")]
    return [
        Figure("messages that were answered", sum(map(bool, talks.answers.values())), at_least=1),
        none_of("messages without an answer", (one for one, answer in talks.answers.items() if not answer)),
        none_of("wrong answers", wrong),
        none_of("messages that were stored twice", map(str, twice)),
        none_of("replies that were aborted", map(str, aborted)),
        none_of("calls that failed", map(str, failed)),
        none_of("sessions with a turn", map(str, unfinished)),
        none_of("nodes that ended with an error", (str(code) for code in codes if code)),
        Figure("people who went to another node", talks.returns),
        Figure("nodes that were stopped", len(codes)),
    ]
