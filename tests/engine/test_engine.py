"""The way of one call (SPEC E1, E2, E3, E8)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from handspan.core.agents import Agent
from handspan.core.artifacts import ArtifactRef
from handspan.core.calls import CallRecord, ToolCall, new_call_id
from handspan.core.context import ToolContext
from handspan.core.principals import BUILTIN, Origin
from handspan.core.questions import Answer
from handspan.core.results import Failure, Success, ToolResult
from handspan.core.tool import READ_ONLY
from handspan.engine.concurrency import SlotsByOrigin
from handspan.engine.engine import Engine
from handspan.engine.hooks import HookedCall, Hooks, NamedHook
from handspan.engine.questions import RuleAnswers
from handspan.engine.runner import Started
from handspan.store.artifacts import FolderArtifacts
from tests.engine.conftest import MakeKit
from tests.engine.engine_kit import EngineKit, call_all, outcome_of, soon
from tests.memory_ledger import MemoryLedger
from tests.waiting import WAIT, until

pytestmark = pytest.mark.anyio


async def add(a: int, b: int = 0) -> int:
    """Add two numbers."""
    return a + b


# Find, available, enabled.


async def test_an_unknown_tool_is_refused_with_the_nearest_name(kit: EngineKit) -> None:
    kit.add(add, name="add_numbers")
    failure = await kit.failure("add_number")
    assert failure == Failure(
        "tool_not_found",
        "Tool 'add_number' is not available: there is no such tool. Did you mean 'add_numbers'?",
    )
    record = kit.last()
    assert (record.name, record.tool.origin, record.state) == ("add_number", None, "done")


async def test_a_tool_that_the_agent_may_not_use_is_refused(kit: EngineKit) -> None:
    kit.add(add)
    failure = await kit.failure("add", caller=kit.caller(Agent("Clerk", deny=("a*",))))
    assert failure == Failure("tool_not_available", "Tool 'add' is not available to the agent 'Clerk'.")


async def test_a_tool_that_is_switched_off_is_refused(kit: EngineKit) -> None:
    kit.add(add)
    kit.registry.disable("origin:builtin")
    failure = await kit.failure("add")
    assert failure.code == "tool_disabled"
    assert "Tool 'add' is not available" in failure.message and "'origin:builtin'" in failure.message


async def test_a_tool_that_was_removed_is_refused_from_then_on(kit: EngineKit) -> None:
    phone = Origin("device", "phone", "1")
    kit.add(add, phone)
    caller = kit.caller()
    assert await kit.value("add", {"a": 1}, caller=caller) == 1
    kit.registry.unregister_by_source(phone)
    assert (await kit.failure("add", {"a": 1}, caller=caller)).code == "tool_not_found"


# Arguments.


@pytest.mark.parametrize("nothing", [b"", "", b"{}", "{}", {}])
async def test_no_arguments_are_an_empty_object(kit: EngineKit, nothing: Any) -> None:
    async def ping() -> str:
        return "pong"

    kit.add(ping)
    assert await kit.value("ping", nothing) == "pong"


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b'{"a": 1', "Not JSON"),
        (b"\xff\xfe", "Not UTF-8"),
        ('{"a": 1} x', "Not JSON"),
        (b"[1, 2]", "must be a JSON object"),
        (b"1", "must be a JSON object"),
        (b"null", "must be a JSON object"),
        (b'{"a": NaN}', "NaN is no JSON number"),
        (b'{"a": 1e999}', "too large"),
        (b'{"a": 1, "a": 2}', "the key 'a' stands twice"),
        (b'{"a": ' + b"[" * 1000 + b"]" * 1000 + b"}", "nested more than 64 levels deep"),
        (b"[" * 100_000, "Not acceptable JSON"),
        (None, "must be a JSON object"),
        ([1], "must be a JSON object"),
        (b'{"a": "text"}', "parameter 'a' must be of type integer, not string 'text'"),
        (b'{"b": 1}', "missing required parameter 'a'"),
        (b'{"a": 1, "c": 1}', "unknown parameter 'c'"),
        (b'{"a": 1.5}', "must be of type integer"),
        ({"a": float("nan")}, "'a'"),
        ({"a": object()}, "can't be read"),
        (b'{"a": 1]', "(character 7)."),
    ],
)
async def test_arguments_that_do_not_fit_are_refused_with_what_is_wrong(kit: EngineKit, raw: Any, said: str) -> None:
    kit.add(add)
    failure = await kit.failure("add", raw)
    assert failure.code == "invalid_arguments"
    assert said in failure.message and not failure.message.endswith("..")
    assert kit.last().result == failure


async def test_the_journal_shows_the_arguments_that_were_read(kit: EngineKit) -> None:
    kit.add(add)
    assert await kit.value("add", b'{"a": "10", "b": null}') == await kit.value("add", {"a": 10})
    assert kit.last().arguments == {"a": 10}
    assert next(iter(kit.journal())).arguments == {"a": 10}


async def test_arguments_nested_deeper_than_any_stack_are_refused(kit: EngineKit) -> None:
    kit.add(add)
    deep: Any = 1
    for _ in range(5_000):
        deep = [deep]
    assert (await kit.failure("add", {"a": deep})).code == "invalid_arguments"
    while isinstance(deep, list):  # taken apart by hand: collecting it would go just as deep
        deep = deep.pop()


async def test_ten_megabytes_of_arguments_work_and_the_journal_keeps_little_of_refused_ones(kit: EngineKit) -> None:
    async def count(text: str) -> int:
        return len(text)

    kit.add(count)
    size = 10 * 1024 * 1024
    raw = b'{"text": "' + b"x" * size + b'"}'
    assert await kit.value("count", raw) == size
    await kit.failure("count", raw[:-1])
    kept = kit.last().arguments
    assert isinstance(kept, bytes) and len(kept) == 4096


# Policy and other people's code.


async def test_a_read_only_agent_may_not_change_things(kit: EngineKit) -> None:
    kit.add(add)
    kit.add(add, name="look", annotations=READ_ONLY)
    caller = kit.caller(Agent("Reader", mode="read_only"))
    assert await kit.failure("add", {"a": 1}, caller=caller) == Failure(
        "policy_denied", "Tool 'add' is not available: it may change things, and the agent 'Reader' is read-only."
    )
    assert kit.last().tool.origin == Origin("builtin"), "the journal says where the refused tool is"
    assert [spec.name for spec in caller.box.specs()] == ["look"]  # R4: what can't be called is not shown
    assert await kit.value("look", {"a": 1}, caller=caller) == 1


async def test_a_policy_that_fails_refuses_the_call(make_kit: MakeKit) -> None:
    class Broken:
        def decide(self, spec: Any, call: Any, who: Any) -> Any:
            raise ZeroDivisionError("rule")

    kit = make_kit(policy=Broken())
    kit.add(add)
    failure = await kit.failure("add", {"a": 1})
    assert failure == Failure("internal_error", "Tool 'add' was not run: ZeroDivisionError: rule")
    assert kit.last().result == failure


# The journal.


async def test_the_journal_keeps_who_what_when_and_how_it_ended(kit: EngineKit) -> None:
    kit.add(add, Origin("plugin", "maths"), version="1.2.3", annotations=READ_ONLY)
    await kit.value("add", b'{"a": 1}', call_id="call-1", caller=kit.caller(session="s-1"))
    record = kit.last()
    assert (record.id, record.name, record.arguments) == ("call-1", "add", {"a": 1})
    assert (record.owner, record.session, record.agent) == ("operator", "s-1", "General")
    assert (record.tool.origin, record.tool.version, record.tool.read_only) == (
        Origin("plugin", "maths"),
        "1.2.3",
        True,
    )
    assert record.at > 0 and record.duration > 0
    assert isinstance(record.result, Success) and record.result.value == 1
    assert record.true_result is UNSET
    assert record.size == len(b'{"a": 1}') + len(record.result.encoded)


# Ids.


async def test_an_id_can_not_be_used_again_and_the_first_call_goes_on(kit: EngineKit) -> None:
    release = asyncio.Event()

    async def slow() -> str:
        await release.wait()
        return "mine"

    kit.add(slow)
    task = kit.start("slow", call_id="call-1")
    await until(lambda: list(kit.ledger.open_calls()))
    for name in ("slow", "unknown"):
        failure = await kit.failure(name, call_id="call-1")
        assert failure.code in ("invalid_arguments", "tool_not_found")
    assert len(list(kit.ledger.open_calls())) == 1
    release.set()
    [result] = await outcome_of([task])
    assert isinstance(result, Success) and result.value == "mine"
    assert [record.result for record in kit.journal()] == [result]
    failure = await kit.failure("slow", call_id="call-1")
    assert failure == Failure("invalid_arguments", "The call id 'call-1' was used before: every call needs its own.")


async def test_when_somebody_else_finished_the_call_their_result_is_the_one(kit: EngineKit) -> None:
    other = Failure("unknown_outcome", "The gateway was restarted.")

    async def slow(ctx: ToolContext) -> str:
        record = await kit.ledger.find(ctx.call_id)
        assert record is not None
        kit.ledger.finish(record, other)
        return "too late"

    kit.add(slow)
    assert await kit.call("slow") == other
    assert kit.last().result == other


# A ledger that takes its time.


class SlowLedger(MemoryLedger):
    """A ledger that has to be waited for, as one on a disk; `reached` and `release` hold it at one step."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[str] = []
        self.hold_at = ""
        self.reached, self.release = asyncio.Event(), asyncio.Event()

    def start(self, record: CallRecord) -> Any:
        super().start(record)
        return self._wait("start", None)

    def finish(self, record: CallRecord, result: ToolResult) -> Any:
        return self._wait("finish", super().finish(record, result))

    async def _wait(self, step: str, answer: Any) -> Any:
        self.steps.append(step)
        if step == self.hold_at:
            self.reached.set()
            await self.release.wait()
        await asyncio.sleep(0)
        return answer


