"""A lease is a locked file: the kernel releases it however a process ends."""

import os
from pathlib import Path

import pytest

from handspan.core.errors import StoreError
from handspan.store.sqlite.leases import FileLeases

pytestmark = pytest.mark.anyio


async def test_what_dead_processes_left_is_swept_away(tmp_path: Path) -> None:
    mine, other = FileLeases(tmp_path), FileLeases(tmp_path)
    await mine.take()
    await other.take()
    (tmp_path / "dead").write_bytes(b"")  # as a killed process leaves it
    assert not await mine.is_alive("dead")
    await mine.sweep()
    assert set(os.listdir(tmp_path)) == {mine.own, other.own}
    await other.release()
    await mine.release()
    assert os.listdir(tmp_path) == []


async def test_a_folder_that_can_not_be_used_is_told(tmp_path: Path) -> None:
    (tmp_path / "runs").write_bytes(b"")
    with pytest.raises(StoreError, match="can't be used"):
        await FileLeases(tmp_path / "runs").take()
