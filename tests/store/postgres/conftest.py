"""The tests in this folder are about PostgreSQL itself."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from handspan.store.postgres.connections import StoreAddress
from handspan.store.postgres.store import PostgresStore, postgres_store
from handspan.testing import FaultProxy
from tests.postgres_engine import HOW_TO_INSTALL, PostgresEngine, find_programs, schema_url, shared_url
from tests.stores import CHOSEN, LEASE_SECONDS


@pytest.fixture(autouse=True)
def backend(monkeypatch: pytest.MonkeyPatch) -> str:
    """No other database than this one."""
    if find_programs() is None:
        pytest.skip(HOW_TO_INSTALL)
    monkeypatch.setenv(CHOSEN, "postgres")
    return "postgres"


@pytest.fixture
async def proxy() -> AsyncIterator[FaultProxy]:
    """A way to the server that can be broken."""
    async with FaultProxy(f"tcp://127.0.0.1:{urlsplit(shared_url()).port}") as proxy:
        yield proxy


@pytest.fixture
def broken_way(proxy: FaultProxy, state: Path) -> str:
    """The address of the tables of this test, over the proxy."""
    query = urlsplit(schema_url(state)).query
    return f"postgresql://postgres@127.0.0.1:{urlsplit(proxy.url).port}/postgres?{query}"


def store_at(url: str, folder: Path, *, timeout: float = 5.0, is_gateway: bool = False) -> PostgresStore:
    """A store at this address."""
    address = StoreAddress(url, connections=5, timeout=timeout)
    return postgres_store(address, folder, is_gateway=is_gateway, lease_seconds=LEASE_SECONDS)


@pytest.fixture
def engine() -> Iterator[PostgresEngine]:
    """A server of this test alone."""
    engine = PostgresEngine()
    try:
        engine.start()
        yield engine
    finally:
        engine.remove()
