"""Which gateway serves a state folder: one at most, and it is found while it lives (SPEC G1)."""

import asyncio
import json
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from handspan.cli.doctor import gateway_findings
from handspan.cli.http_request import ask
from handspan.cli.running import ServingGateway, StateInUse, announce, claim_state, find_running, write_ready
from handspan.config.gateway_settings import GatewaySettings
from handspan.config.settings import Settings
from handspan.core.errors import ConfigError
from handspan.gateway.serving.server import Server
from tests.gateway.small_gateway import SmallGateway

HOLDS = "import sys, time; from pathlib import Path; from handspan.cli.running import claim_state\n"
HOLDS += "with claim_state(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"

CARELESS = """
import http.server

class Careless(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def log_message(self, *_):
        pass

server = http.server.HTTPServer(("127.0.0.1", 0), Careless)
print(server.server_port, flush=True)
server.serve_forever()
"""


@contextmanager
def served(state: Path, **given: str) -> Iterator[Server]:
    """The small gateway on a thread of its own, as another process would have it."""
    settings = GatewaySettings(port=0, **given)  # type: ignore[arg-type] # texts are all that is given here
    server, opened, end = Server(SmallGateway(state, settings), settings), threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def run() -> None:
        await server.open()
        opened.set()
        await end.wait()
        await server.close()

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()))
    thread.start()
    assert opened.wait(60)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(end.set)
        thread.join(60)
        loop.close()
        assert not thread.is_alive()


