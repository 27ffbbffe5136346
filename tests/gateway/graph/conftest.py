"""A gateway with one client, for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.gateway.graph.pages import Graph, Page, graph_gateway


@pytest.fixture
async def there(tmp_path: Path) -> AsyncIterator[Graph]:
    """The gateway."""
    async with graph_gateway(tmp_path) as there:
        yield there


@pytest.fixture
def page(there: Graph) -> Page:
    """The operator's client."""
    return there.page
