"""`handspan mcp serve` and `handspan mcp config`, as the programs meet them that people use (SPEC C5, U2)."""

import asyncio
import base64
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.client.session import ClientRequestContext

from handspan.testing.gateway import RunningGateway, running_gateway
from mcp import Client as McpClient
from mcp import MCPError, StdioServerParameters
from tests.cli.gateways import address, program, serving
from tests.cli.shell import Shell
from tests.gateway.mcp.test_door import ANSWERS, ERAS, PIXEL, add_blocking_tool, codes, names, phone, texts
from tests.gateway.mcp.test_fast_calls import Route
from tests.waiting import until

PROGRAM = (sys.executable, "-m", "handspan.cli.main", "mcp", "serve")


def environment(folder: Path, gateway: RunningGateway | None) -> dict[str, str]:
    found = {"HOME": str(folder), "PATH": os.environ["PATH"]}
    return found if gateway is None else {**found, "HANDSPAN_URL": gateway.url, "HANDSPAN_TOKEN": gateway.token}


@asynccontextmanager
async def stdio_client(
    folder: Path, gateway: RunningGateway | None, mode: str, words: Sequence[str] = (), **options: Any
) -> AsyncIterator[McpClient]:
    parameters = StdioServerParameters(
        command=PROGRAM[0], args=[*PROGRAM[1:], *words], env=environment(folder, gateway), cwd=folder
    )
    async with McpClient(parameters, mode=mode, cache=None, **options) as client:
        yield client


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ERAS)
async def test_a_program_gets_the_tools_of_a_running_gateway_over_standard_input_and_output(
    tmp_path: Path, mode: str
) -> None:
    changed, reports = asyncio.Event(), []

    async def hear(message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            changed.set()

    async def report(progress: float, total: float | None, message: str | None) -> None:
        reports.append(message)

    async def elicit(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"decision": "allow"})

    options: dict[str, Any] = {"message_handler": hear, "elicitation_callback": elicit}
    agents = {"Careful": {"mode": "ask_always"}}
    async with (
        running_gateway(tmp_path / "gateway", agents=agents, mcp=ANSWERS) as gateway,
        stdio_client(tmp_path, gateway, mode, ("--agent", "Careful"), **options) as client,
    ):
        gateway.gateway.parts.app.registry.register(Route())
        routed = await client.call_tool("route", {"region": "eu west"})
        assert texts(routed) == "eu west", "over HTTP a header repeats the argument"
        assert "phone__camera" not in await names(client)
        async with phone(gateway):
            if mode == "legacy":
                await until(changed.is_set)
            assert "phone__camera" in await names(client)
            photo = await client.call_tool("phone__camera", {}, progress_callback=report)
            images = [block for block in photo.content if isinstance(block, types.ImageContent)]
            assert [base64.b64decode(image.data) for image in images] == [PIXEL]
            assert any("Waiting for your answer" in str(text) for text in reports)
        began = add_blocking_tool(gateway)
        calling = asyncio.create_task(client.call_tool("block", {}))
        await until(began.is_set)
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)

        async def is_over() -> bool:
            return "cancelled" in await codes(gateway)

        await until(is_over)


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ERAS)
async def test_without_a_gateway_the_process_has_the_tools_itself(tmp_path: Path, mode: str) -> None:
    async with stdio_client(tmp_path, None, mode) as client:
        written = await client.call_tool("write_file", {"path": "a.txt", "content": "hello"})
        assert not written.is_error, texts(written)
        assert "hello" in texts(await client.call_tool("read_file", {"path": "a.txt"}))


