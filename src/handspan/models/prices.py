"""The prices of models (SPEC M6). An unknown price is None, never 0.

These are list prices of the month `AS_OF`, in US dollars for a million tokens. Prices change: the settings
(`models.NAME.price`) win over this table.
"""

import re
from typing import Final

from handspan.config.settings import ModelPrice
from handspan.core.messages import Usage

AS_OF: Final = "2025-12"

_PRICES: Final[dict[str, ModelPrice]] = {
    "claude-opus-4-5": ModelPrice(5, 25, 0.5, 6.25),
    "claude-sonnet-4-5": ModelPrice(3, 15, 0.3, 3.75),
    "claude-haiku-4-5": ModelPrice(1, 5, 0.1, 1.25),
    "gpt-5": ModelPrice(1.25, 10, 0.125),
    "gpt-5-mini": ModelPrice(0.25, 2, 0.025),
    "gpt-5-nano": ModelPrice(0.05, 0.4, 0.005),
    "gpt-4.1": ModelPrice(2, 8, 0.5),
    "gpt-4.1-mini": ModelPrice(0.4, 1.6, 0.1),
    "gpt-4.1-nano": ModelPrice(0.1, 0.4, 0.025),
    "gpt-4o": ModelPrice(2.5, 10, 1.25),
    "gpt-4o-mini": ModelPrice(0.15, 0.6, 0.075),
}
_DATED: Final = r"-(\d{4}-\d{2}-\d{2}|\d{8})$"


def price_of(model: str, own: ModelPrice | None = None) -> ModelPrice | None:
    """Return the price of a model: `own` (that of the settings) if given, else the list price, else None.

    A name with a date means the same model as the name without it. A longer name means another model.
    """
    if own is not None and own != ModelPrice():
        return own
    return _PRICES.get(re.sub(_DATED, "", model))


def cost(usage: Usage | None, price: ModelPrice | None) -> float | None:
    """Return the cost in US dollars; None when the price or a needed count is unknown."""
    if usage is None or price is None or usage.input is None or usage.output is None:
        return None
    cached = min(usage.cached or 0, usage.input)
    written = min(usage.cache_written or 0, usage.input - cached)
    amounts = (
        (usage.input - cached - written, price.input),
        (cached, price.input if price.cached is None else price.cached),
        (written, price.input if price.cache_write is None else price.cache_write),
        (usage.output, price.output),
    )
    if any(tokens and dollars is None for tokens, dollars in amounts):
        return None
    return sum(tokens * (dollars or 0.0) for tokens, dollars in amounts) / 1_000_000
