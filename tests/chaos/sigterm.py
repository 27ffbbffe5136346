"""SIGTERM while devices work and callers call: every call gets its one result, and the gateway ends in time."""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Final

import httpx2
from msgspec import Struct

from handspan.core.values import Json, JsonObject
from handspan.testing import DeviceLogic, DeviceRequest, FakeDevice, GatewayProcess, NotSaid, Silence, offer
from tests.chaos.figures import Figure, none_of, percentile
from tests.chaos.kills import PLAIN_PROCESS
from tests.chaos.talks import WEIGH, Talk
from tests.chaos.witness import StoredCall, Witness, journal_of, kept
from tests.waiting import WAIT, until

_TOOLS: Final = [offer("work", "Do it.", timeout=30)]
_SILENT_EVERY: Final = 10
"""One round in so many has calls that nobody ever answers: the gateway waits its time for them, and not longer."""
_SECONDS: Final = 12.0


class Scale(Struct, frozen=True):
    """How much of it."""

    rounds: int = 20
    devices: int = 4
    callers: int = 12
    talks: int = 3


SHORT: Final = Scale(2, 2, 6, 2)


class Round:
    """One life of the gateway, and its end."""

    def __init__(self, gateway: GatewayProcess, scale: Scale, seed: int, number: int, witness: Witness) -> None:
        self._gateway = gateway
        self._scale = scale
        self._chance = Random(f"{seed}/{number}")
        self._number = number
        self.is_silent = number % _SILENT_EVERY == _SILENT_EVERY - 1
        self._witness = witness
        self.told: Counter[str] = Counter()
        """How requests were answered."""
        self.talks = [Talk(f"talk-{number}-{place}") for place in range(scale.talks)]
        self.took = 0.0
        self.code = -1
        self.close_code = 0

    async def _answer(self, asked: DeviceRequest) -> Json | Silence:
        if self.is_silent and self._chance.random() < 0.1:
            return Silence()
        await asyncio.sleep(self._chance.random() * 0.5)
        return asked.args.get("key") or f"done with {asked.args['parcel']}"

    def _device(self, number: int) -> DeviceLogic:
        resumes = number % 2 == 0
        return DeviceLogic(
            self._gateway.url,
            self._gateway.token,
            self._answer,
            tools=_TOOLS,
            label=f"d{number}",
            capabilities=("resume", "cancel", "deadline") if resumes else ("cancel",),
        )

    async def run(self) -> None:
        """Start, work, end."""
        await self._gateway.start()
        async with AsyncExitStack() as stack:
            scales = DeviceLogic(self._gateway.url, self._gateway.token, self._answer, tools=[WEIGH], label="scales")
            devices = [scales, *(self._device(number) for number in range(self._scale.devices))]
            for device in devices:
                await stack.enter_async_context(device)
            watcher = await stack.enter_async_context(FakeDevice(self._gateway.url, self._gateway.token))
            await watcher.connect(role="chat")
            client = await stack.enter_async_context(_client(self._gateway))
            callers = [asyncio.create_task(self._call(client, place)) for place in range(self._scale.callers)]
            talk_over = asyncio.Event()
            place = (self._gateway.url, self._gateway.token)
            callers += [asyncio.create_task(talk.run(*place, talk_over)) for talk in self.talks]
            await asyncio.sleep(0.2 + self._chance.random() * 0.5)
            await until(lambda: self.told and any(talk.answered for talk in self.talks))
            begun = time.monotonic()
            self.code = await self._gateway.terminate()
            self.took = time.monotonic() - begun
            talk_over.set()
            self.close_code = await watcher.closed(WAIT)
            await asyncio.gather(*callers)
            for device in devices:
                self._witness.ran.update(device.ran)

    async def _call(self, client: httpx2.AsyncClient, place: int) -> None:
        """Call until the gateway is gone."""
        for number in range(10_000):
            key = f"{self._number}/{place}/{number}"
            path = f"/api/tools/d{place % self._scale.devices}__work/call"
            try:
                answer = await client.post(path, headers={"Idempotency-Key": key}, json={"args": {"key": key}})
            except httpx2.TransportError as error:
                self.told[type(error).__name__] += 1
                return
            self.told[f"HTTP {answer.status_code}"] += 1
            if answer.status_code == 503:
                return
            if answer.status_code == 200:
                self._was_told(answer, key)

    def _was_told(self, answer: httpx2.Response, key: str) -> None:
        call_id = answer.headers["location"].rpartition("/")[2]
        envelope: JsonObject = answer.json()
        self._witness.asked.add(call_id)
        self._witness.was_told(call_id, envelope)
        if envelope["status"] == "success" and envelope["result"] != key:
            raise NotSaid(f"the call {key} got the answer {envelope['result']!r}")


def _client(gateway: GatewayProcess) -> httpx2.AsyncClient:
    headers = {"Authorization": f"Bearer {gateway.token}"}
    return httpx2.AsyncClient(base_url=gateway.url, headers=headers, timeout=30, trust_env=False)


async def sigterm(folder: Path, scale: Scale, seed: int) -> list[Figure]:
    """The figures of all rounds."""
    witness, rounds = Witness(), []
    unfinished: list[str] = []
    in_vain: list[str] = []
    before: set[str] = set()
    journal: dict[str, StoredCall] = {}
    gateway = GatewayProcess(folder, environ=PLAIN_PROCESS)
    try:
        for number in range(scale.rounds):
            one = Round(gateway, scale, seed, number, witness)
            await one.run()
            rounds.append(one)
            journal = kept(await journal_of(gateway.state))
            new = {call_id: call for call_id, call in journal.items() if call_id not in before}
            before |= new.keys()
            unfinished += [f"round {number}: a call is {call.state}" for call in new.values() if call.state != "done"]
            allowed = ("success", "cancelled") if one.is_silent else ("success",)
            in_vain += [
                f"round {number}: {call.envelope}" for call in new.values() if _code(call) not in (*allowed, "open")
            ]
        log = gateway.log
    finally:
        await gateway.kill()
    lost = [text for one in rounds for talk in one.talks for text in await talk.missing(gateway.state)]
    told = sum((one.told for one in rounds), Counter[str]())
    return [
        Figure("rounds", len(rounds)),
        Figure("calls in the journal", len(journal), at_least=scale.rounds),
        *(Figure(f"  {code}", count) for code, count in _endings(journal).most_common()),
        *(Figure(f"requests: {how}", count) for how, count in told.most_common()),
        Figure("messages answered", sum(len(talk.answered) for one in rounds for talk in one.talks), at_least=1),
        none_of("answered messages lost", lost),
        none_of("calls without a result when it had ended", unfinished),
        none_of("calls that could have finished, and did not", in_vain),
        *witness.figures(journal),
        none_of("wrong exit codes", (f"{one.code}" for one in rounds if one.code != 0)),
        none_of(
            "clients not told to come back (1012)", (str(one.close_code) for one in rounds if one.close_code != 1012)
        ),
        Figure("ended within, p50", percentile([one.took for one in rounds], 0.5), "s"),
        Figure("ended within, max", max(one.took for one in rounds), "s", at_most=_SECONDS),
        none_of("tracebacks in the log", [log[log.index("Traceback") :][:2000]] if "Traceback" in log else []),
    ]


def _endings(journal: Mapping[str, StoredCall]) -> Counter[str]:
    return Counter(_code(call) for call in journal.values())


def _code(call: StoredCall) -> str:
    return "open" if call.envelope is None else str(call.envelope.get("code", "success"))
