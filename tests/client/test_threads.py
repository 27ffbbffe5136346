"""Threads for code that blocks."""

import asyncio
import contextvars
import threading

import pytest

from handspan.core.threads import CallThreads

pytestmark = pytest.mark.anyio

SECONDS = 60.0
word: contextvars.ContextVar[str] = contextvars.ContextVar("word")


def here() -> threading.Thread:
    return threading.current_thread()


async def test_whatever_a_function_raises_comes_back_and_its_thread_goes_on() -> None:
    threads = CallThreads()
    first = await threads.run(here)

    def leaves() -> None:
        raise SystemExit(3)

    def fails() -> None:
        raise ValueError("no")

    with pytest.raises(RuntimeError, match="SystemExit: 3"):
        await threads.run(leaves)
    with pytest.raises(ValueError, match="no"):
        await threads.run(fails)
    assert await threads.run(here) is first
    threads.close()
    await asyncio.to_thread(first.join, SECONDS)
    assert not first.is_alive()


async def test_a_thread_that_hangs_holds_up_no_other_and_ends_when_it_can() -> None:
    threads, begun, free = CallThreads(), threading.Event(), threading.Event()
    stuck: list[threading.Thread] = []

    def hang() -> None:
        stuck.append(here())
        begun.set()
        free.wait(SECONDS)

    waiting = asyncio.create_task(threads.run(hang))
    await asyncio.to_thread(begun.wait, SECONDS)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    other = await threads.run(here)
    assert other is not stuck[0]
    threads.close()
    free.set()
    async with asyncio.timeout(SECONDS):
        for thread in (other, stuck[0]):
            await asyncio.to_thread(thread.join, SECONDS)
    assert not stuck[0].is_alive()
    assert not other.is_alive()


def test_a_thread_that_outlives_its_loop_ends() -> None:
    begun, free = threading.Event(), threading.Event()
    stuck: list[threading.Thread] = []

    def hang() -> None:
        stuck.append(here())
        begun.set()
        free.wait(SECONDS)

    async def leave() -> None:
        waiting = asyncio.create_task(CallThreads().run(hang))
        await asyncio.to_thread(begun.wait, SECONDS)
        waiting.cancel()

    asyncio.run(leave())
    free.set()
    stuck[0].join(SECONDS)
    assert not stuck[0].is_alive()


async def test_a_function_sees_what_its_caller_has_set_and_leaves_nothing_to_the_next() -> None:
    threads = CallThreads()

    def change() -> str:
        seen = word.get()
        word.set("changed")
        return seen

    word.set("mine")
    assert [await threads.run(change), await threads.run(change)] == ["mine", "mine"]
    threads.close()


async def test_as_many_run_at_once_as_are_asked_for() -> None:
    threads, all_there = CallThreads(), threading.Barrier(5)
    await asyncio.wait_for(asyncio.gather(*(threads.run(all_there.wait, SECONDS) for _ in range(5))), SECONDS)
    threads.close()
