"""`chat`, `tools`, `call` and `agents` at a gateway that runs: found, said so, and the same as embedded (SPEC U2)."""

import asyncio
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from handspan.cli.call import Calls
from handspan.cli.questions import question_lines
from handspan.cli.remote import Remote
from handspan.cli.requests import RemoteRefused, segment
from handspan.cli.terminal_questions import render_question
from handspan.client.errors import GatewayUnreachable
from handspan.core.values import JsonObject
from handspan.wire.rest.questions import QuestionView
from tests.cli.gateways import address, device, listed, serving, token
from tests.cli.shell import Shell, Terminal, json_lines
from tests.cli.sleeper import Sleeper

pytestmark = pytest.mark.outside

TIME = "What time is it in Tokyo?"
FILES = "write 'hello' to notes.txt then read notes.txt"
PAINT = """
from handspan import ToolContext, tool

@tool
async def paint(ctx: ToolContext) -> list:
    "Paint."
    answer = await ctx.ask("input", "Which colour?", schema={"enum": ["red", "blue"]})
    return [answer.decision, answer.value]
"""
READER = '[agents.reader]\ntools = ["read_*"]\nmode = "read_only"\n'


@pytest.fixture
def gateway(run: Shell) -> Iterator[Terminal]:
    """A gateway on the state folder of this home."""
    with serving(run) as terminal:
        yield terminal


def finished(done: subprocess.CompletedProcess[str]) -> list[tuple[str, str]]:
    return [(event["name"], event["status"]) for event in json_lines(done) if event["type"] == "call_finished"]


# What goes wrong.


def test_a_mistake_in_mcp_json_keeps_no_command_from_a_gateway_that_runs(run: Shell, gateway: Terminal) -> None:
    run.config("tools.mcp_servers.x.timeout = 5\n")  # the rest of this server is in mcp.json
    file = run.home / ".config" / "handspan" / "mcp.json"
    file.write_text('{"mcpServers": {"x": }', encoding="utf-8")
    for words in (("tools",), ("call", "get_current_time"), ("chat", TIME), ("sessions",), ("mcp",), ("tokens",)):
        done = run(*words)
        assert done.returncode == 0, (words, done.stderr)
    doctor = run("doctor")
    assert doctor.returncode == 1 and f"FAIL  configuration: The settings can't be used:\n- {file}" in doctor.stdout
    assert "ok    gateway WebSocket" in doctor.stdout
    assert run("backup", str(run.home / "saved.tar.gz")).returncode == 0
    embedded = run("tools", "--embedded")
    assert embedded.returncode == 1 and f"{file}: this is not valid JSON" in embedded.stderr


def test_a_mistake_in_the_settings_keeps_no_command_from_a_gateway_that_runs(run: Shell) -> None:
    state = run.home / "elsewhere"
    run.config(f"state = '{state}'\n")
    with serving(run):
        run.config(f"state = '{state}'\n[tools]\nresult_limit = 'many'\n[gatewy]\nport = 1\n")
        for words in (("tools",), ("call", "get_current_time"), ("chat", TIME), ("sessions",), ("tokens",)):
            done = run(*words)
            assert done.returncode == 0, (words, done.stderr)
        embedded = run("tools", "--embedded")
        assert embedded.returncode == 1 and "tools.result_limit: " in embedded.stderr
        run.config(f"state = '{state}'\nport = \n")
        assert "line 2" in run("tools").stderr, "where the gateway is can't be read: the error names the line"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--embedded", "--url", "http://127.0.0.1:1"), 2, "one of the two"),
        (("--url", "nonsense", "--token", "t"), 2, "'nonsense' is no gateway's address"),
        (
            ("--url", "http://127.0.0.1:1"),
            2,
            "--url http://127.0.0.1:1 wants a token: --token, or the variable HANDSPAN_TOKEN",
        ),
        (("--token", "t"), 2, "No gateway is running that --token could be for"),
        (("--url", "http://127.0.0.1:1", "--token", "t"), 1, "The gateway at http://127.0.0.1:1 does not answer"),
    ],
)
@pytest.mark.parametrize("command", [("tools",), ("call", "get_current_time"), ("agents",), ("chat", "hi")])
def test_a_gateway_that_can_not_be_meant_is_told_with_a_remedy(
    run: Shell, command: tuple[str, ...], words: tuple[str, ...], code: int, said: str
) -> None:
    done = run(*command, *words)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr and "Traceback" not in done.stderr


