"""A coroutine in the caller's own task is stopped at its deadline (SPEC E5, E6)."""

import asyncio
import contextvars
import gc
import time
import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Final

import anyio
import pytest

from handspan.engine.deadline import (
    GRACE,
    CancelledItself,
    DeadlineReached,
    Reaper,
    Wait,
    continue_with_deadline,
    run_with_deadline,
)
from tests.engine.engine_kit import left_behind
from tests.waiting import WAIT, until

pytestmark = pytest.mark.anyio

SHORT = 0.02
LONG = 60.0

Steps = Coroutine[Any, Any, Any]
MakeSteps = Callable[[], Steps]


async def run(
    coroutine: Steps, seconds: float | None = LONG, *, grace: float = LONG, reaper: Reaper | None = None
) -> Any:
    """Begin a coroutine that suspends, as the engine does, and run it on, with a deadline."""
    wanted, reaper = coroutine.send(None), reaper or Reaper()
    return await continue_with_deadline(coroutine, wanted, Wait(wanted, seconds, reaper.alarm, grace), reaper)


def running(coroutine: Steps, seconds: float | None = LONG, **more: Any) -> "asyncio.Task[Any]":
    return asyncio.create_task(run(coroutine, seconds, **more))


async def begun(coroutine: Steps, seconds: float | None = LONG, **more: Any) -> "asyncio.Task[Any]":
    """The task, when the coroutine waits for the first time."""
    task = running(coroutine, seconds, **more)
    await asyncio.sleep(0)
    return task


async def end_of(task: "asyncio.Task[Any]") -> Any:
    """The task's result, or its exception; never longer than a test waits."""
    await asyncio.wait([task], timeout=WAIT)
    assert task.done(), "the wait hangs"
    if task.cancelled():
        return asyncio.CancelledError
    return task.exception() or task.result()


async def cancel(task: "asyncio.Task[Any]", *message: str) -> None:
    """Cancel the task, which has to end as cancelled."""
    task.cancel(*message)
    assert await end_of(task) is asyncio.CancelledError


async def reach_deadline(coroutine: Steps, seconds: float = SHORT, **more: Any) -> DeadlineReached:
    """Run a coroutine that its deadline stops. The caller's own task is not cancelled by that."""
    with pytest.raises(DeadlineReached) as caught:
        await run(coroutine, seconds, **more)
    assert cancellations() == 0
    return caught.value


def cancellations() -> int:
    """How many cancellations of the running test's task are open."""
    task = asyncio.current_task()
    assert task is not None
    return task.cancelling()


def new_future() -> "asyncio.Future[Any]":
    return asyncio.get_running_loop().create_future()


@pytest.fixture(autouse=True)
async def _nothing_is_left() -> Any:
    yield
    assert left_behind() == []


# Tools that several tests run.


async def hang() -> None:
    await asyncio.Event().wait()


async def spin() -> None:
    while True:
        await asyncio.sleep(0)


async def answer_its_cancellation() -> str:
    try:
        await hang()
    except asyncio.CancelledError:
        return "too late"
    return ""


async def fail_when_cancelled() -> None:
    try:
        await hang()
    except asyncio.CancelledError:
        raise LookupError("something else") from None


async def fail_in_finally() -> None:
    try:
        await hang()
    finally:
        raise ValueError("while closing")


async def hang_in_a_timeout() -> None:
    async with asyncio.timeout(LONG):
        await hang()


async def hang_after_a_timeout() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await hang()
    await hang()


async def hang_in_finally() -> None:
    try:
        await hang()
    finally:
        await hang()


async def hang_in_each_finally() -> None:
    try:
        await hang()
    finally:
        try:
            await hang()
        finally:
            await hang_in_finally()


async def fail_when_closed(last_words: BaseException) -> None:
    try:
        await hang()
    except asyncio.CancelledError:
        try:
            await hang()
        except GeneratorExit:
            raise last_words from None


async def swallow(wait: Callable[[], Coroutine[Any, Any, Any]]) -> None:
    """Wait again and again. Go on when that is cancelled."""
    while True:
        try:
            await wait()
        except asyncio.CancelledError:
            continue


