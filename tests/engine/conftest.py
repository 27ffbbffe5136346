"""What tests of the engine may ask for."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engine.house import House, left_behind

MakeHouse = Callable[..., House]


@pytest.fixture
async def make_house(tmp_path: Path) -> AsyncIterator[MakeHouse]:
    """Makes houses; at the end they are closed, and no task may be left behind."""
    houses: list[House] = []

    def make(**options: Any) -> House:
        houses.append(House(tmp_path, **options))
        return houses[-1]

    yield make
    for house in houses:
        await house.engine.close()
        assert not house.engine.watchdog._is_busy(), "a gate is not empty"
    assert left_behind() == []


@pytest.fixture
def house(make_house: MakeHouse) -> House:
    """A house with nothing special about it."""
    return make_house()