@pytest.mark.usefixtures("gateway")
def test_a_wrong_token_and_what_is_not_there_are_told_in_words(run: Shell) -> None:
    for words, said in (
        (("tools", "--token", "wrong"), "does not know this token: it is wrong, or was revoked. Give another"),
        (("chat", "hi", "--token", "wrong"), "--token or the variable HANDSPAN_TOKEN"),
        (("call", "get_current_time", "--agent", "Genral"), "There is no agent 'Genral'. Did you mean 'General'?"),
        (("tools", "--agent", "Genral"), "There is no agent 'Genral'. Did you mean 'General'?"),
        (("chat", "--agent", "Genral", "hi"), "There is no agent 'Genral'. Did you mean 'General'?"),
        (("chat", "--session", "nope", "hi"), "There is no session 'nope'"),
        (("chat", "--session", "last", "hi"), "There is no session yet"),
        (("chat", "--model", "ofline", "hi"), "there is no model 'ofline'. Did you mean 'offline'?"),
    ):
        done = run(*words)
        assert done.returncode == 1, words
        assert ('"status":"error"' in done.stdout) if words[0] == "call" else done.stdout == "", words
        assert said in done.stderr and "Traceback" not in done.stderr


def test_what_answers_but_is_no_gateway_is_said_to_be_none() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        remote = Remote(f"http://127.0.0.1:{server.getsockname()[1]}", "t")
        pid = os.fork()
        if not pid:
            for body in (b"<html>", b"[1]"):
                with server.accept()[0] as one:
                    one.recv(65536)
                    status = b"200 OK" if body == b"[1]" else b"404 Not Found"
                    one.sendall(
                        b"HTTP/1.1 %b\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (status, len(body), body)
                    )
            os._exit(0)
        try:
            with pytest.raises(RemoteRefused, match="answers with HTTP 404: is it a gateway"):
                remote.get("/api/tools", JsonObject)
            with pytest.raises(RemoteRefused, match="can't be understood"):
                remote.get("/api/tools", JsonObject)
        finally:
            os.waitpid(pid, 0)
    with pytest.raises(GatewayUnreachable, match="Is the gateway running"):
        remote.get("/api/tools", JsonObject)
    assert "secret" not in repr(Remote("http://x", "secret"))


# Which it is.


def test_each_command_says_at_a_terminal_where_it_works_and_in_a_pipe_nothing(run: Shell) -> None:
    commands = (("tools",), ("call", "get_current_time"), ("agents",), ("chat", TIME), ("tools", "why", "spawn"))
    for words in commands:
        assert "(no gateway is running: embedded)" in run.on_screen(*words)
        assert run(*words).stderr == ""
    with serving(run) as gateway:
        there = f"(gateway {address(run)})"
        for words in commands:
            assert there in run.on_screen(*words)
            done = run(*words)
            assert (done.returncode, done.stderr) == (0, ""), words
        assert "(embedded)" in run.on_screen("tools", "--embedded")
        for words in (("tools", "--json"), ("agents", "--json"), ("chat", "--json", TIME)):
            done = run(*words)
            assert done.stderr == "" and json.loads(done.stdout.splitlines()[0] if words[0] == "chat" else done.stdout)
        elsewhere = ("--state", str(run.home / "other"))
        assert "(no gateway is running: embedded)" in run.on_screen("tools", *elsewhere)
        named = run.on_screen("tools", *elsewhere, "--url", f"{address(run)}/", "--token", token(run))
        assert there in named and token(run) not in named
        assert there in run.on_screen("tools", *elsewhere, HANDSPAN_URL=address(run), HANDSPAN_TOKEN=token(run))
        assert there in run.on_screen("tools", "--url", address(run))  # its token is in the state folder
        assert there in run.on_screen("call", "get_current_time", "--workspace", str(run.workspace))
        for words in (("call", "get_current_time"), ("chat", "hi"), ("tools",)):
            refused = run(*words, "--workspace", str(run.home))
            assert (refused.returncode, refused.stdout) == (2, "")
            assert f"works in {str(run.workspace)!r}" in refused.stderr and "--embedded" in refused.stderr
        assert run("tools", "--workspace", str(run.home / "w"), "--embedded").returncode == 0
        by_variable = run.on_screen("tools", HANDSPAN_WORKSPACE=str(run.home))
        assert f"(gateway {address(run)}; its workspace is {str(run.workspace)!r})" in by_variable
        gateway.kill()
        assert "(no gateway is running: embedded)" in run.on_screen("tools")


# call


