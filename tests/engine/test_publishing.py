"""The bus gets every call that has its result: once, when it is stored, and without any effect on the call."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from handspan.bus.memory import MemoryBus
from handspan.core.agents import Agent
from handspan.core.bus import CallCompleted
from handspan.core.calls import CallRecord, ToolCall, new_call_id
from handspan.core.context import ToolContext
from handspan.core.errors import StoreError
from handspan.core.questions import Answer
from handspan.core.results import Pending, ToolResult, succeed
from tests.engine.conftest import MakeKit
from tests.engine.engine_kit import EngineKit, left_behind, outcome_of, soon
from tests.memory_ledger import MemoryLedger
from tests.stores import database_of, open_store
from tests.waiting import until

pytestmark = pytest.mark.anyio


class Listener:
    """Keeps the events that it gets."""

    def __init__(self) -> None:
        self.events: list[CallCompleted] = []

    def __call__(self, call: CallCompleted) -> None:
        self.events.append(call)

    @property
    def codes(self) -> list[str]:
        """How each of them ended."""
        return [one.status for one in self.events]


def bus_to(listener: Any) -> MemoryBus:
    """A bus with this listener."""
    bus = MemoryBus(strict=True)
    bus.subscribe(CallCompleted, listener)
    return bus


class WaitingLedger(MemoryLedger):
    """A ledger on a disk that can be held up, and can refuse. A future is what it gives, as the stored one."""

    def __init__(self) -> None:
        super().__init__()
        self.writing: list[tuple[asyncio.Future[bool], CallRecord, ToolResult]] = []

    def finish(self, record: CallRecord, result: ToolResult) -> Any:
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.writing.append((future, record, result))
        return future

    def write(self) -> None:
        """Write it now, and let the callers that wait go on."""
        for future, record, result in self.writing:
            answer = super().finish(record, result)
            if not future.done():
                future.set_result(answer)
        self.writing.clear()

    def refuse(self) -> None:
        """The disk is full."""
        for future, _, _ in self.writing:
            future.set_exception(StoreError("The disk is full."))
        self.writing.clear()


async def later() -> Pending:
    """Its outcome comes from elsewhere."""
    return Pending()


def kit_with(make_kit: MakeKit, listener: Any, **more: Any) -> EngineKit:
    kit = make_kit(bus=bus_to(listener), **more)

    async def add(a: int, b: int = 0) -> int:
        return a + b

    async def fail() -> None:
        raise ValueError("no")

    async def hang(ctx: ToolContext) -> None:
        reached.set()
        await asyncio.Event().wait()

    reached: asyncio.Event = asyncio.Event()
    kit.reached = reached  # type: ignore[attr-defined] # for the tests below
    for function in (add, fail, hang, later):
        kit.add(function)
    return kit


async def test_one_that_raises_hurts_no_call(make_kit: MakeKit, caplog: pytest.LogCaptureFixture) -> None:
    def deaf(call: CallCompleted) -> None:
        raise RuntimeError("deaf")

    kit = kit_with(make_kit, deaf)
    assert await kit.value("add", {"a": 1}) == 1
    assert (await kit.failure("nothing")).code == "tool_not_found"
    assert caplog.text.count("A listener for CallCompleted failed") == 2
    assert "RuntimeError: deaf" in caplog.text


async def test_a_result_that_could_not_be_kept_is_not_heard(make_kit: MakeKit) -> None:
    listener, ledger = Listener(), WaitingLedger()
    kit = kit_with(make_kit, listener, ledger=ledger)
    task = kit.start("add", {"a": 1})
    await until(lambda: ledger.writing)
    ledger.refuse()
    [result] = await outcome_of([task])
    assert result == succeed(1)  # its caller has it all the same
    assert listener.events == []


async def test_nothing_is_heard_before_it_is_kept(make_kit: MakeKit) -> None:
    listener, ledger = Listener(), WaitingLedger()
    kit = kit_with(make_kit, listener, ledger=ledger)
    task = kit.start("add", {"a": 1})
    await until(lambda: ledger.writing)
    assert listener.events == []
    ledger.write()
    await outcome_of([task])
    assert listener.codes == ["success"]


@pytest.mark.parametrize("name", ["add", "nothing"], ids=["ran", "refused"])
async def test_a_caller_that_goes_while_the_result_is_written_does_not_make_it_unheard(
    make_kit: MakeKit, name: str
) -> None:
    listener, ledger = Listener(), WaitingLedger()
    kit = kit_with(make_kit, listener, ledger=ledger)
    task = kit.start(name, {"a": 1})
    await until(lambda: ledger.writing)
    task.cancel()
    assert isinstance((await outcome_of([task]))[0], asyncio.CancelledError)
    assert listener.events == []
    ledger.write()
    await until(lambda: listener.events)
    assert listener.codes == ["success" if name == "add" else "tool_not_found"]


async def test_a_call_whose_id_was_used_is_not_heard_in_place_of_the_other(make_kit: MakeKit) -> None:
    listener = Listener()
    kit = kit_with(make_kit, listener)
    await kit.value("add", {"a": 1}, call_id="c1")
    assert (await kit.failure("add", {"a": 2}, call_id="c1")).code == "invalid_arguments"
    assert [(one.id, one.status) for one in listener.events] == [("c1", "success")]


async def test_a_second_outcome_is_not_heard(make_kit: MakeKit) -> None:
    listener = Listener()
    kit = kit_with(make_kit, listener)
    assert isinstance(await kit.call("later", call_id="c1"), Pending)
    assert listener.events == []
    both = await asyncio.gather(*(kit.engine.settle("c1", succeed(text)) for text in ("one", "two")))
    assert await kit.engine.settle("c1", succeed("three")) is None
    assert len([result for result in both if result is not None]) == len(listener.events) == 1


async def test_every_way_to_end_is_heard_once(make_kit: MakeKit) -> None:
    listener = Listener()
    kit = kit_with(make_kit, listener)
    await kit.value("add", {"a": 1})
    await kit.failure("fail")
    await kit.failure("nothing")
    await kit.failure("add", {"a": "x"})
    await kit.failure("add", {"a": 1}, caller=kit.caller(Agent("A", mode="read_only")))
    hanging = kit.start("hang")
    await soon(kit.reached)  # type: ignore[attr-defined] # it is there
    hanging.cancel()
    await outcome_of([hanging])
    assert listener.codes == [
        "success",
        "execution_failed",
        "tool_not_found",
        "invalid_arguments",
        "policy_denied",
        "cancelled",
    ]
    assert [one.id for one in listener.events] == [one.id for one in kit.journal()]


async def test_a_call_that_waited_is_heard_when_it_expires(make_kit: MakeKit) -> None:
    listener = Listener()
    kit = kit_with(make_kit, listener)

    async def soon_over() -> Pending:
        return Pending(expires_in=0.01)

    kit.add(soon_over)
    await kit.call("soon_over")
    await until(lambda: listener.events)
    assert listener.codes == ["timeout"]


async def test_a_call_that_is_taken_down_with_its_task_is_heard_when_that_is_kept(tmp_path: Path) -> None:
    listener = Listener()
    store = open_store(tmp_path / "state")
    async with store:
        for ledger in (MemoryLedger(), store.ledger):
            kit = EngineKit(tmp_path, ledger=ledger, bus=bus_to(listener))

            async def hang() -> None:
                await asyncio.Event().wait()

            kit.add(hang)
            coroutine = kit.engine.call(ToolCall("hang", b"", new_call_id()), kit.caller())
            wanted = coroutine.send(None)
            if ledger is store.ledger:
                await until(wanted.done)  # the start is written first
                coroutine.send(None)
            coroutine.close()
            await until(lambda: listener.events)
            assert listener.codes == ["cancelled"]
            listener.events.clear()
            await kit.engine.close()
    assert left_behind() == []


async def test_with_the_stored_ledger_what_is_heard_is_in_the_database(tmp_path: Path) -> None:
    store = open_store(tmp_path / "state")
    seen: list[object] = []

    def look(call: CallCompleted) -> None:
        sql = f"SELECT state FROM calls WHERE id = '{call.id}'"
        seen.append(database_of(store).find_now(sql))

    async with store:
        kit = EngineKit(tmp_path, ledger=store.ledger, questions=store.questions, bus=bus_to(look))

        async def add(a: int) -> int:
            return a

        kit.add(add)
        kit.add(later)
        assert await kit.value("add", {"a": 1}) == 1
        await kit.failure("nothing")
        careful = kit.caller(Agent("Careful", mode="ask_always"))
        assert isinstance(await kit.call("add", {"a": 2}, caller=careful, call_id="c2"), Pending)
        [question] = await store.questions.open_for(owner=careful.who.owner)
        await store.questions.answer(question.id, Answer("allow"), owner=careful.who.owner)
        assert await kit.engine.resume("c2", careful) == succeed(2)
        await kit.call("later", call_id="c3")
        assert await kit.engine.settle("c3", succeed("there")) == succeed("there")
        await kit.engine.close()
    assert seen == [("done",)] * 4


async def test_without_a_bus_nothing_is_done(tmp_path: Path) -> None:
    async def add(a: int) -> int:
        return a

    kit = EngineKit(tmp_path)
    kit.add(add)
    assert await kit.value("add", {"a": 1}) == 1
