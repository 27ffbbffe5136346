"""An engine that is closed while calls run: each gets a result, and the ledger has it first (SPEC E2)."""

import asyncio
import threading
from collections.abc import Container
from typing import TypeVar

import pytest
from msgspec import structs

from handspan.core.calls import CallRecord
from handspan.core.context import ToolContext
from handspan.core.errors import StoreError, ToolError
from handspan.core.questions import Answer, Opened, Question, ignore_opened
from handspan.core.results import Failure, Pending, ToolResult, succeed
from handspan.core.store import NowOrLater
from handspan.core.tool import Handling, ToolSpec
from handspan.core.values import Arguments
from handspan.engine.concurrency import SlotsByOrigin
from tests.engine.conftest import MakeKit
from tests.engine.engine_kit import EngineKit, soon
from tests.memory_ledger import MemoryLedger
from tests.waiting import WAIT, until

pytestmark = pytest.mark.anyio

_T = TypeVar("_T")

CLOSED = "was cancelled: Handspan was closed."


class Blocking:
    """A tool that waits for ever, and says when it began."""

    def __init__(self, kit: EngineKit) -> None:
        self.began = asyncio.Event()
        kit.add(self.block)

    async def block(self) -> None:
        """Wait."""
        self.began.set()
        await asyncio.Event().wait()


async def closed(kit: EngineKit) -> None:
    async with asyncio.timeout(WAIT):
        await kit.engine.close()


async def test_a_tool_that_waits_is_stopped_and_its_caller_gets_a_result_instead_of_an_exception(
    kit: EngineKit,
) -> None:
    blocking = Blocking(kit)
    call = kit.start("block", call_id="c1")
    await soon(blocking.began)
    await closed(kit)
    assert await call == kit.last().result == Failure("cancelled", f"The call of 'block' {CLOSED}")
    assert kit.last().id == "c1"


async def test_a_tool_on_a_thread_is_left_there_and_its_call_ends(kit: EngineKit) -> None:
    began, release = threading.Event(), threading.Event()

    def block() -> None:
        began.set()
        release.wait(WAIT)

    kit.add(block)
    call = kit.start("block")
    await until(began.is_set)
    await closed(kit)
    release.set()
    assert await call == kit.last().result == Failure("cancelled", f"The call of 'block' {CLOSED}")


async def test_a_tool_that_has_its_answer_is_not_stopped(kit: EngineKit) -> None:
    began, answer = asyncio.Event(), asyncio.get_running_loop().create_future()

    async def listen() -> str:
        began.set()
        return str(await answer)

    kit.add(listen)
    call = kit.start("listen")
    await soon(began)
    answer.set_result("hello")
    await closed(kit)
    assert await call == kit.last().result == succeed("hello")


async def test_a_stopped_tool_says_itself_how_its_call_ended(kit: EngineKit) -> None:
    began = asyncio.Event()

    async def send() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ToolError("unknown_outcome", "It was sent.") from None

    kit.add(send)
    call = kit.start("send")
    await soon(began)
    await closed(kit)
    assert await call == kit.last().result == Failure("unknown_outcome", "It was sent.")


async def test_a_tool_that_ends_by_itself_after_it_was_stopped_has_its_grace_time(kit: EngineKit) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def tidy() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            ended.set()

    kit.add(tidy)
    call = kit.start("tidy")
    await soon(began)
    await closed(kit)
    assert ended.is_set() and isinstance(await call, Failure)


async def test_calls_that_wait_for_a_slot_are_refused_as_never_run(make_kit: MakeKit) -> None:
    kit = make_kit(slots=SlotsByOrigin({"builtin": 1}))
    blocking = Blocking(kit)
    first, second = kit.start("block", call_id="c1"), kit.start("block", call_id="c2")
    await soon(blocking.began)
    await closed(kit)
    results = {record.id: record.result for record in kit.journal()}
    assert results == {"c1": await first, "c2": await second}
    assert await second == Failure(
        "interrupted", "Tool 'block' was not run: Handspan was closed. It is safe to call it again."
    )


async def test_a_call_that_comes_after_the_end_is_refused_and_nothing_runs(kit: EngineKit) -> None:
    blocking = Blocking(kit)
    await closed(kit)
    failure = await kit.failure("block")
    assert failure.code == "interrupted" and not blocking.began.is_set()


async def test_a_tool_that_asks_a_person_is_stopped(make_kit: MakeKit) -> None:
    asked = asyncio.Event()

    class NoAnswer:
        async def ask(self, question: Question, opened: Opened = ignore_opened) -> Answer | None:
            opened()
            asked.set()
            await asyncio.Event().wait()
            return None

    kit = make_kit(questions=NoAnswer())

    async def ask(ctx: ToolContext) -> object:
        return (await ctx.ask("approval", "Really?")).decision

    kit.add(ask)
    call = kit.start("ask")
    await soon(asked)
    await closed(kit)
    assert await call == kit.last().result == Failure("cancelled", f"The call of 'ask' {CLOSED}")


