"""What the tests of conversations may ask for."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.gateway.sessions.session_kit import SessionKit


@pytest.fixture
async def kit(tmp_path: Path) -> AsyncIterator[SessionKit]:
    """Turns with a model that plays what it is told."""
    async with SessionKit(tmp_path) as kit:
        yield kit
