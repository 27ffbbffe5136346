"""The command line, as a person or a script uses it (SPEC U2)."""

import contextlib
import json
import os
import re
import shlex
import sqlite3
import subprocess
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from handspan.cli import doctor
from handspan.cli.render_tool import print_tool
from handspan.core.values import JsonObject
from handspan.wire.rest.tools import ToolView
from tests.cli.shell import COMMAND, Shell, json_lines

# Wrong usage: exit code 2, and a sentence instead of a traceback.


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nonsense",), "No such command 'nonsense'"),
        (("call",), "Name a TOOL, or use --batch"),
        (("call", "--batch", "read_file"), "one of the two"),
        (("schema", "check"), "Name a SCHEMA, or use --batch"),
        (("schema", "check", "{broken"), "is no file, and as JSON it can't be read"),
        (("tools", "why"), "Missing argument 'NAME'"),
        (("tools", "--nope"), "No such option"),
    ],
)
@pytest.mark.outside
def test_wrong_usage_is_explained(run: Shell, words: tuple[str, ...], said: str) -> None:
    done = run.started(*words)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [("tools",), ("call", "get_current_time"), ("tools", "why", "x"), ("doctor",)])
def test_settings_that_can_not_be_used_name_file_and_key(run: Shell, words: tuple[str, ...]) -> None:
    run.config("[tools]\ntimeout = 3\n")
    done = run(*words)
    assert done.returncode == 1
    said = done.stderr + done.stdout
    assert "config.toml" in said and "timeouts" in said and "Traceback" not in said


def test_an_unknown_agent_is_named_with_those_that_are_there(run: Shell) -> None:
    done = run("call", "get_current_time", "--agent", "Genral")
    assert done.returncode == 1
    assert "no agent 'Genral'. Did you mean 'General'?" in done.stderr
    assert json_lines(done)[0]["status"] == "error"


# call


@pytest.mark.outside
def test_a_call_prints_its_envelope_and_exits_with_0(run: Shell) -> None:
    done = run.started("call", "write_file", '{"path": "a/b.txt", "content": "hi"}')
    assert done.returncode == 0
    (envelope,) = json_lines(done)
    assert envelope["status"] == "success"
    assert (run.workspace / "a" / "b.txt").read_text(encoding="utf-8") == "hi"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("raed_file", "{}"), "tool_not_found"),
        (("read_file", "{}"), "invalid_arguments"),
        (("read_file", "[1]"), "invalid_arguments"),
        (("read_file", "{broken"), "invalid_arguments"),
        (("read_file", '{"path": "a", "path": "b"}'), "invalid_arguments"),
        (("read_file", '{"path": "missing"}'), "file_not_found"),
        (("read_file", '{"path": "/etc/passwd"}'), "invalid_path"),
        (("web_fetch", '{"url": "http://127.0.0.1/"}'), "policy_denied"),
        (("web_search", '{"query": "x"}'), "tool_not_available"),
        (("message", '{"channel": "c", "chat_id": "1", "content": "x"}'), "tool_not_available"),
    ],
)
def test_a_failing_call_prints_its_envelope_and_exits_with_1(run: Shell, words: tuple[str, str], code: str) -> None:
    done = run("call", *words)
    assert done.returncode == 1
    (envelope,) = json_lines(done)
    assert envelope["status"] == "error"
    assert envelope["code"] == code
    assert "Traceback" not in done.stderr


@pytest.mark.outside
def test_arguments_come_from_standard_input_too(run: Shell) -> None:
    done = run.started("call", "write_file", "-", given=json.dumps({"path": "x", "content": "y" * 300_000}))
    assert done.returncode == 0
    assert (run.workspace / "x").stat().st_size == 300_000


def test_a_call_without_arguments_has_none(run: Shell) -> None:
    assert run("call", "get_current_time").returncode == 0