async def wait_for_a_future() -> None:
    await new_future()


async def ignore_cancellation(release: asyncio.Event) -> None:
    while not release.is_set():
        try:
            await release.wait()
        except asyncio.CancelledError:
            continue


ENDING: Final[dict[str, MakeSteps]] = {
    "hangs": hang,
    "sleeps zero seconds in a loop": spin,
    "answers its cancellation with a value": answer_its_cancellation,
    "answers its cancellation with another error": fail_when_cancelled,
    "fails in its finally": fail_in_finally,
    "hangs in a timeout that does not fire": hang_in_a_timeout,
    "hangs after a timeout that fired": hang_after_a_timeout,
}
"""Tools that end as soon as they are cancelled, in one way or another."""
NOT_ENDING: Final[dict[str, MakeSteps]] = {
    "hangs in its finally": hang_in_finally,
    "hangs in each finally of several": hang_in_each_finally,
    "raises ValueError when it is closed": lambda: fail_when_closed(ValueError("closing")),
    "raises RuntimeError when it is closed": lambda: fail_when_closed(RuntimeError("closing")),
    "raises SystemExit when it is closed": lambda: fail_when_closed(SystemExit(3)),
    "swallows cancellations in its sleep": lambda: swallow(lambda: asyncio.sleep(0.001)),
    "swallows cancellations in a loop of sleep zero": lambda: swallow(lambda: asyncio.sleep(0)),
    "swallows cancellations and waits for plain futures": lambda: swallow(wait_for_a_future),
}
"""Tools that go on when they are cancelled, and end when they are closed."""

ending = pytest.mark.parametrize("tool", ENDING.values(), ids=ENDING)
not_ending = pytest.mark.parametrize("tool", NOT_ENDING.values(), ids=NOT_ENDING)


# How it ends when all is well.


async def test_gives_what_the_coroutine_returns() -> None:
    async def tool() -> str:
        await asyncio.sleep(0)
        await asyncio.sleep(0.001)
        return "done"

    assert await run(tool()) == "done"


async def test_raises_what_the_coroutine_raises() -> None:
    async def tool() -> None:
        await asyncio.sleep(0)
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        await run(tool())


async def test_an_exception_of_what_is_awaited_reaches_the_coroutine() -> None:
    async def broken() -> None:
        raise ConnectionError("reset")

    async def tool() -> str:
        try:
            await asyncio.create_task(broken())
        except ConnectionError as error:
            return f"caught {error}"
        return "nothing"

    assert await run(tool()) == "caught reset"


async def test_without_a_deadline_it_goes_on_until_the_end() -> None:
    async def tool() -> int:
        for _ in range(5):
            await asyncio.sleep(0.001)
        return 5

    assert await run(tool(), None) == 5


async def test_the_coroutine_runs_in_the_callers_own_task_and_context() -> None:
    variable = contextvars.ContextVar("variable", default="nothing")
    variable.set("of the caller")

    async def tool() -> tuple[object, str]:
        await asyncio.sleep(0)
        seen = variable.get()
        variable.set("of the tool")
        return asyncio.current_task(), seen

    assert await run(tool()) == (asyncio.current_task(), "of the caller")
    assert variable.get() == "of the tool"


async def test_a_coroutine_that_never_suspends_needs_no_driving() -> None:
    async def tool() -> int:
        return 7

    assert await run_with_deadline(tool(), SHORT, Reaper()) == 7


# The deadline.


@ending
async def test_the_time_is_up_for_a_tool_that(tool: MakeSteps) -> None:
    assert not (await reach_deadline(tool())).stuck


@not_ending
async def test_after_the_deadline_and_its_grace_the_reaper_closes_a_tool_that(tool: MakeSteps) -> None:
    reaper = Reaper()
    assert (await reach_deadline(tool(), grace=SHORT, reaper=reaper)).stuck
    assert (reaper.reaped, len(reaper.unclosable)) == (1, 0)


async def test_at_the_deadline_the_coroutine_is_cancelled() -> None:
    seen: list[str] = []

    async def tool() -> None:
        try:
            await hang()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    await reach_deadline(tool())
    assert seen == ["cancelled"]


