"""New settings for a gateway that runs: `handspan reload`, SIGHUP, and a terminal that is closed (SPEC U4)."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.gateways import address, serving
from tests.cli.shell import Shell, json_lines
from tests.cli.test_chat import TIME

pytestmark = pytest.mark.outside


def test_a_reload_applies_what_it_can_and_says_what_needs_a_restart(run: Shell) -> None:
    run.config('model = "offline"\n[agents.old]\n')
    with serving(run):
        assert run("reload").stdout == "nothing has changed\n"
        before = {tool["name"] for tool in json.loads(run("tools", "--json").stdout)}
        run.config(
            'model = "offline"\n[models.quick]\napi = "openai-chat"\nmodel = "m"\nbase_url = "http://127.0.0.1:1"\n'
            '[agents.fresh]\nmodel = "quick"\ntools = ["get_current_time"]\n[tools]\ndisabled = ["spawn"]\n'
            'timeouts = {read_file = 3.0}\n[gateway]\nport = 7000\n[[hooks.chain]]\ntype = "rate_limit"\n'
            "config = {per_minute = 1}\n"
        )
        found = {one["what"] + one["remedy"]: one for one in json.loads(run("doctor", "--json").stdout)}
        assert "`handspan reload` applies it" in str(found) and "agents.fresh" in str(found)
        assert "agents.fresh.mode" not in str(found), "a new agent is named once, not by each of its settings"
        assert run("model", "which", "--model", "quick").returncode == 1, "it says what is in force"
        done = json.loads(run("reload", "--json").stdout)
        assert {"tools.disabled", "tools.timeouts.read_file", "hooks.chain"} <= {*done["applied"]}
        assert any(key.startswith("agents.fresh") for key in done["applied"])
        assert any(key.startswith("agents.old") for key in done["applied"])
        assert "fresh" in run("agents").stdout and "old" not in run("agents").stdout
        assert json_lines(run("call", "spawn", '{"command": ["true"]}'))[0]["code"] == "tool_disabled"
        tools = {tool["name"]: tool for tool in json.loads(run("tools", "--json").stdout)}
        assert tools["spawn"]["enabled"] is False and tools.keys() == before
        assert "quick" in run("model", "which", "--agent", "fresh").stdout
        assert "tools.timeouts.read_file" in run("config").stdout
        assert run("call", "get_current_time").returncode == 0
        assert json_lines(run("call", "get_current_time"))[0]["code"] == "hook_cancelled", "the hook counts"
        assert address(run).endswith(":7000") is False


def test_a_reload_says_which_model_answers_now(run: Shell) -> None:
    near = '[models.near]\nbase_url = "http://127.0.0.1:1/v1"\nmodel = "llama"\n'
    with serving(run, "--model", ""):
        run.config(near)
        said = run("reload").stdout
        assert "the model that answers now: near (llama), because it is the only one of `models`" in said
        run.config(near + "[agents.fresh]\n")
        assert "answers now" not in run("reload").stdout, "it is the same as before"
        run.config("[models.near]\n")
        assert "models.near.base_url" in run("reload").stderr, "a model without an address can't answer"


def test_a_reload_leaves_out_mcp_servers_that_are_in_force_already(run: Shell) -> None:
    with serving(run):
        assert "It is stored" in run("mcp", "add", "one", "--", "no-such-program-here").stderr
        run.config("[agents.fresh]\n")
        said = run("reload").stdout
        assert "agents.fresh" in said and "mcp_servers" not in said


def test_settings_that_can_not_be_used_leave_those_from_before_in_force(run: Shell) -> None:
    run.config('[agents.reader]\ntools = ["read_*"]\n')
    with serving(run) as gateway:
        for wrong in ("nonsense = 1\n", '[[hooks.chain]]\ntype = "no_such_hook"\n', 'model = "nowhere"\n'):
            run.config(wrong)
            done = run("reload", "--json")
            assert done.returncode == 1 and json.loads(done.stdout)["code"] == "settings", wrong
            assert wrong.startswith("nonsense") or "reader" in run("agents").stdout
            assert "can't be used" in run("doctor").stdout and "reload` applies" not in run("doctor").stdout
        gateway.process.send_signal(signal.SIGHUP)
        gateway.until("those from before stay in force")
        run.config('[agents.writer]\ntools = ["write_*"]\n')
        gateway.process.send_signal(signal.SIGHUP)
        gateway.until(r"Settings in force now: agents\.")
        assert "writer" in run("agents").stdout
        assert run("chat", TIME).returncode == 0, "it still serves"


def test_a_terminal_that_is_closed_ends_the_gateway_in_order(run: Shell) -> None:
    log = run.home / "log"
    with serving(run, "--log-file", str(log)) as gateway:
        os.close(gateway._ours)
        try:
            assert gateway.process.wait() == 0, log.read_text()
        except subprocess.TimeoutExpired:
            signals = Path(f"/proc/{gateway.process.pid}/status").read_text().partition("SigQ")[2]
            raise AssertionError(f"it runs on: {log.read_text()} {signals}") from None
        finally:
            gateway._ours = os.open(os.devnull, os.O_RDWR)
    assert not (run.state / "gateway.json").exists(), "it has taken its address back"
