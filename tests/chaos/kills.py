"""kill -9 of the gateway, again and again, while devices work and people talk.

Devices can come back; callers ask again with the same key; chats go on in the same session. At the end the journal and
the conversations are read from the disk, and held against what everybody was told.
"""

import asyncio
import time
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Final, cast

from msgspec import Struct

from handspan.core.values import Json, JsonObject
from handspan.testing import DeviceLogic, DeviceRequest, GatewayProcess, offer
from tests.chaos.figures import Figure, none_of, percentile
from tests.chaos.rest import RestCaller
from tests.chaos.talks import PARCEL, WEIGH, Talk
from tests.chaos.witness import Witness, journal_of, kept
from tests.waiting import until

_CALLERS: Final = 3
"""For each device."""
PLAIN_PROCESS: Final = {"COVERAGE_PROCESS_CONFIG": "", "COVERAGE_PROCESS_START": ""}
"""A process that is killed can't write what it covered, and starts faster without."""
_ENVIRON: Final = {**PLAIN_PROCESS, "HANDSPAN_GATEWAY__RESUME_GRACE": "25"}


class Scale(Struct, frozen=True):
    """How much of it."""

    kills: int = 50
    devices: int = 6
    chats: int = 4


SHORT: Final = Scale(2, 3, 2)


class Load:
    """Everybody who works while the gateway is killed."""

    def __init__(self, gateway: GatewayProcess, scale: Scale, seed: int) -> None:
        self._gateway = gateway
        self._chance = Random(f"{seed}/load")
        self.is_over = asyncio.Event()
        self.witness = Witness()
        self.caller = RestCaller(gateway.url, gateway.token)
        lift = offer("lift", "Lift a parcel.", PARCEL, timeout=30)
        self.devices = [self._device(f"lift{number}", lift) for number in range(scale.devices)]
        self.scales = self._device("scales", WEIGH)
        """The only one that chats find words for."""
        self.talks = [Talk(f"talk-{number}") for number in range(scale.chats)]
        self.codes: list[str] = []

    def _device(self, label: str, tool: JsonObject) -> DeviceLogic:
        return DeviceLogic(self._gateway.url, self._gateway.token, self._answer, tools=[tool], label=label)

    async def _answer(self, asked: DeviceRequest) -> Json:
        await asyncio.sleep(self._chance.random() * 0.1)
        return f"done with {asked.args['parcel']}"

    async def works(self, acknowledged: int) -> None:
        """Wait until devices have more results acknowledged than these, and are at work on a call."""

        def is_so() -> bool:
            done = sum(len(device.acknowledged) for device in self.devices)
            return acknowledged < done < sum(len(device.ran) for device in self.devices)

        await until(is_so)

    @property
    def answered(self) -> int:
        """How many messages were answered."""
        return sum(len(talk.answered) for talk in self.talks)

    async def call(self, device: DeviceLogic, place: int) -> None:
        """Make calls over this device, one after another."""
        number = 0
        while not self.is_over.is_set():
            await device.ready(
                120
            )  # the gateway is killed again and again: on a busy machine it may go before the device is back
            number += 1
            key = f"{device.label}/{place}/{number}"
            try:
                call_id, envelope = await self.caller.call(f"{device.label}__lift", {"parcel": key}, key)
            except TimeoutError:
                self.witness.asked.add(key)  # nobody will ever say what came of it
                continue
            self.witness.asked.add(call_id)
            self.witness.was_told(call_id, envelope)
            self.codes.append(str(envelope.get("code", "success")))


async def kills(folder: Path, scale: Scale, seed: int) -> list[Figure]:
    """The figures of one run."""
    chance = Random(f"{seed}/kills")
    ready: list[float] = []
    async with GatewayProcess(folder, environ=_ENVIRON) as gateway, AsyncExitStack() as stack:
        load = Load(gateway, scale, seed)
        stack.push_async_callback(load.caller.close)
        for device in (*load.devices, load.scales):
            await stack.enter_async_context(device)
        async with asyncio.TaskGroup() as group:
            for device in load.devices:
                for place in range(_CALLERS):
                    group.create_task(load.call(device, place))
            for talk in load.talks:
                group.create_task(talk.run(gateway.url, gateway.token, load.is_over))
            for _ in range(scale.kills):
                await asyncio.sleep(0.1 + chance.random())
                await load.works(len(ready))
                await gateway.kill()
                ready.append(await started(gateway))
            await until(lambda: load.answered >= scale.chats)
            load.is_over.set()
        open_left = await _settled(load.caller)
        code = await gateway.terminate()
        log = gateway.log
    for device in (*load.devices, load.scales):
        load.witness.ran.update(device.ran)
        load.witness.acknowledged.update({one: said["output"] for one, said in device.acknowledged.items()})
    again = {one for device in (*load.devices, load.scales) for one in device.asked_again | device.sent_again}
    of_others = [text for talk in load.talks for text in talk.of_others]
    journal = await journal_of(gateway.state)
    return [
        Figure("kills", len(ready)),
        Figure("calls that callers made", len(load.codes), at_least=scale.kills),
        *(Figure(f"  {code}", load.codes.count(code)) for code in sorted(set(load.codes))),
        Figure("requests that broke and were sent again", load.caller.tries),
        Figure("calls in the journal", len(journal)),
        Figure("calls that lived through a kill", len(again), at_least=1),
        Figure("results acknowledged", len(load.witness.acknowledged), at_least=scale.kills),
        Figure("messages answered", load.answered, at_least=scale.chats),
        Figure("ready again, p50", percentile(ready, 0.5) * 1000, "ms"),
        Figure("ready again, max", max(ready) * 1000, "ms", at_most=3000),
        *load.witness.figures(kept(journal)),
        Figure("calls that were open when all had settled", open_left, at_most=0),
        Figure("answers of turns that were cut off, shown first", len(of_others), examples=tuple(of_others[:3])),
        none_of(
            "acknowledged messages lost", [text for talk in load.talks for text in await talk.missing(gateway.state)]
        ),
        none_of("tracebacks in the log", [log[log.index("Traceback") :][:4000]] if "Traceback" in log else []),
        Figure("exit code at the end", code, at_most=0, at_least=0),
    ]


async def started(gateway: GatewayProcess) -> float:
    """How long it took to start it again."""
    begun = time.monotonic()
    await gateway.start()
    return time.monotonic() - begun


async def _settled(caller: RestCaller) -> int:
    """Wait until no call is open, not longer than their time is; how many are."""
    async with asyncio.timeout(60):
        while found := cast(list[JsonObject], cast(JsonObject, await caller.get("/api/calls?status=open"))["calls"]):
            await caller.result(str(found[0]["id"]))
    return len(found)
