"""`handspan agents`: made, shown with checkboxes, changed, cloned, deleted; every command knows them (SPEC A1)."""

import json
import re
from typing import Any

import pytest

from tests.cli.shell import Shell, json_lines

READER = '[agents.reader]\ntools = ["read_*"]\nmode = "read_only"\n'


def agents(run: Shell) -> dict[str, Any]:
    return {row["name"]: row for row in json.loads(run("agents", "--json").stdout)}


def boxes(run: Shell, name: str) -> dict[str, bool]:
    """Tools and whether they are ticked, as a person sees it."""
    lines = run("agents", "show", name).stdout.splitlines()
    found = [re.match(r"\[([x ])\] (\w+)", line) for line in lines]
    return {match[2]: match[1] == "x" for match in found if match}


def ticks(run: Shell, name: str) -> set[str]:
    return {tool for tool, is_on in boxes(run, name).items() if is_on}


# What can't be done.


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("show", "raeder"), "There is no agent 'raeder'. Did you mean 'reader'? There are: General, reader."),
        (("edit", "nobody", "--mode", "read_only"), "There is no agent 'nobody'."),
        (("delete", "nobody"), "There is no agent 'nobody'."),
        (("clone", "nobody", "x"), "There is no agent 'nobody'."),
        (("clone", "General", "reader"), "There is an agent 'reader' already"),
        (("create", "General"), "There is an agent 'General' already"),
        (("create", "reader"), "There is an agent 'reader' already"),
        (("create", " x"), "can't be an agent's name"),
        (("edit", "reader", "--mode", "automatic"), "'reader' is from the settings: change it there (agents.reader)"),
        (("delete", "reader"), "'reader' is from the settings"),
        (("delete", "General"), "'General' is built-in and can't be removed"),
        (("edit", "General", "--name", "Boss"), "'General' is built-in and keeps its name"),
        (("edit", "General", "--deny", "web_*", "--enable", "web_fetch"), "the deny list of the agent 'General' names"),
    ],
)
def test_what_can_not_be_done_is_told_with_exit_code_1(run: Shell, words: tuple[str, ...], said: str) -> None:
    run.config(READER)
    done = run("agents", *words)
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr and "Traceback" not in done.stderr
    assert [(row["name"], row["tools"]) for row in agents(run).values()] == [("General", 17), ("reader", 2)]


@pytest.mark.parametrize(
    "words",
    [
        ("create",),
        ("create", "x", "--mode", "wild"),
        ("create", "x", "--max-rounds", "-1"),
        ("create", "x", "--all-tools", "--no-tools"),
        ("create", "x", "--tools", "a", "--all-tools"),
        ("edit", "General", "--enable", "spawn", "--disable", "spawn"),
        ("clone", "General"),
        ("nonsense",),
    ],
)
def test_wrong_usage_exits_with_2_and_changes_nothing(run: Shell, words: tuple[str, ...]) -> None:
    assert run("agents", *words).returncode == 2
    assert list(agents(run)) == ["General"]


def test_what_names_nothing_now_is_noted_and_kept(run: Shell) -> None:
    done = run("agents", "create", "x", "--tools", "raed_file,phone__*", "--model", "nope")
    assert done.returncode == 0
    assert "'raed_file' names no tool that is here now. Did you mean 'read_file'" in done.stderr
    assert "this model can't be asked now. model: there is no model 'nope'" in done.stderr
    assert agents(run)["x"]["tools"] == 0


# What there is.


def test_the_list_has_the_built_in_one_first_and_those_of_the_settings_too(run: Shell) -> None:
    run.config(READER)
    run("agents", "create", "clerk", "--tools", "read_file,write_file", "--description", "Keeps notes.")
    listed = run("agents").stdout.splitlines()
    assert listed[0].split() == ["name", "from", "model", "mode", "tools", "description"]
    assert [line.split()[0] for line in listed[1:]] == ["General", "clerk", "reader"]
    rows = agents(run)
    assert rows["clerk"] == {
        "name": "clerk",
        "from": "kept",
        "model": "",
        "mode": "automatic",
        "tools": 2,
        "description": "Keeps notes.",
    }
    assert (rows["reader"]["from"], rows["reader"]["mode"], rows["reader"]["tools"]) == ("settings", "read_only", 2)
    assert (rows["General"]["from"], rows["General"]["tools"]) == ("built-in", 17)


