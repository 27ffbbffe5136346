"""What the tests of the store may ask for."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from handspan.store.artifacts import FolderArtifacts
from handspan.store.sqlite.store import SqliteStore
from tests.store.things import Clock


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The state folder, which is not there yet."""
    return tmp_path / "state"


@pytest.fixture
def clock() -> Clock:
    """A clock that stands still until somebody moves it."""
    return Clock()


@pytest.fixture
async def store(state: Path, clock: Clock) -> AsyncIterator[SqliteStore]:
    """An open store."""
    async with SqliteStore(state, FolderArtifacts(state / "artifacts"), clock) as store:
        yield store
