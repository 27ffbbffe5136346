"""Which processes are alive (SPEC A2)."""

from pathlib import Path

import pytest

from handspan.core.store import Store
from tests.stores import open_store

pytestmark = pytest.mark.anyio


async def test_a_lease_is_alive_from_the_opening_of_its_store_to_the_end(store: Store, state: Path) -> None:
    other = open_store(state)
    assert other.leases.own != store.leases.own
    assert not await store.leases.is_alive(other.leases.own)
    async with other:
        await other.leases.renew()
        assert await store.leases.is_alive(other.leases.own)
        assert await other.leases.is_alive(store.leases.own)
    assert not await store.leases.is_alive(other.leases.own)
    assert await store.leases.is_alive(store.leases.own)


async def test_a_lease_that_was_never_taken_is_not_alive(store: Store) -> None:
    assert not await store.leases.is_alive("never")


async def test_a_lease_that_was_released_is_over_and_can_be_released_again(store: Store) -> None:
    await store.leases.release()
    await store.leases.release()
    assert not await store.leases.is_alive(store.leases.own)