async def test_the_tool_is_not_touched_before_the_ledger_knows_and_no_result_goes_out_before(
    make_kit: MakeKit,
) -> None:
    ledger = SlowLedger()
    kit = make_kit(ledger=ledger)
    ran: list[str] = []

    async def touch() -> str:
        ran.append("touched")
        return "done"

    kit.add(touch)
    for step, has_run in (("start", []), ("finish", ["touched"])):
        ran.clear()
        ledger.hold_at = step
        ledger.reached.clear()
        ledger.release.clear()
        task = kit.start("touch")
        await soon(ledger.reached)
        assert (ran, task.done()) == (has_run, False)
        ledger.release.set()
        [result] = await outcome_of([task])
        assert result.value == "done"
    assert ledger.steps == ["start", "finish"] * 2
    await kit.failure("unknown")
    await kit.failure("touch", caller=kit.caller(Agent("A", mode="read_only")))


async def test_cancelled_while_the_ledger_writes_the_start_the_call_has_its_result(make_kit: MakeKit) -> None:
    ledger = SlowLedger()
    ledger.hold_at = "start"
    kit = make_kit(ledger=ledger)
    kit.add(add)
    task = kit.start("add", {"a": 1}, call_id="call-1")
    await soon(ledger.reached)
    task.cancel()
    assert isinstance((await outcome_of([task]))[0], asyncio.CancelledError)
    [record] = ledger.journal()
    assert record.result == Failure("cancelled", "The call of 'add' was cancelled.")
    assert list(ledger.open_calls()) == []


