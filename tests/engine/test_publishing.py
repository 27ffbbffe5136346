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
from handspan.engine.ledger import MemoryLedger, publish_when_stored
from tests.engine.conftest import MakeHouse
from tests.engine.house import House, left_behind, outcome_of, soon
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


def house_with(make_house: MakeHouse, listener: Any, **more: Any) -> House:
    house = make_house(bus=bus_to(listener), **more)

    async def add(a: int, b: int = 0) -> int:
        return a + b

    async def fail() -> None:
        raise ValueError("no")

    async def hang(ctx: ToolContext) -> None:
        reached.set()
        await asyncio.Event().wait()

    reached: asyncio.Event = asyncio.Event()
    house.reached = reached  # type: ignore[attr-defined] # for the tests below
    for function in (add, fail, hang, later):
        house.add(function)
    return house


async def test_one_that_raises_hurts_no_call(make_house: MakeHouse, caplog: pytest.LogCaptureFixture) -> None:
    def deaf(call: CallCompleted) -> None:
        raise RuntimeError("deaf")

    house = house_with(make_house, deaf)
    assert await house.value("add", {"a": 1}) == 1
    assert (await house.failure("nothing")).code == "tool_not_found"
    assert caplog.text.count("A listener for CallCompleted failed") == 2
    assert "RuntimeError: deaf" in caplog.text


async def test_a_result_that_could_not_be_kept_is_not_heard(make_house: MakeHouse) -> None:
    listener, ledger = Listener(), WaitingLedger()
    house = house_with(make_house, listener, ledger=ledger)
    task = house.start("add", {"a": 1})
    await until(lambda: ledger.writing)
    ledger.refuse()
    [result] = await outcome_of([task])
    assert result == succeed(1)  # its caller has it all the same
    assert listener.events == []


async def test_nothing_is_heard_before_it_is_kept(make_house: MakeHouse) -> None:
    listener, ledger = Listener(), WaitingLedger()
    house = house_with(make_house, listener, ledger=ledger)
    task = house.start("add", {"a": 1})
    await until(lambda: ledger.writing)
    assert listener.events == []
    ledger.write()
    await outcome_of([task])
    assert listener.codes == ["success"]


@pytest.mark.parametrize("name", ["add", "nothing"], ids=["ran", "refused"])
async def test_a_caller_that_goes_while_the_result_is_written_does_not_make_it_unheard(
    make_house: MakeHouse, name: str
) -> None:
    listener, ledger = Listener(), WaitingLedger()
    house = house_with(make_house, listener, ledger=ledger)
    task = house.start(name, {"a": 1})
    await until(lambda: ledger.writing)
    task.cancel()
    assert isinstance((await outcome_of([task]))[0], asyncio.CancelledError)
    assert listener.events == []
    ledger.write()
    await until(lambda: listener.events)
    assert listener.codes == ["success" if name == "add" else "tool_not_found"]


async def test_a_call_whose_id_was_used_is_not_heard_in_place_of_the_other(make_house: MakeHouse) -> None:
    listener = Listener()
    house = house_with(make_house, listener)
    await house.value("add", {"a": 1}, call_id="c1")
    assert (await house.failure("add", {"a": 2}, call_id="c1")).code == "invalid_arguments"
    assert [(one.id, one.status) for one in listener.events] == [("c1", "success")]


async def test_a_second_outcome_is_not_heard(make_house: MakeHouse) -> None:
    listener = Listener()
    house = house_with(make_house, listener)
    assert isinstance(await house.call("later", call_id="c1"), Pending)
    assert listener.events == []
    both = await asyncio.gather(*(house.engine.settle("c1", succeed(text)) for text in ("one", "two")))
    assert await house.engine.settle("c1", succeed("three")) is None
    assert len([result for result in both if result is not None]) == len(listener.events) == 1


async def test_every_way_to_end_is_heard_once(make_house: MakeHouse) -> None:
    listener = Listener()
    house = house_with(make_house, listener)
    await house.value("add", {"a": 1})
    await house.failure("fail")
    await house.failure("nothing")
    await house.failure("add", {"a": "x"})
    await house.failure("add", {"a": 1}, caller=house.caller(Agent("A", mode="read_only")))
    hanging = house.start("hang")
    await soon(house.reached)  # type: ignore[attr-defined] # it is there
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
    assert [one.id for one in listener.events] == [one.id for one in house.journal()]


async def test_a_call_that_waited_is_heard_when_it_expires(make_house: MakeHouse) -> None:
    listener = Listener()
    house = house_with(make_house, listener)

    async def soon_over() -> Pending:
        return Pending(expires_in=0.01)

    house.add(soon_over)
    await house.call("soon_over")
    await until(lambda: listener.events)
    assert listener.codes == ["timeout"]


async def test_a_call_that_is_taken_down_with_its_task_is_heard_when_that_is_kept(tmp_path: Path) -> None:
    listener = Listener()
    store = open_store(tmp_path / "state")
    async with store:
        for ledger in (MemoryLedger(), store.ledger):
            house = House(tmp_path, ledger=ledger, bus=bus_to(listener))

            async def hang() -> None:
                await asyncio.Event().wait()

            house.add(hang)
            coroutine = house.engine.call(ToolCall("hang", b"", new_call_id()), house.caller())
            wanted = coroutine.send(None)
            if ledger is store.ledger:
                await until(wanted.done)  # the start is written first
                coroutine.send(None)
            coroutine.close()
            await until(lambda: listener.events)
            assert listener.codes == ["cancelled"]
            listener.events.clear()
            await house.engine.close()
    assert left_behind() == []


async def test_with_the_stored_ledger_what_is_heard_is_in_the_database(tmp_path: Path) -> None:
    store = open_store(tmp_path / "state")
    seen: list[object] = []

    def look(call: CallCompleted) -> None:
        sql = f"SELECT state FROM calls WHERE id = '{call.id}'"
        seen.append(database_of(store).read_now(lambda connection: connection.execute(sql).fetchone()))

    async with store:
        house = House(tmp_path, ledger=store.ledger, questions=store.questions, bus=bus_to(look))

        async def add(a: int) -> int:
            return a

        house.add(add)
        house.add(later)
        assert await house.value("add", {"a": 1}) == 1
        await house.failure("nothing")
        careful = house.caller(Agent("Careful", mode="ask_always"))
        assert isinstance(await house.call("add", {"a": 2}, caller=careful, call_id="c2"), Pending)
        [question] = await store.questions.open_for(owner=careful.who.owner)
        await store.questions.answer(question.id, Answer("allow"), owner=careful.who.owner)
        assert await house.engine.resume("c2", careful) == succeed(2)
        await house.call("later", call_id="c3")
        assert await house.engine.settle("c3", succeed("there")) == succeed("there")
        await house.engine.close()
    assert seen == [("done",)] * 4


def test_without_a_bus_nothing_is_done() -> None:
    record = CallRecord("c1", "t", None, {}, "o", "s", "a", 0.0)  # type: ignore[arg-type] # it is not read
    written = object()
    assert publish_when_stored(None, written, record) is written  # type: ignore[arg-type] # nor at this
