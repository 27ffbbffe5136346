"""MCP servers over REST: listed by all, changed by an admin alone (SPEC C1, T5)."""

import json
import sys
from pathlib import Path

import msgspec
import pytest

from handspan.config.mcp_file import read_servers
from handspan.config.tool_settings import McpServer
from handspan.core.errors import ConfigError
from handspan.core.results import Failure
from handspan.core.values import Json
from handspan.registry.pins import DefinitionChange
from handspan.testing.gateway import running_gateway
from tests.gateway.rest.served import Rest, serving, settings
from tests.sources.mcp.serving import PROGRAM

pytestmark = pytest.mark.anyio

SERVER: dict[str, Json] = {"command": sys.executable, "args": ["-I", "-S", str(PROGRAM)]}


async def test_a_server_is_added_tried_called_and_removed(tmp_path: Path) -> None:
    rest = Rest(settings(tmp_path))
    file = rest.app.settings.state / "mcp.json"
    async with serving(rest) as client:
        added = await client.ask("PUT", "/api/mcp/bad", SERVER)
        assert added.status_code == 200 and added.json()["can_change"] is True
        tried = (await client.ask("POST", "/api/mcp/bad/test")).json()
        assert tried["status"] == "ready" and "bad__echo" in tried["tools"] and str(PROGRAM) in tried["where"]
        called = await client.ask("POST", "/api/mcp/bad/call", {"tool": "echo", "args": {"text": "hi"}})
        assert called.json()["result"] == {"status": "success", "result": "hi"}
        assert "bad" in read_servers(file)
        assert (await client.ask("DELETE", "/api/mcp/bad")).status_code == 200
        assert (await client.get("/api/mcp")).json() == {"servers": []}
        assert (await client.ask("DELETE", "/api/mcp/bad")).status_code == 404
        assert read_servers(file) == {}


async def test_the_prompts_of_a_server_are_shown_while_it_is_up_and_its_tools_are(tmp_path: Path) -> None:
    rest = Rest(settings(tmp_path))
    server = {**SERVER, "args": ["-I", "-S", str(PROGRAM), "--prompts"]}
    async with serving(rest) as client:
        await client.ask("PUT", "/api/mcp/bad", server)
        shown = (await client.ask("POST", "/api/mcp/bad/test")).json()
        assert shown["prompts"] == [{"name": "review", "description": "Review code.", "arguments": ["path"]}]
        assert "bad__get_prompt" in shown["tools"]
        await client.ask("PATCH", "/api/mcp/bad", {"internal_only": True})
        assert (await client.ask("POST", "/api/mcp/bad/test")).json()["prompts"] == []
        await client.ask("PUT", "/api/mcp/bad", SERVER)
        assert (await client.ask("POST", "/api/mcp/bad/test")).json()["prompts"] == []


