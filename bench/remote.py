"""Calls of tools on devices, through the whole gateway, against a raw echo on the same server stack.

This process is the gateway, so its CPU time is the gateway's; devices are a process of their own. For latency both are
pinned to one core: what is measured is software, not how fast a machine wakes its other core. The ratios are against
the plain echo of uvicorn's websockets-sansio; `remote_call_seam` is against the echo behind the gateway's own seam. The
device is as lean as can be (`fast_device.py`); for `remote_call_sdk` it is a program with our SDK (`sdk_device.py`).
"""

import asyncio
import contextlib
import gc
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import Any

import uvloop
from msgspec import Struct
from tests.memory_ledger import MemoryLedger

from bench.echoes import ARGUMENTS, plain_echo, seam_echo
from bench.figures import Case, Figure
from handspan.config.load import load_settings
from handspan.core.agents import GENERAL
from handspan.core.calls import ToolCall, new_call_id
from handspan.core.principals import OPERATOR
from handspan.core.results import Success
from handspan.core.values import Json
from handspan.engine.caller import Caller
from handspan.engine.engine import Engine
from handspan.gateway.gateway import Gateway
from handspan.gateway.serving.server import Server, tune_garbage_collection
from handspan.store.artifacts import FolderArtifacts

ROUNDS = 7
CALLS = 600
WINDOW_S = 0.5
IN_FLIGHT = 64
BATCHED, EACH_ACKED, RETURNS = "ack_batch,deadline", "deadline", "ack_batch,deadline,resume"
"""What devices say that they can."""
TOOL_OF = {
    "lean": "d0__tool_0",
    "acked": "acked0__tool_0",
    "sdk": "sdk__say",
    "sdk thread": "sdk__say_aside",
    "sdk asyncio": "plain__say",
    "sdk asyncio thread": "plain__say_aside",
}
"""What is called in each case of latency."""
DEVICES = 10_000
RETURNING = 5_000
TOOLS = 3


async def measure(folder: Path) -> Iterable[Figure]:
    """Every remote figure. It runs on uvloop, as the gateway does, in a thread of its own."""
    return await asyncio.to_thread(lambda: uvloop.run(_measure(folder)))


async def _measure(folder: Path) -> list[Figure]:
    return [*await latency(folder / "latency"), *await durable(folder / "durable"), *await crowd(folder / "crowd")]


class House:
    """A gateway that serves, and devices that answer."""

    def __init__(self, gateway: Gateway, server: Server) -> None:
        self.gateway = gateway
        self.url = f"{server.url}/ws/chat"

    def caller(self) -> Caller:
        """The operator, with every tool of every device."""
        return Caller(OPERATOR, GENERAL, self.gateway.parts.app.registry.toolbox(GENERAL, OPERATOR))


@contextlib.asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[House]:
    """The whole gateway on a port of its own."""
    folders: dict[str, Json] = {"workspace": str(folder / "ws"), "state": str(folder / "st"), "gateway": {"port": 0}}
    settings = load_settings(None, {"HOME": str(folder)}, folders)
    gateway = Gateway(settings, model="offline")
    server = Server(gateway, settings.gateway)
    await server.open()
    tune_garbage_collection()  # as `serve` does
    try:
        yield House(gateway, server)
    finally:
        await server.close()


class DeviceProcess:
    """Devices in a process of their own, under command."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.pid = process.pid

    async def told(self, word: str) -> None:
        """Do this, and wait until it is done."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(f"{word}\n".encode())
        assert (await self._process.stdout.readline()).strip() == b"done"


@contextlib.asynccontextmanager
async def devices(
    url: str, token: str, count: int, tools: int = 1, can: str = BATCHED, label: str = "d"
) -> AsyncIterator[DeviceProcess]:
    """So many lean devices, all there; without a token they only echo."""
    arguments = (url, token or "-", str(count), str(tools), can, label)
    async with other_process("bench.fast_device", *arguments) as process:
        yield process


