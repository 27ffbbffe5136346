"""Coroutines that begin at once: what their code can see must be as in any other task."""

import asyncio
import contextvars
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from handspan.client.fast_tasks import EagerTasks

pytestmark = pytest.mark.anyio

SECONDS = 60.0
word: contextvars.ContextVar[str] = contextvars.ContextVar("word", default="nothing")


@pytest.fixture(params=["fast", "by the library"])
async def either(request: pytest.FixtureRequest) -> AsyncIterator[EagerTasks]:
    """Tasks that begin at once, a spare one ready; and those of asyncio, as `HANDSPAN_FAST=off` takes them."""
    async with opened(is_fast=request.param == "fast") as made:
        yield made


@pytest.fixture
async def eager() -> AsyncIterator[EagerTasks]:
    """Tasks that begin at once, a spare one ready."""
    async with opened(is_fast=True) as made:
        yield made


@asynccontextmanager
async def opened(is_fast: bool) -> AsyncIterator[EagerTasks]:
    made = EagerTasks(is_fast)
    made.open(asyncio.get_running_loop())
    await asyncio.sleep(0)
    yield made
    await asyncio.wait_for(made.close(), SECONDS)
    assert not [task for task in asyncio.all_tasks() if "_carry" in repr(task)]


async def ended(eager: EagerTasks, coroutine: Coroutine[Any, Any, None]) -> None:
    """Run it to its end."""
    task = eager.start(coroutine, "a call")
    if task is not None:
        await asyncio.wait_for(asyncio.shield(task), SECONDS)


async def test_what_is_cancelled_while_it_waits_hears_of_it(either: EagerTasks) -> None:
    seen: list[str] = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            await asyncio.sleep(0)
            seen.append("cleaned up")
            raise

    task = either.start(wait(), "a call")
    assert task is not None
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, SECONDS)
    assert seen == ["cancelled", "cleaned up"]


@pytest.mark.parametrize("waits_for", ["a future", "a task", "the loop", "something that is done"])
async def test_what_is_cancelled_right_after_its_first_step_hears_of_it_too(eager: EagerTasks, waits_for: str) -> None:
    seen: list[str] = []
    inner: asyncio.Task[None] = asyncio.create_task(asyncio.sleep(SECONDS))
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def wait() -> None:
        try:
            if waits_for == "a task":
                await inner
            elif waits_for == "the loop":
                await asyncio.sleep(0)
            else:
                await future
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    task = eager.start(wait(), "a call")
    assert task is not None
    if waits_for == "something that is done":
        future.set_result(None)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, SECONDS)
    assert seen == ["cancelled"]
    assert inner.cancelled() == (waits_for == "a task")
    inner.cancel()


async def test_a_timeout_works_from_the_first_step_on_even_when_it_is_over_at_once(either: EagerTasks) -> None:
    seen: list[str] = []

    async def hurry(seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await asyncio.Event().wait()
        except TimeoutError:
            seen.append(f"{seconds} s are over")
        await asyncio.sleep(0)
        seen.append("and it went on")

    for seconds in (0.0, 0.01):
        await ended(either, hurry(seconds))
        await asyncio.sleep(0)
    assert seen == ["0.0 s are over", "and it went on", "0.01 s are over", "and it went on"]


async def test_a_task_group_that_fails_in_it_fails_there(either: EagerTasks) -> None:
    seen: list[str] = []

    async def fail() -> None:
        raise ValueError("inside")

    async def group() -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(fail())
                await asyncio.Event().wait()
        except* ValueError as errors:
            seen.extend(str(error) for error in errors.exceptions)

    await ended(either, group())
    assert seen == ["inside"]


async def test_an_error_of_what_it_waits_for_reaches_it(either: EagerTasks) -> None:
    seen: list[str] = []
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def wait() -> None:
        for _ in range(2):
            try:
                await future
            except ValueError as error:
                seen.append(str(error))

    task = either.start(wait(), "a call")
    assert task is not None
    future.set_exception(ValueError("no"))
    await asyncio.wait_for(task, SECONDS)
    assert seen == ["no", "no"]


async def test_the_task_it_sees_is_the_one_it_goes_on_in(either: EagerTasks) -> None:
    seen: list[asyncio.Task[Any] | None] = []

    async def look() -> None:
        seen.append(asyncio.current_task())
        await asyncio.sleep(0)
        seen.append(asyncio.current_task())

    here = asyncio.current_task()
    task = either.start(look(), "a call")
    assert task is not None
    assert asyncio.current_task() is here
    await asyncio.wait_for(task, SECONDS)
    assert seen == [task, task]


async def test_each_has_a_context_of_its_own_from_its_first_step_to_its_last(either: EagerTasks) -> None:
    seen: list[str] = []

    async def change(waits: bool) -> None:
        seen.append(word.get())
        token = word.set("mine")
        if waits:
            await asyncio.sleep(0)
            seen.append(word.get())
            word.reset(token)
            seen.append(word.get())

    word.set("theirs")
    for waits in (False, True, False):
        await ended(either, change(waits))
        await asyncio.sleep(0)
    assert seen == ["theirs", "theirs", "mine", "theirs", "theirs"]
    assert word.get() == "theirs"


async def test_what_never_waits_has_ended_when_it_was_started_and_needs_no_task_of_its_own(eager: EagerTasks) -> None:
    seen: list[asyncio.Task[Any] | None] = []

    async def look() -> None:
        seen.append(asyncio.current_task())

    for _ in range(3):
        assert eager.start(look(), "a call") is None
    assert len(set(seen)) == 1
    assert seen[0] is not asyncio.current_task()


async def test_one_that_cancels_its_own_task_on_its_way_out_spoils_it_for_nobody(eager: EagerTasks) -> None:
    seen: list[str] = []

    async def cancel() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    async def wait() -> None:
        await asyncio.sleep(0)
        seen.append("done")

    assert eager.start(cancel(), "a call") is None
    await ended(eager, wait())
    assert seen == ["done"]


async def test_when_all_are_busy_a_task_is_made_as_ever(either: EagerTasks) -> None:
    both = asyncio.Barrier(3)

    async def meet() -> None:
        await both.wait()

    tasks = [either.start(meet(), f"call {number}") for number in range(3)]
    assert None not in tasks
    assert len(set(tasks)) == 3
    await asyncio.wait_for(asyncio.gather(*(task for task in tasks if task is not None)), SECONDS)


async def test_whatever_it_raises_besides_goes_to_whoever_started_it_or_stays_in_the_task(eager: EagerTasks) -> None:
    async def fail(waits: bool) -> None:
        if waits:
            await asyncio.sleep(0)
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        eager.start(fail(False), "a call")
    await asyncio.sleep(0)
    task = eager.start(fail(True), "a call")
    assert task is not None
    with pytest.raises(ValueError, match="broken"):
        await asyncio.wait_for(task, SECONDS)
