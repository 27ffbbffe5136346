"""SIGTERM while devices work, callers call and people are asked: each call gets its one result, now or after the start.

What waits for a person, or for a device that can come back, outlasts the stop (ws.md 6.7 p). So the devices stay for
all rounds, and the next start goes on with what the stop has left.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any, Final
from urllib.parse import quote

import httpx2
from msgspec import Struct

from handspan.core.values import Json, JsonObject
from handspan.testing import DeviceLogic, DeviceRequest, FakeDevice, GatewayProcess, NotSaid, Silence, offer
from tests.chaos.figures import Figure, none_of, percentile
from tests.chaos.kills import PLAIN_PROCESS
from tests.chaos.talks import WEIGH, Talk
from tests.chaos.witness import StoredCall, Witness, journal_of, kept
from tests.waiting import WAIT, until

_WORK: Final = offer("work", "Do it.", timeout=30)
_SILENT_EVERY: Final = 10
"""One round in so many has calls that nobody ever answers: the gateway waits its time for them, and not longer."""
_SECONDS: Final = 12.0
_SECONDS_WITH_QUESTIONS_ALONE: Final = 8.0
"""Below the grace of ten seconds: a stop does not wait for persons."""
_CAREFUL: Final = "Careful"


class Scale(Struct, frozen=True):
    """How much of it."""

    rounds: int = 20
    devices: int = 4
    callers: int = 12
    talks: int = 3
    asked: int = 3
    """People who are asked in each round and answer after the next start."""


SHORT: Final = Scale(2, 2, 6, 2, 2)


class Devices:
    """Devices that work in all rounds, and come back by themselves. Every second one has `resume`."""

    def __init__(self, gateway: GatewayProcess, scale: Scale, seed: int) -> None:
        self._gateway = gateway
        self._chance = Random(f"{seed}/devices")
        self.is_silent = False
        self._scales = self._device("scales", WEIGH, ("resume", "cancel", "deadline"))
        self.all = [self._scales, *(self._worker(number) for number in range(scale.devices))]

    async def _answer(self, asked: DeviceRequest) -> Json | Silence:
        if self.is_silent and self._chance.random() < 0.1:
            return Silence()
        await asyncio.sleep(self._chance.random() * 0.5)
        return asked.args.get("key") or f"done with {asked.args['parcel']}"

    def _worker(self, number: int) -> DeviceLogic:
        capabilities = ("resume", "cancel", "deadline") if number % 2 == 0 else ("cancel",)
        return self._device(f"d{number}", _WORK, capabilities)

    def _device(self, label: str, tool: JsonObject, capabilities: tuple[str, ...]) -> DeviceLogic:
        place = (self._gateway.url, self._gateway.token)
        return DeviceLogic(*place, self._answer, tools=[tool], label=label, capabilities=capabilities)


class Person:
    """Says something to an agent that asks before every call, and answers when the gateway was stopped meanwhile."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.question = ""
        self.text = f"weigh parcel {session}"

    async def say(self, gateway: GatewayProcess, client: httpx2.AsyncClient) -> None:
        """Say it, and wait until the question is open. The link closes: the turn belongs to the session."""
        async with FakeDevice(gateway.url, gateway.token) as chat:
            await chat.open(session_id=self.session, persona=_CAREFUL)
            await chat.send({"type": "connect", "role": "chat", "capabilities": ["resume"]})
            await chat.expect("connected", WAIT)
            await chat.send({"type": "message", "content": self.text})
            await until(lambda: self._find(client))

    async def _find(self, client: httpx2.AsyncClient) -> bool:
        for question in (await client.get("/api/questions")).json()["questions"]:
            if question["session"] == self.session:
                self.question = question["id"]
        return bool(self.question)

    async def answer(self, client: httpx2.AsyncClient) -> str:
        """Say yes. Return what went wrong, if anything."""
        path = f"/api/questions/{quote(self.question, safe='')}/answer"
        taken = await client.post(path, json={"decision": "allow"})
        return "" if taken.status_code == 200 else f"{self.session}: {taken.text[:200]}"

    async def is_answered(self, client: httpx2.AsyncClient) -> bool:
        """Whether the turn has ended with the words of the device."""
        path = f"/api/sessions/{self.session}/messages"
        messages: list[Any] = (await client.get(path)).json()["messages"]
        return any(f"done with {self.session}" in str(message) for message in messages if message["role"] != "user")


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
        self.people = [Person(f"asked-{number}-{place}") for place in range(scale.asked)]
        self.took = 0.0
        self.code = -1
        self.close_code = 0

    async def run(self, client: httpx2.AsyncClient) -> None:
        """Work, and end the gateway."""
        async with FakeDevice(self._gateway.url, self._gateway.token) as watcher:
            await watcher.connect(role="chat")
            callers = [asyncio.create_task(self._call(client, place)) for place in range(self._scale.callers)]
            talk_over = asyncio.Event()
            place = (self._gateway.url, self._gateway.token)
            callers += [asyncio.create_task(talk.run(*place, talk_over)) for talk in self.talks]
            for person in self.people:
                await person.say(self._gateway, client)
            await asyncio.sleep(0.2 + self._chance.random() * 0.5)
            await until(lambda: self.told and any(talk.answered for talk in self.talks))
            begun = time.monotonic()
            self.code = await self._gateway.terminate()
            self.took = time.monotonic() - begun
            talk_over.set()
            self.close_code = await watcher.closed(WAIT)
            await asyncio.gather(*callers)

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


