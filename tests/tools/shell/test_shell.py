"""`exec_shell` and `spawn`, in the sandbox and without one."""

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from handspan.core.context import ToolContext
from handspan.core.errors import ToolError
from handspan.core.values import Arguments, Json, JsonObject
from handspan.tools.sandbox import Sandbox, SandboxReport, create_workspace
from handspan.tools.shell.launcher import CommandLauncher
from handspan.tools.shell.policy import CommandPolicy
from handspan.tools.shell.shell import ExecShell, Spawn, shell_tools
from tests.tools.child_processes import LIMIT, Reports, is_gone, new_mark, probe

pytestmark = pytest.mark.anyio

ANYTHING = CommandPolicy(mode="denylist")
OFF = SandboxReport(False, "'bwrap' is not installed", "apt-get install bubblewrap")


@pytest.fixture
def folder(on_disk: Path) -> Path:
    path = on_disk / "ws"
    create_workspace(path)
    return path


@pytest.fixture
async def sandbox(folder: Path) -> Sandbox:
    sandbox = await probe(Sandbox(folder))
    if shutil.which("bwrap") is None or "namespace" in sandbox.report.reason:
        pytest.skip(str(sandbox.report))
    assert sandbox.active, sandbox.report
    return sandbox


@pytest.fixture
def no_sandbox(workspace: Path) -> Sandbox:
    return Sandbox(workspace, OFF, hidden=[workspace / "state"])


async def refusal(tool: ExecShell | Spawn, ctx: ToolContext, **arguments: Json) -> ToolError:
    with pytest.raises(ToolError) as caught:
        await tool.run(arguments, ctx)
    return caught.value


async def outcome(tool: ExecShell | Spawn, ctx: ToolContext, arguments: Arguments) -> JsonObject:
    """The result without the part that differs from run to run, which must be there."""
    result = await tool.run(arguments, ctx)
    duration = result.pop("duration_ms")
    assert isinstance(duration, int) and duration >= 0
    return result


def watched(ctx: ToolContext) -> Reports:
    reports = Reports()
    ctx.progress = reports
    return reports


# exec_shell in the sandbox


async def test_a_command_that_is_not_listed_never_starts(sandbox: Sandbox, folder: Path, ctx: ToolContext) -> None:
    listing = CommandPolicy(mode="allowlist")
    error = await refusal(ExecShell(CommandLauncher(folder, listing, sandbox)), ctx, command="touch a; curl x")
    assert error.code == "policy_denied" and "tools.command_policy.allow_also" in error.message
    assert os.listdir(folder) == []


@pytest.mark.parametrize("command", ["echo " + "a" * 10_000_000, "a\0b", "  ", "# only a comment"])
async def test_a_text_that_is_no_command_is_refused(
    sandbox: Sandbox, folder: Path, ctx: ToolContext, command: str
) -> None:
    error = await refusal(ExecShell(CommandLauncher(folder, CommandPolicy(), sandbox)), ctx, command=command)
    assert error.code == "invalid_arguments"
    assert len(error.message) < 1000


async def test_a_late_command_is_killed_with_all_it_started_and_its_output_is_told(
    sandbox: Sandbox, folder: Path, ctx: ToolContext
) -> None:
    mark = new_mark()
    command = f"echo so far; echo bad >&2; setsid sleep {mark} & sleep {mark}"
    error = await refusal(ExecShell(CommandLauncher(folder, ANYTHING, sandbox)), ctx, command=command, timeout=5)
    assert error.code == "timeout"
    assert error.message.startswith("timeout after 5s: ")
    assert "stdout so far: 'so far\\n'" in error.message and "stderr so far: 'bad\\n'" in error.message
    assert is_gone(mark)


async def test_a_late_command_without_output_says_so(sandbox: Sandbox, folder: Path, ctx: ToolContext) -> None:
    error = await refusal(ExecShell(CommandLauncher(folder, ANYTHING, sandbox)), ctx, command="sleep 60", timeout=0.1)
    assert "It had written nothing" in error.message


