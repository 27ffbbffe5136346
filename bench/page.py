"""How smooth the page is: a trace of the browser beside an empty page, in the same run (SPEC U3).

`web/bench/frames.ts` drives chromium: the chat while 32 tools run and 200 events a second arrive, a journal of 10,000
calls that scrolls, a chat of 2,000 messages that opens and scrolls, and an answer of 1 MB that arrives and is opened. A
frame that is late on the empty page too is the machine's.
"""

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.figures import Figure
from handspan.core.calls import CallRecord, ToolFacts, new_call_id
from handspan.core.messages import AssistantMessage, Message, Text, UserMessage
from handspan.core.principals import BUILTIN, OPERATOR
from handspan.core.results import succeed
from handspan.core.values import JsonObject
from handspan.store.sqlite.store import sqlite_store
from handspan.store.tables.calls import enter_done
from handspan.store.tables.database import TableConnection

ROOT = Path(__file__).parents[1]
JOURNAL = 10_000
MESSAGES = 2_000
TOOL = '''
import asyncio

from handspan import tool
from handspan.core.context import ToolContext


@tool(timeout=None)
async def work(number: int, ctx: ToolContext) -> str:
    """Reports all the time: 32 of these are 200 reports a second."""
    for step in range(10_000):
        ctx.progress(f"step {step} of number {number}")
        await asyncio.sleep(0.15)
    return "ended"
'''


class Smoothness(Struct, frozen=True):
    """What the trace of one page says."""

    frame_ms: float
    empty_ms: float
    longest_task_ms: float
    longest_task_cpu_ms: float
    """What the thread worked in a task: less than the task took where the machine was busy."""
    tasks: int
    events_per_s: float = 0.0


class Measured(Struct, frozen=True):
    """What `web/bench/frames.ts` prints."""

    chat: Smoothness
    journal: Smoothness
    long: Smoothness
    long_open: Smoothness
    answer: Smoothness
    answer_open: Smoothness


class ReadyFile(Struct, frozen=True):
    """What the gateway writes when it answers."""

    url: str
    token: str


async def measure(folder: Path) -> Iterable[Figure]:
    """`…_frame`: median frame against the empty page's. `…_task_ms`: the longest task. `…_open`: as it is opened."""
    async with _gateway(folder / "page") as ready:
        found = await _trace(ready)
    return [
        Figure("page_events_per_s", found.chat.events_per_s, "events/s that arrived", 190, more_is_better=True),
        *_figures("page", found.chat),
        *_figures("journal", found.journal),
        *_figures("long", found.long),
        *_tasks("long_open", found.long_open),
        *_figures("answer", found.answer),
        *_tasks("answer_open", found.answer_open),
    ]


def _figures(name: str, found: Smoothness) -> list[Figure]:
    return [
        Figure(f"{name}_frame", found.frame_ms / found.empty_ms, f"x an empty page's {found.empty_ms:.1f} ms", 1.05),
        *_tasks(name, found),
    ]


def _tasks(name: str, found: Smoothness) -> list[Figure]:
    return [
        Figure(f"{name}_task_ms", found.longest_task_ms, f"ms, longest of {found.tasks:,} tasks", 50),
        Figure(f"{name}_task_cpu_ms", found.longest_task_cpu_ms, "ms of CPU in one task", 50),
    ]


@asynccontextmanager
async def _gateway(folder: Path) -> AsyncIterator[ReadyFile]:
    """A gateway in a process of its own, with the tool and a long journal."""
    (folder / "config/tools").mkdir(parents=True)
    (folder / "config/tools/work.py").write_text(TOOL)
    await _fill_store(folder / "state")
    ready = folder / "ready.json"
    places = ("--ready-file", ready, "--state", folder / "state", "--workspace", folder / "workspace")
    limits = ("--set", 'tools.concurrency={"plugin": 64}')
    command = (sys.executable, "-m", "handspan.testing", *map(str, places), "--config", str(folder / "config"), *limits)
    process = await asyncio.create_subprocess_exec(*command)
    try:
        for _ in range(1200):  # a minute
            if ready.exists():
                break
            await asyncio.sleep(0.05)
        yield msgspec.json.decode(ready.read_bytes(), type=ReadyFile)
    finally:
        process.terminate()
        await process.wait()


async def _fill_store(state: Path) -> None:
    async with sqlite_store(state) as store:
        await store.database.write(_enter_calls)
        await store.conversations.create(owner=OPERATOR.owner, session="long", name="A long talk")
        await store.conversations.append("long", *_long_talk(), owner=OPERATOR.owner)


def _long_talk() -> Iterator[Message]:
    words = "Words of it, **some** of them with weight. " * 12
    answer = f"## An answer\n\n{words}\n\n- one\n- two\n\n```python\nx = 1\n```\n"
    for number in range(MESSAGES // 2):
        yield UserMessage((Text(f"Question {number}?"),), f"q{number}", f"t{number}")
        yield AssistantMessage((Text(f"{answer}\nThat was number {number}."),), "end", "scripted")


async def _enter_calls(connection: TableConnection) -> None:
    facts = ToolFacts(BUILTIN, "1.0.0", read_only=True)
    for number in range(JOURNAL):
        name = ("read_file", "web_fetch", "exec_shell", "search_files")[number % 4]
        arguments: JsonObject = {"path": f"notes/{number}.txt"}
        call = CallRecord(new_call_id(), name, facts, arguments, OPERATOR.owner, "", "General", 1e9 + number)
        call.duration = number % 97 / 50
        await enter_done(call, succeed({"content": f"line {number}"}), connection)


async def _trace(ready: ReadyFile) -> Measured:
    chromium = shutil.which("chromium")
    if chromium is None:
        raise RuntimeError("There is no chromium in PATH. Run: make system")
    await _run(ROOT / "scripts/web-build", "--check")  # installs what drives the browser
    printed = await _run(ROOT / "scripts/node", ROOT / "web/bench/frames.ts", ready.url, ready.token, chromium)
    return msgspec.json.decode(printed, type=Measured)


async def _run(*words: str | Path) -> bytes:
    process = await asyncio.create_subprocess_exec(*map(str, words), stdout=asyncio.subprocess.PIPE)
    printed, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError("The browser could not be measured: see above.")
    return printed
