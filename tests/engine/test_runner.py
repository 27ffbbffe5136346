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
from handspan.core.function_tool import tool
from handspan.core.principals import Origin
from handspan.core.results import Attachment, Failure, Pending, Success, encode_envelope
from handspan.core.tool import Annotations, Tool, ToolSpec
from handspan.core.values import Arguments, Json
from handspan.engine.concurrency import SlotsByOrigin
from handspan.registry.registry import Registry, RegistryRules
from tests.engine.conftest import MakeKit
from tests.engine.engine_kit import EngineKit, outcome_of, soon
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
    kit: EngineKit, place: Callable[[BaseException], Any], error: BaseException, said: str
) -> None:
    kit.add(place(error))
    failure = await kit.failure("crash")
    assert failure.code == "execution_failed"
    assert failure.message.startswith(f"Tool 'crash' failed: {said}")
    assert encode_envelope(failure)
    assert kit.last().result == failure


@pytest.mark.parametrize("place", [raising, raising_later, raising_aside])
async def test_an_error_of_our_own_keeps_its_code(kit: EngineKit, place: Callable[[BaseException], Any]) -> None:
    kit.add(place(ToolError("network_error", "Connection refused")))
    assert await kit.failure("crash") == Failure("network_error", "Connection refused")


async def test_a_code_that_somebody_made_up_does_not_break_the_answer(kit: EngineKit) -> None:
    kit.add(raising(ToolError("my_own", "no")))  # type: ignore[arg-type]  # on purpose
    failure = await kit.failure("crash")
    assert failure == Failure("execution_failed", "no")
    assert encode_envelope(failure)


@pytest.mark.parametrize("place", [raising, raising_later])
async def test_a_tool_that_cancels_itself_is_a_failed_call_and_no_cancellation(
    kit: EngineKit, place: Callable[[BaseException], Any]
) -> None:
    kit.add(place(asyncio.CancelledError()))
    assert await kit.failure("crash") == Failure("cancelled", "Tool 'crash' cancelled itself.")


async def test_recursion_without_end_is_a_failure(kit: EngineKit) -> None:
    async def deeper() -> Any:
        def down() -> Any:
            return down()

        return down()

    kit.add(deeper)
    assert "RecursionError" in (await kit.failure("deeper")).message


async def test_ctrl_c_is_not_the_tools_and_passes(kit: EngineKit) -> None:
    with pytest.raises(KeyboardInterrupt):
        coroutine = kit.engine.call(_call("crash"), kit.caller())
        kit.add(raising(KeyboardInterrupt()))
        coroutine.send(None)
    assert not kit.engine.watchdog._is_busy()


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
async def test_what_can_not_be_written_as_json_is_a_failure_that_says_the_tool_ran(kit: EngineKit, value: Any) -> None:
    kit.add(giving(value))
    failure = await kit.failure("give")
    assert failure.code == "execution_failed"
    assert failure.message.startswith("The tool ran, but its result can't be written as JSON: ")


async def test_a_value_that_holds_itself_is_a_failure(kit: EngineKit) -> None:
    value: list[Any] = []
    value.append(value)
    kit.add(giving(value))
    assert (await kit.failure("give")).code == "execution_failed"


async def test_a_value_whose_own_dump_fails_is_a_failure(kit: EngineKit) -> None:
    class Broken:
        def model_dump(self, mode: str) -> Json:
            raise KeyError("field")

    kit.add(giving(Broken()))
    assert "KeyError: 'field'" in (await kit.failure("give")).message


async def test_half_of_a_character_is_replaced(kit: EngineKit) -> None:
    kit.add(giving({"text": "caf\udce9"}))
    value = await kit.value("give")
    assert isinstance(value, dict)
    text = str(value["text"])
    assert text.startswith("caf") and len(text) > 3 and text.encode()


