"""Ids of calls that come from keys."""

import asyncio
from pathlib import Path

import pytest

from handspan.core.errors import StoreError
from handspan.gateway.rest import idempotency
from handspan.gateway.rest.idempotency import CallIds, Remembered, fingerprint
from tests.store.things import Clock

pytestmark = pytest.mark.anyio


async def test_the_same_owner_and_key_give_the_same_id_in_every_process(tmp_path: Path) -> None:
    one, other = CallIds(tmp_path / "st"), CallIds(tmp_path / "st")
    ids = await asyncio.gather(*(ids.of("me", "k") for ids in (one, other) for _ in range(8)))
    assert len(set(ids)) == 1
    assert len({*ids, await one.of("me", "k2"), await one.of("mek", ""), await one.of("m", "ek")}) == 4
    assert [path.name for path in (tmp_path / "st").iterdir()] == ["idempotency.key"]


async def test_without_the_secret_nobody_can_guess_an_id(tmp_path: Path) -> None:
    assert await CallIds(tmp_path / "a").of("me", "k") != await CallIds(tmp_path / "b").of("me", "k")


async def test_a_damaged_secret_is_not_replaced_in_silence(tmp_path: Path) -> None:
    (tmp_path / "idempotency.key").write_bytes(b"short")
    with pytest.raises(StoreError, match="damaged"):
        await CallIds(tmp_path).of("me", "k")


async def test_a_secret_that_can_not_be_kept_is_told(tmp_path: Path) -> None:
    (tmp_path / "idempotency.key").mkdir()
    with pytest.raises(StoreError, match="can't be used"):
        await CallIds(tmp_path).of("me", "k")


async def test_what_was_asked_is_not_remembered_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotency, "_MOST", 2)
    ids = CallIds(tmp_path)
    for number in range(3):
        ids.remember(str(number), b"x")
    assert ids.asked("0") is None and ids.asked("2") == b"x"


def test_the_order_of_keys_makes_no_other_request() -> None:
    assert fingerprint({"a": 1, "b": {"c": 2, "d": 3}}) == fingerprint({"b": {"d": 3, "c": 2}, "a": 1})
    assert fingerprint(["a", {}]) != fingerprint(["a", None])


async def test_an_answer_that_is_still_to_come_is_waited_for_however_long_it_takes() -> None:
    clock = Clock()
    remembered = Remembered(seconds=300.0, clock=clock)
    slow, quick = remembered.begin("me", "slow", b"s"), remembered.begin("me", "quick", b"q")
    quick.set_result("there")
    clock.now += 301
    assert remembered.find("me", "quick") is None
    assert remembered.find("me", "slow") == (b"s", slow)
    slow.set_result("there")
    await asyncio.sleep(0)
    clock.now += 299
    assert remembered.find("me", "slow") == (b"s", slow)
    clock.now += 2
    assert remembered.find("me", "slow") is None
