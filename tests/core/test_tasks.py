"""Background tasks that end well."""

import asyncio
import gc

import pytest

from handspan.core.tasks import Tasks
from tests.waiting import WAIT, soon, until

pytestmark = pytest.mark.anyio


async def test_a_task_without_another_reference_is_not_collected_while_it_runs() -> None:
    tasks, ended = Tasks(), []

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()  # only the task itself refers to this future
        except asyncio.CancelledError:
            ended.append("cancelled")

    tasks.start(work())
    await asyncio.sleep(0)
    gc.collect()
    assert len(tasks) == 1
    await soon(tasks.close())
    assert ended == ["cancelled"]


async def test_a_task_that_has_ended_is_not_held() -> None:
    tasks = Tasks()

    async def work() -> int:
        return 7

    assert await soon(tasks.start(work())) == 7
    await until(lambda: not len(tasks))
    assert list(tasks) == []


@pytest.mark.parametrize("is_read", [False, True])
async def test_a_failure_is_logged_unless_another_part_reads_it(
    is_read: bool, caplog: pytest.LogCaptureFixture
) -> None:
    tasks = Tasks()

    async def work() -> None:
        raise ValueError("the disk is full")

    if is_read:
        tasks.hold(asyncio.create_task(work()))
    else:
        tasks.start(work())
    await soon(tasks.wait())
    await until(lambda: not len(tasks))
    gc.collect()  # asyncio logs a failure that was not read when the task is collected
    assert ("the disk is full" in caplog.text) is not is_read


async def test_wait_lets_tasks_finish_and_close_cancels_them() -> None:
    tasks, may_end, ended = Tasks(), asyncio.Event(), []

    async def work(name: str) -> None:
        try:
            await may_end.wait()
            ended.append(f"{name} finished")
        except asyncio.CancelledError:
            ended.append(f"{name} cancelled")
            raise

    tasks.start(work("first"))
    waiting = asyncio.create_task(tasks.wait())
    await asyncio.sleep(0)
    may_end.set()
    await soon(waiting)
    may_end.clear()
    tasks.start(work("second"))
    await asyncio.sleep(0)
    await soon(tasks.close())
    assert ended == ["first finished", "second cancelled"]


async def test_close_without_tasks_does_nothing() -> None:
    await soon(Tasks().close())


async def test_close_waits_for_what_a_cancelled_task_still_does() -> None:
    tasks, ended = Tasks(), []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("closed its file")

    tasks.start(work())
    await asyncio.sleep(0)
    await soon(tasks.close())
    assert ended == ["closed its file"]


async def test_close_lets_tasks_finish_that_need_less_time_than_it_gives_them() -> None:
    tasks, may_end, ended = Tasks(), asyncio.Event(), []

    async def work() -> None:
        await may_end.wait()
        ended.append("finished")

    tasks.start(work())
    closing = asyncio.create_task(tasks.close(WAIT))
    await asyncio.sleep(0)
    may_end.set()
    await soon(closing)
    assert ended == ["finished"]