@contextlib.asynccontextmanager
async def other_process(*arguments: str) -> AsyncIterator[DeviceProcess]:
    """A process of this module, all its devices there; it ends with its standard input."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", *arguments, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdin and process.stdout
    try:
        assert (await process.stdout.readline()).strip() == b"ready"
        yield DeviceProcess(process)
    finally:
        process.stdin.close()
        await process.wait()


# Latency, CPU and throughput of one device.


async def latency(folder: Path) -> list[Figure]:
    """`remote_call` and its neighbours."""
    async with contextlib.AsyncExitStack() as stack:
        enter = stack.enter_async_context
        (plain, plain_url), (seam, seam_url) = await enter(plain_echo()), await enter(seam_echo())
        house = await enter(serving(folder))
        token = house.gateway.operator_token
        others = [
            await enter(devices(plain_url, "", 1)),
            await enter(devices(seam_url, "", 1)),
            await enter(devices(house.url, token, 1)),
            await enter(devices(house.url, token, 1, can=EACH_ACKED, label="acked")),
            await enter(other_process("bench.sdk_device", house.url, token, "sdk", "uvloop")),
            await enter(other_process("bench.sdk_device", house.url, token, "plain", "asyncio")),
        ]
        in_memory = Engine(FolderArtifacts(folder / "a"), folder, ledger=MemoryLedger(), bus=house.gateway.parts.bus)
        caller = house.caller()

        def calling(tool: str) -> Case:
            async def call() -> None:
                result = await in_memory.call(ToolCall(tool, ARGUMENTS, new_call_id()), caller)
                assert type(result) is Success, result

            return call

        ours = {name: calling(tool) for name, tool in TOOL_OF.items()}
        cases = {"plain": plain.call, "seam": seam.call, **ours}
        taken = await _by_turns(cases, [os.getpid(), *(other.pid for other in others)])
        await in_memory.close()
    return [*_lean(taken), *_sdk(taken)]


def _lean(taken: "Mapping[str, Taken]") -> list[Figure]:
    """With as little as can be at the other end: what the gateway costs."""
    floor, seam_floor, ours, acked = taken["plain"], taken["seam"], taken["lean"], taken["acked"]
    return [
        Figure("remote_call", ours.p50 / floor.p50, "x echo, same stack, p50", target=1.3, line=1.5),
        Figure("remote_call_us", ours.p50 * 1e6, "µs, p50, one core"),
        Figure("remote_call_seam", ours.p50 / seam_floor.p50, "x echo behind our seam, p50"),
        Figure("remote_call_acked", acked.p50 / floor.p50, "x echo, each result acknowledged"),
        Figure("remote_cpu", ours.cpu / floor.cpu, "x echo, gateway CPU", target=1.5),
        Figure("remote_cpu_us", ours.cpu * 1e6, "µs of gateway CPU a call"),
        Figure("remote_throughput", ours.rate / floor.rate, "x echo, 64 in flight", target=0.7, more_is_better=True),
        Figure("remote_calls_per_s", ours.rate, "one device, 64 in flight", more_is_better=True),
    ]


def _sdk(taken: "Mapping[str, Taken]") -> list[Figure]:
    """With our Python SDK at the other end, as its users have it: what both ends cost."""
    floor, sdk = taken["plain"], taken["sdk"]
    return [
        Figure("remote_call_sdk", sdk.p50 / floor.p50, "x echo, our SDK as device, p50"),
        Figure("remote_call_sdk_us", sdk.p50 * 1e6, "µs, p50, one core, uvloop", target=145),
        Figure("remote_call_sdk_asyncio_us", taken["sdk asyncio"].p50 * 1e6, "µs, device on asyncio's loop"),
        Figure("remote_call_sdk_thread_us", taken["sdk thread"].p50 * 1e6, "µs, device's tool is a plain def"),
        Figure("remote_call_sdk_slowest_us", taken["sdk asyncio thread"].p50 * 1e6, "µs, plain def, asyncio's loop"),
        Figure("remote_sdk_calls_per_s", sdk.rate, "our SDK, 64 in flight", more_is_better=True),
    ]


class Taken(Struct):
    """The best of all turns of one case."""

    p50: float = float("inf")
    cpu: float = float("inf")
    rate: float = 0.0


async def _by_turns(cases: Mapping[str, Case], processes: list[int]) -> dict[str, Taken]:
    """Every case again and again, one after the other, so that a busy machine hits all alike."""
    taken = {name: Taken() for name in cases}
    for turn in range(ROUNDS):
        for name, case in cases.items():
            best = taken[name]
            with pinned(turn, *processes):
                best.p50 = min(best.p50, await _p50(case))
            rate, cpu = await _window(case)
            best.rate, best.cpu = max(best.rate, rate), min(best.cpu, cpu)
    return taken


@contextlib.contextmanager
def pinned(turn: int, *processes: int) -> Any:
    """Every thread of these on one core, for a while: the gateway's loop is not always in the first one."""
    cores = sorted(os.sched_getaffinity(0))
    _pin(processes, {cores[turn % len(cores)]})
    try:
        yield
    finally:
        _pin(processes, set(cores))


