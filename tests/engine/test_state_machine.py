"""Exactly one result for every call, whatever happens to it (SPEC E2): a state machine looks for ways around that."""

import asyncio
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)

from handspan.core.calls import CallRecord, ToolCall
from handspan.core.context import ToolContext
from handspan.core.function_tool import FunctionTool, tool
from handspan.core.principals import Origin
from handspan.core.questions import Answer, Opened, Question, ignore_opened
from handspan.core.results import Failure, Pending, ToolResult, succeed
from handspan.core.tool import Annotations
from handspan.engine.concurrency import SlotsByOrigin
from handspan.engine.hooks import HookedCall, Hooks, NamedHook
from tests.engine.engine_kit import EngineKit
from tests.memory_ledger import MemoryLedger
from tests.thoroughness import examples
from tests.waiting import WAIT

SHORT = 0.003
ORIGIN = Origin("plugin", "machine")
TOOLS = ("steered", "stubborn", "serial", "brief", "pending", "expiring", "handed_out", "asked", "unknown")


class CountingLedger(MemoryLedger):
    """Counts how often each call was given a result."""

    def __init__(self) -> None:
        super().__init__()
        self.entered: set[str] = set()
        self.results: Counter[str] = Counter()
        self.foreign = 0
        """Calls that got the result of another one, which had the same id."""

    def start(self, record: CallRecord) -> None:
        super().start(record)
        self.entered.add(record.id)

    async def accept(self, record: CallRecord) -> None:
        await super().accept(record)
        self.entered.add(record.id)

    def finish(self, record: CallRecord, result: ToolResult) -> bool:
        was_known = record.state is not None
        is_first = super().finish(record, result)
        self.results[record.id] += is_first
        self.foreign += is_first and record.id in self.entered and not was_known
        return is_first