@pytest.mark.usefixtures("gateway")
def test_a_call_has_the_same_envelope_and_exit_code_as_here(run: Shell) -> None:
    for words, code in (
        (("write_file", '{"path": "a.txt", "content": "hi"}'), "success"),
        (("read_file", '{"path": "a.txt"}'), "success"),
        (("raed_file", "{}"), "tool_not_found"),
        (("read_file", "{}"), "invalid_arguments"),
        (("read_file", "[1]"), "invalid_arguments"),
        (("read_file", "{broken"), "invalid_arguments"),
        (("read_file", '{"path": "a", "path": "b"}'), "invalid_arguments"),
        (("read_file", '{"path": "missing"}'), "file_not_found"),
        (("web_fetch", '{"url": "http://127.0.0.1/"}'), "policy_denied"),
    ):
        there, here = run("call", *words), run("call", "--embedded", *words)
        assert json_lines(there) == json_lines(here)
        assert json_lines(there)[0].get("code", "success") == code
        assert there.returncode == here.returncode == (0 if code == "success" else 1)
    assert (run.workspace / "a.txt").read_text(encoding="utf-8") == "hi"
    large = run("call", "write_file", "-", given=json.dumps({"path": "x", "content": "y" * 300_000}))
    assert large.returncode == 0 and (run.workspace / "x").stat().st_size == 300_000
    too_large = run("call", "write_file", "-", given=json.dumps({"path": "x", "content": "y" * 2_000_000}))
    assert json_lines(too_large)[0]["code"] == "invalid_arguments"


@pytest.mark.usefixtures("gateway")
def test_a_batch_answers_every_line_in_order(run: Shell) -> None:
    lines = [
        '{"tool": "write_file", "args": {"path": "n.txt", "content": "hello"}}',
        "",
        '{"tool": "read_file", "args": {"path": "n.txt"}}',
        "not json",
        '{"tool": "read_file", "args": [1]}',
        '{"tool": ""}',
        '{"tool": "get_current_time"}',
    ]
    done = run("call", "--batch", given="\n".join(lines))
    answers = json_lines(done)
    assert [answer["status"] for answer in answers] == ["success", "success", "error", "error", "error", "success"]
    assert answers[1]["result"] == "hello" and "Line 4" in answers[2]["message"]
    assert done.returncode == 1
    assert run("call", "--batch").returncode == 0


def test_questions_of_the_gateway_are_answered_at_this_terminal(run: Shell) -> None:
    run.config('[agents.General]\nmode = "ask_always"\n')
    with serving(run):
        refused = run("call", "get_current_time")
        assert refused.returncode == 1 and json_lines(refused)[0]["code"] == "approval_denied"
        assert run("call", "get_current_time", "--yes").returncode == 0
        with run.at_terminal("call", "get_current_time", '{"timezone": "Asia/Tokyo"}') as terminal:
            assert 'get_current_time {"timezone":"Asia/Tokyo"}' in terminal.until(r"never\? ")
            terminal.say("y")
            terminal.until(r'"status":"success"')
            assert terminal.ended() == 0


def test_a_tool_asks_for_a_value_at_this_terminal(run: Shell) -> None:
    run.tool("paint", PAINT)
    refused = run("call", "paint", "--embedded", "--yes")
    assert json_lines(refused)[0]["result"] == ["deny", None], "a yes is no colour"
    with serving(run):
        for words in (("call", "paint", "--embedded"), ("call", "paint")):
            with run.at_terminal(*words) as terminal:
                assert "  1. red" in terminal.until(r"no answer\)\? ")
                terminal.say("green")
                assert "must be one of" in terminal.until(r"no answer\)\? ")
                terminal.say("2")
                terminal.until(r'"result":\["allow","blue"\]')
                assert terminal.ended() == 0


def test_a_question_with_a_list_is_answered_with_the_printed_command(run: Shell) -> None:
    run.tool("paint", PAINT)
    with serving(run), run.at_terminal("call", "paint") as terminal:
        terminal.until(r"no answer\)\? ")
        printed = re.search(r"answer: handspan (questions answer .+)   \(or: blue\)", run("questions").stdout)
        assert printed is not None
        words = shlex.split(printed[1])
        assert words[-2:] == ["--value", "red"] and run(*words).returncode == 0
        terminal.until(r'"result":\["allow","red"\]')
        assert terminal.ended() == 0


def test_a_question_for_money_says_so_and_its_command_can_be_pasted() -> None:
    schema: JsonObject = {"enum": ["Add $2 today", "Add $10 today", "No"]}
    asked = QuestionView("budget/1", "input", "", "budget", {}, "More?", "s", 60.0, schema, agent="General")
    first, *_, last = question_lines(asked)
    assert first == "budget/1  input: money for the agent 'General'"
    assert last.endswith(
        "answer budget/1 allow --value 'Add $2 today'   (or: 'Add $10 today', No); or: handspan budget add DOLLARS"
    )
    assert "Money for the agent 'General'" in render_question(asked.to_question())