class TestClaims:
    def test_a_second_gateway_is_refused_until_the_first_one_is_gone(self, tmp_path: Path) -> None:
        state = tmp_path / "state"
        with (
            claim_state(state),
            pytest.raises(StateInUse, match=r"A gateway serves the state folder .*--state"),
            claim_state(state),
        ):
            raise AssertionError("two hold it")
        with claim_state(state):
            assert stat.S_IMODE((state / "gateway.lock").stat().st_mode) == 0o600

    @pytest.mark.outside
    def test_a_killed_gateway_leaves_nothing_locked(self, tmp_path: Path) -> None:
        holder = subprocess.Popen([sys.executable, "-c", HOLDS, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        try:
            assert holder.stdout is not None and holder.stdout.readline() == "held\n"
            with pytest.raises(StateInUse), claim_state(tmp_path):
                raise AssertionError("two hold it")
        finally:
            holder.kill()
            holder.communicate(timeout=60)
        assert holder.returncode == -signal.SIGKILL
        with claim_state(tmp_path):
            pass

    def test_a_folder_that_cannot_be_used_is_an_error_with_a_remedy(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(ConfigError, match="Set another folder"), claim_state(tmp_path / "file"):
            raise AssertionError("it can't be held")


class TestFinding:
    def test_a_gateway_is_found_while_it_lives_and_answers(self, tmp_path: Path) -> None:
        assert find_running(tmp_path) is None
        with served(tmp_path) as server, claim_state(tmp_path):
            assert find_running(tmp_path) is None  # nobody has said where it is
            with announce(tmp_path, server.url):
                assert stat.S_IMODE((tmp_path / "gateway.json").stat().st_mode) == 0o600
                found = find_running(tmp_path)
                assert found is not None and (found.url, found.pid) == (server.url, os.getpid())
                assert found.token == (tmp_path / "operator.token").read_text().strip()
                assert found.token not in repr(found)
            assert not (tmp_path / "gateway.json").exists()

    def test_what_a_killed_gateway_left_is_not_taken_for_one(self, tmp_path: Path) -> None:
        with served(tmp_path) as server:
            (tmp_path / "gateway.json").write_text(json.dumps({"url": server.url, "pid": os.getpid()}))
            assert find_running(tmp_path) is None  # nobody holds the folder: this is another one's port
            with claim_state(tmp_path):
                assert find_running(tmp_path) is not None
        with claim_state(tmp_path):
            assert find_running(tmp_path) is None  # it does not answer

    @pytest.mark.parametrize(
        "content", ["", "{", "[]", '{"url": 1, "pid": 1}', '{"url": "http://127.0.0.1:1", "pid": 4194304999999}']
    )
    def test_a_file_that_says_nothing_finds_nothing(self, tmp_path: Path, content: str) -> None:
        (tmp_path / "gateway.json").write_text(content)
        with claim_state(tmp_path):
            assert find_running(tmp_path) is None

    @pytest.mark.outside
    def test_a_process_that_is_gone_is_not_asked(self, tmp_path: Path) -> None:
        gone = subprocess.Popen([sys.executable, "-c", ""])
        gone.wait(60)
        with served(tmp_path) as server, claim_state(tmp_path):
            (tmp_path / "gateway.json").write_text(json.dumps({"url": server.url, "pid": gone.pid}))
            assert find_running(tmp_path) is None

    def test_the_ready_file_is_for_its_owner_alone(self, tmp_path: Path) -> None:
        write_ready(tmp_path / "ready.json", "http://x", "t")
        assert stat.S_IMODE((tmp_path / "ready.json").stat().st_mode) == 0o600
        written = json.loads((tmp_path / "ready.json").read_text())
        assert written == {"url": "http://x", "token": "t", "pid": os.getpid()}
        with pytest.raises(ConfigError, match="can't be written"):
            write_ready(tmp_path / "nowhere" / "ready.json", "http://x", "t")


class TestAsking:
    @pytest.mark.parametrize("url", ["", "ftp://x", "http://", "http://[", "http://127.0.0.1:99999", "127.0.0.1"])
    def test_what_is_no_address_is_said_to_be_none(self, url: str) -> None:
        answered = ask("GET", url)
        assert answered.status == 0 and "is no address" in answered.problem

    def test_nobody_there_is_said_so(self) -> None:
        answered = ask("GET", "http://127.0.0.1:1/health")
        assert answered.status == 0 and "refused" in answered.problem


class TestDoctor:
    def test_a_gateway_that_does_well(self, tmp_path: Path) -> None:
        settings = Settings(tmp_path, tmp_path)
        assert [finding.found for finding in gateway_findings(settings)] == [
            "none serves this state folder (`handspan serve` starts one)"
        ]
        with served(tmp_path) as server, claim_state(tmp_path), announce(tmp_path, server.url):
            findings = list(gateway_findings(settings))
            assert [(finding.what, finding.ok) for finding in findings] == [
                ("gateway", True),
                ("gateway store", True),
                ("gateway host check", True),
                ("gateway token", True),
                ("gateway WebSocket", True),
            ]
            running = find_running(tmp_path)
            assert running is not None and not any(running.token in finding.found for finding in findings)

    def test_looking_often_uses_up_no_attempts_at_tokens(self, tmp_path: Path) -> None:
        settings = Settings(tmp_path, tmp_path)
        with served(tmp_path) as server, claim_state(tmp_path), announce(tmp_path, server.url):
            for _ in range(11):
                assert all(finding.ok for finding in gateway_findings(settings))
            wrong = ask("GET", f"{server.url}/api/status", {"Authorization": "Bearer wrong"})
        assert wrong.status == 401

    def test_what_is_wrong_has_a_remedy(self, tmp_path: Path) -> None:
        settings = Settings(tmp_path, tmp_path)
        (unreached,) = gateway_findings(settings, "http://127.0.0.1:1")
        assert not unreached.ok and "handspan serve" in unreached.remedy
        with served(tmp_path) as server:
            bad = {finding.what: finding for finding in gateway_findings(settings, f"{server.url}/", "wrong")}
            assert [finding.what for finding in bad.values() if not finding.ok] == [
                "gateway token",
                "gateway WebSocket",
            ]
            assert "401" in bad["gateway token"].found and "--token" in bad["gateway token"].remedy
            *_, last = gateway_findings(settings, server.url)
            assert not last.ok and last.found == "there is none to try"

    @pytest.mark.outside
    def test_a_server_that_checks_nothing_is_found_out(self, tmp_path: Path) -> None:
        careless = subprocess.Popen([sys.executable, "-c", CARELESS], stdout=subprocess.PIPE, text=True)
        try:
            assert careless.stdout is not None
            url = f"http://127.0.0.1:{int(careless.stdout.readline())}"
            found = list(gateway_findings(Settings(tmp_path, tmp_path), url, "t"))
        finally:
            careless.kill()
            careless.communicate(timeout=60)
        assert [(finding.what, finding.ok) for finding in found] == [
            ("gateway", True),
            ("gateway store", True),
            ("gateway host check", False),
            ("gateway token", False),
            ("gateway WebSocket", False),
        ]
        assert all(finding.remedy for finding in found if not finding.ok)

    def test_an_unreadable_token_is_told(self, tmp_path: Path) -> None:
        with served(tmp_path) as server, claim_state(tmp_path), announce(tmp_path, server.url):
            (tmp_path / "operator.token").unlink()
            (tmp_path / "operator.token").symlink_to("elsewhere")
            (finding,) = gateway_findings(Settings(tmp_path, tmp_path))
            assert not finding.ok and "--url and --token" in finding.remedy


def test_a_running_gateway_does_not_show_its_token() -> None:
    assert repr(ServingGateway("http://x", 1, "secret")) == "ServingGateway(url='http://x', pid=1)"
