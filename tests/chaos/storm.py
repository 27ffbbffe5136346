"""Many calls over many devices that drop, stay silent and answer twice.

Of the devices every second one can come back (`resume`), and every fifth sits behind a proxy that splits, delays and
repeats. What becomes of a call is decided by the seed and its number, before it is made.
"""

import asyncio
import time
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Final

from msgspec import Struct

from handspan.core.calls import new_call_id
from handspan.core.results import Failure, Success, ToolResult, envelope
from handspan.core.values import Json
from handspan.testing import (
    DeviceLogic,
    DeviceRequest,
    FaultProxy,
    Repeated,
    RunningGateway,
    Silence,
    offer,
    running_gateway,
)
from tests.chaos.figures import Figure, none_of, percentile
from tests.chaos.witness import Witness, kept
from tests.stores import store_settings

_SILENT_SECONDS: Final = 0.4
_TOOLS: Final = [offer("work", timeout=20), offer("mute", timeout=_SILENT_SECONDS)]
_AT_ONCE: Final = 4
_AWAY: Final = ("tool_not_found", "tool_not_available", "disconnected")


class Scale(Struct, frozen=True):
    """How much of it."""

    calls: int = 10_000
    devices: int = 50


SHORT: Final = Scale(300, 10)


class CallEnd(Struct, frozen=True):
    """What becomes of a call."""

    number: int
    kind: str
    pause: float

    @property
    def tool(self) -> str:
        """The tool that it calls: silence needs one that nobody waits for long."""
        return "mute" if self.kind == "silent" else "work"


def fate(seed: int, number: int) -> CallEnd:
    """5 % silent, 5 % drop the link (half of them after the answer), 2 % are answered twice."""
    chance = Random(f"{seed}/{number}")
    drawn, pause = chance.random(), chance.random() * 0.005
    for share, kind in ((0.05, "silent"), (0.075, "drop"), (0.10, "answer and drop"), (0.12, "twice")):
        if drawn < share:
            return CallEnd(number, kind, pause)
    return CallEnd(number, "answer", pause)


class Stormed:
    """A device in the storm, and what it saw."""

    def __init__(self, url: str, token: str, number: int) -> None:
        self.resumes = number % 2 == 0
        self.device = DeviceLogic(
            url,
            token,
            self.answer,
            tools=_TOOLS,
            label=f"d{number}",
            capabilities=("resume", "cancel", "deadline", "ack_batch") if self.resumes else ("cancel",),
        )
        self.dropped_at = 0.0
        self._dropping: asyncio.Task[None] | None = None

    async def answer(self, asked: DeviceRequest) -> Json | Silence | Repeated:
        await asyncio.sleep(float(str(asked.args["pause"])))
        marker: Json = {"call": asked.id, "number": asked.args["number"]}
        match asked.args["kind"]:
            case "silent":
                return Silence()
            case "twice":
                return Repeated(marker)
            case "drop":
                await self._drop()
                return marker
            case "answer and drop":
                self._dropping = asyncio.create_task(self._drop())
                return marker
            case _:
                return marker

    async def _drop(self) -> None:
        self.dropped_at = time.monotonic()
        await self.device.drop()


class Storm:
    """One run."""

    def __init__(self, gateway: RunningGateway, scale: Scale, seed: int) -> None:
        self._gateway = gateway
        self._scale = scale
        self._seed = seed
        self._numbers = iter(range(scale.calls))
        self.witness = Witness()
        self.wrong: list[str] = []
        """Results that no rule allows."""
        self.reported: list[float] = []
        """Seconds from a drop to the result of a call that it ended, for devices that can't come back."""
        self.outcomes: Counter[str] = Counter()

    async def call_through(self, stormed: Stormed) -> None:
        """Make calls over this device until there are none left."""
        for number in self._numbers:
            await stormed.device.ready()
            await self._call(stormed, fate(self._seed, number))

    async def _call(self, stormed: Stormed, fate: CallEnd) -> None:
        call_id, begun = new_call_id(), time.monotonic()
        self.witness.asked.add(call_id)
        arguments: dict[str, Json] = {"number": fate.number, "kind": fate.kind, "pause": fate.pause}
        name = f"{stormed.device.label}__{fate.tool}"
        result = await self._gateway.call_as(call_id, name, arguments)
        self.witness.was_told(call_id, envelope(result))
        self._judge(stormed, fate, call_id, result)
        if stormed.dropped_at >= begun and _code(result) == "unknown_outcome":
            self.reported.append(time.monotonic() - stormed.dropped_at)

    def _judge(self, stormed: Stormed, fate: CallEnd, call_id: str, result: ToolResult) -> None:
        code = _code(result)
        self.outcomes[code] += 1
        wanted = "timeout" if fate.kind == "silent" else "success"
        allowed = (wanted, *_AWAY) if stormed.resumes else (wanted, *_AWAY, "unknown_outcome")
        if code not in allowed:
            self.wrong.append(f"call {fate.number} ({fate.kind}, resume {stormed.resumes}): {result!r}")
        if isinstance(result, Success) and result.value != {"call": call_id, "number": fate.number}:
            self.wrong.append(f"call {fate.number} got the answer of another one: {result.value!r}")


def _code(result: ToolResult) -> str:
    return result.code if isinstance(result, Failure) else "success"


async def storm(folder: Path, scale: Scale, seed: int) -> list[Figure]:
    """The figures of one storm."""
    store = store_settings(folder / "state")
    async with running_gateway(folder, gateway={"resume_grace": 10}, store=store) as gateway, AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(FaultProxy(gateway.url, seed=seed))
        proxy.delay(0.0, jitter=0.002)
        proxy.split(200)
        proxy.duplicate(0.05, only=lambda text: b'"tool_result"' in text)
        places = [proxy.url if number % 5 == 4 else gateway.url for number in range(scale.devices)]
        stormed = [Stormed(url, gateway.token, number) for number, url in enumerate(places)]
        for one in stormed:
            await stack.enter_async_context(one.device)
        run, begun = Storm(gateway, scale, seed), time.monotonic()
        async with asyncio.TaskGroup() as group:
            for one in stormed:
                for _ in range(_AT_ONCE):
                    group.create_task(run.call_through(one))
        took = time.monotonic() - begun
        for one in stormed:
            run.witness.ran.update(one.device.ran)
            if one.resumes:  # without it, what came too late is confirmed, and dropped
                run.witness.acknowledged.update(
                    {call: said["output"] for call, said in one.device.acknowledged.items()}
                )
        twice = sum(peer.calls.dropped for peer in gateway.gateway.parts.peers)
        finished = sum(
            float(line.rpartition(" ")[2])
            for line in gateway.gateway.parts.metrics.calls.lines()
            if not line.startswith("#")
        )
        return [*_figures(run, took, twice, finished), *run.witness.figures(kept(await gateway.journal()))]


def _figures(run: Storm, took: float, twice: int, finished: float) -> list[Figure]:
    calls = len(run.witness.asked)
    return [
        Figure("calls", calls),
        Figure("  a second", calls / took),
        *(Figure(f"  {code}", count) for code, count in run.outcomes.most_common()),
        Figure("second answers dropped", twice, at_least=1),
        Figure("results beyond one a call", finished - calls, at_most=0, at_least=0),
        none_of("results that no rule allows", run.wrong),
        Figure("drops that were reported", len(run.reported), at_least=1),
        Figure("  reported within, p50", percentile(run.reported, 0.5) * 1000, "ms"),
        Figure("  reported within, p99", percentile(run.reported, 0.99) * 1000, "ms", at_most=1000),
    ]
