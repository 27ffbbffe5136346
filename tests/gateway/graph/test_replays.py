"""Answers that are kept for who asks again: so many, so large, so long; never what the disk refused (http.md 5.6)."""

import pytest

from handspan.core.errors import StoreError
from handspan.gateway.graph.faults import GraphFault
from handspan.gateway.graph.replays import SECONDS, Replays

pytestmark = pytest.mark.anyio


class Doing:
    """Counts how often it was done."""

    def __init__(self, answer: bytes = b"answer", error: Exception | None = None) -> None:
        self.count = 0
        self._answer = answer
        self._error = error

    async def __call__(self) -> bytes:
        self.count += 1
        if self._error is not None:
            raise self._error
        return self._answer


async def test_an_error_is_told_again_unless_the_disk_refused() -> None:
    replays = Replays(len)
    failing, full = Doing(error=GraphFault(500, "GRAPH_ERROR", "no")), Doing(error=StoreError("full"))
    for _ in range(2):
        with pytest.raises(GraphFault):
            await replays.answer("page", "one", b"", failing)
        with pytest.raises(StoreError):
            await replays.answer("page", "two", b"", full)
    assert (failing.count, full.count) == (1, 2)


async def test_large_answers_make_room_for_newer_ones() -> None:
    replays, doing = Replays(len, most_bytes=1000), Doing(b"x" * 600)
    for key in ("one", "two", "three", "three", "one"):
        await replays.answer("page", key, b"", doing)
    assert doing.count == 4  # "three" was there the second time, "one" was not


async def test_what_is_too_old_is_done_again() -> None:
    now = [0.0]
    replays, doing = Replays(len, clock=lambda: now[0]), Doing()
    for moment in (0.0, SECONDS - 1, SECONDS + 1):
        now[0] = moment
        await replays.answer("page", "key", b"", doing)
    assert doing.count == 2


async def test_what_was_not_kept_after_all_is_done_again() -> None:
    replays, doing = Replays(len), Doing()
    for _ in range(2):
        await replays.answer("page", "key", b"", doing)
    replays.forget("page", "key")
    replays.forget("page", "no such key")
    await replays.answer("page", "key", b"", doing)
    assert doing.count == 2