@pytest.mark.outside
def test_a_batch_answers_every_line_in_order_and_later_lines_see_what_earlier_ones_did(run: Shell) -> None:
    lines = [
        '{"tool": "write_file", "args": {"path": "n.txt", "content": "hello"}}',
        "",
        '{"tool": "read_file", "args": {"path": "n.txt"}}',
        "not json",
        '{"args": {}}',
        '{"tool": "read_file", "args": {"path": "n.txt"}, "more": 1}',
        '{"tool": "read_file", "args": [1]}',
        '{"tool": "get_current_time"}',
    ]
    done = run.started("call", "--batch", given="\n".join(lines))
    answers = json_lines(done)
    assert [answer["status"] for answer in answers] == [
        "success",
        "success",
        "error",
        "error",
        "error",
        "error",
        "success",
    ]
    assert answers[1]["result"] == "hello"
    assert "Line 4" in answers[2]["message"]
    assert done.returncode == 1


def test_a_batch_without_lines_is_a_success(run: Shell) -> None:
    done = run("call", "--batch")
    assert (done.returncode, done.stdout) == (0, "")


def test_nobody_to_ask_means_no_and_yes_means_yes(run: Shell) -> None:
    run.config('[agents.General]\nmode = "ask_always"\n')
    refused = run("call", "get_current_time")
    envelope = json_lines(refused)[0]
    assert envelope["code"] == "approval_denied"
    assert envelope["message"] == (  # no person was asked, so none is blamed
        "The call of 'get_current_time' was not approved, so it did not run: "
        "the command has no terminal to ask at (--yes answers every question)."
    )
    assert run("call", "get_current_time", "--yes").returncode == 0


# tools


@pytest.mark.outside
def test_the_list_of_tools_fits_the_terminal_and_names_what_each_is(run: Shell) -> None:
    _, *lines = run.on_screen("tools", COLUMNS="100").splitlines()
    assert lines[0].split() == ["name", "origin", "version", "permissions", "description"]
    assert len(lines) == 22
    assert max(map(len, lines)) <= 100
    cut = [line for line in lines if line.endswith("…")]
    assert cut
    whole = run("tools").stdout
    for line in cut:  # at the end of a word; a pipe gets all words
        assert re.search(re.escape(line[:-1]) + r"\s", whole), line


@pytest.mark.outside
def test_the_list_as_json_has_what_the_table_has_and_the_schema(run: Shell) -> None:
    rows = {row["name"]: row for row in json.loads(run("tools", "--json").stdout)}
    assert rows["web_fetch"]["origin"] == "builtin"
    assert rows["web_fetch"]["permissions"] == ["network"]
    assert rows["read_file"]["parameters"]["required"] == ["path"]
    assert rows["read_file"]["enabled"] is True


def test_the_cost_of_the_tools_is_told_as_an_estimate(run: Shell) -> None:
    done = run("tools", "--cost")
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and lines[0].split() == ["name", "tokens", "sent"]
    counts = [int(line.split()[1].replace(",", "")) for line in lines[1:-1]]
    assert counts == sorted(counts, reverse=True) and all(line.endswith("always") for line in lines[1:-1])
    assert f"about {sum(counts):,} tokens" in lines[-1] and "estimates" in lines[-1]
    run.config('[tools]\nshown = 1\n[agents.many]\ntools = ["read_file", "*"]\n')
    costs = json.loads(run("tools", "--cost", "--agent", "many", "--json").stdout)
    assert costs["agent"] == "many" and 0 < costs["tokens_shown"] <= costs["tokens_all"]
    assert {tool["name"] for tool in costs["tools"]} >= {"read_file", "spawn"}
    assert run("tools", "--cost", "--agent", "Nobody").returncode == 1


def test_why_has_an_answer_for_every_reason(run: Shell) -> None:
    run.config('[agents.reader]\ntools = ["read_*", "write_file"]\ndeny = ["read_artifact"]\nmode = "read_only"\n')
    can = run("tools", "why", "read_file", "--agent", "reader")
    assert can.returncode == 0 and "can use 'read_file'" in can.stdout
    for tool, reason in (
        ("spawn", "does not name it"),
        ("read_artifact", "deny list names it"),
        ("write_file", "refuses it: it is not read-only"),
        ("raed_file", "Did you mean 'read_file'"),
    ):
        done = run("tools", "why", tool, "--agent", "reader")
        assert done.returncode == 1
        assert reason in done.stdout
    answer = json.loads(run("tools", "why", "spawn", "--agent", "reader", "--json").stdout)
    assert answer["usable"] is False