class KeptQuestions:
    """Questions that are stored until a person answers."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}

    async def ask(self, question: Question, opened: Opened = ignore_opened) -> Answer | None:
        opened()
        await asyncio.sleep(0)
        return self.answers.get(question.call_id)


class SlowHook:
    """Takes a moment before and after, so that there is more to interrupt."""

    async def before(self, call: HookedCall) -> None:
        await asyncio.sleep(0)

    async def after(self, call: HookedCall, result: ToolResult) -> ToolResult:
        for _ in range(5):
            await asyncio.sleep(0)
        return result


class Calls(RuleBasedStateMachine):
    """Calls that are answered, fail, time out, are cancelled, settled twice, late, or never."""

    calls: Bundle[str] = Bundle("calls")
    has_hooks = False

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.ledger = CountingLedger()
        self.questions = KeptQuestions()
        hooks = Hooks([NamedHook("slow", SlowHook())]) if self.has_hooks else None
        slots = SlotsByOrigin({"plugin": 4})
        self.kit = EngineKit(
            Path(self.folder.name), ledger=self.ledger, questions=self.questions, slots=slots, hooks=hooks
        )
        self.tools = {made.spec.name: made for made in self._tools()}
        for made in self.tools.values():
            self.kit.add(made, ORIGIN)
        self.steering: dict[str, asyncio.Future[str]] = {}
        self.tasks: dict[str, asyncio.Task[Any]] = {}
        self.beside: list[asyncio.Task[Any]] = []
        self.known: dict[str, ToolResult] = {}
        self.settled: Counter[str] = Counter()
        self.kept: set[str] = set()
        """Calls whose outcome came early."""
        self.ran: Counter[str] = Counter()
        self.doubled: set[str] = set()
        self.number = 0

    def _tools(self) -> list[FunctionTool[..., Any]]:
        async def steer(ctx: ToolContext) -> str:
            self.ran[ctx.call_id] += 1
            self.steering[ctx.call_id] = asyncio.get_running_loop().create_future()
            try:
                return await self.steering[ctx.call_id]
            finally:
                await asyncio.sleep(0)

        async def stubborn(ctx: ToolContext) -> str:
            """Swallows one cancellation, then ends."""
            self.ran[ctx.call_id] += 1
            self.steering[ctx.call_id] = asyncio.get_running_loop().create_future()
            try:
                return await asyncio.shield(self.steering[ctx.call_id])
            except asyncio.CancelledError:
                await asyncio.sleep(0)
                return "never mind"

        async def later(ctx: ToolContext) -> Any:
            self.ran[ctx.call_id] += 1
            return Pending()

        async def hand_out(ctx: ToolContext) -> Any:
            """Hands its call out, and says so only a while later."""
            await steer(ctx)
            return Pending()

        async def expiring(ctx: ToolContext) -> Any:
            self.ran[ctx.call_id] += 1
            return Pending(SHORT)

        def made(name: str, function: Any, **more: Any) -> FunctionTool[..., Any]:
            return tool(name=name, description="Made for a test.", **more)(function)

        return [
            made("steered", steer),
            made("stubborn", stubborn),
            made("serial", steer, annotations=Annotations(serial=True)),
            made("brief", steer, timeout=SHORT),
            made("pending", later),
            made("expiring", expiring),
            made("handed_out", hand_out),
            made("asked", steer, permissions=("camera",)),
        ]

    # What may happen.

    @initialize(target=calls)
    def call_each_once(self) -> MultipleResults[str]:
        return multiple(*self._call(list(TOOLS), 3))

    @rule(target=calls, names=st.lists(st.sampled_from(TOOLS), min_size=1, max_size=5), rounds=st.integers(0, 3))
    def call(self, names: list[str], rounds: int) -> MultipleResults[str]:
        return multiple(*self._call(names, rounds))

    @rule(call_id=calls, name=st.sampled_from(TOOLS))
    def call_with_a_used_id(self, call_id: str, name: str) -> None:
        """One of the two is refused: the one that comes to the ledger later, which need not be the second one."""
        self.doubled.add(call_id)
        self.beside.append(self._begin(ToolCall(name, {}, call_id)))

    @rule(call_id=calls)
    def answer(self, call_id: str) -> None:
        waiting = self.steering.get(call_id)
        if waiting is not None and not waiting.done():
            waiting.set_result("answered")

    @rule(call_id=calls)
    def answer_and_cancel_at_once(self, call_id: str) -> None:
        self.answer(call_id)
        self.tasks[call_id].cancel()

    @rule(call_id=calls)
    def fail(self, call_id: str) -> None:
        waiting = self.steering.get(call_id)
        if waiting is not None and not waiting.done():
            waiting.set_exception(LookupError("failed"))
            waiting.exception()  # marks it as seen, if the tool was cancelled before it could look

    @rule(call_id=calls)
    def cancel(self, call_id: str) -> None:
        self.tasks[call_id].cancel()

    @rule(call_id=calls, times=st.integers(1, 3))
    def settle(self, call_id: str, times: int) -> None:
        """Early, in time, late, twice: only a call that waits, or still may, takes it, and only once."""

        async def settle_all() -> list[ToolResult | Pending | None]:
            outcomes = [succeed(number) for number in range(times)]
            return list(await asyncio.gather(*(self.kit.engine.settle(call_id, outcome) for outcome in outcomes)))

        taken = [result for result in self._run(settle_all()) if result is not None]
        self.settled[call_id] += len(taken)
        assert self.settled[call_id] <= 1
        if taken:
            record = self._run(self.ledger.find(call_id))
            is_early = taken == [Pending()]
            assert is_early or record.result is taken[0]
            self.kept |= {call_id} if is_early else set()

    @rule(number=st.integers(0, 5), times=st.integers(1, 3))
    def settle_one_that_waits(self, number: int, times: int) -> None:
        waiting = [record.id for record in self.ledger.open_calls() if record.state == "pending"]
        if waiting:
            self.settle(waiting[number % len(waiting)], times)

    @rule(call_id=calls, says=st.sampled_from(["allow", "deny"]), doors=st.integers(1, 2))
    def answer_a_question(self, call_id: str, says: Any, doors: int) -> None:
        self.questions.answers.setdefault(call_id, Answer(says))
        for _ in range(doors):
            self.beside.append(self.loop.create_task(self.kit.engine.resume(call_id, self.kit.caller())))

    @rule(call_id=calls)
    def wait_until_it_is_over(self, call_id: str) -> None:
        """For calls that end by themselves: their time runs out. One that waits for a slot waits for other calls."""
        record = self._run(self.ledger.find(call_id))
        if record is not None and record.name == "brief" and self.ran[call_id]:
            self._run(asyncio.wait([self.tasks[call_id]], timeout=WAIT))
            assert self.tasks[call_id].done()
        elif record is not None and record.name == "expiring" and record.state == "pending":
            assert self._run(self.kit.engine.result(call_id)) is not None

    @rule(name=st.sampled_from(TOOLS[:-1]), rounds=st.integers(0, 3))
    def unregister_for_a_while(self, name: str, rounds: int) -> None:
        self.kit.registry.unregister(name)
        self._turn(rounds)
        self.kit.add(self.tools[name], ORIGIN)

    @rule(rounds=st.integers(1, 5))
    def let_time_pass(self, rounds: int) -> None:
        self._turn(rounds)

    @rule(call_id=consumes(calls))
    def forget_about_it(self, call_id: str) -> None:
        """Nothing more happens to this one until the end."""

    # What always holds.

    @invariant()
    def a_result_never_changes(self) -> None:
        for record in self.ledger.journal():
            assert isinstance(record.result, type(succeed(1)) | Failure)
            assert self.known.setdefault(record.id, record.result) is record.result

    @invariant()
    def no_call_has_two_results_or_ran_twice(self) -> None:
        assert all(count <= 1 for count in self.ledger.results.values())
        assert all(count <= 1 for count in self.ran.values())
        assert self.ledger.foreign == 0

    @invariant()
    def open_are_exactly_the_calls_without_a_result(self) -> None:
        open_calls = {record.id for record in self.ledger.open_calls()}
        assert open_calls == {call_id for call_id in self.ledger.entered if not self.ledger.results[call_id]}

    @invariant()
    def what_the_caller_got_is_what_the_journal_has(self) -> None:
        for call_id, task in self.tasks.items():
            if not task.done() or task.cancelled() or isinstance(task.result(), Pending) or call_id in self.doubled:
                continue
            assert self.known[call_id] == task.result()

    def teardown(self) -> None:
        try:
            self._end_everything()
            assert all(self._is_heeded(call_id) for call_id in self.kept)
            assert all(self.ledger.results[call_id] == 1 for call_id in self.tasks if self._has_begun(call_id))
            assert list(self.ledger.open_calls()) == []
            assert not self.kit.engine.watchdog._is_busy()
            assert asyncio.all_tasks(self.loop) == set()
            self.a_result_never_changes()
            self.what_the_caller_got_is_what_the_journal_has()
        finally:
            self.loop.close()
            self.folder.cleanup()

    def _end_everything(self) -> None:
        """Answer, cancel and settle until nothing is left to do; then close the kit."""
        for number, call_id in enumerate(self.tasks):
            (self.answer if number % 2 else self.cancel)(call_id)
        for _ in range(1000):
            for waiting in self.steering.values():
                if not waiting.done():
                    waiting.set_result("at the end")
            for record in list(self.ledger.open_calls()):
                if record.state == "pending":
                    self._run(self.kit.engine.settle(record.id, Failure("disconnected", "at the end")))
                elif record.state == "accepted":
                    self.answer_a_question(record.id, "deny", 1)
            self._turn(1)
            everything = [*self.tasks.values(), *self.beside]
            if all(task.done() for task in everything) and not list(self.ledger.open_calls()):
                break
        assert all(task.done() for task in everything), "a call hangs"
        for task in everything:
            assert task.cancelled() or task.exception() is None
        assert self.kit.engine._pending._waiting == {}
        self._run(self.kit.engine.close())

    def _is_heeded(self, call_id: str) -> bool:
        """Whether an early outcome is the result where the tool said that it would come later."""
        [record] = [record for record in self.ledger.journal() if record.id == call_id]
        result = record.result
        return record.name != "handed_out" or result == succeed(0) or isinstance(result, Failure)

    def _has_begun(self, call_id: str) -> bool:
        """Whether the engine ever saw it: a task that is cancelled before its first step never called."""
        return call_id in self.known or call_id in self.ledger.entered

    def _call(self, names: list[str], rounds: int) -> list[str]:
        made: list[str] = []
        for name in names:
            self.number += 1
            made.append(f"call-{self.number}")
            self.tasks[made[-1]] = self._begin(ToolCall(name, {}, made[-1]))
        self._turn(rounds)
        return made

    def _begin(self, call: ToolCall) -> "asyncio.Task[Any]":
        return self.loop.create_task(self.kit.engine.call(call, self.kit.caller()))

    def _run(self, coroutine: Any) -> Any:
        return self.loop.run_until_complete(asyncio.wait_for(coroutine, WAIT))

    def _turn(self, rounds: int) -> None:
        for _ in range(rounds):
            self.loop.run_until_complete(asyncio.sleep(0))


class HookedCalls(Calls):
    """The same with hooks that take a moment."""

    has_hooks = True


Calls.TestCase.settings = settings(
    max_examples=examples(60), stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck)
)
HookedCalls.TestCase.settings = Calls.TestCase.settings

TestCalls = Calls.TestCase
TestHookedCalls = HookedCalls.TestCase
