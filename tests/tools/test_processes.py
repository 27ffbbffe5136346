"""Children are read with a cap, shown while they run, and never left behind. Real processes, no sandbox."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handspan.core.artifacts import ArtifactRef
from handspan.core.context import Progress, ToolContext, no_progress
from handspan.core.errors import ToolError
from handspan.core.long_text import LongText, count_lines
from handspan.core.values import Json
from handspan.tools.output import OutputLimits, OutputProgress, OutputStorage, OutputStream
from handspan.tools.processes import Launch, run_child
from tests.tools.child_processes import (
    LIMIT,
    Reports,
    all_end,
    is_gone,
    new_mark,
    pid_of,
    processes_with,
    states_of_children,
)

pytestmark = pytest.mark.anyio


def sh(command: str, folder: Path) -> Launch:
    return Launch(("/bin/sh", "-c", command), str(folder), {"PATH": "/usr/bin:/bin"})


async def test_a_program_that_is_not_there_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="'/no/such/program'") as caught:
        await run_child(Launch(("/no/such/program",), str(tmp_path), {}), timeout=LIMIT)
    assert caught.value.code == "execution_failed"


async def test_a_folder_that_is_not_there_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="nowhere"):
        await run_child(sh("true", tmp_path / "nowhere"), timeout=LIMIT)


async def test_a_late_child_and_its_group_are_killed_and_the_output_so_far_is_kept(tmp_path: Path) -> None:
    mark = new_mark()
    finished = await run_child(sh(f"sleep {mark} & echo so far; sleep {mark}", tmp_path), timeout=5)
    assert finished.timed_out
    assert finished.stdout == "so far\n"
    assert finished.exit_code == 137
    assert is_gone(mark)


async def test_a_cancelled_child_is_killed_before_the_cancel_goes_on(tmp_path: Path) -> None:
    mark = new_mark()
    reports = Reports()
    task = asyncio.create_task(run_child(sh(f"echo ready; sleep {mark}", tmp_path), timeout=LIMIT, progress=reports))
    await reports.until("ready")
    left = processes_with(mark)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert all_end(left)


async def test_a_child_that_is_cancelled_while_it_starts_is_killed_too(tmp_path: Path) -> None:
    mark = new_mark()
    task = asyncio.create_task(run_child(sh(f"sleep {mark}", tmp_path), timeout=LIMIT))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert is_gone(mark)


async def test_a_background_child_that_holds_the_pipe_does_not_hold_the_call(tmp_path: Path) -> None:
    mark = new_mark()
    finished = await run_child(sh(f"sleep {mark} & echo done", tmp_path), timeout=LIMIT)
    assert (finished.stdout, finished.exit_code, finished.timed_out) == ("done\n", 0, False)
    assert is_gone(mark)


async def test_a_process_that_fled_from_its_group_does_not_hold_the_call(tmp_path: Path) -> None:
    mark = new_mark()
    flee = f"setsid -f sh -c ': >fled; sleep {mark}'; while [ ! -e fled ]; do :; done; echo done"
    finished = await run_child(sh(flee, tmp_path), timeout=LIMIT)
    assert (finished.stdout, finished.timed_out) == ("done\n", False)
    for fd in processes_with(mark):  # without a sandbox it survives; this test must not leave it behind
        os.kill(pid_of(fd), 9)
        os.close(fd)


@pytest.mark.parametrize("error", [OSError, AttributeError])
async def test_where_the_system_has_no_descriptors_for_processes_a_thread_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def missing(pid: int) -> int:
        raise error

    monkeypatch.setattr(os, "pidfd_open", missing)
    finished = await run_child(sh("echo done; exit 3", tmp_path), timeout=LIMIT)
    assert (finished.exit_code, finished.stdout) == (3, "done\n")
    assert (await run_child(sh("sleep 60", tmp_path), timeout=0.2)).timed_out
    assert "Z" not in states_of_children()


async def test_a_child_leaves_no_zombie(tmp_path: Path) -> None:
    await run_child(sh("true", tmp_path), timeout=LIMIT)
    assert "Z" not in states_of_children()


async def test_a_flood_is_read_to_its_end_and_its_head_and_tail_are_in_memory(
    tmp_path: Path, progress: list[Json]
) -> None:
    flood = "echo first; head -c 100000000 /dev/zero | tr '\\0' 'x'; echo; echo last"
    finished = await run_child(sh(flood, tmp_path), timeout=50, progress=progress.append)
    assert finished.exit_code == 0
    output = finished.output
    assert output.head.startswith("first\nxxx") and output.tail.endswith("xxx\nlast\n")
    assert len(output.head) == len(output.tail) == 65_536
    assert (output.size, output.lines, output.artifact) == (100_000_012, 3, "")
    assert 0 < len(progress) < 400
    assert all(len(str(report)) < 5_000 for report in progress)


async def test_long_output_is_stored_from_its_first_byte_on(tmp_path: Path, ctx: ToolContext) -> None:
    store = OutputStorage(ctx, "exec_shell").store_stream
    finished = await run_child(sh("seq 100000; seq 3 >&2", tmp_path), timeout=LIMIT, store=store)
    whole = "".join(f"{number}\n" for number in range(1, 100_001))
    assert finished.output.artifact and finished.output.lines == 100_000
    assert await ctx.artifacts.read(finished.output.artifact, owner=ctx.who.owner) == whole.encode()
    assert (finished.errors.head, finished.errors.artifact) == ("1\n2\n3\n", "")


async def test_output_above_its_limit_says_how_much_is_missing(tmp_path: Path, ctx: ToolContext) -> None:
    store, limits = OutputStorage(ctx, "exec_shell").store_stream, OutputLimits(shown=1024, stored=100_000)
    finished = await run_child(sh("seq 100000; echo the end", tmp_path), timeout=LIMIT, limits=limits, store=store)
    output = finished.output
    assert (await ctx.artifacts.get(output.artifact, owner=ctx.who.owner)).size == 100_000
    shown = output.render(2048)
    assert (
        f"Only the first 100000 bytes are kept (setting tools.output_limit); the other {output.size - 100_000}" in shown
    )
    assert shown.endswith("the end\n")


async def test_output_that_can_not_be_stored_is_read_to_its_end_all_the_same(tmp_path: Path, ctx: ToolContext) -> None:
    (tmp_path / "artifacts").write_text("a file where the folder should be")
    store = OutputStorage(ctx, "exec_shell").store_stream
    finished = await run_child(sh("head -c 30000000 /dev/zero; echo end", tmp_path), timeout=LIMIT, store=store)
    assert (finished.exit_code, finished.output.size) == (0, 30_000_004)
    assert "could not be kept (The artifact can't be kept: " in finished.output.render(65_536)


async def test_a_cancelled_child_leaves_nothing_stored(tmp_path: Path, ctx: ToolContext) -> None:
    store, reports = OutputStorage(ctx, "exec_shell").store_stream, Reports()
    endless = "head -c 300000 /dev/zero; echo ready >&2; sleep 50"
    task = asyncio.create_task(run_child(sh(endless, tmp_path), timeout=LIMIT, progress=reports, store=store))
    await reports.until("ready")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not list((tmp_path / "artifacts").glob("*"))


async def test_a_store_that_is_slower_than_the_child_makes_the_child_wait(tmp_path: Path, ctx: ToolContext) -> None:
    """A million lines: more than may wait for the disk."""
    waits: list[bool] = []

    async def store(name: str, pieces: AsyncIterator[bytes]) -> ArtifactRef:
        size = 0
        async for piece in pieces:
            size += len(piece)
            waits.append(size > 20_000_000)
            await asyncio.sleep(0)
        return ArtifactRef("id", size)

    limits = OutputLimits(stored=60_000_000)
    finished = await run_child(sh("head -c 30000000 /dev/zero", tmp_path), timeout=LIMIT, limits=limits, store=store)
    assert (finished.output.size, finished.output.stored, any(waits)) == (30_000_000, 30_000_000, True)


async def test_both_streams_are_read_at_once(tmp_path: Path) -> None:
    both = "head -c 1000000 /dev/zero >&2; head -c 1000000 /dev/zero; echo out; echo err >&2"
    finished = await run_child(sh(both, tmp_path), timeout=LIMIT)
    assert finished.output.tail.endswith("out\n") and finished.errors.tail.endswith("err\n")


async def test_output_is_shown_while_the_child_runs(tmp_path: Path) -> None:
    reports = Reports()
    wait = "echo begun; echo bad >&2; while [ ! -e go ]; do :; done"
    task = asyncio.create_task(run_child(sh(wait, tmp_path), timeout=LIMIT, progress=reports))
    await reports.until("begun")
    await reports.until("bad")
    assert not task.done()
    (tmp_path / "go").touch()
    await task
    assert {"stream": "stdout", "text": "begun\n"} in reports.all
    assert {"stream": "stderr", "text": "bad\n"} in reports.all


async def test_bytes_that_are_no_text_become_replacement_characters(tmp_path: Path) -> None:
    finished = await run_child(sh("printf 'a\\377\\000b'", tmp_path), timeout=LIMIT)
    assert finished.stdout == "a\ufffd\0b"


async def test_a_child_without_output_has_empty_streams(tmp_path: Path, progress: list[Json]) -> None:
    finished = await run_child(sh("exit 3", tmp_path), timeout=LIMIT, progress=progress.append)
    assert (finished.exit_code, finished.stdout, finished.stderr, progress) == (3, "", "", [])


async def test_a_child_ended_by_a_signal_has_the_exit_code_that_a_shell_would_give(tmp_path: Path) -> None:
    assert (await run_child(sh("kill -TERM $$", tmp_path), timeout=LIMIT)).exit_code == 143


async def test_standard_input_is_empty(tmp_path: Path) -> None:
    assert (await run_child(sh("cat; echo end", tmp_path), timeout=LIMIT)).stdout == "end\n"


async def test_a_slow_stream_is_shown_at_once_and_a_quick_one_is_gathered(progress: list[Json]) -> None:
    shown = OutputProgress("stdout", progress.append, asyncio.get_running_loop())
    for _ in range(1000):
        shown.add("word ")
    assert progress == [{"stream": "stdout", "text": "word "}]
    shown.close()
    assert len(progress) == 2
    assert "".join(str(report) for report in progress).count("word ") == 4_096 // 5 + 1
    assert "899 characters not shown" in str(progress[1])


async def test_what_was_gathered_is_shown_even_when_nothing_more_comes() -> None:
    reports = Reports()
    shown = OutputProgress("stdout", reports, asyncio.get_running_loop())
    shown.add("one ")
    shown.add("two")
    await reports.until("two")
    shown.close()
    assert reports.all == [{"stream": "stdout", "text": "one "}, {"stream": "stdout", "text": "two"}]


async def collect(*chunks: bytes, limit: int = 64, progress: Progress = no_progress) -> LongText:
    stream = OutputStream("stdout", OutputLimits(shown=limit), progress=progress)
    for chunk in chunks:
        stream.add(chunk)
    return await stream.finish()


async def test_a_character_that_comes_in_two_pieces_is_shown_whole(progress: list[Json]) -> None:
    whole = "€".encode()
    assert (await collect(whole[:2], whole[2:], progress=progress.append)).head == "€"
    assert progress == [{"stream": "stdout", "text": "€"}]


async def test_half_a_character_at_the_end_is_shown_as_a_replacement(progress: list[Json]) -> None:
    assert (await collect("€".encode()[:2], progress=progress.append)).head == "\ufffd"
    assert progress == [{"stream": "stdout", "text": "\ufffd"}]


@given(st.lists(st.text(alphabet="aé€😀\n", max_size=40)), st.integers(min_value=4, max_value=64))
async def test_head_and_tail_are_those_of_the_text(chunks: list[str], limit: int) -> None:
    whole = "".join(chunks)
    text = await collect(*(chunk.encode() for chunk in chunks), limit=limit)
    assert (text.size, text.lines) == (len(whole.encode()), count_lines(whole))
    assert whole.startswith(text.head) and whole.endswith(text.tail)
    assert text.is_whole == (text.size <= limit)
    if not text.is_whole:
        assert limit - 4 < len(text.head.encode()) <= limit
