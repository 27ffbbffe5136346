"""Artifacts as files: bounded, private, and whole or not there at all."""

import asyncio
import os
import resource
import stat
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from handspan.config.store_settings import ArtifactSettings
from handspan.core.errors import StoreError, ToolError
from handspan.store.artifacts import FolderArtifacts
from handspan.store.bodies import PartialFile
from tests.store.test_artifacts import pieces_of, refusal

pytestmark = pytest.mark.anyio


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state" / "artifacts"


@pytest.fixture
def artifacts(folder: Path) -> FolderArtifacts:
    return FolderArtifacts(folder)


@pytest.fixture
def full_disk() -> Iterator[None]:
    """No file may grow beyond 1,000 bytes: a write fails half-way, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def modes_in(folder: Path) -> dict[str, int]:
    """What a folder holds, with access modes; nothing where it is not there."""
    return {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} if folder.exists() else {}


async def test_what_is_larger_than_one_artifact_may_be_is_refused(folder: Path) -> None:
    with pytest.raises(ToolError, match=r"11 bytes .* \(10\)") as refused:
        await FolderArtifacts(folder, ArtifactSettings(size=10)).keep(b"x" * 11, owner="ann")
    assert refused.value.code == "file_too_large"
    assert modes_in(folder.parent) == {}


@pytest.mark.usefixtures("full_disk")
async def test_a_full_disk_is_said_and_leaves_no_half_artifact(artifacts: FolderArtifacts, folder: Path) -> None:
    with pytest.raises(ToolError, match="can't be kept: File too large") as refused:
        await artifacts.keep(b"x" * 5000, owner="ann")
    assert refused.value.code == "execution_failed"
    assert modes_in(folder) == {}


async def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ToolError, match="can't be kept: Not a directory"):
        await FolderArtifacts(tmp_path / "file" / "artifacts").keep(b"x", owner="ann")


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff\xfe", b'{"ref": 1}'])
async def test_a_damaged_record_counts_as_gone(artifacts: FolderArtifacts, folder: Path, damage: bytes) -> None:
    ref = await artifacts.keep(b"x", owner="ann")
    (folder / f"{ref.id}.json").write_bytes(damage)
    await refusal(artifacts, ref.id)


async def test_a_body_that_vanished_counts_as_gone(artifacts: FolderArtifacts, folder: Path) -> None:
    ref = await artifacts.keep(b"x", owner="ann")
    (folder / ref.id).unlink()
    await refusal(artifacts, ref.id)


async def test_a_body_that_cannot_be_read_is_said(artifacts: FolderArtifacts, folder: Path) -> None:
    ref = await artifacts.keep(b"x", owner="ann")
    (folder / ref.id).unlink()
    (folder / ref.id).mkdir()
    with pytest.raises(ToolError, match="can't be read: Is a directory") as refused:
        await artifacts.read(ref.id, owner="ann")
    assert refused.value.code == "execution_failed"


async def test_the_oldest_make_room_when_there_are_too_many(folder: Path) -> None:
    artifacts = FolderArtifacts(folder, ArtifactSettings(count=2))
    first, second = [await artifacts.keep(b"x", owner="ann") for _ in range(2)]
    os.utime(folder / first.id, (time.time() - 60,) * 2)
    third = await artifacts.keep(b"x", owner="ann")
    await refusal(artifacts, first.id)
    assert [await artifacts.read(kept.id, owner="ann") for kept in (second, third)] == [b"x", b"x"]
    assert len(modes_in(folder)) == 4


async def test_the_oldest_make_room_when_all_together_are_too_large(folder: Path) -> None:
    artifacts = FolderArtifacts(folder, ArtifactSettings(total=10))
    first, second = [await artifacts.keep(b"12345", owner="ann") for _ in range(2)]
    os.utime(folder / first.id, (time.time() - 60,) * 2)
    await artifacts.keep(b"1234", owner="ann")
    await refusal(artifacts, first.id)
    assert await artifacts.read(second.id, owner="ann") == b"12345"


async def test_what_is_too_old_is_gone_at_once_and_removed_with_the_next_one(folder: Path) -> None:
    artifacts = FolderArtifacts(folder)
    old = await artifacts.keep(b"x", owner="ann")
    short = FolderArtifacts(folder, ArtifactSettings(days=0))
    os.utime(folder / old.id, (time.time() - 60,) * 2)
    with pytest.raises(ToolError, match="too old"):
        await short.get(old.id, owner="ann")
    await short.keep(b"y", owner="ann")
    await refusal(artifacts, old.id)


async def test_many_kept_at_once_stay_within_limits_and_lose_nothing(folder: Path) -> None:
    artifacts = FolderArtifacts(folder, ArtifactSettings(count=3))
    kept = await asyncio.gather(*(artifacts.keep(bytes([number]), owner="ann") for number in range(40)))
    assert len({ref.id for ref in kept}) == 40
    assert len(modes_in(folder)) == 6


async def test_a_record_whose_body_is_gone_is_cleared_away(artifacts: FolderArtifacts, folder: Path) -> None:
    ref = await artifacts.keep(b"x", owner="ann")
    (folder / ref.id).unlink()
    kept = await artifacts.keep(b"y", owner="ann")
    assert set(modes_in(folder)) == {kept.id, f"{kept.id}.json"}


@pytest.fixture
def wide_open_folder(folder: Path) -> Path:
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    return folder


async def test_folder_and_files_are_for_their_user_alone(artifacts: FolderArtifacts, wide_open_folder: Path) -> None:
    await artifacts.keep(b"x", owner="ann")
    assert modes_in(wide_open_folder.parent) == {wide_open_folder.name: 0o700}
    assert set(modes_in(wide_open_folder).values()) == {0o600}


async def test_no_file_of_a_forgotten_session_is_left(artifacts: FolderArtifacts, folder: Path) -> None:
    assert await artifacts.forget_session("s", owner="ann") == 0  # there is not even a folder
    gone = [await artifacts.keep(b"x", owner="ann", session="s") for _ in range(2)]
    kept = [
        await artifacts.keep(b"x", owner=owner, session=session)
        for owner, session in (("ann", "t"), ("ann", ""), ("bob", "s"))
    ]
    (folder / f"{'0' * 24}.json").write_bytes(b"{")
    assert await artifacts.forget_session("s", owner="ann") == 2
    assert await artifacts.forget_session("", owner="ann") == 0
    for ref in gone:
        await refusal(artifacts, ref.id)
    assert {name for name in modes_in(folder) if len(name) == 32} == {ref.id for ref in kept}


async def test_an_artifact_that_cannot_be_removed_is_said(artifacts: FolderArtifacts, folder: Path) -> None:
    ref = await artifacts.keep(b"x", owner="ann", session="s")
    (folder / ref.id).unlink()
    (folder / ref.id).mkdir()
    with pytest.raises(StoreError, match=r"The artifacts of the session 's' can't be removed: Is a directory\."):
        await artifacts.forget_session("s", owner="ann")
    assert (await artifacts.get(ref.id, owner="ann")) == ref


# What comes in pieces.


@pytest.mark.parametrize("pieces", [(), (b"",), (b"a", b"", b"bc"), (b"x" * 300_000, b"y" * 300_000)])
async def test_the_files_of_what_comes_in_pieces_are_for_their_user_alone(
    artifacts: FolderArtifacts, folder: Path, pieces: tuple[bytes, ...]
) -> None:
    ref = await artifacts.receive(pieces_of(*pieces), owner="ann", media_type="image/png", name="a.png")
    assert (ref.size, ref.media_type, ref.name) == (len(b"".join(pieces)), "image/png", "a.png")
    assert await artifacts.get(ref.id, owner="ann") == ref
    assert await artifacts.read(ref.id, owner="ann") == b"".join(pieces)
    assert modes_in(folder) == {ref.id: 0o600, f"{ref.id}.json": 0o600} and modes_in(folder.parent) == {
        "artifacts": 0o700
    }


@pytest.mark.parametrize("size", [11, 400_000])
async def test_more_than_an_artifact_may_have_is_refused_on_the_way(folder: Path, size: int) -> None:
    taken = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal taken
        while True:
            taken += size
            yield b"x" * size

    with pytest.raises(ToolError, match=r"More than 1000000 bytes") as refused:
        await asyncio.wait_for(
            FolderArtifacts(folder, ArtifactSettings(size=1_000_000)).receive(endless(), owner="ann"), 60
        )
    assert refused.value.code == "file_too_large"
    assert taken <= 1_000_000 + size and modes_in(folder) == {}


async def test_what_breaks_off_leaves_no_file(artifacts: FolderArtifacts, folder: Path) -> None:
    for error in (ValueError("cut"), asyncio.CancelledError()):
        with pytest.raises(type(error)):
            await artifacts.receive(pieces_of(b"x" * 600_000, then=error), owner="ann")
        assert modes_in(folder) == {}


async def test_a_cancelled_caller_leaves_nothing_wherever_it_stands(artifacts: FolderArtifacts, folder: Path) -> None:
    for steps in range(40):
        receiving = asyncio.create_task(artifacts.receive(pieces_of(*[b"x" * 300_000] * 3), owner="ann"))
        for _ in range(steps):
            await asyncio.sleep(0)
        receiving.cancel()
        await asyncio.wait_for(asyncio.gather(receiving, return_exceptions=True), 60)
        assert not any(name.endswith(".part") for name in modes_in(folder))


async def test_a_caller_that_is_cancelled_while_the_file_is_removed_waits_for_that(
    artifacts: FolderArtifacts, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removing, go_on, removed = asyncio.Event(), threading.Event(), []
    loop, unlink = asyncio.get_running_loop(), Path.unlink

    def slow_unlink(path: Path, *, missing_ok: bool) -> None:
        loop.call_soon_threadsafe(removing.set)
        go_on.wait(60)
        unlink(path, missing_ok=missing_ok)
        removed.append(path.suffix)

    monkeypatch.setattr(Path, "unlink", slow_unlink)
    receiving = asyncio.create_task(artifacts.receive(pieces_of(b"x" * 300_000), owner="ann"))
    await asyncio.wait_for(removing.wait(), 60)
    receiving.cancel()
    loop.call_later(0.01, go_on.set)
    await asyncio.wait_for(asyncio.gather(receiving, return_exceptions=True), 60)
    assert receiving.cancelled() and removed == [".part"]


@pytest.mark.usefixtures("full_disk")
async def test_a_disk_that_is_full_half_way_is_said_and_leaves_nothing(
    artifacts: FolderArtifacts, folder: Path
) -> None:
    for pieces in ([b"x" * 5000], [b"x" * 300_000, b"x"]):
        with pytest.raises(ToolError, match="can't be kept: File too large") as refused:
            await artifacts.receive(pieces_of(*pieces), owner="ann")
        assert refused.value.code == "execution_failed"
        assert modes_in(folder) == {}


async def test_what_comes_makes_room_for_itself(folder: Path) -> None:
    artifacts = FolderArtifacts(folder, ArtifactSettings(count=2))
    refs = [await artifacts.receive(pieces_of(b"%d" % number), owner="ann") for number in range(4)]
    with pytest.raises(ToolError):
        await artifacts.get(refs[0].id, owner="ann")
    assert await artifacts.read(refs[-1].id, owner="ann") == b"3"


async def test_what_was_coming_when_a_process_ended_is_removed_after_a_while(
    artifacts: FolderArtifacts, folder: Path
) -> None:
    await artifacts.keep(b"x", owner="ann")
    old, new = folder / f"{'a' * 24}.part", folder / f"{'b' * 24}.part"
    for part in (old, new):
        part.write_bytes(b"half")
    os.utime(old, (time.time() - 4000, time.time() - 4000))
    await artifacts.keep(b"y", owner="ann")
    assert not old.exists() and new.exists()


async def test_an_artifact_whose_record_cannot_be_written_is_none(
    artifacts: FolderArtifacts, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handspan.store.artifacts.secrets.token_hex", lambda _: "a" * 24)
    (folder / f"{'a' * 24}.json").mkdir(parents=True)
    with pytest.raises(ToolError, match="can't be kept: Is a directory"):
        await artifacts.receive(pieces_of(b"x"), owner="ann")
    assert not (folder / ("a" * 24)).exists()


async def test_a_thread_that_comes_too_late_writes_nothing(tmp_path: Path) -> None:
    coming = PartialFile(tmp_path, 10)
    await coming.discard()
    coming._write(b"x")
    assert modes_in(tmp_path) == {}


async def test_an_artifact_of_an_older_version_has_a_shorter_id_and_is_read(
    artifacts: FolderArtifacts, folder: Path
) -> None:
    ref = await artifacts.keep(b"old", owner="ann", session="s")
    short = ref.id[:24]
    (folder / ref.id).rename(folder / short)
    record = (folder / f"{ref.id}.json").read_bytes().replace(ref.id.encode(), short.encode())
    (folder / f"{short}.json").write_bytes(record)
    assert await artifacts.read(short, owner="ann") == b"old"