def _pin(processes: Iterable[int], cores: set[int]) -> None:
    for process in processes:
        for thread in Path(f"/proc/{process}/task").iterdir():
            with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                os.sched_setaffinity(int(thread.name), cores)


async def _p50(case: Case) -> float:
    for _ in range(50):
        await case()
    taken = []
    for _ in range(CALLS):
        began = time.perf_counter()
        await case()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


async def _window(case: Case, in_flight: int = IN_FLIGHT) -> tuple[float, float]:
    """Calls a second, and CPU seconds a call, with so many in flight."""
    end = time.perf_counter() + WINDOW_S

    async def one() -> int:
        count = 0
        while time.perf_counter() < end:
            await case()
            count += 1
        return count

    began, used = time.perf_counter(), time.process_time()
    count = sum(await asyncio.gather(*(one() for _ in range(in_flight))))
    return count / (time.perf_counter() - began), (time.process_time() - used) / count


# With everything on disk.


async def durable(folder: Path) -> list[Figure]:
    """`durable_calls_per_s`: 100 devices, the ledger on disk, acknowledged after the commit."""
    async with serving(folder) as house, devices(house.url, house.gateway.operator_token, 100):
        caller, engine = house.caller(), house.gateway.parts.app.engine
        names = [f"d{number}__tool_0" for number in range(100)]
        end = time.perf_counter() + 4 * WINDOW_S

        async def one(name: str) -> int:
            count = 0
            while time.perf_counter() < end:
                assert type(await engine.call(ToolCall(name, ARGUMENTS, new_call_id()), caller)) is Success
                count += 1
            return count

        began = time.perf_counter()
        count = sum(await asyncio.gather(*map(one, names)))
        rate = count / (time.perf_counter() - began)
    return [Figure("durable_calls_per_s", rate, "100 devices, FULL", target=1500, more_is_better=True)]


# Many of them.


async def crowd(folder: Path) -> list[Figure]:
    """`device_kb`, `connect_cpu_ms`, `reconnect_5000_s`."""
    async with serving(folder) as house:
        token = house.gateway.operator_token
        gc.collect()
        before, used = _resident(), time.process_time()
        async with devices(house.url, token, DEVICES, TOOLS, RETURNS):
            cpu = (time.process_time() - used) / DEVICES
            gc.collect()
            kilobytes = (_resident() - before) / DEVICES / 1024
            await _all_answer(house, DEVICES)
    async with (
        serving(folder / "returning") as house,
        devices(house.url, house.gateway.operator_token, RETURNING, TOOLS, RETURNS) as returning,
    ):
        await returning.told("drop")
        began = time.perf_counter()
        await returning.told("back")
        await _all_answer(house, RETURNING)
        back = time.perf_counter() - began
    return [
        Figure("device_kb", kilobytes, f"KB a device, {DEVICES} with {TOOLS} tools", target=30),
        Figure("connect_cpu_ms", cpu * 1000, "ms of gateway CPU a connect", target=1),
        Figure("reconnect_5000_s", back, "s until all answer again", target=10),
    ]


async def _all_answer(house: House, count: int) -> None:
    engine, caller = house.gateway.parts.app.engine, house.caller()
    some = asyncio.Semaphore(200)

    async def one(number: int) -> None:
        async with some:
            result = await engine.call(ToolCall(f"d{number}__tool_0", ARGUMENTS, new_call_id()), caller)
            assert type(result) is Success, result

    await asyncio.gather(*map(one, range(count)))


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
