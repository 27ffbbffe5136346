"""A gateway with one client, for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.gateway.graph.house import House, Page, house


@pytest.fixture
async def there(tmp_path: Path) -> AsyncIterator[House]:
    """The gateway."""
    async with house(tmp_path) as there:
        yield there


@pytest.fixture
def page(there: House) -> Page:
    """The operator's client."""
    return there.page