async def test_a_tool_of_a_server_that_is_not_up_is_not_available_and_says_where_to_look(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway:
        await gateway.gateway.parts.app.mcp.add("bad", McpServer(command="no-such-program"))
        refused = await gateway.call("bad__echo", text="hi")
        assert isinstance(refused, Failure) and refused.code == "tool_not_available"
        assert "the MCP server 'bad' is not up. `handspan mcp` says why." in refused.message
        unknown = await gateway.call("none__echo")
        assert isinstance(unknown, Failure) and unknown.code == "tool_not_found"


async def test_only_an_admin_changes_servers_and_sees_how_they_start(tmp_path: Path) -> None:
    rest = Rest(settings(tmp_path))
    async with serving(rest) as client:
        await client.ask("PUT", "/api/mcp/bad", {"command": "no-such-program", "env": {"KEY": "s3cret"}})
        await client.ask("POST", "/api/mcp/bad/test")
        shown = await client.ask("GET", "/api/mcp", token=rest.chat_token)
        assert shown.status_code == 200 and shown.json()["servers"][0]["name"] == "bad"
        assert "no-such-program" not in shown.text and "s3cret" not in (await client.get("/api/mcp")).text
        for method, path in (("PUT", ""), ("DELETE", ""), ("POST", "/test"), ("POST", "/trust"), ("POST", "/call")):
            refused = await client.ask(method, f"/api/mcp/bad{path}", SERVER, token=rest.chat_token)
            assert refused.status_code == 403, path


@pytest.mark.parametrize("name", ["a__b", "a_", "a b", "a" * 49])
async def test_a_name_that_can_t_be_a_prefix_is_refused(tmp_path: Path, name: str) -> None:
    async with serving(Rest(settings(tmp_path))) as client:
        refused = await client.ask("PUT", f"/api/mcp/{name}", SERVER)
        assert refused.status_code == 409 and "name" in refused.text


async def test_servers_of_a_file_of_another_program_are_read(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    server = {"command": "npx", "args": ["-y", "x"], "type": "stdio", "autoApprove": []}
    off = {"url": "http://127.0.0.1/mcp", "disabled": True}
    file.write_text(json.dumps({"mcpServers": {"x": server, "off": off, "hidden": {**server, "internal_only": True}}}))
    assert read_servers(file) == {
        "x": {"command": "npx", "args": ["-y", "x"], "internal_only": False},
        "hidden": {"command": "npx", "args": ["-y", "x"], "internal_only": True},
    }


async def test_the_servers_in_the_settings_of_goose_are_read_in_our_words(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "GOOSE_PROVIDER: openai\n"
        "extensions:\n"
        "  developer: {type: builtin, name: developer, enabled: true, bundled: true}\n"
        "  drive: {type: stdio, name: drive, cmd: npx, args: [-y, drive], envs: {A: b}, env_keys: [KEY],"
        " timeout: 300, enabled: true, bundled: null, available_tools: [list], description: Files}\n"
        "  issues: {type: streamable_http, uri: 'https://example.com/mcp', headers: {X: y}, envs: {}, enabled: true}\n"
        "  off: {type: stdio, cmd: npx, args: [], enabled: false}\n"
    )
    env = {"KEY": "env:KEY", "A": "b"}
    drive = {"command": "npx", "args": ["-y", "drive"], "env": env, "timeout": 300, "allow": ["list"]}
    assert read_servers(file) == {
        "drive": {**drive, "internal_only": False},
        "issues": {"url": "https://example.com/mcp", "headers": {"X": "y"}, "internal_only": False},
    }


@pytest.mark.parametrize("text", ["a: [", "- a", "a: 2026-13-41", "extensions: [a]", "a: \0", "[" * 5000])
async def test_settings_of_goose_that_can_t_be_read_are_named_in_the_error(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"config\.yaml"):
        read_servers(file)


async def test_a_server_is_hidden_and_shown_and_its_new_tools_are_compared(tmp_path: Path) -> None:
    async with serving(Rest(settings(tmp_path))) as client:
        assert (await client.ask("PATCH", "/api/mcp/bad", {"internal_only": True})).status_code == 404
        await client.ask("PUT", "/api/mcp/bad", SERVER)
        await client.ask("POST", "/api/mcp/bad/test")
        hidden = await client.ask("PATCH", "/api/mcp/bad", {"internal_only": True})
        assert hidden.json()["internal_only"] is True and str(PROGRAM) in hidden.json()["where"]
        shown = await client.ask("PATCH", "/api/mcp/bad", {"internal_only": False})
        assert shown.json()["internal_only"] is False
        waiting = (await client.ask("POST", "/api/mcp/bad/test")).json()["waiting"]
        changes = (await client.get("/api/mcp/bad/changes")).json()
        assert [one["tool"] for one in changes["tools"]] == waiting
        assert (await client.get("/api/mcp/none/changes")).status_code == 404
        for method, path in (("PATCH", ""), ("GET", "/changes")):
            body: dict[str, Json] | None = {} if method == "PATCH" else None
            refused = await client.ask(method, f"/api/mcp/bad{path}", body, token=client.rest.chat_token)
            assert refused.status_code == 403


async def test_a_changed_definition_is_shown_beside_the_accepted_one(tmp_path: Path) -> None:
    async with serving(Rest(settings(tmp_path))) as client:
        await client.ask("PUT", "/api/mcp/bad", SERVER)
        await client.ask("POST", "/api/mcp/bad/test")
        await client.ask("POST", "/api/mcp/bad/trust")
        registry = client.rest.app.registry
        entry = next(one for one in registry if one.spec.name == "bad__echo")
        was = msgspec.structs.replace(entry.spec, description="Before.")
        entry.mark(DefinitionChange(was, "blocks"))
        told = (await client.get("/api/mcp/bad/changes")).json()["tools"]
        assert [(one["tool"], one["old"]["description"], one["is_blocked"]) for one in told] == [
            ("bad__echo", "Before.", True)
        ]


async def test_the_journal_says_that_a_tool_is_internal(tmp_path: Path) -> None:
    async with serving(Rest(settings(tmp_path))) as client:
        await client.ask("PUT", "/api/mcp/bad", {**SERVER, "internal_only": True})
        await client.ask("PUT", "/api/mcp/open", SERVER)
        for name in ("bad", "open"):
            called = await client.ask("POST", f"/api/mcp/{name}/call", {"tool": "echo", "args": {"text": "hi"}})
            assert called.json()["result"]["status"] == "success", called.text
        calls = (await client.get("/api/calls")).json()["calls"]
        internal = {one["tool"]: (await client.get(f"/api/calls/{one['id']}")).json()["internal"] for one in calls}
        assert internal == {"bad__echo": True, "open__echo": False}
