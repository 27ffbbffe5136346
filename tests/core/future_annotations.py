"""A module of tools whose annotations are only text: what `from __future__ import annotations` makes of them."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel

from handspan.core.context import ToolContext

if TYPE_CHECKING:
    from decimal import Decimal


class Unit(enum.Enum):
    METRIC = "metric"
    IMPERIAL = "imperial"


class Place(BaseModel):
    city: str
    inside: Place | None = None


def weather(place: Place, ctx: ToolContext, unit: Annotated[Unit, "of the answer"] = Unit.METRIC) -> Decimal:
    """Tell the weather."""
    return [place, unit, ctx.call_id]  # type: ignore[return-value] # what it returns does not matter here


def price(amount: Decimal) -> str:
    """Tell the price, in a type that is not there at run time."""
    return str(amount)