async def test_attachments_come_with_the_value_or_alone(kit: EngineKit) -> None:
    picture = Attachment("image", "image/png", b"\x89PNG", name="a.png")
    for function, value in ((giving(Success("look", (picture,))), "look"), (giving(picture), None)):
        kit.registry.unregister("give")
        kit.add(function)
        result = await kit.call("give")
        assert isinstance(result, Success)
        assert (result.value, result.attachments) == (value, (picture,))
        assert b'"attachments":[{"kind":"image","media_type":"image/png","name":"a.png","bytes":4}]' in result.encoded


async def test_a_failure_may_be_returned_too(kit: EngineKit) -> None:
    kit.add(giving(Failure("rate_limited", "later")))
    assert await kit.failure("give") == Failure("rate_limited", "later")


# Deadlines.


async def test_the_error_says_which_clock_fired_and_after_how_long(make_kit: MakeKit) -> None:
    kit = make_kit(rules=RegistryRules(timeouts={"configured": 0.03, "glob_*": 0.03, "glob_free": None}))

    async def hang() -> None:
        await asyncio.Event().wait()

    for name in ("own", "configured", "glob_x", "glob_free"):
        kit.add(hang, name=name, timeout=0.02)
    assert await kit.failure("own") == Failure(
        "timeout", "Tool 'own' timed out after 0.02 s (the tool's own limit) and was stopped."
    )
    assert "after 0.03 s (the setting tools.timeouts.configured)" in (await kit.failure("configured")).message
    assert "after 0.03 s (the setting tools.timeouts.glob_*)" in (await kit.failure("glob_x")).message
    soon_over = Deadline(time.monotonic() + 0.01, "the caller's deadline")
    assert "(the caller's deadline)" in (await kit.failure("own", deadline=soon_over)).message
    soon_over = Deadline(time.monotonic() + 0.01, "the caller's deadline")
    assert "(the caller's deadline)" in (await kit.failure("glob_free", deadline=soon_over)).message
    much_later = Deadline(time.monotonic() + 60, "the caller's deadline")
    assert "(the tool's own limit)" in (await kit.failure("own", deadline=much_later)).message


async def test_a_tool_without_any_limit_has_no_deadline(kit: EngineKit) -> None:
    async def free(ctx: ToolContext) -> bool:
        await asyncio.sleep(0.001)
        return ctx.deadline is None

    kit.add(free, timeout=None)
    assert await kit.value("free") is True


async def test_a_call_whose_deadline_has_passed_does_not_touch_the_tool(kit: EngineKit) -> None:
    ran: list[str] = []

    async def touch() -> None:
        ran.append("touched")

    kit.add(touch)
    failure = await kit.failure("touch", deadline=Deadline(time.monotonic() - 1, "the caller's deadline"))
    assert failure == Failure(
        "timeout", "Tool 'touch' was not run: the time was over before it could begin (the caller's deadline)."
    )
    assert ran == []


async def test_the_time_that_the_first_step_takes_counts(kit: EngineKit) -> None:
    async def blocking() -> str:
        time.sleep(0.06)  # noqa: ASYNC251 - on purpose: a first step that blocks until the deadline has passed
        await asyncio.sleep(0.02)  # less than the limit, if that began only now
        return "too late"

    kit.add(blocking, timeout=0.05)
    assert (await kit.failure("blocking")).code == "timeout"


async def test_a_tool_that_does_not_end_in_its_grace_time_is_said_to_be_at_work_still(kit: EngineKit) -> None:
    async def stubborn() -> None:
        while True:
            try:
                await asyncio.sleep(0.001)
            except asyncio.CancelledError:
                continue

    kit.add(stubborn, timeout=0.01)
    failure = await kit.failure("stubborn")
    assert failure.message.endswith("and was stopped, but it did not end in time: part of it may still be at work.")
    assert kit.engine.runner.reaper.reaped == 1


