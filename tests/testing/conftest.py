"""A gateway to try the doubles on."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from handspan.testing import RunningGateway, running_gateway


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[RunningGateway]:
    """One that waits 2 s for devices that dropped."""
    async with running_gateway(tmp_path, gateway={"resume_grace": 2}) as running:
        yield running
