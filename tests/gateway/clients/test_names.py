"""Names that belong to the gateway's own tools: no client and no device gets one (SPEC R2, R5; ws.md 4.8, 7.2)."""

import asyncio
import contextlib
import json
import logging
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from handspan.config.tool_settings import McpServer
from handspan.core.calls import ToolCall, new_call_id
from handspan.core.results import Success
from handspan.core.values import Json
from handspan.registry.registry import RegistryRules
from tests.gateway.raw_clients import Client, Place, running
from tests.sources.mcp.serving import ready, server
from tests.waiting import WAIT, until

pytestmark = pytest.mark.anyio

BANK = """
from handspan import tool

@tool
def my_bank(text: str) -> str:
    \"\"\"Say what the bank says.\"\"\"
    return f"bank: {text}"
"""
DOWN = McpServer(command="no-such-program-for-tests")
RUG = "the MCP server 'rug'"
CALLED = {"rug__": "Names that begin with 'rug__' are for the MCP server 'rug'. This device is called 'rug_2' here."}


def offer(name: str) -> dict[str, Json]:
    return {"name": name, "description": "Mine.", "parameters": {"type": "object"}, "annotations": {"read_only": True}}


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    """A gateway with a tools folder, in which there is `my_bank`."""
    tools = tmp_path / "config" / "tools"
    tools.mkdir(parents=True)
    (tools / "bank.py").write_text(BANK)
    async with running(tmp_path, config_folder=tools.parent) as running_place:
        yield running_place


@contextlib.asynccontextmanager
async def device(place: Place, label: str, *capabilities: str, **fields: Any) -> AsyncIterator[Client]:
    """A device with the least token there is, connected."""
    async with place.client(token=await place.device_token()) as client:
        await client.connected(*capabilities, role="device", label=label, **fields)
        yield client


async def ask(place: Place, method: str, path: str, body: Json = None) -> Any:
    headers = {"Authorization": f"Bearer {place.gateway.operator_token}"}
    async with httpx2.AsyncClient(base_url=place.url, headers=headers, timeout=WAIT, trust_env=False) as client:
        return (await client.request(method, path, json=body)).json()


async def say(place: Place, name: str, text: str = "hi") -> Json:
    """What the tool of this name answers to the operator's agent."""
    app = place.gateway.parts.app
    result = await asyncio.wait_for(app.engine.call(ToolCall(name, {"text": text}, new_call_id()), app.caller()), WAIT)
    return result.value if isinstance(result, Success) else str(result)


async def seen(place: Place, label: str) -> dict[str, Any]:
    return next(one for one in (await ask(place, "GET", "/api/devices"))["devices"] if one["label"] == label)


async def rejected(client: Client, *names: str) -> dict[str, str]:
    answer = await client.offers(*map(offer, names))
    return {one["name"]: one["reason"] for one in answer.get("rejected", [])}


# Labels.


