"""A Node process for each file, and a gateway for each test."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.gateway.agui.kit import Node, Place, place


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """The process with all clients. None of them may have anything to warn of."""
    node = Node()
    try:
        yield node
        assert not node.warnings
    finally:
        node.close()


@pytest.fixture
async def there(node: Node, tmp_path: Path) -> AsyncIterator[Place]:
    """The gateway, with a model that does what it is told."""
    async with place(node, tmp_path) as there:
        yield there
