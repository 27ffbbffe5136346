"""A gateway that runs, and a client of it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.gateway.rest.served import Rest, RestClient, serving, settings


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[RestClient]:
    """The operator's requests to a fresh gateway."""
    async with serving(Rest(settings(tmp_path))) as client:
        yield client


@pytest.fixture
def rest(client: RestClient) -> Rest:
    """That gateway from inside."""
    return client.rest