@pytest.mark.anyio
async def test_a_gateway_that_was_started_again_goes_on_serving_and_an_unknown_agent_is_named(tmp_path: Path) -> None:
    async with running_gateway(tmp_path / "gateway") as gateway:
        async with stdio_client(tmp_path, gateway, "legacy") as client:
            assert "read_file" in await names(client)
            await gateway.close()
            with pytest.raises(MCPError, match="Is it running"):
                await client.list_tools()
            await gateway.open()
            assert "read_file" in await names(client)
        with pytest.raises(Exception) as refused:
            async with stdio_client(tmp_path, gateway, "legacy", ("--agent", "Nobody")):
                pass
        assert "Nobody" in repr(refused.value)


@pytest.mark.anyio
async def test_standard_output_carries_messages_only_and_the_end_of_input_ends_the_program(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *PROGRAM,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment(tmp_path, None),
        cwd=tmp_path,
    )
    info = {"name": "test", "version": "1"}
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}
    lines = [
        "nonsense",
        json.dumps({"jsonrpc": "2.0", "id": 0, "method": "tools/list"}),
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}),
        json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json.dumps({"jsonrpc": "2.0", "id": 2, "method": "ping"}),
    ]
    out, err = await process.communicate("\n".join(lines).encode() + b"\n")
    assert process.returncode == 0, err
    answers = [json.loads(line) for line in out.splitlines()]
    assert sorted(str(answer["id"]) for answer in answers) == ["0", "1", "2", "None"]
    wrong = {answer["id"]: answer["error"]["code"] for answer in answers if "error" in answer}
    assert wrong[None] == -32700 and 0 in wrong
    assert err == b""


def test_config_makes_a_token_for_an_agent_and_prints_entries_that_work(run: Shell) -> None:
    with serving(run):
        made = run("mcp", "config", "--json", "--agent", "General")
        assert made.returncode == 0, made.stderr
        printed = json.loads(made.stdout)
        assert printed["scopes"] == ["tools", "agent:General"]
        token, url = printed["token"], f"{address(run)}/mcp/General"
        desktop = json.loads(printed["clients"]["claude-desktop"])["mcpServers"]["handspan"]
        assert desktop["args"] == ["mcp", "serve", "--agent", "General"]
        assert desktop["env"] == {"HANDSPAN_STATE": str(run.state), "HANDSPAN_TOKEN": token}
        header = {"Authorization": f"Bearer {token}"}
        assert json.loads(printed["clients"]["cursor"])["mcpServers"]["handspan"] == {"url": url, "headers": header}
        in_code = json.loads(printed["clients"]["vscode"])["servers"]["handspan"]
        assert in_code == {"type": "http", "url": url, "headers": header}
        assert url in printed["clients"]["claude-code"] and token in printed["clients"]["claude-code"]
        one = run("mcp", "config", "--client", "claude-code")
        assert "claude mcp add" in one.stdout and "mcpServers" not in one.stdout
        assert "random port" in one.stderr and "gateway.port" in one.stderr
        cursor = run("mcp", "config", "--client", "cursor")
        assert "handspan" in json.loads(cursor.stdout)["mcpServers"] and "# Cursor: into ~/.cursor" in cursor.stderr
        listed = run("tokens")
        assert "tools, agent:General" in listed.stdout and "MCP: Claude Code" in listed.stdout
        unknown = run("mcp", "config", "--agent", "Nobody")
        assert unknown.returncode == 1 and "Nobody" in unknown.stderr


def test_tokens_for_tools_can_be_bound_to_agents(run: Shell) -> None:
    with serving(run):
        made = run("tokens", "new", "desk", "--scope", "tools", "--agent", "General")
        assert made.returncode == 0 and "/mcp with the header" in made.stderr and "handspan device" not in made.stderr
        made = run("tokens", "new", "desk", "--scope", "chat", "--agent", "General")
        assert made.returncode == 0 and "/v1" in made.stderr and "handspan device" not in made.stderr
        wrong = run("tokens", "new", "desk", "--scope", "device", "--agent", "General")
        assert wrong.returncode == 2 and "--scope tools" in wrong.stderr


