"""What `handspan serve` logs: a person sees what happens, a program can read it, and no secret is in it (SPEC S5)."""

import http.client
import json
import os
import signal
import socket
import ssl
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from handspan.cli.serve import _print_waiting
from handspan.gateway.gateway import Gateway
from tests.cli.gateways import address, serving
from tests.cli.shell import COMMAND, Shell
from tests.waiting import WAIT

pytestmark = pytest.mark.outside

CANARY: Final = "canary-Q7w8E9r0"
"""Part of every secret here: it must not be in any line."""
FAILING: Final = '''
from handspan import tool

@tool
def divide(a: int, b: int) -> int:
    """Divide."""
    return a // b

@tool
def echo(text: str) -> str:
    """Say it again."""
    return text
'''


class LoggingGateway:
    """A real `handspan serve`, whose standard error is a file."""

    def __init__(self, run: Shell, folder: Path, *words: str) -> None:
        self.err = folder / "stderr.txt"
        self.out = folder / "stdout.txt"
        ready = folder / "ready.json"
        with self.err.open("wb") as err, self.out.open("wb") as out:
            command = [*COMMAND, "serve", "--port", "0", "--model", "offline", "--ready-file", str(ready), *words]
            environ = run.environ(OPENAI_API_KEY=f"sk-{CANARY}", XDG_RUNTIME_DIR=str(folder))
            self.process = subprocess.Popen(command, env=environ, stdout=out, stderr=err)
        deadline = time.monotonic() + WAIT
        while not ready.exists():
            assert self.process.poll() is None and time.monotonic() < deadline, self.err.read_text()
            time.sleep(0.02)
        told = json.loads(ready.read_text())
        self.url: str = told["url"]
        self.token: str = told["token"]

    def ask(self, method: str, path: str, body: Any = None, token: str = "", **headers: str) -> int:
        """The status of the answer."""
        connection = http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=WAIT)
        try:
            headers |= {"Authorization": f"Bearer {token or self.token}", "Content-Type": "application/json"}
            connection.request(method, path, json.dumps(body or {}), headers)
            answer = connection.getresponse()
            answer.read()
            return answer.status
        finally:
            connection.close()

    def call(self, tool: str, **arguments: Any) -> None:
        assert self.ask("POST", f"/api/tools/{tool}/call", {"args": arguments}) == 200

    def reload(self, log: Path, line: str) -> None:
        """Let it take the settings as a service manager does; the log says what came of it."""
        os.kill(self.process.pid, signal.SIGHUP)
        deadline = time.monotonic() + WAIT
        while line not in log.read_text():
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)

    def wait_for(self, text: str) -> None:
        """Wait until standard error has this text."""
        deadline = time.monotonic() + WAIT
        while text not in self.err.read_text():
            assert time.monotonic() < deadline, self.err.read_text()
            time.sleep(0.02)

    def end(self) -> str:
        """What was logged on standard error."""
        os.kill(self.process.pid, signal.SIGTERM)
        assert self.process.wait(WAIT) == 0
        return self.err.read_text()


@contextmanager
def logging_gateway(run: Shell, folder: Path, *words: str) -> Iterator[LoggingGateway]:
    folder.mkdir(exist_ok=True)
    run.tool("failing", FAILING)
    gateway = LoggingGateway(run, folder, *words)
    try:
        yield gateway
    finally:
        gateway.process.kill()
        gateway.process.wait()


def visit(gateway: LoggingGateway) -> None:
    """Use the gateway with a secret in every place where one can be."""
    gateway.call("divide", a=1, b=0)
    gateway.call("echo", text=CANARY)
    assert gateway.ask("GET", "/api/tools", token=CANARY) == 401
    assert gateway.ask("GET", f"/api/tools?token={CANARY}", token=CANARY) == 401
    assert gateway.ask("GET", f"/api/tools?token={CANARY}") == 200
    assert gateway.ask("GET", "/api/tools", Host=f"{CANARY}.example") == 403
    assert gateway.ask("POST", "/pair", {"code": CANARY, "scopes": ["chat"]}) in (400, 401, 403, 404, 422)
    assert gateway.ask("GET", f"/signin?code={CANARY}") in (200, 400, 401, 403, 404)
    with pytest.raises(InvalidStatus):
        connect(f"{gateway.url.replace('http', 'ws', 1)}/ws/chat?token={CANARY}", open_timeout=WAIT).close()
    subprotocols: Any = [f"bearer.{gateway.token}"]
    with connect(f"{gateway.url.replace('http', 'ws', 1)}/ws/chat", subprotocols=subprotocols) as chat:
        chat.send(json.dumps({"type": "connect", "role": "device", "label": "phone", "capabilities": []}))
        tools = [{"name": "battery", "description": CANARY, "parameters": {"type": "object"}}, {"name": "bad name"}]
        chat.send(json.dumps({"type": "register_tools", "tools": tools}))
        while json.loads(chat.recv(WAIT))["type"] != "tools_registered":
            pass


def test_a_person_sees_connections_calls_refusals_and_tracebacks(run: Shell, tmp_path: Path) -> None:
    with logging_gateway(run, tmp_path / "a") as gateway:
        visit(gateway)
        said = gateway.end()
    for line in (
        "serves http://127.0.0.1:",
        "call divide: failed after ",
        "ZeroDivisionError",
        "return a // b",
        "call echo: success in ",
        "GET /api/tools from 127.0.0.1 refused: 401 unauthorized",
        "WebSocket /ws/chat from 127.0.0.1 refused: 401 unauthorized",
        "device phone connected",
        "device phone offers 1 tool",
        "its tool 'bad name' was refused",
        "device phone disconnected",
        "stopped",
    ):
        assert line in said, (line, said)
    assert "GET /api/tools: 200" not in said  # that is for --verbose
    check_no_secret(gateway, said)


