"""A client and its tools, over real sockets."""

import asyncio
import contextvars
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from websockets.protocol import Protocol

from handspan.client import Backoff, CallContext, Client, Image, PermissionQuestion
from handspan.core.errors import ConfigError, ToolError
from handspan.core.tool import READ_ONLY
from handspan.core.values import Arguments, JsonObject
from tests.client.gate import Gate, GateLink, gate

pytestmark = pytest.mark.anyio

SOON = Backoff(0.001, 0.01)


def device(there: Gate, **options: Any) -> Client:
    return Client(there.url, "secret", **{"backoff": SOON, **options})


@asynccontextmanager
async def linked(client: Client, there: Gate, **greeting: Any) -> AsyncIterator[GateLink]:
    """The client, connected."""
    running = asyncio.create_task(client.run())
    try:
        link = await there.link()
        await link.accept(**greeting)
        await client.connected()
        yield link
    finally:
        client.close()
        await asyncio.wait_for(asyncio.gather(running, return_exceptions=True), 60)


async def test_whatever_code_raises_is_answered() -> None:
    async with gate() as there:
        client = device(there)

        @client.tool
        def plain(how: str) -> str:
            """Fails."""
            if how == "tool":
                raise ToolError("auth_required", "log in first")
            if how == "exit":
                raise SystemExit(3)
            if how == "silent":
                raise ValueError
            raise RuntimeError("broken")

        @client.tool
        async def on_loop(how: str) -> str:
            """Fails."""
            if how == "cancelled":
                raise asyncio.CancelledError
            if how == "exit":
                raise SystemExit(3)
            if how == "group":
                raise BaseExceptionGroup("two things", [GeneratorExit()])
            if how == "generator":
                await asyncio.sleep(0)
                raise GeneratorExit
            return object()  # type: ignore[return-value] # that is what is tried

        async with linked(client, there) as link:
            told = {}
            for name, how in [
                *(("plain", how) for how in ("tool", "exit", "silent", "other")),
                *(("on_loop", how) for how in ("cancelled", "exit", "group", "generator", "object")),
            ]:
                await link.request(f"{name} {how}", name, how=how)
                answer = await link.expect("tool_error")
                told[answer["id"]] = (answer["error"], answer.get("code"))
    assert told.pop("on_loop object")[1] == "execution_failed"
    assert told == {
        "plain tool": ("log in first", "auth_required"),
        "plain exit": ("SystemExit: 3", None),
        "plain silent": ("ValueError", None),
        "plain other": ("broken", None),
        "on_loop cancelled": ("The tool was cancelled.", "cancelled"),
        "on_loop exit": ("3", None),
        "on_loop group": ("two things (1 sub-exception)", None),
        "on_loop generator": ("GeneratorExit", None),
    }


async def test_plain_functions_run_on_threads_and_async_ones_on_the_loop() -> None:
    async with gate() as there:
        client = device(there)

        @client.tool
        def plain() -> bool:
            """Where it runs."""
            return threading.current_thread() is threading.main_thread()

        @client.tool
        async def on_loop() -> bool:
            """Where it runs."""
            return threading.current_thread() is threading.main_thread()

        client.register({"name": "lazy", "description": "Gives a coroutine.", "parameters": {}}, lambda _: later())
        async with linked(client, there) as link:
            answers = {}
            for name in ("plain", "on_loop", "lazy"):
                await link.request(name, name)
                answers[name] = (await link.expect("tool_result")).get("output")
    assert answers == {"plain": False, "on_loop": True, "lazy": "later"}


async def later() -> str:
    return "later"


