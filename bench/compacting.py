"""Long conversations: what it costs to see how full a context is, to plan what becomes shorter, and to hold it."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from msgspec import structs

from bench.figures import Figure
from bench.house import House
from bench.looping import Instant, LinesLog
from handspan.agent.compaction.meter import ContextMeter, Window
from handspan.agent.compaction.planner import PlanLimits, plan
from handspan.agent.conversation import Conversation
from handspan.core.messages import AssistantMessage, CallPart, CallResult, Message, ResultsMessage, Text, UserMessage
from handspan.core.records import ContextMarks

COUNT = 10_000
NONE = ContextMarks()


def history(count: int = COUNT) -> list[Message]:
    """Turns of four messages: a question, a call, its result, an answer."""
    messages: list[Message] = []
    for number in range(count // 4):
        call = CallPart(f"call_{number}", "read_file", f'{{"path": "notes/{number}.txt"}}')
        result = CallResult(call.id, call.name, '{"status":"success","result":"' + "line of a file\\n" * 40 + '"}')
        messages += [
            UserMessage((Text(f"What stands in note {number}?"),)),
            AssistantMessage((call,), "calls", "m"),
            ResultsMessage((result,)),
            AssistantMessage((Text("It says that all is well, as it was the day before. " * 4),), "end", "m"),
        ]
    return messages


async def measure(folder: Path) -> Iterable[Figure]:
    """`plan_10k_ms`, `plan_10k_move_ms`, `plan_round_us`, `compacted_10k_mb`."""
    messages = history()
    meter = ContextMeter("openai-chat", Window(10_000_000))
    meter.measure(messages, NONE, "Be brief.", ())
    idle, moving = PlanLimits(10**9, 10**8, 4000, 10**6), PlanLimits(20_000, 10_000, 2000, 10**6)
    marks = plan(messages, meter.sizes, NONE, moving).summarize
    after = structs.replace(NONE, short=marks, summarized=marks, summary="s" * 8000, made=len(messages))

    def moves() -> None:
        plan(messages, meter.sizes, NONE, moving)
        plan(messages, meter.sizes, after, moving, moves=True)

    return [
        Figure("plan_10k_ms", _best(lambda: plan(messages, meter.sizes, NONE, idle)) * 1e3, "ms CPU", target=5),
        Figure("plan_10k_move_ms", _best(moves) * 1e3, "ms CPU, a mark moves", target=50),
        Figure("plan_round_us", _round_us(messages), "us CPU, nothing to do", target=2),
        Figure("compacted_10k_mb", _memory(folder, "marked") - _memory(folder, "whole"), "MB more", target=0),
    ]


def _best(work: Callable[[], object], times: int = 30) -> float:
    """CPU seconds of the fastest of so many."""
    best = float("inf")
    for _ in range(times):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best


def _round_us(messages: list[Message], rounds: int = 2000) -> float:
    """What it costs each round to see that there is room, with the two messages that the round before has added."""
    more = history(2 * rounds)
    best = float("inf")
    for _ in range(10):
        meter, grown, specs = ContextMeter("openai-chat", Window(10**9)), list(messages), ()
        meter.measure(grown, NONE, "Be brief.", specs)
        began = time.process_time()
        for place in range(0, 2 * rounds, 2):
            grown += more[place : place + 2]
            meter.measure(grown, NONE, "Be brief.", specs)
            meter.note(grown[-1], len(grown))
        best = min(best, (time.process_time() - began) / rounds)
    return best * 1e6


_MEMORY = """
import sys
from pathlib import Path
from bench.compacting import hold
held = hold(Path(sys.argv[1]), is_marked=sys.argv[2] == "marked")
status = Path("/proc/self/status").read_text(encoding="utf-8")
print(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")))
"""


def hold(folder: Path, *, is_marked: bool) -> Conversation:
    """A conversation that was sent to a model, whole or with a summary."""
    meter = ContextMeter("openai-chat", Window(32_000))
    messages = history()
    held = Conversation("s", House(folder).caller, Instant(0, "openai-chat"), LinesLog(), messages, meter=meter)
    if is_marked:
        cut = len(messages) - 40
        held.use_marks(ContextMarks(cut, cut, "s" * 8000, made=len(messages)), 1)
        meter.measure(held.messages, held.marks, "", ())
    held.projection()
    return held


def _memory(folder: Path, how: str) -> float:
    command = [sys.executable, "-c", _MEMORY, str(folder), how]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout) / 1024
