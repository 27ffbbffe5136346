"""MCP servers follow the settings file and `mcp.json` while the gateway runs (SPEC C1)."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from handspan.config import watch
from handspan.config.load import load_with_sources
from handspan.core.results import Success
from handspan.gateway.app import App
from tests.sources.mcp.serving import WITHOUT, call, connection, ready, server
from tests.waiting import until

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_LOOK_SECONDS", 0.02)


def write(folder: Path, servers: dict[str, Any], **more: Any) -> None:
    tools = {"mcp_servers": servers, **more}
    (folder / "config.json").write_text(json.dumps({"tools": tools}))


def listed(*options: str, **more: Any) -> dict[str, Any]:
    return {"command": WITHOUT.command, "args": [*WITHOUT.args, *options], "internal_only": False, **more}


@asynccontextmanager
async def app_of(folder: Path) -> AsyncIterator[App]:
    """An app with the settings of this folder, as `handspan serve` opens it."""
    chosen = {"workspace": str(folder / "workspace"), "state": str(folder / "state")}
    loaded = load_with_sources(folder / "config.json", {"HOME": str(folder)}, chosen)
    async with App(loaded.settings, None, folder, loaded=loaded) as app:
        yield app


async def test_a_changed_server_is_started_again_a_removed_one_goes_and_the_others_keep_their_calls(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    write(tmp_path, {"keep": listed("--log", str(log)), "change": listed(), "go": listed()})
    async with app_of(tmp_path) as app:
        await ready(app, "keep", "change", "go")
        kept, changed = connection(app, "keep"), connection(app, "change")
        hanging = asyncio.create_task(call(app, "keep__hang"))
        await until(lambda: "tools/call" in log.read_text())
        write(tmp_path, {"keep": listed("--log", str(log)), "change": listed(deny=["echo"]), "come": listed()})
        await until(lambda: app.mcp.find("go") is None and app.mcp.find("come") is not None)
        await until(lambda: app.mcp.find("change") not in (None, changed))
        await ready(app, "change", "come")
        box = app.caller().box
        assert box.find("come__echo") is not None and box.find("change__fail") is not None
        assert box.find("go__echo") is None and box.find("change__echo") is None
        assert connection(app, "keep") is kept
        assert not hanging.done() and log.read_text().count("start") == 1
        assert not app.started_with.is_changed, "all that the file says is in force"
        hanging.cancel()


async def test_a_file_that_can_not_be_used_changes_nothing_and_says_so_until_it_is_corrected(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, {"one": listed()})
    async with app_of(tmp_path) as app:
        await ready(app, "one")
        before = connection(app, "one")
        for broken in ('{"tools": ', '{"tools": {"mcp_servers": {"one": {}}}}'):
            (tmp_path / "config.json").write_text(broken)
            await until(lambda: app.started_with.problem)
            assert str(tmp_path / "config.json") in app.started_with.problem
            assert connection(app, "one") is before and isinstance(await call(app, "one__echo", text="x"), Success)
            write(tmp_path, {"one": listed()})
            await until(lambda: not app.started_with.problem)
        assert connection(app, "one") is before
        assert "the old ones stay in force" in caplog.text


async def test_other_settings_of_the_file_wait_for_the_next_start(tmp_path: Path) -> None:
    write(tmp_path, {})
    async with app_of(tmp_path) as app:
        write(tmp_path, {"one": listed()}, result_limit=5000)
        await until(lambda: app.mcp.find("one"))
        assert app.started_with.is_changed
        in_force = app.started_with.loaded
        assert in_force.settings.tools.result_limit == 65536 and "one" in in_force.settings.tools.mcp_servers
        assert in_force.sources["tools", "mcp_servers", "one"] == str(tmp_path / "config.json")


async def test_the_file_of_servers_is_followed_and_what_the_gateway_writes_there_disturbs_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "handspan.sources.mcp.servers")
    write(tmp_path, {"fixed": listed()})
    file = tmp_path / "mcp.json"
    async with app_of(tmp_path) as app:
        await ready(app, "fixed")
        added = await app.mcp.add("added", server(timeout=None, idle_timeout=100.0, deny=("fail",)))
        servers = json.loads(file.read_text())["mcpServers"]
        file.write_text(
            json.dumps({"mcpServers": {**servers, "copied": {"command": WITHOUT.command, "type": "stdio"}}})
        )
        await until(lambda: app.mcp.find("copied"))
        assert connection(app, "added") is added, "it is the same as in the file"
        assert not app.mcp.is_fixed("copied") and app.mcp.is_fixed("fixed")
        await until(lambda: "copied started, none removed" in caplog.text)
        file.unlink()
        await until(lambda: app.mcp.find("copied") is None and app.mcp.find("added") is None)
        assert app.mcp.find("fixed") is not None


async def test_a_server_that_is_added_or_forgotten_leaves_all_else_in_mcp_json_as_it_is(tmp_path: Path) -> None:
    file, other = tmp_path / "mcp.json", {"command": "x", "env": {"KEY": "k"}, "disabled": True}
    write(tmp_path, {})
    async with app_of(tmp_path) as app:
        theirs = {"inputs": [{"id": "a"}], "mcpServers": {"other": other, "mine": {**listed(), "autoApprove": ["now"]}}}
        file.write_text(json.dumps(theirs))  # by hand, and not seen yet
        await app.mcp.add("come", WITHOUT)
        await app.mcp.add("mine", WITHOUT)
        added = json.loads(file.read_text())
        assert added["inputs"] == theirs["inputs"] and list(added["mcpServers"]) == ["other", "come", "mine"]
        assert (added["mcpServers"]["other"], added["mcpServers"]["mine"]["autoApprove"]) == (other, ["now"])
        await app.mcp.forget("come")
        assert list(json.loads(file.read_text())["mcpServers"]) == ["other", "mine"]
