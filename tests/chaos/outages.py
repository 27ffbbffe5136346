"""A store that takes no writes for a while, and a clock that steps, while devices work and callers call.

The disk is full (no file of the gateway may grow) and has room again; another process locks the database and lets go;
the clock of the gateway is a year ahead and right again. Promised: every call that was told a result has it in the
journal, no call stays open, and nothing is pruned.
"""

import asyncio
import resource
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final, cast

import httpx2
from msgspec import Struct

from handspan.core.values import JsonObject
from handspan.testing import DeviceLogic, DeviceRequest, GatewayProcess, offer
from tests.chaos.figures import Figure, none_of
from tests.chaos.kills import PLAIN_PROCESS
from tests.chaos.witness import StoredCall, journal_of, kept
from tests.waiting import until

_CALLERS: Final = 4
_YEAR: Final = 365 * 24 * 3600
_STEPPING: Final = """
import os, time
_real, _file = time.time, os.environ["STEPPED_CLOCK"]
def _stepped():
    with open(_file) as offset:
        return _real() + float(offset.read() or 0)
time.time = _stepped
"""
"""A `sitecustomize` for the gateway's process: its time of day is off by what a file says."""


class Scale(Struct, frozen=True):
    """How much of it."""

    seconds: int = 20
    """How long each outage lasts; a locked database fails a write after 10 s."""


SHORT: Final = Scale(1)


class Outages:
    """Callers that go on whatever happens, and what they were told."""

    def __init__(self, gateway: GatewayProcess, folder: Path) -> None:
        self._gateway = gateway
        self._clock = folder / "clock"
        self.client = httpx2.AsyncClient(
            base_url=gateway.url, headers={"Authorization": f"Bearer {gateway.token}"}, timeout=60, trust_env=False
        )
        self.told: dict[str, JsonObject] = {}
        """Envelopes by the id of the call."""
        self.refused = 0
        self.unready = 0
        self.is_over = False

    async def call(self, place: int) -> None:
        """One call after another, by turns of a device's tool and a read-only one."""
        number = 0
        while not self.is_over:
            number += 1
            name, arguments = ("device__work", {"n": number}) if number % 2 else ("get_current_time", {})
            answer = await self.client.post(f"/api/tools/{name}/call", json={"args": arguments})
            if answer.status_code == 200:
                self.told[answer.headers["location"].rpartition("/")[2]] = answer.json()
            elif answer.status_code == 503:
                self.refused += 1
            await asyncio.sleep(0.01)

    async def is_ready(self) -> bool:
        """Whether the gateway says that it can do work."""
        return (await self.client.get("/ready")).status_code == 200

    async def outlast(self, seconds: float) -> None:
        """Let the outage last, then wait until the gateway says that it is over."""
        for _ in range(max(1, int(seconds))):
            await asyncio.sleep(1)
            self.unready += not await self.is_ready()

    async def go_on(self) -> None:
        """Wait until the gateway says that it can do work, and calls get results again."""
        await until(self.is_ready)
        count = len(self.told)
        await until(lambda: len(self.told) > count + 20)

    async def doctor(self) -> str:
        """What `handspan doctor` says."""
        return (await self.client.get("/api/doctor")).text

    async def health_seconds(self) -> float:
        """How long the gateway takes to say that it lives."""
        begun = time.monotonic()
        assert (await self.client.get("/health")).status_code == 200
        return time.monotonic() - begun

    async def close(self) -> None:
        """Let go of the connections."""
        await self.client.aclose()

    @contextmanager
    def full_disk(self) -> Iterator[None]:
        """No file of the gateway can grow."""
        before = resource.prlimit(self._gateway.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self._gateway.pid, resource.RLIMIT_FSIZE, (1, before[1]))
        try:
            yield
        finally:
            resource.prlimit(self._gateway.pid, resource.RLIMIT_FSIZE, before)

    @contextmanager
    def locked_database(self) -> Iterator[None]:
        """Another process writes, and takes its time."""
        other = sqlite3.connect(self._gateway.state / "handspan.db", isolation_level=None, timeout=60)
        try:
            other.execute("BEGIN IMMEDIATE")
            yield
        finally:
            other.close()

    @contextmanager
    def stepped_clock(self) -> Iterator[None]:
        """The time of day is a year ahead."""
        self._clock.write_text(str(_YEAR))
        try:
            yield
        finally:
            self._clock.write_text("0")


def _prepare(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "clock").write_text("0")
    (folder / "sitecustomize.py").write_text(_STEPPING)


@asynccontextmanager
async def at_work(folder: Path, given: Mapping[str, str] | None = None) -> AsyncIterator[tuple[Outages, DeviceLogic]]:
    """A gateway whose clock can be set, with these variables too; a device and its callers."""
    await asyncio.to_thread(_prepare, folder)
    clock = {"PYTHONPATH": str(folder), "STEPPED_CLOCK": str(folder / "clock")}
    environ = {**PLAIN_PROCESS, **clock, **(given or {})}

    async def work(asked: DeviceRequest) -> str:
        return f"done {asked.args['n']}"

    async with GatewayProcess(folder, environ=environ) as gateway:
        device = DeviceLogic(gateway.url, gateway.token, work, tools=[offer("work")], label="device")
        outages = Outages(gateway, folder)
        try:
            async with device, asyncio.TaskGroup() as group:
                for place in range(_CALLERS):
                    group.create_task(outages.call(place))
                await until(lambda: len(outages.told) > 20)
                yield outages, device
                outages.is_over = True
        finally:
            await outages.close()
        assert await gateway.terminate() == 0


async def outages(folder: Path, scale: Scale, seed: int) -> list[Figure]:
    """The figures of all outages."""
    unready: dict[str, int] = {}
    async with at_work(folder) as (working, device):
        first = set(working.told)
        for name, outage in (
            ("full disk", working.full_disk),
            ("locked database", working.locked_database),
            ("clock a year ahead", working.stepped_clock),
        ):
            before = working.unready
            with outage():
                await working.outlast(scale.seconds)
            unready[name] = working.unready - before
            await working.go_on()
        ran = len(device.ran)
    journal = kept(await journal_of(folder / "state"))
    return [
        *(Figure(f"seconds not ready: {name}", count) for name, count in unready.items()),
        Figure("calls that the device ran", ran),
        *told_figures(working, journal),
        none_of("calls pruned by the step of the clock", [c for c in first if c not in journal]),
    ]


def told_figures(working: Outages, journal: Mapping[str, StoredCall]) -> list[Figure]:
    """What callers were told, against what is stored."""
    missing = [call_id for call_id in working.told if call_id not in journal]
    differing = [
        f"{call_id}: told {told}, stored {journal[call_id].envelope}"
        for call_id, told in working.told.items()
        if call_id in journal and journal[call_id].envelope != told
    ]
    codes = [cast(str, told.get("code", "success")) for told in working.told.values()]
    return [
        Figure("calls that were told a result", len(working.told), at_least=20),
        *(Figure(f"  {code}", codes.count(code)) for code in sorted(set(codes))),
        Figure("requests that were refused (503)", working.refused),
        none_of("results that were told and are not stored", missing),
        none_of("results that were told and are stored otherwise", differing),
        none_of("calls without a result at the end", [c for c, call in journal.items() if call.state != "done"]),
    ]
