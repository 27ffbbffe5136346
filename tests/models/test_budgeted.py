"""What a request reserves before it is sent, and what it is settled with (SPEC L5)."""

from typing import Any, Final

import pytest

from handspan.config.settings import ModelPrice, ModelSettings
from handspan.core.budgets import CostEstimate, LimitState, NoRoom, Payer, Reservation, to_nano
from handspan.core.messages import Api, Usage
from handspan.models.budgeted import BudgetedModel
from handspan.models.chain import ModelChain, RestingModels
from handspan.models.choice import codec_for, target_for
from handspan.models.http import HttpModel
from handspan.models.model import Model, ModelError
from handspan.models.prices import FREE
from handspan.models.scripted import Scripted, ScriptedReply
from handspan.models.wishes import ReplyWishes, with_wishes
from handspan.net.guard import NetGuard
from tests.models.conversations import APIS, MODELS, TOOLS, user
from tests.models.fake_server import KEY, FakeModelServer, Turn

pytestmark = pytest.mark.anyio
PRICE: Final = ModelPrice(2.0, 10.0)


class Noted:
    """A budget without end that notes what is reserved, and what it is settled with."""

    limits_now = True
    running = 0

    def __init__(self) -> None:
        self.reserved: list[CostEstimate] = []
        self.settled: list[tuple[str, int, int]] = []
        self._open: set[str] = set()

    async def reserve_now(self, estimate: CostEstimate) -> Reservation | NoRoom:
        self.reserved.append(estimate)
        held = Reservation(f"r{len(self.reserved)}", "2026-01-31", Payer("ann"), estimate.model, nano=1)
        self._open.add(held.id)
        return held

    async def reserve(self, estimate: CostEstimate) -> Reservation:
        raise AssertionError("there is always room")

    def end(self, reservation: Reservation, nano: int, output: int = 0) -> None:
        if reservation.id in self._open:  # later notes are ignored
            self._open.discard(reservation.id)
            self.settled.append((reservation.model, nano, output))

    def describe(self, state: LimitState) -> str:
        raise AssertionError("nothing is spent")


def paid(model: Model, budget: Noted, price: ModelPrice = PRICE, **options: Any) -> BudgetedModel:
    return BudgetedModel(model, budget, price, model_id=f"id of {model.name}", options=options)


async def ask(model: Model, words: str = "Hello") -> None:
    projection = model.projection("Be brief.")
    projection.append(user(words))
    async for _ in model.reply(projection, TOOLS):
        pass


@pytest.mark.parametrize(
    ("options", "output"),
    [
        ({}, None),
        ({"max_tokens": 100}, 100),
        ({"max_completion_tokens": 200}, 200),
        ({"max_output_tokens": 300}, 300),
        ({"generationConfig": {"maxOutputTokens": 400}}, 400),
        ({"max_tokens": "many"}, None),
    ],
)
async def test_the_most_output_is_that_of_the_options_else_the_store_knows_it(
    options: dict[str, Any], output: int | None
) -> None:
    budget = Noted()
    await ask(paid(Scripted(["Hi."], name="m"), budget, **options))
    (estimate,) = budget.reserved
    assert (estimate.model, estimate.output_nano, estimate.output) == ("id of m", to_nano(10.0), output)


@pytest.mark.parametrize("api", APIS)
async def test_a_request_reserves_for_all_that_is_sent_and_for_the_output_that_a_client_wishes(api: Api) -> None:
    budget = Noted()
    async with FakeModelServer([Turn(text="Hi.", input=50, output=2)]) as server:
        given = ModelSettings(api, server.url(api), KEY, MODELS[api])
        model = HttpModel(codec_for(api, MODELS[api], given.base_url), NetGuard(), given, target=target_for(api))
        await ask(with_wishes(paid(model, budget, max_tokens=10), ReplyWishes(max_tokens=5000)), "four " * 6000)
        await model.close()
        assert "5000" in str(server.asked[0].body), "the wish is sent in place of what the settings say"
    (estimate,) = budget.reserved
    assert estimate.output == 5000
    assert estimate.input_nano > 6000 * to_nano(2.0) // 1_000_000, "each word is a token"


async def test_a_wish_that_the_model_is_not_told_counts_nothing() -> None:
    budget = Noted()
    model = paid(Scripted(["Hi."], name="m"), budget, max_tokens=10)
    await ask(with_wishes(model, ReplyWishes(max_tokens=5000)))
    assert [one.output for one in budget.reserved] == [10]


async def test_each_model_of_a_list_reserves_for_itself_and_one_that_is_refused_costs_nothing() -> None:
    budget = Noted()
    busy = paid(Scripted([ModelError("overloaded", "Too busy.")], name="one"), budget)
    other = paid(Scripted([ScriptedReply(("Hi.",), Usage(1000, 100))], name="two"), budget)
    await ask(ModelChain([busy, other], RestingModels()))
    assert [one.model for one in budget.reserved] == ["id of one", "id of two"]
    assert budget.settled == [("id of one", 0, 0), ("id of two", to_nano(0.003), 100)]


async def test_a_model_that_is_free_reserves_nothing_unless_it_has_a_price() -> None:
    budget = Noted()
    await ask(paid(Scripted(["Hi."], name="m"), budget, FREE))
    assert budget.reserved == []
    await ask(paid(Scripted(["Hi."], name="m"), budget, ModelPrice(0.0, 1.0)))
    assert len(budget.reserved) == 1
