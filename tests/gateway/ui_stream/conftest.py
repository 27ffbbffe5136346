"""A gateway and the AI SDK's client. All tests of a file share the client's process."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.gateway.ui_stream.kit import Pages, UiFront, ui_front


@pytest.fixture(scope="module")
def pages() -> Iterator[Pages]:
    """The process with the client's chats."""
    pages = Pages()
    yield pages
    pages.close()


@pytest.fixture
async def there(tmp_path: Path, pages: Pages) -> AsyncIterator[UiFront]:
    """The gateway, with a model that does what it is told."""
    async with ui_front(tmp_path, pages) as there:
        yield there
