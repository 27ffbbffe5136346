"""The station where the tool's own code runs: its place, its turn, its deadline (SPEC E3, E5, E6, T3)."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from handspan.core.agents import Agent
from handspan.core.calls import ToolCall, new_call_id
from handspan.core.context import Deadline, ToolContext
from handspan.core.errors import ToolError
from handspan.core.results import Attachment, Failure, Pending, Success, encode_envelope
from handspan.core.tool import Annotations, ToolSpec
from handspan.core.values import Arguments, Json
from handspan.engine.gates import Gates
from handspan.registry.registry import RegistryRules
from tests.engine.conftest import MakeHouse
from tests.engine.house import House, outcome_of, soon
from tests.waiting import WAIT, until

pytestmark = pytest.mark.anyio

SERIAL = Annotations(serial=True)


def raising(error: BaseException) -> Callable[[], Any]:
    async def crash() -> None:
        raise error

    return crash


def raising_later(error: BaseException) -> Callable[[], Any]:
    async def crash() -> None:
        await asyncio.sleep(0)
        raise error

    return crash


def raising_aside(error: BaseException) -> Callable[[], Any]:
    def crash() -> None:
        raise error

    return crash


# Crashes.


class OwnEnd(BaseException):
    """What some libraries raise to get past `except Exception`."""


class Speechless(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


CRASHES = [
    (LookupError("gone"), "LookupError: gone"),
    (SystemExit(3), "SystemExit: 3"),
    (BaseExceptionGroup("many", [OwnEnd()]), "BaseExceptionGroup: many (1 sub-exception)"),
    (ExceptionGroup("many", [ValueError()]), "ExceptionGroup: many (1 sub-exception)"),
    (RecursionError("too deep"), "RecursionError: too deep"),
    (MemoryError("too much"), "MemoryError: too much"),
    (OwnEnd("own"), "OwnEnd: own"),
    (Speechless(), "Speechless: it can't be put into words"),
    (OSError("caf\udce9"), "OSError: caf?"),
]


@pytest.mark.parametrize("place", [raising, raising_later, raising_aside])
@pytest.mark.parametrize(("error", "said"), CRASHES, ids=[type(error).__name__ for error, _ in CRASHES])
async def test_whatever_a_tool_raises_is_a_result(
    house: House, place: Callable[[BaseException], Any], error: BaseException, said: str
) -> None:
    house.add(place(error))
    failure = await house.failure("crash")
    assert failure.code == "execution_failed"
    assert failure.message.startswith("Tool 'crash' failed: ") and said in failure.message
    assert encode_envelope(failure)
    assert house.last().result == failure


@pytest.mark.parametrize("place", [raising, raising_later, raising_aside])
async def test_an_error_of_our_own_keeps_its_code(house: House, place: Callable[[BaseException], Any]) -> None:
    house.add(place(ToolError("network_error", "Connection refused")))
    assert await house.failure("crash") == Failure("network_error", "Connection refused")


async def test_a_code_that_somebody_made_up_does_not_break_the_answer(house: House) -> None:
    house.add(raising(ToolError("my_own", "no")))  # type: ignore[arg-type]  # on purpose
    failure = await house.failure("crash")
    assert failure == Failure("execution_failed", "no")
    assert encode_envelope(failure)


@pytest.mark.parametrize("place", [raising, raising_later])
async def test_a_tool_that_cancels_itself_is_a_failed_call_and_no_cancellation(
    house: House, place: Callable[[BaseException], Any]
) -> None:
    house.add(place(asyncio.CancelledError()))
    assert await house.failure("crash") == Failure("cancelled", "Tool 'crash' cancelled itself.")


async def test_recursion_without_end_is_a_failure(house: House) -> None:
    async def deeper() -> Any:
        def down() -> Any:
            return down()

        return down()

    house.add(deeper)
    assert "RecursionError" in (await house.failure("deeper")).message


async def test_ctrl_c_is_not_the_tools_and_passes(house: House) -> None:
    with pytest.raises(KeyboardInterrupt):
        coroutine = house.engine.call(_call("crash"), house.caller())
        house.add(raising(KeyboardInterrupt()))
        coroutine.send(None)
    assert not house.engine.watchdog._is_busy()


def _call(name: str) -> ToolCall:
    return ToolCall(name, {}, new_call_id())


# Results.


def giving(value: Any) -> Callable[[], Any]:
    async def give() -> Any:
        return value

    return give


@pytest.mark.parametrize(
    "value", [object(), {1, object()}, float, lambda: None], ids=["object", "set", "type", "lambda"]
)
async def test_what_can_not_be_written_as_json_is_a_failure_that_says_the_tool_ran(house: House, value: Any) -> None:
    house.add(giving(value))
    failure = await house.failure("give")
    assert failure.code == "execution_failed"
    assert failure.message.startswith("The tool ran, but its result can't be written as JSON: ")


async def test_a_value_that_holds_itself_is_a_failure(house: House) -> None:
    value: list[Any] = []
    value.append(value)
    house.add(giving(value))
    assert (await house.failure("give")).code == "execution_failed"


async def test_a_value_whose_own_dump_fails_is_a_failure(house: House) -> None:
    class Broken:
        def model_dump(self, mode: str) -> Json:
            raise KeyError("field")

    house.add(giving(Broken()))
    assert "KeyError: 'field'" in (await house.failure("give")).message


async def test_half_of_a_character_is_replaced(house: House) -> None:
    house.add(giving({"text": "caf\udce9"}))
    value = await house.value("give")
    assert isinstance(value, dict)
    text = str(value["text"])
    assert text.startswith("caf") and len(text) > 3 and text.encode()


async def test_attachments_come_with_the_value_or_alone(house: House) -> None:
    picture = Attachment("image", "image/png", b"\x89PNG", name="a.png")
    for function, value in ((giving(Success("look", (picture,))), "look"), (giving(picture), None)):
        house.registry.unregister("give")
        house.add(function)
        result = await house.call("give")
        assert isinstance(result, Success)
        assert (result.value, result.attachments) == (value, (picture,))
        assert b'"attachments":[{"kind":"image","media_type":"image/png","name":"a.png","bytes":4}]' in result.encoded


async def test_a_failure_may_be_returned_too(house: House) -> None:
    house.add(giving(Failure("rate_limited", "later")))
    assert await house.failure("give") == Failure("rate_limited", "later")


# Deadlines.


async def test_the_error_says_which_clock_fired_and_after_how_long(make_house: MakeHouse) -> None:
    house = make_house(rules=RegistryRules(timeouts={"configured": 0.03, "glob_*": 0.03, "glob_free": None}))

    async def hang() -> None:
        await asyncio.Event().wait()

    for name in ("own", "configured", "glob_x", "glob_free"):
        house.add(hang, name=name, timeout=0.02)
    assert await house.failure("own") == Failure(
        "timeout", "Tool 'own' timed out after 0.02 s (the tool's own limit) and was stopped."
    )
    assert "after 0.03 s (the setting tools.timeouts.configured)" in (await house.failure("configured")).message
    assert "after 0.03 s (the setting tools.timeouts.glob_*)" in (await house.failure("glob_x")).message
    soon_over = Deadline(time.monotonic() + 0.01, "the caller's deadline")
    assert "(the caller's deadline)" in (await house.failure("own", deadline=soon_over)).message
    soon_over = Deadline(time.monotonic() + 0.01, "the caller's deadline")
    assert "(the caller's deadline)" in (await house.failure("glob_free", deadline=soon_over)).message
    much_later = Deadline(time.monotonic() + 60, "the caller's deadline")
    assert "(the tool's own limit)" in (await house.failure("own", deadline=much_later)).message


async def test_a_tool_without_any_limit_has_no_deadline(house: House) -> None:
    async def free(ctx: ToolContext) -> bool:
        await asyncio.sleep(0.001)
        return ctx.deadline is None

    house.add(free, timeout=None)
    assert await house.value("free") is True


async def test_a_call_whose_deadline_has_passed_does_not_touch_the_tool(house: House) -> None:
    ran: list[str] = []

    async def touch() -> None:
        ran.append("touched")

    house.add(touch)
    failure = await house.failure("touch", deadline=Deadline(time.monotonic() - 1, "the caller's deadline"))
    assert failure == Failure(
        "timeout", "Tool 'touch' was not run: the time was over before it could begin (the caller's deadline)."
    )
    assert ran == []


async def test_the_time_that_the_first_step_takes_counts(house: House) -> None:
    async def blocking() -> str:
        time.sleep(0.06)  # noqa: ASYNC251 - on purpose: a first step that blocks until the deadline has passed
        await asyncio.sleep(0.02)  # less than the limit, if that began only now
        return "too late"

    house.add(blocking, timeout=0.05)
    assert (await house.failure("blocking")).code == "timeout"


async def test_a_tool_that_does_not_end_in_its_grace_time_is_said_to_be_at_work_still(house: House) -> None:
    async def stubborn() -> None:
        while True:
            try:
                await asyncio.sleep(0.001)
            except asyncio.CancelledError:
                continue

    house.add(stubborn, timeout=0.01)
    failure = await house.failure("stubborn")
    assert failure.message.endswith("and was stopped, but it did not end in time: part of it may still be at work.")
    assert house.engine.runner.reaper.reaped == 1


async def test_a_plain_function_that_takes_too_long_is_left_to_its_thread_and_counted(house: House) -> None:
    release = threading.Event()

    def slow() -> None:
        release.wait(WAIT)

    house.add(slow, timeout=0.02)
    failure = await house.failure("slow")
    assert failure.message == "Tool 'slow' timed out after 0.02 s (the tool's own limit) and was stopped."
    assert house.engine.runner.threads.abandoned == 1
    release.set()
    await until(lambda: house.engine.runner.threads.abandoned == 0)


async def test_the_tool_is_told_its_deadline(house: House) -> None:
    async def look(ctx: ToolContext) -> list[Any]:
        assert ctx.deadline is not None
        return [ctx.deadline.whose, ctx.deadline.at - time.monotonic() < 30]

    house.add(look)
    assert await house.value("look") == ["the tool's own limit", True]


# Nested calls.


async def test_a_tool_may_call_the_engine(house: House) -> None:
    async def inner(number: int) -> int:
        await asyncio.sleep(0)
        return number + 1

    async def outer(number: int) -> Any:
        return await house.value("inner", {"number": number})

    house.add(inner)
    house.add(outer)
    assert await house.value("outer", {"number": 1}) == 2
    assert [record.name for record in house.journal()] == ["inner", "outer"]


async def test_the_deadline_of_an_outer_call_cancels_the_inner_one_and_both_have_their_result(house: House) -> None:
    went_on: list[str] = []

    async def inner() -> None:
        await asyncio.Event().wait()

    async def outer() -> None:
        await house.engine.call(_call("inner"), house.caller())
        went_on.append("outer")

    house.add(inner)
    house.add(outer, timeout=0.02)
    failure = await house.failure("outer")
    assert failure.message == "Tool 'outer' timed out after 0.02 s (the tool's own limit) and was stopped."
    assert went_on == []
    assert [(record.name, record.result.code) for record in house.journal() if isinstance(record.result, Failure)] == [
        ("inner", "cancelled"),
        ("outer", "timeout"),
    ]


async def test_the_deadline_of_an_inner_call_is_a_result_for_the_outer_one(house: House) -> None:
    async def inner() -> None:
        await asyncio.Event().wait()

    async def outer() -> str:
        return (await house.failure("inner")).code

    house.add(inner, timeout=0.02)
    house.add(outer)
    assert await house.value("outer") == "timeout"


async def test_when_an_outer_call_is_reaped_the_inner_one_still_has_its_result(house: House) -> None:
    async def inner() -> None:
        while True:
            try:
                await asyncio.sleep(0.001)
            except asyncio.CancelledError:
                continue

    async def outer() -> None:
        await house.engine.call(_call("inner"), house.caller())

    house.add(inner)
    house.add(outer, timeout=0.02)
    assert "still be at work" in (await house.failure("outer")).message
    assert list(house.ledger.open_calls()) == []
    assert sorted(record.name for record in house.journal()) == ["inner", "outer"]


# Cancelled.


async def test_a_cancelled_call_has_its_result_after_the_tools_cleanup(house: House) -> None:
    begun, closed = asyncio.Event(), list[str]()

    async def slow() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.001)
            closed.append("closed")

    house.add(slow)
    task = house.start("slow")
    await soon(begun)
    task.cancel()
    assert isinstance((await outcome_of([task]))[0], asyncio.CancelledError)
    assert closed == ["closed"]
    assert house.last().result == Failure("cancelled", "The call of 'slow' was cancelled.")
    assert list(house.ledger.open_calls()) == []


async def test_cancelled_while_it_waits_for_its_turn_the_call_has_its_result(house: House) -> None:
    release = asyncio.Event()

    async def one_by_one() -> None:
        await release.wait()

    house.add(one_by_one, annotations=SERIAL)
    first, second = house.start("one_by_one"), house.start("one_by_one")
    await until(lambda: len(list(house.ledger.open_calls())) == 2)
    second.cancel()
    assert isinstance((await outcome_of([second]))[0], asyncio.CancelledError)
    assert [record.result for record in house.journal()] == [
        Failure("cancelled", "The call of 'one_by_one' was cancelled.")
    ]
    release.set()
    assert isinstance((await outcome_of([first]))[0], Success)


# Turns.


async def test_serial_tools_run_one_after_another_in_the_order_of_the_calls(house: House) -> None:
    inside, order = 0, list[int]()

    async def one_by_one(number: int) -> int:
        nonlocal inside
        inside += 1
        assert inside == 1
        order.append(number)
        await asyncio.sleep(0.001 * (5 - number))
        inside -= 1
        return number

    house.add(one_by_one, annotations=SERIAL)
    tasks = [house.start("one_by_one", {"number": number}) for number in range(5)]
    assert [result.value for result in await outcome_of(tasks)] == order == [0, 1, 2, 3, 4]


async def test_an_origin_that_is_full_is_busy_when_the_tools_own_time_has_passed(make_house: MakeHouse) -> None:
    house = make_house(gates=Gates({"builtin": 2}))
    release = asyncio.Event()

    async def hold() -> str:
        await release.wait()
        return "held"

    async def quick() -> str:
        return "quick"

    house.add(hold)
    house.add(quick, timeout=0.02)
    house.add(quick, name="patient")
    tasks = [house.start("hold") for _ in range(2)]
    await until(lambda: len(list(house.ledger.open_calls())) == 2)
    failure = await house.failure("quick")
    assert failure == Failure("busy", "builtin is busy: no turn within 0.02 s (2 at once). Try again later.")
    release.set()
    assert [result.value for result in await outcome_of(tasks)] == ["held", "held"]
    assert await house.value("patient") == "quick"


@pytest.mark.parametrize("timeout", [None, 60.0])
async def test_nobody_waits_for_a_turn_beyond_the_callers_deadline(
    make_house: MakeHouse, timeout: float | None
) -> None:
    house = make_house(gates=Gates({"builtin": 1}))
    release = asyncio.Event()

    async def hold() -> None:
        await release.wait()

    house.add(hold, timeout=timeout)
    task = house.start("hold")
    await until(lambda: list(house.ledger.open_calls()))
    failure = await house.failure("hold", deadline=Deadline(time.monotonic() + 0.02, "the caller's deadline"))
    assert failure.code == "busy"
    release.set()
    await outcome_of([task])


async def test_the_time_a_call_waits_for_its_turn_does_not_count_against_the_tools_limit(house: House) -> None:
    async def half(number: int) -> int:
        await asyncio.sleep(0.03)
        return number

    house.add(half, annotations=SERIAL, timeout=0.05)
    tasks = [house.start("half", {"number": number}) for number in range(2)]
    assert [result.value for result in await outcome_of(tasks)] == [0, 1]


# Progress, context, places.


async def test_progress_reaches_the_caller_from_loop_and_thread(house: House) -> None:
    async def on_the_loop(ctx: ToolContext) -> None:
        ctx.progress({"step": 1})
        await asyncio.sleep(0)
        ctx.progress({"step": 2})

    def on_a_thread(ctx: ToolContext) -> None:
        ctx.progress("from a thread")

    house.add(on_the_loop)
    house.add(on_a_thread)
    seen: list[tuple[Json, int]] = []

    def note(said: Json) -> None:
        seen.append((said, threading.get_ident()))

    for name in ("on_the_loop", "on_a_thread"):
        await house.value(name, caller=house.caller(progress=note))
    here = threading.get_ident()
    assert seen == [({"step": 1}, here), ({"step": 2}, here), ("from a thread", here)]


def test_a_thread_that_reports_after_its_loop_has_gone_is_not_disturbed(tmp_path: Any) -> None:
    begun, release, ended = threading.Event(), threading.Event(), threading.Event()

    def late(ctx: ToolContext) -> None:
        begun.set()
        release.wait(WAIT)
        ctx.progress("no listener")
        ended.set()

    async def give_up() -> None:
        house = House(tmp_path)
        house.add(late)
        task = house.start("late")
        await until(begun.is_set)
        task.cancel()
        await outcome_of([task])
        await house.engine.close()

    asyncio.run(give_up())
    release.set()
    assert ended.wait(WAIT)


async def test_a_tool_that_is_a_class_runs_where_its_run_says(house: House) -> None:
    class Asynchronous:
        spec = ToolSpec("asynchronous", "On the loop.", {"type": "object"})

        async def run(self, arguments: Arguments, ctx: ToolContext) -> bool:
            return threading.current_thread() is threading.main_thread()

    class Plain:
        spec = ToolSpec("plain", "On a thread.", {"type": "object"})

        def run(self, arguments: Arguments, ctx: ToolContext) -> bool:
            return threading.current_thread() is threading.main_thread()

    house.add(Asynchronous())
    house.add(Plain())
    assert (await house.value("asynchronous"), await house.value("plain")) == (True, False)


async def test_an_async_function_moved_aside_runs_on_a_thread(house: House) -> None:
    async def aside() -> bool:
        await asyncio.sleep(0)
        return threading.current_thread() is threading.main_thread()

    house.add(aside, thread=True)
    assert await house.value("aside") is False


async def test_the_context_says_what_the_call_may_touch(house: House) -> None:
    async def look(ctx: ToolContext) -> list[Json]:
        reference = await ctx.artifacts.keep(b"kept", owner=ctx.who.owner)
        return [ctx.call_id, ctx.who.owner, ctx.session, str(ctx.workspace), reference.size]

    house.add(look)
    workspace = str(house.engine.runner._workspace)
    assert await house.value("look", call_id="call-1") == ["call-1", "operator", "session-1", workspace, 4]


async def test_pending_is_handed_on(house: House) -> None:
    house.add(giving(Pending(5.0)))
    assert await house.call("give") == Pending(5.0)


async def test_agents_do_not_share_what_they_may_use(house: House) -> None:
    house.add(giving(1))
    assert (await house.failure("give", caller=house.caller(Agent("Nobody", tools=())))).code == "tool_not_available"
