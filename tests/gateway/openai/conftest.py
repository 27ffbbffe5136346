"""A gateway with the real client, for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.gateway.openai.kit import Front, front


@pytest.fixture
async def there(tmp_path: Path) -> AsyncIterator[Front]:
    """The gateway, with a model that does what it is told."""
    async with front(tmp_path) as there:
        yield there
