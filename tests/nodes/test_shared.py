"""What holds on all nodes, whichever is asked: sessions, questions, tokens, codes, limits, switches (SPEC K3, K5)."""

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from handspan.core.errors import StoreError
from handspan.core.values import Json
from handspan.gateway.entry.operator_token import read_operator_token
from handspan.testing import FakeDevice, GatewayProcess, offer
from tests.nodes.gateways import (
    PATIENT,
    Reachable,
    ThreeNodes,
    ask,
    chat_at,
    device_at,
    listed,
    nodes_here,
    open_nodes,
    tools_of,
)
from tests.waiting import WAIT, until

pytestmark = pytest.mark.anyio

SLOW = offer("slow", "Take a while.", timeout=60)


async def status_of(node: GatewayProcess, path: str, token: str, method: str = "GET", **more: Any) -> int:
    """The status of a request with this token."""
    async with httpx2.AsyncClient(timeout=WAIT) as client:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return (await client.request(method, node.url + path, headers=headers, **more)).status_code


async def test_a_turn_is_seen_stopped_and_followed_by_another_on_every_node(tmp_path: Path) -> None:
    async with (
        open_nodes(tmp_path) as nodes,
        device_at(nodes[0], SLOW, capabilities=("resume", "progress", "cancel")) as phone,
        chat_at(nodes[1], "s1") as speaker,
        chat_at(nodes[2], "s1", capabilities=["events"]) as watcher,
    ):
        await listed(nodes, "phone__slow")
        await speaker.say("Wait for it.\ncall phone__slow {}\nthen\nIt was {results}")
        request = await phone.expect("tool_call_request", PATIENT)
        await phone.report(request, "half")
        await watcher.event("text")
        await watcher.event("call_progress")
        # Another message, on another node, waits for the turn that runs.
        await watcher.say("and this?")
        await phone.answer(request, 51)
        assert "51" in await speaker.answer()
        ended = await watcher.event("ended")
        assert "51" in str(ended)
        assert "and this?" in str(await watcher.event("ended"))
        # A turn is stopped from another node.
        await speaker.say("call phone__slow {}\nthen\nnever")
        request = await phone.expect("tool_call_request", PATIENT)
        await until(lambda: _is_running(nodes[2], "s1"))
        assert await ask(nodes[2], "POST", "/api/sessions/s1/abort") == {"status": "aborted"}
        await phone.expect("tool_cancel", PATIENT, id=request["id"])
        await until(lambda: _are_idle(nodes))


async def _are_idle(nodes: ThreeNodes) -> bool:
    return nodes.rows("SELECT DISTINCT state FROM sessions") == [("idle",)]


async def _is_running(node: GatewayProcess, session: str) -> bool:
    rows = await ask(node, "GET", "/api/sessions")
    return any(one["session_id"] == session for one in rows["sessions"])


async def test_a_session_that_a_client_opened_before_its_first_message_is_the_same_on_every_node(
    tmp_path: Path,
) -> None:
    async with (
        nodes_here(tmp_path, "all", "all") as nodes,
        chat_at(nodes[1], "s1"),
        chat_at(nodes[0], "s1") as speaker,
    ):
        await speaker.say("hello")
        await speaker.answer()
        for node in nodes:
            assert len((await ask(node, "GET", "/api/sessions/s1/messages"))["messages"]) == 2
            assert [one["session_id"] for one in (await ask(node, "GET", "/api/sessions"))["sessions"]] == ["s1"]
        await ask(nodes[1], "PUT", "/api/sessions/s1", {"name": "greeting"})
        assert [(await ask(node, "GET", "/api/sessions/s1"))["name"] for node in nodes] == ["greeting"] * 2
        await ask(nodes[1], "DELETE", "/api/sessions/s1")
        assert (await ask(nodes[0], "GET", "/api/sessions/s1"))["code"] == "not_found"


