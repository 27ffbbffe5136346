"""`handspan serve` as people and scripts run it: a real process, real signals (SPEC G1, G3)."""

import http.client
import json
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.cli.gateways import address, serving
from tests.cli.shell import COMMAND, Shell

pytestmark = pytest.mark.outside

WAIT = 60.0


class Answered(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes


class Serving:
    """A gateway in a process of its own."""

    def __init__(self, run: Shell, ready: Path, *words: str) -> None:
        self.ready = ready
        self.process = subprocess.Popen(
            [*COMMAND, "serve", "--port", "0", "--ready-file", str(ready), *words],
            env=run.environ(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        told = self._told()
        self.url: str = told["url"]
        self.token: str = told["token"]
        self.pid: int = told["pid"]
        self.host = self.url.removeprefix("http://")

    def _told(self) -> dict[str, Any]:
        deadline = time.monotonic() + WAIT
        while not self.ready.exists():
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < deadline, "it is not ready in time"
            time.sleep(0.02)
        told: dict[str, Any] = json.loads(self.ready.read_text())
        return told

    def ask(self, path: str, method: str = "GET", body: str = "", **headers: str) -> "Answered":
        """The answer; a header by its name, `_` for `-`."""
        connection = http.client.HTTPConnection(self.host, timeout=WAIT)
        try:
            connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
            answer = connection.getresponse()
            return Answered(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            connection.close()

    def line(self, begins: str) -> str:
        """The next line of standard output that begins so."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(begins):
                return line.rstrip()
        raise AssertionError(f"no line begins with {begins!r}")

    def end(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str, str]:
        """Exit code and what else was written."""
        os.kill(self.process.pid, number)
        out, err = self.process.communicate(timeout=WAIT)
        return self.process.returncode, out, err


@pytest.fixture
def serve(run: Shell, tmp_path: Path) -> Iterator[Any]:
    started: list[Serving] = []

    def begin(*words: str) -> Serving:
        started.append(Serving(run, tmp_path / f"ready{len(started)}.json", *words))
        return started[-1]

    yield begin
    for one in started:
        one.process.kill()
        one.process.communicate()


def test_a_port_in_use_or_a_wrong_word_is_told_with_a_remedy(run: Shell, serve: Any, tmp_path: Path) -> None:
    serving = serve("--model", "offline")
    port = serving.host.rpartition(":")[2]
    other = str(tmp_path / "other")
    taken = run("serve", "--port", port, "--state", other, "--model", "offline")
    assert taken.returncode == 1 and f"another program listens on 127.0.0.1 port {port}" in taken.stderr
    assert "Traceback" not in taken.stderr and not (Path(other) / "gateway.json").exists()
    unknown = run("serve", "--port", "0", "--state", other, "--model", "gpt")
    assert unknown.returncode == 1 and "there is no model 'gpt'" in unknown.stderr
    assert run("serve", "--port", "70000").returncode == 2
    assert run("serve", "--ready-file", str(tmp_path / "nowhere" / "r.json"), "--state", other).returncode == 2
    missing = run("serve", "--port", "0", "--state", other, HANDSPAN_GATEWAY__TLS_CERT=str(tmp_path / "no.pem"))
    assert missing.returncode == 1 and "gateway.tls_cert" in missing.stderr


def test_it_says_each_thing_on_its_line_and_the_files_are_private(run: Shell, serve: Any) -> None:
    serving = serve("--model", "offline")
    assert stat.S_IMODE(serving.ready.stat().st_mode) == 0o600
    assert serving.line("Page") == f"Page     {serving.url}"
    assert re.match(r"Sandbox  (NOT )?active: ", serving.line("Sandbox"))
    assert "offline" in serving.line("Model")
    assert "handspan device" in serving.line("Device")
    assert str(run.workspace) in serving.line("Files")
    assert serving.line("State") == f"State    {run.state}"
    assert serving.pid == serving.process.pid
    told = json.loads((run.state / "gateway.json").read_text())
    assert told.pop("search_path") == run.environ()["PATH"]
    assert told == {"url": serving.url, "pid": serving.pid, "workspace": str(run.workspace)}
    assert stat.S_IMODE((run.state / "gateway.json").stat().st_mode) == 0o600
    assert stat.S_IMODE((run.state / "operator.token").stat().st_mode) == 0o600
    code, out, err = serving.end()
    assert code == 0 and serving.token not in out + err and "Traceback" not in err
    assert "code=" not in out + err and not re.search(r"\d{4}-\d{4}-\d{4}", out + err)  # a log file has no secrets
    assert not (run.state / "gateway.json").exists()


def test_the_commands_that_it_prints_reach_this_gateway(run: Shell, serve: Any) -> None:
    state, config = run.home / "another state", run.home / "other.toml"
    config.write_text("")
    serving = serve("--model", "offline", "--config", str(config), "--state", str(state))
    assert serving.line("Page") == f"Page     {serving.url}"
    printed = re.search(r"`handspan (device[^`]*)`", serving.line("Device"))
    assert printed is not None and shlex.split(printed[1])[1:] == ["--config", str(config), "--state", str(state)]
    shown = run("devices", *shlex.split(printed[1])[1:])
    assert shown.returncode == 0, shown.stderr


def test_at_a_terminal_it_shows_a_link_and_a_code(run: Shell) -> None:
    with run.at_terminal("serve", "--port", "0", "--model", "offline") as terminal:
        shown = terminal.until("State ")
        assert re.search(r"Page     http://127.0.0.1:\d+/signin\?code=\S{43}\s", shown)
        assert re.search(r"the code \d{4}-\d{4}-\d{4} within 5 minutes;\s+its scopes: chat, device\s", shown)
        assert "/signin?code=" in refused_at_terminal(run)
        assert "code=" not in run("serve", "--port", "0").stderr


def test_nobody_comes_in_without_a_token_and_the_link_signs_a_browser_in(run: Shell, serve: Any) -> None:
    serving = serve("--model", "offline")
    assert serving.ask("/health").status == 200
    assert serving.ask("/health", Host="evil.example").status == 403
    assert serving.ask("/api/status").status == 401
    assert serving.ask("/pair/code").status in (401, 404)
    assert serving.ask("/pair/code", Authorization=f"Bearer {serving.token}").status == 404
    assert serving.ask("/api/status", Authorization=f"Bearer {serving.token}").status == 200
    path = json.loads(run("pair", "--browser", "--json").stdout)["url"].partition(serving.host)[2]
    cookie = serving.ask(path).headers["set-cookie"].partition(";")[0]
    assert serving.ask(path).status == 403
    assert serving.ask("/api/status", Cookie=cookie).status == 200
    assert serving.ask("/api/signin", "POST", Cookie=cookie).status == 403
    assert serving.ask("/api/signin", "POST", Cookie=cookie, Origin=serving.url).status == 201


def test_a_device_pairs_with_the_code_and_is_out_when_its_token_is_revoked(run: Shell, serve: Any) -> None:
    serving = serve("--model", "offline")
    found = re.search(r"\d{4}-\d{4}-\d{4}", run("pair").stdout)
    assert found is not None
    paired = json.loads(serving.ask("/pair", "POST", X_Pairing_Code=found[0]).body)
    assert serving.ask("/pair", "POST", X_Pairing_Code=found[0]).status == 403
    operator = {"Authorization": f"Bearer {serving.token}"}
    with connect(f"ws://{serving.host}/ws/chat?token={paired['token']}", proxy=None) as device:
        assert json.loads(device.recv(WAIT))["type"] == "session_start"
        tokens = json.loads(serving.ask("/api/tokens", **operator).body)["tokens"]
        (token,) = [token for token in tokens if token["label"] == "paired device"]
        assert serving.ask(f"/api/tokens/{token['id']}", "DELETE", **operator).status == 200
        with pytest.raises(ConnectionClosed) as closed:
            device.recv(WAIT)
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1008
    assert serving.ask("/api/tools", Authorization=f"Bearer {paired['token']}").status == 401


def test_a_second_gateway_on_the_same_folder_is_refused_and_shows_a_new_link(run: Shell, serve: Any) -> None:
    serving = serve("--model", "offline")
    second = run("serve", "--port", "0")
    assert second.returncode == 1
    assert "A gateway serves the state folder" in second.stderr and f"It is at {serving.url}" in second.stderr
    path = refused_at_terminal(run).partition("Page")[2].partition(serving.host)[2].split()[0]
    assert serving.ask(path).status == 303


def test_a_killed_gateway_is_followed_by_another_with_the_same_token(run: Shell, serve: Any) -> None:
    first = serve("--model", "offline")
    os.kill(first.process.pid, signal.SIGKILL)
    first.process.communicate(timeout=WAIT)
    assert (run.state / "gateway.json").exists()
    second = serve("--model", "offline")
    assert second.token == first.token
    assert second.ask("/api/status", Authorization=f"Bearer {first.token}").status == 200


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_0_and_clients_are_told_to_come_back(serve: Any, number: signal.Signals) -> None:
    serving = serve("--model", "offline")
    with connect(f"ws://{serving.host}/ws/chat?token={serving.token}", proxy=None) as client:
        assert json.loads(client.recv(WAIT))["type"] == "session_start"
        code, _, err = serving.end(number)
        with pytest.raises(ConnectionClosed) as closed:
            client.recv(WAIT)
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1012
    assert (code, "Traceback" in err) == (0, False), err


def refused_at_terminal(run: Shell) -> str:
    """What a second `serve` says where a person reads it."""
    with run.at_terminal("serve", "--port", "0") as second:
        assert second.ended() == 1
        return second.seen


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl binary to make a certificate")
def test_with_a_certificate_of_its_own_it_is_found_and_trusted_by_that_alone(
    run: Shell, serve: Any, tmp_path: Path
) -> None:
    for name in ("own", "other"):
        kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", f"/CN={name}"]
        files = ["-keyout", str(tmp_path / f"{name}.key"), "-out", str(tmp_path / f"{name}.pem")]
        subprocess.run(["openssl", "req", "-x509", *kind, *files], check=True, capture_output=True)
    run.config(f'[gateway]\ntls_cert = "{tmp_path / "own.pem"}"\ntls_key = "{tmp_path / "own.key"}"\n')
    serving = serve("--model", "offline")
    assert serving.url.startswith("https://127.0.0.1:")
    found = {finding["what"]: finding for finding in json.loads(run("doctor", "--json").stdout)}
    assert all(found[what]["ok"] for what in ("gateway", "gateway token", "gateway WebSocket")), found
    assert f"Page     {serving.url}/signin?code=" in refused_at_terminal(run)
    run.config(f'[gateway]\ntls_cert = "{tmp_path / "other.pem"}"\n')
    stranger = refused_at_terminal(run)  # the token is not shown to a certificate that is not ours
    assert f"It is at {serving.url}" in stranger and "Page" not in stranger
    run.config("")
    assert "Page" not in refused_at_terminal(run)
    run.config(f'[gateway]\ntls_cert = "{tmp_path / "none.pem"}"\n')
    assert "Page" not in refused_at_terminal(run)


def test_with_lan_and_tls_phones_reach_it_over_https_and_its_own_commands_trust_it(run: Shell) -> None:
    wrong = run("serve", "--lan", "--host", "127.0.0.1")
    assert wrong.returncode == 2 and "--lan, or --host" in wrong.stderr
    with serving(run, "--lan", "--tls") as gateway:
        assert re.search(r"pairs at https://[^ ]+ with the code", gateway.seen)
        assert re.search(
            r"loads the root once, from https://[^ ]+/device\r?\n *its SHA-256: ([0-9A-F]{2}:){31}", gateway.seen
        )
        assert address(run).startswith("https://127.0.0.1:")
        done = run("chat", "what time is it?")
        assert done.returncode == 0 and "get_current_time" in done.stderr + done.stdout, done


def test_for_phones_it_shows_a_code_to_scan_and_what_is_broken_is_told(run: Shell) -> None:
    run.tool("broken", "import nothing_of_that_name\n")
    with run.at_terminal("serve", "--port", "0", "--host", "0.0.0.0", "--model", "offline") as terminal:
        shown = terminal.until("State ")
        words = " ".join(shown.split())  # long lines end at a word
        assert "broken.py can't be used" in words
        if "phones can't reach" not in words:  # this computer is in some network
            assert re.search(r"pairs at http://\d+\.\d+\.\d+\.\d+:\d+ with the code \d{4}-\d{4}-\d{4}", words)
            assert "█▀" in shown or "▄█" in shown
        terminal.type("\x03")
        assert terminal.process.wait(WAIT) == 0


def test_the_doctor_looks_at_the_gateway_that_runs(run: Shell, serve: Any) -> None:
    serving = serve("--model", "offline")
    found = {finding["what"]: finding for finding in json.loads(run("doctor", "--json").stdout)}
    for what in ("gateway", "gateway host check", "gateway token", "gateway WebSocket"):
        assert found[what]["ok"], found[what]
    assert found["source builtin"]["found"].startswith("ready, ")
    count = len(json.loads(run("tools", "--json").stdout))
    assert found["tools"]["found"].startswith(f"{count};"), found["tools"]
    assert str(run.workspace) in found["workspace"]["found"] and "settings" not in found
    assert json.loads(run("calls", "--json").stdout) == [], "a check is no call: the journal does not show it"
    done = run("doctor", "--url", serving.url, "--token", "wrong", "--state", str(run.home / "other"))
    assert done.returncode == 1 and "FAIL  gateway token" in done.stdout


def test_settings_that_changed_since_the_start_are_not_shown_as_in_force(run: Shell, serve: Any) -> None:
    run.config("tools.result_limit = 5000\n")
    serve("--model", "offline")
    run.config("tools.result_limit = 6000\n")
    shown = json.loads(run("config", "--json").stdout)
    rows = {row["key"]: row for row in shown["settings"]}
    assert (rows["tools.result_limit"]["value"], shown["is_changed"]) == (5000, True)
    assert rows["gateway.port"]["source"] == "command line"
    assert shown["reloadable"] == ["tools.result_limit"] and shown["needs_restart"] == []
    assert "changed since start; `handspan reload` applies tools.result_limit" in run("config").stdout
    found = {finding["what"]: finding for finding in json.loads(run("doctor", "--json").stdout)}
    assert found["settings"]["ok"] and "handspan reload" in found["settings"]["remedy"]
    pattern = r"^note  settings: .*has changed since the gateway started: tools.result_limit$"
    assert re.search(pattern, run("doctor").stdout, re.M)
    assert "6000" in run("config", "--embedded").stdout
    for words in (("tools",), ("model", "which"), ("channels",)):
        assert "the settings have changed since the gateway started" in run.on_screen(*words)
        assert run(*words).stderr == ""
    run.config("tools.result_limit = 5000\n")
    assert "changed since start" not in run("config").stdout


def test_a_settings_file_that_was_added_since_the_start_is_named(run: Shell, serve: Any) -> None:
    serve("--model", "offline")
    assert run("config").stdout.startswith("File: none\n")
    run.config("tools.result_limit = 6000\n")
    file = run.home / ".config" / "handspan" / "config.toml"
    first, second = run("config").stdout.splitlines()[:2]
    assert first == f"File: {file}"
    assert second.strip() == "changed since start; `handspan reload` applies tools.result_limit"
    assert f"settings: {file} has changed since the gateway started" in run("doctor").stdout


def test_below_a_prefix_the_link_leads_below_it(run: Shell, serve: Any) -> None:
    run.config('[gateway]\npath_prefix = "/hs"\n')
    serving = serve("--model", "offline")
    assert serving.url.endswith("/hs")
    serving.host = serving.host.removesuffix("/hs")
    assert serving.ask("/health").status == 404
    assert serving.ask("/hs/health").status == 200
    answered = serving.ask(json.loads(run("pair", "--browser", "--json").stdout)["url"].partition(serving.host)[2])
    assert (answered.status, answered.headers["location"]) == (303, "/hs/")
    assert "; Path=/hs; " in answered.headers["set-cookie"]
    with connect(f"ws://{serving.host}/hs/ws/chat?token={serving.token}", proxy=None) as client:
        assert json.loads(client.recv(WAIT))["type"] == "session_start"
