"""What models cost, and how much they read (SPEC M6, L4). What is not known is None, never 0.

The data are list prices in US dollars for a million tokens: `assets/prices.json`, which `make docs` writes from the
package genai-prices and which is read when it is first needed. Nothing is fetched. Prices change: the settings
(`models.NAME.price`) win over the data.
"""

import re
from datetime import UTC, datetime
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from handspan.config.settings import ModelPrice
from handspan.core.messages import Usage
from handspan.net.addresses import special_kind
from handspan.net.urls import address_of, parse_url

FREE: Final = ModelPrice(0.0, 0.0)
"""The price of a model that runs here."""
_FILE: Final = Path(__file__).parents[1] / "assets" / "prices.json"
_MAKERS: Final = ("", "anthropic", "openai", "google", "x-ai")
"""What may stand before the slash in a model's name."""
_DATED: Final = re.compile(r"-(\d{4})(\d{2})(\d{2})$")


class _Rates(Struct, array_like=True):
    """The prices for requests with more input tokens than `above`."""

    above: int
    input: float | None
    output: float | None
    cached: float | None
    cache_write: float | None


class _Prices(Struct, array_like=True):
    """The prices from a day on."""

    since: str
    rates: list[_Rates]


class _KnownModel(Struct, array_like=True):
    """A model in the data."""

    rule: list[Any]
    """Which names mean it: a word and a text, or `or` and `and` with rules."""
    window: int | None
    """How many tokens it reads."""
    prices: list[_Prices]


class _Known(Struct):
    """The data."""

    models: list[_KnownModel]


def price_of(model: str, own: ModelPrice | None = None, usage: Usage | None = None) -> ModelPrice | None:
    """Return the price of a model: `own` (that of the settings) if given, else the list price, else None.

    `usage`: of the request, for models that cost more with a long input.
    """
    if own is not None and own != ModelPrice():
        return own
    known = _find(model)
    if known is None:
        return None
    today = datetime.now(UTC).date().isoformat()
    valid = next((one for one in reversed(known.prices) if one.since <= today), known.prices[0])
    count = 0 if usage is None else usage.input or 0
    rates = next((one for one in reversed(valid.rates) if count > one.above), valid.rates[0])
    return ModelPrice(rates.input, rates.output, rates.cached, rates.cache_write)


def window_of(model: str) -> int | None:
    """Return how many tokens a known model reads; None for any other (SPEC L1)."""
    known = _find(model)
    return None if known is None else known.window


def price_here(model: str, address: str) -> ModelPrice:
    """Return that a model at this address of a server costs nothing, if it is this computer's and not in the data.

    Else return an unset price: that of the data holds, if there is one.
    """
    host = parse_url(address).host
    number = address_of(host)
    is_here = host == "localhost" or (number is not None and special_kind(number) == "loopback")
    return FREE if is_here and price_of(model) is None else ModelPrice()


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


@cache
def _known_models() -> list[_KnownModel]:
    """Return the data, which the first reply of a model reads."""
    return msgspec.json.decode(_FILE.read_bytes(), type=_Known).models


@lru_cache(maxsize=256)
def _find(name: str) -> _KnownModel | None:
    """Return the model that a name means: `claude-sonnet-5`, at some servers `anthropic/claude-sonnet-5`.

    A date is written in two ways: `-20250929`, `-2025-09-29`.
    """
    maker, _, after = name.lower().rpartition("/")
    if maker not in _MAKERS:
        return None
    names = dict.fromkeys((after, _DATED.sub(r"-\1-\2-\3", after)))
    return next((one for each in names for one in _known_models() if _fits(each, one.rule)), None)


def _fits(name: str, rule: list[Any]) -> bool:
    """Whether the model of this name is meant by this rule."""
    match rule:
        case ["equals", text]:
            return bool(name == text)
        case ["starts", text]:
            return name.startswith(text)
        case ["ends", text]:
            return name.endswith(text)
        case ["contains", text]:
            return text in name
        case ["regex", text]:
            return re.search(text, name) is not None
        case ["or", *rules]:
            return any(_fits(name, each) for each in rules)
        case ["and", *rules]:
            return all(_fits(name, each) for each in rules)
    return False
