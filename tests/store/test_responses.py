"""Answers that a client of OpenAI's API finds again by their ids: its own, and as long as their session (SPEC F2)."""

import pytest
from msgspec import structs

from handspan.core.records import ResponseRow, SessionRecord
from handspan.core.store import Store

pytestmark = pytest.mark.anyio


async def test_only_its_client_finds_an_answer_and_the_last_state_counts(store: Store, session: SessionRecord) -> None:
    row = ResponseRow("resp_1", "ann", "token", session.id, length=0, body=b'{"a":1}', input=b"[]")
    await store.responses.save(row)
    done = structs.replace(row, length=2, body=b'{"a":2}')
    await store.responses.save(done)
    assert await store.responses.find("resp_1", owner="ann", client="token") == done
    for owner, client in (("bob", "token"), ("ann", "other")):
        assert await store.responses.find("resp_1", owner=owner, client=client) is None
        assert not await store.responses.delete("resp_1", owner=owner, client=client)
    assert await store.responses.delete("resp_1", owner="ann", client="token")
    assert await store.responses.find("resp_1", owner="ann", client="token") is None


async def test_an_answer_goes_with_its_session(store: Store, session: SessionRecord) -> None:
    await store.responses.save(ResponseRow("resp_1", "ann", "token", session.id, length=2, body=b"{}", input=b"[]"))
    await store.conversations.delete(session.id, owner="ann")
    assert await store.responses.find("resp_1", owner="ann", client="token") is None
