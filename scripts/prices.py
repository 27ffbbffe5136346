"""Writes `src/handspan/assets/prices.json`: what models cost and how much they read, from the package genai-prices.

    python scripts/prices.py [--check]

The package is for development alone: at run time it would cost 0.4 s and 77 MB. With `--check` nothing is written, and
the exit code is 1 when the file differs from what would be written.
"""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import msgspec
from genai_prices import data
from genai_prices.types import ConditionalPrice, ModelInfo, ModelPrice, StartDateConstraint, TieredPrices

FILE: Final = Path(__file__).parents[1] / "src" / "handspan" / "assets" / "prices.json"
MAKERS: Final = ("anthropic", "openai", "google", "x-ai")
"""Makers whose models only they offer, so that a name tells the price. Others' models run on computers of one's own,
too, and cost something else at every server."""
OPEN_WEIGHTS: Final = ("gpt-oss", "gemma")
"""What these makers give away."""
KINDS: Final = ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok")
_WORDS: Final = {
    "ClauseEquals": ("equals", "equals"),
    "ClauseStartsWith": ("starts", "starts_with"),
    "ClauseEndsWith": ("ends", "ends_with"),
    "ClauseContains": ("contains", "contains"),
    "ClauseRegex": ("regex", "regex"),
    "ClauseOr": ("or", "or_"),
    "ClauseAnd": ("and", "and_"),
}


def main() -> int:
    """Write the file, or check it; the exit code."""
    made = {"source": f"genai-prices {version('genai-prices')}", "models": list(_models())}
    kept = msgspec.json.decode(FILE.read_bytes())
    kept.pop("date")
    if kept == msgspec.json.decode(msgspec.json.encode(made)):  # the date stays that of the last change
        return 0
    if "--check" in sys.argv[1:]:
        sys.stderr.write(f"{FILE.name} is not what the package says. Run: make docs\n")
        return 1
    head = f'{{"source": "{made["source"]}", "date": "{datetime.now(UTC).date()}", "models": ['
    lines = ",\n".join(msgspec.json.encode(model).decode() for model in made["models"])
    FILE.write_text(f"{head}\n{lines}\n]}}\n", encoding="utf-8")
    return 0


def _models() -> Iterator[Any]:
    """Yield for each model the rule for its name, its context window and its prices."""
    providers = {provider.id: provider for provider in data.providers}
    for name in MAKERS:
        for model in providers[name].models:
            if not model.id.startswith(OPEN_WEIGHTS) and (prices := list(_prices(model))):
                yield [_rule(model.match), model.context_window, prices]


def _rule(clause: Any) -> list[Any]:
    word, field = _WORDS[type(clause).__name__]
    value = getattr(clause, field)
    return [word, *map(_rule, value)] if isinstance(value, list) else [word, value]


def _prices(model: ModelInfo) -> Iterator[list[Any]]:
    """Yield the prices of a model, each with the day on which it begins; prices of some hours are left out."""
    given = [ConditionalPrice(prices=model.prices)] if isinstance(model.prices, ModelPrice) else model.prices
    for one in given:
        if one.constraint is None or isinstance(one.constraint, StartDateConstraint):
            since = "" if one.constraint is None else one.constraint.start_date.isoformat()
            starts = sorted({start for kind in KINDS for start in _starts(getattr(one.prices, kind))})
            yield [since, [[start, *(_price(getattr(one.prices, kind), start) for kind in KINDS)] for start in starts]]


def _starts(price: Any) -> list[int]:
    """Return the numbers of input tokens above which a price holds."""
    return [0, *(tier.start for tier in price.tiers)] if isinstance(price, TieredPrices) else [0]


def _price(price: Any, start: int) -> float | None:
    if isinstance(price, TieredPrices):
        return float(next((tier.price for tier in reversed(price.tiers) if tier.start <= start), price.base))
    return None if price is None else float(price)


if __name__ == "__main__":
    sys.exit(main())
