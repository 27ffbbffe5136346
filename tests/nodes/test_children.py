"""An agent works for another one, and their node dies or stops: both go on at the other node (SPEC J5, K3)."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from handspan.testing import offer
from tests.nodes.gateways import PATIENT, chat_at, device_at, listed, open_nodes
from tests.waiting import soon

pytestmark = pytest.mark.anyio

ADD = offer("add", "Add two numbers.", timeout=60)
TASK = 'call phone__add {"of": "the other agent"}\nthen\nIt is {results}'
SCRIPT = f"call ask_agent {msgspec.json.encode({'agent': 'reader', 'task': TASK}).decode()}\nthen\nThen {{results}}"
AGENTS: dict[str, Any] = {"agents__General__may_ask": ["reader"], "agents__reader__description": "Reads."}


@pytest.mark.parametrize("end", ["killed", "stopped"])
async def test_the_answer_of_the_other_agent_comes_at_another_node(tmp_path: Path, end: str) -> None:
    async with (
        open_nodes(tmp_path, 2, **AGENTS) as nodes,
        device_at(nodes[1], ADD) as phone,
        chat_at(nodes[0], "s1", capabilities=["resume"]) as speaker,
        chat_at(nodes[1], "s1", capabilities=["events"]) as watcher,
    ):
        await listed(nodes, "phone__add", on=(0, 1))
        await speaker.say(SCRIPT, id="m1")
        request = await phone.expect("tool_call_request", PATIENT)
        if end == "killed":
            await nodes[0].kill()
        else:
            stopping = asyncio.create_task(nodes[0].terminate(PATIENT))
            await speaker.device.closed(PATIENT)
        await phone.answer(request, 65)
        while (ended := await watcher.event("ended"))["reason"] == "pending":
            pass
        assert "65" in str(ended["text"]) and str(ended["text"]).startswith("Then ")
        if end == "stopped":
            assert await soon(stopping) == 0
        assert nodes.rows("SELECT DISTINCT state, run FROM sessions") == [("idle", None)]
        assert nodes.rows("SELECT kind, count(*) FROM sessions GROUP BY kind ORDER BY kind") == [
            ("chat", 1),
            ("child", 1),
        ]
        assert nodes.rows("SELECT name, count(*) FROM calls GROUP BY name ORDER BY name") == [
            ("ask_agent", 1),
            ("phone__add", 1),
        ]
        requests = [frame["id"] for frame in phone.heard if frame["type"] == "tool_call_request"]
        assert set(requests) == {request["id"]}
