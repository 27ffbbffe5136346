"""`handspan pair` as a person runs it, at a real gateway: codes for devices, links for browsers (SPEC S5, U2)."""

import contextlib
import json
import re
import ssl
from datetime import datetime, timedelta

import pytest

from handspan.cli.remote import Remote
from handspan.cli.requests import RemoteRefused
from handspan.core.values import JsonObject
from tests.cli.gateways import address, device, serving, token
from tests.cli.shell import Shell

pytestmark = pytest.mark.outside

CODE = r"\d{4}-\d{4}-\d{4}"
UNTIL = r"within {} minutes \(until \d\d:\d\d:\d\d\)"


def asking(run: Shell, token: str = "") -> contextlib.closing[Remote]:
    return contextlib.closing(Remote(address(run), token))


# What goes wrong.


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 1, "start one with `handspan serve`, or name one with --url and --token"),
        (("--url", "http://127.0.0.1:1"), 2, "wants a token: --token, or the variable HANDSPAN_TOKEN"),
        (("--url", "http://127.0.0.1:1", "--token", "t"), 1, "The gateway at http://127.0.0.1:1 does not answer"),
        (("--scope", "root"), 2, "'root' is not one of 'chat', 'device', 'tools', 'admin'"),
        (("--scope", "chat", "--browser"), 2, "--browser, or --scope"),
    ],
)
def test_what_can_not_be_is_told_with_a_remedy(run: Shell, words: tuple[str, ...], code: int, said: str) -> None:
    done = run("pair", *words)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr and "Traceback" not in done.stderr


def test_who_is_not_the_operator_is_told_so(run: Shell) -> None:
    with serving(run):
        chatting = run("tokens", "new", "site").stdout.strip()
        for words in ((), ("--browser",)):
            done = run("pair", *words, "--token", chatting)
            assert (done.returncode, done.stdout) == (1, "")
            assert "Only the operator may do this" in done.stderr and chatting not in done.stderr


# What it is for.


def test_a_device_pairs_by_the_link_alone(run: Shell) -> None:
    with serving(run):
        link = json.loads(run("pair", "--json").stdout)["link"]
        with device(run, "--pair", link) as laptop:
            assert "as 'laptop'" in laptop.seen
        again = run("device", "--pair", link, "--label", "other")
        assert again.returncode == 1 and "wrong, used or too old" in again.stderr
    wrong = run("device", "--pair", "http://127.0.0.1:1/elsewhere#code=1")
    assert wrong.returncode == 2 and "this is no pairing link" in wrong.stderr


def test_a_device_pairs_with_the_code_once(run: Shell) -> None:
    with serving(run):
        done = run("pair")
        assert done.returncode == 0 and address(run) in done.stdout and done.stderr == ""
        assert re.search(rf"pairs at {re.escape(address(run))} with the code {CODE}\n", done.stdout)
        assert re.search(rf"once, {UNTIL.format(5)}; its scopes: device\n", done.stdout)
        assert "needs another code: --scope chat --scope device\n" in done.stdout
        assert "phones can't reach this address: start the gateway with --lan --tls" in done.stdout
        (code,) = set(re.findall(CODE, done.stdout))
        with device(run, "--url", address(run), "--pair", code) as laptop:
            assert "as 'laptop'" in laptop.seen
        again = run("device", "--url", address(run), "--pair", code, "--label", "other")
        assert again.returncode == 1 and "wrong, used or too old" in again.stderr


def test_the_code_of_a_link_gives_a_device_and_nothing_else(run: Shell) -> None:
    with serving(run):
        code = json.loads(run("pair", "--json").stdout)["code"]
        with asking(run) as remote:
            paired = remote.change("POST", "/pair", dict[str, object], {"code": code})
        assert str(paired["message"]).endswith("It may do what its scopes say: device.")
        with asking(run, str(paired["token"])) as remote, pytest.raises(RemoteRefused, match="lacks the scope"):
            remote.get("/api/sessions", JsonObject)


