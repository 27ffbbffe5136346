"""An MCP server over stdio runs on one node, and all nodes call it (SPEC K2, K3; C)."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.errors import NoRespondersError
from nats.errors import TimeoutError as NatsTimeout

from handspan.core.values import Json
from handspan.testing import GatewayProcess
from tests.nodes.gateways import (
    LONG_LEASE,
    Reachable,
    ThreeNodes,
    ask,
    chat_at,
    listed,
    make_node,
    nodes_here,
    open_nodes,
)
from tests.sources.mcp.serving import PROGRAM
from tests.waiting import until

pytestmark = pytest.mark.anyio


def stdio(log: Path, *options: str, **more: Json) -> dict[str, Json]:
    """The settings of the test's own server."""
    args: list[Json] = ["-I", "-S", str(PROGRAM), "--log", str(log), *options]
    return {"command": sys.executable, "args": args, "internal_only": False, **more}


def starts(log: Path) -> int:
    """How often the program was started."""
    return log.read_text().splitlines().count("start") if log.exists() else 0


async def server_at(node: Reachable) -> Any:
    """What a node says of the server; None if it has none."""
    return next((one for one in (await ask(node, "GET", "/api/mcp"))["servers"] if one["name"] == "bad"), None)


async def call(node: GatewayProcess, tool: str, **arguments: Json) -> Any:
    """The result of a call at this node."""
    return await ask(node, "POST", f"/api/tools/{tool}/call", {"args": arguments})


async def owner_and_other(nodes: ThreeNodes) -> tuple[GatewayProcess, GatewayProcess]:
    """The node that runs the server, and one that does not."""
    name = (await server_at(nodes[0]))["node"]
    places = {"node0": (0, 1), "node1": (1, 0), "node2": (2, 0)}[name]
    return nodes[places[0]], nodes[places[1]]


async def test_one_node_runs_a_server_and_all_nodes_call_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    servers: Json = {"bad": stdio(log)}
    async with open_nodes(tmp_path, 2, tools__mcp_servers=servers, cluster__lease=LONG_LEASE) as nodes:
        await listed(nodes, "bad__echo", "bad__rich", on=(0, 1))
        first, second = await server_at(nodes[0]), await server_at(nodes[1])
        assert first["status"] == second["status"] == "ready" and first["tools"] == second["tools"]
        assert first["node"] == second["node"] in ("node0", "node1")
        owner, other = await owner_and_other(nodes)
        assert await call(other, "bad__echo", text="hello") == await call(owner, "bad__echo", text="hello")
        assert (await call(other, "bad__echo", text="x" * 600_000))["status"] == "success"  # by reference, both ways
        assert (await call(other, "bad__fail"))["message"] == "It went wrong."
        assert (await call(other, "bad__rich"))["attachments"][0]["media_type"] == "image/png"
        died = await call(other, "bad__die")
        assert died["code"] == "unknown_outcome" and (await call(other, "bad__echo", text="again"))["result"] == "again"
        async with chat_at(other, capabilities=["events"]) as chat:
            await chat.say("call bad__steps {}\ncall bad__ask {}\nthen\nIt is {results}")
            assert "step" in str(await chat.event("call_progress"))
            await until(lambda: _questions(owner))
            asked = (await _questions(owner))[0]
            assert "Which colour?" in asked["subject"]
            body: dict[str, Json] = {"decision": "allow", "value": {"colour": "blue"}}
            await ask(owner, "POST", f"/api/questions/{asked['id'].replace('/', '%2F')}/answer", body)
            assert "blue" in str(await chat.event("ended"))
        await _ask_beside_a_call_that_ends(owner, other, log)
        assert starts(log) == 2


