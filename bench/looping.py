"""The conversation's loop with a model that answers at once: what a round costs, and whether it grows."""

import itertools
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path

import msgspec

from bench.bare import bare_loop
from bench.figures import Figure
from bench.house import House
from handspan.agent.conversation import Conversation
from handspan.agent.limits import TurnLimits
from handspan.agent.loop import Loop
from handspan.core.calls import new_call_id
from handspan.core.events import Event
from handspan.core.images import ImageReader
from handspan.core.messages import Api, AssistantMessage, CallPart, Message, Text, UserMessage
from handspan.core.tool import ToolSpec
from handspan.models.choice import codec_for
from handspan.models.kept_messages import KeptMessages
from handspan.models.model import ModelEvent, Projection, Replied
from handspan.models.projection import EncodedProjection

FEW, SOME, MANY = 10, 50, 200


class Instant:
    """A model that calls `add` so many times and then says "done". `api` gives it a real API's projection."""

    name = "instant"

    def __init__(self, rounds: int, api: Api | None = None) -> None:
        self._left = rounds
        self._api = api

    def projection(self, instructions: str = "") -> Projection:
        """The messages as they are, or in the words of the API."""
        return (
            KeptMessages(instructions) if self._api is None else EncodedProjection(codec_for(self._api), instructions)
        )

    async def reply(
        self, projection: Projection, specs: Sequence[ToolSpec], artifacts: ImageReader | None = None
    ) -> AsyncIterator[ModelEvent]:
        if self._left == 0:
            yield Replied(AssistantMessage((Text("done"),), model="instant"))
            return
        self._left -= 1
        call = CallPart(new_call_id(), "add", f'{{"a": {self._left}, "b": 3}}', "call_1")
        yield Replied(AssistantMessage((call,), "calls", "instant"))


async def measure(folder: Path) -> Iterable[Figure]:
    """`loop_round`, `loop_growth_50`, `loop_growth`, `sessions_1000_mb`."""
    best_floor = best_ours = longer = float("inf")
    for _ in range(15):
        best_floor = min(best_floor, await _floor(FEW))
        best_ours = min(best_ours, await _ours(folder, FEW))
        longer = min(longer, await _ours(folder, SOME))
    early = late = float("inf")
    for _ in range(8):
        first, last = await _first_and_last(folder)
        early, late = min(early, first), min(late, last)
    return [
        Figure("loop_round", best_ours / best_floor, "x floor", target=6, line=12),
        Figure("loop_round_us", best_ours * 1e6, "us CPU"),
        Figure("loop_growth_50", longer / best_ours, f"x, rounds of {SOME} against {FEW}"),
        Figure("loop_growth", late / early, f"x, round {MANY} against {FEW}", target=1.05, line=1.2),
        Figure("sessions_1000_mb", _sessions_mb(folder), "MB, 50 messages each", target=100),
    ]


async def _floor(rounds: int) -> float:
    """CPU seconds of one round of the bare loop."""
    began = time.process_time()
    for _ in range(100):
        await bare_loop(rounds)
    return (time.process_time() - began) / 100 / (rounds + 1)


class LinesLog:
    """A session log: every message as a line of JSON."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def append(self, session: str, message: Message, after: int) -> None:
        """Keep this line."""
        self.lines.append(msgspec.json.encode(message))


def _session(house: House, rounds: int, api: Api | None = None) -> tuple[Loop, Conversation]:
    limits = TurnLimits(rounds=None)
    session = Conversation("s", house.caller, Instant(rounds, api), LinesLog(), limits=limits)
    return Loop(house.engine, house.ledger), session


async def _ours(folder: Path, rounds: int) -> float:
    spent, house = 0.0, House(folder)
    for _ in range(20):
        loop, session = _session(house, rounds)
        events: list[Event] = []
        await session.append(UserMessage((Text("go"),)))
        began = time.process_time()
        await loop.advance(session, events.append)
        spent += time.process_time() - began
    return spent / 20 / (rounds + 1)


async def _first_and_last(folder: Path) -> tuple[float, float]:
    """CPU seconds of a round near the tenth and near the two hundredth."""
    loop, session = _session(House(folder), MANY + 20, "openai-chat")
    marks: list[float] = []

    def note(event: Event) -> None:
        if type(event).__name__ == "RoundBegan":
            marks.append(time.process_time())

    await session.append(UserMessage((Text("go"),)))
    await loop.advance(session, note)
    rounds = [later - earlier for earlier, later in itertools.pairwise(marks)]
    return _typical(rounds, FEW), _typical(rounds, MANY)


def _typical(rounds: list[float], number: int) -> float:
    """A round near that number, the lower middle of sixteen: the timer is coarse, and the machine busy."""
    return sorted(rounds[number - 8 : number + 8])[6]


_MEMORY = """
import asyncio, sys
from pathlib import Path
from bench.looping import open_many
sessions = asyncio.run(open_many(Path(sys.argv[1]), int(sys.argv[2])))
status = Path("/proc/self/status").read_text(encoding="utf-8")
print(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")))
"""


def _sessions_mb(folder: Path) -> float:
    """Memory of a thousand open sessions, over that of one; in processes of their own."""

    def kilobytes(count: int) -> int:
        command = [sys.executable, "-c", _MEMORY, str(folder), str(count)]
        return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    return (kilobytes(1000) - kilobytes(1)) / 1024


async def open_many(folder: Path, count: int) -> list[Conversation]:
    """So many sessions of about fifty messages, all of them open."""
    sessions, house = [], House(folder)
    for _ in range(count):
        loop, session = _session(house, 24, "openai-chat")
        await session.append(UserMessage((Text("go"),)))
        await loop.advance(session, lambda event: None)
        sessions.append(session)
    return sessions
