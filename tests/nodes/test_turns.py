"""Turns of a node that stops go on at another one, and a node for devices runs none (SPEC K3, K6)."""

import asyncio
from pathlib import Path

import pytest

from handspan.testing import GatewayProcess, offer
from tests.nodes.gateways import PATIENT, ThreeNodes, ask, chat_at, device_at, listed, open_nodes, tools_of
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio

ADD = offer("add", "Add two numbers.", timeout=60)
TWO_CALLS = "call phone__add {}\nthen\ncall phone__add {}\nthen\nIt is {results}"


async def drains(nodes: ThreeNodes, name: str) -> bool:
    """Whether the others know that this node stops."""
    return nodes.rows(f"SELECT draining FROM nodes WHERE name = '{name}'") == [(True,)]


async def test_turns_of_a_node_that_stops_go_on_at_another_one_and_every_client_gets_the_answer(tmp_path: Path) -> None:
    async with (
        open_nodes(tmp_path, 2) as nodes,
        device_at(nodes[1], ADD) as phone,
        chat_at(nodes[0], "s1", capabilities=["resume"]) as speaker,
        chat_at(nodes[1], "s1", capabilities=["events"]) as watcher,
    ):
        await listed(nodes, "phone__add", on=(0, 1))
        await speaker.say(TWO_CALLS, id="m1")
        of_chat = await phone.expect("tool_call_request", PATIENT)
        program = asyncio.create_task(
            ask(nodes[0], "POST", "/webhook", {"message": TWO_CALLS}, extra_headers={"X-Session-Id": "s2"})
        )
        of_program = await phone.expect("tool_call_request", PATIENT)
        stopping = asyncio.create_task(nodes[0].terminate(PATIENT))
        await until(lambda: drains(nodes, "node0"))
        await phone.answer(of_chat, 61)
        await phone.answer(of_program, 62)
        assert await speaker.device.closed(PATIENT) == 1012
        # The second calls come from the other node. Both turns go on from the store.
        for number in (63, 64):
            await phone.answer(await phone.expect("tool_call_request", PATIENT), number)
        ended = await watcher.event("ended")
        assert "63" in str(ended) or "64" in str(ended)
        async with chat_at(nodes[1], "s1", capabilities=["resume"]) as again:
            await again.say(TWO_CALLS, id="m1")  # it comes back, and does not know yet whether it was heard
            assert await again.answer() == ended["text"]
        answered = await soon(program)
        assert answered["session_id"] == "s2" and str(answered["response"]).startswith("It is ")
        assert await soon(stopping) == 0
        requests = [frame["id"] for frame in phone.heard if frame["type"] == "tool_call_request"]
        assert len(set(requests)) == len(requests) == 4
        for session in ("s1", "s2"):
            kinds = nodes.rows(
                "SELECT substr(convert_from(body, 'UTF8'), 10, 4) FROM messages"
                f" WHERE session = '{session}' ORDER BY seq"
            )
            assert [kind for (kind,) in kinds] == ["user", "assi", "resu", "assi", "resu", "assi"]
        assert nodes.rows("SELECT DISTINCT state, run FROM sessions") == [("idle", None)]
