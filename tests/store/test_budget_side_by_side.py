"""Turns side by side on two nodes with one budget: what may be spent, and what may be refused (SPEC L5)."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Struct, structs

from handspan.agent.budgets import Budgets
from handspan.bus.memory import MemoryBus
from handspan.config.budget_settings import BudgetSettings
from handspan.config.settings import ModelPrice, Settings
from handspan.core.budgets import (
    BudgetLimits,
    CostEstimate,
    NoRoom,
    Payer,
    Reservation,
    limits_of,
    paying,
    to_dollars,
    to_nano,
)
from handspan.core.images import ImageReader
from handspan.core.messages import Text, Usage, UserMessage
from handspan.core.questions import Answer, Opened, Question, ignore_opened
from handspan.core.store import BudgetBook, Store
from handspan.core.tool import ToolSpec
from handspan.models.budgeted import BudgetedModel
from handspan.models.kept_messages import KeptMessages
from handspan.models.model import ModelError, ModelEvent, Projection
from handspan.models.scripted import Scripted, ScriptedReply
from tests.stores import is_postgres, open_store, run_sql
from tests.thoroughness import examples
from tests.waiting import soon

PRICE: Final = ModelPrice(10.0, 10.0)
"""Ten dollars for a million tokens of either kind: a token is 10,000 billionths."""
OF_TOKEN: Final = to_nano(1e-5)


class Request(Struct, frozen=True):
    """One request: what it uses, how long it takes, whether it fails, at which node."""

    input: int
    output: int
    steps: int
    fails: bool
    node: int


class SlowModel:
    """A scripted model whose reply takes so many steps of the event loop, and may fail instead."""

    name = "slow"

    def __init__(self, request: Request) -> None:
        usage = Usage(request.input, request.output)
        failure = ModelError("overloaded", "Too busy.")
        self._script = Scripted([failure if request.fails else ScriptedReply(("Hi.",), usage)])
        self._steps = request.steps

    def projection(self, instructions: str = "") -> KeptMessages:
        return self._script.projection(instructions)

    async def reply(
        self, projection: Projection, specs: Sequence[ToolSpec], artifacts: ImageReader | None = None
    ) -> AsyncIterator[ModelEvent]:
        for _ in range(self._steps):
            await asyncio.sleep(0)
        async for event in self._script.reply(projection, specs, artifacts):
            yield event


class WatchedBook:
    """A book of budgets that notes what was reserved, and what was found to have no room."""

    def __init__(self, book: BudgetBook) -> None:
        self._book = book
        self.reserved: list[Reservation] = []
        self.full: list[NoRoom] = []
        self.settle, self.add, self.states = book.settle, book.add, book.states

    async def reserve(self, *given: object, **named: object) -> Reservation | NoRoom:
        found = await self._book.reserve(*given, **named)  # type: ignore[arg-type]
        if isinstance(found, Reservation):
            self.reserved.append(found)
        else:
            self.full.append(found)
        return found


class NoPerson:
    """Every question expires at once."""

    async def ask(self, question: Question, opened: Opened = ignore_opened) -> Answer:
        return Answer("expired")


REQUEST: Final = st.builds(
    Request,
    input=st.integers(0, 3000),
    output=st.integers(0, 3000),
    steps=st.integers(0, 5),
    fails=st.booleans(),
    node=st.integers(0, 1),
)


async def ask(model: BudgetedModel, number: int) -> str:
    """How one request ends: empty for an answer, else the fault."""
    paying.set(Payer("operator", "General", f"s{number}"))
    projection = model.projection()
    projection.append(UserMessage((Text("Hello " * 50),)))
    try:
        async for _ in model.reply(projection, ()):
            pass
    except ModelError as error:
        return error.fault
    return ""


async def two_stores(folder: Path, resources: AsyncExitStack) -> list[Store]:
    """The stores of two nodes. A database in a file has one node: there both use it."""
    first = await resources.enter_async_context(open_store(folder))
    return [first, await resources.enter_async_context(open_store(folder)) if is_postgres() else first]


async def spent_before(store: Store) -> int:
    """What earlier examples have spent: a database is used by all of them."""
    (state,) = await store.budgets.states(limits_of("", BudgetLimits(day=1.0)), day="1970-01-01")
    return state.spent


async def play(folder: Path, requests: Sequence[Request], dollars: float) -> None:
    bus = MemoryBus()
    async with AsyncExitStack() as resources:
        stores = await two_stores(folder, resources)
        await run_sql(stores[0], "DELETE FROM budget_guard")  # nodes must not need its row
        books = [WatchedBook(store.budgets) for store in stores]
        before = await spent_before(stores[0])
        budget = BudgetSettings(day=to_dollars(before) + dollars, zone="UTC")
        nodes = [Budgets(book, bus, Settings(folder, folder, budget=budget), NoPerson(), lambda: 0.0) for book in books]
        models = [
            BudgetedModel(SlowModel(one), nodes[one.node], PRICE, model_id="slow", options={"max_tokens": 1000})
            for one in requests
        ]
        work = [asyncio.create_task(ask(model, number)) for number, model in enumerate(models)]
        ends = await soon(asyncio.gather(*work))
        for node in nodes:
            await node.close()
        (state,) = await nodes[0].for_all()
        spent, most = state.spent - before, state.most - before

        answered = [one for one, end in zip(requests, ends, strict=True) if not end]
        assert spent == sum((one.input + one.output) * OF_TOKEN for one in answered), "each answer counts once"
        assert state.held == 0, "nothing stays reserved"
        estimate = books[0].reserved + books[1].reserved
        beyond = sum(
            max(0, (one.input + one.output) * OF_TOKEN - held.nano)
            for one, end in zip(requests, ends, strict=True)
            if not end
            for held in estimate
            if held.payer.session == f"s{requests.index(one)}"
        )
        assert spent <= most + beyond
        full = [one for book in books for one in book.full if one.spent]
        for refusal in full:
            for limit in refusal.spent:
                assert limit.spent + refusal.nano > limit.most, "it would have fitted with nothing under way"
        assert ends.count("budget_spent") <= len(full), "a request is refused only for what is spent"
        assert {*ends} <= {"", "overloaded", "budget_spent"}


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    requests=st.lists(REQUEST, min_size=1, max_size=12, unique=True),
    dollars=st.floats(0.005, 0.2),
)
def test_no_more_is_spent_than_the_budget_and_what_requests_used_beyond_their_estimates(
    tmp_path: Path, requests: list[Request], dollars: float
) -> None:
    folder = tmp_path / "state"
    shutil.rmtree(folder, ignore_errors=True)
    asyncio.run(play(folder, requests, dollars))


def test_the_estimate_is_what_the_price_of_the_tokens_makes_it() -> None:
    estimate = CostEstimate("m", 3 * OF_TOKEN, to_nano(10.0), 4)
    assert structs.asdict(estimate)["output"] * estimate.output_nano // 1_000_000 == 4 * OF_TOKEN
