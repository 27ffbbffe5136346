"""Worker threads for plain functions (SPEC T3)."""

import asyncio
import contextvars
import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from handspan.core.errors import ToolError
from handspan.engine.threads import Threads
from tests.engine.engine_kit import outcome_of
from tests.waiting import WAIT, until

pytestmark = pytest.mark.anyio


@pytest.fixture
def threads() -> Iterator[Threads]:
    made = Threads(cap=2)
    yield made
    made.close()


class Broken(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


class OwnEnd(BaseException):
    """What some libraries raise to get past `except Exception`."""

    def __str__(self) -> str:
        raise ValueError("no words")


@pytest.mark.parametrize(
    ("raised", "seen", "text"),
    [
        (LookupError("gone"), LookupError, "gone"),
        (SystemExit(3), RuntimeError, "SystemExit: 3"),
        (KeyboardInterrupt(), RuntimeError, "KeyboardInterrupt"),
        (StopIteration(1), RuntimeError, "StopIteration: 1"),
        (asyncio.CancelledError(), RuntimeError, "CancelledError"),
        (OwnEnd(), RuntimeError, "OwnEnd: it can't be put into words"),
    ],
)
async def test_whatever_a_function_raises_is_only_its_own_callers_affair(
    threads: Threads, raised: BaseException, seen: type[Exception], text: str
) -> None:
    def crash() -> None:
        raise raised

    with pytest.raises(seen, match=text):
        await threads.run(crash)
    assert await threads.run(lambda: "next") == "next"


async def test_an_exception_that_can_not_be_put_into_words_passes(threads: Threads) -> None:
    def crash() -> None:
        raise Broken

    with pytest.raises(Broken):
        await threads.run(crash)


async def test_a_function_runs_on_a_daemon_thread_with_the_callers_context(threads: Threads) -> None:
    variable = contextvars.ContextVar("variable", default="")
    variable.set("of the caller")

    def look(more: str) -> tuple[str, bool, str]:
        thread = threading.current_thread()
        return thread.name, thread.daemon, variable.get() + more

    assert await threads.run(look, "!") == ("handspan-tool", True, "of the caller!")


async def test_two_jobs_given_at_once_run_side_by_side_even_if_one_thread_idles(threads: Threads) -> None:
    await threads.run(lambda: None)  # now one thread is idle
    await until(lambda: threads._idle == 1)
    together = threading.Barrier(2, timeout=WAIT)
    await asyncio.gather(threads.run(together.wait), threads.run(together.wait))
    assert threads._threads == 2


async def test_no_more_than_the_cap_run_at_once_and_the_others_wait(threads: Threads) -> None:
    release, running = threading.Event(), list[int]()

    def work(number: int) -> int:
        running.append(number)
        release.wait(WAIT)
        return number

    tasks = [asyncio.create_task(threads.run(work, number)) for number in range(4)]
    await until(lambda: len(running) == 2)
    assert threads._threads == 2
    release.set()
    assert await outcome_of(tasks) == [0, 1, 2, 3]


async def test_an_abandoned_thread_is_counted_until_its_function_ends(threads: Threads) -> None:
    begun, release = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        release.wait(WAIT)

    task = asyncio.create_task(threads.run(work))
    await until(begun.is_set)
    task.cancel()
    await outcome_of([task])
    assert threads.abandoned == 1
    release.set()
    await until(lambda: threads.abandoned == 0)


async def test_too_many_abandoned_threads_make_it_busy_instead_of_growing(threads: Threads) -> None:
    begun, release = threading.Semaphore(0), threading.Event()

    def work() -> None:
        begun.release()
        release.wait(WAIT)

    tasks = [asyncio.create_task(threads.run(work)) for _ in range(2)]
    await until(lambda: begun.acquire(blocking=False))
    await until(lambda: begun.acquire(blocking=False))
    for task in tasks:
        task.cancel()
    await outcome_of(tasks)
    with pytest.raises(ToolError, match="2 tools that timed out still run on their threads") as caught:
        await threads.run(lambda: None)
    assert caught.value.code == "busy"
    release.set()
    await until(lambda: threads.abandoned == 0)
    assert await threads.run(lambda: "again") == "again"


async def test_threads_that_come_back_from_being_abandoned_do_not_add_up(threads: Threads) -> None:
    release, begun = threading.Event(), threading.Semaphore(0)

    def work() -> None:
        begun.release()
        release.wait(WAIT)

    abandoned = asyncio.create_task(threads.run(work))
    await until(lambda: begun.acquire(blocking=False))
    abandoned.cancel()
    await outcome_of([abandoned])
    others = [asyncio.create_task(threads.run(work)) for _ in range(2)]
    for _ in others:
        await until(lambda: begun.acquire(blocking=False))
    assert threads._threads == 3
    release.set()
    await outcome_of(others)
    await until(lambda: threads._threads == 2)


async def test_a_job_that_was_given_up_while_it_waited_never_runs(threads: Threads) -> None:
    release, ran = threading.Event(), list[str]()
    blocking = [asyncio.create_task(threads.run(release.wait, WAIT)) for _ in range(2)]
    waiting = asyncio.create_task(threads.run(ran.append, "waiting"))
    await until(lambda: threads._queued == 1)
    waiting.cancel()
    await outcome_of([waiting])
    release.set()
    await outcome_of(blocking)
    await threads.run(ran.append, "later")
    assert ran == ["later"]
    assert threads.abandoned == 0


async def test_closing_lets_idle_threads_end(threads: Threads) -> None:
    await threads.run(lambda: None)
    threads.close()
    await until(lambda: threads._threads == 0)


def test_a_function_that_outlives_its_loop_ends_in_silence() -> None:
    others = threading.enumerate()
    threads, begun, release = Threads(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        release.wait(WAIT)

    async def give_up() -> None:
        task = asyncio.create_task(threads.run(work))
        while not begun.is_set():
            await asyncio.sleep(0)
        task.cancel()

    asyncio.run(give_up())
    assert threads.abandoned == 1
    release.set()
    threads.close()
    for thread in threading.enumerate():
        if thread not in others:
            thread.join(WAIT)
    assert threads.abandoned == 0


@pytest.mark.outside
def test_a_thread_that_never_ends_does_not_hold_up_the_exit() -> None:
    script = """
import asyncio, threading
from handspan.engine.threads import Threads
async def main():
    threads, begun = Threads(), threading.Event()
    task = asyncio.create_task(threads.run(lambda: (begun.set(), threading.Event().wait())))
    while not begun.is_set():
        await asyncio.sleep(0)
    task.cancel()
asyncio.run(main())
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", script], timeout=30, env=environment).returncode == 0
