"""Worker processes for isolated tools (SPEC T3)."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from handspan.core.context import ToolContext
from handspan.core.errors import ToolError
from handspan.core.function_tool import FunctionTool, tool
from handspan.core.principals import Principal
from handspan.core.results import Failure, Pending, Success
from handspan.core.values import Json
from handspan.engine.workers.pool import Worker, Workers, describe_exit
from tests.engine import isolated_tools
from tests.engine.engine_kit import EngineKit, outcome_of
from tests.waiting import WAIT, until

pytestmark = [pytest.mark.anyio, pytest.mark.outside]

PATIENT = 30.0


def isolated(kit: EngineKit, *tools: FunctionTool[..., Any]) -> EngineKit:
    for made in tools:
        kit.add(made)
    return kit


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


async def gone(process: int) -> bool:
    """Whether this process ends; the kernel may take a moment."""
    for _ in range(500):
        if not is_running(process):
            return True
        await asyncio.sleep(0.01)
    return False


# Crashes.


@pytest.mark.parametrize(
    ("crashing", "arguments", "message"),
    [
        (isolated_tools.segfault, {}, "Tool 'segfault' took its worker process down (killed by SIGSEGV)."),
        (isolated_tools.leave, {"status": 7}, "Tool 'leave' took its worker process down (exit status 7)."),
        (isolated_tools.leave, {"status": 0}, "Tool 'leave' took its worker process down (exit status 0)."),
        (isolated_tools.exit_politely, {}, "Tool 'exit_politely' failed: SystemExit: 3"),
        (isolated_tools.crash, {}, "Tool 'crash' failed: LookupError: gone"),
    ],
)
async def test_whatever_happens_in_a_worker_is_only_this_calls_failure(
    kit: EngineKit, crashing: FunctionTool[..., Any], arguments: dict[str, Json], message: str
) -> None:
    isolated(kit, crashing, isolated_tools.add)
    assert await kit.failure(crashing.spec.name, arguments) == Failure("execution_failed", message)
    assert await kit.value("add", {"a": 1, "b": 2}) == 3


async def test_an_error_of_our_own_keeps_its_code(kit: EngineKit) -> None:
    isolated(kit, isolated_tools.refuse)
    assert await kit.failure("refuse") == Failure("file_not_found", "File not found: x")


async def test_a_worker_that_died_while_it_was_idle_is_replaced(kit: EngineKit) -> None:
    isolated(kit, isolated_tools.pid)
    first = await kit.value("pid")
    assert isinstance(first, int)
    os.kill(first, signal.SIGKILL)
    [worker] = kit.engine.runner.workers._idle
    await asyncio.wait_for(worker._process.wait(), WAIT)
    second = await kit.value("pid")
    assert second != first


async def test_a_killed_worker_leaves_no_pipe_to_the_loop() -> None:
    """What it has started holds the pipe for longer than the worker itself lives."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *("sh", "-c", "sleep 100 & exit 0"), stdin=pipe, stdout=pipe, start_new_session=True
    )
    await until(lambda: process.returncode is not None)  # `wait` would wait for the end of the pipe, too
    await asyncio.wait_for(Worker(process, PATIENT).kill(), WAIT)
    reading = [found for found in gc.get_objects() if isinstance(found, asyncio.ReadTransport)]
    assert [transport for transport in reading if not transport.is_closing()] == []


@pytest.mark.parametrize(
    "status", [(-signal.SIGKILL, "killed by SIGKILL"), (-250, "killed by signal 250"), (3, "exit status 3")]
)
def test_the_end_of_a_process_in_words(status: tuple[int, str]) -> None:
    assert describe_exit(status[0]) == status[1]


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (b"\0\0\0\x01\xc1", "it gave no answer that makes sense, and was killed"),
        (b"\0\0\0\x05", "it gave no answer that makes sense, and was killed"),
        (b"\xff\xff\xff\xff", "answered with 4294967295 bytes: far too many"),
    ],
)
async def test_a_worker_that_talks_nonsense_is_killed(ctx: ToolContext, frame: bytes, message: str) -> None:
    script = f"import os, time; os.write(1, {frame!r}); os.close(1); time.sleep(600)"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", script),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )

    async def start() -> Worker:
        return Worker(process, last_seconds=0.01)

    workers = Workers(start=start)
    with pytest.raises(ToolError, match=message):
        await workers.run(isolated_tools.add, {"a": 1, "b": 2}, ctx)
    assert process.returncode == -signal.SIGKILL


# Results.


async def test_what_a_tool_prints_and_reads_does_not_touch_the_answers(
    kit: EngineKit, capfd: pytest.CaptureFixture[str]
) -> None:
    isolated(kit, isolated_tools.talk)
    assert await kit.value("talk") == "read ''"
    printed = capfd.readouterr()
    assert printed.out == ""
    assert "to stdout" in printed.err and "raw" in printed.err and "from a child" in printed.err


async def test_a_huge_result_comes_through_and_is_kept_as_an_artifact(kit: EngineKit) -> None:
    isolated(kit, isolated_tools.huge)
    value = await kit.value("huge", {"size": 5_000_000})
    handle = str(value).partition("read_artifact with id '")[2].partition("'")[0]
    assert len(await kit.artifacts.read(handle, owner="operator")) == 5_000_000


async def test_progress_comes_while_it_runs_whole_even_from_several_threads(kit: EngineKit) -> None:
    isolated(kit, isolated_tools.report)
    seen: list[Any] = []
    assert await kit.value("report", caller=kit.caller(progress=seen.append)) == "said"
    assert len(seen) == 80
    for number in range(4):
        assert [said["step"] for said in seen if said["thread"] == number] == list(range(20))


