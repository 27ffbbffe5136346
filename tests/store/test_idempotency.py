"""The ids of calls that come with a key."""

import asyncio
import errno
import os
import uuid
from pathlib import Path

import pytest

from handspan.core.errors import StoreError
from handspan.core.store import Store
from handspan.store.idempotency import FileIdempotency
from handspan.store.switches import file_switches
from tests.stores import open_store
from tests.waiting import soon

pytestmark = pytest.mark.anyio


async def test_the_same_owner_and_key_give_the_same_id_in_every_process(store: Store, state: Path) -> None:
    async with open_store(state) as other:
        asked = (one.idempotency.call_id("me", "k") for one in (store, other) for _ in range(8))
        ids = await soon(asyncio.gather(*asked))
    assert len(set(ids)) == 1
    others = [await store.idempotency.call_id(*pair) for pair in (("me", "k2"), ("mek", ""), ("m", "ek"))]
    assert len({*ids, *others}) == 4
    assert all(str(uuid.UUID(one)) == one for one in (*ids, *others))


async def test_without_the_secret_an_id_can_not_be_guessed(store: Store, tmp_path: Path) -> None:
    async with open_store(tmp_path / "another") as other:
        assert await store.idempotency.call_id("me", "k") != await other.idempotency.call_id("me", "k")


# As a file.


async def test_a_secret_is_made_once_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    processes = [FileIdempotency(tmp_path / "st") for _ in range(8)]
    assert len(set(await soon(asyncio.gather(*(one.call_id("me", "k") for one in processes))))) == 1
    assert os.listdir(tmp_path / "st") == ["idempotency.key"]


async def test_a_damaged_secret_is_not_replaced_in_silence(tmp_path: Path) -> None:
    (tmp_path / "idempotency.key").write_bytes(b"short")
    with pytest.raises(StoreError, match="damaged"):
        await FileIdempotency(tmp_path).call_id("me", "k")


async def test_a_secret_that_can_not_be_kept_is_told(tmp_path: Path) -> None:
    (tmp_path / "idempotency.key").mkdir()
    with pytest.raises(StoreError, match="can't be used"):
        await FileIdempotency(tmp_path).call_id("me", "k")


async def test_on_a_full_disk_nothing_is_left_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", _disk_is_full)
    for _ in range(2):
        with pytest.raises(StoreError, match="No space"):
            await FileIdempotency(tmp_path).call_id("me", "k")
        with pytest.raises(OSError, match="No space"):
            await file_switches(tmp_path).switch_off("x")
    assert os.listdir(tmp_path) == []


def _disk_is_full(descriptor: int) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")
