"""Live updates: to whom they go, and what happens to those who do not listen."""

import asyncio

import pytest

from handspan.gateway.live import ALL_OWNERS, Live, TooManyListeners

pytestmark = pytest.mark.anyio


async def test_an_update_reaches_its_owner_alone() -> None:
    live = Live()
    mine, theirs = live.subscribe("me"), live.subscribe("them")
    live.publish("me", "calls", {"id": "1"})
    update = await mine.next()
    assert update is not None and (update.topic, update.data, update.encoded) == ("calls", {"id": "1"}, b'{"id":"1"}')
    live.publish(ALL_OWNERS, "tools", {})
    for stream in (mine, theirs):
        update = await stream.next()
        assert update is not None and update.topic == "tools"


async def test_publishing_to_nobody_does_nothing() -> None:
    live = Live()
    live.publish("me", "calls", {"half": "\ud800"})
    stream = live.subscribe("me")
    live.publish("me", "calls", {"half": "\ud800"})
    update = await stream.next()
    assert update is not None and update.encoded == b'{"half":"?"}'


async def test_a_slow_reader_loses_its_stream_and_nobody_else() -> None:
    live = Live(backlog=3)
    slow, quick = live.subscribe("me"), live.subscribe("me")
    heard = []
    for number in range(5):
        live.publish("me", "calls", number)
        update = await quick.next()
        assert update is not None
        heard.append(update.data)
    assert heard == [0, 1, 2, 3, 4]
    assert slow.is_over and await slow.next() is None
    assert len(live) == 1


async def test_streams_are_bounded() -> None:
    live = Live(max_of_one_owner=2, limit=3)
    first = live.subscribe("me")
    live.subscribe("me")
    with pytest.raises(TooManyListeners, match="close one"):
        live.subscribe("me")
    live.subscribe("them")
    with pytest.raises(TooManyListeners):
        live.subscribe("others")
    first.end()
    first.end()
    live.subscribe("others")
    assert len(live) == 3


async def test_a_revoked_token_ends_its_streams() -> None:
    live = Live()
    revoked, other = live.subscribe("me", "t1"), live.subscribe("me", "t2")
    live.drop("t1")
    assert revoked.is_over and not other.is_over


async def test_closing_ends_every_stream_and_lets_no_other_begin() -> None:
    live = Live()
    stream = live.subscribe("me")

    async def listen() -> list[object]:
        found: list[object] = []
        while (update := await stream.next()) is not None:
            found.append(update.data)
        return found

    listening = asyncio.create_task(listen())
    live.publish("me", "calls", 1)
    async with asyncio.timeout(60):
        while stream._waiting:
            await asyncio.sleep(0)
        live.close()
        assert await listening == [1]
    with pytest.raises(TooManyListeners, match="the gateway stops"):
        live.subscribe("me")