async def test_a_cancelled_command_leaves_nothing(sandbox: Sandbox, folder: Path, ctx: ToolContext) -> None:
    mark, reports = new_mark(), watched(ctx)
    call: Arguments = {"command": f"setsid sleep {mark} & echo ready; sleep {mark}"}
    task = asyncio.create_task(ExecShell(CommandLauncher(folder, ANYTHING, sandbox)).run(call, ctx))
    await reports.until("ready")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert is_gone(mark)


async def test_a_sandbox_that_can_no_longer_be_made_is_an_error(
    sandbox: Sandbox, folder: Path, ctx: ToolContext
) -> None:
    os.rmdir(folder)
    error = await refusal(ExecShell(CommandLauncher(folder, CommandPolicy(), sandbox)), ctx, command="ls")
    assert error.code == "execution_failed"
    assert "The sandbox could not be started" in error.message and str(folder) in error.message


async def test_a_failing_command_is_a_success_with_its_exit_code(
    sandbox: Sandbox, folder: Path, ctx: ToolContext
) -> None:
    tool = ExecShell(CommandLauncher(folder, ANYTHING, sandbox))
    assert await outcome(tool, ctx, {"command": "echo out; echo err >&2; exit 3"}) == {
        "exit_code": 3,
        "stdout": "out\n",
        "stderr": "err\n",
    }
    missing = await outcome(tool, ctx, {"command": "no_such_program"})
    assert missing["exit_code"] == 127 and "not found" in str(missing["stderr"])


async def test_pipes_loops_and_redirections_work(sandbox: Sandbox, folder: Path, ctx: ToolContext) -> None:
    command = "for n in 3 1 2; do echo $n; done | sort > out.txt && cat out.txt | tr '\\n' ' ' && pwd"
    result = await outcome(ExecShell(CommandLauncher(folder, CommandPolicy(), sandbox)), ctx, {"command": command})
    assert result == {"exit_code": 0, "stdout": "1 2 3 /workspace\n", "stderr": ""}
    assert (folder / "out.txt").read_text() == "1\n2\n3\n"


async def test_a_flood_is_cut_and_does_not_block(sandbox: Sandbox, folder: Path, ctx: ToolContext) -> None:
    reports = watched(ctx)
    command = "head -c 100000000 /dev/zero | tr '\\0' x; echo; echo end"
    result = await outcome(ExecShell(CommandLauncher(folder, CommandPolicy(), sandbox)), ctx, {"command": command})
    assert result["exit_code"] == 0
    text = str(result["stdout"])
    assert len(text) < 66_000 and text.endswith("x\nend\n") and "bytes left out" in text
    assert 0 < len(reports.all) < 400


async def test_output_is_streamed_as_progress(
    sandbox: Sandbox, folder: Path, ctx: ToolContext, progress: list[Json]
) -> None:
    await ExecShell(CommandLauncher(folder, CommandPolicy(), sandbox)).run({"command": "echo one; echo two >&2"}, ctx)
    assert {"stream": "stdout", "text": "one\n"} in progress
    assert {"stream": "stderr", "text": "two\n"} in progress


async def test_binary_output_and_no_output_are_results_too(sandbox: Sandbox, folder: Path, ctx: ToolContext) -> None:
    tool = ExecShell(CommandLauncher(folder, ANYTHING, sandbox))
    assert (await outcome(tool, ctx, {"command": "printf '\\377\\376a'"}))["stdout"] == "\ufffd\ufffda"
    assert await outcome(tool, ctx, {"command": "true"}) == {"exit_code": 0, "stdout": "", "stderr": ""}


async def test_a_timeout_above_the_limit_is_clamped_and_the_result_says_so(
    sandbox: Sandbox, folder: Path, ctx: ToolContext
) -> None:
    result = await outcome(
        ExecShell(CommandLauncher(folder, CommandPolicy(), sandbox)), ctx, {"command": "true", "timeout": 1000}
    )
    assert result["note"] == "A timeout of 1000 s is above the limit: 300 s held."
    assert "note" not in await outcome(
        ExecShell(CommandLauncher(folder, CommandPolicy(), sandbox)), ctx, {"command": "true", "timeout": 300}
    )


