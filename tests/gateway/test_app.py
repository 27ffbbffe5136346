"""Everything put together."""

import asyncio
from importlib import import_module
from pathlib import Path

import httpx2
import pytest

from handspan.config.load import load_settings
from handspan.config.settings import Settings
from handspan.core.calls import ToolCall, new_call_id
from handspan.core.errors import ConfigError
from handspan.core.results import Failure, Success, ToolResult
from handspan.core.values import Json, JsonObject
from handspan.gateway.app import App
from handspan.testing.gateway import running_gateway

pytestmark = pytest.mark.anyio

BUILTINS = {
    "ask_user",
    "edit_file",
    "exec_shell",
    "find_files",
    "get_current_time",
    "http_request",
    "list_directory",
    "memory_read",
    "memory_write",
    "read_artifact",
    "schedule",
    "read_file",
    "search_files",
    "spawn",
    "use_skill",
    "web_fetch",
    "write_file",
}


def settings(folder: Path, **overrides: Json) -> Settings:
    folders: JsonObject = {"workspace": str(folder / "ws"), "state": str(folder / "st")}
    return load_settings(None, {"HOME": str(folder)}, {**folders, **overrides})


async def call(app: App, name: str, arguments: JsonObject, agent: str | None = None) -> ToolResult:
    result = await app.engine.call(ToolCall(name, arguments, new_call_id()), app.caller(agent))
    assert isinstance(result, Success | Failure)
    return result


async def test_all_built_in_tools_are_there_and_gone_after_close(tmp_path: Path) -> None:
    app = App(settings(tmp_path))
    async with app:
        assert {spec.name for spec in app.caller().box.specs()} == BUILTINS
    assert {entry.spec.name for entry in app.registry} == {"use_skill"}


async def test_the_state_folder_is_out_of_reach_when_the_workspace_contains_it(tmp_path: Path) -> None:
    async with App(settings(tmp_path, workspace=str(tmp_path), state=str(tmp_path / "st"))) as app:
        (tmp_path / "st" / "token").write_text("secret", encoding="utf-8")
        read = await call(app, "read_file", {"path": "st/token"})
        listed = await call(app, "list_directory", {"path": "."})
        catted = await call(app, "exec_shell", {"command": "cat st/token"})
    assert isinstance(read, Failure) and read.code == "invalid_path"
    assert isinstance(listed, Success) and b'"st"' not in listed.encoded
    assert not isinstance(catted, Success) or b"secret" not in catted.encoded


async def test_settings_give_commands_a_network_that_passes_the_url_policy(tmp_path: Path) -> None:
    network: JsonObject = {"sandbox": {"network": "guarded", "network_bytes": 5000}}
    async with App(settings(tmp_path, tools=network)) as app:
        report = await app.sandbox.ready()
        if not report.active:
            pytest.skip(str(report))
        refused = await call(app, "exec_shell", {"command": ASK_FOR_METADATA})
    assert "network: guarded" in report.reason
    assert isinstance(refused, Success) and isinstance(refused.value, dict)
    assert "HTTP Error 403" in str(refused.value["stderr"])
    assert "blocked cloud metadata endpoint" in str(refused.value["note"])


ASK_FOR_METADATA = "python3 -c 'import urllib.request as u; u.urlopen(\"http://169.254.169.254/\")'"


