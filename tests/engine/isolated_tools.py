"""Tools for the tests of worker processes: another process finds them here."""

import asyncio
import ctypes
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from handspan.core.context import ToolContext
from handspan.core.errors import ToolError
from handspan.core.function_tool import tool
from handspan.core.results import Attachment, Failure, Pending, Success
from handspan.core.values import Json


@tool(isolated=True)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(isolated=True)
def pid() -> int:
    """The number of the process."""
    return os.getpid()


@tool(isolated=True)
def segfault() -> None:
    """Touch memory that is not there."""
    ctypes.string_at(0)


@tool(isolated=True)
def leave(status: int) -> None:
    """End the process without a word."""
    os._exit(status)


@tool(isolated=True)
def exit_politely() -> None:
    """Raise SystemExit."""
    sys.exit(3)


@tool(isolated=True)
def crash() -> None:
    """Raise an exception."""
    raise LookupError("gone")


@tool(isolated=True)
def refuse() -> None:
    """Raise an error of our own."""
    raise ToolError("file_not_found", "File not found: x")


@tool(isolated=True)
def talk() -> str:
    """Print a lot, in every way there is."""
    sys.stdout.write("to stdout\n" * 10_000)
    sys.stdout.flush()
    os.write(1, b"raw\n")
    subprocess.run(["echo", "from a child"], check=True)
    return f"read {sys.stdin.read()!r}"


@tool(isolated=True)
def huge(size: int) -> str:
    """A result of this size."""
    return "x" * size


@tool(isolated=True)
def report(ctx: ToolContext) -> str:
    """Say what is going on, from several threads."""

    def say(number: int) -> None:
        for step in range(20):
            ctx.progress({"thread": number, "step": step, "text": "x" * 10_000})

    threads = [threading.Thread(target=say, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return "said"


@tool(isolated=True)
async def asynchronous(seconds: float) -> str:
    """Wait on a loop of its own."""
    await asyncio.sleep(seconds)
    return "waited"


def _wrapped() -> Any:
    return _answer()


async def _answer() -> str:
    return "awaited"


wrapped = tool(name="wrapped", description="A plain function that gives a coroutine.", isolated=True)(_wrapped)
"""Defined under another name than its function: the worker finds the function."""


@tool(isolated=True)
def about(ctx: ToolContext) -> dict[str, Json]:
    """What the tool knows about its call."""
    left = None if ctx.deadline is None else ctx.deadline.at - time.monotonic()
    return {
        "call": ctx.call_id,
        "owner": ctx.who.owner,
        "session": ctx.session,
        "workspace": str(ctx.workspace),
        "has_time": left is not None and 0 < left <= 30,
    }


@tool(isolated=True)
def keep(ctx: ToolContext, what: str) -> None:
    """Try to use artifacts."""
    calls: dict[str, Any] = {
        "keep": ctx.artifacts.keep(b"x", owner="me"),
        "get": ctx.artifacts.get("x", owner="me"),
        "read": ctx.artifacts.read("x", owner="me"),
    }
    for name, call in calls.items():
        if name == what:
            asyncio.run(call)
        call.close()


@tool(isolated=True)
def special(what: str) -> Any:
    """Every kind of answer there is."""
    picture = Attachment("image", "image/png", b"\x89PNG")
    return {
        "success": Success({"a": 1}, (picture,)),
        "attachment": picture,
        "failure": Failure("network_error", "no route"),
        "pending": Pending(60.0),
        "object": object(),
        "number": 2**70,
    }[what]


@tool(isolated=True, timeout=60.0)
def start_children(folder: str) -> None:
    """Start children, one of them in its own process session and one that is never waited for; then hang."""
    script = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"
    for name, own_session in (("child", False), ("session", True)):
        subprocess.Popen([sys.executable, "-c", script, f"{folder}/{name}"], start_new_session=own_session)
    daemon = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {script!r}, {folder + '/daemon'!r}]"
    subprocess.run([sys.executable, "-c", f"{daemon}, start_new_session=True)"], check=True)
    names = ("child", "session", "daemon")
    while not all((Path(folder) / name).exists() and (Path(folder) / name).read_text() for name in names):
        time.sleep(0.001)
    (Path(folder) / "ready").write_text(str(os.getpid()))
    time.sleep(600)


not_a_tool = 5


@tool(isolated=True)
def divide_by_nothing() -> int:
    """Fail in a process."""
    return 1 // 0


_leave_behind, _reported = threading.Event(), threading.Event()


@tool(isolated=True)
def report_late(ctx: ToolContext) -> str:
    """Leave a thread behind that reports when the next call is at work."""

    def say() -> None:
        _leave_behind.wait()
        ctx.progress("late")
        _reported.set()

    threading.Thread(target=say, daemon=True).start()
    return "left"


@tool(isolated=True)
def let_report(ctx: ToolContext) -> int:
    """Let the thread of the earlier call report, then report too."""
    _leave_behind.set()
    assert _reported.wait(60)
    ctx.progress("own")
    return os.getpid()