async def test_what_is_left_in_the_background_ends_with_the_shell_and_the_result_says_so(
    sandbox: Sandbox, folder: Path, ctx: ToolContext
) -> None:
    tool, mark = ExecShell(CommandLauncher(folder, CommandPolicy(), sandbox)), new_mark()
    one, two = (f"sh -c 'touch {name}; exec sleep {mark}'" for name in ("one", "two"))
    both = (
        "while [ ! -e one ] || [ ! -e two ]; do sleep 0.01; done"  # a child that has not begun yet may not be counted
    )
    result = await outcome(tool, ctx, {"command": f"setsid {one} & {two} & {both}; exit 3"})
    assert result["exit_code"] == 3 and is_gone(mark)
    assert str(result["note"]).startswith("Background processes ended with the command (2): ")
    assert "note" not in await outcome(tool, ctx, {"command": "sleep 0.01 & wait; true | true"})


@pytest.mark.parametrize(
    "command", ["python3 -c 'import socket; socket.gethostbyname(\"example.test\")'", "curl -sS http://example.test/"]
)
async def test_a_command_that_needs_a_network_hears_that_there_is_none_and_what_to_use_instead(
    sandbox: Sandbox, folder: Path, ctx: ToolContext, command: str
) -> None:
    if shutil.which(command.split()[0]) is None:
        pytest.skip("the program is not installed")
    result = await outcome(ExecShell(CommandLauncher(folder, CommandPolicy(), sandbox)), ctx, {"command": command})
    assert result["exit_code"] != 0
    assert "There is no network in this sandbox: use web_fetch or http_request." in str(result["note"])


async def test_a_server_of_the_command_itself_is_reached_by_the_name_localhost(
    sandbox: Sandbox, folder: Path, ctx: ToolContext
) -> None:
    code = (
        "import socket\n"
        "server = socket.create_server(('127.0.0.1', 8000))\n"
        "socket.create_connection(('localhost', 8000)).sendall(b'hello')\n"
        "print(server.accept()[0].recv(5).decode())"
    )
    result = await outcome(
        Spawn(CommandLauncher(folder, CommandPolicy(), sandbox)), ctx, {"command": "python3", "args": ["-c", code]}
    )
    assert result["stdout"] == "hello\n"


# spawn in the sandbox


async def test_a_sixth_program_at_once_is_busy_and_the_others_go_on(
    sandbox: Sandbox, folder: Path, ctx: ToolContext
) -> None:
    reports = watched(ctx)
    spawn = Spawn(CommandLauncher(folder, ANYTHING, sandbox))
    script = "echo ready$0; while [ ! -e go ]; do sleep 0.01; done; echo done"
    calls: list[Arguments] = [{"command": "sh", "args": ["-c", script, f"<{number}>"]} for number in range(5)]
    tasks = [asyncio.create_task(spawn.run(call, ctx)) for call in calls]
    for number in range(5):
        await reports.until(f"ready<{number}>")
    error = await refusal(spawn, ctx, command="true")
    assert error.code == "busy"
    assert error.message.startswith("concurrency limit reached: 5 active spawns (max 5)")
    (folder / "go").touch()
    results = await asyncio.wait_for(asyncio.gather(*tasks), LIMIT)
    assert [str(result["stdout"]).endswith("done\n") for result in results] == [True] * 5
    assert (await spawn.run({"command": "true"}, ctx))["exit_code"] == 0


@pytest.mark.parametrize(
    "command", ["no_such_program", "cd", "/usr/bin/no_such_program", "./nothing", "/workspace/nothing"]
)
async def test_a_program_that_is_not_there_is_an_error(
    sandbox: Sandbox, folder: Path, ctx: ToolContext, command: str
) -> None:
    error = await refusal(Spawn(CommandLauncher(folder, ANYTHING, sandbox)), ctx, command=command)
    assert error.code == "execution_failed" and f"command not found: {command!r}" in error.message