async def test_a_call_that_takes_too_long_is_stopped_and_answered_here_too() -> None:
    stopped = asyncio.Event()
    freed = threading.Event()
    async with gate() as there:
        client = device(there, concurrency=2)

        @client.tool
        async def wait() -> None:
            """Wait."""
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()

        @client.tool
        def block(ctx: CallContext) -> str:
            """Wait on a thread."""
            freed.set() if ctx.cancelled.wait(60) else None
            return "late"

        async with linked(client, there) as link:
            for name in ("wait", "block"):
                await link.send("tool_call_request", id=name, name=name, args={}, timeout_ms=20)
                answer = await link.expect("tool_error")
                assert (answer["id"], answer["code"]) == (name, "timeout")
            await asyncio.wait_for(stopped.wait(), 60)
            assert await asyncio.to_thread(freed.wait, 10)
            await link.fence()


async def test_progress_from_threads_and_from_the_loop_comes_before_the_answer_and_moves_the_deadline() -> None:
    deadlines: list[float] = []
    async with gate() as there:
        client = device(there)

        def report(ctx: CallContext) -> str:
            before = ctx.deadline
            ctx.progress({"done": 1})
            after = ctx.deadline
            assert before is not None
            assert after is not None
            deadlines.extend((before.at, after.at))
            return ctx.tool

        @client.tool
        def plain(ctx: CallContext) -> str:
            """Reports."""
            return report(ctx)

        @client.tool
        async def on_loop(ctx: CallContext) -> str:
            """Reports."""
            with pytest.raises(ToolError, match="JSON"):
                ctx.progress(object())  # type: ignore[arg-type] # that is what is tried
            return report(ctx)

        async with linked(client, there) as link:
            for name in ("plain", "on_loop"):
                await link.send("tool_call_request", id=name, name=name, args={}, timeout_ms=5000)
                assert (await link.expect("tool_progress"))["value"] == {"done": 1}
                assert (await link.expect("tool_result"))["output"] == name
    assert len(deadlines) == 4


async def test_without_a_limit_there_is_no_deadline() -> None:
    async with gate() as there:
        client = device(there)

        @client.tool(timeout=None)
        async def free(ctx: CallContext) -> bool:
            """Whether there is none."""
            return ctx.deadline is None

        async with linked(client, there) as link:
            await link.request("c1", "free")
            assert (await link.expect("tool_result"))["output"] is True


async def test_a_picture_reaches_the_gateway() -> None:
    async with gate() as there:
        client = device(there)

        @client.tool
        def camera() -> list[Any]:
            """Take a photo."""
            return ["a photo", Image(b"png")]

        async with linked(client, there) as link:
            await link.request("c1", "camera")
            answer = await link.expect("tool_result")
    assert (answer["output"], answer["parts"]) == (
        "a photo",
        [{"kind": "image", "media_type": "image/png", "data": "cG5n"}],
    )


async def test_a_large_picture_that_can_not_be_uploaded_is_told() -> None:
    async with gate() as there:  # which has no REST
        client = device(there)

        @client.tool
        def camera() -> bytes:
            """Take a large photo."""
            return b"x" * 300_000

        async with linked(client, there) as link:
            await link.request("c1", "camera")
            answer = await link.expect("tool_error")
    assert "The tool ran, but" in answer["error"]


async def test_tools_come_and_go_while_it_is_connected() -> None:
    async with gate() as there:
        client = device(there)
        async with linked(client, there, tools=False) as link:

            @client.tool
            def battery() -> int:
                """How full it is."""
                return 80

            offered = await link.expect("register_tools")
            assert [one["name"] for one in offered["tools"]] == ["battery"]
            await link.send(
                "tools_registered", count=1, registered=0, rejected=[{"name": "battery", "reason": "not here"}]
            )
            await link.fence()
            assert client.rejected == {"battery": "not here"}
            assert client.unregister("battery")
            assert (await link.expect("unregister_tools"))["names"] == ["battery"]


