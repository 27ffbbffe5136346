"""A hard limit on money: whose, how much, and what a request to a model takes of it (SPEC L5).

Amounts are whole billionths of a dollar, so that sums are exact. A day is named as `2026-01-31`, in the zone of the
settings; what a request costs counts for the day on which it began.
"""

from collections.abc import Callable
from contextvars import ContextVar
from datetime import date, timedelta
from math import ceil
from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta, Struct

BudgetPeriod: TypeAlias = Literal["day", "month"]
NANO: Final = 1_000_000_000
EVERYONE: Final = ""
"""Whose budget is for all: see `BudgetLimit.of`."""
_Most: TypeAlias = Annotated[float, Meta(ge=0, description="an amount of US dollars, 0 or more")]


class BudgetLimits(Struct, frozen=True, forbid_unknown_fields=True):
    """How many US dollars models may cost. Unset: as much as they do."""

    day: _Most | None = None
    """In one day."""
    month: _Most | None = None
    """In one calendar month."""


class BudgetLimit(Struct, frozen=True):
    """One limit that holds for a request."""

    of: str
    """Whose it is: empty for all, `owner:NAME` or `agent:NAME`."""
    period: BudgetPeriod
    nano: int


class Payer(Struct, frozen=True):
    """For whom a model is asked, and which limits hold for that."""

    owner: str
    agent: str = ""
    session: str = ""
    own: BudgetLimits = BudgetLimits()
    """The limits of the agent."""
    may_add: bool = True
    """Whether a person of the owner can be asked for more money, and may give it."""


class CostEstimate(Struct, frozen=True):
    """What a request may cost."""

    model: str
    """The name under which the largest reply is remembered."""
    input_nano: int
    """For what is sent."""
    output_nano: int
    """For a million tokens of the reply."""
    output: int | None
    """The most tokens of the reply; None: as many as the largest reply so far."""


class Reservation(Struct, frozen=True):
    """Money that a request has reserved."""

    id: str
    day: str
    payer: Payer
    model: str
    nano: int
    low: tuple["LimitState", ...] = ()
    """The limits of which four fifths are spent, and of which no person was told that before."""


class Settlement(Struct, frozen=True):
    """What a request did cost. It takes the place of its reservation."""

    reservation: Reservation
    nano: int
    output: int = 0
    """Tokens of the reply, if it was the model that counted them."""


class LimitState(Struct, frozen=True):
    """How far a limit is used."""

    limit: BudgetLimit
    spent: int
    held: int
    """Reserved for requests that are under way."""
    added: int
    """What a person added to it."""

    @property
    def most(self) -> int:
        """All that may be spent."""
        return self.limit.nano + self.added

    @property
    def left(self) -> int:
        """What is left without the requests that are under way."""
        return max(0, self.most - self.spent)


class NoRoom(Struct, frozen=True):
    """A request does not fit into the budget now."""

    nano: int
    """What it may cost."""
    spent: tuple[LimitState, ...]
    """The limits into which it does not fit, whatever the requests under way cost. Empty: it fits when they end."""


class Addition(Struct, frozen=True):
    """Money that a person added to a budget, for one day."""

    id: str
    """Two additions with one id are one."""
    of: str
    day: str
    nano: int


def to_nano(dollars: float) -> int:
    """Return the amount; a part of a billionth counts as a whole one."""
    return ceil(round(dollars * NANO, 3))


def to_dollars(nano: int) -> float:
    """Return the amount in US dollars."""
    return nano / NANO


def dollars_text(dollars: float) -> str:
    """Return the amount for a person: in cents, or with more places if it is small and has no whole cents."""
    is_in_cents = dollars >= 0.1 or abs(dollars * 100 - round(dollars * 100)) < 1e-6
    return f"${dollars:.2f}" if is_in_cents else f"${dollars:.4f}"


def first_day(period: BudgetPeriod, day: str) -> str:
    """Return the day with which the period of this day began."""
    return day if period == "day" else f"{day[:8]}01"


def next_period(period: BudgetPeriod, day: str) -> str:
    """Return the day with which the next period begins."""
    today = date.fromisoformat(day)
    if period == "day":
        return str(today + timedelta(days=1))
    return str((today.replace(day=1) + timedelta(days=32)).replace(day=1))


def limits_of(of: str, limits: BudgetLimits) -> list[BudgetLimit]:
    """Return the limits that are set. `of`: whose they are."""
    pairs: tuple[tuple[BudgetPeriod, float | None], ...] = (("day", limits.day), ("month", limits.month))
    return [BudgetLimit(of, period, to_nano(dollars)) for period, dollars in pairs if dollars is not None]


def scopes_of(payer: Payer) -> tuple[str, ...]:
    """Return whose budgets a request of this payer counts for."""
    return (EVERYONE, f"owner:{payer.owner}", f"agent:{payer.agent}")


FindPayer: TypeAlias = Callable[[], Payer]
paying: Final[ContextVar[Payer | None]] = ContextVar("paying", default=None)
"""For whom models are asked in the turn that runs; None outside turns."""