async def test_progress_of_an_earlier_call_does_not_reach_the_next_one_in_the_same_worker(kit: EngineKit) -> None:
    isolated(kit, isolated_tools.report_late, isolated_tools.let_report)
    anns: list[Json] = []
    bobs: list[Json] = []
    assert await kit.value("report_late", caller=kit.caller(who=Principal("ann"), progress=anns.append)) == "left"
    await kit.value("let_report", caller=kit.caller(who=Principal("bob"), session="s2", progress=bobs.append))
    assert (anns, bobs) == ([], ["own"])


async def test_an_async_function_has_a_loop_of_its_own_there(kit: EngineKit) -> None:
    isolated(kit, isolated_tools.asynchronous, isolated_tools.wrapped)
    assert await kit.value("asynchronous", {"seconds": 0.001}) == "waited"
    assert await kit.value("wrapped") == "awaited"


async def test_a_tool_knows_about_its_call(kit: EngineKit) -> None:
    isolated(kit, isolated_tools.about)
    about = await kit.value("about", call_id="call-1")
    assert isinstance(about, dict)
    assert about.pop("workspace") == str(kit.engine.runner._workspace)
    assert about == {"call": "call-1", "owner": "operator", "session": "session-1", "has_time": True}


@pytest.mark.parametrize("what", ["keep", "get", "read"])
async def test_artifacts_are_the_engines_work(kit: EngineKit, what: str) -> None:
    isolated(kit, isolated_tools.keep)
    assert "An isolated tool has no artifacts" in (await kit.failure("keep", {"what": what})).message


async def test_every_kind_of_answer_is_what_it_would_be_on_the_loop(kit: EngineKit) -> None:
    isolated(kit, isolated_tools.special)
    success = await kit.call("special", {"what": "success"})
    assert isinstance(success, Success)
    assert (success.value, success.attachments[0].data) == ({"a": 1}, b"\x89PNG")
    attached = await kit.call("special", {"what": "attachment"})
    assert isinstance(attached, Success)
    assert (attached.value, attached.attachments[0].media_type) == (None, "image/png")
    assert await kit.failure("special", {"what": "failure"}) == Failure("network_error", "no route")
    assert await kit.call("special", {"what": "pending"}, call_id="call-1") == Pending(60.0)
    assert await kit.engine.settle("call-1", Success(1)) is not None
    assert "can't be written as JSON" in (await kit.failure("special", {"what": "object"})).message
    assert "can't be handed over" in (await kit.failure("special", {"what": "number"})).message
    assert await kit.failure("special", {"what": "failure"}) == Failure("network_error", "no route")


async def test_workers_are_used_again_and_only_a_few_are_kept(kit: EngineKit) -> None:
    isolated(kit, isolated_tools.pid, isolated_tools.asynchronous)
    assert await kit.value("pid") == await kit.value("pid")
    results = await outcome_of([kit.start("asynchronous", {"seconds": 0.05}) for _ in range(4)])
    assert [result.value for result in results] == ["waited"] * 4
    assert len(kit.engine.runner.workers._idle) == 2


# Ends.


async def test_a_stopped_call_takes_its_worker_and_everything_it_started_with_it(
    kit: EngineKit, tmp_path: Path
) -> None:
    isolated(kit, isolated_tools.start_children)
    task = kit.start("start_children", {"folder": str(tmp_path)})
    await until((tmp_path / "ready").exists)
    await until(lambda: (tmp_path / "ready").read_text())
    processes = [int((tmp_path / name).read_text()) for name in ("ready", "child", "session", "daemon")]
    assert all(map(is_running, processes))
    task.cancel()
    assert isinstance((await outcome_of([task]))[0], asyncio.CancelledError)
    assert [await gone(process) for process in processes] == [True] * 4
    assert kit.engine.runner.workers._idle == []


async def test_a_tool_that_takes_too_long_is_stopped_with_its_worker(kit: EngineKit) -> None:
    slow = tool(isolated=True, timeout=0.5, name="slow")(isolated_tools.asynchronous.function)
    isolated(kit, slow)
    failure = await kit.failure("slow", {"seconds": 600})
    assert failure == Failure("timeout", "Tool 'slow' timed out after 0.5 s (the tool's own limit) and was stopped.")
    assert kit.engine.runner.workers._idle == []
    assert kit.engine.runner.reaper.reaped == 0


async def test_closing_the_engine_ends_the_idle_workers(kit: EngineKit) -> None:
    isolated(kit, isolated_tools.pid)
    process = await kit.value("pid")
    assert isinstance(process, int) and is_running(process)
    await kit.engine.close()
    assert await gone(process)


async def test_a_worker_whose_parent_is_killed_dies(tmp_path: Path) -> None:
    script = f"""
import asyncio, sys
from pathlib import Path
from handspan.core.calls import ToolCall
from tests.engine import isolated_tools
from tests.engine.engine_kit import EngineKit
async def main():
    kit = EngineKit(Path({str(tmp_path)!r}))
    kit.add(isolated_tools.pid)
    kit.add(isolated_tools.asynchronous)
    print(await kit.value("pid"), flush=True)
    await kit.engine.call(ToolCall("asynchronous", {{"seconds": 600}}, "call-2"), kit.caller())
asyncio.run(main())
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", script, stdout=subprocess.PIPE, env=environment)
    assert parent.stdout is not None
    worker = int(await asyncio.wait_for(parent.stdout.readline(), PATIENT))
    assert is_running(worker)
    parent.kill()
    await parent.wait()
    assert await gone(worker)


async def test_a_worker_loads_no_module_of_the_current_folder(
    kit: EngineKit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "msgspec.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    await isolated(kit, isolated_tools.add).call("add", {"a": 1, "b": 2})
    assert not (tmp_path / "ran").exists()