@pytest.mark.outside
def test_an_agent_is_shown_with_checkboxes_and_no_parameters(run: Shell) -> None:
    run.config(
        '[tools]\ndisabled = ["spawn"]\n[agents.reader]\ntools = ["read_file", "write_file", "http_request"]\n'
        'mode = "read_only"\n'
    )
    shown = run("agents", "show", "reader", COLUMNS="200").stdout
    assert "It is from the settings: change it there." in shown
    assert "[x] read_file - Read a " in shown
    assert "[x] write_file (refused: read-only agent) - Write" in shown
    assert "[x] http_request (needs network; only calls that read: read-only agent) - " in shown
    assert "[ ] exec_shell (needs shell) - Run a shell command" in shown
    assert "[ ] spawn (needs shell; off for all owners) - Run one program" in shown
    assert "[ ] web_fetch (needs network) - Fetch" in shown
    assert "encoding" not in shown and "command:" not in shown
    assert max(map(len, run.on_screen("agents", "show", "reader", COLUMNS="80").splitlines())) <= 80
    assert max(map(len, shown.splitlines())) > 200, "a pipe gets all of it"


@pytest.mark.outside
def test_the_same_as_json(run: Shell) -> None:
    run(
        "agents",
        "create",
        "x",
        "--tools",
        "web_*",
        "--deny",
        "web_search",
        "--max-rounds",
        "0",
        "--instructions",
        "Be kind.",
    )
    shown = json.loads(run("agents", "show", "x", "--json").stdout)
    assert (shown["tools"], shown["deny"], shown["max_tool_iterations"]) == (["web_*"], ["web_search"], None)
    assert (shown["instructions"], shown["from"]) == ("Be kind.", "kept")
    selection = {tool["name"]: tool for tool in shown["selection"]}
    assert [name for name, tool in selection.items() if tool["selected"]] == ["web_fetch"]
    assert selection["web_fetch"]["permissions"] == ["network"]
    assert set(selection["web_fetch"]) == {"name", "description", "permissions", "selected"}


# What is changed.


def test_tools_are_chosen_ticked_and_unticked(run: Shell) -> None:
    run("agents", "create", "x", "--no-tools")
    assert ticks(run, "x") == set()
    run("agents", "edit", "x", "--enable", "read_file", "--enable", "write_file")
    assert ticks(run, "x") == {"read_file", "write_file"}
    run("agents", "edit", "x", "--disable", "write_file")
    assert ticks(run, "x") == {"read_file"}
    run("agents", "edit", "x", "--tools", "read_*", "--disable", "read_artifact")
    assert ticks(run, "x") == {"read_file"}
    run("agents", "edit", "x", "--enable", "read_artifact")
    assert ticks(run, "x") == {"read_file", "read_artifact"}
    run("agents", "edit", "x", "--all-tools", "--deny", "web_*, exec_shell")
    assert set(boxes(run, "x")) - ticks(run, "x") == {"web_fetch", "web_search", "exec_shell"}
    run("agents", "edit", "x", "--deny", "")
    assert len(ticks(run, "x")) == 21


def test_only_what_is_said_changes(run: Shell) -> None:
    run("agents", "create", "x", "--instructions", "Be brief.", "--mode", "ask_always", "--model", "offline")
    run("agents", "edit", "x", "--name", "y", "--description", "Brief.")
    shown = json.loads(run("agents", "show", "y", "--json").stdout)
    assert (shown["name"], shown["instructions"], shown["mode"]) == ("y", "Be brief.", "ask_always")
    assert (shown["model"], shown["description"], shown["max_tool_iterations"]) == ("offline", "Brief.", 20)
    assert set(agents(run)) == {"General", "y"}
    run("agents", "edit", "y", "--instructions", "", "--model", "", "--max-rounds", "3")
    shown = json.loads(run("agents", "show", "y", "--json").stdout)
    assert (shown["instructions"], shown["model"], shown["max_tool_iterations"]) == ("", "", 3)


def test_skills_are_on_from_the_start_of_a_conversation(run: Shell) -> None:
    run.skill("clock", "get_current_*", "Tell the time in words.")
    done = run("agents", "create", "x", "--skills", "clock, nonsense")
    assert "nonsense" in done.stderr and "skills:       clock, nonsense\n" in done.stdout
    chat = json_lines(run("chat", "--json", "--agent", "x", "write 'x' to a.txt"))
    assert "call_started" not in {event["type"] for event in chat}
    run("agents", "edit", "x", "--skills", "")
    assert json.loads(run("agents", "show", "x", "--json").stdout)["skills"] == []


def test_an_agent_of_the_settings_can_be_cloned_and_the_clone_changed(run: Shell) -> None:
    run.config(READER)
    assert "[x] read_file" in run("agents", "clone", "reader", "mine").stdout
    run("agents", "edit", "mine", "--mode", "automatic", "--enable", "write_file")
    assert (agents(run)["mine"]["tools"], agents(run)["reader"]["tools"]) == (3, 2)


def test_the_built_in_agent_can_be_changed_unless_the_settings_have_it(run: Shell) -> None:
    assert run("agents", "edit", "General", "--disable", "exec_shell").returncode == 0
    assert json_lines(run("call", "exec_shell", '{"command": "ls"}'))[0]["code"] == "tool_not_available"
    assert "deny list names it" in run("tools", "why", "exec_shell").stdout
    run.config('[agents.General]\nmode = "ask_destructive"\n')
    assert (agents(run)["General"]["from"], agents(run)["General"]["tools"]) == ("settings", 17)
    assert run("agents", "edit", "General", "--disable", "spawn").returncode == 1


