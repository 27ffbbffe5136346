"""Each command gives the same answer with a running gateway and without one (SPEC U2)."""

import contextlib
import json
from typing import Any

import pytest

from tests.cli.gateways import serving
from tests.cli.shell import Shell, json_lines
from tests.cli.sleeper import Sleeper

pytestmark = pytest.mark.outside

CONFIG = '[agents.reader]\ntools = ["read_*"]\nmode = "read_only"\n'
TIME = "What time is it in Tokyo?"
COMMANDS = (
    ("tools",),
    ("tools", "--json"),
    ("tools", "--agent", "reader"),
    ("tools", "why", "read_file"),
    ("tools", "why", "spawn", "--agent", "reader", "--json"),
    ("tools", "enable", "spawn"),
    ("agents",),
    ("agents", "--json"),
    ("agents", "show", "reader"),
    ("agents", "show", "nobody"),
    ("agents", "create", "reader"),
    ("call", "read_file", '{"path": "a.txt"}'),
    ("call", "raed_file"),
    ("call", "read_file", "[1]"),
    ("call", "read_file", "--agent", "nobody"),
    ("model", "which"),
    ("model", "which", "--json", "--model", "nope"),
    ("chat", "--session", "nope", "hi"),
    ("chat", "--agent", "nobody", "hi"),
    ("sessions",),
    ("sessions", "show", "nope"),
    ("sessions", "delete", "nope", "--json"),
    ("calls", "show", "nope"),
    ("calls", "timings", "--tool", "nope"),
    ("questions", "--json"),
    ("questions", "answer", "nope", "allow"),
    ("rules",),
    ("rules", "--json"),
    ("rules", "forget", "spawn"),
    ("questions",),
    ("artifacts",),
    ("artifacts", "get", "nope"),
    ("sessions", "search", "Tokyo"),
    ("sessions", "export", "last"),
    ("sessions", "rename", "nope", "x", "--json"),
    ("calls", "--tool", "nope", "--status", "error", "--since", "today"),
    ("calls", "--tool", "nope", "--origin", "device", "--json"),
    ("calls", "--since", "yesterdayish", "--json"),
    ("devices", "rename", "nope", "other"),
    ("push",),
    ("push", "test", "nope"),
    ("push", "remove", "nope", "--json"),
    ("config", "show", "tools.shown"),
    ("config", "path"),
    ("version",),
    ("chat", "--json", "--session", "nope", "hi"),
    ("usage", "--json"),
    ("usage", "--by", "day"),
    ("usage", "--by", "agent", "--json"),
    ("skills",),
    ("skills", "--json"),
    ("skills", "show", "summarise-file"),
    ("skills", "enable", "nope", "--yes"),
    ("skills", "disable", "nope"),
    ("devices",),
    ("devices", "forget", "nope"),
)


def test_each_command_answers_the_same_with_and_without_a_gateway(run: Shell) -> None:
    run.config(f'model = "offline"\n{CONFIG}')
    run.workspace.mkdir(parents=True)
    (run.workspace / "a.txt").write_text("hello", encoding="utf-8")

    def answers() -> list[tuple[int, str, str]]:
        done = [run(*words) for words in COMMANDS]
        return [(one.returncode, one.stdout, one.stderr) for one in done]

    without = answers()
    with serving(run):
        there = answers()
    for words, mine, its in zip(COMMANDS, without, there, strict=True):
        assert mine == its, words
        assert "Traceback" not in mine[2]


@pytest.mark.parametrize("is_served", [False, True])
def test_what_a_person_always_allows_is_remembered_listed_and_taken_back(run: Shell, is_served: bool) -> None:
    run.config('[agents.General]\nmode = "ask_always"\n')

    def converse() -> None:
        with run.at_terminal("chat") as terminal:
            terminal.prompt()
            terminal.say(TIME)
            terminal.until(r"never\? ")
            terminal.say("a")
            assert "[get_current_time: ok," in terminal.prompt()
            terminal.type("\x04")
            assert terminal.ended() == 0
        assert run("call", "get_current_time").returncode == 0, "another process remembers it"
        (rule,) = rules(run)
        assert (rule["tool"], rule["kind"], rule["answer"]) == ("get_current_time", "approval", "always")
        assert "1 rule about get_current_time forgotten" in run("rules", "forget", "get_current_time").stdout
        assert rules(run) == []
        assert json_lines(run("call", "get_current_time"))[0]["code"] == "approval_denied"
        with run.at_terminal("call", "get_current_time") as terminal:
            terminal.until(r"never\? ")
            terminal.say("never")
            assert terminal.ended() == 1
        assert "refused by a rule of the user" in json_lines(run("call", "get_current_time", "--yes"))[0]["message"]
        assert 'Your rule "never" refuses it' in run("tools", "why", "get_current_time").stdout

    if is_served:
        with serving(run):
            converse()
    else:
        converse()


def rules(run: Shell) -> list[dict[str, Any]]:
    """The rules, as `handspan rules --json` prints them."""
    listed: list[dict[str, Any]] = json.loads(run("rules", "--json").stdout)
    return listed


def test_a_rule_that_was_made_without_a_gateway_holds_at_one(run: Shell) -> None:
    run.config('[agents.General]\nmode = "ask_always"\n')
    with run.at_terminal("call", "get_current_time") as terminal:
        terminal.until(r"never\? ")
        terminal.say("a")
        terminal.until(r'"status":"success"')
        assert terminal.ended() == 0
    with serving(run):
        assert run("call", "get_current_time").returncode == 0


