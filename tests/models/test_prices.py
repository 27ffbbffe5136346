"""Cost where it is known; what is unknown stays unknown and is never 0 (SPEC L4)."""

import subprocess
import sys
from pathlib import Path

import pytest

from handspan.config.settings import ModelPrice
from handspan.core.messages import Usage
from handspan.models.prices import FREE, cost, price_here, price_of
from tests.waiting import WAIT

PRICE = ModelPrice(2.0, 10.0, 0.5)


@pytest.mark.parametrize(
    "model", ["", "offline", "gpt-5-of-mine", "my-gpt-5", "gpt-5-2025", "llama3:8b", "deepseek-r1:8b"]
)
def test_a_name_that_only_looks_like_a_known_one_has_no_price(model: str) -> None:
    assert price_of(model) is None


@pytest.mark.parametrize(
    ("usage", "price"),
    [
        (None, PRICE),
        (Usage(1, 1), None),
        (Usage(None, 1), PRICE),
        (Usage(1, None), PRICE),
        (Usage(), PRICE),
        (Usage(1, 1), ModelPrice(None, 1.0)),
        (Usage(1, 1), ModelPrice(1.0)),
        (Usage(9, 1, 9), ModelPrice(None, 1.0)),
    ],
)
def test_cost_is_unknown_when_anything_it_needs_is(usage: Usage | None, price: ModelPrice | None) -> None:
    assert cost(usage, price) is None


def test_a_date_in_the_name_makes_no_other_model() -> None:
    assert price_of("gpt-4o-2024-08-06") == price_of("gpt-4o") == ModelPrice(2.5, 10, 1.25)
    assert price_of("claude-sonnet-4-5-20250929") == price_of("claude-sonnet-4-5") == ModelPrice(3, 15, 0.3, 3.75)


def test_the_settings_win_even_with_a_price_of_nothing() -> None:
    assert price_of("gpt-4o", ModelPrice(1.0, 1.0)) == ModelPrice(1.0, 1.0)
    assert price_of("gpt-4o", ModelPrice(0.0, 0.0)) == ModelPrice(0.0, 0.0)
    assert price_of("gpt-4o", ModelPrice()) == price_of("gpt-4o")


def test_cached_input_has_its_own_price_where_there_is_one() -> None:
    usage = Usage(1_000_000, 100_000, 400_000)
    assert cost(usage, PRICE) == pytest.approx(1.2 + 0.2 + 1.0)
    assert cost(usage, ModelPrice(2.0, 10.0)) == pytest.approx(3.0)
    assert cost(Usage(10, 0, 99), PRICE) == pytest.approx(10 * 0.5 / 1e6)


def test_input_that_is_written_to_a_cache_has_its_own_price_where_there_is_one() -> None:
    usage = Usage(1_000_000, 0, 400_000, cache_written=500_000)
    assert cost(usage, ModelPrice(2.0, 10.0, 0.5, 2.5)) == pytest.approx(0.2 + 0.2 + 1.25)
    assert cost(usage, PRICE) == pytest.approx(0.2 + 0.2 + 1.0)
    assert cost(Usage(10, 0, 4, cache_written=99), ModelPrice(2.0, 10.0, 0.5, 2.5)) == pytest.approx(17e-6)


def test_what_costs_nothing_is_known_to_cost_nothing() -> None:
    assert cost(Usage(10, 10), ModelPrice(0.0, 0.0)) == 0.0
    assert cost(Usage(10, 0), ModelPrice(1.0)) == pytest.approx(1e-5)


def test_a_model_that_costs_more_with_a_long_input_has_both_prices() -> None:
    short, long = Usage(200_000, 1), Usage(200_001, 1)
    assert price_of("gemini-2.5-pro", usage=short) == ModelPrice(1.25, 10, 0.125)
    assert price_of("gemini-2.5-pro", usage=long) == ModelPrice(2.5, 15, 0.25)
    assert price_of("gemini-2.5-pro", ModelPrice(1.0, 1.0), long) == ModelPrice(1.0, 1.0)


@pytest.mark.parametrize(
    ("model", "address", "price"),
    [
        ("llama3.2", "http://127.0.0.1:11434/v1", FREE),
        ("llama3.2", "http://localhost:11434/v1", FREE),
        ("llama3.2", "http://[::1]:11434/v1", FREE),
        ("llama3.2", "http://10.0.0.7:11434/v1", ModelPrice()),
        ("llama3.2", "https://models.example/v1", ModelPrice()),
        ("gpt-5.5", "http://127.0.0.1:4000/v1", ModelPrice()),
    ],
)
def test_a_model_at_this_computer_is_free_unless_it_is_known_to_cost_money(
    model: str, address: str, price: ModelPrice
) -> None:
    assert price_here(model, address) == price


@pytest.mark.outside
def test_a_start_and_a_model_that_is_not_priced_read_no_prices() -> None:
    script = """
import asyncio, sys
from handspan import Handspan
from handspan.models import prices

async def main():
    async with Handspan(model="offline") as hands:
        await hands.ask("hi")

asyncio.run(main())
assert prices._known_models.cache_info().misses == 0, "the data are read when they are first needed"
assert "genai_prices" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], timeout=WAIT, check=True)


@pytest.mark.outside
def test_the_data_are_those_of_the_installed_package() -> None:
    script = Path(__file__).parents[2] / "scripts" / "prices.py"
    done = subprocess.run(
        [sys.executable, script, "--check"], capture_output=True, encoding="utf-8", timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.outside
def test_costs_are_those_that_the_package_works_out() -> None:
    from genai_prices import Usage as Given  # noqa: PLC0415 - loading it takes long
    from genai_prices import calc_price  # noqa: PLC0415
    from genai_prices.data import providers  # noqa: PLC0415

    usages = (Usage(1_000, 500, 300), Usage(150_000, 10, 0), Usage(400_000, 10, 100_000, cache_written=50_000))
    compared = 0
    for provider in providers:
        for model in provider.models if provider.id in ("anthropic", "openai", "google", "x-ai") else ():
            for usage in usages if price_of(model.id) is not None else ():
                price = price_of(model.id, usage=usage)
                if (
                    price is None
                    or price.input is None
                    or price.output is None
                    or (price.cache_write is None and usage.cache_written)
                ):
                    continue
                given = Given(
                    input_tokens=usage.input,
                    output_tokens=usage.output,
                    cache_read_tokens=usage.cached,
                    cache_write_tokens=usage.cache_written,
                )
                wanted = calc_price(given, model.id, provider_id=provider.id).total_price
                assert cost(usage, price) == pytest.approx(float(wanted)), (model.id, usage)
                compared += 1
    assert compared > 200