# tools


@pytest.mark.usefixtures("gateway")
def test_the_list_and_why_are_the_same_as_here(run: Shell) -> None:
    here = listed(run, "--embedded")
    there = listed(run)
    assert there == here
    run("agents", "create", "few", "--tools", "read_file,spawn")
    assert set(listed(run, "--agent", "few")) == {"read_file", "spawn"}
    assert run("tools", COLUMNS="100").stdout.splitlines()[0].split()[:2] == ["name", "origin"]
    for tool in ("read_file", "web_fetch", "raed_file"):
        words = ("tools", "why", tool, "--agent", "few")
        assert (run(*words).stdout, run(*words).returncode) == (
            run(*words, "--embedded").stdout,
            run(*words, "--embedded").returncode,
        )
        assert json.loads(run(*words, "--json").stdout) == json.loads(run(*words, "--json", "--embedded").stdout)


def test_a_switch_counts_in_the_gateway_at_once(run: Shell) -> None:
    run.config('[tools]\ndisabled = ["http_request"]\n')
    with serving(run):
        assert "spawn is off." in run("tools", "disable", "spawn").stdout
        assert "already off" in run("tools", "disable", "spawn").stdout
        assert json_lines(run("call", "spawn", '{"command": "true"}'))[0]["code"] == "tool_disabled"
        assert "spawn is on." in run("tools", "enable", "spawn").stdout
        assert "was not switched off" in run("tools", "enable", "spawn").stdout
        assert run("call", "spawn", '{"command": "true"}').returncode == 0
        assert "names no tool that is here now. Did you mean 'spawn'?" in run("tools", "disable", "spwan").stderr
        assert "Note" not in run("tools", "disable", "origin:builtin").stderr
        assert "Note" in run("tools", "disable", "origin:device(phone)").stderr
        done = run("tools", "enable", "http_request")
        assert done.returncode == 1 and "tools.disabled" in done.stderr


# agents


def test_agents_are_made_changed_cloned_and_deleted_there(run: Shell) -> None:
    run.config(READER)
    run.skill("clock", "get_current_*", "Tell the time in words.")
    with serving(run):
        made = run(
            *("agents", "create", "clerk", "--tools", "read_file,raed_file", "--description", "Keeps notes."),
            *("--max-rounds", "0", "--skills", "clock,nonsense", "--model", "nope"),
        )
        assert made.returncode == 0 and "[x] read_file - Read a text file" in made.stdout
        assert "'raed_file' names no tool that is here now. Did you mean 'read_file'" in made.stderr
        assert "nonsense" in made.stderr and "'clock'" not in made.stderr
        assert "this model can't be asked now. model: there is no model 'nope'" in made.stderr
        for words in (("agents", "--json"), ("agents", "show", "clerk", "--json"), ("agents", "show", "reader")):
            there, here = run(*words), run(*words, "--embedded")
            if words[1] == "--json":
                rows = [{**row, "tools": 0} for row in json.loads(there.stdout)]  # one more tool is there
                assert rows == [{**row, "tools": 0} for row in json.loads(here.stdout)]
            else:
                assert [line for line in there.stdout.splitlines() if "use_skill" not in line] or not here.stdout
        run(
            "agents",
            "edit",
            "clerk",
            "--name",
            "scribe",
            "--enable",
            "write_file",
            "--model",
            "",
            "--mode",
            "ask_always",
        )
        shown = json.loads(run("agents", "show", "scribe", "--json").stdout)
        assert (shown["mode"], shown["tools"]) == ("ask_always", ["read_file", "raed_file", "write_file"])
        assert (shown["model"], shown["max_tool_iterations"], shown["description"]) == ("", None, "Keeps notes.")
        assert "(asks first)" in run("agents", "show", "scribe").stdout
        assert run("agents", "clone", "scribe", "twin").returncode == 0
        assert "is deleted." in run("agents", "delete", "scribe").stdout
        assert json.loads(run("agents", "delete", "twin", "--json").stdout) == {"deleted": "twin", "sessions_moved": 0}
        names = [row["name"] for row in json.loads(run("agents", "--json").stdout)]
        assert names == ["General", "reader"]