def test_the_servers_of_other_programs_are_imported_and_what_means_nothing_here_is_named(run: Shell) -> None:
    server = Path(__file__).parents[1] / "sources" / "mcp" / "server.py"
    cursor, goose = run.home / ".cursor" / "mcp.json", run.home / ".config" / "goose" / "config.yaml"
    entry = {"command": sys.executable, "args": ["-I", "-S", str(server)], "cwd": "/"}
    for file, content in (
        (cursor, {"mcpServers": {"plain": entry}}),
        (goose, {"extensions": {"bird": {"type": "stdio", "cmd": entry["command"], "args": entry["args"]}}}),
    ):
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps(content))
    done = run("mcp", "import", "--json")
    assert [(one["name"], one["status"]) for one in json.loads(done.stdout)] == [("plain", "ready"), ("bird", "ready")]
    assert "plain: left out, as it means nothing here: cwd" in done.stderr
    goose.write_text("a: [")
    cursor.write_text(json.dumps({"mcpServers": {"plain": {"command": 5}}}))
    refused = run("mcp", "import")
    assert refused.returncode == 1 and "'plain' can't be read" in refused.stderr
    assert f"{goose}: this is not valid YAML" in refused.stderr


def test_an_import_keeps_what_is_here_and_says_of_each_server_what_became_of_it(run: Shell) -> None:
    kept, theirs = run.home / ".config" / "handspan" / "mcp.json", run.home / "theirs.json"
    own = {"mine": {"command": "mine", "env": {"KEY": "1"}}, "off": {"command": "mine", "disabled": True}}
    kept.parent.mkdir(parents=True)
    kept.write_text(json.dumps({"mcpServers": own}))
    other = {"command": "other"}
    theirs.write_text(
        json.dumps({"mcpServers": {"w 2": other, "mine": other, "empty": {}, "off": other, "new": other}})
    )
    done = run("mcp", "import", str(theirs))
    outcomes = {tuple(line.split()[:2]) for line in done.stdout.splitlines()[2:]}
    assert done.returncode == 1
    assert outcomes == {("mine", "kept"), ("empty", "skipped"), ("off", "kept"), ("new", "added")}
    assert "w 2: The MCP server needs another name" in done.stderr and "`--replace` replaces it" in done.stderr
    assert str(theirs) in done.stdout
    stored = json.loads(kept.read_text())["mcpServers"]
    assert {name: stored[name] for name in own} == own and stored["new"] == other
    replaced = json.loads(run("mcp", "import", str(theirs), "--replace", "--json").stdout)
    assert [one["outcome"] for one in replaced] == ["skipped", "replaced", "skipped", "replaced", "replaced"]
    stored = json.loads(kept.read_text())["mcpServers"]
    assert [stored[name] for name in ("mine", "off", "new")] == [other] * 3