async def test_a_plain_function_that_takes_too_long_is_left_to_its_thread_and_counted(kit: EngineKit) -> None:
    release = threading.Event()

    def slow() -> None:
        release.wait(WAIT)

    kit.add(slow, timeout=0.02)
    failure = await kit.failure("slow")
    assert failure.message == (
        "Tool 'slow' timed out after 0.02 s (the tool's own limit). "
        "Its thread can't be stopped, and may still be at work."
    )
    assert kit.engine.runner.threads.abandoned == 1
    release.set()
    await until(lambda: kit.engine.runner.threads.abandoned == 0)


async def test_the_tool_is_told_its_deadline(kit: EngineKit) -> None:
    async def look(ctx: ToolContext) -> list[Any]:
        assert ctx.deadline is not None
        return [ctx.deadline.whose, ctx.deadline.at - time.monotonic() < 30]

    kit.add(look)
    assert await kit.value("look") == ["the default limit of tools", True]


# Nested calls.


async def test_a_tool_may_call_the_engine(kit: EngineKit) -> None:
    async def inner(number: int) -> int:
        await asyncio.sleep(0)
        return number + 1

    async def outer(number: int) -> Any:
        return await kit.value("inner", {"number": number})

    kit.add(inner)
    kit.add(outer)
    assert await kit.value("outer", {"number": 1}) == 2
    assert [record.name for record in kit.journal()] == ["inner", "outer"]


async def test_the_deadline_of_an_outer_call_cancels_the_inner_one_and_both_have_their_result(kit: EngineKit) -> None:
    went_on: list[str] = []

    async def inner() -> None:
        await asyncio.Event().wait()

    async def outer() -> None:
        await kit.engine.call(_call("inner"), kit.caller())
        went_on.append("outer")

    kit.add(inner)
    kit.add(outer, timeout=0.02)
    failure = await kit.failure("outer")
    assert failure.message == "Tool 'outer' timed out after 0.02 s (the tool's own limit) and was stopped."
    assert went_on == []
    assert [(record.name, record.result.code) for record in kit.journal() if isinstance(record.result, Failure)] == [
        ("inner", "cancelled"),
        ("outer", "timeout"),
    ]


async def test_the_deadline_of_an_inner_call_is_a_result_for_the_outer_one(kit: EngineKit) -> None:
    async def inner() -> None:
        await asyncio.Event().wait()

    async def outer() -> str:
        return (await kit.failure("inner")).code

    kit.add(inner, timeout=0.02)
    kit.add(outer)
    assert await kit.value("outer") == "timeout"


async def test_when_an_outer_call_is_reaped_the_inner_one_still_has_its_result(kit: EngineKit) -> None:
    async def inner() -> None:
        while True:
            try:
                await asyncio.sleep(0.001)
            except asyncio.CancelledError:
                continue

    async def outer() -> None:
        await kit.engine.call(_call("inner"), kit.caller())

    kit.add(inner)
    kit.add(outer, timeout=0.02)
    assert "still be at work" in (await kit.failure("outer")).message
    assert list(kit.ledger.open_calls()) == []
    assert sorted(record.name for record in kit.journal()) == ["inner", "outer"]


# Cancelled.


async def test_a_cancelled_call_has_its_result_after_the_tools_cleanup(
    kit: EngineKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handspan.engine.runner.GRACE", WAIT)  # on a busy machine the pause below may take seconds
    begun, closed = asyncio.Event(), list[str]()

    async def slow() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.001)
            closed.append("closed")

    kit.add(slow)
    task = kit.start("slow")
    await soon(begun)
    task.cancel()
    assert isinstance((await outcome_of([task]))[0], asyncio.CancelledError)
    assert closed == ["closed"]
    assert kit.last().result == Failure("cancelled", "The call of 'slow' was cancelled.")
    assert list(kit.ledger.open_calls()) == []


