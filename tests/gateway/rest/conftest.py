"""A gateway that is up, and somebody who knocks."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.gateway.rest.house import House, Knocking, serving, settings


@pytest.fixture
async def knocking(tmp_path: Path) -> AsyncIterator[Knocking]:
    """The operator's requests to a fresh gateway."""
    async with serving(House(settings(tmp_path))) as knocking:
        yield knocking


@pytest.fixture
def house(knocking: Knocking) -> House:
    """That gateway from inside."""
    return knocking.house
