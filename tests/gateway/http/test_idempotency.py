"""Requests that are sent again under their key: what was asked, and answers that are kept (graph.md 5.6)."""

import asyncio

import pytest

from handspan.core.errors import StoreError
from handspan.gateway.http.idempotency import BytesCodec, Replays, fingerprint
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.one_node import OwnRequests
from handspan.gateway.runs.lines import StreamCodec, StreamLines
from tests.store.things import Clock

pytestmark = pytest.mark.anyio


def test_the_order_of_keys_makes_no_other_request() -> None:
    assert fingerprint({"a": 1, "b": {"c": 2, "d": 3}}) == fingerprint({"b": {"d": 3, "c": 2}, "a": 1})
    assert fingerprint(["a", {}]) != fingerprint(["a", None])


def used(key: str) -> Refusal:
    return Refusal(409, "conflict", f"{key!r} was used.")


class CountedWork:
    """Counts how often it was done."""

    def __init__(self, answer: bytes = b"answer", error: Exception | None = None) -> None:
        self.count = 0
        self.may_end = asyncio.Event()
        self.may_end.set()
        self._answer = answer
        self._error = error

    async def __call__(self) -> bytes:
        self.count += 1
        await self.may_end.wait()
        if self._error is not None:
            raise self._error
        return self._answer


async def test_a_key_that_was_used_for_another_request_is_refused() -> None:
    replays, doing = Replays[bytes](10.0, shared=OwnRequests(), codec=BytesCodec, conflict=used), CountedWork()
    assert await replays.answer("me", "k", b"one", doing) == b"answer"
    with pytest.raises(Refusal, match="'k' was used"):
        await replays.answer("me", "k", b"other", doing)
    await replays.answer("other", "k", b"other", doing)
    await replays.answer("me", "", b"one", doing)
    await replays.answer("me", "", b"other", doing)
    assert doing.count == 4


async def test_an_error_is_an_answer_unless_it_is_one_to_forget() -> None:
    replays = Replays[bytes](10.0, shared=OwnRequests(), codec=BytesCodec, conflict=used, forgets=StoreError)
    failing, full = CountedWork(error=Refusal(500, "failed", "no")), CountedWork(error=StoreError("full"))
    for _ in range(2):
        with pytest.raises(Refusal):
            await replays.answer("me", "one", b"", failing)
        with pytest.raises(StoreError):
            await replays.answer("me", "two", b"", full)
    assert (failing.count, full.count) == (1, 2)


async def test_large_answers_make_room_for_newer_ones() -> None:
    replays, doing = (
        Replays[bytes](10.0, shared=OwnRequests(), codec=BytesCodec, conflict=used, size_of=len, max_bytes=1000),
        CountedWork(b"x" * 600),
    )
    for key in ("one", "two", "three", "three", "one"):
        await replays.answer("me", key, b"", doing)
    assert doing.count == 4  # "three" was there the second time, "one" was not


async def test_large_answers_do_not_push_out_one_that_is_still_to_come() -> None:
    replays = Replays[bytes](10.0, shared=OwnRequests(), codec=BytesCodec, conflict=used, size_of=len, max_bytes=1000)
    large, slow = CountedWork(b"x" * 1200), CountedWork()
    large.may_end.clear()
    slow.may_end.clear()
    came = asyncio.create_task(replays.answer("me", "large", b"", large))
    first = asyncio.create_task(replays.answer("me", "slow", b"", slow))
    await asyncio.sleep(0)
    large.may_end.set()
    await came
    again = asyncio.create_task(replays.answer("me", "slow", b"", slow))
    await asyncio.sleep(0)
    slow.may_end.set()
    assert await first == await again == b"answer"
    assert slow.count == 1


async def test_there_are_not_more_answers_than_there_may_be() -> None:
    replays, doing = Replays[bytes](10.0, shared=OwnRequests(), codec=BytesCodec, conflict=used, limit=2), CountedWork()
    for key in ("one", "two", "three", "three", "two", "one"):
        await replays.answer("me", key, b"", doing)
    assert doing.count == 4  # only "one" had made room


