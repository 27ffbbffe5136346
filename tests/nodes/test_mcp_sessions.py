"""Our `/mcp` behind a load balancer: each node answers the newer era, and finds sessions of the older one (SPEC K1)."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp.client.session import ClientRequestContext

from handspan.core.values import Json
from handspan.testing import offer
from tests.nodes.balancer import balanced_client
from tests.nodes.gateways import LONG_LEASE, PATIENT, Reachable, ThreeNodes, device_at, listed, open_nodes
from tests.waiting import WAIT, soon

pytestmark = pytest.mark.anyio

SESSION = "mcp-session-id"


async def test_both_eras_work_when_each_request_goes_to_another_node(tmp_path: Path) -> None:
    wipe = offer("wipe", "Remove all.", annotations={"destructive": True})
    agents: Json = {"General": {"mode": "ask_destructive"}}
    changed = asyncio.Event()
    asked: list[str] = []

    async def hear(message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            changed.set()

    async def elicit(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"decision": "allow"})

    async with open_nodes(tmp_path, 2, agents=agents, mcp__answers=True, cluster__lease=LONG_LEASE) as nodes:
        for mode in ("legacy", "auto"):
            options: dict[str, Any] = {"message_handler": hear, "elicitation_callback": elicit}
            urls = [node.url for node in nodes.nodes]
            async with balanced_client(urls, nodes[0].token, mode, **options) as client:
                name = f"{mode}__wipe"
                for _ in range(2):
                    assert name not in {tool.name for tool in (await client.list_tools()).tools}
                changed.clear()
                async with device_at(nodes[0], wipe, label=mode) as phone:
                    await listed(nodes, name, on=(0, 1))
                    if mode == "legacy":
                        await soon(changed.wait())  # over the stream of another node, at one of the two
                    calling = asyncio.create_task(client.call_tool(name, {"all": "x" * 600_000}))
                    request = await phone.expect("tool_call_request", PATIENT)  # the person at the client said yes
                    await phone.answer(request, "y" * 300_000)
                    assert "yyy" in str((await soon(calling)).content)
                assert len(asked) == 1 and name in asked.pop()
        await _is_only_found_at_its_node(nodes)


async def _is_only_found_at_its_node(nodes: ThreeNodes) -> None:
    """A session of the first node: forged and foreign ids are not found, nor is it when the node is gone."""
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    token = nodes[0].token
    opened = await post(nodes[0], token, "initialize", hello)
    session = opened.headers[SESSION]
    assert opened.status_code == 200
    own_id, node, signature = session.split(".")
    for place in (0, 1):
        assert "read_file" in (await post(nodes[place], token, "tools/list", {}, session)).text
        for forged in (own_id, f"{own_id}.{node}", f"{own_id}.{'0' * 32}.{signature}", f"x{session}"):
            assert (await post(nodes[place], token, "tools/list", {}, forged)).status_code == 404
        assert (await post(nodes[place], nodes[1].token, "tools/list", {}, session)).status_code == 404
    await nodes[0].kill()
    gone = await post(nodes[1], token, "tools/list", {}, session)
    assert gone.status_code == 404 and "Begin anew" in gone.text


async def post(node: Reachable, token: str, method: str, params: dict[str, Any], session: str = "") -> httpx2.Response:
    """The response to a message of the older era."""
    headers = {"authorization": f"Bearer {token}", "accept": "application/json, text/event-stream"}
    async with httpx2.AsyncClient(timeout=WAIT) as http:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return await http.post(
            f"{node.url}/mcp", json=body, headers={**headers, **({SESSION: session} if session else {})}
        )