async def test_cancelled_while_it_waits_for_its_turn_the_call_has_its_result(kit: EngineKit) -> None:
    release = asyncio.Event()

    async def one_by_one() -> None:
        await release.wait()

    kit.add(one_by_one, annotations=SERIAL)
    first, second = kit.start("one_by_one"), kit.start("one_by_one")
    await until(lambda: len(list(kit.ledger.open_calls())) == 2)
    second.cancel()
    assert isinstance((await outcome_of([second]))[0], asyncio.CancelledError)
    assert [record.result for record in kit.journal()] == [
        Failure("cancelled", "The call of 'one_by_one' was cancelled.")
    ]
    release.set()
    assert isinstance((await outcome_of([first]))[0], Success)


# Turns.


async def test_serial_tools_run_one_after_another_in_the_order_of_the_calls(kit: EngineKit) -> None:
    running, order = 0, list[int]()

    async def one_by_one(number: int) -> int:
        nonlocal running
        running += 1
        assert running == 1
        order.append(number)
        await asyncio.sleep(0.001 * (5 - number))
        running -= 1
        return number

    kit.add(one_by_one, annotations=SERIAL)
    tasks = [kit.start("one_by_one", {"number": number}) for number in range(5)]
    assert [result.value for result in await outcome_of(tasks)] == order == [0, 1, 2, 3, 4]


DEVICE = Origin("device", "phone", "connection-1")


def _exchange(registry: Registry, again: Tool) -> None:
    """What the tools folder does with a file that was read again."""
    registry.unregister(again.spec.name)
    registry.register(again, DEVICE)


@pytest.mark.parametrize(
    "register",
    [
        lambda registry, again: registry.register_or_replace(again, DEVICE),
        lambda registry, again: registry.replace(DEVICE, [again]),
        _exchange,
    ],
    ids=["register_or_replace", "replace", "exchange"],
)
@pytest.mark.parametrize("description", ["Take a picture.", "Take a better picture."])
async def test_a_serial_tool_that_is_registered_again_waits_for_the_call_that_runs(
    kit: EngineKit, register: Callable[[Registry, Tool], None], description: str
) -> None:
    begun, release = asyncio.Queue[None](), asyncio.Event()

    async def shot() -> None:
        begun.put_nowait(None)
        await release.wait()

    def make(description: str) -> Tool:
        return tool(name="phone_shot", description=description, annotations=SERIAL)(shot)

    async def beside() -> None: ...

    kit.add(beside)
    kit.registry.register(make("Take a picture."), DEVICE)
    first = kit.start("phone_shot")
    async with asyncio.timeout(WAIT):
        await begun.get()
    register(kit.registry, make(description))
    second = kit.start("phone_shot")
    await kit.start("beside")  # it begins after the second call, which has come as far as it can by now
    assert begun.empty()
    release.set()
    await outcome_of([first, second])
    assert begun.qsize() == 1


async def test_a_call_waits_for_its_turn_longer_than_its_tool_may_run(make_kit: MakeKit) -> None:
    kit = make_kit(slots=SlotsByOrigin({"builtin": 1}))
    holding, release = asyncio.Event(), asyncio.Event()

    async def hold() -> str:
        holding.set()
        await release.wait()
        return "held"

    async def quick() -> str:
        return "quick"

    kit.add(hold)
    kit.add(quick, timeout=0.01)
    tasks = [kit.start("hold"), *(kit.start("quick") for _ in range(3))]
    await asyncio.wait_for(holding.wait(), WAIT)
    assert not (await asyncio.wait(tasks[1:], timeout=0.05))[0], "E3: a full origin makes calls wait, and refuses none"
    release.set()
    assert [result.value for result in await outcome_of(tasks)] == ["held", "quick", "quick", "quick"]