async def test_a_tool_that_is_taken_back_while_its_call_waits_is_not_found() -> None:
    async with gate() as there:
        client = device(there)
        go = asyncio.Event()

        @client.tool
        async def first() -> None:
            """Wait."""
            await go.wait()

        @client.tool
        def second() -> None:
            """Never runs."""
            raise AssertionError

        async with linked(client, there) as link:
            await link.request("c1", "first")
            await link.request("c2", "second")
            await link.fence()
            client.unregister("second")
            go.set()
            await link.expect("unregister_tools")
            await link.expect("tool_result")
            answer = await link.expect("tool_error")
    assert (answer["id"], answer["code"]) == ("c2", "tool_not_found")


# Permissions.


async def test_without_ask_permission_the_answer_is_no_and_says_how_to_change_it() -> None:
    async with gate() as there:
        client = device(there)
        async with linked(client, there, tools=False) as link:
            await link.send(
                "permission_request", id="q1", call_id="c1", tool="camera", permission="camera", expires_ms=9000
            )
            answer = await link.expect("permission_answer")
    assert (answer["decision"], "ask_permission" in answer["how_to_enable"]) == ("deny", True)


@pytest.mark.parametrize(
    ("said", "decision", "how"),
    [
        ("allow", "allow", ""),
        (("deny_forever", "Settings"), "deny_forever", "Settings"),
        ("perhaps", "deny", "'perhaps' is no answer"),
        (("allow",), "deny", "('allow',) is no answer"),
        (RuntimeError("no screen"), "deny", "Asking failed: no screen"),
    ],
)
@pytest.mark.parametrize("is_async", [True, False])
async def test_the_person_is_asked_by_plain_and_by_async_functions(
    said: Any, decision: str, how: str, is_async: bool
) -> None:
    asked: list[PermissionQuestion] = []

    def ask(question: PermissionQuestion) -> Any:
        asked.append(question)
        if isinstance(said, Exception):
            raise said
        return said

    async def ask_on_loop(question: PermissionQuestion) -> Any:
        return ask(question)

    async with gate() as there:
        client = device(there, ask_permission=ask_on_loop if is_async else ask, label="phone")
        client.register({"name": "camera", "description": "Take a photo.", "parameters": {}}, lambda _: None)
        async with linked(client, there, label="phone") as link:
            assert client.label == "phone"
            request: dict[str, Any] = {"id": "q1", "call_id": "c1", "tool": "phone__camera", "permission": "cam"}
            about = {"arguments": {"flash": True}, "agent": "General"}
            await link.send("permission_request", **request, **about, expires_ms=9000)
            answer = await link.expect("permission_answer")
    assert asked == [PermissionQuestion("cam", "camera", "c1", {"flash": True}, "General")]
    assert (answer["decision"], answer.get("how_to_enable", "")) == (decision, how)


async def test_a_question_without_an_answer_in_time_is_left_to_the_gateway() -> None:
    asked = asyncio.Event()

    async def ask(_: PermissionQuestion) -> Any:
        asked.set()
        await asyncio.Event().wait()

    async with gate() as there:
        client = device(there, ask_permission=ask)
        async with linked(client, there, tools=False) as link:
            await link.send("permission_request", id="q1", call_id="c1", tool="x", permission="y", expires_ms=5)
            await asyncio.wait_for(asked.wait(), 60)
            await link.fence()


@pytest.mark.parametrize("capabilities", [None, ["resume", "cancel"]], ids=["asked", "asks itself"])
async def test_a_question_ends_when_its_call_does(capabilities: list[str] | None) -> None:
    asked, ended = asyncio.Event(), asyncio.Event()

    async def ask(_: PermissionQuestion) -> Any:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with gate() as there:
        client = device(there, ask_permission=ask)
        offer: JsonObject = {
            "name": "camera",
            "description": "Take a photo.",
            "parameters": {},
            "permissions": ["camera"],
        }
        client.register(offer, lambda _: None)  # a plain function: it would run on a thread
        more = {} if capabilities is None else {"capabilities": capabilities}
        async with linked(client, there, **more) as link:
            if capabilities is None:
                about = {"call_id": "c1", "tool": "camera", "permission": "camera"}
                await link.send("permission_request", id="q1", **about, expires_ms=60_000)
            else:
                await link.send("tool_call_request", id="c1", name="camera", args={})
            await asyncio.wait_for(asked.wait(), 60)
            if capabilities is None:
                await link.send("question_closed", id="q1", accepted=False)
            else:
                await link.send("tool_cancel", id="c1", reason="aborted")
            await asyncio.wait_for(ended.wait(), 60)
            await link.fence()