async def test_a_deadline_that_has_passed_stops_at_the_first_suspension() -> None:
    await reach_deadline(hang(), -1.0)


async def test_what_is_awaited_is_cancelled_too_and_has_ended_before_the_coroutine_goes_on() -> None:
    order: list[str] = []

    async def child() -> None:
        try:
            await hang()
        finally:
            await asyncio.sleep(0.005)
            order.append("child")

    async def tool() -> None:
        try:
            await asyncio.gather(child(), child())
        finally:
            order.append("tool")

    await reach_deadline(tool())
    assert order == ["child", "child", "tool"]


async def test_a_finally_may_await_within_the_grace_time() -> None:
    closed: list[str] = []

    async def tool() -> None:
        try:
            await hang()
        finally:
            await asyncio.sleep(0.005)
            await asyncio.sleep(0)
            closed.append("connection")

    reaper = Reaper()
    reached = await reach_deadline(tool(), reaper=reaper)
    assert closed == ["connection"]
    assert (reached.stuck, reaper.reaped) == (False, 0)


async def test_a_finally_that_outlives_its_grace_is_closed() -> None:
    seen: list[str] = []

    async def tool() -> None:
        try:
            await hang_in_finally()
        finally:
            seen.append("closed")

    await reach_deadline(tool(), grace=SHORT)
    assert seen == ["closed"]


async def test_one_that_refuses_even_to_be_closed_is_counted_as_stuck_and_hurts_nobody() -> None:
    may_end = False

    async def tool() -> None:
        while not may_end:
            try:
                await asyncio.sleep(0.001)
            except BaseException:
                continue

    reaper = Reaper()
    assert (await reach_deadline(tool(), grace=SHORT, reaper=reaper)).stuck
    assert (reaper.reaped, len(reaper.unclosable)) == (1, 1)
    may_end = True
    for coroutine in reaper.unclosable:
        coroutine.close()  # so that nothing is left for the garbage collector to complain about


async def test_one_that_swallows_the_cancellation_does_not_go_on_after_its_grace() -> None:
    rounds = 0

    async def wait() -> None:
        nonlocal rounds
        await asyncio.sleep(0.001)
        rounds += 1

    await reach_deadline(swallow(wait), grace=SHORT)
    after = rounds
    await asyncio.sleep(0.005)
    assert rounds == after


# What tools have inside.


async def test_a_timeout_inside_that_fires_is_the_tools_own_affair() -> None:
    async def tool() -> str:
        try:
            async with asyncio.timeout(SHORT):
                await hang()
        except TimeoutError:
            await asyncio.sleep(0.001)
            return "handled"
        return ""

    assert await run(tool()) == "handled"
    assert cancellations() == 0


async def test_a_timeout_inside_that_does_not_fire_leaves_no_trace() -> None:
    async def tool() -> str:
        async with asyncio.timeout(LONG):
            await asyncio.sleep(0.001)
        return "in time"

    assert await run(tool()) == "in time"


async def test_a_timeout_inside_whose_finally_takes_long_is_no_cancellation_of_the_caller() -> None:
    async def tool() -> None:
        async with asyncio.timeout(0.001):
            await hang_in_finally()

    reaper = Reaper()
    with pytest.raises(CancelledItself):
        await run(tool(), LONG, grace=SHORT, reaper=reaper)
    assert reaper.reaped == 1
    assert cancellations() == 0


async def test_a_timeout_inside_a_finally_works_in_the_grace_time() -> None:
    seen: list[str] = []

    async def tool() -> None:
        try:
            await hang()
        finally:
            try:
                async with asyncio.timeout(0.001):
                    await hang()
            except TimeoutError:
                seen.append("gave up closing")

    await reach_deadline(tool())
    assert seen == ["gave up closing"]


async def test_a_subtask_that_answers_its_cancellation_with_a_value_is_heard_as_in_any_task() -> None:
    async def tool() -> str:
        async with asyncio.timeout(0.005):
            return str(await asyncio.create_task(answer_its_cancellation()))

    assert await run(tool()) == "too late"


