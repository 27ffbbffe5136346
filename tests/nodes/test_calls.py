"""A device of one node, called from a chat on another: one result each, whatever happens to either (SPEC K2, K3)."""

from pathlib import Path

import pytest

from handspan.testing import offer
from tests.nodes.gateways import PATIENT, ask, chat_at, device_at, listed, open_nodes, tools_of
from tests.waiting import until

pytestmark = pytest.mark.anyio

ADD = offer("add", "Add two numbers.")


async def test_a_device_of_one_node_is_listed_and_called_on_all(tmp_path: Path) -> None:
    async with open_nodes(tmp_path) as nodes, device_at(nodes[0], ADD) as phone:
        await listed(nodes, "phone__add")
        async with chat_at(nodes[1]) as chat:
            await chat.say('call phone__add {"a": 1}\nthen\nIt is {results}')
            request = await phone.expect("tool_call_request", PATIENT)
            assert request["name"] == "add" and request["args"] == {"a": 1}
            await phone.answer(request, 41)
            assert "41" in await chat.answer()
            await phone.expect("result_acknowledged", PATIENT, id=request["id"])
        call = await ask(nodes[2], "GET", f"/api/calls/{request['id']}")
        assert call["status"] == "success" and call["origin"] == "device(phone)"
        await phone.drop()
        await until(lambda: _is_gone(nodes))


async def _is_gone(nodes: object) -> bool:
    return not any(["phone__add" in await tools_of(node) for node in nodes.nodes])  # type: ignore[attr-defined]