@pytest.mark.parametrize("timeout", [None, 60.0])
async def test_nobody_waits_for_a_turn_beyond_the_callers_deadline(make_kit: MakeKit, timeout: float | None) -> None:
    kit = make_kit(slots=SlotsByOrigin({"builtin": 1}))
    release = asyncio.Event()

    async def hold() -> None:
        await release.wait()

    kit.add(hold, timeout=timeout)
    task = kit.start("hold")
    await until(lambda: list(kit.ledger.open_calls()))
    failure = await kit.failure("hold", deadline=Deadline(time.monotonic() + 0.02, "the caller's deadline"))
    assert failure.code == "busy"
    release.set()
    await outcome_of([task])


async def test_the_time_a_call_waits_for_its_turn_does_not_count_against_the_tools_limit(kit: EngineKit) -> None:
    async def half(number: int) -> int:
        await asyncio.sleep(0.4)
        return number

    kit.add(half, annotations=SERIAL, timeout=0.7)
    tasks = [kit.start("half", {"number": number}) for number in range(2)]
    assert [result.value for result in await outcome_of(tasks)] == [0, 1]


# Progress, context, places.


async def test_progress_reaches_the_caller_from_loop_and_thread(kit: EngineKit) -> None:
    async def on_the_loop(ctx: ToolContext) -> None:
        ctx.progress({"step": 1})
        await asyncio.sleep(0)
        ctx.progress({"step": 2})

    def on_a_thread(ctx: ToolContext) -> None:
        ctx.progress("from a thread")

    kit.add(on_the_loop)
    kit.add(on_a_thread)
    seen: list[tuple[Json, int]] = []

    def note(said: Json) -> None:
        seen.append((said, threading.get_ident()))

    for name in ("on_the_loop", "on_a_thread"):
        await kit.value(name, caller=kit.caller(progress=note))
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
        kit = EngineKit(tmp_path)
        kit.add(late)
        task = kit.start("late")
        await until(begun.is_set)
        task.cancel()
        await outcome_of([task])
        await kit.engine.close()

    asyncio.run(give_up())
    release.set()
    assert ended.wait(WAIT)


async def test_a_tool_that_is_a_class_runs_where_its_run_says(kit: EngineKit) -> None:
    class Asynchronous:
        spec = ToolSpec("asynchronous", "On the loop.", {"type": "object"})

        async def run(self, arguments: Arguments, ctx: ToolContext) -> bool:
            return threading.current_thread() is threading.main_thread()

    class Plain:
        spec = ToolSpec("plain", "On a thread.", {"type": "object"})

        def run(self, arguments: Arguments, ctx: ToolContext) -> bool:
            return threading.current_thread() is threading.main_thread()

    kit.add(Asynchronous())
    kit.add(Plain())
    assert (await kit.value("asynchronous"), await kit.value("plain")) == (True, False)


async def test_an_async_function_moved_aside_runs_on_a_thread(kit: EngineKit) -> None:
    async def aside() -> bool:
        await asyncio.sleep(0)
        return threading.current_thread() is threading.main_thread()

    kit.add(aside, thread=True)
    assert await kit.value("aside") is False


async def test_the_context_says_what_the_call_may_touch(kit: EngineKit) -> None:
    async def look(ctx: ToolContext) -> list[Json]:
        reference = await ctx.artifacts.keep(b"kept", owner=ctx.who.owner)
        return [ctx.call_id, ctx.who.owner, ctx.session, str(ctx.workspace), reference.size]

    kit.add(look)
    workspace = str(kit.engine.runner._workspace)
    assert await kit.value("look", call_id="call-1") == ["call-1", "operator", "session-1", workspace, 4]


async def test_pending_is_handed_on(kit: EngineKit) -> None:
    kit.add(giving(Pending(5.0)))
    assert await kit.call("give") == Pending(5.0)


async def test_agents_do_not_share_what_they_may_use(kit: EngineKit) -> None:
    kit.add(giving(1))
    assert (await kit.failure("give", caller=kit.caller(Agent("Nobody", tools=())))).code == "tool_not_available"