async def test_a_timeout_inside_that_a_subtask_answers_with_a_value_leaves_no_trace() -> None:
    async def tool() -> str:
        async with asyncio.timeout(0.005):
            heard = str(await asyncio.create_task(answer_its_cancellation()))
        await asyncio.sleep(3 * SHORT)
        return heard

    assert await run(tool(), grace=SHORT) == "too late"


async def test_a_task_group_inside_works_and_is_drained_at_the_deadline() -> None:
    ended: list[int] = []

    async def child(number: int) -> None:
        try:
            await hang()
        finally:
            await asyncio.sleep(0.001)
            ended.append(number)

    async def tool() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(child(1))
            group.create_task(child(2))

    await reach_deadline(tool())
    assert sorted(ended) == [1, 2]


async def test_a_failing_child_of_a_task_group_inside_is_the_tools_own_affair() -> None:
    async def child() -> None:
        raise LookupError("child")

    async def tool() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(child())
            await hang()

    with pytest.raises(ExceptionGroup) as caught:
        await run(tool())
    assert isinstance(caught.value.exceptions[0], LookupError)
    assert cancellations() == 0


async def test_what_is_shielded_goes_on_after_the_deadline() -> None:
    release, ended = asyncio.Event(), asyncio.Event()

    async def important() -> None:
        await release.wait()
        ended.set()

    inner = asyncio.create_task(important())

    async def tool() -> None:
        await asyncio.shield(inner)

    assert not (await reach_deadline(tool())).stuck
    release.set()
    await inner
    assert ended.is_set()


async def test_a_subtask_that_ignores_its_cancellation_holds_up_nobody() -> None:
    release, seen = asyncio.Event(), list[str]()
    inner = asyncio.create_task(ignore_cancellation(release))

    async def tool() -> None:
        try:
            await inner
        finally:
            seen.append("closed")

    assert not (await reach_deadline(tool(), grace=SHORT)).stuck
    assert seen == ["closed"]
    await cancel(await begun(tool(), None, grace=SHORT))
    assert seen == ["closed", "closed"]
    release.set()
    await inner


async def test_a_cancel_scope_of_anyio_inside_is_the_tools_own_affair() -> None:
    async def tool() -> str:
        with anyio.move_on_after(SHORT) as scope:
            await hang()
        await asyncio.sleep(0)
        return "moved on" if scope.cancelled_caught else "not caught"

    assert await run(tool()) == "moved on"


async def test_the_error_of_a_subtask_that_fails_at_the_deadline_is_not_reported_as_never_seen() -> None:
    complaints: list[Any] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: complaints.append(context))

    async def tool() -> None:
        await asyncio.create_task(fail_in_finally())

    try:
        await reach_deadline(tool())
        gc.collect()
    finally:
        loop.set_exception_handler(None)
    assert complaints == []


async def test_a_nested_deadline_gets_that_of_the_outer_one_as_a_cancellation() -> None:
    seen: list[str] = []

    async def inner() -> None:
        try:
            await hang()
        finally:
            await asyncio.sleep(0.001)
            seen.append("inner closed")

    async def outer() -> None:
        try:
            await run(inner())
        except asyncio.CancelledError:
            seen.append("outer cancelled")
            raise

    await reach_deadline(outer())
    assert seen == ["inner closed", "outer cancelled"]


async def test_a_nested_deadline_that_is_earlier_stops_only_its_own() -> None:
    async def outer() -> str:
        await reach_deadline(hang())
        await asyncio.sleep(0.001)
        return "went on"

    assert await run(outer()) == "went on"


async def test_a_nested_coroutine_that_can_not_be_stopped_goes_down_with_the_outer_one() -> None:
    reaper = Reaper()

    async def outer() -> None:
        await run(swallow(lambda: asyncio.sleep(0.001)), reaper=reaper)

    assert (await reach_deadline(outer(), grace=SHORT, reaper=reaper)).stuck
    assert (reaper.reaped, len(reaper.unclosable)) == (2, 0)


# Things that can't be awaited.


async def test_awaiting_something_of_another_loop_is_an_error_at_once() -> None:
    other = asyncio.new_event_loop()
    foreign = other.create_future()

    async def tool() -> None:
        await asyncio.sleep(0)
        await foreign

    try:
        with pytest.raises(RuntimeError, match="another event loop"):
            await run(tool())
    finally:
        other.close()


