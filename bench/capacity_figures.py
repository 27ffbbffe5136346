"""The figures behind the capacity table: those of `make bench` where they are, else measured in a few seconds each."""

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
import uvloop
from tests.postgres_engine import PostgresEngine, find_programs
from websockets.sync.client import connect

from bench import postgres, remote, storing
from bench.capacity import Base
from bench.chart import describe_machine
from bench.figures import Figure
from handspan.core.images import ImageReader
from handspan.core.messages import AssistantMessage, Text
from handspan.core.tool import ToolSpec
from handspan.models.kept_messages import KeptMessages
from handspan.models.model import ModelEvent, Projection, Replied, TextDelta
from handspan.store.sqlite.store import sqlite_store

_DEVICES: Final = 2_000
_PIECES: Final = 2_000
_PATIENCE: Final = 120.0
_FROM_BENCH: Final = {
    "device_kb": "device_kb",
    "connect_ms": "connect_cpu_ms",
    "sqlite_per_s": "store_append_per_s",
    "postgres_per_s": "pg_append_per_s",
}
"""Our fields, and the figures of `make bench` that have them."""


def earlier(results: Path) -> dict[str, float]:
    """What the last `make bench` has of our figures; nothing where it was never run."""
    if not results.exists():
        return {}
    found = {one.name: one.value for one in msgspec.json.decode(results.read_bytes(), type=list[Figure])}
    return {field: found[name] for field, name in _FROM_BENCH.items() if name in found}


def collect(results: Path) -> Base:
    """Every figure. The gateway runs on uvloop, as it does for users."""
    known = earlier(results)
    machine = describe_machine()  # before we make it busy ourselves
    with tempfile.TemporaryDirectory() as folder:
        measured = uvloop.run(_measure_missing(known, Path(folder)))
    figures = {"postgres_per_s": None, "postgres_us": None, **measured, **known}
    sources = dict.fromkeys(known, f"`make bench` of {_date_of(results)}") if known else {}
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    return msgspec.convert({"when": when, "machine": machine, "sources": sources, **figures}, Base)


def _date_of(file: Path) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(file.stat().st_mtime))


async def _measure_missing(known: dict[str, float], folder: Path) -> dict[str, float]:
    measured = {"frame_us": await frame_us(folder / "frames"), "call_us": await call_us(folder / "calls")}
    if not {"device_kb", "connect_ms"} <= known.keys():
        async with remote.serving(folder / "devices") as serving:
            measured["device_kb"], seconds = await remote.idle_cost(serving, _DEVICES)
            measured["connect_ms"] = seconds * 1000
    if "sqlite_per_s" not in known:
        async with sqlite_store(folder / "sqlite") as store:
            measured["sqlite_per_s"] = await storing.appends_per_second(store)
    if find_programs() is not None:
        measured["postgres_per_s"], measured["postgres_us"] = await postgres_writes(folder)
    return measured


async def call_us(folder: Path) -> float:
    """CPU time of the gateway for a call, with 64 in flight: the best of three windows."""
    async with remote.serving(folder) as serving, remote.devices(serving.url, serving.gateway.operator_token, 1):
        call = remote.calling(serving, serving.gateway.app.engine, remote.TOOL_OF["lean"])
        return min([(await remote.window(call))[1] for _ in range(3)]) * 1e6


async def postgres_writes(folder: Path) -> tuple[float, float]:
    """Acknowledged writes a second, the best of three; and CPU time of the server for one, the least of three."""
    engine = PostgresEngine("fsync=on", "full_page_writes=on", parent=Path(tempfile.gettempdir()))
    rates, spent = [], []
    try:
        await asyncio.to_thread(engine.start)
        async with postgres.opened(engine, folder, "capacity") as store:
            for _ in range(3):
                before = _cpu_of_server(engine)
                rates.append(await postgres.appends_per_second(store))
                spent.append((_cpu_of_server(engine) - before) / (storing.SESSIONS * storing.APPENDS))
    finally:
        engine.remove()
    return max(rates), min(spent) * 1e6


def _cpu_of_server(engine: PostgresEngine) -> float:
    """CPU seconds of the server's processes, those that have ended too."""
    main = (engine.data / "postmaster.pid").read_text(encoding="utf-8").split("\n")[0]
    children = Path(f"/proc/{main}/task/{main}/children").read_text(encoding="utf-8").split()
    fields = [
        Path(f"/proc/{one}/stat").read_text(encoding="utf-8").rpartition(")")[2].split() for one in (main, *children)
    ]
    ticks = sum(int(one[11]) + int(one[12]) for one in fields) + int(fields[0][13]) + int(fields[0][14])
    return ticks / os.sysconf("SC_CLK_TCK")


class Talkative:
    """A model that answers in many small pieces."""

    name = "talkative"

    def projection(self, instructions: str = "") -> Projection:
        """The messages as they are."""
        return KeptMessages(instructions)

    async def reply(
        self, projection: Projection, specs: Sequence[ToolSpec], artifacts: ImageReader | None = None
    ) -> AsyncIterator[ModelEvent]:
        for _ in range(_PIECES):
            yield TextDelta("piece ")
            await asyncio.sleep(0)  # as they come from a network: one after the other
        yield Replied(AssistantMessage((Text("piece " * _PIECES),), model=self.name))


async def frame_us(folder: Path) -> float:
    """CPU time of the gateway for a piece of an answer to one chat. The chat is another thread, and not counted."""
    async with remote.serving(folder, Talkative()) as serving:
        best = float("inf")
        for _ in range(3):
            used = time.thread_time()
            await asyncio.to_thread(_chat, serving.url, serving.gateway.operator_token)
            best = min(best, time.thread_time() - used)
        return best / _PIECES * 1e6


def _chat(url: str, token: str) -> None:
    """Say something, and read the answer to its end."""
    address, headers = url.replace("http", "ws", 1), {"Authorization": f"Bearer {token}"}
    with connect(address, additional_headers=headers, proxy=None, open_timeout=_PATIENCE, max_size=None) as chat:
        chat.send('{"type": "message", "content": "go"}')
        while msgspec.json.decode(chat.recv(_PATIENCE))["type"] != "done":
            pass