def test_what_can_not_be_done_there_is_told_in_the_same_words(run: Shell) -> None:
    run.config(READER)
    with serving(run):
        for words, said in (
            (("show", "raeder"), "There is no agent 'raeder'. Did you mean 'reader'? There are: General, reader."),
            (("edit", "nobody", "--mode", "read_only"), "There is no agent 'nobody'."),
            (("delete", "nobody"), "There is no agent 'nobody'."),
            (("clone", "nobody", "x"), "There is no agent 'nobody'."),
            (("create", "General"), "There is an agent 'General' already"),
            (("edit", "reader", "--mode", "automatic"), "'reader' is from the settings: change it there"),
            (("delete", "General"), "'General' is built-in and can't be removed"),
            (("edit", "General", "--name", "Boss"), "'General' is built-in and keeps its name"),
            (("edit", "General", "--deny", "web_*", "--enable", "web_fetch"), "the deny list of the agent 'General'"),
        ):
            done = run("agents", *words)
            assert (done.returncode, done.stdout) == (1, ""), words
            assert said in done.stderr and "Traceback" not in done.stderr


# chat


@pytest.mark.usefixtures("gateway")
def test_one_answer_over_the_gateway_is_as_one_here(run: Shell) -> None:
    done = run("chat", TIME)
    assert done.returncode == 0
    assert re.search(r"^\[get_current_time: ok, [\d.]+ ms\]$", done.stdout, re.MULTILINE)
    assert "(UTC+09:00)" in done.stdout and "stand-in" in done.stdout
    lines = json_lines(run("chat", "--json", TIME))
    kinds = [event["type"] for event in lines]
    assert (kinds[0], kinds[1], kinds[-1]) == ("session", "round", "ended")
    assert {"call_arguments", "call_started", "call_finished", "text"} <= set(kinds)
    assert (lines[-1]["reason"], lines[0]["agent"]) == ("done", "General")
    assert lines[0]["model"].startswith("offline")


@pytest.mark.usefixtures("gateway")
def test_a_session_goes_on_wherever_it_was_begun(run: Shell) -> None:
    first = json_lines(run("chat", "--json", "write 'hello' to notes.txt"))[0]["id"]
    again = run("chat", "--json", "--session", "last", "read it")
    assert json_lines(again)[0]["id"] == first and finished(again) == [("read_file", "success")]
    here = run("chat", "--json", "--embedded", "--session", first, TIME)
    assert finished(here) == [("get_current_time", "success")]
    there = run("chat", "--json", "--session", first, "read notes.txt")
    assert finished(there) == [("read_file", "success")]
    assert "stand-in" not in json_lines(there)[-1]["text"]  # it was said once in this session


@pytest.mark.usefixtures("gateway")
def test_an_agent_is_named_and_kept_and_a_lost_one_is_asked_for(run: Shell) -> None:
    run("agents", "create", "blind", "--tools", "get_current_time", "--skills", "nonsense")
    named = run("chat", "--agent", "blind", TIME)
    assert named.returncode == 0 and "nonsense" in named.stderr
    lines = run("chat", "--json", "--session", "last", FILES)
    assert (json_lines(lines)[0]["agent"], finished(lines)) == ("blind", [])
    other = run("chat", "--json", "--session", "last", "--agent", "General", FILES)
    assert finished(other) == [("write_file", "success"), ("read_file", "success")]


@pytest.mark.usefixtures("gateway")
def test_another_model_than_the_gateways_answers_here(run: Shell) -> None:
    assert f"(gateway {address(run)})" in run.on_screen("chat", "--model", "offline", TIME)
    other = run("chat", "--model", "anthropic:claude-sonnet-5", TIME, ANTHROPIC_API_KEY="")
    assert other.returncode == 1 and "Set ANTHROPIC_API_KEY" in other.stderr


def test_a_chat_with_another_model_says_what_it_goes_without(run: Shell) -> None:
    run.config('[models.other]\napi = "openai-chat"\nmodel = "x"\nbase_url = "http://127.0.0.1:9/v1"\n')
    with serving(run), run.at_terminal("chat", "--model", "other") as terminal:
        terminal.until("this chat has no devices, and is not at the gateway")
        terminal.say("/exit")
        assert terminal.ended() == 0