async def test_a_question_of_one_node_is_listed_and_answered_on_another(tmp_path: Path) -> None:
    camera = offer("camera", "Take a picture.", permissions=["CAMERA"])
    async with (
        open_nodes(tmp_path) as nodes,
        device_at(nodes[0], camera, capabilities=("resume", "permissions")) as phone,
        chat_at(nodes[1]) as chat,
    ):
        await listed(nodes, "phone__camera")
        await chat.say("call phone__camera {}\nthen\nIt is {results}")
        asked = await phone.expect("permission_request", PATIENT)  # the person at the device is asked from another node
        await phone.send({"type": "permission_answer", "id": asked["id"], "decision": "allow"})
        request = await phone.expect("tool_call_request", PATIENT)
        await phone.answer(request, 52)
        assert "52" in await chat.answer()


async def test_an_approval_is_given_on_another_node_than_the_one_that_asks(tmp_path: Path) -> None:
    wipe = offer("wipe", "Remove all.", annotations={"destructive": True})
    agents: Json = {"General": {"mode": "ask_destructive"}}
    async with open_nodes(tmp_path, agents=agents) as nodes, device_at(nodes[0], wipe) as phone:
        await listed(nodes, "phone__wipe")
        async with chat_at(nodes[1]) as chat:
            await chat.say("call phone__wipe {}\nthen\nIt is {results}")
            await until(lambda: _questions(nodes[2]))
            question = (await _questions(nodes[2]))[0]
            await ask(
                nodes[2], "POST", f"/api/questions/{quote(question['id'], safe='')}/answer", {"decision": "allow"}
            )
            request = await phone.expect("tool_call_request", PATIENT)
            await phone.answer(request, 53)
            assert "53" in await chat.answer()
            assert await _questions(nodes[1]) == []


async def _questions(node: GatewayProcess) -> list[Any]:
    return list((await ask(node, "GET", "/api/questions"))["questions"])


async def test_tokens_codes_and_switches_hold_on_every_node(tmp_path: Path) -> None:
    async with open_nodes(tmp_path, 2) as nodes:
        first, second = nodes.nodes
        code = (await ask(first, "POST", "/api/pairing", {"scopes": ["chat", "device"]}))["code"]
        paired = await ask(second, "POST", "/pair", {"code": code, "label": "phone"}, token="")
        token = paired["token"]
        assert (await ask(first, "POST", "/pair", {"code": code, "label": "again"}, token="")).get("token") is None
        assert await status_of(first, "/api/tools", token) == await status_of(second, "/api/tools", token) == 200
        async with FakeDevice(second.url, token) as phone:
            await phone.connect(role="device", label="phone")
            tokens = (await ask(first, "GET", "/api/tokens"))["tokens"]
            known = next(one for one in tokens if one["label"] == "phone")
            await ask(first, "DELETE", f"/api/tokens/{known['id']}")
            assert await phone.closed(PATIENT) == 1008
        assert await status_of(second, "/api/tools", token) == 401
        assert "read_file" in await tools_of(second)
        await ask(first, "POST", "/api/switches/disable", {"pattern": "read_file"})
        await until(lambda: _is_off(second, "read_file"))
        await ask(second, "POST", "/api/switches/enable", {"pattern": "read_file"})
        await until(lambda: _is_on(first, "read_file"))
        for node in (first, second) * 5:
            assert await status_of(node, "/api/tools", "wrong") in (401, 429)
        await until(lambda: _is_locked_out(nodes))


async def _is_off(node: GatewayProcess, tool: str) -> bool:
    tools = (await ask(node, "GET", "/api/tools"))["tools"]
    return any(one["name"] == tool and one["disabled_by"] for one in tools)


async def _is_on(node: GatewayProcess, tool: str) -> bool:
    tools = (await ask(node, "GET", "/api/tools"))["tools"]
    return any(one["name"] == tool and not one["disabled_by"] for one in tools)


async def _is_locked_out(nodes: ThreeNodes) -> bool:
    found = await asyncio.gather(*(status_of(node, "/api/tools", "wrong") for node in nodes.nodes))
    return set(found) == {429}