async def test_a_call_that_a_person_agreed_to_waits_for_the_ledger_too(make_kit: MakeKit) -> None:
    ledger = SlowLedger()
    kit = make_kit(ledger=ledger, questions=RuleAnswers(Answer("allow")))
    kit.add(add)
    assert await kit.value("add", {"a": 1}, caller=kit.caller(Agent("Careful", mode="ask_always"))) == 1
    assert ledger.steps == ["start", "finish"]


# Large results.


async def test_a_result_at_the_limit_goes_out_whole_and_one_byte_more_is_cut(kit: EngineKit) -> None:
    async def text(size: int) -> str:
        return "x" * size

    kit.add(text)
    fits = 65_536 - len(b'{"status":"success","result":""}')
    assert await kit.value("text", {"size": fits}) == "x" * fits
    cut = await kit.value("text", {"size": fits + 1})
    assert isinstance(cut, str) and f"of {fits + 1} bytes left out here" in cut
    kept = await kit.artifacts.read(cut.partition("read_artifact with id '")[2].partition("'")[0], owner="operator")
    assert kept == b"x" * (fits + 1)


async def test_a_large_list_is_shown_with_its_count(kit: EngineKit) -> None:
    async def rows(count: int) -> list[int]:
        return list(range(count))

    kit.add(rows)
    cut = await kit.value("rows", {"count": 50_000})
    assert isinstance(cut, dict)
    assert cut["items"] == 50_000
    assert str(cut["preview"]).startswith("[0, 1, 2, ") and str(cut["preview"]).endswith(", 49998, 49999]")


