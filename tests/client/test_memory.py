"""What a client remembers, and the file that it keeps it in."""

import os
import stat
import threading
from pathlib import Path

import msgspec
import pytest

from handspan.client.memory import MAX_AGE, MAX_CALLS, CallMemory, StateFile
from handspan.core.errors import ConfigError, WireError
from handspan.wire.ws_frames import FailureFrame, MediaPart, ResultFrame

NOW = 1_700_000_000.0


def full() -> CallMemory:
    memory = CallMemory()
    memory.resume_token = "t1"
    memory.start("started", NOW)
    memory.answer(ResultFrame(id="answered", output={"a": 1}, parts=[MediaPart("image", "image/png", "aGk=")]), NOW)
    memory.answer(FailureFrame(id="failed", error="no", code="busy"), NOW)
    memory.close("over", NOW)
    return memory


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[]",
        b'{"seen": 7}',
        b'{"seen": [{"id": "a", "at": 9e9, "stage": "answered", "answer": "{}"}]}',
        b'{"seen": [{"id": "a", "at": 9e9, "stage": "answered", "answer": "{\\"type\\": \\"abort\\"}"}]}',
    ],
)
def test_what_is_something_else_is_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        CallMemory.decode(data, NOW)


def test_everything_outlives_the_process() -> None:
    again = CallMemory.decode(full().encode(), NOW + 1)
    assert again.resume_token == "t1"
    assert [again.stage(one) for one in ("started", "answered", "failed", "over", "never")] == [
        "started",
        "answered",
        "answered",
        "over",
        None,
    ]
    assert again.unacknowledged_answers() == full().unacknowledged_answers()


def test_what_is_too_old_is_forgotten() -> None:
    assert CallMemory.decode(full().encode(), NOW + MAX_AGE).unacknowledged_answers() == []
    memory = full()
    memory.start("new", NOW + MAX_AGE + 1)
    assert memory.stage("started") is None
    assert memory.stage("new") == "started"
    assert memory.unacknowledged_answers() == []


def test_only_so_many_are_remembered_the_newest_ones() -> None:
    memory = CallMemory()
    for number in range(MAX_CALLS + 10):
        memory.answer(ResultFrame(id=f"c{number}"), NOW + number / 1000)
    assert len(memory.unacknowledged_answers()) == MAX_CALLS
    assert memory.stage("c9") is None
    assert memory.stage("c10") == "answered"


def test_an_acknowledged_answer_is_gone_and_its_id_stays() -> None:
    memory = full()
    memory.close("answered", NOW)
    assert [frame.call for frame in memory.unacknowledged_answers()] == ["failed"]
    assert memory.stage("answered") == "over"
    assert b"image/png" not in memory.encode()


def test_every_change_makes_a_new_version() -> None:
    memory = CallMemory()
    versions = [memory.version]
    memory.resume_token = "t1"
    versions.append(memory.version)
    memory.start("a", NOW)
    versions.append(memory.version)
    memory.close("a", NOW)
    versions.append(memory.version)
    assert versions == sorted(set(versions))


def test_a_memory_that_is_not_saved_notes_only_calls_that_have_ended() -> None:
    memory = CallMemory(is_saved=False)
    memory.start("a", NOW)
    assert memory.stage("a") is None
    memory.answer(ResultFrame(id="a", output="x"), NOW)
    assert memory.stage("a") == "answered"
    memory.close("a", NOW)
    assert memory.stage("a") == "over"


# The file.


def test_a_file_of_another_process_is_not_shared(tmp_path: Path) -> None:
    first, second = StateFile(tmp_path / "state"), StateFile(tmp_path / "state")
    first.open(NOW)
    with pytest.raises(ConfigError, match="used by another client"):
        second.open(NOW)
    first.close()
    second.open(NOW)
    second.close()
    second.close()


def test_a_broken_file_is_named_with_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.write_bytes(b"{")
    with pytest.raises(ConfigError, match="Remove it to begin anew"):
        StateFile(path).open(NOW)
    path.unlink()
    kept = StateFile(path)
    assert kept.open(NOW).resume_token == ""
    kept.close()


def test_it_is_written_for_its_owner_alone_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "state"
    kept = StateFile(path)
    memory = kept.open(NOW)
    memory.resume_token = "secret"
    memory.start("c1", NOW)
    kept.write(memory.version, memory.encode(), is_synced=True)
    kept.write(memory.version, memory.encode(), is_synced=False)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(path.parent).st_mode) == 0o700
    kept.close()
    again = StateFile(path)
    assert again.open(NOW).stage("c1") == "started"
    again.close()


def test_an_older_version_never_replaces_a_newer_one(tmp_path: Path) -> None:
    kept = StateFile(tmp_path / "state")
    kept.open(NOW)
    kept.write(2, b"new", is_synced=False)
    kept.write(1, b"old", is_synced=False)
    assert (tmp_path / "state").read_bytes() == b"new"
    kept.close()


def test_writers_do_not_get_into_each_others_way(tmp_path: Path) -> None:
    kept = StateFile(tmp_path / "state")
    kept.open(NOW)
    texts = [msgspec.json.encode({"n": number, "fill": "x" * 10_000}) for number in range(20)]
    threads = [
        threading.Thread(target=kept.write, args=(number, text), kwargs={"is_synced": False})
        for number, text in enumerate(texts)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert (tmp_path / "state").read_bytes() == texts[-1]
    kept.close()