async def test_a_cancelled_call_is_cancelled_at_the_server_on_another_node(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with nodes_here(tmp_path, "all", "all", tools={"mcp_servers": {"bad": stdio(log)}}) as nodes:
        await listed(nodes, "bad__hang", on=(0, 1))
        runs_first = (await server_at(nodes[0]))["node"] == "node0"
        hanging = asyncio.create_task(nodes[1 if runs_first else 0].call("bad__hang"))
        await until(lambda: "tools/call" in log.read_text())
        hanging.cancel()
        await asyncio.wait([hanging])
        await until(lambda: "notifications/cancelled" in log.read_text())


async def test_calls_that_never_came_to_a_dead_node_run_once_at_the_next_one(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with open_nodes(tmp_path, 2, tools__mcp_servers={"bad": stdio(log)}) as nodes:
        await listed(nodes, "bad__echo", on=(0, 1))
        [(dead,)] = nodes.rows("SELECT node FROM clients WHERE role = 'server'")
        owner, other = await owner_and_other(nodes)
        await owner.kill()
        await until(lambda: _is_deaf(nodes, dead))
        results = await asyncio.gather(*(call(other, "bad__echo", text=f"{number}") for number in range(8)))
        assert [one.get("result", one) for one in results] == [f"{number}" for number in range(8)]
        assert _calls(log) == 8 and starts(log) == 2


async def _is_deaf(nodes: ThreeNodes, node: str) -> bool:
    """Whether NATS knows that no node listens under this id any more."""
    client = await nats.connect(nodes.nats.url)
    try:
        await client.request(f"hs1.n.{node}.nothing", b"", timeout=0.1)
    except NoRespondersError:
        return True
    except NatsTimeout:
        return False
    finally:
        await client.close()
    raise AssertionError("a message without a signature gets no response")


@pytest.mark.parametrize("role", ["all", "edge"])
async def test_a_call_of_a_server_goes_on_when_the_node_of_its_caller_dies(tmp_path: Path, role: str) -> None:
    """Another node takes it over: the one that runs the server, or, if that runs no turns, the third."""
    log, awaited = tmp_path / "log", tmp_path / "awaited"
    servers: Json = {"bad": stdio(log)}
    async with open_nodes(tmp_path, 2) as nodes, _node_with(servers, tmp_path, nodes, role):
        await listed(nodes, "bad__wait", on=(0, 1))
        words = f"call bad__wait {json.dumps({'text': str(awaited)})}\nthen\nIt is {{results}}"
        async with chat_at(nodes[0], "s1", capabilities=["resume"]) as chat:
            await chat.say(words, id="m1")
            await until(lambda: _calls(log) == 1)
            await nodes[0].kill()
        async with chat_at(nodes[1], "s1", capabilities=["resume"]) as chat:
            await chat.say(words, id="m1")
            awaited.touch()
            assert "it is there" in await chat.answer(), chat.device.heard
        assert _calls(log) == 1
        assert nodes.rows("SELECT state, status FROM calls") == [("done", "success")]


@asynccontextmanager
async def _node_with(servers: Json, folder: Path, nodes: ThreeNodes, role: str) -> AsyncIterator[None]:
    """One more node, which has these servers in its settings."""
    url = nodes.nats.url
    async with make_node(folder, "third", nodes.database, url, cluster__role=role, tools__mcp_servers=servers):
        yield


async def _ask_beside_a_call_that_ends(owner: GatewayProcess, other: GatewayProcess, log: Path) -> None:
    """A server does not say which call asks. The first one is taken; when it ends, it was another one."""
    async with chat_at(other, capabilities=["events"]) as first, chat_at(other, capabilities=["events"]) as second:
        before = _calls(log)
        await first.say("call bad__hang {}")
        await until(lambda: _calls(log) > before)
        await second.say("call bad__ask {}\nthen\nIt is {results}")
        await until(lambda: _questions(owner))
        assert [one["tool"] for one in await _questions(owner)] == ["bad__hang"]
        await first.device.send({"type": "abort"})
        await until(lambda: _asks(owner, "bad__ask"))
        [asked] = await _questions(owner)
        body: dict[str, Json] = {"decision": "allow", "value": {"colour": "green"}}
        await ask(owner, "POST", f"/api/questions/{asked['id'].replace('/', '%2F')}/answer", body)
        assert "green" in str(await second.event("ended"))


def _calls(log: Path) -> int:
    return log.read_text().count("tools/call")


async def _asks(node: GatewayProcess, tool: str) -> bool:
    return [one["tool"] for one in await _questions(node)] == [tool]


async def _questions(node: GatewayProcess) -> list[Any]:
    return list((await ask(node, "GET", "/api/questions"))["questions"])


async def test_a_server_of_one_nodes_settings_is_used_by_all_and_its_changes_are_accepted_anywhere(
    tmp_path: Path,
) -> None:
    log, tools = tmp_path / "log", tmp_path / "tools.json"
    tool = {"name": "echo", "description": "Say it again.", "inputSchema": {"type": "object"}}
    announce = {"name": "announce", "description": "Say that the list has changed.", "inputSchema": {"type": "object"}}
    tools.write_text(json.dumps([tool, announce]))
    async with open_nodes(tmp_path, 2, cluster__lease=LONG_LEASE) as nodes:
        first, second = nodes.nodes
        await ask(first, "PUT", "/api/mcp/bad", stdio(log, "--tools", str(tools)))
        await listed(nodes, "bad__echo", on=(0, 1))
        assert (await server_at(second))["node"] == "node0" and not (await server_at(second))["can_change"]
        refused = await ask(second, "DELETE", "/api/mcp/bad")
        assert "another node" in str(refused)
        tools.write_text(json.dumps([{**tool, "description": "Do something else."}, announce]))
        await call(second, "bad__announce")
        await until(lambda: _waits(second, "bad__echo"))
        blocked = await call(second, "bad__echo")
        assert blocked["status"] == "error"
        assert (await ask(second, "POST", "/api/mcp/bad/trust"))["tools"] == ["bad__echo"]
        await until(lambda: _runs(second, "bad__echo"))
        assert not (await server_at(first))["waiting"]
        await ask(first, "PATCH", "/api/mcp/bad", {"internal_only": True})
        await until(lambda: _is_hidden(second))
        assert (await call(second, "bad__echo"))["status"] == "error"
        shown = await ask(second, "POST", "/api/mcp/bad/call", {"tool": "echo", "args": {"text": "hidden"}})
        assert shown["result"]["status"] == "success", shown
        await ask(first, "DELETE", "/api/mcp/bad")
        await until(lambda: _is_unknown(second))
        assert nodes.rows("SELECT label FROM clients WHERE role = 'server'") == []


async def _waits(node: GatewayProcess, tool: str) -> bool:
    return bool((await server_at(node))["waiting"] == [tool])


async def _runs(node: GatewayProcess, tool: str) -> bool:
    return bool((await call(node, tool))["status"] == "success")


async def _is_hidden(node: GatewayProcess) -> bool:
    server = await server_at(node)
    return bool(server and server["internal_only"] and server["status"] == "ready")


async def _is_unknown(node: GatewayProcess) -> bool:
    return await server_at(node) is None
