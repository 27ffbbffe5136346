"""Devices that move: one flaps between nodes, one is there twice, and the node of one dies or freezes in mid-call."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any, Final

import httpx2
from msgspec import Struct

from handspan.core.values import Json
from handspan.testing import DeviceLogic, DeviceRequest, FakeDevice, offer
from tests.chaos.figures import Figure, none_of
from tests.chaos.nodes.drill import Drill, run_drill
from tests.chaos.nodes.fleet import wait_for
from tests.chaos.nodes.load import Amount
from tests.chaos.nodes.rolling import NEVER_SENT
from tests.nodes.gateways import LEASE, PATIENT, resume_token

_LIFT: Final = offer("lift", "Lift a parcel.", timeout=60)
_OWNER: Final = 0
"""The node that has the device."""


class Scale(Struct, frozen=True):
    """How much of it."""

    moves: int = 50
    rounds: int = 4
    devices: int = 3
    callers: int = 3


SHORT: Final = Scale(4, 1, 1, 1)


async def devices(folder: Path, scale: Scale, seed: int) -> list[Figure]:
    """Every promise, and what became of the calls of the devices that moved."""

    async def disturb(drill: Drill) -> list[Figure]:
        figures = await _flap(drill, scale.moves)
        for number in range(scale.rounds):
            figures += await _be_there_twice(drill, number)
            for kind in ("killed", "frozen"):
                figures += await _lose_owner(drill, kind, number)
        return figures

    return await run_drill(folder / "fleet", seed, disturb, Amount(scale.devices, scale.callers, 1, 1))


async def _flap(drill: Drill, moves: int) -> list[Figure]:
    """One device connects to one node after the other, while all of them call it."""
    fleet, ran = drill.fleet, Counter[str]()
    everywhere = set(range(len(fleet.nodes)))

    async def answer(asked: DeviceRequest) -> Json:
        ran[str(asked.args["parcel"])] += 1
        await asyncio.sleep(drill.chance.random() * 0.2)
        return asked.args["parcel"]

    async with (
        httpx2.AsyncClient(timeout=30, trust_env=False) as requests,
        DeviceLogic(fleet.switch.url, fleet.token, answer, tools=[_LIFT], label="flapping") as device,
    ):
        calls: list[asyncio.Task[Any]] = []
        for move in range(moves):
            calls.append(asyncio.create_task(drill.load.call(requests, f"flap-{move}", "flapping")))
            await drill.pause(0.4)
            fleet.switch.out = everywhere - {move % len(fleet.nodes)}
            await device.drop()
            await device.ready(PATIENT)
            drill.done["moves of a device"] += 1
        results = await asyncio.gather(*calls)
    fleet.switch.out = set()
    return [
        Figure("calls of the device that moved", len(results), at_least=moves),
        none_of("its calls that failed", (str(one) for one in results if one.get("code", "success") not in NEVER_SENT)),
        none_of("its calls that ran twice", (f"{key} x {times}" for key, times in ran.items() if times > 1)),
    ]


async def _be_there_twice(drill: Drill, number: int) -> list[Figure]:
    """The same device connects to a second node: the newer connection gets every call."""
    fleet, label, calls = drill.fleet, f"twin{number}", 20
    older, newer = fleet.nodes[0], fleet.nodes[1]
    drill.done["devices that were there twice"] += 1
    async with FakeDevice(older.url, fleet.token) as first, FakeDevice(newer.url, fleet.token) as second:
        await first.connect(role="device", label=label, capabilities=["resume"])
        await first.register(_LIFT)
        await second.connect(role="device", label=label, capabilities=["resume"], resume=resume_token(first))
        await second.register(_LIFT)
        code = await first.closed(PATIENT)
        await wait_for("the device is listed", lambda: _is_listed(drill, f"{label}__lift"))
        async with httpx2.AsyncClient(timeout=30, trust_env=False) as requests, asyncio.TaskGroup() as group:
            results = [
                group.create_task(drill.load.call(requests, f"{label}-{place}", label)) for place in range(calls)
            ]
            for _ in range(calls):
                request = await second.expect("tool_call_request", PATIENT)
                args = request["args"]
                assert isinstance(args, dict)
                await second.answer(request, args["parcel"])
        asked = len(first.unexpected("tool_call_request"))
    return [
        Figure("close code of the older connection", code, at_least=4001, at_most=4001),
        Figure("calls that the older one got", asked, at_most=0),
        none_of(
            "calls without a success", (str(one.result()) for one in results if one.result()["status"] != "success")
        ),
    ]


async def _lose_owner(drill: Drill, kind: str, number: int) -> list[Figure]:
    """The node of a device is lost while a call runs; the device answers at another node, and once."""
    fleet, label, parcel = drill.fleet, f"{kind}{number}", f"moved-{kind}-{number}"
    owner, other = fleet.nodes[_OWNER], fleet.nodes[_OWNER + 1]
    drill.done[f"owners {kind} in mid-call"] += 1
    async with (
        FakeDevice(owner.url, other.token) as device,
        FakeDevice(other.url, other.token) as again,
        httpx2.AsyncClient(timeout=30, trust_env=False) as requests,
    ):
        await device.connect(role="device", label=label, capabilities=["resume"])
        await device.register(_LIFT)
        await wait_for("the device is listed", lambda: _is_listed(drill, f"{label}__lift"))
        calling = asyncio.create_task(drill.load.call(requests, parcel, label, _OWNER + 2))
        request = await device.expect("tool_call_request", PATIENT)
        token = resume_token(device)
        if kind == "killed":
            await owner.kill()
        else:
            owner.freeze()
            fleet.balancer.out.add(_OWNER)
        try:
            await again.connect(role="device", label=label, capabilities=["resume"], resume=token)
            await again.register(_LIFT)
            repeated = await again.expect("tool_call_request", PATIENT, id=request["id"])
            await again.answer(repeated, parcel)  # it ran once: the device knows the id
            result = await calling
        finally:
            if kind == "killed":
                await owner.start()
            else:
                await asyncio.sleep(LEASE)
                owner.thaw()
                fleet.balancer.out.discard(_OWNER)
    return [none_of(f"call of a device whose owner was {kind}, without a success", _unless_success(result))]


def _unless_success(result: Any) -> list[str]:
    return [] if result["status"] == "success" else [str(result)]


async def _is_listed(drill: Drill, tool: str) -> bool:
    return all(found is not None and tool in found for found in await drill.fleet.lists())
