"""Work that is done to its end, however often its caller is cancelled."""

import asyncio

import pytest

from handspan.core.tasks import finish
from tests.waiting import soon

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("fails", [False, True])
async def test_a_caller_that_is_cancelled_again_and_again_waits_for_the_end_of_its_work(fails: bool) -> None:
    may_end, has_ended = asyncio.Event(), False

    async def work() -> None:
        nonlocal has_ended
        await may_end.wait()
        has_ended = True
        if fails:
            raise ValueError("it failed")

    caller = asyncio.create_task(finish(work()))
    for _ in range(3):
        await asyncio.sleep(0)
        caller.cancel()
    await asyncio.sleep(0)
    assert not caller.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await soon(caller)
    assert has_ended


async def test_the_result_and_the_error_of_the_work_reach_a_caller_that_was_not_cancelled() -> None:
    async def fail() -> None:
        raise ValueError("it failed")

    assert await finish(asyncio.sleep(0, "done")) == "done"
    with pytest.raises(ValueError, match="it failed"):
        await finish(fail())
    with pytest.raises(asyncio.CancelledError):
        cancelled = asyncio.get_running_loop().create_future()
        cancelled.cancel()
        await soon(finish(cancelled))