async def test_artifacts_that_can_not_be_kept_do_not_lose_the_result(make_kit: MakeKit, tmp_path: Path) -> None:
    (tmp_path / "blocked").write_text("")
    kit = make_kit(artifacts=FolderArtifacts(tmp_path / "blocked"))

    async def text() -> str:
        return "x" * 100_000

    kit.add(text)
    cut = await kit.value("text")
    assert isinstance(cut, str) and cut.startswith("x" * 40_000)
    assert "could not be kept" in cut


async def test_a_very_long_error_is_cut_too(make_kit: MakeKit) -> None:
    kit = make_kit(result_limit=1000)

    async def fail() -> Failure:
        return Failure("execution_failed", "x" * 100_000)

    kit.add(fail)
    failure = await kit.failure("fail")
    assert len(failure.message) < 1100 and "characters left out" in failure.message


async def test_cancelled_while_the_artifact_is_kept_the_call_has_its_result(make_kit: MakeKit) -> None:
    keeping = asyncio.Event()

    class Slow(FolderArtifacts):
        async def keep(self, data: bytes, **about: Any) -> ArtifactRef:
            keeping.set()
            await asyncio.Event().wait()
            raise AssertionError("never")

    kit = make_kit(artifacts=Slow(Path("unused")))

    async def text() -> str:
        return "x" * 100_000

    kit.add(text)
    task = kit.start("text")
    await soon(keeping)
    task.cancel()
    assert isinstance((await outcome_of([task]))[0], asyncio.CancelledError)
    record = kit.last()
    assert record.result == Failure("cancelled", "The call of 'text' was cancelled after the tool had run.")
    assert isinstance(record.true_result, Success)
    assert record.size == len(record.true_result.encoded)  # the journal's limit in bytes counts it
    assert list(kit.ledger.open_calls()) == []


async def test_cancelled_while_what_a_hook_made_of_it_is_kept_the_journal_has_the_tools_own_result(
    make_kit: MakeKit,
) -> None:
    keeping = asyncio.Event()

    class Slow(FolderArtifacts):
        async def keep(self, data: bytes, **about: Any) -> ArtifactRef:
            keeping.set()
            await asyncio.Event().wait()
            raise AssertionError("never")

    class Growing:
        async def before(self, call: HookedCall) -> None: ...

        async def after(self, call: HookedCall, result: ToolResult) -> Success:
            return Success("x" * 100_000)

    kit = make_kit(artifacts=Slow(Path("unused")), hooks=Hooks([NamedHook("growing", Growing())]))
    kit.add(add)
    task = kit.start("add", {"a": 1})
    await soon(keeping)
    task.cancel()
    assert isinstance((await outcome_of([task]))[0], asyncio.CancelledError)
    true = kit.last().true_result
    assert isinstance(true, Success) and true.value == 1


# Several at once.


def calls(*names: str) -> list[ToolCall]:
    return [ToolCall(name, {}, new_call_id()) for name in names]


async def test_results_come_in_the_order_of_the_calls_whoever_is_first(kit: EngineKit) -> None:
    done: list[int] = []

    async def wait(number: int) -> int:
        await asyncio.sleep(0.001 * (10 - number))
        done.append(number)
        return number

    kit.add(wait)
    batch = [ToolCall("wait", {"number": number}, new_call_id()) for number in range(10)]
    results = await asyncio.wait_for(call_all(kit.engine, batch, kit.caller()), WAIT)
    assert [result.value for result in results if isinstance(result, Success)] == list(range(10))
    assert done != list(range(10))