def test_commands_work_in_a_conversation_over_the_gateway(run: Shell) -> None:
    run.config('[agents.blind]\ntools = ["get_current_time"]\n')
    with serving(run), run.at_terminal("chat") as terminal:
        begun = terminal.prompt()
        assert f"(gateway {address(run)})" in begun and "Model: offline" in begun and "agent 'General'" in begun
        terminal.say(TIME)
        assert "[get_current_time: ok" in terminal.prompt()
        terminal.say("/tools")
        assert re.search(r"^  write_file +Write text", terminal.prompt(), re.MULTILINE)
        terminal.say("/usage")
        assert "offline: 2 replies, unknown tokens in, unknown out, cost unknown" in terminal.prompt()
        terminal.say("/agent nope")
        assert "(There is no agent 'nope'." in terminal.prompt()
        terminal.say("/agent blind")
        assert "\n  blind\n" in terminal.prompt()
        terminal.say("/tools")
        tools = terminal.prompt()
        assert "get_current_time" in tools and "write_file" not in tools
        terminal.say(FILES)
        assert "write_file" not in terminal.prompt().partition(FILES)[2].replace("notes", "")
        terminal.say("/skills")
        assert "off  summarise-file" in terminal.prompt()
        terminal.say("/skill clock")
        assert "There is no skill 'clock'." in terminal.prompt()
        terminal.say("/help")
        assert "/agent [NAME]" in terminal.prompt()
        terminal.type("\x04")
        assert terminal.ended() == 0


def test_ctrl_c_aborts_the_turn_at_the_gateway_and_not_the_conversation(run: Shell) -> None:
    sleeper = Sleeper(run)
    with serving(run), run.at_terminal("chat") as terminal:
        terminal.prompt()
        terminal.say("/nap minutes=5")
        terminal.until(r"\[nap: running\]")
        assert sleeper.has_begun()
        terminal.type("\x03")
        assert "(aborted)" in terminal.prompt()
        terminal.say(TIME)
        assert "get_current_time: ok" in terminal.prompt()
        terminal.type("\x04")
        assert terminal.ended() == 0
        with run.at_terminal("chat", "/nap minutes=5") as once:
            once.until(r"\[nap: running\]")
            once.type("\x03")
            assert once.ended() == 130 and "(aborted)" in once.seen and "Traceback" not in once.seen
    sleeper.close()


def test_the_gateways_questions_are_asked_inline(run: Shell) -> None:
    run.config('[agents.General]\nmode = "ask_always"\n')
    with serving(run):
        assert finished(run("chat", "--json", TIME)) == [("get_current_time", "approval_denied")]
        assert finished(run("chat", "--json", "--yes", TIME)) == [("get_current_time", "success")]
        with run.at_terminal("chat") as terminal:
            terminal.prompt()
            terminal.say(TIME)
            assert 'get_current_time {"timezone":"Asia/Tokyo"}' in terminal.until(r"never\? ")
            terminal.say("y")
            assert "[get_current_time: ok," in terminal.prompt()
            terminal.say(TIME)
            terminal.until(r"never\? ")
            terminal.type("\x03")
            assert "(aborted)" in terminal.prompt()
            terminal.say("/usage")
            assert "replies" in terminal.prompt()


def test_a_kept_connection_that_the_gateway_has_closed_is_opened_again_also_for_a_change() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        remote = Remote(f"http://127.0.0.1:{server.getsockname()[1]}", "t")

        def answer_once() -> None:
            with server.accept()[0] as one:
                one.recv(65536)
                one.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

        with ThreadPoolExecutor(1) as threads, closing(remote):
            for _ in range(2):
                answered = threads.submit(answer_once)
                assert remote.change("POST", "/api/artifacts", dict[str, Any], {"a": 1}) == {}
                answered.result()  # the connection is closed at its other end now


def test_a_question_that_is_answered_elsewhere_is_asked_no_more(run: Shell) -> None:
    run.config('[agents.General]\nmode = "ask_always"\n')
    with serving(run), run.at_terminal("chat") as terminal:
        terminal.prompt()
        terminal.say(TIME)
        terminal.until(r"never\? ")
        remote = Remote(address(run), token(run))
        (question,) = remote.get("/api/questions", dict[str, Any])["questions"]
        path = f"/api/questions/{segment(question['id'])}/answer"
        remote.change("POST", path, dict[str, Any], {"decision": "allow"})
        remote.close()
        assert "[get_current_time: ok," in terminal.prompt()
        terminal.say("/usage")
        assert "replies" in terminal.prompt()


def test_a_session_that_is_shown_says_which_question_is_open(run: Shell) -> None:
    run.config('[agents.General]\nmode = "ask_always"\n')
    with serving(run), run.at_terminal("chat") as terminal:
        terminal.prompt()
        terminal.say(TIME)
        terminal.until(r"never\? ")
        shown = run("sessions", "show", "last").stdout
        assert "A question waits for an answer:" in shown and "answer: handspan questions answer " in shown
        terminal.say("y")
        assert "[get_current_time: ok," in terminal.prompt()
        assert "A question waits" not in run("sessions", "show", "last").stdout