class People:
    """All who were asked, over all rounds."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client
        self.refused: list[str] = []
        self.count = 0

    async def answer(self, people: Iterable[Person]) -> None:
        """Let these people answer after the start, and wait until their turns have ended."""
        for person in people:
            self.count += 1
            if wrong := await person.answer(self._client):
                self.refused.append(wrong)
            else:
                await until(lambda person=person: person.is_answered(self._client))  # type: ignore[misc] # mypy wants no default

    async def all_calls_ended(self) -> bool:
        """Whether each call has its result."""
        return not (await self._client.get("/api/calls", params={"status": "open"})).json()["calls"]


def _client(gateway: GatewayProcess) -> httpx2.AsyncClient:
    headers = {"Authorization": f"Bearer {gateway.token}"}
    return httpx2.AsyncClient(base_url=gateway.url, headers=headers, timeout=30, trust_env=False)


class Story(Struct):
    """What happened in all rounds."""

    witness: Witness
    rounds: list[Round] = []
    refused: list[str] = []
    """Answers of people that did not count after the start."""
    answered: int = 0
    with_questions_alone: float = 0.0
    """Seconds of the last stop, at which only people were asked."""
    log: str = ""


async def _tell(folder: Path, scale: Scale, seed: int) -> Story:
    """Run all rounds; then start once more, so that all that was left can end."""
    story = Story(Witness())
    gateway = GatewayProcess(folder, environ=PLAIN_PROCESS)
    try:
        await gateway.start()
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(_client(gateway))
            await client.post("/api/agents", json={"name": _CAREFUL, "mode": "ask_always"})
            devices = Devices(gateway, scale, seed)
            for device in devices.all:
                await stack.enter_async_context(device)
            people = People(client)
            for number in range(scale.rounds):
                one = Round(gateway, scale, seed, number, story.witness)
                devices.is_silent = one.is_silent
                story.rounds.append(one)
                await one.run(client)
                devices.is_silent = False  # people's calls run after the start, and theirs must be answered
                await gateway.start()
                for device in devices.all:
                    await device.ready(WAIT)
                await people.answer(one.people)
            await until(people.all_calls_ended)
            last = [Person(f"asked-last-{place}") for place in range(scale.asked)]
            for person in last:
                await person.say(gateway, client)
            begun = time.monotonic()
            await gateway.terminate()
            story.with_questions_alone = time.monotonic() - begun
            await gateway.start()
            for device in devices.all:
                await device.ready(WAIT)
            await people.answer(last)
            await until(people.all_calls_ended)
            for device in devices.all:
                story.witness.ran.update(device.ran)
            await gateway.terminate()
            story.refused, story.answered, story.log = people.refused, people.count, gateway.log
    finally:
        await gateway.kill()
    return story


async def sigterm(folder: Path, scale: Scale, seed: int) -> list[Figure]:
    """The figures of all rounds."""
    story = await _tell(folder, scale, seed)
    rounds, log, state = story.rounds, story.log, folder / "state"
    journal = kept(await journal_of(state))
    lost = [text for one in rounds for talk in one.talks for text in await talk.missing(state)]
    told = sum((one.told for one in rounds), Counter[str]())
    allowed = {"success", "cancelled", "timeout", "unknown_outcome"} if scale.rounds >= _SILENT_EVERY else {"success"}
    in_vain = [str(call.envelope) for call in journal.values() if _code(call) not in allowed]
    return [
        Figure("rounds", len(rounds)),
        Figure("calls in the journal", len(journal), at_least=scale.rounds),
        *(Figure(f"  {code}", count) for code, count in _endings(journal).most_common()),
        *(Figure(f"requests: {how}", count) for how, count in told.most_common()),
        Figure("messages answered", sum(len(talk.answered) for one in rounds for talk in one.talks), at_least=1),
        none_of("answered messages lost", lost),
        none_of("calls that could have finished, and did not", in_vain),
        Figure("people who were asked, and answered after a stop", story.answered, at_least=scale.rounds),
        none_of("questions that a stop had ended", story.refused),
        *story.witness.figures(journal),
        none_of("wrong exit codes", (f"{one.code}" for one in rounds if one.code != 0)),
        none_of(
            "clients not told to come back (1012)", (str(one.close_code) for one in rounds if one.close_code != 1012)
        ),
        Figure("ended within, p50", percentile([one.took for one in rounds], 0.5), "s"),
        Figure("ended within, max", max(one.took for one in rounds), "s", at_most=_SECONDS),
        Figure("with open questions alone", story.with_questions_alone, "s", at_most=_SECONDS_WITH_QUESTIONS_ALONE),
        none_of("tracebacks in the log", [log[log.index("Traceback") :][:2000]] if "Traceback" in log else []),
    ]


def _endings(journal: Mapping[str, StoredCall]) -> Counter[str]:
    return Counter(_code(call) for call in journal.values())


def _code(call: StoredCall) -> str:
    return "open" if call.envelope is None else str(call.envelope.get("code", "success"))