def test_show_says_all_about_one_tool(run: Shell) -> None:
    done = run("tools", "show", "read_flie")
    assert done.returncode == 1 and "Did you mean 'read_file'" in done.stderr
    done = run("tools", "show", "web_search")
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert lines[0].startswith("web_search: Search the web") and "permissions: network" in lines
    assert any(line.startswith("origin: builtin") for line in lines)
    assert "query string required Search query" in lines
    assert "num_results integer = 5 How many results at most" in lines
    assert any(line.startswith("not offered: no search API is set") for line in lines)
    assert lines[-1] == """For example: handspan call web_search '{"query":"text"}'"""
    assert json.loads(run("tools", "show", "web_search", "--json").stdout)["parameters"]["required"] == ["query"]
    unoffered = [line for line in run("tools").stdout.splitlines() if "(not offered: " in line]
    assert [line.split()[0] for line in unoffered] == ["message", "web_search"]


def test_a_schema_is_a_table_and_an_example_down_to_its_parts(capsys: pytest.CaptureFixture[str]) -> None:
    point: JsonObject = {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}
    parameters: JsonObject = {
        "properties": {
            "points": {"type": "array", "items": {"$ref": "#/$defs/point"}},
            "colour": {"enum": ["red", "blue"]},
            "size": {"anyOf": [{"type": "integer", "minimum": 3}, {"type": "null"}]},
            "again": {"$ref": "#"},
        },
        "required": ["points", "colour", "size"],
        "$defs": {"point": point},
    }
    view = {"name": "draw", "description": "Draw.", "parameters": parameters, "enabled": True, "source_type": "plugin"}
    view |= {"source": "a.py", "origin": {"kind": "plugin", "name": "a.py"}, "scope": {"kind": "global", "id": ""}}
    view |= {"permissions": [], "annotations": {"read_only": True, "group": "paper"}, "version": "1", "timeout": 5.0}
    view |= {"fingerprint": "", "agents": [], "shown_to": [], "disabled_by": None, "internal": False}
    print_tool(msgspec.convert(view | {"definition": "new"}, ToolView))
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert {"annotations: read_only, group paper", "timeout: 5 s", "points[].x number required"} <= set(lines)
    assert {'colour "red" | "blue" required', "size integer | null required"} <= set(lines)
    assert lines[-1].endswith("""draw '{"points":[{"x":1.5}],"colour":"red","size":3}'""")


@pytest.mark.outside
def test_a_tool_that_is_switched_off_is_off_for_everybody_until_it_is_switched_on(run: Shell) -> None:
    assert "spawn is off." in run("tools", "disable", "spawn").stdout
    assert "already off" in run("tools", "disable", "spawn").stdout
    assert json_lines(run("call", "spawn", '{"command": "true"}'))[0]["code"] == "tool_disabled"
    assert "(off)" in next(line for line in run("tools").stdout.splitlines() if line.startswith("spawn"))
    assert "switched off by 'spawn'" in run("tools", "why", "spawn").stdout
    assert "spawn is on." in run("tools", "enable", "spawn").stdout
    assert "was not switched off" in run("tools", "enable", "spawn").stdout
    assert run("call", "spawn", '{"command": "true"}').returncode == 0


def test_switching_off_what_is_not_there_is_noted(run: Shell) -> None:
    assert "names no tool that is here now. Did you mean 'spawn'?" in run("tools", "disable", "spwan").stderr


def test_what_the_settings_switch_off_is_switched_on_there(run: Shell) -> None:
    run.config('[tools]\ndisabled = ["spawn"]\n')
    done = run("tools", "enable", "spawn")
    assert done.returncode == 1
    assert "tools.disabled" in done.stderr


