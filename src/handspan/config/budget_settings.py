"""How much models may cost: for all, for each owner, for some (SPEC L5). An agent's limits are in its own section."""

from typing import Annotated

from msgspec import Meta, Struct

from handspan.config.kinds import Dollars, NotEmpty
from handspan.core.budgets import BudgetLimits


class BudgetSettings(Struct, frozen=True):
    """The most that models may cost, in US dollars. What was spent counts from the first request under a limit on."""

    day: Dollars | None = None
    """In one day, all together; unset: no limit."""
    month: Dollars | None = None
    """In one calendar month, all together; unset: no limit."""
    each_owner: BudgetLimits = BudgetLimits()
    """For each owner: `{ day = 1, month = 10 }`."""
    owners: dict[NotEmpty, BudgetLimits] = {}
    """For owners by name, in place of `each_owner`."""
    step: Annotated[float, Meta(gt=0, description="an amount of US dollars above 0")] = 2.0
    """What a person is asked to add when a budget is spent."""
    zone: str = ""
    """The time zone in which days and months begin, such as `Europe/Berlin`; empty: that of this computer."""

    @property
    def has_limits(self) -> bool:
        """Whether any limit is set here."""
        limits = [BudgetLimits(self.day, self.month), self.each_owner, *self.owners.values()]
        return any(one != BudgetLimits() for one in limits)
