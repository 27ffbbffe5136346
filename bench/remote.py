"""Calls of tools on devices, through the whole gateway, against a raw echo on the same server stack.

This process is the gateway, so its CPU time is the gateway's; devices are a process of their own. For latency both are
pinned to one core: what is measured is software, not how fast a machine wakes its other core.
"""

import asyncio
import contextlib
import gc
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from bench.figures import Figure
from handspan.config.load import load_settings
from handspan.core.agents import GENERAL
from handspan.core.calls import ToolCall, new_call_id
from handspan.core.principals import OPERATOR
from handspan.core.results import Success
from handspan.core.values import Json
from handspan.engine.caller import Caller
from handspan.engine.engine import Engine
from handspan.gateway.gateway import Gateway
from handspan.gateway.line import EXTENSION, Socket
from handspan.gateway.server import Server
from handspan.store.artifacts import FolderArtifacts

ROUNDS = 7
CALLS = 600
WINDOW_S = 0.5
IN_FLIGHT = 64
DEVICES = 10_000
RETURNING = 5_000
TOOLS = 3

ARGUMENTS = {"text": "x" * 150}
ECHO_MESSAGE = msgspec.json.encode(
    {"type": "tool_call_request", "id": "550e8400-e29b-41d4-a716-446655440000", "name": "tool_0", "args": ARGUMENTS}
)


async def measure(folder: Path) -> Iterable[Figure]:
    """Every remote figure. It runs on uvloop, as the gateway does, in a thread of its own."""
    return await asyncio.to_thread(lambda: uvloop.run(_measure(folder)))


async def _measure(folder: Path) -> list[Figure]:
    return [*await latency(folder / "latency"), *await durable(folder / "durable"), *await crowd(folder / "crowd")]


class Echo:
    """The floor: one connection of the same stack, whose other end sends every message back."""

    def __init__(self) -> None:
        self._socket: Socket | None = None
        self._waiting: list[asyncio.Future[None]] = []

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        """As an ASGI application."""
        await receive()
        await send({"type": "websocket.accept"})
        taken = scope["extensions"][EXTENSION]
        taken.take(self)
        self._socket = taken

    def on_message(self, data: bytes) -> None:
        self._waiting.pop(0).set_result(None)

    def on_close(self, code: int) -> None:
        """Nothing to do."""

    async def call(self) -> None:
        """One message there and back."""
        assert self._socket is not None
        answer = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        self._socket.send_text(ECHO_MESSAGE)
        await answer


class Plain:
    """Something to serve that is only an application."""

    def __init__(self, asgi: Any) -> None:
        self.asgi = asgi

    async def open(self) -> None: ...

    async def drain(self, seconds: float) -> None: ...

    async def close(self) -> None: ...


class House:
    """A gateway that serves, and devices that answer."""

    def __init__(self, gateway: Gateway, server: Server) -> None:
        self.gateway = gateway
        self.url = f"{server.url}/ws/chat"

    def caller(self) -> Caller:
        """The operator, with every tool of every device."""
        return Caller(OPERATOR, GENERAL, self.gateway.app.registry.toolbox(GENERAL, OPERATOR))


@contextlib.asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[House]:
    """The whole gateway on a port of its own."""
    folders: dict[str, Json] = {"workspace": str(folder / "ws"), "state": str(folder / "st"), "gateway": {"port": 0}}
    settings = load_settings(None, {"HOME": str(folder)}, folders)
    gateway = Gateway(settings, model="offline")
    server = Server(gateway, settings.gateway)
    await server.open()
    try:
        yield House(gateway, server)
    finally:
        await server.close()