async def test_a_call_inside_a_call_ends_with_it(kit: EngineKit) -> None:
    blocking = Blocking(kit)

    async def outer() -> object:
        return await kit.call("block", call_id="inner")

    kit.add(outer)
    call = kit.start("outer", call_id="outer")
    await soon(blocking.began)
    await closed(kit)
    assert isinstance(await call, Failure)
    assert [record.id for record in kit.journal()] == ["inner", "outer"]


async def test_a_tool_that_closes_its_own_engine_is_not_stopped_by_that(
    kit: EngineKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handspan.engine.engine._LAST_SECONDS", 0.01)

    async def close() -> str:
        await kit.engine.close()
        return "closed"

    kit.add(close)
    assert await kit.value("close") == "closed"


async def test_a_call_that_goes_on_elsewhere_stays_open(kit: EngineKit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handspan.engine.engine._LAST_SECONDS", 0.01)
    began = asyncio.Event()

    class Phone:
        spec = ToolSpec("phone", "Made for a test.", {"type": "object"})
        handling = Handling(answered_by="connection", outlives=True)

        async def run(self, arguments: Arguments, ctx: ToolContext) -> None:
            began.set()
            await asyncio.Event().wait()

    kit.add(Phone())
    call = kit.start("phone", caller=structs.replace(kit.caller(), goes_on_elsewhere=lambda: True))
    await soon(began)
    await closed(kit)
    assert [record.state for record in kit.ledger.open_calls()] == ["started"]
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)


# What the ledger does meanwhile.


class SlowLedger(MemoryLedger):
    """Tells that it has stored something only when the test says. `fails_at`: what it can't store any more."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.released = asyncio.Event(), asyncio.Event()
        self.fails_at: Container[str] = ()

    def start(self, record: CallRecord) -> NowOrLater[None]:  # type: ignore[override] # this one takes its time
        super().start(record)
        return self._answer(None, "start")

    def finish(self, record: CallRecord, result: ToolResult) -> NowOrLater[bool]:  # type: ignore[override] # so
        return self._answer(super().finish(record, result), "finish")

    async def _answer(self, answer: _T, what: str) -> _T:
        self.asked.set()
        await self.released.wait()
        if what in self.fails_at:
            raise StoreError("It is closed.")
        return answer


@pytest.fixture
def ledger() -> SlowLedger:
    return SlowLedger()


async def test_the_end_waits_for_a_call_whose_start_is_being_stored(make_kit: MakeKit, ledger: SlowLedger) -> None:
    kit = make_kit(ledger=ledger)
    blocking = Blocking(kit)
    call = kit.start("block")
    await soon(ledger.asked)
    closing = asyncio.create_task(closed(kit))
    await until(lambda: kit.engine.runner.is_stopped)
    ledger.released.set()
    await closing
    assert not blocking.began.is_set()
    [record] = ledger.journal()
    assert record.result == await call and isinstance(record.result, Failure)
    assert record.result.code == "interrupted"


async def test_the_end_waits_for_an_outcome_that_is_being_stored(make_kit: MakeKit, ledger: SlowLedger) -> None:
    kit = make_kit(ledger=ledger)

    async def click() -> Pending:
        return Pending()

    kit.add(click)
    ledger.released.set()
    assert isinstance(await kit.call("click", call_id="c1"), Pending)
    ledger.released.clear()
    ledger.asked.clear()
    settling = asyncio.create_task(kit.engine.settle("c1", succeed("clicked")))
    await soon(ledger.asked)
    closing = asyncio.create_task(closed(kit))
    await until(lambda: kit.engine.runner.is_stopped)
    for _ in range(20):
        await asyncio.sleep(0)
    assert not closing.done()
    ledger.released.set()
    assert await settling == succeed("clicked")
    await closing


@pytest.mark.parametrize("fails_at", [("start", "finish"), ("finish",)], ids=["start", "result"])
async def test_a_call_that_the_ledger_takes_too_long_for_is_not_told_to_be_safe_to_repeat(
    make_kit: MakeKit, ledger: SlowLedger, monkeypatch: pytest.MonkeyPatch, fails_at: tuple[str, ...]
) -> None:
    monkeypatch.setattr("handspan.engine.engine._LAST_SECONDS", 0.01)
    kit = make_kit(ledger=ledger)
    Blocking(kit)
    call = kit.start("block")
    await soon(ledger.asked)
    await closed(kit)  # it does not wait for ever
    ledger.fails_at = fails_at
    ledger.released.set()
    text = "Handspan was closed before the result of 'block' could be stored: its outcome is unknown."
    assert await call == Failure("unknown_outcome", f"{text} Look before you call it again.")
