"""Children are read with a cap, shown while they run, and never left behind. Real processes, no sandbox."""

import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handspan.core.errors import ToolError
from handspan.core.values import Json
from handspan.tools.processes import HeadAndTail, Launch, OutputProgress, run_child
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


async def test_a_flood_is_read_to_its_end_and_cut_in_the_middle(tmp_path: Path, progress: list[Json]) -> None:
    flood = "echo first; head -c 100000000 /dev/zero | tr '\\0' 'x'; echo; echo last"
    finished = await run_child(sh(flood, tmp_path), timeout=50, progress=progress.append)
    assert finished.exit_code == 0
    assert finished.stdout.startswith("first\nxxx") and finished.stdout.endswith("xxx\nlast\n")
    assert len(finished.stdout) < 66_000
    assert f"[… {100_000_012 - 65_536} bytes left out …]" in finished.stdout
    assert 0 < len(progress) < 400
    assert all(len(str(report)) < 5_000 for report in progress)


async def test_both_streams_are_read_at_once(tmp_path: Path) -> None:
    both = "head -c 1000000 /dev/zero >&2; head -c 1000000 /dev/zero; echo out; echo err >&2"
    finished = await run_child(sh(both, tmp_path), timeout=LIMIT)
    assert finished.stdout.endswith("out\n") and finished.stderr.endswith("err\n")


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
        shown.add(b"word ")
    assert progress == [{"stream": "stdout", "text": "word "}]
    shown.close()
    assert len(progress) == 2
    assert "".join(str(report) for report in progress).count("word ") == 4_096 // 5 + 1
    assert "899 characters not shown" in str(progress[1])


async def test_what_was_gathered_is_shown_even_when_nothing_more_comes() -> None:
    reports = Reports()
    shown = OutputProgress("stdout", reports, asyncio.get_running_loop())
    shown.add(b"one ")
    shown.add(b"two")
    await reports.until("two")
    shown.close()
    assert reports.all == [{"stream": "stdout", "text": "one "}, {"stream": "stdout", "text": "two"}]


async def test_a_character_that_comes_in_two_pieces_is_shown_whole(progress: list[Json]) -> None:
    shown = OutputProgress("stdout", progress.append, asyncio.get_running_loop())
    shown.add("€".encode()[:2])
    assert progress == []
    shown.add("€".encode()[2:])
    shown.close()
    assert progress == [{"stream": "stdout", "text": "€"}]


async def test_half_a_character_at_the_end_is_shown_as_a_replacement(progress: list[Json]) -> None:
    shown = OutputProgress("stdout", progress.append, asyncio.get_running_loop())
    shown.add("€".encode()[:2])
    shown.close()
    assert progress == [{"stream": "stdout", "text": "\ufffd"}]


@given(st.lists(st.text(alphabet="aé€😀", max_size=40)), st.integers(min_value=2, max_value=64))
def test_what_is_kept_and_what_is_left_out_add_up(chunks: list[str], limit: int) -> None:
    whole = "".join(chunks).encode()
    kept = HeadAndTail(limit)
    for chunk in chunks:
        kept.add(chunk.encode())
    if len(whole) <= limit // 2 * 2:
        assert kept.text() == whole.decode()
        return
    head, mark, tail = kept.text().split("\n")
    assert "\ufffd" not in head + tail
    assert whole.startswith(head.encode()) and whole.endswith(tail.encode())
    assert int(mark.split()[1]) == len(whole) - len(head.encode()) - len(tail.encode())


def test_a_cut_through_bytes_that_are_no_text_loses_at_most_a_few_of_them() -> None:
    kept = HeadAndTail(8)
    kept.add(b"\x80" * 100)
    assert kept.text().count("\ufffd") >= 5