async def test_arguments_are_judged_too(sandbox: Sandbox, folder: Path, ctx: ToolContext) -> None:
    listing = CommandPolicy(mode="allowlist")
    error = await refusal(Spawn(CommandLauncher(folder, listing, sandbox)), ctx, command="env", args=["curl", "x"])
    assert error.code == "policy_denied" and "'curl'" in error.message


async def test_arguments_reach_the_program_as_they_are(sandbox: Sandbox, folder: Path, ctx: ToolContext) -> None:
    args: list[Json] = ["$HOME", "a b", "*", "; ls", "`id`", "", "-n", "é"]
    call: Arguments = {"command": "printf", "args": ["<%s>", *args], "description": "to see them"}
    assert await outcome(Spawn(CommandLauncher(folder, ANYTHING, sandbox)), ctx, call) == {
        "exit_code": 0,
        "stdout": "<$HOME><a b><*><; ls><`id`><><-n><é>",
        "stderr": "",
        "command": "printf",
        "description": "to see them",
    }


async def test_a_program_of_the_workspace_runs_where_the_policy_lets_it(
    sandbox: Sandbox, folder: Path, ctx: ToolContext
) -> None:
    (folder / "tool.sh").write_text("#!/bin/sh\necho $1\n")
    (folder / "tool.sh").chmod(0o755)
    for command in ("./tool.sh", "/workspace/tool.sh", str(folder / "tool.sh")):
        result = await Spawn(CommandLauncher(folder, ANYTHING, sandbox)).run(
            {"command": command, "args": ["hello"]}, ctx
        )
        assert result["stdout"] == "hello\n", command


async def test_a_late_program_is_killed(sandbox: Sandbox, folder: Path, ctx: ToolContext) -> None:
    mark = new_mark()
    error = await refusal(
        Spawn(CommandLauncher(folder, ANYTHING, sandbox)), ctx, command="sleep", args=[mark], timeout=0.3
    )
    assert error.code == "timeout" and is_gone(mark)


# Without a sandbox


@pytest.mark.parametrize(
    "command", ["ls | wc", "ls > a", "echo $HOME", "echo *", "ls; pwd", "ls && pwd", "echo $(pwd)", "A=1 ls", "ls &"]
)
async def test_without_a_sandbox_nothing_that_needs_a_shell_runs(
    no_sandbox: Sandbox, workspace: Path, ctx: ToolContext, command: str
) -> None:
    error = await refusal(ExecShell(CommandLauncher(workspace, CommandPolicy(), no_sandbox)), ctx, command=command)
    assert error.code == "policy_denied"
    for hint in (
        "needs a shell",
        "'bwrap' is not installed",
        "apt-get install bubblewrap",
        "unsafe_shell_without_sandbox",
    ):
        assert hint in error.message
    assert os.listdir(workspace) == []


@pytest.mark.parametrize("command", ["python3", "touch", "env", "find", "sed", "git"])
async def test_without_a_sandbox_only_the_short_list_runs(
    no_sandbox: Sandbox, workspace: Path, ctx: ToolContext, command: str
) -> None:
    for tool in (
        ExecShell(CommandLauncher(workspace, CommandPolicy(), no_sandbox)),
        Spawn(CommandLauncher(workspace, ANYTHING, no_sandbox)),
    ):
        error = await refusal(tool, ctx, command=command)
        assert error.code == "policy_denied" and "only these run: echo" in error.message


async def test_without_a_sandbox_paths_and_options_are_checked(
    no_sandbox: Sandbox, workspace: Path, ctx: ToolContext
) -> None:
    (workspace / "state").mkdir()
    tool = ExecShell(CommandLauncher(workspace, CommandPolicy(), no_sandbox))
    assert (await refusal(tool, ctx, command="cat /etc/passwd")).code == "invalid_path"
    assert (await refusal(tool, ctx, command="ls state")).code == "invalid_path"
    assert (await refusal(tool, ctx, command="sort -o a b")).code == "policy_denied"
    spawn = Spawn(CommandLauncher(workspace, CommandPolicy(), no_sandbox))
    assert (await refusal(spawn, ctx, command="cat", args=["../x"])).code == "invalid_path"


