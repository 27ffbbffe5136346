"""The node of a caller is killed at each point of a step, and the conversation goes on at another node."""

import time
from collections import Counter
from pathlib import Path
from typing import Final

from msgspec import Struct

from handspan.testing import FakeDevice
from tests.chaos.figures import Figure, none_of, percentile
from tests.chaos.nodes.child import POINTS
from tests.chaos.nodes.drill import Drill, run_drill
from tests.chaos.nodes.fleet import wait_for
from tests.chaos.nodes.load import Amount
from tests.waiting import WAIT

_CALLER: Final = 1
"""The node that is killed."""
_GOES_ON_ALONE: Final = frozenset(POINTS[2:4])
"""Here the ledger has the call, and a device can answer it: the turn goes on though no person asks again."""
_NEVER_SENT: Final = POINTS[1]


class Scale(Struct, frozen=True):
    """How much of it."""

    rounds: int = 4
    """For each point; in every other one no person asks again, where the turn goes on by itself."""
    points: int = len(POINTS)
    """How many of them, from the last one on."""
    devices: int = 4
    callers: int = 2


SHORT: Final = Scale(1, 1, 1, 1)


class _CutOffStep(Struct):
    point: str
    parcel: str
    session: str
    seconds: float = 0.0
    """From the end of the process to the answer."""
    answer: str = ""


async def steps(folder: Path, scale: Scale, seed: int) -> list[Figure]:
    """Every promise, and the answer of every conversation that was cut off."""

    async def disturb(drill: Drill) -> list[Figure]:
        cut = []
        for number in range(scale.rounds):
            for place, point in enumerate(POINTS[-scale.points :]):
                step = _CutOffStep(point, f"step-{number}-{place}", f"session-{number}-{place}")
                await _cut_off(drill, step, is_asked_again=point not in _GOES_ON_ALONE or number % 2 == 0)
                drill.done[point] += 1
                cut.append(step)
        return _figures(drill, cut)

    return await run_drill(folder / "fleet", seed, disturb, Amount(scale.devices, scale.callers, 1, 1))


async def _cut_off(drill: Drill, step: _CutOffStep, *, is_asked_again: bool) -> None:
    fleet, node = drill.fleet, drill.fleet.nodes[_CALLER]
    label = await _device_elsewhere(drill)
    text = f'call {label}__lift {{"parcel": "{step.parcel}"}}\nthen\n<{step.parcel}> gave {{results}}'
    node.armed.write_text(f"{step.point}\n{step.parcel}")
    async with FakeDevice(node.url, node.token) as chat:
        await chat.connect(role="chat", session_id=step.session, capabilities=["resume"])
        await chat.send({"type": "message", "content": text, "id": step.parcel})
        await node.ended(WAIT)
    begun = time.monotonic()
    if is_asked_again:
        async with FakeDevice(fleet.url, fleet.token) as chat:
            step.answer = await drill.load.say(chat, step.session, step.parcel, text)
    else:
        await wait_for("the turn goes on by itself", lambda: _stored_answer(drill, step))
        step.answer = await _stored_answer(drill, step)
    step.seconds = time.monotonic() - begun
    drill.load.said.setdefault(step.session, []).append(text)
    await node.start()


async def _device_elsewhere(drill: Drill) -> str:
    """A device whose connection is on another node than the one that is killed."""
    elsewhere = "nodes.name <> 'node1' AND clients.role = 'device'"
    sql = f"SELECT label FROM clients JOIN nodes ON clients.node = nodes.id WHERE {elsewhere}"
    await wait_for("a device is on another node", lambda: drill.fleet.rows(sql))
    labels = [label for (label,) in await drill.fleet.rows(sql)]
    return str(drill.chance.choice(sorted(labels)))


async def _stored_answer(drill: Drill, step: _CutOffStep) -> str:
    mark = f"<{step.parcel}> gave"
    sql = f"SELECT body FROM messages WHERE session = '{step.session}' ORDER BY seq DESC LIMIT 1"
    bodies = [body.decode() for (body,) in await drill.fleet.rows(sql)]
    return bodies[0] if bodies and mark in bodies[0] and '"type":"assistant"' in bodies[0] else ""


def _is_true(step: _CutOffStep, ran: Counter[str]) -> bool:
    """Whether the answer says what happened. Before the ledger has a call, it is never sent: the model is told so."""
    if step.point == _NEVER_SENT and '"interrupted"' in step.answer.replace("\\", ""):
        return ran[step.parcel] == 0
    return "success" in step.answer and ran[step.parcel] == 1


def _figures(drill: Drill, cut: list[_CutOffStep]) -> list[Figure]:
    ran = drill.load.ran
    return [
        Figure("steps that were cut off", len(cut)),
        none_of(
            "steps whose answer is wrong",
            (f"{one}: ran {ran[one.parcel]} times" for one in cut if not _is_true(one, ran)),
        ),
        Figure("until the answer, p50", percentile([one.seconds for one in cut], 0.5) * 1000, "ms"),
        Figure("until the answer, max", percentile([one.seconds for one in cut], 1.0) * 1000, "ms", at_most=15_000),
    ]
