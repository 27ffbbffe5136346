"""The seed's way to make a client, and its callbacks."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from handspan.client import Backoff, Client, ToolCallRequest, ToolCallResult
from handspan.core.tool import ToolSpec
from tests.client.gate import gate

pytestmark = pytest.mark.anyio

NAMES = (
    "connected",
    "disconnected",
    "session_start",
    "chunk",
    "chunk_reset",
    "thinking",
    "done",
    "tool_call",
    "tool_result",
    "aborted",
    "title_updated",
    "error",
    "debug_prompt",
)
"""The callbacks of the seed."""
SCHEMA: Any = """{"type":"object","properties":{},"required":[]}"""
INFO = ToolSpec("device_info", "Get device information", SCHEMA)
OTHER = ToolSpec("other", "Something else", SCHEMA)
SOON = Backoff(0.001, 0.01)


def test_every_callback_of_the_seed_has_its_method() -> None:
    builder = Client.builder("http://host")
    for name in NAMES:
        assert getattr(builder, f"on_{name}")(print) is builder


async def test_one_function_answers_for_all_tools() -> None:
    requests: list[ToolCallRequest] = []

    def handle(request: ToolCallRequest) -> Any:
        requests.append(request)
        if request.name == "device_info":
            return ToolCallResult.Success('{"model":"Pixel 8"}')
        return ToolCallResult.Failure("unknown tool")

    async with gate() as there:
        client = (
            Client.builder(there.url)
            .auth_token("secret")
            .register_tool(INFO)
            .register_tool(OTHER)
            .tool_call_handler(handle)
            .reconnect_policy(SOON)
            .build()
        )
        running = asyncio.create_task(client.run())
        link = await there.link()
        assert link.socket.request is not None
        assert link.socket.request.headers["Authorization"] == "Bearer secret"
        hello = await link.accept()
        assert "role" not in hello  # a chat, as the seed's is
        await link.request("c1", "device_info")
        assert (await link.expect("tool_result"))["output"] == '{"model":"Pixel 8"}'
        await link.request("c2", "other")
        assert (await link.expect("tool_error"))["error"] == "unknown tool"
        client.close()
        await asyncio.wait_for(running, 60)
    assert [(request.id, request.name, request.args) for request in requests] == [
        ("c1", "device_info", {}),
        ("c2", "other", {}),
    ]


async def test_without_a_function_there_is_no_handler() -> None:
    async with gate() as there:
        client = Client.builder(there.url).register_tool(INFO).reconnect_policy(SOON).build()
        running = asyncio.create_task(client.run())
        link = await there.link()
        await link.accept()
        await link.request("c1", "device_info")
        assert (await link.expect("tool_error"))["error"] == "No handler registered"
        client.close()
        await asyncio.wait_for(running, 60)


async def test_a_device_is_made_with_everything_that_it_needs(tmp_path: Path) -> None:
    async def handle(request: ToolCallRequest) -> str:
        return request.id

    async with gate() as there:
        client = (
            Client.builder(there.url)
            .device("phone", prefix=False)
            .state(tmp_path / "state")
            .concurrency(3)
            .ask_permission(lambda *_: "allow")
            .register_tool(INFO, lambda arguments: "own code")
            .register_tool(OTHER)
            .tool_call_handler(handle)
            .reconnect_policy(SOON)
            .build()
        )
        running = asyncio.create_task(client.run())
        link = await there.link()
        hello = await link.accept(label="phone")
        assert (hello["role"], hello["label"], hello["prefix"]) == ("device", "phone", False)
        await link.request("c1", "device_info")
        assert (await link.expect("tool_result"))["output"] == "own code"
        await link.request("c2", "other")
        assert (await link.expect("tool_result"))["output"] == "c2"
        client.close()
        await asyncio.wait_for(running, 60)
    assert (tmp_path / "state").exists()


async def test_every_frame_reaches_its_callback_plain_or_async(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[tuple[Any, ...]] = []
    over = asyncio.Event()

    def collect(name: str) -> Any:
        def plain(*args: Any) -> None:
            heard.append((name, *args))

        async def on_loop(*args: Any) -> None:
            plain(*args)
            over.set() if name == "disconnected" else None

        return on_loop if name in ("chunk", "disconnected") else plain

    def fails(*_: Any) -> None:
        raise RuntimeError("in a callback")

    async with gate() as there:
        builder = Client.builder(there.url).session("s1").persona("Clerk").reconnect_policy(SOON)
        for name in NAMES:
            getattr(builder, f"on_{name}")(collect(name))
        client = builder.on_thinking(fails).build()
        running = asyncio.create_task(client.run())
        link = await there.link()
        assert link.path == "/ws/chat?session_id=s1&persona=Clerk"
        await link.accept(tools=False, can=[], resume_token="")
        await client.connected()
        client.send_message("hello", debug=True)
        message = await link.expect("message")
        assert (message["content"], message["debug"], 0 < len(message["id"]) <= 64) == ("hello", True, True)
        await link.send("debug_prompt", messages="[]", estimated_tokens=3)
        await link.send("thinking", content="hm")
        await link.send("chunk", content="hi")
        await link.send("tool_call", id="c1", name="camera", args={"a": 1})
        await link.send("tool_result", id="c1", name="camera", output="photo")
        await link.send("chunk_reset")
        await link.send("done", full_response="hi")
        await link.send("title_updated", title="Greeting")
        client.abort()
        await link.expect("abort")
        await link.send("aborted")
        await link.send("error", message="no", code="AGENT_ERROR")
        await link.fence()
        assert client.session_id == "s1"
        link.drop()
        await asyncio.wait_for(over.wait(), 60)
        client.close()
        await asyncio.wait_for(running, 60)
    assert heard[:12] == [
        ("session_start", "s1", "", False, 0),
        ("connected",),
        ("debug_prompt", "[]", 3),
        ("chunk", "hi"),
        ("tool_call", "c1", "camera", {"a": 1}),
        ("tool_result", "c1", "camera", "photo"),
        ("chunk_reset",),
        ("done", "hi"),
        ("title_updated", "Greeting"),
        ("aborted",),
        ("error", "no", "AGENT_ERROR"),
        ("disconnected",),
    ]
    assert "on_thinking failed" in caplog.text


async def test_the_end_is_heard_too() -> None:
    heard: list[str] = []
    async with gate() as there:
        client = Client.builder(there.url).on_disconnected(lambda: heard.append("gone")).reconnect_policy(SOON).build()
        running = asyncio.create_task(client.run())
        link = await there.link()
        await link.accept(tools=False)
        await client.connected()
        client.close()
        await asyncio.wait_for(running, 60)
    assert heard == ["gone"]
