"""Budgets: what is spent and left, and money for today. To add some needs the scope `admin` (SPEC L5)."""

from typing import Final

from handspan.core.budgets import to_dollars
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.rest.route import Family, RestRequest
from handspan.wire.rest import budgets as wire

family: Final = Family("budgets")


@family.get("/api/budgets")
async def budgets(request: RestRequest) -> wire.BudgetList:
    """How much models may cost, what is spent today and this month, and what is left."""
    known = request.app.budgets
    states = await known.states(known.known_limits(request.owner))
    return wire.BudgetList(
        known.today(),
        [
            wire.BudgetView(
                state.limit.of,
                state.limit.period,
                to_dollars(state.limit.nano),
                to_dollars(state.added),
                spent=to_dollars(state.spent),
                reserved=to_dollars(state.held),
                left=to_dollars(state.left),
                free_on=known.free_at(state.limit),
            )
            for state in states
        ],
    )


@family.post("/api/budgets/add", "admin", also_refuses=(404,))
async def add(request: RestRequest, body: wire.BudgetAddition) -> wire.BudgetList:
    """Add money to a budget for today."""
    known = request.app.budgets
    if body.of not in {limit.of for limit in known.known_limits(request.owner)}:
        whose = f" of {body.of!r}" if body.of else " for all"
        text = f"There is no budget{whose}: set one in the settings (budget, agents.NAME.budget)."
        raise Refusal(404, "not_found", text)
    await known.add(body.of, body.dollars)
    return await budgets(request)