def test_requests_of_several_threads_do_not_mix(run: Shell) -> None:
    with serving(run), closing(Remote(address(run), token(run))) as remote, ThreadPoolExecutor(8) as threads:
        names = [f"agent{number}" for number in range(40)]
        made = [threads.submit(remote.change, "POST", "/api/agents", dict[str, Any], {"name": name}) for name in names]
        assert [one.result(60)["name"] for one in made] == names


def test_a_gateway_that_is_killed_and_started_again_goes_on_with_the_conversation(run: Shell) -> None:
    with serving(run) as first, run.at_terminal("chat") as terminal:
        port = address(run).rpartition(":")[2]
        terminal.prompt()
        terminal.say("write 'hello' to notes.txt")
        assert "write_file: ok" in terminal.prompt()
        first.kill()
        with run.at_terminal("serve", "--port", port, "--model", "offline") as second:
            second.until("State ")
            terminal.say("read it")
            assert "\nhello\n" in terminal.prompt()
            terminal.type("\x04")
            assert terminal.ended() == 0


def test_a_turn_that_is_lost_with_its_gateway_can_be_left(run: Shell) -> None:
    sleeper = Sleeper(run)
    with serving(run) as first, run.at_terminal("chat") as terminal:
        port = address(run).rpartition(":")[2]
        terminal.prompt()
        terminal.say("/nap minutes=5")
        assert sleeper.has_begun()
        first.kill()
        with run.at_terminal("serve", "--port", port, "--model", "offline") as second:
            second.until("State ")
            terminal.type("\x03")  # the new gateway knows of no turn, and says so
            terminal.prompt()
            terminal.say("/nap minutes=5")
            assert sleeper.has_begun()
            second.kill()
            terminal.type("\x03")
            terminal.until("Ctrl-C again does not wait for it")
            terminal.type("\x03")  # nobody is there to say anything: it is not waited for
            assert "(aborted)" in terminal.prompt()
        terminal.say(TIME)
        assert "Is the gateway running" in terminal.prompt()
        with run.at_terminal("serve", "--port", port, "--model", "offline") as third:
            third.until("State ")
            terminal.say(TIME)
            assert "get_current_time: ok" in terminal.prompt()
            terminal.type("\x04")
            assert terminal.ended() == 0
    sleeper.close()


@pytest.mark.parametrize("place", ["--quiet", "--embedded"])  # at the gateway, and without one
def test_ctrl_c_cancels_the_call(run: Shell, place: str) -> None:
    sleeper = Sleeper(run)
    with serving(run), run.at_terminal("call", "nap", '{"minutes": 5}', place) as terminal:
        assert sleeper.has_begun()
        terminal.type("\x03")
        assert "Cancels the call" in terminal.until('"code":"cancelled"')
        assert terminal.ended() == 130
        (listed_call,) = json.loads(run("calls", "--tool", "nap", "--json").stdout)
        assert listed_call["status"] == "cancelled"
    sleeper.close()


def test_a_call_is_cancelled_with_its_killed_command(run: Shell) -> None:
    sleeper = Sleeper(run)
    with serving(run):
        with run.at_terminal("call", "nap", '{"minutes": 5}') as terminal:
            assert sleeper.has_begun()
            terminal.kill()
        (call,) = json.loads(run("calls", "--tool", "nap", "--json").stdout)
        path = f"{address(run)}/api/calls/{call['id']}?wait=25"
        asked = urllib.request.Request(path, headers={"authorization": f"Bearer {token(run)}"})
        with urllib.request.urlopen(asked, timeout=60) as answered:
            assert json.load(answered)["status"] == "cancelled"
    sleeper.close()


def test_a_gateway_that_stops_says_what_it_waits_for_and_a_chat_is_told_so(run: Shell) -> None:
    sleeper = Sleeper(run)
    with serving(run) as gateway, run.at_terminal("call", "nap", '{"minutes": 5}'):
        assert sleeper.has_begun()
        gateway.type("\x03")
        assert "for 1 call to end" in gateway.until("Ctrl-C again ends at once")
        done = run("chat", "hello")
        assert done.returncode == 1 and "takes no connections now (HTTP 503)" in done.stderr
        assert "is being stopped" in done.stderr
        gateway.type("\x03")
        assert gateway.ended() == 1
    sleeper.close()


def test_a_session_whose_agent_is_gone_asks_for_another(run: Shell) -> None:
    run.config(READER)
    with serving(run):
        assert run("chat", "--agent", "reader", TIME).returncode == 0
    run.config("")
    with serving(run):
        done = run("chat", "--session", "last", TIME)
        assert done.returncode == 1 and "The session was with that one: name another (--agent)." in done.stderr
        assert run("chat", "--session", "last", "--agent", "General", TIME).returncode == 0