def test_a_broken_tool_of_ones_own_is_told_and_the_rest_works(run: Shell) -> None:
    run.config("")
    tools = run.home / ".config" / "handspan" / "tools"
    tools.mkdir()
    (tools / "bad.py").write_text("(", encoding="utf-8")
    done = run("tools")
    assert done.returncode == 0
    assert "skipped" in done.stderr and "bad.py" in done.stderr
    assert run("doctor").returncode == 1


# schema


def test_every_problem_is_listed_at_once(run: Shell, tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text(
        '{"type":"object","properties":{"a":{"type":"integer"},"b":{"enum":["x","y"]}},"required":["a"],'
        '"additionalProperties":false}',
        encoding="utf-8",
    )
    done = run("schema", "check", str(schema), '{"b": "z", "c": 1}')
    assert done.returncode == 1
    answer = json.loads(done.stdout)
    assert answer["valid"] is False and len(answer["errors"]) == 3
    assert json.loads(run("schema", "check", str(schema), '{"a": 1}').stdout) == {"valid": True, "errors": []}


def test_a_schema_alone_is_checked_as_at_registration(run: Shell) -> None:
    assert run("schema", "check", '{"type":"object"}').returncode == 0
    done = run("schema", "check", '{"$ref":"http://example.com/x"}')
    assert done.returncode == 1 and "may only point into the schema itself" in done.stdout
    assert run("schema", "check", "[1]").returncode == 1


def test_a_batch_of_checks_answers_every_line(run: Shell) -> None:
    lines = ['{"schema": {"type": "object"}, "instance": {}}', "", '{"schema": {"type": "object"}}', "{", '{"x": 1}']
    done = run("schema", "check", "--batch", given="\n".join(lines))
    assert [answer["valid"] for answer in json_lines(done)] == [True, True, False, False]
    assert done.returncode == 1


@pytest.mark.outside
def test_output_that_can_t_be_written_is_told_in_a_sentence(run: Shell) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*COMMAND, "tools"], stdout=full, stderr=subprocess.PIPE, text=True, env=run.environ(), check=False
        )
    assert done.returncode == 1
    told = "The output can't be written: No space left on device. Make room, or write it elsewhere."
    assert done.stderr == f"handspan: {told}\n"


# doctor, help


@pytest.mark.outside
def test_the_doctor_says_what_works(run: Shell) -> None:
    done = run.started("doctor", "--json")
    findings = {finding["what"]: finding for finding in json.loads(done.stdout)}
    assert {"versions", "configuration", "workspace", "state", "sandbox", "tools"} <= set(findings)
    assert findings["workspace"]["ok"] is True
    assert findings["source builtin"]["found"].startswith("ready, ") and findings["source plugins"]["ok"]
    assert list(run.workspace.iterdir()) == []


@pytest.mark.outside
def test_the_doctor_names_settings_that_match_nothing(run: Shell) -> None:
    run.config('[tools]\ndisabled = ["exec_shel"]\nmcp_servers.github = { command = "no-such" }\n')
    done = run("doctor")
    assert done.returncode == 1
    assert "tools.disabled: 'exec_shel' matches no tool" in done.stdout
    assert "mcp(github)" in done.stdout and "there is no program 'no-such'" in done.stdout


@pytest.mark.outside
def test_the_doctor_says_how_to_install_the_program_of_an_mcp_server(run: Shell, tmp_path: Path) -> None:
    run.config(
        '[tools.mcp_servers]\ntime = { command = "uvx" }\nfiles = { command = "npx" }\nown = { command = "x-y" }\n'
    )
    done = run("doctor", PATH=str(tmp_path))
    for line in (
        "'uvx' on the gateway's PATH: install uv, which brings it (`pip install uv`), or give its full path in",
        "'npx' on the gateway's PATH: install Node.js with npm (`apt-get install npm`, `brew install node`), or give",
        "there is no program 'x-y' on the gateway's PATH: install it, or give its full path",
    ):
        assert line in done.stdout, done.stdout
    assert done.stdout.count("do this: do what the message says, or remove the source") == 3


