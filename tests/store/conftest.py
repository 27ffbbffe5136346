"""What the tests of the store may ask for."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from handspan.core.records import SessionRecord
from handspan.core.store import Store
from tests.postgres_engine import HOW_TO_INSTALL, find_programs, reused_schemas
from tests.store.things import Clock
from tests.stores import BACKENDS, CHOSEN, open_store
from tests.waiting import soon


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The state folder, which is not there yet."""
    return tmp_path / "state"


@pytest.fixture(params=[BACKENDS[0], pytest.param(BACKENDS[1], marks=pytest.mark.outside)], autouse=True)
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The database that `open_store` opens in this test, and in the processes that it starts."""
    chosen: str = request.param
    if chosen == "postgres" and find_programs() is None:
        pytest.skip(HOW_TO_INSTALL)
    monkeypatch.setenv(CHOSEN, chosen)
    with reused_schemas():
        yield chosen


@pytest.fixture
def clock() -> Clock:
    """A clock that stands still until a test moves it."""
    return Clock()


@pytest.fixture
async def store(state: Path, clock: Clock) -> AsyncIterator[Store]:
    """An open store."""
    async with open_store(state, clock=clock) as store:
        yield store


@pytest.fixture
async def session(store: Store) -> SessionRecord:
    """A session without messages."""
    return await soon(store.conversations.create(owner="ann", name="Notes"))
