"""MCP servers over REST: listed by all, changed by an admin alone (SPEC C1, T5)."""

import json
import sys
from pathlib import Path

import pytest

from handspan.config.mcp_file import read_servers
from handspan.core.values import Json
from tests.gateway.rest.served import Rest, serving, settings
from tests.sources.mcp.serving import PROGRAM

pytestmark = pytest.mark.anyio

SERVER: dict[str, Json] = {"command": sys.executable, "args": ["-I", "-S", str(PROGRAM)]}


async def test_a_server_is_added_tried_called_and_removed(tmp_path: Path) -> None:
    rest = Rest(settings(tmp_path))
    file = rest.app.settings.state / "mcp.json"
    async with serving(rest) as knocking:
        added = await knocking.ask("PUT", "/api/mcp/bad", SERVER)
        assert added.status_code == 200 and added.json()["can_change"] is True
        tried = (await knocking.ask("POST", "/api/mcp/bad/test")).json()
        assert tried["status"] == "ready" and "bad__echo" in tried["tools"] and str(PROGRAM) in tried["where"]
        called = await knocking.ask("POST", "/api/mcp/bad/call", {"tool": "echo", "args": {"text": "hi"}})
        assert called.json()["result"] == {"status": "success", "result": "hi"}
        assert "bad" in read_servers(file)
        assert (await knocking.ask("DELETE", "/api/mcp/bad")).status_code == 200
        assert (await knocking.get("/api/mcp")).json() == {"servers": []}
        assert (await knocking.ask("DELETE", "/api/mcp/bad")).status_code == 404
        assert read_servers(file) == {}


async def test_only_an_admin_changes_servers_and_sees_how_they_start(tmp_path: Path) -> None:
    rest = Rest(settings(tmp_path))
    async with serving(rest) as knocking:
        await knocking.ask("PUT", "/api/mcp/bad", {"command": "no-such-program", "env": {"KEY": "s3cret"}})
        await knocking.ask("POST", "/api/mcp/bad/test")
        shown = await knocking.ask("GET", "/api/mcp", token=rest.chat_token)
        assert shown.status_code == 200 and shown.json()["servers"][0]["name"] == "bad"
        assert "no-such-program" not in shown.text and "s3cret" not in (await knocking.get("/api/mcp")).text
        for method, path in (("PUT", ""), ("DELETE", ""), ("POST", "/test"), ("POST", "/trust"), ("POST", "/call")):
            refused = await knocking.ask(method, f"/api/mcp/bad{path}", SERVER, token=rest.chat_token)
            assert refused.status_code == 403, path


@pytest.mark.parametrize("name", ["a__b", "a_", "a b"])
async def test_a_name_that_can_t_be_a_prefix_is_refused(tmp_path: Path, name: str) -> None:
    async with serving(Rest(settings(tmp_path))) as knocking:
        refused = await knocking.ask("PUT", f"/api/mcp/{name}", SERVER)
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