def test_the_doctor_has_a_remedy_for_a_workspace_that_can_not_be_used(run: Shell, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    done = run("doctor", "--workspace", str(tmp_path / "file"))
    assert done.returncode == 1
    assert "do this:" in done.stdout and "Traceback" not in done.stderr


def test_the_doctor_says_what_keeps_a_gateway_from_starting(run: Shell) -> None:
    run("sessions")
    with contextlib.closing(sqlite3.connect(run.state / "handspan.db")) as database:
        database.execute("PRAGMA user_version = 999")
    done = run("doctor")
    assert done.returncode == 1 and "start: The database" in done.stdout
    assert "correct the settings" not in done.stdout, "they are right"


@pytest.mark.outside
def test_the_doctor_says_why_commands_have_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handspan.tools.bubblewrap._PYTHON", "no-such-python")
    monkeypatch.setenv("HANDSPAN_TOOLS__SANDBOX__NETWORK", "guarded")
    folders = [f"--{name}={tmp_path / name}" for name in ("workspace", "state")]
    done = CliRunner().invoke(doctor.command, ["--json", *folders])
    sandbox = next(finding for finding in json.loads(done.stdout) if finding["what"] == "sandbox")
    if "NOT active" in sandbox["found"]:
        pytest.skip(sandbox["found"])
    assert not sandbox["ok"] and "commands have no network" in sandbox["found"]
    assert "'no-such-python' is not installed" in sandbox["found"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("tols",), "No such command 'tols'. Did you mean 'tools' or"),
        (("tools", "reloda"), "Did you mean 'reload'?"),
        (("usage", "--since", "last week"), "'last week' is no day: say today, yesterday, or a date such as 2"),
    ],
)
def test_what_was_mistyped_gets_a_hint(run: Shell, words: tuple[str, ...], said: str) -> None:
    done = run(*words)
    assert done.returncode == 2 and said in done.stderr
    assert "^" not in done.stderr, "a regular expression is no hint"


def test_usage_takes_a_day_by_name_or_date(run: Shell) -> None:
    assert [run("usage", "--since", day).returncode for day in ("today", "yesterday", "2026-01-31")] == [0, 0, 0]


def test_a_call_of_an_unknown_agent_has_an_envelope_for_every_line(run: Shell) -> None:
    done = run("call", "get_current_time", "--agent", "nope")
    (failure,) = json_lines(done)
    assert done.returncode == 1 and failure["code"] == "invalid_arguments"
    assert failure["message"].startswith("There is no agent 'nope'") and failure["message"] in done.stderr
    batch = run("call", "--batch", "--agent", "nope", given='{"tool": "a"}\n{"tool": "b"}\n')
    assert [one["code"] for one in json_lines(batch)] == ["invalid_arguments"] * 2


@pytest.mark.outside
def test_help_names_every_command(run: Shell) -> None:
    done = run.started("--help")
    assert done.returncode == 0
    assert all(name in done.stdout for name in ("call", "doctor", "schema", "tools"))
    assert "0.1.0" in run.started("--version").stdout
    for group in ("mcp", "config"):
        commands = run(group, "--help").stdout.partition("\nCommands:\n")[2]
        assert commands and "..." not in commands, "a description is cut"


@pytest.mark.outside
def test_a_list_can_be_asked_for_by_name(run: Shell) -> None:
    assert run("agents", "list", "--json").stdout == run("agents", "--json").stdout != ""
    none = "No session yet"
    assert none in run.on_screen("sessions", "list") and none not in run("sessions", "list").stdout


@pytest.mark.outside
def test_options_work_before_and_after_the_command(run: Shell, tmp_path: Path) -> None:
    for words in (("--workspace", str(tmp_path / "w"), "call"), ("call", "--workspace", str(tmp_path / "w"))):
        done = run(*words, "write_file", '{"path": "f", "content": "x"}')
        assert done.returncode == 0
        assert (tmp_path / "w" / "f").exists()
        (tmp_path / "w" / "f").unlink()


@pytest.mark.outside
def test_a_reader_that_goes_away_is_no_error(run: Shell) -> None:
    command = f"{shlex.join(COMMAND)} tools --json | head -c 1"
    environ = {**os.environ, "HOME": str(run.home)}
    done = subprocess.run(["sh", "-c", command], env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert "Traceback" not in done.stderr
