"""What channels remember: people, chats, messages that wait for their answer, positions."""

from pathlib import Path

import pytest
from msgspec import structs

from handspan.core.channels import ChannelSender, InboxMessage, IncomingMessage
from handspan.core.store import Store
from tests.store.things import Clock
from tests.stores import open_store
from tests.waiting import soon

pytestmark = pytest.mark.anyio

ADA = ChannelSender("telegram", "7", "ann", "Ada", 5.0)
FIRST = InboxMessage(IncomingMessage("telegram", "u1", "7", "7", "Grüße \ud800 ☂", proof="p1"), "ann")
SECOND = InboxMessage(IncomingMessage("telegram", "u2", "7", "7", "more"), "ann")
DAY = 24 * 3600.0


async def test_a_person_who_was_not_paired_is_not_found(store: Store) -> None:
    await soon(store.channels.pair(ADA))
    assert await soon(store.channels.find_sender("telegram", "8")) is None
    assert await soon(store.channels.find_sender("other", "7")) is None
    assert not await soon(store.channels.unpair("telegram", "8"))


async def test_people_stay_paired_until_they_are_unpaired(store: Store, state: Path) -> None:
    await soon(store.channels.pair(ADA))
    await soon(store.channels.pair(structs.replace(ADA, sender="9", at=1.0)))
    await soon(store.channels.pair(structs.replace(ADA, name="Ada L.")))
    async with open_store(state) as later:
        assert [(one.sender, one.name) for one in await soon(later.channels.senders("telegram"))] == [
            ("9", "Ada"),
            ("7", "Ada L."),
        ]
        assert await soon(later.channels.unpair("telegram", "7"))
        assert await soon(later.channels.find_sender("telegram", "7")) is None


async def test_a_chat_has_one_session_for_each_owner(store: Store) -> None:
    assert await soon(store.channels.session_of("telegram", "7", owner="ann")) == ""
    await soon(store.channels.use_session("telegram", "7", "s1", owner="ann"))
    await soon(store.channels.use_session("telegram", "7", "s2", owner="bob"))
    await soon(store.channels.use_session("telegram", "7", "s3", owner="ann"))
    assert await soon(store.channels.session_of("telegram", "7", owner="ann")) == "s3"
    assert await soon(store.channels.session_of("telegram", "7", owner="bob")) == "s2"
    assert await soon(store.channels.chats("telegram", owner="ann")) == ["7"]
    assert await soon(store.channels.chats("telegram", owner="eve")) == []


async def test_messages_and_position_are_there_in_the_next_process(store: Store, state: Path) -> None:
    assert await soon(store.channels.position("telegram")) == ""
    assert await soon(store.channels.take("telegram", [FIRST, SECOND], "3")) == ["new", "new"]
    await soon(store.channels.set_state("telegram", "u2", "replying", 3))
    async with open_store(state) as later:
        assert await soon(later.channels.position("telegram")) == "3"
        waiting = await soon(later.channels.unanswered_messages("telegram"))
    assert [(one.message.id, one.state, one.sent) for one in waiting] == [("u1", "waiting", 0), ("u2", "replying", 3)]
    assert waiting[0].message.content == "Grüße ? ☂" and waiting[0].owner == "ann"


async def test_a_message_is_taken_once_by_its_id_and_by_its_signature(store: Store) -> None:
    same_id = InboxMessage(structs.replace(FIRST.message, proof="p2"), "ann")
    same_proof = InboxMessage(structs.replace(FIRST.message, id="u3"), "ann")
    assert await soon(store.channels.take("telegram", [FIRST, FIRST])) == ["new", "replayed"]
    assert await soon(store.channels.take("telegram", [same_id, same_proof])) == ["known", "replayed"]
    assert await soon(store.channels.take("telegram", [SECOND, SECOND])) == ["new", "known"]
    assert len(await soon(store.channels.unanswered_messages("telegram"))) == 2


async def test_an_answered_message_is_known_for_a_day_without_its_content(store: Store, clock: Clock) -> None:
    await soon(store.channels.take("telegram", [FIRST]))
    await soon(store.channels.set_state("telegram", "u1", "done"))
    assert await soon(store.channels.unanswered_messages("telegram")) == []
    clock.now += DAY - 1
    assert await soon(store.channels.take("telegram", [FIRST])) == ["replayed"]
    clock.now += 2
    assert await soon(store.channels.take("telegram", [FIRST])) == ["new"]


async def test_a_message_that_needs_no_answer_is_stored_as_done(store: Store) -> None:
    refused = InboxMessage(FIRST.message, "", "done")
    assert await soon(store.channels.take("telegram", [refused], "9")) == ["new"]
    assert await soon(store.channels.unanswered_messages("telegram")) == []
    assert await soon(store.channels.take("telegram", [refused])) == ["replayed"]