@contextlib.asynccontextmanager
async def echoing() -> AsyncIterator[tuple[Echo, str]]:
    """The floor, served by the same server."""
    settings = load_settings(None, {"HOME": "/nonexistent"}, {"gateway": {"port": 0}}).gateway
    echo = Echo()
    server = Server(Plain(echo.app), settings)
    await server.open()
    try:
        yield echo, f"{server.url}/ws/chat"
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
    url: str, token: str, mode: str, count: int, tools: int = 1, resume: bool = False
) -> AsyncIterator[DeviceProcess]:
    """So many devices, all there."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.fast_device", url, token, mode, str(count), str(tools), "yes" if resume else "no",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
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
        echo, echo_url = await stack.enter_async_context(echoing())
        floor = await stack.enter_async_context(devices(echo_url, "-", "echo", 1))
        house = await stack.enter_async_context(serving(folder))
        token = house.gateway.operator_token
        device = await stack.enter_async_context(devices(house.url, token, "answer", 1))
        in_memory = Engine(FolderArtifacts(folder / "a"), folder, finished=house.gateway.finished)
        caller = house.caller()

        async def call() -> None:
            result = await in_memory.call(ToolCall("d0__tool_0", ARGUMENTS, new_call_id()), caller)
            assert type(result) is Success, result

        cases = {"echo": echo.call, "ours": call}
        p50 = {name: [] for name in cases}  # type: dict[str, list[float]]
        rate, cpu = dict.fromkeys(cases, 0.0), dict.fromkeys(cases, float("inf"))
        for turn in range(ROUNDS):
            for name, case in cases.items():
                with pinned(turn, os.getpid(), floor.pid, device.pid):
                    p50[name].append(await _p50(case))
                done, used = await _window(case)
                rate[name], cpu[name] = max(rate[name], done), min(cpu[name], used)
        await in_memory.close()
    best = {name: min(values) for name, values in p50.items()}
    return [
        Figure("remote_call", best["ours"] / best["echo"], "x echo, same stack, p50", target=1.3, line=1.5),
        Figure("remote_call_us", best["ours"] * 1e6, "µs, p50, one core"),
        Figure("remote_cpu", cpu["ours"] / cpu["echo"], "x echo, gateway CPU", target=1.5),
        Figure(
            "remote_throughput", rate["ours"] / rate["echo"], "x echo, 64 in flight", target=0.7, more_is_better=True
        ),
        Figure("remote_calls_per_s", rate["ours"], "one device, 64 in flight", more_is_better=True),
    ]


@contextlib.contextmanager
def pinned(turn: int, *processes: int) -> Any:
    """All of these on one core, for a while."""
    cores = sorted(os.sched_getaffinity(0))
    for process in processes:
        os.sched_setaffinity(process, {cores[turn % len(cores)]})
    try:
        yield
    finally:
        for process in processes:
            os.sched_setaffinity(process, set(cores))


async def _p50(case: Callable[[], Awaitable[None]]) -> float:
    for _ in range(50):
        await case()
    taken = []
    for _ in range(CALLS):
        began = time.perf_counter()
        await case()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


async def _window(case: Callable[[], Awaitable[None]], in_flight: int = IN_FLIGHT) -> tuple[float, float]:
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
    async with serving(folder) as house, devices(house.url, house.gateway.operator_token, "answer", 100):
        caller, engine = house.caller(), house.gateway.app.engine
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
        async with devices(house.url, token, "answer", DEVICES, TOOLS, resume=True):
            cpu = (time.process_time() - used) / DEVICES
            gc.collect()
            kilobytes = (_resident() - before) / DEVICES / 1024
            await _all_answer(house, DEVICES)
    async with (
        serving(folder / "returning") as house,
        devices(house.url, house.gateway.operator_token, "answer", RETURNING, TOOLS, resume=True) as returning,
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
    engine, caller = house.gateway.app.engine, house.caller()
    some = asyncio.Semaphore(200)

    async def one(number: int) -> None:
        async with some:
            result = await engine.call(ToolCall(f"d{number}__tool_0", ARGUMENTS, new_call_id()), caller)
            assert type(result) is Success, result

    await asyncio.gather(*map(one, range(count)))


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