async def test_a_device_that_labels_itself_like_an_mcp_server_gets_another_label_and_no_call_of_the_server(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    await place.gateway.parts.app.mcp.add("rug", server())
    await ready(place.gateway.parts.app, "rug")
    async with device(place, "Rug") as thief:
        assert f"device rug_2: {CALLED['rug__']}" in caplog.text
        assert (thief.start["label"], thief.start["notice"]) == ("rug_2", CALLED["rug__"])
        assert await rejected(thief, "echo") == {}
        assert await say(place, "rug__echo") == "hi"
        called = await ask(place, "POST", "/api/mcp/rug/call", {"tool": "echo", "args": {"text": "hi"}})
        assert called["result"] == {"status": "success", "result": "hi"}
        assert (await seen(place, "rug_2"))["notice"] == CALLED["rug__"]
        names = [tool["name"] for tool in (await ask(place, "GET", "/api/tools"))["tools"]]
        assert names.count("rug__echo") == 1 and "rug_2__echo" in names
    async with device(place, "lamp") as lamp:
        assert lamp.start["label"] == "lamp" and "notice" not in lamp.start


async def test_a_renamed_device_is_the_same_device_at_its_next_connection(place: Place) -> None:
    await place.gateway.parts.app.mcp.add("rug", DOWN)
    for _ in range(2):
        async with device(place, "rug") as one:
            assert one.start["label"] == "rug_2"
        await until(lambda: not len(place.gateway.parts.peers))
    assert [one["id"] for one in (await ask(place, "GET", "/api/devices"))["devices"]] == ["rug_2"]


async def test_a_prefix_is_reserved_while_its_server_is_down_or_switched_off_and_free_when_it_is_removed(
    place: Place, tmp_path: Path
) -> None:
    servers, file = place.gateway.parts.app.mcp, tmp_path / "config" / "mcp.json"
    await servers.add("rug", DOWN)
    async with device(place, "phone", "unregister", prefix=False) as phone:
        assert RUG in (await rejected(phone, "rug__stay"))["rug__stay"]
        listed = json.loads(file.read_text())
        listed["mcpServers"]["rug"]["disabled"] = True
        file.write_text(json.dumps(listed))
        await servers.reload(dict)
        assert servers.find("rug") is None
        assert RUG in (await rejected(phone, "rug__stay"))["rug__stay"]
        assert "is switched off in mcp.json" in str(await say(place, "rug__stay"))
        await servers.forget("rug")
        assert await rejected(phone, "rug__stay") == {}
        assert (await seen(place, "phone"))["refused"] == []


async def test_a_server_that_is_added_takes_its_prefix_from_a_device_that_has_it_as_its_label(place: Place) -> None:
    app = place.gateway.parts.app
    async with device(place, "rug", "resume", "unregister") as thief:
        assert thief.start["label"] == "rug"
        await rejected(thief, "echo", "slow")
        waiting = asyncio.create_task(say(place, "rug__slow"))
        request = await thief.hears_of("tool_call_request")
        await app.mcp.add("rug", server())
        assert app.caller().box.find("rug__slow") is None
        assert await thief.closed() == 1012
    await ready(app, "rug")
    assert await say(place, "rug__echo") == "hi"
    async with device(place, "rug", "resume", "unregister", resume=thief.start["resume_token"]) as again:
        assert (again.start["label"], again.start["resumed"]) == ("rug_2", True)
        assert again.start["notice"] == CALLED["rug__"]
        assert (await again.hears_of("tool_call_request"))["id"] == request["id"]
        await again.send("tool_result", id=request["id"], output="done", success=True)
        assert await waiting == "done"
        await rejected(again, "echo")
        assert {"rug__echo", "rug_2__echo"} <= {tool.name for tool in app.caller().box.specs()}
        assert [one["label"] for one in (await ask(place, "GET", "/api/devices"))["devices"]] == ["rug_2"]


async def test_a_device_that_is_away_for_a_moment_comes_back_under_another_label_when_a_server_took_its_own(
    place: Place,
) -> None:
    async with device(place, "rug", "resume") as phone:
        await rejected(phone, "echo")
        phone.drop()
    await until(lambda: all(peer.socket is None for peer in place.gateway.parts.peers))
    await place.gateway.parts.app.mcp.add("rug", DOWN)
    async with device(place, "rug", "resume", resume=phone.start["resume_token"]) as again:
        assert (again.start["label"], again.start["resumed"]) == ("rug_2", True)
        await rejected(again, "echo")
        assert place.gateway.parts.app.caller().box.find("rug_2__echo") is not None


async def test_an_old_device_without_resume_is_closed_too_and_renamed_when_it_connects_again(place: Place) -> None:
    async with device(place, "rug") as phone:
        await rejected(phone, "echo")
        await place.gateway.parts.app.mcp.add("rug", DOWN)
        assert await phone.closed() == 1012
    async with device(place, "rug") as again:
        assert again.start["label"] == "rug_2"
    assert [one["id"] for one in (await ask(place, "GET", "/api/devices"))["devices"]] == ["rug"]


async def test_a_device_can_not_be_renamed_to_the_name_of_a_server(place: Place) -> None:
    await place.gateway.parts.app.mcp.add("rug", DOWN)
    async with device(place, "lamp"):
        refused = await ask(place, "PUT", "/api/devices/lamp", {"label": "rug"})
        assert refused["error"] == f"Names that begin with 'rug__' are for {RUG}. Choose another name."


async def test_a_label_that_a_person_gave_before_the_server_came_is_changed_at_the_next_connection(
    place: Place,
) -> None:
    async with device(place, "lamp"):
        await ask(place, "PUT", "/api/devices/lamp", {"label": "rug"})
    await until(lambda: not len(place.gateway.parts.peers))
    await place.gateway.parts.app.mcp.add("rug", DOWN)
    async with device(place, "lamp") as lamp:
        assert (lamp.start["label"], lamp.start["notice"]) == ("rug_2", CALLED["rug__"])


# Names.


async def test_names_of_servers_and_of_the_tools_folder_are_refused_to_clients_and_the_attempt_is_shown(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    await place.gateway.parts.app.mcp.add("rug", server())
    await ready(place.gateway.parts.app, "rug")
    bank = "the plugin or tools file 'bank'"
    async with device(place, "phone", prefix=False) as phone, place.client("?session_id=one") as chat:
        await chat.connected()
        with caplog.at_level(logging.WARNING):
            for client in (phone, chat):
                reasons = await rejected(client, "rug__echo", "rug__new", "RUG__echo", "my_bank", "read_file", "fine")
                assert list(reasons) == ["rug__echo", "rug__new", "RUG__echo", "my_bank", "read_file"]
                assert all(RUG in reasons[name] for name in ("rug__echo", "rug__new", "RUG__echo"))
                assert bank in reasons["my_bank"] and "the built-in tool" in reasons["read_file"]
        assert "device phone: its tool 'my_bank' was refused" in caplog.text
        assert "chat in one: its tool 'rug__echo' was refused" in caplog.text
        assert await say(place, "my_bank") == "bank: hi"
        assert [one["name"] for one in (await seen(place, "phone"))["refused"]] == list(reasons)
        listed = {tool["name"]: tool for tool in (await ask(place, "GET", "/api/tools"))["tools"]}
        assert listed["my_bank"]["refused_to"] == ["device(phone)", "remote(one)"]
        assert listed["my_bank"]["source"] == "bank"
        why = await ask(place, "GET", "/api/tools/my_bank/why")
        assert why["usable"] and f"reserved for {bank}. It was refused to device(phone)." in json.dumps(why)
        why = await ask(place, "GET", "/api/tools/rug__new/why?session=one")
        assert f"reserved for {RUG}. It was refused to device(phone), remote(one)." in json.dumps(why)
    other = await place.gateway.parts.auth.issue("bob", ("device",))
    async with place.client(token=other) as bobs:
        await bobs.connected(role="device", label="secret", prefix=False)
        await rejected(bobs, "my_bank")
        assert "secret" not in json.dumps(await ask(place, "GET", "/api/tools/my_bank/why"))
        assert "secret" not in json.dumps(await ask(place, "GET", "/api/tools"))


@pytest.mark.parametrize("capabilities", [("unregister",), ()])
async def test_a_file_in_the_tools_folder_takes_its_name_from_clients_that_had_it_first(
    place: Place, tmp_path: Path, capabilities: tuple[str, ...]
) -> None:
    app = place.gateway.parts.app
    async with device(place, "phone", *capabilities, prefix=False) as phone:
        assert await rejected(phone, "pay", "other") == {}
        (tmp_path / "config" / "tools" / "pay.py").write_text(re.sub("my_bank", "pay", BANK))
        await app.refresh_tools(is_forced=True)
        assert await say(place, "pay") == "bank: hi"
        await phone.send("get_registered_tools")
        heard = await phone.hears_until("registered_tools")
        if capabilities:
            assert heard[0]["type"] == "tools_withdrawn" and heard[0]["registered"] == 1
            [lost] = heard[0]["tools"]
            assert lost["name"] == "pay" and "the plugin or tools file 'pay'" in lost["reason"]
        assert [frame["type"] for frame in heard[len(capabilities) :]] == ["registered_tools"]
        assert [tool["name"] for tool in heard[-1]["tools"]] == ["other"]
        assert [one["name"] for one in (await seen(place, "phone"))["refused"]] == ["pay"]
        assert "pay" not in (await seen(place, "phone"))["tools"]


async def test_a_call_that_was_sent_to_a_client_goes_on_when_its_tool_loses_its_name(
    place: Place, tmp_path: Path
) -> None:
    async with device(place, "phone", prefix=False) as phone:
        await rejected(phone, "pay")
        waiting = asyncio.create_task(say(place, "pay"))
        request = await phone.hears_of("tool_call_request")
        (tmp_path / "config" / "tools" / "pay.py").write_text(re.sub("my_bank", "pay", BANK))
        await place.gateway.parts.app.refresh_tools(is_forced=True)
        await phone.send("tool_result", id=request["id"], output="mine", success=True)
        assert await waiting == "mine"


async def test_a_broken_file_keeps_the_names_of_its_tools_until_it_is_gone(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "config" / "tools" / "bank.py"
    async with device(place, "phone", prefix=False) as phone:
        file.write_text("def broken(:")
        await place.gateway.parts.app.refresh_tools(is_forced=True)
        assert "the plugin or tools file 'bank'" in (await rejected(phone, "my_bank"))["my_bank"]
        file.write_text(BANK)
        await place.gateway.parts.app.refresh_tools(is_forced=True)
        assert await say(place, "my_bank") == "bank: hi"
        file.unlink()
        await place.gateway.parts.app.refresh_tools(is_forced=True)
        assert await rejected(phone, "my_bank") == {}


async def test_a_name_that_the_settings_allow_can_be_had_and_calls_of_the_server_still_reach_the_server(
    place: Place,
) -> None:
    app = place.gateway.parts.app
    app.registry.use(RegistryRules(allow_shadowing=("rug__echo",)), ())
    await app.mcp.add("rug", server())
    await ready(app, "rug")
    async with device(place, "phone", prefix=False) as phone:
        assert list(await rejected(phone, "rug__echo", "rug__fail")) == ["rug__fail"]
        waiting = asyncio.create_task(say(place, "rug__echo"))
        request = await phone.hears_of("tool_call_request")
        await phone.send("tool_result", id=request["id"], output="mine", success=True)
        assert await waiting == "mine"
        called = await ask(place, "POST", "/api/mcp/rug/call", {"tool": "echo", "args": {"text": "hi"}})
        assert called["result"] == {"status": "success", "result": "hi"}


async def test_names_of_two_owners_do_not_meet(place: Place) -> None:
    bob = await place.gateway.parts.auth.issue("bob", ("device",))
    async with device(place, "phone", prefix=False) as phone, place.client(token=bob) as bobs:
        assert (await bobs.connected(role="device", label="phone", prefix=False))["label"] == "phone"
        for client in (phone, bobs):
            assert await rejected(client, "phone__look") == {}
