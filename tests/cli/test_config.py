"""`handspan config` (SPEC U2, U4)."""

import json
import os
from typing import Any

import pytest

from tests.cli.shell import Shell


def settings(run: Shell, *words: str, **environ: str) -> tuple[str | None, dict[str, dict[str, Any]]]:
    shown = json.loads(run("config", "--json", *words, **environ).stdout)
    return shown["file"], {row["key"]: row for row in shown["settings"]}


def test_without_a_file_every_setting_is_a_default(run: Shell) -> None:
    file, rows = settings(run)
    assert file is None
    assert {row["source"] for row in rows.values()} == {"default"}
    assert rows["gateway.port"]["value"] > 0 and rows["state"]["value"] == str(run.state)


def test_each_setting_names_the_source_that_won(run: Shell) -> None:
    run.config('model = "gpt"\n[gateway]\nport = 7000\n')
    file, rows = settings(run, "--state", str(run.home / "s"), HANDSPAN_MODEL="offline")
    assert file == str(run.home / ".config" / "handspan" / "config.toml")
    assert (rows["gateway.port"]["value"], rows["gateway.port"]["source"]) == (7000, file)
    assert (rows["model"]["value"], rows["model"]["source"]) == ("offline", "environment variable HANDSPAN_MODEL")
    assert rows["state"]["source"] == "command line"
    assert rows["gateway.host"]["source"] == "default"
    assert f"File: {file}" in run("config").stdout


def test_no_secret_is_shown(run: Shell) -> None:
    run.config(
        '[models.a]\napi = "openai-chat"\nmodel = "m"\nkey = "hush-1"\n[models.a.options]\nauth = "hush-2"\n'
        '[models.b]\napi = "openai-chat"\nmodel = "m"\nkey = "env:MY_KEY"\n'
        '[tools.web_search]\napi_key = "hush-3"\n'
        '[tools.mcp_servers.git]\ncommand = "git-mcp"\n[tools.mcp_servers.git.env]\nTOKEN = "hush-4"\n'
    )
    for words in (("config",), ("config", "--json")):
        done = run(*words)
        assert done.returncode == 0, done.stderr
        assert "hush" not in done.stdout
    _, rows = settings(run)
    assert rows["models.a.key"]["value"] == "…" and rows["models.b.key"]["value"] == "env:MY_KEY"


def test_settings_that_can_not_be_used_are_told(run: Shell) -> None:
    done = run("config", HANDSPAN_NOPE="1")
    assert done.returncode == 1 and "HANDSPAN_NOPE" in done.stderr


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('model = "openai:gpt-5"\n', "model: there is no key for openai-responses. Set OPENAI_API_KEY"),
        ('[models.m]\napi = "openai-chat"\nkey = "env:NOPE"\n', "models.m.key: the environment variable 'NOPE'"),
        ('[agents.a]\nmodel = "openai:gpt-5"\n', "agents.a.model: there is no key for openai-responses"),
        ('state = "/proc/nope"\n', "state: '/proc/nope' can't be used: No such file or directory"),
        ('workspace = "/proc/nope"\n', "workspace: '/proc/nope' can't be used: No such file or directory"),
        ('[agents.a]\ntools = ["raed_file"]\n', "agents.a.tools: 'raed_file' matches no tool that is here now"),
        (
            '[tools.mcp_servers.x]\ncommand = "true"\nurl = "http://127.0.0.1:1/"\n',
            "tools.mcp_servers.x: it has a 'command' and a 'url': keep one.",
        ),
    ],
    ids=["model", "key", "agent", "state", "workspace", "tools", "server"],
)
def test_a_check_finds_what_a_start_and_the_doctor_find(run: Shell, content: str, problem: str) -> None:
    run.config(content)
    done = run("config", "check", PATH=os.environ["PATH"])
    assert done.returncode == 1 and problem in done.stderr, done.stderr
    assert not run.state.exists() and "Traceback" not in done.stderr
    assert "FAIL" in run("doctor", "--embedded").stdout


def test_a_check_of_good_settings_leaves_nothing_behind(run: Shell) -> None:
    run.config(f'state = "{run.home}/st"\nworkspace = "{run.home}/ws"\n[agents.a]\ntools = ["read_*", "phone__x"]\n')
    before = sorted(run.home.rglob("*"))
    done = run("config", "check")
    assert (done.returncode, "no error." in done.stdout) == (0, True), done.stderr
    assert sorted(run.home.rglob("*")) == before


@pytest.mark.outside
def test_a_check_refuses_hooks_and_models_that_do_not_exist(run: Shell) -> None:
    run.config(
        'model = "nowhere"\n[agents.a]\nmodel = "nope"\n[[hooks.chain]]\ntype = "nope"\n'
        '[[hooks.chain]]\ntype = "rate_limit"\nconfig = {per_minut = 3}\n'
    )
    done = run("config", "check")
    assert done.returncode == 1 and "- model: there is no model 'nowhere'." in done.stderr
    assert "- hooks.chain, type 'nope': there is no such hook." in done.stderr
    assert "type 'rate_limit': config.per_minut: unknown key. Did you mean 'per_minute'?" in done.stderr
    assert "FAIL  start: hooks.chain, type 'nope': there is no such hook." in run("doctor").stdout
    run.config('[agents.a]\nmodel = "nope"\n')
    done = run("config", "check")
    assert done.returncode == 1 and "- agents.a.model: there is no model 'nope'." in done.stderr
    assert "agents.a.model: there is no model 'nope'." in run("doctor").stdout
