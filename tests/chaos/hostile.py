"""Hostile frames and requests, thousands of them, beside one client that does its work.

The hostile ones have a valid token, where one helps them: the worst case. Promised: no crash, no traceback, memory
comes back, and the good client loses none of its calls.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct
from websockets.exceptions import WebSocketException

from handspan.testing import DeviceLogic, DeviceRequest, FakeDevice, FaultProxy, GatewayProcess, NotSaid, offer
from tests.chaos.figures import Figure, none_of, percentile
from tests.chaos.hostile_frames import FORBIDDEN_FRAMES, HOSTILE_REQUESTS, hostile_text
from tests.chaos.kills import PLAIN_PROCESS
from tests.chaos.rest import RestCaller

_AT_ONCE: Final = 8
_MEGABYTE: Final = 1024 * 1024
_ATTACK_SECONDS: Final = 8.0
_SETTLING: Final = 20.0
_GONE: Final = (OSError, WebSocketException, NotSaid, TimeoutError, asyncio.IncompleteReadError)


class Scale(Struct, frozen=True):
    """How much of it."""

    frames: int = 5000


SHORT: Final = Scale(600)


class Good:
    """A device and its caller, who want to be left in peace."""

    def __init__(self, gateway: GatewayProcess) -> None:
        self._caller = RestCaller(gateway.url, gateway.token)
        self.device = DeviceLogic(gateway.url, gateway.token, self._echo, tools=[offer("echo")], label="good")
        self.lost: list[str] = []
        self.took: list[float] = []
        self.is_over = asyncio.Event()

    async def _echo(self, asked: DeviceRequest) -> str:
        await asyncio.sleep(0.002)
        return f"echo {asked.args['number']}"

    async def call(self, place: int) -> None:
        """One call after another."""
        number = 0
        while not self.is_over.is_set():
            number += 1
            begun = time.monotonic()
            wanted: dict[str, str] = {"status": "success", "result": f"echo {place}/{number}"}
            _, envelope = await self._caller.call("good__echo", {"number": f"{place}/{number}"}, f"{place}/{number}")
            self.took.append(time.monotonic() - begun)
            if envelope != wanted:
                self.lost.append(f"{wanted['result']}: {envelope}")

    async def close(self) -> None:
        """Let go."""
        await self._caller.close()


class Attack:
    """Everything hostile that was done, and who is still at it."""

    def __init__(self, gateway: GatewayProcess, good: Good, proxy: FaultProxy, scale: Scale, seed: int) -> None:
        self._gateway = gateway
        self._good = good
        self._proxy = proxy
        self._scale = scale
        self._seed = seed
        self._numbers = iter(range(10**9))
        self._left_behind: list[FakeDevice] = []
        self._one_at_a_time = asyncio.Lock()
        self._host = urlsplit(gateway.url).netloc
        self._frames, self._requests = cycle(FORBIDDEN_FRAMES), cycle(HOSTILE_REQUESTS)
        self.done: Counter[str] = Counter()

    async def run(self) -> None:
        """Attack until there was enough of it."""
        kinds = self._kinds()
        while self.done.total() < self._scale.frames:
            number = next(self._numbers)
            chance = Random(f"{self._seed}/{number}")
            drawn = chance.choices(list(kinds), list(kinds.values()))[0]
            attack = list(kinds)[number] if number < len(kinds) else drawn  # each at least once
            with contextlib.suppress(*_GONE):
                async with asyncio.timeout(_ATTACK_SECONDS):
                    await attack(chance)

    def _kinds(self) -> dict[Callable[[Random], Awaitable[None]], int]:
        """What can be done, and how often of all."""
        return {
            self._nonsense: 125,
            self._broken_frames: 400,
            self._raw_request: 1200,
            self._flood: 3,
            self._slow_reader: 10,
            self._half_open: 30,
            self._huge: 40,
            self._forged_resume: 40,
        }

    async def leave(self) -> None:
        """Let go of the connections that were left hanging."""
        for device in self._left_behind:
            await device.drop()

    def _device(self, url: str = "") -> FakeDevice:
        return FakeDevice(url or self._gateway.url, self._gateway.token)

    async def _arrived(self, device: FakeDevice, chance: Random) -> None:
        """Connected in one of the ways that there are, some of them half-way."""
        match chance.randrange(4):
            case 0:
                await device.open()
            case 1:
                await device.connect(label="evil", capabilities=["resume", "progress", "cancel", "unregister", "parts"])
            case 2:
                await device.connect(role="chat")
            case _:
                await device.connect(role="chat", capabilities=["events", "questions", "resume", "ack_batch"])

    async def _nonsense(self, chance: Random) -> None:
        async with self._device() as device:
            await self._arrived(device, chance)
            for _ in range(20):
                ids = tuple(self._good.device.ran)[-8:]
                await device.send_text(hostile_text(chance, ids))
                self.done["wrong frames"] += 1
                if chance.random() < 0.02:
                    break
            if chance.random() < 0.5:
                await device.leave()

    async def _broken_frames(self, chance: Random) -> None:
        async with self._device() as device:
            await self._arrived(device, chance)
            device.send_bytes(next(self._frames))
            self.done["forbidden bytes"] += 1
            await device.closed(0.5)

    async def _raw_request(self, chance: Random) -> None:
        parts = urlsplit(self._gateway.url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        try:
            writer.write(next(self._requests)(chance, self._host, self._gateway.token))
            self.done["raw requests"] += 1
            async with asyncio.timeout(0.3):
                await writer.drain()
                await reader.read(2000)
        finally:
            writer.transport.abort()

    async def _flood(self, chance: Random) -> None:
        async with self._device() as device:
            await device.connect(label="flood")
            for _ in range(150):
                await device.send({"type": "get_registered_tools"})
                self.done["floods"] += 1

    async def _slow_reader(self, chance: Random) -> None:
        async with self._device() as device:
            await device.connect(label="slow")
            await device.register(*(offer(f"t{number}", "x" * 4000) for number in range(200)))
            device.stop_reading()
            for _ in range(20):
                await device.send({"type": "get_registered_tools"})
                self.done["slow readers"] += 1
            await asyncio.sleep(0.2)

    async def _half_open(self, chance: Random) -> None:
        device = self._device(self._proxy.url)
        self._left_behind.append(device)
        async with self._one_at_a_time:  # else the last link could be somebody else's
            await device.connect(label="gone", capabilities=["resume"])
            await device.register(offer("never"))
            self._proxy.half_open(link=self._proxy.links[-1])
        self.done["half-open"] += 1

    async def _huge(self, chance: Random) -> None:
        async with self._device() as device:
            await self._arrived(device, chance)
            self.done["too large"] += 1
            await device.send_text("x" * (2 * _MEGABYTE))
            await device.closed(1)

    async def _forged_resume(self, chance: Random) -> None:
        async with self._device() as device:
            self.done["forged resume tokens"] += 1
            await device.connect(label="evil", capabilities=["resume"], resume=chance.randbytes(40).hex())
            await device.drop()
            await device.connect(capabilities=["resume"], resume=self._good.device.memory.resume, role="chat")


async def hostile(folder: Path, scale: Scale, seed: int) -> list[Figure]:
    """The figures of one attack."""
    async with GatewayProcess(folder, environ=PLAIN_PROCESS) as gateway, AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(FaultProxy(gateway.url, seed=seed))
        good = Good(gateway)
        stack.push_async_callback(good.close)
        await stack.enter_async_context(good.device)
        async with asyncio.TaskGroup() as group:
            for place in range(4):
                group.create_task(good.call(place))
            await _warmed_up(good)
            before = gateway.memory
            attack = Attack(gateway, good, proxy, scale, seed)
            await asyncio.gather(*(attack.run() for _ in range(_AT_ONCE)))
            peak = gateway.memory
            await attack.leave()
            good.is_over.set()
        grown = await _settled(gateway, before)
        lived = gateway.is_running
        code = await gateway.terminate()
        log = gateway.log
    return [
        *(Figure(kind, count) for kind, count in attack.done.most_common()),
        Figure("hostile frames and requests", attack.done.total(), at_least=scale.frames),
        Figure("calls of the good client", len(good.took), at_least=10),
        none_of("  lost", good.lost),
        Figure("  p50", percentile(good.took, 0.5) * 1000, "ms"),
        Figure("  p99", percentile(good.took, 0.99) * 1000, "ms"),
        Figure("memory before", before / _MEGABYTE, "MB"),
        Figure("memory at the end of the attack", peak / _MEGABYTE, "MB"),
        Figure("memory that did not come back", grown / _MEGABYTE, "MB", at_most=64),
        Figure("crashes", 0 if lived else 1, at_most=0),
        none_of("tracebacks in the log", _tracebacks(log)),
        Figure("exit code at the end", code, at_most=0, at_least=0),
    ]


async def _warmed_up(good: Good) -> None:
    """Everything that is loaded when it is first used is there."""
    async with asyncio.timeout(60):
        while len(good.took) < 40:
            await asyncio.sleep(0.01)


async def _settled(gateway: GatewayProcess, before: int) -> int:
    """How many bytes more it holds than before, when it has had time to let go of them."""
    until = time.monotonic() + _SETTLING
    while gateway.memory - before > 48 * _MEGABYTE and time.monotonic() < until:
        await asyncio.sleep(0.1)
    return gateway.memory - before


def _tracebacks(log: str) -> list[str]:
    return [part[-1500:] for part in log.split("Traceback (most recent call last)")[1:]] + [
        line for line in log.splitlines() if "never retrieved" in line or "never awaited" in line
    ]
