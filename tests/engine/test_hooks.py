"""Hooks: a list and a loop (SPEC E7)."""

import asyncio
import threading
import time
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import pytest
from msgspec import structs

from handspan.core.errors import ToolError
from handspan.core.results import Failure, Success, ToolResult, succeed
from handspan.engine.hook_thread import HookThread
from handspan.engine.hooks import CancelCall, HookedCall, Hooks, ModifyCall, NamedHook
from handspan.engine.policy import ALLOW
from tests.engine.conftest import MakeKit
from tests.engine.engine_kit import EngineKit, outcome_of, soon
from tests.waiting import WAIT, until

pytestmark = pytest.mark.anyio

CALL = HookedCall("call-1", "tool", {"a": 1}, "owner", "session", "agent")


class Before:
    """A hook that answers before with what a function gives."""

    def __init__(self, verdict: Callable[[HookedCall], Any]) -> None:
        self.seen: list[HookedCall] = []
        self._verdict = verdict

    async def before(self, call: HookedCall) -> Any:
        self.seen.append(call)
        verdict = self._verdict(call)
        return await verdict if asyncio.iscoroutine(verdict) else verdict

    async def after(self, call: HookedCall, result: ToolResult) -> None:
        return None


class After(Before):
    """A hook that answers after with what a function gives."""

    def __init__(self, replaced: Callable[[ToolResult], Any]) -> None:
        super().__init__(lambda _: None)
        self.results: list[ToolResult] = []
        self._replaced = replaced

    async def after(self, call: HookedCall, result: ToolResult) -> Any:
        self.results.append(result)
        replaced = self._replaced(result)
        return await replaced if asyncio.iscoroutine(replaced) else replaced


def raising(error: BaseException) -> Callable[[Any], Any]:
    def crash(_: Any) -> None:
        raise error

    return crash


def hanging(_: Any) -> Any:
    return asyncio.Event().wait()


def swallowing(_: Any) -> Any:
    async def swallow() -> None:
        while True:
            try:
                await asyncio.sleep(0.001)
            except asyncio.CancelledError:
                continue

    return swallow()


def named(*hooks: Before, timeout: float = 5.0) -> Hooks:
    return Hooks(NamedHook(f"hook-{number}", hook, timeout) for number, hook in enumerate(hooks))


def kit_with(make_kit: MakeKit, *hooks: Before, timeout: float = 5.0) -> EngineKit:
    """A kit with these hooks and two tools: `add` and `shout`."""
    kit = make_kit(hooks=named(*hooks, timeout=timeout))

    async def add(a: int, b: int = 0) -> int:
        return a + b

    async def shout(text: str) -> str:
        return text.upper()

    kit.add(add)
    kit.add(shout)
    return kit


# Before.


class OwnEnd(BaseException):
    """What some libraries raise to get past `except Exception`."""