async def test_the_description_of_the_shell_follows_what_the_test_of_the_sandbox_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("bwrap", "setpriv", "prlimit"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    async with App(settings(tmp_path)) as app:
        assert "in a sandbox" in described(app, "exec_shell") and "in a sandbox" in described(app, "spawn")
        await app.sandbox.ready()
        assert "no sandbox here" in described(app, "exec_shell") and "no sandbox here" in described(app, "spawn")
    assert {entry.spec.name for entry in app.registry} == {"use_skill"}


def described(app: App, name: str) -> str:
    return next(spec.description for spec in app.caller().box.specs() if spec.name == name)


async def test_the_whole_output_of_a_command_is_kept_and_searched_by_its_lines(tmp_path: Path) -> None:
    async with App(settings(tmp_path)) as app:
        text = "".join(f"line {number}\n" for number in range(1, 24_001))
        await call(app, "write_file", {"path": "big.txt", "content": text})
        ran = await call(app, "exec_shell", {"command": "cat big.txt"})
        assert isinstance(ran, Success) and isinstance(ran.value, dict)
        shown = str(ran.value["stdout"])
        assert 60_000 < len(ran.encoded) <= 65_536
        assert shown.startswith("line 1\nline 2\n") and shown.endswith("line 23999\nline 24000\n")
        handle = shown.partition("read_artifact with id '")[2].partition("'")[0]
        found = await call(app, "read_artifact", {"id": handle, "query": "line 12345"})
        assert await app.artifacts.read(handle, owner="operator") == text.encode()
    assert isinstance(found, Success) and b'"line":12345' in found.encoded


async def test_tools_that_miss_a_setting_are_not_offered_and_say_what_they_miss(tmp_path: Path) -> None:
    async with App(settings(tmp_path)) as app:
        for name, missing in (("web_search", "tools.web_search.endpoint"), ("message", "no channel is configured")):
            refused = await call(app, name, {})
            assert isinstance(refused, Failure) and refused.code == "tool_not_available" and missing in refused.message
            assert any(missing in reason.text and not reason.ok for reason in app.explain(app.caller().box, name))
    async with App(settings(tmp_path, **{"tools.web_search.endpoint": "http://search.test/"})) as app:
        assert app.caller().box.find("web_search") is not None


async def test_a_read_only_agent_may_fetch_pages_but_send_nothing(tmp_path: Path) -> None:
    async with App(settings(tmp_path, agents={"reader": {"mode": "read_only"}})) as app:
        assert app.caller("reader").box.find("web_fetch") is not None
        sent = await call(app, "web_fetch", {"url": "http://127.0.0.1:9/", "method": "POST"}, "reader")
        read = await call(app, "web_fetch", {"url": "http://127.0.0.1:9/"}, "reader")
    assert isinstance(sent, Failure) and "This call of 'web_fetch' may change things" in sent.message
    assert isinstance(read, Failure) and "tools.url_policy" in read.message


async def test_settings_decide_about_agents_timeouts_and_switches(tmp_path: Path) -> None:
    chosen: JsonObject = {
        "agents": {"reader": {"tools": ["read_*", "list_directory"], "deny": ["read_artifact"], "mode": "read_only"}},
        "tools": {"timeouts": {"read_file": 1.5}, "disabled": ["origin:builtin(x)", "spawn"]},
    }
    async with App(settings(tmp_path, **chosen)) as app:
        assert {spec.name for spec in app.caller("reader").box.specs()} == {"read_file", "list_directory"}
        entry = app.caller().box.find("read_file")
        assert entry is not None and entry.timeout == 1.5
        off = await call(app, "spawn", {"command": "true"})
        assert isinstance(off, Failure) and off.code == "tool_disabled"
        with pytest.raises(ConfigError, match=r"no agent 'raeder'. Did you mean 'reader'"):
            app.caller("raeder")


async def test_hooks_of_the_settings_see_every_call(tmp_path: Path) -> None:
    chain: JsonObject = {
        "hooks": {"chain": [{"type": "audit_log"}, {"type": "path_prefix", "config": {"prefix": "sub"}}]}
    }
    async with App(settings(tmp_path, **chain)) as app:
        await call(app, "write_file", {"path": "a.txt", "content": "x"})
    assert (tmp_path / "ws" / "sub" / "a.txt").read_text(encoding="utf-8") == "x"
    assert '"tool":"write_file"' in (tmp_path / "st" / "audit.jsonl").read_text(encoding="utf-8")


_BLOCKING_HOOK = """
import threading
RELEASED = threading.Event()
class Blocking:
    def __init__(self, config):
        pass
    async def before(self, call):
        if call.name == "list_directory":
            RELEASED.wait(60)
    async def after(self, call, result):
        pass
"""


async def test_a_hook_of_a_plugin_that_never_returns_refuses_its_call_and_the_gateway_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (info := tmp_path / "blocking_hook-1.0.dist-info").mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: blocking-hook\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[handspan.hooks]\nblocking = blocking_hook:Blocking\n", encoding="utf-8")
    (tmp_path / "blocking_hook.py").write_text(_BLOCKING_HOOK, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    hooks = {"chain": [{"type": "blocking", "timeout": 0.3}]}
    async with (
        running_gateway(tmp_path, hooks=hooks) as gateway,
        httpx2.AsyncClient(trust_env=False, timeout=60) as client,
    ):
        try:
            calling = asyncio.create_task(gateway.call("list_directory", path="."))
            answer = await client.get(f"{gateway.url}/api/tools", headers={"Authorization": f"Bearer {gateway.token}"})
            refused = await calling
        finally:
            import_module("blocking_hook").RELEASED.set()
    assert answer.status_code == 200
    assert isinstance(refused, Failure) and refused.code == "hook_cancelled"
    assert "The hook 'blocking' gave no verdict (no answer within 0.3 s)" in refused.message


async def test_a_folder_that_can_not_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, match="can't be made"):
        await App(settings(tmp_path, workspace=str(tmp_path / "file" / "ws"))).open()


async def test_tools_of_the_configuration_folder_are_there_and_broken_ones_are_told(tmp_path: Path) -> None:
    folder = tmp_path / "config"
    (folder / "tools").mkdir(parents=True)
    code = "from handspan import tool\n@tool\ndef mine() -> int:\n    'Mine.'\n    return 7\n"
    (folder / "tools" / "mine.py").write_text(code, encoding="utf-8")
    (folder / "tools" / "bad.py").write_text("(", encoding="utf-8")
    async with App(settings(tmp_path), config_folder=folder) as app:
        result = await call(app, "mine", {})
        assert isinstance(result, Success) and result.value == 7
        assert [Path(broken.where).name for broken in app.broken] == ["bad.py"]


async def test_what_was_switched_off_stays_off_in_the_next_process(tmp_path: Path) -> None:
    await App(settings(tmp_path)).switches.switch_off("message")
    async with App(settings(tmp_path)) as app:
        assert app.caller().box.find("message") is None


async def test_where_it_cant_be_known_what_is_switched_off_nothing_is_opened(tmp_path: Path) -> None:
    (tmp_path / "st").mkdir()
    (tmp_path / "st" / "disabled.json").write_text("{", encoding="utf-8")
    with pytest.raises(ConfigError, match="repair it, or remove it"):
        await App(settings(tmp_path)).open()
    assert [file.name for file in (tmp_path / "st").iterdir()] == ["disabled.json"]


async def test_an_agent_of_the_settings_has_all_that_an_agent_can_have(tmp_path: Path) -> None:
    clerk: JsonObject = {"instructions": "Be brief.", "model": "offline", "max_tool_iterations": 3, "skills": ["x"]}
    async with App(settings(tmp_path, agents={"clerk": {**clerk, "description": "Files things."}})) as app:
        agent = await app.find_agent("clerk")
    assert (agent.instructions, agent.model, agent.max_tool_iterations) == ("Be brief.", "offline", 3)
    assert (agent.skills, agent.description) == (("x",), "Files things.")
