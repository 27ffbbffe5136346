"""What the tests of conversations may ask for."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.gateway.sessions.talking import House


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    """Turns with a model that plays what it is told."""
    async with House(tmp_path) as house:
        yield house