# The state file.


async def test_a_state_file_that_can_not_be_written_lets_nothing_run_that_must_not_run_twice(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "state"
    async with gate() as there:
        client = device(there, state=folder / "device.json")

        @client.tool
        def pay() -> None:
            """Never runs."""
            raise AssertionError

        @client.tool(annotations=READ_ONLY)
        def look() -> str:
            """Runs all the same."""
            return "seen"

        async with linked(client, there) as link:
            await link.fence()
            (folder / "device.json").unlink()
            (folder / "device.json").mkdir()
            (folder / "device.json" / "in the way").touch()
            await link.request("c1", "pay")
            answer = await link.expect("tool_error")
            await link.request("c2", "look")
            assert (await link.expect("tool_result"))["output"] == "seen"
    assert answer["error"].startswith("Nothing was run: this device can't write its state file")
    assert "the state file can't be written" in caplog.text


async def test_two_clients_do_not_share_a_state_file(tmp_path: Path) -> None:
    async with gate() as there:
        first, second = (device(there, state=tmp_path / "state") for _ in range(2))
        async with linked(first, there, tools=False):
            with pytest.raises(ConfigError, match="used by another client"):
                await second.run()


KILLED = """
import asyncio, os, sys
from handspan.client import Client

client = Client(sys.argv[1], "secret", state=sys.argv[2])

@client.tool
def pay() -> str:
    "Pays, and dies."
    os.kill(os.getpid(), 9)
    return "never"

asyncio.run(client.run())
"""


async def test_a_device_that_is_killed_in_mid_call_knows_it_when_it_is_started_again(tmp_path: Path) -> None:
    async with gate() as there:
        arguments = ("-c", KILLED, there.url, str(tmp_path / "state"))
        killed = await asyncio.create_subprocess_exec(sys.executable, *arguments)
        try:
            link = await there.link()
            await link.accept()
            await link.request("c1", "pay")
            assert await asyncio.wait_for(killed.wait(), 60) == -9
        finally:
            if killed.returncode is None:
                killed.kill()
                await killed.wait()
        client = device(there, state=tmp_path / "state")
        client.register({"name": "pay", "description": "Pays.", "parameters": {}}, lambda _: "again")
        running = asyncio.create_task(client.run())
        link = await there.link()
        hello = await link.accept(resumed=True)
        assert hello["resume"] == "t1"
        await link.send("tool_call_request", id="c1", name="pay", args={}, again=True)
        assert (await link.expect("tool_error"))["code"] == "unknown_outcome"
        client.close()
        await asyncio.wait_for(running, 60)


async def test_ending_it_in_mid_call_leaves_the_call_started_for_the_next_process(tmp_path: Path) -> None:
    began = asyncio.Event()
    async with gate() as there:
        client = device(there, state=tmp_path / "state")

        @client.tool
        async def pay() -> None:
            """Never ends."""
            began.set()
            await asyncio.Event().wait()

        async with linked(client, there) as link:
            await link.request("c1", "pay")
            await asyncio.wait_for(began.wait(), 60)
        async with linked(client, there, resumed=True) as link:
            await link.send("tool_call_request", id="c1", name="pay", args={}, again=True)
            assert (await link.expect("tool_error"))["code"] == "unknown_outcome"


# The rest.


async def test_it_can_be_used_as_a_context() -> None:
    async with gate() as there:
        client = device(there)

        async def greet() -> GateLink:
            link = await there.link()
            await link.accept(tools=False)
            return link

        greeting = asyncio.create_task(greet())
        async with client as same:
            assert same is client
            assert client.state == "connected"
            link = await greeting
        await asyncio.wait_for(link.socket.wait_closed(), 60)
        assert link.socket.close_code == 1000


async def test_a_context_that_can_not_be_entered_leaves_nothing_behind() -> None:
    client = Client("http://127.0.0.1:1", backoff=Backoff(60.0))
    before = asyncio.all_tasks()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05), client:
            raise AssertionError("nobody is there")
    assert client.state == "disconnected"
    assert asyncio.all_tasks() == before


