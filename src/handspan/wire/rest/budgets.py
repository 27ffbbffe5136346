"""Budgets in REST: how much models may cost, and what is spent (SPEC L5). All amounts are US dollars."""

from typing import Annotated

from msgspec import Meta, Struct

from handspan.core.budgets import BudgetPeriod


class BudgetView(Struct, frozen=True):
    """One limit, and how far it is used."""

    of: str
    """Empty for all; else `owner:NAME` or `agent:NAME`."""
    period: BudgetPeriod
    limit: float
    """What the settings say."""
    added: float
    """What persons added to it in this period."""
    spent: float
    reserved: float
    """For requests that are under way."""
    left: float
    free_on: str
    """The day on which the whole budget is there again, as 2026-01-31."""


class BudgetList(Struct, frozen=True):
    """The limits that the caller may see. Empty: there is no budget."""

    day: str
    """Today, in the zone of the budget."""
    budgets: list[BudgetView]


class BudgetAddition(Struct, frozen=True, forbid_unknown_fields=True):
    """Money to add to a budget for today."""

    dollars: Annotated[float, Meta(gt=0, le=1_000_000)]
    of: Annotated[str, Meta(max_length=200)] = ""
    """Whose budget: empty for that of all; else `owner:NAME` or `agent:NAME`."""