async def test_awaiting_the_own_task_is_an_error_and_does_not_cancel_it() -> None:
    async def tool() -> None:
        await asyncio.sleep(0)
        task = asyncio.current_task()
        assert task is not None
        await task

    task = running(tool(), SHORT)
    assert isinstance(await end_of(task), RuntimeError)
    assert task.cancelling() == 0


async def test_what_no_event_loop_understands_is_an_error_inside_the_coroutine() -> None:
    class Nonsense:
        def __await__(self) -> Generator[Any, Any, Any]:
            yield "nonsense"

    async def tool() -> str:
        await asyncio.sleep(0)
        try:
            await Nonsense()
        except RuntimeError as error:
            return str(error)
        return ""

    assert "bad yield" in await run(tool())


# Cancelled: by the tool itself.


async def raise_it_at_once() -> None:
    raise asyncio.CancelledError


async def raise_it_later() -> None:
    await asyncio.sleep(0)
    raise asyncio.CancelledError


async def await_a_cancelled_future() -> None:
    future = new_future()
    asyncio.get_running_loop().call_soon(future.cancel)
    await future


@pytest.mark.parametrize("tool", [raise_it_at_once, raise_it_later, await_a_cancelled_future])
async def test_a_cancellation_that_did_not_come_from_outside_is_the_tools_own(tool: MakeSteps) -> None:
    with pytest.raises(CancelledItself):
        await run_with_deadline(tool(), LONG, Reaper())


# Cancelled: from outside.


@ending
async def test_the_caller_is_cancelled_with_a_tool_that(tool: MakeSteps) -> None:
    await cancel(await begun(tool()))


@not_ending
async def test_the_caller_is_cancelled_and_the_reaper_closes_a_tool_that(tool: MakeSteps) -> None:
    reaper = Reaper()
    await cancel(await begun(tool(), None, grace=SHORT, reaper=reaper))
    assert (reaper.reaped, len(reaper.unclosable)) == (1, 0)


async def test_a_cancelled_caller_is_cancelled_after_the_cleanup() -> None:
    seen: list[str] = []

    async def tool() -> None:
        try:
            await hang()
        finally:
            await asyncio.sleep(0.001)
            seen.append("closed")

    await cancel(await begun(tool()))
    assert seen == ["closed"]


async def test_the_message_of_a_cancellation_reaches_the_coroutine_and_the_caller() -> None:
    seen: list[Any] = []

    async def tool() -> None:
        try:
            await hang()
        except asyncio.CancelledError as error:
            seen.append(error.args)
            raise

    task = await begun(tool())
    task.cancel("shutting down")
    with pytest.raises(asyncio.CancelledError, match="shutting down"):
        await task
    assert seen == [("shutting down",)]


@pytest.mark.parametrize("after", [0.0, 1.5 * SHORT], ids=["just before", "just after"])
async def test_cancelled_in_the_same_round_as_the_deadline_is_cancelled(after: float) -> None:
    loop = asyncio.get_running_loop()
    task = await begun(hang(), SHORT)
    loop.call_later(after, task.cancel)
    block(2 * SHORT)  # both are due when the loop looks again: they fire in one round
    assert await end_of(task) is asyncio.CancelledError


async def test_cancelled_in_the_grace_time_is_cancelled_not_timed_out() -> None:
    in_grace = asyncio.Event()

    async def tool() -> None:
        try:
            await hang()
        finally:
            in_grace.set()
            await hang()

    task = running(tool(), SHORT)
    await in_grace.wait()
    await cancel(task)


async def test_cancelled_twice_is_cancelled_once_for_the_caller() -> None:
    seen: list[str] = []

    async def tool() -> None:
        try:
            await hang_in_finally()
        finally:
            seen.append("closed")

    task = await begun(tool())
    task.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await cancel(task)
    assert seen == ["closed"]


async def test_a_timeout_around_the_wait_fires_as_around_anything_else() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(SHORT):
            await run(hang_in_a_timeout())
    assert cancellations() == 0