async def test_what_is_to_be_sent_is_sent_before_it_closes() -> None:
    async with gate() as there:
        client = device(there)

        @client.tool
        async def last() -> str:
            """Closes its own client."""
            client.close()
            return "bye"

        running = asyncio.create_task(client.run())
        link = await there.link()
        await link.accept()
        await link.request("c1", "last")
        await asyncio.wait_for(running, 60)
        await link.socket.wait_closed()
    assert client.state == "disconnected"


async def test_a_hanging_thread_does_not_keep_it_from_ending() -> None:
    release, began = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    async with gate() as there:
        client = device(there)

        @client.tool
        def hang() -> None:
            """Hangs."""
            loop.call_soon_threadsafe(began.set)
            release.wait(60)

        async with linked(client, there) as link:
            await link.request("c1", "hang")
            await asyncio.wait_for(began.wait(), 60)
        release.set()


async def test_a_hanging_thread_does_not_keep_other_calls_from_running(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handspan.client.calls.GRACE", 0.01)
    release = threading.Event()
    async with gate() as there:
        client = device(there)

        @client.tool
        def hang() -> None:
            """Hangs."""
            release.wait(60)

        @client.tool
        def work() -> str:
            """Works."""
            return "done"

        async with linked(client, there) as link:
            for stop in ({"timeout_ms": 20}, {}):  # by its time, or by the gateway
                await link.send("tool_call_request", id=f"h{stop}", name="hang", args={}, **stop)
                await link.request(f"w{stop}", "work")
                if stop:
                    assert (await link.expect("tool_error"))["code"] == "timeout"
                else:
                    await link.send("tool_cancel", id=f"h{stop}", reason="aborted")
                assert (await link.expect("tool_result"))["id"] == f"w{stop}"
        release.set()


async def test_it_is_connected_when_the_gateway_has_answered_about_its_tools() -> None:
    async with gate() as there:
        client = device(there)

        @client.tool
        def work() -> str:
            """Works."""
            return "done"

        running = asyncio.create_task(client.run())
        link = await there.link()
        waiting = asyncio.create_task(client.connected())
        await link.send("session_start", v=1, session_id="s1", resumed=False, message_count=0)
        await link.expect("connect")
        await link.expect("register_tools")
        await link.send("connected", v=1, message="hello")
        await link.fence()
        assert not waiting.done()
        await link.send("tools_registered", count=1, registered=0, rejected=[{"name": "work", "reason": "no"}])
        await asyncio.wait_for(waiting, 60)
        assert client.rejected == {"work": "no"}
        client.close()
        await asyncio.wait_for(running, 60)


async def test_only_a_chat_can_say_something() -> None:
    async with gate() as there:
        client = device(there)
        with pytest.raises(RuntimeError, match="role 'chat'"):
            client.send_message("hello")
        async with linked(client, there, tools=False):
            with pytest.raises(RuntimeError, match="role 'chat'"):
                client.abort()


async def test_a_flood_of_progress_is_thinned_and_never_blocks() -> None:
    async with gate() as there:
        client = device(there)

        @client.tool
        async def flood() -> str:
            """Reports too much."""
            return "unused"

        async def reports(arguments: Arguments, ctx: CallContext) -> str:
            for number in range(5000):
                ctx.progress(number)
            return "done"

        client.register({"name": "flood", "description": "Reports too much.", "parameters": {}}, reports)
        async with linked(client, there) as link:
            await link.request("c1", "flood")
            count = 0
            async with asyncio.timeout(60):
                async for message in link.socket:
                    if "tool_result" in str(message):
                        break
                    count += 1
    assert 0 < count < 5000


async def test_a_call_that_is_cancelled_with_the_same_breath_never_runs_when_it_has_not_begun() -> None:
    ran: list[str] = []
    async with gate() as there:
        client = device(there, concurrency=2)

        @client.tool
        async def note(text: str) -> str:
            """Remembers it, and waits a little."""
            ran.append(text)
            await asyncio.sleep(0)
            return "done"

        async with linked(client, there) as link:
            for frame in (
                {"type": "tool_call_request", "id": "c1", "name": "note", "args": {"text": "first"}},
                {"type": "tool_call_request", "id": "c2", "name": "note", "args": {"text": "never"}},
                {"type": "tool_cancel", "id": "c2", "reason": "enough"},
            ):
                Protocol.send_text(link.socket.protocol, msgspec.json.encode(frame))
            link.socket.transport.write(b"".join(link.socket.protocol.data_to_send()))
            assert (await link.expect("tool_result"))["id"] == "c1"
            await link.request("c3", "note", text="then")
            assert (await link.expect("tool_result"))["id"] == "c3"
    assert ran == ["first", "then"]


async def test_a_tool_that_runs_on_a_thread_can_offer_another_one() -> None:
    async with gate() as there:
        client = device(there)

        @client.tool
        def learn() -> str:
            """Offers one more."""
            client.register({"name": "more", "description": "One more.", "parameters": {}}, lambda arguments: "more")
            return "done"

        async with linked(client, there) as link:
            await link.request("c1", "learn")
            told = [await link.receive(), await link.receive()]
            assert sorted(frame["type"] for frame in told) == ["register_tools", "tool_result"]
            await link.request("c2", "more")
            assert (await link.expect("tool_result"))["output"] == "more"


async def test_answers_come_whole_and_in_order_to_a_gateway_that_reads_slowly() -> None:
    async with gate() as there:
        client = device(there, concurrency=20)

        @client.tool
        async def large(number: int) -> str:
            """Says much."""
            return f"{number} " + "x" * 500_000

        async with linked(client, there) as link:
            link.socket.transport.pause_reading()
            for number in range(20):
                await link.request(f"c{number}", "large", number=number)
            connection = client._connection
            assert connection is not None
            async with asyncio.timeout(60):
                while len(connection._queue) < 5:  # they wait for the gateway
                    await asyncio.sleep(0)
            link.socket.transport.resume_reading()
            told = [await link.expect("tool_result") for _ in range(20)]
    assert [one["output"].partition(" ")[0] for one in told] == [str(number) for number in range(20)]


async def test_an_on_state_that_fails_ends_it_with_what_it_raised() -> None:
    def fails(state: str) -> None:
        if state == "connected":
            raise ValueError("who is there?")

    async with gate() as there:
        client = device(there, on_state=fails)
        running = asyncio.create_task(client.run())
        await (await there.link()).accept(tools=False)
        with pytest.raises(ValueError, match="who is there"):
            await asyncio.wait_for(running, 60)


async def test_calls_do_not_see_what_others_have_set() -> None:
    word: contextvars.ContextVar[str] = contextvars.ContextVar("word", default="nothing")
    async with gate() as there:
        client = device(there)

        @client.tool
        async def swap(text: str) -> str:
            """Sets it, and says what was there."""
            before = word.get()
            word.set(text)
            return before

        async with linked(client, there) as link:
            told = []
            for number in range(2):
                await link.request(f"c{number}", "swap", text="mine")
                told.append((await link.expect("tool_result"))["output"])
    assert told == ["nothing", "nothing"]


def test_importing_it_loads_no_socket_library() -> None:
    heavy = "{'websockets', 'pydantic', 'httpx2', 'http.client', 'docstring_parser'}"
    code = f"import sys, handspan.client; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == "[]"
