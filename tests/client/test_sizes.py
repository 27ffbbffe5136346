"""What is too large for a message: never sent, never lost without a word, and never sent again for ever (ws.md 5.2)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from handspan.client import Backoff, CallContext, Client, Image, MessageTooLarge, PermissionQuestion, ToolCallResult
from handspan.client.actions import SaveState
from handspan.client.builder import Callbacks
from handspan.client.call_state import ClientCalls, LinkTerms
from handspan.client.calls import CallRunner
from handspan.client.memory import CallMemory
from handspan.client.results import ResultEncoder
from handspan.client.sizes import MAX_TEXT, fits, shorten, shorten_error
from handspan.client.steps import StepQueue
from handspan.client.tools import ClientTools
from handspan.core.errors import HandspanError
from handspan.core.events import Ended, Event
from handspan.core.results import Failure, Success
from handspan.core.threads import CallThreads
from handspan.testing import running_gateway
from handspan.wire.ws_frames import FailureFrame, MediaPart, ResultFrame, WireLimits
from tests.client.gate import ALL, CHAT, Gate, GateLink, gate

pytestmark = pytest.mark.anyio

SOON = Backoff(0.01, 0.1)
SMALL: dict[str, Any] = {"message_bytes": 4096}
WITHOUT_PARTS = [one for one in ALL if one != "parts"]


@asynccontextmanager
async def connected(client: Client, there: Gate, **greeting: Any) -> AsyncIterator[GateLink]:
    """The client, greeted by a gateway that takes small messages."""
    running = asyncio.create_task(client.run())
    try:
        link = await there.link()
        await link.accept(**{"limits": SMALL, **greeting})
        yield link
    finally:
        client.close()
        await asyncio.wait_for(asyncio.gather(running, return_exceptions=True), 60)


async def expect_small(link: GateLink) -> dict[str, Any]:
    """The next frame, which fits."""
    frame = await link.receive()
    assert len(msgspec.json.encode(frame)) <= SMALL["message_bytes"]
    return frame


# Texts.


def test_a_long_text_is_cut_and_says_so() -> None:
    assert shorten("x" * MAX_TEXT) == "x" * MAX_TEXT
    long = shorten("x" * (MAX_TEXT + 5000))
    assert len(long) <= MAX_TEXT
    assert long.startswith("xxx")
    assert long.endswith(f"… (cut: it had {MAX_TEXT + 5000} characters)")


@pytest.mark.parametrize(
    "text", ["x" * 20_000, "\x01" * 20_000, "🙂" * 20_000, "\ud800" * 20_000, '"' * 900, ["x" * 9000]]
)
def test_an_error_fits_into_whatever_the_gateway_takes(text: Any) -> None:
    limits = WireLimits(message_bytes=1024)
    fault = shorten_error(FailureFrame(id="c" * 64, error=text, code="execution_failed"), limits)
    assert fits(fault, limits)
    assert (fault.code, isinstance(fault.error, str)) == ("execution_failed", True)


def test_an_error_that_is_short_stays_as_it_is() -> None:
    fault = FailureFrame(id="c1", error="no", code="busy")
    assert shorten_error(fault, WireLimits()) is fault


def test_a_code_that_no_gateway_knows_is_left_out_where_it_does_not_fit() -> None:
    fault = shorten_error(FailureFrame(id="c1", error="no", code="x" * 5000), WireLimits(message_bytes=1024))
    assert (fault.error, fault.code) == ("no", "")


# Answers.


async def test_what_code_raises_is_cut(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway:
        client = Client(gateway.url, gateway.token, label="phone", backoff=SOON)

        @client.tool
        def fails(how: str) -> Any:
            """Fail at length."""
            if how == "says":
                return ToolCallResult.Failure("y" * 3_000_000)
            raise RuntimeError("x" * 3_000_000 if how == "raises" else "\ud800 is no character")

        async with client:
            for how, begins in (("raises", "xxx"), ("says", "yyy"), ("surrogate", "? is no character")):
                failed = await asyncio.wait_for(gateway.call("phone__fails", how=how), 60)
                assert isinstance(failed, Failure)
                assert (failed.code, failed.message[: len(begins)]) == ("execution_failed", begins)
                assert len(failed.message) <= MAX_TEXT
            assert client.state == "connected"


async def test_a_result_that_does_not_fit_is_an_error_with_its_size_where_there_are_no_parts() -> None:
    async with gate() as there:
        client = Client(there.url, backoff=SOON)

        @client.tool
        def essay(size: int) -> str:
            """Write a lot."""
            return "x" * size

        async with connected(client, there, can=WITHOUT_PARTS) as link:
            await link.request("c1", "essay", size=3900)
            assert (await expect_small(link))["type"] == "tool_result"
            await link.request("c2", "essay", size=4096)
            answer = await expect_small(link)
    assert (answer["type"], answer["id"], answer["code"]) == ("tool_error", "c2", "execution_failed")
    assert "4096 bytes" in answer["error"]
    assert "return less" in answer["error"]


async def test_a_gateway_that_reads_text_alone_is_not_sent_more_than_it_takes_by_quoting() -> None:
    async with gate() as there:
        client = Client(there.url, backoff=SOON)

        @client.tool
        def table() -> list[str]:
            """Many small texts: as JSON in a text they take more than half as much again."""
            return ["a"] * 240_000

        async with connected(client, there, can=[], limits=None) as link:
            await link.request("c1", "table")
            answer = await link.receive()
    assert (answer["type"], "too large to be sent" in answer["error"]) == ("tool_error", True)


async def test_pictures_that_are_small_elsewhere_are_uploaded_where_messages_are_smaller(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, gateway={"limits": {"message_bytes": 8192}}) as gateway:
        client = Client(gateway.url, gateway.token, label="phone", backoff=SOON)

        @client.tool
        def look(size: int, words: int) -> list[Any]:
            """Look."""
            return ["x" * words, Image(b"y" * size), Image(b"z" * 1000)]

        async with client:
            for size, words in ((2000, 10), (9000, 10), (2000, 20_000)):
                seen = await asyncio.wait_for(gateway.call("phone__look", size=size, words=words), 60)
                assert isinstance(seen, Success)
                sizes = [len(one.data) if one.artifact is None else one.artifact.size for one in seen.attachments]
                assert sizes == [size, 1000, *([words] if words > 8192 else [])]


async def test_more_attachments_than_a_message_can_name_are_an_error() -> None:
    async with gate() as there:
        client = Client(there.url, backoff=SOON)

        @client.tool
        def many() -> list[bytes]:
            """Give many files."""
            return [b""] * 200

        async with connected(client, there) as link:
            await link.request("c1", "many")
            answer = await expect_small(link)
    assert (answer["type"], "too large to be sent" in answer["error"]) == ("tool_error", True)


async def test_progress_and_answers_of_a_person_that_are_too_large_do_not_end_the_link() -> None:
    async def ask(_: PermissionQuestion) -> tuple[Any, str]:
        return "deny", "w" * 50_000

    async with gate() as there:
        client = Client(there.url, backoff=SOON, ask_permission=ask)

        @client.tool
        def report(ctx: CallContext) -> str:
            """Report a lot."""
            ctx.progress("p" * 10_000)
            return "done"

        async with connected(client, there) as link:
            await link.request("c1", "report")
            progress = await expect_small(link)
            assert (progress["type"], progress["value"]) == (
                "tool_progress",
                "(progress of 10002 bytes: too large to be shown)",
            )
            assert (await expect_small(link))["output"] == "done"
            await link.send(
                "permission_request", id="q1", call_id="c2", tool="report", permission="camera", expires_ms=60000
            )
            answer = await expect_small(link)
            assert (answer["decision"], answer["how_to_enable"][:3]) == ("deny", "www")


async def test_a_tool_that_no_message_can_hold_is_not_offered_and_the_others_are() -> None:
    async with gate() as there:
        client = Client(there.url, backoff=SOON)
        client.register({"name": "wordy", "description": "x" * 5000, "parameters": {"type": "object"}})
        for number in range(4):
            client.register({"name": f"t{number}", "description": "y" * 1500, "parameters": {"type": "object"}})
        async with connected(client, there) as link:  # on the first link it does not know what the gateway takes
            link.drop()
            link = await there.link()
            assert (await link.receive())["type"] == "connect"
            names: list[str] = []
            while len(names) < 4:
                offered = await expect_small(link)
                names += [tool["name"] for tool in offered["tools"]]
            assert names == ["t0", "t1", "t2", "t3"]
            assert "4096 bytes" in client.rejected["wordy"]


# Answers that an earlier process saved.


def saved_state(folder: Path, *answers: ResultFrame | FailureFrame) -> Path:
    """The state file of a process with these unacknowledged answers."""
    memory = CallMemory()
    memory.resume_token = "t1"
    for answer in answers:
        memory.answer(answer, 9e9)
    file = folder / "state.json"
    file.write_bytes(memory.encode())
    return file


LARGE = (
    ResultFrame(id="c1", output="x" * 5000),
    FailureFrame(id="c2", error="y" * 50_000, code="busy"),
    ResultFrame(id="c3", output="small"),
    ResultFrame(id="c4", output="", parts=[MediaPart("image", "image/png", "eHh4" * 2000)]),
)


async def test_saved_answers_that_do_not_fit_are_errors_where_nothing_can_be_uploaded(
    tmp_path: Path,
) -> None:
    async with gate() as there:
        client = Client(there.url, backoff=SOON, state=saved_state(tmp_path, *LARGE))
        async with connected(client, there, tools=False, can=WITHOUT_PARTS, resumed=True) as link:
            told = {frame["id"]: frame for frame in [await expect_small(link) for _ in range(4)]}
            await link.fence()
            link.drop()
            link = await there.link()
            await link.accept(tools=False, can=WITHOUT_PARTS, resumed=True, limits=SMALL)
            again = {frame["id"]: frame for frame in [await expect_small(link) for _ in range(4)]}
    assert again == told
    assert (told["c1"]["type"], "5000 bytes" in told["c1"]["error"]) == ("tool_error", True)
    assert (told["c2"]["code"], told["c2"]["error"][:3]) == ("busy", "yyy")
    assert told["c3"] == {"type": "tool_result", "id": "c3", "output": "small", "success": True}
    assert told["c4"]["type"] == "tool_error"


async def test_a_saved_answer_that_does_not_fit_is_uploaded(tmp_path: Path) -> None:
    async with running_gateway(tmp_path / "gateway", gateway={"limits": {"message_bytes": 4096}}) as gateway:
        began = asyncio.Event()

        def device() -> Client:
            made = Client(gateway.url, gateway.token, label="phone", backoff=SOON, state=tmp_path / "state.json")

            @made.tool
            async def look() -> None:
                """Look."""
                began.set()
                await asyncio.Event().wait()

            return made

        async with device():
            calling = asyncio.create_task(gateway.call("phone__look"))
            await asyncio.wait_for(began.wait(), 60)
            (call_id,) = [call for peer in gateway.gateway.parts.peers for call in peer.calls.open]
        kept_by_it = CallMemory.decode((tmp_path / "state.json").read_bytes(), 0.0)
        parts = [MediaPart("image", "image/png", "eHh4" * 2000, name="a.png"), MediaPart("file", "text/plain", "eHh4")]
        kept_by_it.answer(ResultFrame(id=call_id, output="x" * 5000, parts=parts), 9e9)
        (tmp_path / "state.json").write_bytes(kept_by_it.encode())
        async with device():
            seen = await asyncio.wait_for(calling, 60)
    assert isinstance(seen, Success)
    assert [one.artifact.size if one.artifact else len(one.data) for one in seen.attachments] == [6000, 3, 5000]


async def test_links_that_come_and_go_during_an_upload_do_not_begin_it_anew() -> None:
    may_end, uploads = asyncio.Event(), 0

    async def upload(data: bytes, media_type: str, name: str) -> str:
        nonlocal uploads
        uploads += 1
        await may_end.wait()
        return "a1"

    done: asyncio.Queue[Any] = asyncio.Queue()

    def note(step: Any) -> bool:
        done.put_nowait(step)
        return True

    async def never(step: Any) -> None:
        raise AssertionError("every step is done at once")

    answer, memory, threads = ResultFrame(id="c1", output="x" * 5000), CallMemory(is_saved=False), CallThreads()
    memory.answer(answer, 0.0)
    link = LinkTerms(is_connected=True, capabilities=frozenset(ALL), limits=WireLimits(message_bytes=4096))
    calls = ClientCalls(ClientTools(), memory, 1, link)
    running = CallRunner(ClientTools(), ResultEncoder(upload), threads, calls, steps=StepQueue(note, never))
    for _ in range(3):
        running.shrink(answer)
        await asyncio.sleep(0)
    may_end.set()
    save, send = [await asyncio.wait_for(done.get(), 60) for _ in range(2)]
    await running.close()
    threads.close()
    assert (uploads, done.empty(), save, fits(send.frame, link.limits)) == (1, True, SaveState(), True)


# What is said.


async def rest(events: Any) -> list[Event]:
    async with asyncio.timeout(60):
        return [event async for event in events]


async def test_a_message_that_is_too_large_is_refused_before_anything_is_sent() -> None:
    async with gate() as there:
        opening = asyncio.create_task(there.link())

        async def greeted() -> GateLink:
            link = await opening
            await link.accept(tools=False, can=CHAT, limits=SMALL)
            return link

        greeting = asyncio.create_task(greeted())
        async with Client(there.url, backoff=SOON).chat() as chat:
            link = await greeting
            with pytest.raises(MessageTooLarge, match=r"5\d\d\d bytes.*4096.*file"):
                await rest(chat.send("x" * 5000))
            with pytest.raises(HandspanError, match="too large"):
                await chat.answer("q1", "allow", arguments={"text": "x" * 5000})
            await link.fence()
            turn = asyncio.create_task(rest(chat.send("short")))
            assert (await link.expect("message"))["content"] == "short"
            await link.send("event", seq=1, event={"type": "ended", "reason": "done", "text": ""})
            assert await turn == [Ended("done")]


async def test_a_message_that_is_too_large_for_the_gateway_that_came_back_ends_its_turn_and_is_not_sent() -> None:
    async with gate() as there:

        async def greeted(limits: dict[str, Any]) -> GateLink:
            link = await there.link()
            await link.accept(tools=False, can=CHAT, limits=limits)
            return link

        greeting = asyncio.create_task(greeted({}))
        async with Client(there.url, backoff=SOON).chat() as chat:
            link = await greeting
            turn = asyncio.create_task(rest(chat.send("x" * 5000)))
            await link.expect("message")
            link.drop()
            link = await greeted(SMALL)
            (ended,) = await turn
            await link.fence()
    assert isinstance(ended, Ended)
    assert (ended.reason, "4096" in ended.text) == ("error", True)


async def test_what_was_said_before_the_gateway_told_its_limits_is_refused_when_it_has() -> None:
    errors: asyncio.Queue[str] = asyncio.Queue()
    callbacks = Callbacks()
    callbacks.set("error", lambda message, code: errors.put_nowait(message))
    async with gate() as there:
        client = Client(there.url, role="chat", backoff=SOON, callbacks=callbacks)
        running = asyncio.create_task(client.run())
        link = await there.link()
        client.send_message("x" * 5000)
        with pytest.raises(MessageTooLarge):
            client.send_message("x" * 2_000_000)
        await link.accept(tools=False, limits=SMALL)
        assert "4096" in await asyncio.wait_for(errors.get(), 60)
        await link.fence()
        client.close()
        await asyncio.wait_for(running, 60)
