"""A gateway that is up, and somebody who knocks."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.gateway.rest.served import Knocking, Rest, serving, settings


@pytest.fixture
async def knocking(tmp_path: Path) -> AsyncIterator[Knocking]:
    """The operator's requests to a fresh gateway."""
    async with serving(Rest(settings(tmp_path))) as knocking:
        yield knocking


@pytest.fixture
def rest(knocking: Knocking) -> Rest:
    """That gateway from inside."""
    return knocking.rest
