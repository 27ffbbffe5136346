"""Tokens: known by their hash, revoked for ever."""

import pytest

from handspan.core.errors import ToolError
from handspan.core.records import Token
from handspan.core.store import Store
from tests.store.things import Clock
from tests.waiting import soon

pytestmark = pytest.mark.anyio


async def test_a_revoked_token_opens_nothing_and_cannot_come_back(store: Store, clock: Clock) -> None:
    await soon(store.tokens.add("h1", owner="ann", scopes=("chat",)))
    assert not await soon(store.tokens.revoke("h1", owner="bob"))
    assert await soon(store.tokens.find("h1")) is not None
    assert await soon(store.tokens.revoke("h1", owner="ann"))
    assert not await soon(store.tokens.revoke("h1", owner="ann"))
    assert await soon(store.tokens.find("h1")) is None
    with pytest.raises(ToolError, match="was used before: make a new one"):
        await soon(store.tokens.add("h1", owner="ann", scopes=("admin",)))
    assert [(token.scopes, token.revoked) for token in await soon(store.tokens.all(owner="ann"))] == [
        (("chat",), clock.now)
    ]


async def test_an_unknown_token_is_nobodys(store: Store) -> None:
    for unknown in ("", "h2", "\ud800"):
        assert await soon(store.tokens.find(unknown)) is None


async def test_when_a_token_was_seen_is_known_to_the_minute(store: Store, clock: Clock) -> None:
    made = await soon(store.tokens.add("h1", owner="ann", scopes=("chat", "device"), label="phone"))
    assert made == Token("h1", "ann", ("chat", "device"), "phone", clock.now, None, None)
    assert await soon(store.tokens.find("h1")) == made
    first = clock.now
    await soon(store.tokens.add("h2", owner="ann", scopes=()))  # written behind what nobody waited for
    clock.now += 30
    found = await soon(store.tokens.find("h1"))
    assert found is not None and found.last_seen == first
    clock.now += 31
    await soon(store.tokens.find("h1"))
    await soon(store.tokens.add("h3", owner="bob", scopes=()))
    seen = await soon(store.tokens.all(owner="ann"))
    assert [(token.hash, token.last_seen) for token in seen] == [("h1", clock.now), ("h2", None)]
