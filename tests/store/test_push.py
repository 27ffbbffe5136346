"""Browsers that get notifications, as rows (SPEC J4)."""

from pathlib import Path

import pytest
from msgspec import structs

from handspan.core.records import PushSubscription
from handspan.core.store import PushBook, Store
from tests.store.things import Clock, count
from tests.stores import open_store
from tests.waiting import soon

pytestmark = pytest.mark.anyio

PHONE = PushSubscription("s1", "ann", "t1", "https://push.example/abc", "key", "secret", "Ann's phone")


async def signed_in(store: Store) -> PushBook:
    for token, owner in (("t1", "ann"), ("t2", "ann"), ("t3", "bob")):
        await soon(store.tokens.add(token, owner=owner, scopes=("chat", "admin")))
    return store.push


async def test_a_subscription_comes_back_whole_in_the_next_process_and_the_secret_is_the_same(
    store: Store, state: Path, clock: Clock
) -> None:
    book = await signed_in(store)
    assert await soon(book.add(PHONE, 5)) == "s1"
    secret = await soon(book.secret())
    await soon(store.close())
    async with open_store(state, clock=clock) as later:
        [found] = await soon(later.push.all(owner="ann"))
        assert found == structs.replace(PHONE, created=clock(), scopes=("chat", "admin"), token_seen=clock())
        assert await soon(later.push.find("s1")) == found
        assert len(secret) == 32 and await soon(later.push.secret()) == secret


async def test_the_same_endpoint_of_an_owner_stays_one_and_takes_the_new_keys_and_token(store: Store) -> None:
    book = await signed_in(store)
    await soon(book.add(PHONE, 1))
    renewed = structs.replace(PHONE, id="s2", token="t2", auth="other", label="phone")
    assert await soon(book.add(renewed, 1)) == "s1"
    [found] = await soon(book.all(owner="ann"))
    assert (found.id, found.token, found.auth, found.label) == ("s1", "t2", "other", "phone")


async def test_one_more_than_an_owner_may_have_is_not_stored(store: Store) -> None:
    book = await signed_in(store)
    for number in range(3):
        given = structs.replace(PHONE, id=f"s{number}", endpoint=f"https://push.example/{number}")
        assert await soon(book.add(given, 2)) == (f"s{number}" if number < 2 else "")
    assert await soon(book.add(structs.replace(PHONE, id="b", owner="bob", token="t3"), 2)) == "b"
    assert [one.id for one in await soon(book.all(owner="ann"))] == ["s0", "s1"]


async def test_a_revoked_token_takes_its_subscription_along_and_makes_room_for_another_one(store: Store) -> None:
    book = await signed_in(store)
    await soon(book.add(PHONE, 1))
    await soon(store.tokens.revoke("t1", owner="ann"))
    assert await soon(book.all(owner="ann")) == [] and await soon(book.find("s1")) is None
    other = structs.replace(PHONE, id="s2", token="t2", endpoint="https://push.example/2")
    assert await soon(book.add(other, 1)) == "s2"
    assert await count(store, "push_subscriptions") == 1


async def test_only_its_owner_removes_it_and_a_success_is_noted(store: Store, clock: Clock) -> None:
    book = await signed_in(store)
    await soon(book.add(PHONE, 1))
    clock.now += 60
    await soon(book.note_success("s1"))
    [found] = await soon(book.all(owner="ann"))
    assert found.last_success == clock()
    assert not await soon(book.remove("s1", owner="bob"))
    assert await soon(book.remove("s1", owner="ann")) and not await soon(book.remove("s1", owner="ann"))
