"""The engine over the store: what a call goes through is still there after a restart."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from handspan.core.agents import Agent
from handspan.core.calls import ToolCall
from handspan.core.context import ToolContext
from handspan.core.principals import OPERATOR
from handspan.core.questions import Answer
from handspan.core.results import Failure, Pending, Success, succeed
from handspan.core.tool import READ_ONLY, Annotations
from tests.engine.engine_kit import EngineKit, call_all
from tests.stores import commits_of, open_store, rows_in
from tests.waiting import soon

pytestmark = pytest.mark.anyio

CAREFUL = Agent("Careful", mode="ask_always")


class Process(EngineKit):
    """One life of the gateway: a store and an engine over it."""

    def __init__(self, state: Path) -> None:
        self.store = open_store(state)
        super().__init__(state, ledger=self.store.ledger, questions=self.store.questions)
        self.ran: list[object] = []

        def write(text: str) -> str:
            self.ran.append(text)
            return f"wrote {text}"

        def look() -> list[dict[str, object]]:
            return [{"state": row[0]} for row in rows_in(state, "SELECT state FROM calls WHERE name = 'write'")]

        async def ask_browser() -> Pending:
            return Pending(expires_in=600)

        self.add(write)
        self.add(look, annotations=READ_ONLY)
        self.add(ask_browser)

    async def open(self) -> None:
        await soon(self.store.open())
        await soon(self.store.recover())

    async def close(self) -> None:
        await self.engine.close()
        await soon(self.store.close())


@pytest.fixture
async def process(state: Path) -> AsyncIterator[Process]:
    process = Process(state)
    await process.open()
    yield process
    await process.close()


async def test_an_id_that_was_used_in_another_life_is_refused(process: Process, state: Path) -> None:
    assert await process.value("write", {"text": "a"}, call_id="c1") == "wrote a"
    await process.close()
    later = Process(state)
    await later.open()
    assert (await later.failure("write", {"text": "b"}, call_id="c1")).code == "invalid_arguments"
    assert (await later.failure("look", call_id="c1")).code == "invalid_arguments"
    assert later.ran == []
    kept = await soon(later.store.ledger.get("c1", owner=OPERATOR.owner))
    assert isinstance(kept.result, Success) and kept.result.value == "wrote a"
    await later.close()


async def test_every_call_is_in_the_journal_with_its_result(process: Process) -> None:
    await process.failure("nothing")
    await process.failure("write", {"text": 1})
    await process.value("write", {"text": "a"})
    await process.value("look")
    journal, _ = await soon(process.store.ledger.page(owner=OPERATOR.owner))
    seen = [(record.name, type(record.result).__name__) for record in reversed(journal)]
    assert seen == [("nothing", "Failure"), ("write", "Failure"), ("write", "Success"), ("look", "Success")]


async def test_many_calls_at_once_share_commits(process: Process) -> None:
    before = commits_of(process.store)
    calls = [ToolCall("write", {"text": str(number)}, f"c{number}") for number in range(60)]
    results = await soon(call_all(process.engine, calls, process.caller()))
    assert [result.value for result in results if isinstance(result, Success)] == [f"wrote {n}" for n in range(60)]
    assert commits_of(process.store) - before < 60  # each has two writes


async def test_a_cancelled_call_has_its_result(process: Process) -> None:
    blocked = asyncio.Event()

    async def stay() -> None:
        blocked.set()
        await asyncio.Event().wait()

    process.add(stay)
    task = process.start("stay", call_id="c1")
    await soon(blocked.wait())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await soon(task)
    kept = await soon(process.store.ledger.get("c1", owner=OPERATOR.owner))
    assert isinstance(kept.result, Failure) and kept.result.code == "cancelled"


async def test_an_outcome_that_comes_in_another_life_reaches_its_call(process: Process, state: Path) -> None:
    assert isinstance(await process.call("ask_browser", call_id="c1"), Pending)
    await process.close()
    later = Process(state)
    await later.open()
    settled = await soon(later.engine.settle("c1", succeed("from the browser")))
    assert isinstance(settled, Success) and settled.value == "from the browser"
    assert await soon(later.engine.settle("c1", Failure("timeout", "late"))) is None
    assert (await soon(later.store.ledger.get("c1", owner=OPERATOR.owner))).result == settled
    await later.close()


@pytest.mark.parametrize("read_only", [True, False])
async def test_an_outcome_that_comes_before_the_disk_has_written_pending_is_not_lost(
    process: Process, read_only: bool
) -> None:
    settled: list[asyncio.Task[object]] = []

    async def click(ctx: ToolContext) -> Pending:
        settled.append(asyncio.create_task(process.engine.settle(ctx.call_id, succeed("clicked"))))
        return Pending(expires_in=600)

    process.add(click, annotations=Annotations(read_only=read_only))
    result = await process.call("click", call_id="c1")
    assert isinstance(result, Success) and result.value == "clicked"
    assert await soon(settled[0]) == Pending()
    assert await soon(process.engine.result("c1")) == result
    kept = await soon(process.store.ledger.get("c1", owner=OPERATOR.owner))
    assert (kept.state, kept.result) == ("done", result)


async def test_an_outcome_for_a_call_that_runs_in_another_process_is_refused(process: Process, state: Path) -> None:
    blocked, release = asyncio.Event(), asyncio.Event()

    async def click() -> str:
        blocked.set()
        await release.wait()
        return "mine"

    process.add(click)
    task = process.start("click", call_id="c1")
    await soon(blocked.wait())
    other = Process(state)
    await other.open()
    assert await soon(other.engine.settle("c1", succeed("forged"))) is None
    await other.close()
    release.set()
    result = await soon(task)
    assert result.value == "mine"


async def test_a_call_that_waits_for_a_person_goes_on_in_another_life(process: Process, state: Path) -> None:
    careful = process.caller(CAREFUL)
    assert isinstance(await process.call("write", {"text": "a"}, caller=careful, call_id="c1"), Pending)
    await process.close()
    assert process.ran == []
    later = Process(state)
    await later.open()
    careful = later.caller(CAREFUL)
    assert isinstance(await soon(later.engine.resume("c1", careful)), Pending)
    (asked,) = await soon(later.store.questions.open_for(owner=OPERATOR.owner))
    assert await soon(
        later.store.questions.answer(asked.id, Answer("allow", arguments={"text": "b"}), owner=OPERATOR.owner)
    )
    result = await soon(later.engine.resume("c1", careful))
    assert isinstance(result, Success) and result.value == "wrote b"
    assert later.ran == ["b"]
    assert await soon(later.engine.resume("c1", careful)) is None
    await later.close()


async def test_a_no_is_a_no_in_another_life(process: Process, state: Path) -> None:
    await process.call("write", {"text": "a"}, caller=process.caller(CAREFUL), call_id="c1")
    (asked,) = await soon(process.store.questions.open_for(owner=OPERATOR.owner))
    await soon(process.store.questions.answer(asked.id, Answer("deny"), owner=OPERATOR.owner))
    await process.close()
    later = Process(state)
    await later.open()
    result = await soon(later.engine.resume("c1", later.caller(CAREFUL)))
    assert isinstance(result, Failure) and result.code == "approval_denied"
    assert later.ran == []
    await later.close()