async def test_a_cancellation_that_comes_when_the_result_is_already_there_still_counts() -> None:
    tool = Waiting()
    task = await begun(tool.run())
    tool.future.set_result("there")  # the task is to be woken; it has not gone on yet
    await cancel(task)


# Taken down.


async def test_closing_the_wait_closes_the_coroutine() -> None:
    seen: list[str] = []

    async def tool() -> None:
        try:
            await hang()
        finally:
            seen.append("closed")

    steps = run(tool())
    steps.send(None)
    steps.close()
    assert seen == ["closed"]


async def test_the_grace_time_is_short_enough_for_a_person_and_long_enough_for_a_connection() -> None:
    assert 0.5 <= GRACE <= 5


async def test_no_timer_but_that_of_the_alarm_is_left_when_the_coroutine_ends_early() -> None:
    loop, reaper = asyncio.get_running_loop(), Reaper()
    before = len(loop._scheduled)  # type: ignore[attr-defined]  # the only way to see timers

    async def tool() -> None:
        await asyncio.sleep(0)

    await run(tool(), LONG, reaper=reaper)
    reaper.alarm.close()
    alive = [timer for timer in loop._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]  # as above
    assert len(alive) <= before


async def test_many_at_once_each_have_their_own_deadline() -> None:
    async def tool(hangs: bool) -> str:
        await (hang() if hangs else asyncio.sleep(2 * SHORT))
        return "done"

    tasks = [running(tool(number % 2 == 0), SHORT if number % 2 == 0 else LONG) for number in range(50)]
    await until(lambda: all(task.done() for task in tasks))
    kinds = [type(task.exception()) for task in tasks]
    assert kinds == [DeadlineReached if number % 2 == 0 else type(None) for number in range(50)]


# A plain future: the task itself waits for it, and we have to see what cancelled it.


class Fatal(BaseException):
    """As KeyboardInterrupt, without its manners."""


class Waiting:
    """A coroutine that waits for a plain future, and what it heard."""

    def __init__(self) -> None:
        self.future: asyncio.Future[str] = new_future()
        self.heard: list[str] = []

    async def run(self) -> str:
        try:
            return await self.future
        except asyncio.CancelledError as error:
            self.heard.append(" ".join(("cancelled", *error.args)))
            raise
        except (LookupError, Fatal) as error:
            self.heard.append(f"failed {error}")
            return "caught"


async def test_a_plain_future_is_cancelled_at_the_deadline() -> None:
    tool = Waiting()
    assert not (await reach_deadline(tool.run())).stuck
    assert tool.future.cancelled() and tool.heard == ["cancelled"]


async def test_a_plain_future_is_cancelled_with_the_task_and_with_its_message() -> None:
    tool = Waiting()
    await cancel(await begun(tool.run()), "enough")
    assert tool.future.cancelled() and tool.heard == ["cancelled enough"]


async def test_a_plain_future_that_somebody_else_cancels_is_the_tools_own_affair() -> None:
    async def patient() -> str:
        try:
            return await tool.run()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            return "went on"

    tool = Waiting()
    task = await begun(patient())
    tool.future.cancel()
    assert await end_of(task) == "went on"
    tool = Waiting()
    task = await begun(tool.run())
    tool.future.cancel()
    assert isinstance(await end_of(task), CancelledItself)


async def test_a_plain_future_under_a_nested_deadline_that_another_task_cancels_is_the_inner_tools_own_affair() -> None:
    tool = Waiting()

    async def outer() -> str:
        with pytest.raises(CancelledItself):
            await run(tool.run())
        return "went on"

    task = await begun(outer())
    tool.future.cancel()
    assert await end_of(task) == "went on"


def below_deadlines(coroutine: Steps, depth: int, ends: list[str]) -> Steps:
    """This coroutine below so many deadlines that are later; `ends` gets the name of what each wait raised."""

    async def around(inner: Steps) -> None:
        try:
            await run(inner)
        except BaseException as error:
            ends.append(type(error).__name__)
            raise

    for _ in range(depth):
        coroutine = around(coroutine)
    return coroutine


