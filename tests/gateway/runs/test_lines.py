"""The lines of a stream, for readers that come late, read slowly, or lose their token (graph.md 5.6, 7.9)."""

import asyncio
import gc
import json
import weakref
from functools import partial

import pytest

from handspan.gateway.graph.chunks import RunLocation, error_chunk
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.runs.lines import LineReader, OpenStreams, StreamLines

pytestmark = pytest.mark.anyio
told = partial(error_chunk, place=RunLocation())


async def all_of(lines: StreamLines) -> bytes:
    return b"".join(await rest_of(LineReader(lines)))


async def rest_of(reader: LineReader) -> list[bytes]:
    read = []
    async with asyncio.timeout(60):
        while (piece := await reader.next()) is not None:
            read.append(piece)
    return read


class TestLines:
    async def test_what_is_put_while_a_reader_is_busy_is_not_lost(self) -> None:
        lines = StreamLines()
        lines.put(b"1")
        reading = LineReader(lines)
        assert await reading.next() == b"1\n"
        lines.put(b"2")  # the reader still sends the first one
        lines.end()
        assert await reading.next() == b"2\n"
        assert await rest_of(reading) == []

    async def test_an_error_before_the_first_line_is_raised(self) -> None:
        lines = StreamLines()
        waiting = asyncio.create_task(lines.wait_for_first())
        await asyncio.sleep(0)
        lines.refuse(ValueError("no"))
        lines.end()
        with pytest.raises(ValueError, match="no"):
            await waiting

    async def test_who_comes_late_reads_all_of_it(self) -> None:
        lines = StreamLines()
        lines.put(b"1")
        lines.put(b"2")
        lines.end()
        assert await all_of(lines) == await all_of(lines) == b"1\n2\n"
        assert lines.size == 4

    async def test_a_reader_whose_client_went_away_reads_nothing_more(self) -> None:
        lines = StreamLines()
        gone, other = LineReader(lines), LineReader(lines)
        waiting = asyncio.create_task(gone.next())
        await asyncio.sleep(0)
        gone.end()
        lines.put(b"1")
        assert await waiting is None
        assert await other.next() == b"1\n"

    async def test_a_reader_waits_for_more(self) -> None:
        lines = StreamLines()
        reading = asyncio.create_task(all_of(lines))
        await asyncio.sleep(0)
        lines.put(b"1")
        await asyncio.sleep(0)
        lines.end()
        assert await reading == b"1\n"


class TestOpenStreams:
    async def test_a_revoked_token_cuts_off_what_was_not_read(self) -> None:
        streams = OpenStreams()
        lines = streams.open("token", partial(error_chunk, place=RunLocation("t", "r")))
        lines.put(b"1")
        reading = LineReader(lines)
        await reading.next()
        lines.put(b"2")
        streams.revoke("token")
        lines.put(b"3")
        lines.end()
        (last,) = map(json.loads, await rest_of(reading))
        assert (last["event"], last["data"]["code"]) == ("error", "AUTHENTICATION_ERROR")
        assert (last["thread_id"], last["run_id"]) == ("t", "r")
        assert lines.size == 4

    async def test_of_a_stream_that_is_over_too(self) -> None:
        streams = OpenStreams()
        lines = streams.open("token", told)
        lines.put(b"1")
        lines.end()
        streams.revoke("token")
        assert json.loads(await all_of(lines))["event"] == "error"

    async def test_a_reader_that_waits_is_told_at_once(self) -> None:
        streams = OpenStreams()
        lines = streams.open("token", told)
        lines.put(b"1")
        reading = asyncio.create_task(all_of(lines))
        await asyncio.sleep(0)
        streams.revoke("token")
        first, last = (await reading).splitlines()
        assert first == b"1"
        assert json.loads(last)["data"]["code"] == "AUTHENTICATION_ERROR"

    async def test_who_waits_for_the_first_line_is_refused(self) -> None:
        streams = OpenStreams()
        lines = streams.open("token", told)
        waiting = asyncio.create_task(lines.wait_for_first())
        await asyncio.sleep(0)
        streams.revoke("token")
        with pytest.raises(Refusal) as refused:
            await waiting
        assert refused.value.status == 401

    async def test_other_tokens_are_left_alone(self) -> None:
        streams = OpenStreams()
        lines = streams.open("token", told)
        streams.revoke("another")
        lines.put(b"1")
        lines.end()
        assert await all_of(lines) == b"1\n"

    async def test_what_nobody_has_any_more_is_forgotten(self) -> None:
        streams = OpenStreams()
        lines = weakref.ref(streams.open("token", told))
        gc.collect()
        assert lines() is None
        streams.revoke("token")
