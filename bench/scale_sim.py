"""`python -m bench.scale_sim`: what a million devices need, computed from what is measured here and now.

Measured: the memory of an idle device, the CPU time of a call between nodes on both sides, and appends to PostgreSQL.
Assumed, as printed: how busy devices are. CPU time and memory hardly depend on other work of the machine; appends do.
"""

import asyncio
import math
import os
import tempfile
from pathlib import Path

from msgspec import Struct
from tests.nats_engine import NatsEngine
from tests.postgres_engine import PostgresEngine

from bench import postgres
from bench.nodes import _call, _device, _open_nodes, _requests, _until_listed
from handspan.testing import FakeDevice, GatewayProcess, offer

_IDLE = 300
_CALLS = 300


class Assumed(Struct, frozen=True):
    """How busy devices are."""

    devices: int = 1_000_000
    active: float = 0.02
    """The share of devices that an agent works with."""
    seconds_between_calls: float = 5.0
    peak: float = 5.0
    events_per_call: float = 2.5
    """Messages and call rows that are stored for each call."""
    memory_per_process: float = 640e6
    load: float = 0.5
    """The share of a core that is planned for."""


class Measured(Struct, frozen=True):
    """What was measured here."""

    device_bytes: float
    owner_us: float
    caller_us: float
    appends_per_s: float


async def measure(folder: Path) -> Measured:
    """Return the base of the table."""
    engine = PostgresEngine("fsync=on", parent=Path(tempfile.gettempdir()))
    try:
        await asyncio.to_thread(engine.start)
        with NatsEngine() as nats:
            async with _open_nodes(engine, nats, folder) as (owner, caller):
                device_bytes = await _idle_bytes(owner)
                async with _device(owner):
                    await _until_listed(caller, "bench__echo")
                    owner_us, caller_us = await _cpu_of_calls(owner, caller)
        appends = (await postgres._append_figure(engine, folder)).value
    finally:
        engine.remove()
    return Measured(device_bytes, owner_us, caller_us, appends)


async def _idle_bytes(node: GatewayProcess) -> float:
    devices = [FakeDevice(node.url, node.token) for _ in range(_IDLE)]
    before = node.memory
    for number, device in enumerate(devices):
        await device.connect(role="device", label=f"idle{number}", capabilities=["resume"])
        await device.register(*(offer(name) for name in ("a", "b", "c", "d", "e")))
    used = node.memory - before
    for device in devices:
        await device.leave()
    return used / _IDLE


async def _cpu_of_calls(owner: GatewayProcess, caller: GatewayProcess) -> tuple[float, float]:
    async with _requests(caller) as requests:
        await _call(requests)
        before = [_cpu(node) for node in (owner, caller)]
        for _ in range(_CALLS):
            await _call(requests)
        after = [_cpu(node) for node in (owner, caller)]
    first, second = ((late - early) / _CALLS * 1e6 for early, late in zip(before, after, strict=True))
    return first, second


def _cpu(node: GatewayProcess) -> float:
    fields = Path(f"/proc/{node.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def table(measured: Measured, assumed: Assumed) -> str:
    """Return the capacity on paper, and what breaks first."""
    calls = assumed.devices * assumed.active / assumed.seconds_between_calls * assumed.peak
    edges = math.ceil(assumed.devices * measured.device_bytes * 1.5 / assumed.memory_per_process)
    owner_cores = calls * measured.owner_us / 1e6 / assumed.load
    caller_cores = calls * measured.caller_us / 1e6 / assumed.load
    shards = math.ceil(calls * assumed.events_per_call / measured.appends_per_s / assumed.load)
    kilobytes, per_s = measured.device_bytes / 1024, measured.appends_per_s
    rows = [
        ("idle device", f"{kilobytes:.0f} KB", f"{edges} edge processes, with half as much again for the kernel"),
        (
            "call, node of the device",
            f"{measured.owner_us:.0f} us CPU",
            f"{owner_cores:.0f} cores, on the edge processes",
        ),
        ("call, node of the caller", f"{measured.caller_us:.0f} us CPU", f"{caller_cores:.0f} cores: agent processes"),
        ("appends", f"{per_s:.0f}/s", f"{shards} databases like this one, by owner"),
    ]
    walls = [
        (caller_cores, "the CPU of the agent nodes"),
        (shards * 16.0, "appends to PostgreSQL"),
        (float(edges), "the memory of the edge nodes"),
    ]
    head = f"{assumed.devices} devices, {assumed.active:.0%} at work, peak {calls:.0f} calls/s"
    lines = [f"{name:<28}{base:>16}   {need}" for name, base, need in rows]
    return "\n".join([head, *lines, f"First wall: {max(walls)[1]}."])


async def main() -> None:
    """Measure, compute and print."""
    with tempfile.TemporaryDirectory() as folder:
        print(table(await measure(Path(folder)), Assumed()))


if __name__ == "__main__":
    asyncio.run(main())