def test_sessions_calls_and_usage_of_a_conversation_are_there_afterwards(run: Shell) -> None:
    session = json_lines(run("chat", "--json", "--model", "offline", TIME))[0]["id"]
    (listed,) = json.loads(run("sessions", "--json").stdout)
    assert (listed["session_id"], listed["message_count"], listed["persona"]) == (session, 4, "General")
    assert session in run("sessions").stdout
    assert TIME in run("sessions", "show", session).stdout
    (call,) = json.loads(run("calls", "--json", "--session", session).stdout)
    assert (call["tool"], call["status"]) == ("get_current_time", "success")
    assert "get_current_time" in run("calls").stdout
    assert json.loads(run("calls", "timings", "--json", "--tool", "get_current_time").stdout)[0]["calls"] >= 1
    assert json.loads(run("calls", "show", call["id"], "--json").stdout)["arguments"] == {"timezone": "Asia/Tokyo"}
    assert "offline: 2 replies" in run("usage").stdout
    assert run("sessions", "rename", session, "Tokyo").returncode == 0
    assert json.loads(run("sessions", "--json").stdout)[0]["name"] == "Tokyo"
    assert run("sessions", "delete", session).returncode == 0
    assert json.loads(run("sessions", "--json").stdout) == []


@pytest.mark.parametrize("has_gateway", [False, True])
def test_sessions_are_pinned_archived_searched_and_of_a_kind(run: Shell, has_gateway: bool) -> None:
    with serving(run) if has_gateway else contextlib.nullcontext():
        once = json_lines(run("chat", "--json", TIME))[0]["id"]
        chat = json_lines(run("chat", "--json", given="Say hello to the Café\n"))[0]["id"]

        def listed(*options: str) -> list[str]:
            return [one["session_id"] for one in json.loads(run("sessions", *options, "--json").stdout)]

        assert listed("--kind", "one_shot") == [once] and listed("--kind", "chat") == [chat]
        assert listed("--pinned") == listed("--archived") == []
        assert run("sessions", "pin", chat).stdout == f"The session {chat} is pinned.\n"
        assert listed("--pinned") == [chat]
        assert "(pinned)" in run("sessions").stdout and "(one-shot)" in run("sessions").stdout
        assert json.loads(run("sessions", "pin", chat, "--off", "--json").stdout)["pinned"] is False
        assert run("sessions", "archive", once).stdout == f"The session {once} is in the archive.\n"
        assert listed() == [chat] and listed("--archived") == [once]
        assert run("sessions", "archive", once, "--off").stdout.endswith("not in the archive any more.\n")
        assert chat in run("sessions", "search", "cafe", "HELL").stdout
        messages = json.loads(run("sessions", "show", once, "--json").stdout)
        time = next(json.loads(one["content"])["result"] for one in messages if one["role"] == "tool")
        assert once in run("sessions", "search", "--results", time).stdout
        assert json.loads(run("sessions", "search", '"nothing', "--json").stdout) == []


def test_a_call_works_while_a_conversation_is_open_in_another_process(run: Shell) -> None:
    sleeper = Sleeper(run)
    with run.at_terminal("chat") as terminal:
        terminal.prompt()
        terminal.say("/nap minutes=5")
        assert sleeper.has_begun()
        assert run("call", "get_current_time").returncode == 0
        assert [row["status"] for row in json.loads(run("calls", "--json", "--tool", "nap").stdout)] == ["open"]
        terminal.type("\x03")
        assert "(aborted)" in terminal.prompt()
        terminal.type("\x04")
        assert terminal.ended() == 0
    sleeper.close()


_COUNT = """
from handspan import ToolContext, tool

@tool
async def count(ctx: ToolContext) -> str:
    "Count to two."
    ctx.progress({"text": "one "})
    ctx.progress({"text": "two "})
    ctx.progress([3])
    return "done"
"""


@pytest.mark.parametrize("is_served", [False, True])
def test_a_call_shows_what_its_tool_reports_unless_it_shall_be_quiet(run: Shell, is_served: bool) -> None:
    run.tool("count", _COUNT)
    with serving(run) if is_served else contextlib.nullcontext():
        with run.at_terminal("call", "count") as terminal:
            shown = terminal.until(r'"status":"success"')
            assert terminal.ended() == 0
        assert "one two [3]" in shown
        with run.at_terminal("call", "count", "--quiet") as terminal:
            shown = terminal.until(r'"status":"success"')
            assert terminal.ended() == 0
        assert "one" not in shown
        assert run("call", "count").stderr.count("one") == 0, "a script sees the result alone"


def test_the_limit_of_requests_holds_only_where_there_is_a_request_and_its_setting_is_named(run: Shell) -> None:
    args = {"path": "large.txt", "content": "x" * 1_300_000}
    line = json.dumps({"tool": "write_file", "args": args})
    inside = run("call", "write_file", "-", given=json.dumps(args))
    assert inside.returncode == 0 and json.loads(inside.stdout)["status"] == "success", inside.stdout[:300]
    assert json.loads(run("call", "--batch", given=line).stdout)["status"] == "success"
    with serving(run):
        for words, given in ((("write_file", "-"), json.dumps(args)), (("--batch",), line)):
            done = run("call", *words, given=given)
            assert done.returncode == 1 and "the limit of the setting gateway.request_bytes" in done.stdout, done.stdout
        assert run("call", "write_file", "-", "--embedded", given=json.dumps(args)).returncode == 0