def test_a_file_of_this_folder_is_added_with_its_full_path(run: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    (run.home / "server.py").write_text("", encoding="utf-8")
    monkeypatch.chdir(run.home)
    done = run.started("mcp", "add", "weather", "--", sys.executable, "server.py")
    path = str(run.home / "server.py")
    assert f"'server.py' becomes {path!r}: the program runs in the workspace" in done.stderr
    kept = json.loads((run.home / ".config" / "handspan" / "mcp.json").read_text(encoding="utf-8"))
    assert kept["mcpServers"]["weather"]["args"] == [path]


def test_folders_of_this_folder_are_added_with_their_full_paths(run: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    here = run.home / "project"
    (here / "docs").mkdir(parents=True)
    (here / "served").mkdir()
    monkeypatch.chdir(here)
    words = ("true", ".", "..", "docs", "./new.db", "--root=docs", "--log=./log", "--level=info", "-m", "served")
    done = run.started("mcp", "add", "files", "--env", "ROOT=./docs", "--env", "MODE=docs", "--", *words)
    assert f"'.' becomes {str(here)!r}: the program runs in the workspace" in done.stderr
    run.started("mcp", "add", "fetched", "--", "uvx", "--from", "./docs", "docs", "served")
    file = run.home / ".config" / "handspan" / "mcp.json"
    kept = json.loads(file.read_text(encoding="utf-8"))["mcpServers"]
    docs = str(here / "docs")
    paths = [str(here), str(run.home), docs, str(here / "new.db"), f"--root={docs}", f"--log={here / 'log'}"]
    assert kept["files"]["args"] == [*paths, "--level=info", "-m", "served"], "a module has a name, not a path"
    assert kept["files"]["env"] == {"ROOT": docs, "MODE": "docs"}
    assert kept["fetched"]["args"] == ["--from", docs, "docs", str(here / "served")], "so has a package"
    (here / ".mcp.json").write_text(json.dumps({"mcpServers": {"imported": {"command": "true", "args": ["."]}}}))
    imported = run("mcp", "import", str(here / ".mcp.json"))
    assert "imported: the program runs in the workspace, so this is a path there: '.'" in imported.stderr


def test_a_program_that_the_gateway_would_not_find_is_added_with_its_full_path(run: Shell) -> None:
    path = program(run.home / "mine", "weather-server", "exit 1")
    program(run.home / "mine", "other-server", "exit 1")
    theirs = program(run.home / "theirs", "other-server", "exit 1")
    (run.home / "import.json").write_text(json.dumps({"mcpServers": {"imported": {"command": "weather-server"}}}))
    with serving(run, PATH=theirs):
        missing = run("mcp", "add", "weather", "--", "weather-server", PATH=path)
        assert (
            f"'weather-server' becomes {str(run.home / 'mine' / 'weather-server')!r}: it is not on the"
            in missing.stderr
        )
        another = run("mcp", "add", "other", "--", "other-server", PATH=path)
        assert f"the gateway would start {str(run.home / 'theirs' / 'other-server')!r}" in another.stderr
        assert "becomes" not in run("mcp", "add", "same", "--", "true", PATH=path).stderr
        assert "not on the gateway's PATH" in run("mcp", "import", str(run.home / "import.json"), PATH=path).stderr
    kept = json.loads((run.home / ".config" / "handspan" / "mcp.json").read_text(encoding="utf-8"))["mcpServers"]
    commands = {name: Path(server["command"]).name for name, server in kept.items() if "/" in server["command"]}
    assert commands == {"weather": "weather-server", "other": "other-server", "imported": "weather-server"}
    assert kept["same"]["command"] == "true"


def test_arguments_that_can_t_be_read_name_the_tool_as_the_other_commands_know_it(run: Shell) -> None:
    refused = json.loads(run("mcp", "call", "time", "convert_time", "{bad").stdout)
    assert "`handspan tools show time__convert_time` has an example" in refused["message"], refused


def test_tools_that_changed_since_an_earlier_add_are_named_with_what_to_do(run: Shell) -> None:
    server = Path(__file__).parents[1] / "sources" / "mcp" / "server.py"
    tools = run.home / "tools.json"
    words = ("mcp", "add", "chg", "--", sys.executable, "-I", "-S", str(server), "--tools", str(tools))
    for text, is_changed in (("One.", False), ("Another.", True)):
        tools.write_text(json.dumps([{"name": "look", "description": text, "inputSchema": {"type": "object"}}]))
        done = run(*words)
        assert done.returncode == 0, done.stderr
        trust = "not accepted yet: chg__look. Accept them: handspan mcp trust chg"
        assert (trust in done.stdout) == is_changed, done.stdout
    assert run("mcp", "trust", "chg").stdout == "Accepted: chg__look.\n"
    assert "not accepted" not in run("mcp", "test", "chg").stdout


def test_nothing_to_import_is_no_wrong_usage(run: Shell) -> None:
    done = run("mcp", "import")
    assert done.returncode == 0 and done.stdout.startswith("There is nothing to import: no other program")