async def test_a_request_that_still_runs_makes_no_room_for_newer_ones() -> None:
    replays, slow, quick = (
        Replays[bytes](10.0, shared=OwnRequests(), codec=BytesCodec, conflict=used, limit=1),
        CountedWork(),
        CountedWork(),
    )
    slow.may_end.clear()
    first = asyncio.create_task(replays.answer("me", "slow", b"", slow))
    await asyncio.sleep(0)
    for key in ("one", "two", "two", "one"):
        await replays.answer("me", key, b"", quick)
    again = asyncio.create_task(replays.answer("me", "slow", b"", slow))
    await asyncio.sleep(0)
    slow.may_end.set()
    assert await first == await again == b"answer"
    assert slow.count == 1


async def test_a_stream_is_kept_as_long_as_it_grows_and_ages_from_its_end_on() -> None:
    clock, begun = Clock(), list[StreamLines]()

    async def begin() -> StreamLines:
        begun.append(StreamLines())
        return begun[-1]

    replays = Replays[StreamLines](
        10.0,
        shared=OwnRequests(),
        codec=StreamCodec,
        conflict=used,
        wait_for_end=StreamLines.wait_for_last,
        limit=2,
        clock=clock,
    )
    first = await replays.answer("me", "slow", b"", begin)
    clock.now += 11
    for key in ("one", "two"):
        (await replays.answer("me", key, b"", begin)).end()
    assert await replays.answer("me", "slow", b"", begin) is first
    first.end()
    for _ in range(3):  # the waiting tasks notice the end
        await asyncio.sleep(0)
    clock.now += 9
    assert await replays.answer("me", "slow", b"", begin) is first
    clock.now += 2
    assert await replays.answer("me", "slow", b"", begin) is not first
    begun[-1].end()


async def test_what_is_too_old_is_done_again() -> None:
    clock = Clock()
    replays, doing = (
        Replays[bytes](10.0, shared=OwnRequests(), codec=BytesCodec, conflict=used, clock=clock),
        CountedWork(),
    )
    for seconds in (0.0, 9.0, 2.0):
        clock.now += seconds
        await replays.answer("me", "key", b"", doing)
    assert doing.count == 2


async def test_what_was_not_kept_after_all_is_done_again() -> None:
    replays, doing = Replays[bytes](10.0, shared=OwnRequests(), codec=BytesCodec, conflict=used), CountedWork()
    for _ in range(2):
        await replays.answer("me", "key", b"", doing)
    replays.forget("me", "key")
    replays.forget("me", "no such key")
    await replays.answer("me", "key", b"", doing)
    assert doing.count == 2


async def test_an_answer_that_is_still_to_come_is_waited_for_however_long_it_takes() -> None:
    clock = Clock()
    replays, slow, quick = (
        Replays[bytes](10.0, shared=OwnRequests(), codec=BytesCodec, conflict=used, clock=clock),
        CountedWork(),
        CountedWork(),
    )
    slow.may_end.clear()
    first = asyncio.create_task(replays.answer("me", "slow", b"", slow))
    await replays.answer("me", "quick", b"", quick)
    clock.now += 11
    again = asyncio.create_task(replays.answer("me", "slow", b"", slow))
    await replays.answer("me", "quick", b"", quick)
    slow.may_end.set()
    assert await first == await again == b"answer"
    clock.now += 9  # since it came
    await replays.answer("me", "slow", b"", slow)
    assert (slow.count, quick.count) == (1, 2)


async def test_a_client_that_goes_away_does_not_stop_what_it_asked_for() -> None:
    replays, doing = Replays[bytes](10.0, shared=OwnRequests(), codec=BytesCodec, conflict=used), CountedWork()
    doing.may_end.clear()
    first = asyncio.create_task(replays.answer("me", "k", b"", doing))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    doing.may_end.set()
    assert await replays.answer("me", "k", b"", doing) == b"answer" and doing.count == 1