@pytest.mark.parametrize(
    "error",
    [
        LookupError("x"),
        SystemExit(1),
        KeyboardInterrupt(),
        GeneratorExit(),
        asyncio.CancelledError(),
        BaseExceptionGroup("g", [OwnEnd()]),
        OwnEnd(),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_a_before_hook_that_fails_refuses_the_call(error: BaseException) -> None:
    with pytest.raises(ToolError, match="The hook 'hook-0' gave no verdict") as caught:
        await named(Before(raising(error))).before(CALL, may_modify=True)
    assert caught.value.code == "hook_cancelled"


@pytest.mark.parametrize("hang", [hanging, swallowing])
async def test_a_before_hook_that_hangs_refuses_the_call(hang: Callable[[Any], Any]) -> None:
    with pytest.raises(ToolError) as caught:
        await named(Before(hang), timeout=0.01).before(CALL, may_modify=True)
    assert caught.value.message == (
        "The hook 'hook-0' gave no verdict (no answer within 0.01 s), so the call is refused."
    )


def blocking(_: Any) -> None:
    time.sleep(0.05)  # never yields, and then lets the call go on


async def blocking_later(_: Any) -> None:
    await asyncio.sleep(0)
    time.sleep(0.05)  # noqa: ASYNC251 - the loop is blocked on purpose


@pytest.mark.parametrize("block", [blocking, blocking_later])
async def test_a_before_hook_that_blocks_beyond_its_time_refuses_the_call(
    block: Callable[[Any], Any], make_kit: MakeKit, caplog: pytest.LogCaptureFixture
) -> None:
    kit = kit_with(make_kit, Before(block), timeout=0.01)
    failure = await kit.failure("add", {"a": 1, "b": 2})
    assert (failure.code, "no answer within 0.01 s" in failure.message) == ("hook_cancelled", True)
    assert "The hook 'hook-0' has blocked the event loop" in caplog.text


async def test_an_after_hook_that_blocks_beyond_its_time_fails() -> None:
    result = await named(After(blocking), timeout=0.01).after(CALL, succeed(1))
    assert isinstance(result, Failure) and "no answer within 0.01 s" in result.message


@pytest.mark.parametrize(
    "nonsense",
    [True, False, "no", CancelCall, ModifyCall("tool", [1]), ModifyCall(None, {})],  # type: ignore[arg-type]  # on purpose
)
async def test_an_answer_that_is_no_verdict_refuses_the_call(nonsense: object) -> None:
    with pytest.raises(ToolError, match=r"gave no verdict \(it answered "):
        await named(Before(lambda _: nonsense)).before(CALL, may_modify=True)


class Plain:
    """A hook of plain functions, which may block."""

    def __init__(self, verdict: Callable[[], Any] = lambda: None) -> None:
        self._verdict = verdict

    def before(self, call: HookedCall) -> Any:
        return self._verdict()

    def after(self, call: HookedCall, result: ToolResult) -> Any:
        return self._verdict()


async def test_a_hook_may_have_plain_functions_and_they_run_on_another_thread() -> None:
    seen: list[int] = []
    hooks = Hooks([NamedHook("plain", Plain(lambda: seen.append(threading.get_ident())))])
    assert await hooks.before(CALL, may_modify=True) == CALL
    assert await hooks.after(CALL, succeed(1)) == succeed(1)
    assert len(seen) == 2 and threading.get_ident() not in seen
    with pytest.raises(ToolError, match="Cancelled by hook 'plain': no"):
        await Hooks([NamedHook("plain", Plain(lambda: CancelCall("no")))]).before(CALL, may_modify=True)
    with pytest.raises(ToolError, match="gave no verdict"):
        await Hooks([NamedHook("plain", Plain(lambda: raising(KeyboardInterrupt())(1)))]).before(CALL, may_modify=True)


class Blocking:
    """A hook of a plugin that blocks without an `await`, until it is released."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.loops: list[asyncio.AbstractEventLoop] = []

    async def before(self, call: HookedCall) -> None:
        self.loops.append(asyncio.get_running_loop())
        assert call.name == "plain" or self.released.wait(WAIT)

    async def after(self, call: HookedCall, result: ToolResult) -> None:
        assert self.released.wait(WAIT)


async def ask_blocked(hooks: Hooks, call: HookedCall = CALL) -> None:
    with pytest.raises(ToolError, match=r"The hook '.*' gave no verdict \(no answer within 0.01 s\)"):
        await hooks.before(call, may_modify=True)


async def test_a_plain_hook_that_never_returns_refuses_and_the_loop_goes_on() -> None:
    blocking = Blocking()
    hooks = Hooks([NamedHook("plain", Plain(lambda: blocking.released.wait(WAIT)), 0.01)])
    try:
        await ask_blocked(hooks)
        after = await hooks.after(CALL, succeed(1))
        assert isinstance(after, Failure) and "did run" in after.message
    finally:
        blocking.released.set()
        hooks.close()


async def test_a_hook_of_a_plugin_that_never_returns_refuses_and_gets_another_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("handspan.engine.hook_thread._BLOCKED_SECONDS", 0.0)
    monkeypatch.setattr("handspan.engine.hook_thread._MOST_ABANDONED", 2)
    blocking, thread = Blocking(), HookThread()
    hooks = Hooks([NamedHook("plugin", blocking, 0.01, thread)])
    try:
        await ask_blocked(hooks)
        await ask_blocked(hooks)
        with pytest.raises(ToolError, match="2 earlier calls of it still block their threads"):
            await hooks.before(CALL, may_modify=True)
        assert len(set(blocking.loops)) == 2 and asyncio.get_running_loop() not in blocking.loops
    finally:
        blocking.released.set()
        hooks.close()
    await until(lambda: all(loop.is_closed() for loop in blocking.loops))


async def test_a_hook_of_a_plugin_keeps_its_event_loop_between_calls() -> None:
    blocking = Blocking()
    hooks = Hooks([NamedHook("plugin", blocking, WAIT, HookThread())])
    for _ in range(3):
        await hooks.before(structs.replace(CALL, name="plain"), may_modify=True)
    hooks.close()
    assert len(blocking.loops) == 3 and len(set(blocking.loops)) == 1
    await until(lambda: blocking.loops[0].is_closed())


@pytest.mark.parametrize("hang", [hanging, swallowing])
async def test_a_hanging_hook_of_a_plugin_is_stopped_in_its_own_loop(hang: Callable[[Any], Any]) -> None:
    hooks = Hooks([NamedHook("plugin", Before(hang), 0.01, HookThread())])
    try:
        await ask_blocked(hooks)
    finally:
        hooks.close()


async def test_the_first_cancel_ends_it_and_later_hooks_are_not_asked() -> None:
    later = Before(lambda _: None)
    with pytest.raises(ToolError) as caught:
        await named(Before(lambda _: CancelCall("too late in the day")), later).before(CALL, may_modify=True)
    assert (caught.value.code, caught.value.message) == (
        "hook_cancelled",
        "Cancelled by hook 'hook-0': too late in the day",
    )
    assert later.seen == []


async def test_each_hook_sees_what_those_before_it_made_of_the_call() -> None:
    later = Before(lambda _: None)
    changed = await named(Before(lambda _: ModifyCall("other", MappingProxyType({"b": 2}))), later).before(
        CALL, may_modify=True
    )
    assert (changed.name, changed.arguments, changed.id) == ("other", {"b": 2}, "call-1")
    assert later.seen == [changed]


async def test_a_call_that_was_changed_once_may_be_cancelled_and_not_changed_again() -> None:
    assert await named(Before(lambda _: ModifyCall("other", {}))).before(CALL, may_modify=False) is CALL
    with pytest.raises(ToolError):
        await named(Before(lambda _: CancelCall("no"))).before(CALL, may_modify=False)


async def test_without_a_verdict_the_call_goes_on_as_it_was() -> None:
    assert await named(Before(lambda _: None)).before(CALL, may_modify=True) is CALL
    assert not Hooks()
    assert named(Before(lambda _: None))


# After.


@pytest.mark.parametrize(
    "error",
    [LookupError("x"), SystemExit(1), KeyboardInterrupt(), GeneratorExit(), OwnEnd()],
    ids=lambda error: type(error).__name__,
)
async def test_a_failing_after_hook_says_that_the_tool_did_run(error: BaseException) -> None:
    result = await named(After(raising(error))).after(CALL, succeed(1))
    assert isinstance(result, Failure)
    assert result.code == "internal_error"
    assert result.message.startswith("Tool 'tool' did run, but the hook 'hook-0' failed afterwards (")
    assert result.message.endswith("Do not repeat the call: the journal has its true result.")


@pytest.mark.parametrize("hang", [hanging, swallowing])
async def test_a_hanging_after_hook_says_that_the_tool_did_run(hang: Callable[[Any], Any]) -> None:
    result = await named(After(hang), timeout=0.01).after(CALL, succeed(1))
    assert isinstance(result, Failure) and "did run" in result.message and "within 0.01 s" in result.message


async def test_an_answer_that_is_no_result_is_a_failing_after_hook() -> None:
    result = await named(After(lambda _: "fine")).after(CALL, succeed(1))
    assert isinstance(result, Failure) and "failed afterwards (it answered 'fine')" in result.message


async def test_after_hooks_see_and_replace_one_anothers_results() -> None:
    first, second = After(lambda _: Success("first")), After(lambda _: None)
    assert await named(first, second).after(CALL, succeed(1)) == Success("first")
    assert second.results == [Success("first")]


# In the engine.


async def test_a_changed_call_starts_again_at_find_and_hooks_see_it_once_more(make_kit: MakeKit) -> None:
    hook = Before(lambda call: ModifyCall("shout", {"text": "hi"}) if call.name == "add" else None)
    kit = kit_with(make_kit, hook)
    assert await kit.value("add", {"a": 1}) == "HI"
    assert [(call.name, call.arguments) for call in hook.seen] == [("add", {"a": 1}), ("shout", {"text": "hi"})]
    record = kit.last()
    assert (record.name, record.arguments, record.owner, record.agent) == (
        "shout",
        {"text": "hi"},
        "operator",
        "General",
    )


async def test_a_hook_that_changes_every_call_changes_it_once(make_kit: MakeKit) -> None:
    def prefix(call: HookedCall) -> ModifyCall:
        return ModifyCall(call.name, {"text": f"/home/{call.arguments['text']}"})

    assert await kit_with(make_kit, Before(prefix)).value("shout", {"text": "x"}) == "/HOME/X"


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        (ModifyCall("gone", {}), "tool_not_found"),
        (ModifyCall("add", {"a": "text"}), "invalid_arguments"),
        (ModifyCall("add", {}), "invalid_arguments"),
    ],
)
async def test_what_a_hook_changed_is_checked_like_anything_else(
    make_kit: MakeKit, changed: ModifyCall, code: str
) -> None:
    kit = kit_with(make_kit, Before(lambda _: changed))
    assert (await kit.failure("add", {"a": 1})).code == code
    assert len(kit.journal()) == 1


async def test_a_hook_may_cancel_what_another_one_changed(make_kit: MakeKit) -> None:
    guard = Before(lambda call: CancelCall("no shouting") if call.name == "shout" else None)
    kit = kit_with(make_kit, guard, Before(lambda _: ModifyCall("shout", {"text": "hi"})))
    failure = await kit.failure("add", {"a": 1})
    assert failure == Failure("hook_cancelled", "Cancelled by hook 'hook-0': no shouting")


async def test_a_replaced_result_goes_out_and_the_journal_keeps_the_true_one(make_kit: MakeKit) -> None:
    kit = kit_with(make_kit, After(lambda _: Success({"hidden": True})))
    assert await kit.value("add", {"a": 1}) == {"hidden": True}
    record = kit.last()
    assert isinstance(record.result, Success) and record.result.value == {"hidden": True}
    assert record.result.encoded == b'{"status":"success","result":{"hidden":true}}'
    assert isinstance(record.true_result, Success) and record.true_result.value == 1
    assert record.size == len(record.result.encoded) + len(record.true_result.encoded)


async def test_a_failing_after_hook_leaves_the_true_result_in_the_journal(make_kit: MakeKit) -> None:
    kit = kit_with(make_kit, After(raising(LookupError("x"))))
    assert (await kit.failure("add", {"a": 1})).code == "internal_error"
    record = kit.last()
    assert isinstance(record.true_result, Success) and record.true_result.value == 1


async def test_a_replacement_that_can_not_be_written_as_json_is_a_failure(make_kit: MakeKit) -> None:
    value: Any = object()
    kit = kit_with(make_kit, After(lambda _: Success(value)))
    assert "can't be written as JSON" in (await kit.failure("add", {"a": 1})).message


async def test_after_hooks_see_failures_of_tools_and_not_refusals(make_kit: MakeKit) -> None:
    hook = After(lambda _: None)
    kit = kit_with(make_kit, hook)

    async def crash() -> None:
        raise LookupError("x")

    kit.add(crash)
    await kit.failure("crash")
    await kit.failure("nothing")
    await kit.failure("add", {"a": "text"})
    assert [type(result) for result in hook.results] == [Failure]


async def test_hooks_see_calls_of_every_origin_and_who_makes_them(make_kit: MakeKit) -> None:
    hook = Before(lambda _: None)
    kit = kit_with(make_kit, hook)
    await kit.value("add", b'{"a": 3}', call_id="call-7", caller=kit.caller(session="s-9"))
    assert hook.seen == [HookedCall("call-7", "add", {"a": 3}, "operator", "s-9", "General")]


async def test_cancelled_in_a_before_hook_the_call_has_its_result(make_kit: MakeKit) -> None:
    begun = asyncio.Event()

    async def wait() -> None:
        begun.set()
        await asyncio.Event().wait()

    kit = kit_with(make_kit, Before(lambda _: wait()))
    task = kit.start("add", {"a": 1})
    await soon(begun)
    task.cancel()
    assert isinstance((await outcome_of([task]))[0], asyncio.CancelledError)
    assert kit.last().result == Failure("cancelled", "The call of 'add' was cancelled.")


async def test_cancelled_in_an_after_hook_the_call_has_its_result_and_the_journal_the_true_one(
    make_kit: MakeKit,
) -> None:
    begun = asyncio.Event()

    async def wait() -> None:
        begun.set()
        await asyncio.Event().wait()

    kit = kit_with(make_kit, After(lambda _: wait()))
    task = kit.start("add", {"a": 1})
    await soon(begun)
    task.cancel()
    assert isinstance((await outcome_of([task]))[0], asyncio.CancelledError)
    record = kit.last()
    assert record.result == Failure("cancelled", "The call of 'add' was cancelled after the tool had run.")
    assert isinstance(record.true_result, Success) and record.true_result.value == 1
    assert list(kit.ledger.open_calls()) == []


async def test_cancelled_twice_first_in_the_tool_then_in_an_after_hook_the_call_has_one_result(
    make_kit: MakeKit,
) -> None:
    running, hooked = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        hooked.set()
        await asyncio.Event().wait()

    kit = kit_with(make_kit, After(lambda _: wait()))

    async def slow() -> None:
        running.set()
        await asyncio.Event().wait()

    kit.add(slow)
    task = kit.start("slow")
    await soon(running)
    task.cancel()
    await soon(hooked)
    task.cancel()
    assert isinstance((await outcome_of([task]))[0], asyncio.CancelledError)
    assert kit.last().result == Failure("cancelled", "The call of 'slow' was cancelled.")


async def test_policy_sees_the_call_as_the_hooks_left_it(make_kit: MakeKit) -> None:
    seen: list[Any] = []

    class Watching:
        def decide(self, spec: Any, call: Any, who: Any) -> Any:
            seen.append((call.name, call.arguments))
            return ALLOW

    hook = Before(lambda call: ModifyCall("shout", {"text": "hi"}) if call.name == "add" else None)
    kit = make_kit(hooks=named(hook), policy=Watching())

    async def add(a: int) -> int:
        return a

    async def shout(text: str) -> str:
        return text

    kit.add(add)
    kit.add(shout)
    await kit.value("add", b'{"a": 1}')
    assert seen == [("shout", {"text": "hi"})]


def add_slow_tool(kit: EngineKit) -> tuple[asyncio.Event, asyncio.Event]:
    """Add the tool `slow`. Set: the first event when it has begun; the second by the test, to let it end."""
    began, may_end = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        began.set()
        await may_end.wait()
        return "done"

    kit.add(slow)
    return began, may_end


async def test_a_call_that_runs_while_hooks_are_replaced_is_finished_by_the_hooks_that_saw_its_begin(
    make_kit: MakeKit,
) -> None:
    first, second = After(lambda _: succeed("first")), After(lambda _: succeed("second"))
    kit = kit_with(make_kit, first)
    began, may_end = add_slow_tool(kit)
    calling = asyncio.create_task(kit.call("slow"))
    await soon(began)
    kit.engine.use_hooks(named(second))
    again = asyncio.create_task(kit.call("slow"))
    await until(lambda: second.seen)
    kit.engine.use_hooks(None)
    may_end.set()
    assert await calling == succeed("first") and await again == succeed("second")
    assert [len(hook.seen) for hook in (first, second)] == [len(hook.results) for hook in (first, second)] == [1, 1]


async def test_a_call_that_began_without_hooks_ends_without_them(make_kit: MakeKit) -> None:
    later, kit = After(lambda _: succeed("replaced")), make_kit()
    began, may_end = add_slow_tool(kit)
    calling = asyncio.create_task(kit.call("slow"))
    await soon(began)
    kit.engine.use_hooks(named(later))
    may_end.set()
    assert await calling == succeed("done") and not later.results