async def test_a_code_for_a_new_client_is_told_only_when_every_node_knows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with nodes_here(tmp_path, "all", "all") as (here, there):
        made = await ask(here, "POST", "/api/pairing", {})
        paired = await ask(there, "POST", "/pair", {"code": made["code"]})
        assert paired["paired"]

        async def fail(*_: object) -> None:
            raise StoreError("the database is away")

        assert here.gateway.parts.store.nodes is not None
        monkeypatch.setattr(type(here.gateway.parts.store.nodes.codes), "add", fail)
        for path in ("/api/pairing", "/api/signin"):
            refused = await ask(here, "POST", path, {} if path == "/api/pairing" else None)
            assert "the database is away" in refused["error"]


async def operator_tokens(node: Reachable) -> dict[str, bool]:
    """The labels of the operator's tokens, and whether each is valid."""
    tokens = (await ask(node, "GET", "/api/tokens"))["tokens"]
    return {one["label"]: one["revoked"] is None for one in tokens if one["label"].startswith("operator")}


async def test_each_node_names_its_operators_token_and_revokes_it_when_it_stops(tmp_path: Path) -> None:
    async with nodes_here(tmp_path, "all", "all") as (here, there):
        assert await operator_tokens(there) == {"operator of node0": True, "operator of node1": True}
        assert "tools" in await ask(there, "GET", "/api/tools", token=here.token)
        await here.close(0.1)
        assert await operator_tokens(there) == {"operator of node0": False, "operator of node1": True}
        assert (await ask(there, "GET", "/api/tools", token=here.token))["code"] == "unauthorized"


async def test_nodes_with_one_operators_token_of_the_settings_make_none_of_their_own(tmp_path: Path) -> None:
    shared = "of-all-nodes-0123456789abcdef0123456789"
    async with nodes_here(tmp_path, "all", "all", cluster={"operator_token": shared}) as (here, there):
        assert here.token == there.token == shared
        await here.close(0.1)
        assert await operator_tokens(there) == {"operator": True}
        assert read_operator_token(there.gateway.settings.state) == shared  # for commands beside the node


async def test_a_message_of_an_agent_reaches_clients_and_pages_of_every_node(tmp_path: Path) -> None:
    async with open_nodes(tmp_path, count=2, channels__page={}) as nodes:

        async def message(content: str) -> Any:
            arguments: Json = {"channel": "page", "chat_id": "all", "content": content}
            return await ask(nodes[0], "POST", "/api/tools/message/call", {"args": arguments})

        assert (await message("nobody"))["code"] == "disconnected"
        async with chat_at(nodes[1], "s1", capabilities=["messages"]) as chat:
            assert (await message("to the client"))["status"] == "success"
            frame = await chat.device.expect("channel_message", PATIENT)
            assert (frame["chat_id"], frame["content"]) == ("all", "to the client")
        headers = {"Authorization": f"Bearer {nodes[1].token}"}
        async with (
            httpx2.AsyncClient(timeout=WAIT) as client,
            client.stream("GET", f"{nodes[1].url}/api/live", headers=headers) as page,
        ):
            lines = page.aiter_lines()
            await anext(lines)  # it listens now
            assert (await message("to the page"))["status"] == "success"
            while "to the page" not in await anext(lines):
                pass


async def test_every_node_has_the_counts_of_each_node_and_their_sum(tmp_path: Path) -> None:
    async with nodes_here(tmp_path, "all", "all") as nodes:
        await nodes[0].call("list_directory", path=".")
        await nodes[0].call("list_directory", path=".")
        await nodes[1].call("no_such_tool")
        told = {
            'handspan_node_calls_total{node="node0"} 2',
            'handspan_node_calls_total{node="node1"} 1',
            'handspan_node_failed_calls_total{node="node1"} 1',
            "handspan_all_calls_total 3",
            "handspan_all_failed_calls_total 1",
        }
        for node in nodes:
            await until(lambda node=node: _tells(node, told))  # type: ignore[misc] # mypy wants no default


async def _tells(node: Reachable, lines: set[str]) -> bool:
    async with httpx2.AsyncClient(timeout=WAIT) as client:
        answer = await client.get(f"{node.url}/metrics", headers={"Authorization": f"Bearer {node.token}"})
    return lines <= set(answer.text.splitlines())