def test_programs_get_the_code_with_its_end_and_where_it_is_good(run: Shell) -> None:
    with serving(run):
        before = datetime.now().astimezone()
        done = run("pair", "--json", "--scope", "chat", "--scope", "device", "--scope", "device")
        assert (done.returncode, done.stderr) == (0, "")
        told = json.loads(done.stdout)
        assert told["scopes"] == ["chat", "device"] and told["expires_in"] == 300 and told["url"] == address(run)
        assert told["link"] == f"{address(run)}/device#code={told['code']}" and told["reachable_by_others"] is False
        assert datetime.fromisoformat(told["expires"]) - before >= timedelta(seconds=299)
        with asking(run) as remote:
            paired = remote.change("POST", "/pair", dict[str, object], {"code": told["code"]})
        with asking(run, str(paired["token"])) as remote, pytest.raises(RemoteRefused, match="lacks the scope"):
            remote.get("/api/tokens", JsonObject)


def test_for_phones_it_shows_the_address_that_they_reach_and_a_code_to_scan(run: Shell) -> None:
    with serving(run, "--host", "0.0.0.0"):
        told = json.loads(run("pair", "--json").stdout)
        if not told["reachable_by_others"]:
            pytest.skip("this computer is in no network")
        port = address(run).rpartition(":")[2]
        assert re.fullmatch(rf"http://\d+\.\d+\.\d+\.\d+:{port}", told["url"]) and "127.0.0.1" not in told["url"]
        piped = run("pair").stdout
        assert f"another computer or phone pairs at {told['url']} with the code" in piped and "▄" not in piped
        assert f"handspan device --pair '{told['url']}/device#code=" in piped
        with run.at_terminal("pair") as terminal:
            assert terminal.ended() == 0
            assert "█▀" in terminal.seen or "▄█" in terminal.seen
        # Whoever came by another address than this computer's own is shown that one.
        named = json.loads(run("pair", "--json", "--url", told["url"], "--token", token(run)).stdout)
        assert (named["url"], named["reachable_by_others"]) == (told["url"], True)


def test_a_link_signs_one_browser_in(run: Shell) -> None:
    with serving(run):
        done = run("pair", "--browser")
        assert done.returncode == 0 and f"Page     {address(run)}/signin?code=" in done.stdout
        assert re.search(UNTIL.format(10), done.stdout)
        told = json.loads(run("pair", "--browser", "--json").stdout)
        path = told["url"].removeprefix(address(run))
        assert set(told) == {"url", "expires_in", "expires"} and told["expires_in"] == 600
        for status in (303, 403):  # signed in, and on to the page; then it is used up
            with asking(run) as remote, pytest.raises(RemoteRefused) as refused:
                remote.send("GET", path)
            assert refused.value.status == status


def test_a_computer_pairs_over_https_with_the_root_of_the_gateway(run: Shell) -> None:
    elsewhere = Shell(run.home / "elsewhere")
    elsewhere.home.mkdir()
    with serving(run, "--lan", "--tls"):
        made = json.loads(run("pair", "--json").stdout)
        assert f"with --ca FILE, from {made['url']}/device/root.crt\n" in run("pair").stdout
        refused = elsewhere("device", "--pair", made["link"])
        assert refused.returncode == 1 and "--ca FILE: `tls/root.crt` in the state folder" in refused.stderr
        root = run.home / "root.der"
        root.write_bytes(ssl.PEM_cert_to_DER_cert((run.state / "tls" / "root.crt").read_text(encoding="ascii")))
        with device(elsewhere, "--pair", made["link"], "--ca", str(root)):
            assert run("call", "laptop__device_info").returncode == 0
        with device(elsewhere, "--url", made["url"]):  # the certificate is remembered with the token
            assert run("call", "laptop__device_info").returncode == 0


def test_the_computer_of_the_gateway_trusts_its_root_by_itself(run: Shell) -> None:
    with serving(run, "--lan", "--tls"):
        link = json.loads(run("pair", "--json").stdout)["link"]
        with device(run, "--pair", link) as laptop:
            assert "as 'laptop'" in laptop.seen


def test_what_is_no_certificate_is_refused_with_its_name(run: Shell) -> None:
    wrong = run.home / "wrong.crt"
    wrong.write_bytes(b"no certificate")
    done = run("tools", "--url", "https://127.0.0.1:1", "--token", "t", "--ca", str(wrong))
    assert done.returncode == 2 and f"--ca: '{wrong}' can't be used" in done.stderr
