"""Ordinary work for a long time: does memory stay what it is? `--scale 6` makes an hour of the ten minutes.

Calls over REST, chats that begin and end, one chat that never ends, devices that come and go.
"""

import asyncio
from pathlib import Path
from typing import Final

from msgspec import Struct

from handspan.testing import FakeDevice, GatewayProcess, offer
from tests.chaos.figures import Figure, none_of
from tests.chaos.hostile import Good
from tests.chaos.kills import PLAIN_PROCESS
from tests.chaos.rest import RestCaller
from tests.waiting import until

_MEGABYTE: Final = 1024 * 1024
_TEN_MINUTES: Final = 600
_WARM: Final = 2 / 3
"""The share of the time in which memory still grows to what the work needs: caches fill, and the heap finds its peak.

SQLite's cache of the writer is full, at 2 MB, after the first minute. A real leak grows in the last third as in the
first.
"""
_READS_AT_ONCE: Final = 32


class Scale(Struct, frozen=True):
    """How much of it."""

    seconds: int = _TEN_MINUTES


SHORT: Final = Scale(2)


class Soak:
    """Clients that work until the time is over."""

    def __init__(self, gateway: GatewayProcess) -> None:
        self._gateway = gateway
        self.turns = 0
        self.connections = 0
        self.is_over = False

    def _device(self) -> FakeDevice:
        return FakeDevice(self._gateway.url, self._gateway.token)

    async def chat_for_ever(self) -> None:
        """One chat; a turn of a few words every five seconds. Its history is all that may grow: 3.6 KB a turn, which
        is 0.43 MB in ten minutes. With more than 64 other chats in five seconds it is loaded anew for each turn.
        """
        async with self._device() as client:
            await client.connect(role="chat")
            while not self.is_over:
                await self._turn(client)
                await asyncio.sleep(5)

    async def chat_anew(self) -> None:
        """A chat of three turns, and then another one."""
        while not self.is_over:
            async with self._device() as client:
                await client.connect(role="chat")
                self.connections += 1
                for _ in range(3):
                    await self._turn(client)

    async def come_and_go(self) -> None:
        """A device that offers a tool and leaves."""
        while not self.is_over:
            async with self._device() as device:
                await device.connect(label="guest")
                await device.register(offer("lamp"))
                self.connections += 1
            await asyncio.sleep(0.05)

    async def read_at_once(self) -> None:
        """Many requests that read, at once. The gateway then has all threads and connections to the database that it
        ever has: each takes 0.3 MB, whenever the work first needs one more, and that would look like a leak.
        """
        caller = RestCaller(self._gateway.url, self._gateway.token)
        try:
            for _ in range(4):
                search = "/api/sessions/search?query=nothing"
                await asyncio.gather(*(caller.get(search) for _ in range(_READS_AT_ONCE)))
        finally:
            await caller.close()

    async def _turn(self, client: FakeDevice) -> None:
        await client.send({"type": "message", "content": "what is 2 + 3?"})
        await client.expect("done", 60)
        client.heard.clear()
        self.turns += 1


async def soak(folder: Path, scale: Scale, seed: int) -> list[Figure]:
    """The slope of memory, and how much was done."""
    async with GatewayProcess(folder, environ=PLAIN_PROCESS) as gateway:
        good, work = Good(gateway), Soak(gateway)
        try:
            async with good.device, asyncio.TaskGroup() as group:
                for task in (good.call(0), work.chat_for_ever(), work.chat_anew(), work.come_and_go()):
                    group.create_task(task)
                await until(lambda: len(good.took) > 20 and work.turns > 3)
                await work.read_at_once()
                memory = await _watch(gateway, scale.seconds)
                good.is_over.set()
                work.is_over = True
        finally:
            await good.close()
    steady = memory[int(_WARM * len(memory)) :]
    slope = find_slope(steady) * _TEN_MINUTES
    is_long = scale.seconds >= _TEN_MINUTES
    return [
        Figure("calls", len(good.took), at_least=1),
        none_of("  lost", good.lost),
        Figure("turns", work.turns, at_least=1),
        Figure("connections", work.connections, at_least=1),
        Figure("memory at the beginning", memory[0][1], "MB"),
        Figure("memory at the end", memory[-1][1], "MB"),
        Figure("slope of memory in ten minutes", slope, "MB", at_most=1 if is_long else None),
    ]


async def _watch(gateway: GatewayProcess, seconds: float) -> list[tuple[float, float]]:
    """Seconds and megabytes, ten samples a second at the most."""
    loop = asyncio.get_running_loop()
    began, seen = loop.time(), list[tuple[float, float]]()
    while not seen or loop.time() - began < seconds:
        seen.append((loop.time() - began, gateway.memory / _MEGABYTE))
        await asyncio.sleep(max(0.1, seconds / 1000))
    return seen


def find_slope(points: list[tuple[float, float]]) -> float:
    """The slope of the line that is nearest to these points; 0 for fewer than two."""
    if len(points) < 2:
        return 0.0
    middle = sum(at for at, _ in points) / len(points), sum(value for _, value in points) / len(points)
    spread = sum((at - middle[0]) ** 2 for at, _ in points)
    return sum((at - middle[0]) * (value - middle[1]) for at, value in points) / spread if spread else 0.0