def test_a_gateway_whose_token_is_not_to_be_had_is_told(run: Shell) -> None:
    with serving(run):
        (run.state / "operator.token").unlink()
        done = run("tools")
        assert done.returncode == 1 and "its token is not in" in done.stderr and "--embedded" in done.stderr
        assert run("tools", "--embedded").returncode == 0


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl binary to make a certificate")
def test_a_gateway_with_a_certificate_of_its_own_is_trusted_by_that_alone(run: Shell, tmp_path: Path) -> None:
    for name in ("own", "other"):
        kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", f"/CN={name}"]
        files = ["-keyout", str(tmp_path / f"{name}.key"), "-out", str(tmp_path / f"{name}.pem")]
        subprocess.run(["openssl", "req", "-x509", *kind, *files], check=True, capture_output=True)
    run.config(f'[gateway]\ntls_cert = "{tmp_path / "own.pem"}"\ntls_key = "{tmp_path / "own.key"}"\n')
    with serving(run), device(run):
        assert address(run).startswith("https://")
        done = run("chat", "take device info of my computer")
        assert done.returncode == 0 and "[laptop__device_info: ok," in done.stdout
        assert run("call", "laptop__device_info").returncode == 0
        run.config(f'[gateway]\ntls_cert = "{tmp_path / "other.pem"}"\n')
        for words in (("chat", TIME), ("call", "get_current_time")):
            done = run(*words)
            assert (done.returncode, done.stdout) == (1, "") and "does not trust the certificate" in done.stderr


def test_a_token_of_the_environment_is_no_setting_and_is_never_shown(run: Shell) -> None:
    done = run("tools", HANDSPAN_TOKEN="secret-token", HANDSPAN_URL="http://127.0.0.1:1")
    assert done.returncode == 1 and "secret-token" not in done.stderr and "does not answer" in done.stderr


@pytest.mark.anyio
async def test_a_call_whose_question_can_not_be_answered_ends_with_the_reason() -> None:
    class Broken:
        """A gateway that is gone when the person has decided."""

        async def stream(self, path: str, body: object, headers: object, on_line: Callable[[bytes], None]) -> None:
            on_line(b'data: {"event":"question","call_id":"c1"}\n')
            await asyncio.Event().wait()

        async def get(self, *_: object, **__: object) -> None:
            raise GatewayUnreachable("The gateway does not answer.")

    calls = Calls(cast(Any, Broken()), "", cast(Any, None))
    async with asyncio.timeout(30):
        with pytest.raises(GatewayUnreachable):
            await calls.call("write_file", b"{}")


def test_forgetting_a_device_says_whether_its_token_is_still_valid(run: Shell, gateway: Terminal) -> None:
    with device(run):
        pass
    said = run("devices", "forget", "laptop").stdout
    assert "'laptop' is forgotten, and its token is still valid. It used a token with the scope 'admin'" in said
    made = json.loads(run("tokens", "new", "lamp", "--scope", "device", "--json").stdout)["token"]
    with device(run, "--url", address(run), "--token", made):
        pass
    assert run("devices", "forget", "laptop").stdout == "The device 'laptop' is forgotten, and its token is revoked.\n"


def test_a_connected_device_is_renamed_from_its_next_connection_on(run: Shell, gateway: Terminal) -> None:
    with device(run):
        said = run("devices", "rename", "laptop", "desk").stdout
        assert said.startswith("The device 'laptop' is called 'desk' from its next connection on. Until then its tools")
        assert "connected as laptop" in run("devices").stdout
        assert "Call 'laptop__device_info' until then." in run("call", "desk__device_info").stdout


def test_a_token_that_lets_in_another_device_is_revoked_when_the_person_says_so(run: Shell, gateway: Terminal) -> None:
    made = json.loads(run("tokens", "new", "lamp", "--scope", "device", "--json").stdout)["token"]
    for label in ("lamp", "desk"):
        with device(run, "--url", address(run), "--token", made, label=label):
            pass
    with run.at_terminal("devices", "forget", "lamp") as terminal:
        terminal.until(r"Revoke it, and end desk, too\?")
        terminal.type("y\n")
        assert terminal.ended() == 0
        assert "It also lets in 'desk'" in terminal.seen and "The token is revoked." in terminal.seen
    refused = run("device", "--url", address(run), "--token", made, "--label", "desk")
    assert refused.returncode == 1