async def test_calls_run_side_by_side(kit: EngineKit) -> None:
    meeting = asyncio.Barrier(3)

    async def meet() -> str:
        await meeting.wait()
        return "met"

    kit.add(meet)
    results = await asyncio.wait_for(call_all(kit.engine, calls("meet", "meet", "meet"), kit.caller()), WAIT)
    assert [result.value for result in results if isinstance(result, Success)] == ["met"] * 3


async def test_a_crash_in_one_call_does_not_touch_its_neighbours(kit: EngineKit) -> None:
    async def crash() -> None:
        await asyncio.sleep(0)
        raise SystemExit(1)

    async def cancel() -> None:
        raise asyncio.CancelledError

    async def hang() -> None:
        await asyncio.Event().wait()

    async def fine() -> str:
        await asyncio.sleep(0.03)
        return "fine"

    kit.add(crash)
    kit.add(cancel)
    kit.add(hang, timeout=0.01)
    kit.add(fine)
    results = await asyncio.wait_for(
        call_all(kit.engine, calls("crash", "fine", "cancel", "unknown", "hang", "fine"), kit.caller()), WAIT
    )
    shown = [result.value if isinstance(result, Success) else getattr(result, "code", None) for result in results]
    assert shown == ["execution_failed", "fine", "cancelled", "tool_not_found", "timeout", "fine"]


async def test_cancelling_the_batch_cancels_and_drains_all(kit: EngineKit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handspan.engine.runner.GRACE", WAIT)  # on a busy machine the pause below may take seconds
    begun, closed = asyncio.Semaphore(0), list[str]()

    async def slow() -> None:
        begun.release()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.001)
            closed.append("closed")

    kit.add(slow)
    task = asyncio.create_task(call_all(kit.engine, calls("slow", "slow", "slow"), kit.caller()))
    for _ in range(3):
        await asyncio.wait_for(begun.acquire(), WAIT)
    task.cancel()
    assert isinstance((await outcome_of([task]))[0], asyncio.CancelledError)
    assert closed == ["closed"] * 3
    assert [record.result for record in kit.journal()] == [
        Failure("cancelled", "The call of 'slow' was cancelled.")
    ] * 3
    assert list(kit.ledger.open_calls()) == []


async def test_no_calls_give_no_results(kit: EngineKit) -> None:
    assert await call_all(kit.engine, [], kit.caller()) == []


async def test_more_calls_than_an_origin_takes_wait_for_their_turn(make_kit: MakeKit) -> None:
    kit = make_kit(slots=SlotsByOrigin({"builtin": 3}))
    running, most = 0, 0

    async def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1

    kit.add(work)
    await asyncio.wait_for(call_all(kit.engine, calls(*["work"] * 12), kit.caller()), WAIT)
    assert (most, running) == (3, 0)
    assert len(kit.journal()) == 12


# Two halves, life.


async def test_begin_goes_as_far_as_started_and_touches_no_tool(kit: EngineKit) -> None:
    ran: list[str] = []

    async def touch() -> None:
        ran.append("touched")

    kit.add(touch)
    started = await kit.engine.begin(calls("touch")[0], kit.caller())
    assert isinstance(started, Started)
    assert (started.record.state, ran) == ("started", [])
    kit.ledger.finish(started.record, Failure("cancelled", "not run"))


async def test_an_engine_needs_no_more_than_a_ledger_a_place_for_artifacts_and_a_workspace(tmp_path: Path) -> None:
    kit = EngineKit(tmp_path)
    kit.add(add, BUILTIN)
    engine = Engine(kit.artifacts, tmp_path, ledger=kit.ledger)
    engine.open()
    result = await engine.call(ToolCall("add", {"a": 2}, "call-1"), kit.caller())
    assert isinstance(result, Success) and result.value == 2
    await engine.close()
    await engine.close()


async def test_a_call_that_is_taken_down_with_its_task_still_has_its_result(kit: EngineKit) -> None:
    async def slow() -> None:
        await asyncio.Event().wait()

    kit.add(slow)
    coroutine = kit.engine.call(calls("slow")[0], kit.caller())
    coroutine.send(None)
    coroutine.close()
    assert kit.last().result == Failure("cancelled", "The call of 'slow' was cancelled.")
    assert list(kit.ledger.open_calls()) == []
