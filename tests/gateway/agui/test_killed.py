"""A gateway that is killed in the middle of a run, and the next run of the thread (SPEC F4)."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from handspan.testing.process import SPOKEN, GatewayProcess
from tests.gateway.agui.kit import Agent, Node
from tests.gateway.openai.test_killed import TOOL
from tests.waiting import soon, until

pytestmark = [pytest.mark.anyio, pytest.mark.outside]


async def test_a_call_that_was_cut_off_has_its_result_in_the_next_run(node: Node, tmp_path: Path) -> None:
    tools, flag = tmp_path / "config" / "tools", tmp_path / "flag"
    tools.mkdir(parents=True)
    (tools / "wait.py").write_text(TOOL)
    script = f'Wait.\ncall wait_here {{"path": "{flag}"}}\nthen\nIt says {{results}}'
    async with GatewayProcess(tmp_path, "--config", str(tmp_path / "config"), model=SPOKEN) as gateway:
        agent = Agent(node, gateway.url, gateway.token)
        run = agent.begin(script)
        (start,) = [await run.until("TOOL_CALL_START")]
        await until(flag.exists)
        await gateway.kill()
        assert "error" in await run.end()
        flag.unlink()
        await gateway.start()
        on = await agent.run()  # the same messages: the turn that was cut off goes on
        assert "unknown_outcome" in on.text and not flag.exists()
        messages = (await on.end())["messages"]
        assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant"]
        assert messages[2]["toolCallId"] == start["toolCallId"]
        assert "MESSAGES_SNAPSHOT" not in (await agent.run("And again?")).kinds


async def test_a_text_that_was_cut_off_is_told_anew(node: Node, tmp_path: Path) -> None:
    def line(delta: Any, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return b"data: %b\n\n" % json.dumps({"id": "x", "model": "m", "choices": [choice]}).encode()

    requests = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal requests
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(int(one.split(b":")[1]) for one in head.lower().split(b"\r\n") if b"content-length" in one)
        await reader.readexactly(length)
        requests += 1
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
        writer.write(line({"role": "assistant", "content": "Once upon "}))
        if requests == 1:  # until the gateway is killed
            await writer.drain()
            await reader.read()
        else:
            writer.write(line({"content": "a time"}) + line({}, "stop") + b"data: [DONE]\n\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    config = tmp_path / "config.toml"
    config.write_text(f'[models.near]\napi = "openai-chat"\nmodel = "m"\nbase_url = "http://127.0.0.1:{port}/v1"\n')
    async with server, GatewayProcess(tmp_path, "--config", str(config), model="near") as gateway:
        agent = Agent(node, gateway.url, gateway.token)
        run = agent.begin("Tell me a story")
        await run.until("TEXT_MESSAGE_CONTENT")
        await gateway.kill()
        end = await run.end()
        assert end["messages"][-1]["content"] == "Once upon "
        await gateway.start()
        on = await agent.run()
        assert on.kinds[:2] == ["RUN_STARTED", "MESSAGES_SNAPSHOT"] and on.text == "Once upon a time"
        told = [(one["role"], one["content"]) for one in (await on.end())["messages"]]
        assert told == [("user", "Tell me a story"), ("assistant", "Once upon a time")]


async def test_a_question_outlasts_the_gateway(node: Node, tmp_path: Path) -> None:
    asks = 'agents.General.mode="ask_destructive"'
    async with GatewayProcess(tmp_path, "--set", asks, model=SPOKEN) as gateway:
        agent = Agent(node, gateway.url, gateway.token)
        run = await agent.run('call write_file {"path": "a.txt", "content": "x"}\nthen\nIt says {results}')
        (interrupt,) = run.outcome["interrupts"]
        await gateway.restart()
        assert not (tmp_path / "workspace" / "a.txt").exists()
        resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}]
        on = await soon(agent.run(resume=resume))
        assert (tmp_path / "workspace" / "a.txt").read_text() == "x"
        messages = (await on.end())["messages"]
        assert "success" in messages[-1]["content"] and messages[2]["toolCallId"] == interrupt["toolCallId"]