def test_deleting_moves_the_sessions_to_the_built_in_agent(run: Shell) -> None:
    run("agents", "create", "clerk", "--tools", "get_current_time")
    begun = json_lines(run("chat", "--json", "--agent", "clerk", "What time is it in Tokyo?"))
    assert begun[0]["agent"] == "clerk"
    done = run("agents", "delete", "clerk")
    assert done.stdout == "The agent 'clerk' is deleted. 1 session moved to 'General'.\n"
    again = json_lines(run("chat", "--json", "--session", begun[0]["id"], "write 'x' to a.txt"))
    assert again[0]["agent"] == "General"
    assert (run.workspace / "a.txt").read_text(encoding="utf-8") == "x"
    run("agents", "create", "other")
    assert json.loads(run("agents", "delete", "other", "--json").stdout) == {"deleted": "other", "sessions_moved": 0}
    assert list(agents(run)) == ["General"]


# Whoever takes --agent takes both kinds.


def test_every_command_knows_the_agents_of_the_settings_and_the_kept_ones(run: Shell) -> None:
    run.config(READER)
    run("agents", "create", "kept", "--tools", "read_*", "--mode", "read_only")
    for name in ("reader", "kept"):
        listed = {row["name"] for row in json.loads(run("tools", "--json", "--agent", name).stdout)}
        assert listed == {"read_file", "read_artifact"}
        assert (
            f"The agent '{name}' can not use 'write_file'" in run("tools", "why", "write_file", "--agent", name).stdout
        )
        refused = run("call", "write_file", '{"path": "x", "content": "y"}', "--agent", name)
        assert json_lines(refused)[0]["code"] == "tool_not_available"
        chat = json_lines(run("chat", "--json", "--agent", name, "write 'x' to a.txt"))
        assert chat[0]["agent"] == name
        assert "call_started" not in {event["type"] for event in chat}


@pytest.mark.outside
def test_an_agents_own_model_answers(run: Shell) -> None:
    run("agents", "create", "x", "--model", "offline")
    assert "because it is named so" in json_lines(run("chat", "--json", "--agent", "x", "hi"))[0]["model"]
    assert "because it is named so" in run("model", "which", "--agent", "x").stdout
    run("agents", "edit", "General", "--model", "offline")
    findings = {finding["what"]: finding for finding in json.loads(run("doctor", "--json").stdout)}
    assert "because it is named so" in findings["model"]["found"]


def test_the_limit_of_rounds_holds(run: Shell) -> None:
    run("agents", "create", "x", "--max-rounds", "1")
    chain = "write 'a' to a.txt then read a.txt then list the files here"
    events = json_lines(run("chat", "--json", "--agent", "x", chain))
    assert (events[-1]["type"], events[-1]["reason"]) == ("ended", "limit")
    assert [event["name"] for event in events if event["type"] == "call_finished"] == ["write_file"]


@pytest.mark.outside
def test_the_doctor_says_which_agent_is_meant_and_what_to_do_when_there_is_none(run: Shell) -> None:
    assert "ok    agent: 'General' is meant where none is named" in run("doctor").stdout
    misspelled = run("doctor", HANDSPAN_DEFAULT_AGENT="raeder")
    assert misspelled.returncode == 1
    assert "FAIL  agent: There is no agent 'raeder', which the settings name as default_agent." in misspelled.stdout
    assert "`handspan agents create NAME`" in misspelled.stdout
    assert "ok    model: offline" in misspelled.stdout
    assert "ok    workspace" in misspelled.stdout
    done = run("call", "get_current_time", HANDSPAN_DEFAULT_AGENT="raeder")
    assert done.returncode != 0 and "default_agent" in done.stderr


@pytest.mark.outside
def test_a_kept_agent_may_be_the_default_one(run: Shell) -> None:
    assert run("agents", "create", "raeder", "--tools", "read_*").returncode == 0
    assert "ok    agent: 'raeder' is meant" in run("doctor", HANDSPAN_DEFAULT_AGENT="raeder").stdout
    done = run("call", "write_file", '{"path": "a", "content": "b"}', HANDSPAN_DEFAULT_AGENT="raeder")
    assert json.loads(done.stdout)["code"] == "tool_not_available"


@pytest.mark.outside
def test_the_doctor_says_which_model_would_answer_and_what_to_do_when_none_can(run: Shell) -> None:
    assert "ok    model: offline, a rule-based stand-in: no model is named" in run("doctor").stdout
    assert "because ANTHROPIC_API_KEY is set" in run("doctor", ANTHROPIC_API_KEY="sk-x").stdout
    done = run("doctor", HANDSPAN_MODEL="gpt")
    assert done.returncode == 1
    assert "FAIL  model: model: there is no model 'gpt'" in done.stdout and "do this:" in done.stdout