async def test_without_a_sandbox_the_policy_still_holds(no_sandbox: Sandbox, workspace: Path, ctx: ToolContext) -> None:
    tool = ExecShell(CommandLauncher(workspace, CommandPolicy(allowlist=("cat",)), no_sandbox))
    assert "a listed command: cat." in (await refusal(tool, ctx, command="ls")).message


async def test_without_a_sandbox_plain_commands_read_the_workspace(
    no_sandbox: Sandbox, workspace: Path, ctx: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_KEY", "sesame")
    (workspace / "a b.txt").write_text("two\none\n")
    tool = ExecShell(CommandLauncher(workspace, CommandPolicy(), no_sandbox))
    assert await outcome(tool, ctx, {"command": "sort 'a b.txt'"}) == {
        "exit_code": 0,
        "stdout": "one\ntwo\n",
        "stderr": "",
    }
    assert (await outcome(tool, ctx, {"command": "/usr/bin/pwd"}))["stdout"] == f"{workspace}\n"
    assert (await outcome(tool, ctx, {"command": "cat missing"}))["exit_code"] == 1
    literal = await outcome(
        Spawn(CommandLauncher(workspace, CommandPolicy(), no_sandbox)), ctx, {"command": "echo", "args": ["$HOME; ls"]}
    )
    assert literal["stdout"] == "$HOME; ls\n"


async def test_what_read_file_proposes_for_binary_files_works_with_and_without_a_sandbox(
    no_sandbox: Sandbox, workspace: Path, sandbox: Sandbox, folder: Path, ctx: ToolContext
) -> None:
    for place, each in ((workspace, no_sandbox), (folder, sandbox)):
        (place / "bin").write_bytes(b"\0\1word\n")
        tool = ExecShell(CommandLauncher(place, CommandPolicy(), each))
        assert (await outcome(tool, ctx, {"command": "cat -v bin"}))["stdout"] == "^@^Aword\n"
        assert "word" in str((await outcome(tool, ctx, {"command": "grep -a word bin"}))["stdout"])


async def test_without_a_sandbox_the_systems_program_runs_and_none_of_the_workspace(
    no_sandbox: Sandbox, workspace: Path, ctx: ToolContext
) -> None:
    (workspace / "ls").write_text("#!/bin/sh\necho evil\n")
    (workspace / "ls").chmod(0o755)
    result = await outcome(ExecShell(CommandLauncher(workspace, ANYTHING, no_sandbox)), ctx, {"command": "./ls"})
    assert result["stdout"] == "ls\n"


async def test_the_unsafe_setting_gives_commands_to_the_machines_shell_without_secrets(
    no_sandbox: Sandbox, workspace: Path, ctx: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_KEY", "sesame")
    shell, spawn = shell_tools(workspace, CommandPolicy(), no_sandbox, unsafe_shell_without_sandbox=True)
    assert isinstance(shell, ExecShell) and isinstance(spawn, Spawn)
    result = await outcome(shell, ctx, {"command": "env | sort | cut -d= -f1 > names; pwd; touch made"})
    assert result == {"exit_code": 0, "stdout": f"{workspace}\n", "stderr": ""}
    assert "SECRET_KEY" not in (workspace / "names").read_text() and (workspace / "made").exists()
    assert (await outcome(spawn, ctx, {"command": "touch", "args": ["too"]}))["exit_code"] == 0
    assert (await refusal(shell, ctx, command="curl x")).code == "policy_denied"
    assert (await refusal(spawn, ctx, command="weft")).code == "execution_failed"


async def test_an_active_sandbox_is_used_whatever_the_unsafe_setting_says(
    sandbox: Sandbox, folder: Path, ctx: ToolContext
) -> None:
    shell, _ = shell_tools(folder, CommandPolicy(), sandbox, unsafe_shell_without_sandbox=True)
    assert (await shell.run({"command": "pwd"}, ctx))["stdout"] == "/workspace\n"


async def test_a_report_without_a_remedy_still_gives_the_reason(workspace: Path, ctx: ToolContext) -> None:
    tool = ExecShell(
        CommandLauncher(workspace, CommandPolicy(), Sandbox(workspace, SandboxReport(False, "it is broken")))
    )
    assert "The sandbox is off: it is broken. A person" in (await refusal(tool, ctx, command="git log")).message


# What they say of themselves


def test_both_tools_declare_what_they_are(no_sandbox: Sandbox, workspace: Path) -> None:
    shell, spawn = shell_tools(workspace, CommandPolicy(), no_sandbox)
    assert [tool.spec.name for tool in (shell, spawn)] == ["exec_shell", "spawn"]
    for tool in (shell, spawn):
        spec = tool.spec
        assert spec.permissions == ("shell",) and spec.timeout == 310
        assert spec.annotations.destructive and not spec.annotations.open_world and not spec.annotations.read_only
        assert spec.parameters["additionalProperties"] is False and spec.parameters["required"] == ["command"]
        properties = spec.parameters["properties"]
        assert isinstance(properties, dict)
        assert all(isinstance(schema, dict) and schema["description"] for schema in properties.values())


def described(sandbox: Sandbox, policy: CommandPolicy | None = None, is_unsafe: bool = False) -> str:
    shell = ExecShell(CommandLauncher(sandbox.workspace, policy or CommandPolicy(), sandbox, is_unsafe=is_unsafe))
    return shell.spec.description


def test_the_description_says_what_holds_here_and_now(workspace: Path, no_sandbox: Sandbox) -> None:
    on = Sandbox(workspace, SandboxReport(True, "tested"))
    for words in ("starts afresh", "`cmd &`", "in a sandbox", "/workspace", "There is no network: use web_fetch"):
        assert words in described(on)
    assert "Only these" not in described(on)
    shell, program = (tool.spec.description for tool in shell_tools(workspace, CommandPolicy(), on))
    assert "by `sh`" in shell and "without a shell" in program and "`sh`" not in program
    assert "Only these commands run: ls, git log." in described(on, CommandPolicy(allowlist=("ls", "git log")))
    assert "no sandbox here" in described(no_sandbox) and "Only these run" in described(no_sandbox)
    unsafe = described(no_sandbox, is_unsafe=True)
    assert "on the machine itself" in unsafe and "python3" in unsafe and "weft" not in unsafe
    assert "No command can run now" in described(Sandbox(workspace, OFF, switch="on"))
    host = shell_tools(workspace, CommandPolicy(), Sandbox(workspace, SandboxReport(True, "tested", network="host")))
    assert all(tool.spec.annotations.open_world for tool in host)
    assert all("that of the machine" in tool.spec.description for tool in host)


async def test_a_sandbox_that_is_demanded_and_not_there_lets_no_command_run(workspace: Path, ctx: ToolContext) -> None:
    broken = Sandbox(workspace, SandboxReport(False, "it is broken", "mend it"), switch="on")
    for tool in shell_tools(workspace, CommandPolicy(), broken, unsafe_shell_without_sandbox=True):
        with pytest.raises(
            ToolError, match=r"demands a sandbox, and it is off: it is broken; to get it: mend it"
        ) as no:
            await tool.run({"command": "pwd"}, ctx)
        assert no.value.code == "policy_denied"


async def test_a_sandbox_that_is_switched_off_is_not_even_tested(workspace: Path, ctx: ToolContext) -> None:
    off = Sandbox(workspace, switch="off")
    await ExecShell(CommandLauncher(workspace, CommandPolicy(), off)).run({"command": "pwd"}, ctx)
    assert off.report.reason == "it is switched off"
    assert off.file_owner is None