def test_verbose_has_every_request_and_json_has_fields_and_neither_has_a_secret(run: Shell, tmp_path: Path) -> None:
    file = tmp_path / "logs" / "gateway.jsonl"
    words = ("--verbose", "--log-format", "json", "--log-file", str(file))
    with logging_gateway(run, tmp_path / "b", *words) as gateway:
        visit(gateway)
        run.config(f'[models.own]\napi = "openai-chat"\nmodel = "m"\nkey = "sk-{CANARY}"\n')
        gateway.reload(file, "Settings in force now: models.own")
        run.config('model = "nowhere"\n')
        gateway.reload(file, "those from before stay in force")
        assert gateway.end() == ""
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    said = file.read_text()
    lines = [json.loads(line) for line in said.splitlines()]
    requests = [(line["method"], line["path"], line["status"]) for line in lines if line.get("event") == "request"]
    assert ("GET", "/api/tools", 200) in requests
    (call,) = [line for line in lines if line.get("event") == "call" and line["tool"] == "echo"]
    assert call["status"] == "success" and call["owner"] and call["seconds"] >= 0
    (fault,) = [line for line in lines if line.get("event") == "tool_fault"]
    assert fault["tool"] == "divide" and "ZeroDivisionError" in fault["message"]
    assert any(line["call"] == fault["call"] for line in lines if line.get("event") == "call")
    check_no_secret(gateway, said)


def check_no_secret(gateway: LoggingGateway, said: str) -> None:
    out = gateway.out.read_text()
    assert CANARY not in said + out and gateway.token not in said + out


def test_the_checks_of_the_doctor_are_named_as_such_where_they_are_refused(run: Shell, tmp_path: Path) -> None:
    with logging_gateway(run, tmp_path / "d") as gateway:
        assert run("doctor").returncode in (0, 1)  # 1 where the sandbox can't run
        said = gateway.end()
    refused = [line for line in said.splitlines() if " refused: " in line]
    assert len(refused) == 2 and all("client 'handspan-doctor/" in line for line in refused), said
    assert all("(checks that strangers are refused)" in line for line in refused), said


def test_of_a_chat_that_ends_the_log_does_not_say_that_it_may_come_back(run: Shell, tmp_path: Path) -> None:
    with logging_gateway(run, tmp_path / "e") as gateway:
        assert run("chat", "What time is it in Tokyo?").returncode == 0
        assert run("chat", given="hello\n/quit\n").returncode == 0
        assert run("chat", given="hello\n").returncode == 0
        with connect(f"{gateway.url.replace('http', 'ws', 1)}/ws/chat?token={gateway.token}") as lost:
            lost.send(json.dumps({"type": "connect", "capabilities": ["resume"]}))
            while json.loads(lost.recv(WAIT))["type"] != "connected":
                pass
            lost.socket.shutdown(socket.SHUT_RDWR)  # without a word
        gateway.wait_for("disconnected (1006), and may come back")
        said = gateway.end()
    left = [line for line in said.splitlines() if "disconnected" in line]
    assert len(left) == 4 and sum("may come back" in line for line in left) == 1, said


def test_quiet_says_nothing_while_all_is_well(run: Shell, tmp_path: Path) -> None:
    with logging_gateway(run, tmp_path / "c", "--quiet") as gateway:
        gateway.call("echo", text="x")
        assert gateway.end() == "" and gateway.out.read_text() == f"Gateway  {gateway.url}\n", "the port was 0"


def test_wrong_options_are_told_with_a_remedy(run: Shell, tmp_path: Path) -> None:
    assert run("serve", "--quiet", "--verbose").returncode == 2
    assert "text" in run("serve", "--log-format", "xml").stderr
    blocked = tmp_path / "file"
    blocked.write_text("")
    done = run("serve", "--port", "0", "--log-file", str(blocked / "log"))
    assert done.returncode == 1 and "log.file" in done.stderr and "Name another file" in done.stderr


def test_a_client_of_https_at_plain_http_is_named_in_the_log_once(run: Shell) -> None:
    with serving(run) as gateway:
        port = int(address(run).rpartition(":")[2])
        for _ in range(2):
            with socket.create_connection(("127.0.0.1", port)) as client, pytest.raises(OSError):
                ssl.create_default_context().wrap_socket(client, server_hostname="localhost")
        gateway.until(r"What 127\.0\.0\.1 sends is no HTTP request: a client of https")
        gateway.type("\x03")
        assert gateway.ended() == 0
        assert gateway.seen.count("no HTTP request") == 1 and "Invalid HTTP request" not in gateway.seen


@pytest.mark.parametrize(
    ("work", "words"), [((0, 0), "nothing"), ((1, 0), "1 turn"), ((0, 1), "1 call"), ((2, 3), "2 turns and 3 calls")]
)
def test_a_gateway_that_stops_logs_what_it_waits_for(
    work: tuple[int, int], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    _print_waiting(cast("Gateway", SimpleNamespace(work_left=lambda: work)))
    assert caplog.messages == [f"stopping: waits for {words}"]
