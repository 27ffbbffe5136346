"""Floods beside one client that does its work: what it saw meanwhile, and what they cost in memory (SPEC S7).

The floods of frames have a valid token, all others have none. Promised: the good client loses no call, waits not much
longer than in calm, and memory comes back.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from msgspec import Struct

from handspan.testing import GatewayProcess
from tests.chaos.figures import Figure, none_of, percentile
from tests.chaos.flooder import KINDS
from tests.chaos.hostile import Good
from tests.chaos.kills import PLAIN_PROCESS
from tests.waiting import until

_CALLERS: Final = 4
_MEGABYTE: Final = 1024 * 1024
_FEW_FILES: Final = 256


class Scale(Struct, frozen=True):
    """How much of it."""

    seconds: int = 10
    """How long each flood lasts."""
    settling: int = 60
    """Seconds after a flood before its memory is measured."""


SHORT: Final = Scale(1, 0)


class FloodReport(Struct):
    """What one flood did."""

    kind: str
    lost: list[str]
    p50: float
    """Milliseconds of a good call."""
    p99: float
    calls: int
    memory_before: float
    """Megabytes."""
    memory_peak: float
    memory_after: float
    sent: float
    connections: int


class FloodedGateway:
    """A gateway, and a good client that never stops to call."""

    def __init__(self, gateway: GatewayProcess, good: Good) -> None:
        self.gateway = gateway
        self._good = good

    async def calm(self, seconds: float) -> FloodReport:
        """What a good client sees when nothing else happens."""
        return await self._watch("", seconds, 0.0)

    async def flood(self, kind: str, seconds: float, settling: float) -> FloodReport:
        """What it sees beside this flood."""
        return await self._watch(kind, seconds, settling)

    async def _watch(self, kind: str, seconds: float, settling: float) -> FloodReport:
        before, began, lost = self._megabytes, len(self._good.took), len(self._good.lost)
        peak = before
        flooding = await self._start(kind, seconds) if kind else None
        over = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < over or (flooding is not None and flooding.returncode is None):
            await asyncio.sleep(0.05)
            peak = max(peak, self._megabytes)
        output = b"{}" if flooding is None else (await flooding.communicate())[0]
        await until(lambda: len(self._good.took) > began + _CALLERS)
        took, done = self._good.took[began:], json.loads(output)
        await asyncio.sleep(settling)
        return FloodReport(
            kind=kind or "calm",
            lost=self._good.lost[lost:],
            p50=percentile(took, 0.5) * 1000,
            p99=percentile(took, 0.99) * 1000,
            calls=len(took),
            memory_before=before,
            memory_peak=peak,
            memory_after=self._megabytes,
            sent=done.get("sent", 0) / _MEGABYTE,
            connections=done.get("connections", 0),
        )

    async def _start(self, kind: str, seconds: float) -> asyncio.subprocess.Process:
        arguments = (self.gateway.url, self.gateway.token, kind, str(seconds))
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.chaos.flooder", *arguments, stdout=asyncio.subprocess.PIPE
        )

    @property
    def _megabytes(self) -> float:
        return self.gateway.memory / _MEGABYTE


@asynccontextmanager
async def beside_floods(folder: Path) -> AsyncIterator[FloodedGateway]:
    """A gateway with few descriptors, so that idle sockets can use them up, and a good client that calls."""
    environ = {**PLAIN_PROCESS, "HANDSPAN_GATEWAY__CONNECTIONS__MOST": str(_FEW_FILES - 64)}
    async with GatewayProcess(folder, environ=environ) as gateway:
        good = Good(gateway)
        try:
            async with good.device, asyncio.TaskGroup() as group:
                for place in range(_CALLERS):
                    group.create_task(good.call(place))
                await until(lambda: len(good.took) >= 200)
                yield FloodedGateway(gateway, good)
                good.is_over.set()
        finally:
            await good.close()


async def floods(folder: Path, scale: Scale, seed: int) -> list[Figure]:
    """The figures of every kind of flood."""
    async with beside_floods(folder) as beside:
        calm = await beside.calm(scale.seconds)
        if scale.settling:
            reports = [await beside.flood(kind, scale.seconds, scale.settling) for kind in KINDS]
        else:  # all at once: they count here, not how much each of them costs
            reports = await asyncio.gather(*(beside.flood(kind, scale.seconds, 0) for kind in KINDS))
    figures = [Figure("a good call in calm, p50", calm.p50, "ms"), Figure("  p99", calm.p99, "ms")]
    for report in reports:
        figures += _figures(report, calm, scale)
    return figures


def _figures(report: FloodReport, calm: FloodReport, scale: Scale) -> list[Figure]:
    return [
        Figure(f"{report.kind}: sent", report.sent, "MB"),
        Figure("  connections", report.connections, at_least=1),
        Figure("  good calls meanwhile", report.calls, at_least=1),
        none_of("  lost", report.lost),
        Figure("  p50", report.p50, "ms"),
        Figure("  p99", report.p99, "ms", at_most=10 * calm.p99),
        Figure("  memory before", report.memory_before, "MB"),
        Figure("  memory at the peak", report.memory_peak, "MB"),
        Figure(f"  memory kept {scale.settling} s after", report.memory_after - report.memory_before, "MB", at_most=32),
    ]