@pytest.mark.parametrize("depth", [1, 2, 3])
async def test_a_plain_future_below_several_deadlines_is_cancelled_at_the_deadline_of_the_outermost(depth: int) -> None:
    tool, ends = Waiting(), list[str]()
    await reach_deadline(below_deadlines(tool.run(), depth, ends))
    assert tool.heard == ["cancelled"] and ends == ["CancelledError"] * depth


@pytest.mark.parametrize("depth", [1, 2, 3])
async def test_a_cancelled_task_reaches_every_wait_above_a_plain_future(depth: int) -> None:
    tool, ends = Waiting(), list[str]()
    await cancel(await begun(below_deadlines(tool.run(), depth, ends)), "enough")
    assert tool.heard == ["cancelled enough"] and ends == ["CancelledError"] * depth


async def test_timeouts_inside_end_the_wait_for_a_plain_future_and_the_deadline_still_holds() -> None:
    heard: list[str] = []

    async def tool() -> None:
        for _ in range(2):
            try:
                async with asyncio.timeout(0.001):
                    await new_future()
            except TimeoutError:
                heard.append("timeout")
        await new_future()

    await reach_deadline(tool(), 5 * SHORT)
    assert heard == ["timeout", "timeout"]


async def test_a_tool_that_cancels_its_own_task_and_then_waits_for_a_plain_future_cancels_the_caller() -> None:
    tool = Waiting()

    async def cancels_its_task() -> None:
        await asyncio.sleep(0)
        current = asyncio.current_task()
        assert current is not None
        current.cancel("my own")
        await tool.run()

    assert await end_of(running(cancels_its_task())) is asyncio.CancelledError
    assert tool.heard == ["cancelled my own"]


async def test_a_plain_future_in_finally_may_come_within_the_grace_time_and_not_after_it() -> None:
    closing: list[asyncio.Future[str]] = []
    closed: list[str] = []

    async def tool() -> None:
        try:
            await new_future()
        finally:
            closing.append(new_future())
            closed.append(await closing[-1])

    task = running(tool(), SHORT)
    await until(lambda: bool(closing))
    closing[0].set_result("in time")
    assert isinstance(await end_of(task), DeadlineReached) and closed == ["in time"]
    reaper = Reaper()
    assert (await reach_deadline(tool(), grace=SHORT, reaper=reaper)).stuck
    assert reaper.reaped == 1 and closed == ["in time"]


@pytest.mark.parametrize("error", [LookupError("no"), Fatal("no")], ids=["an error", "something worse"])
async def test_whatever_a_plain_future_fails_with_reaches_the_coroutine(error: BaseException) -> None:
    tool = Waiting()
    task = await begun(tool.run())
    tool.future.set_exception(error)
    assert await end_of(task) == "caught" and tool.heard == ["failed no"]


def block(seconds: float) -> None:
    """Let the event loop do nothing else for so long."""
    time.sleep(seconds)


async def test_when_the_time_is_up_as_a_plain_future_fails_the_coroutine_hears_of_the_time() -> None:
    tool, loop = Waiting(), asyncio.get_running_loop()
    complaints: list[str] = []
    loop.set_exception_handler(lambda _, context: complaints.append(context["message"]))
    task = await begun(tool.run(), SHORT)
    loop.call_later(SHORT / 2, tool.future.set_exception, LookupError("no"))
    block(2 * SHORT)  # both are due when the loop looks again, the failure first
    assert isinstance(await end_of(task), DeadlineReached)
    assert tool.heard == ["cancelled"] and complaints == []
    loop.set_exception_handler(None)


async def test_a_plain_future_that_is_yielded_and_not_awaited_is_waited_for_all_the_same() -> None:
    future: asyncio.Future[str] = new_future()

    @types.coroutine
    def bare() -> Generator[Any, Any, str]:
        yield future
        return future.result()

    async def tool() -> str:
        return await bare()

    task = await begun(tool())
    future.set_result("there")
    assert await end_of(task) == "there"


async def test_a_tool_that_cancels_its_own_task_in_its_first_step_cancels_the_caller() -> None:
    async def cancels_its_task() -> None:
        current = asyncio.current_task()
        assert current is not None
        current.cancel()
        await asyncio.sleep(0)

    assert await end_of(running(cancels_its_task())) is asyncio.CancelledError
