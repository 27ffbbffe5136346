"""`handspan tokens` as a person runs it, at a real gateway: who may come in (SPEC S5, U2)."""

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from handspan.cli.remote import Remote
from handspan.cli.requests import RemoteRefused
from handspan.core.values import JsonObject
from handspan.wire.rest.tokens import MadeToken
from tests.cli.gateways import address, device, serving, token
from tests.cli.shell import Shell, Terminal

pytestmark = pytest.mark.outside


@pytest.fixture
def gateway(run: Shell) -> Iterator[Terminal]:
    """A gateway on the state folder of this home."""
    with serving(run) as terminal:
        yield terminal


def known(run: Shell, *words: str) -> dict[str, Any]:
    """The tokens by name, as the command prints them for programs."""
    done = run("tokens", "--json", *words)
    assert (done.returncode, done.stderr) == (0, "")
    return {row["label"]: row for row in json.loads(done.stdout)}


def made(run: Shell, *words: str) -> Any:
    done = run("tokens", "new", "--json", *words)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


# What goes wrong.


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 1, "start one with `handspan serve`, or name one with --url and --token"),
        (("new", "site"), 1, "start one with `handspan serve`"),
        (("revoke", "0" * 16), 1, "start one with `handspan serve`"),
        (("--url", "http://127.0.0.1:1"), 2, "wants a token: --token, or the variable HANDSPAN_TOKEN"),
        (("--url", "http://127.0.0.1:1", "--token", "t"), 1, "The gateway at http://127.0.0.1:1 does not answer"),
        (("--url", "nonsense", "--token", "t"), 2, "'nonsense' is no gateway's address"),
        (("new", "site", "--scope", "root"), 2, "'root' is not one of 'chat', 'device', 'tools', 'admin'"),
        (("new", " "), 2, "LABEL is empty"),
        (("new", "x" * 65), 2, "LABEL has 65 characters: 64 are enough"),
        (("new", "page"), 2, "'page' is what the gateway calls those of browsers that are signed in. Choose another"),
        (
            ("new", " operator"),
            2,
            "'operator' is what the gateway calls the token of the person who runs it. Choose another",
        ),
        (("new",), 2, "Missing argument 'LABEL'"),
        (("revoke",), 2, "Missing argument 'ID'"),
    ],
)
def test_what_can_not_be_is_told_with_a_remedy(run: Shell, words: tuple[str, ...], code: int, said: str) -> None:
    done = run("tokens", *words)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr and "Traceback" not in done.stderr


@pytest.mark.usefixtures("gateway")
def test_who_is_not_the_operator_is_told_so(run: Shell) -> None:
    chatting = made(run, "site")["token"]
    for words in ((), ("new", "other"), ("revoke", "0" * 16)):
        done = run("tokens", *words, "--token", chatting)
        assert (done.returncode, done.stdout) == (1, "")
        assert "Only the operator may do this" in done.stderr and "lacks the scope 'admin'" in done.stderr
        assert "leave out --token" in done.stderr and chatting not in done.stderr
        done = run("tokens", *words, HANDSPAN_TOKEN="wrong")
        assert (done.returncode, done.stdout) == (1, "")
        assert "does not know this token" in done.stderr and "HANDSPAN_TOKEN" in done.stderr
    assert set(known(run, "--all")) == {"operator", "site"}


@pytest.mark.usefixtures("gateway")
def test_a_token_that_can_not_be_read_here_does_not_hide_that_another_is_wrong(run: Shell) -> None:
    (run.state / "operator.token").unlink()
    done = run("tokens")
    assert done.returncode == 1 and "its token is not in" in done.stderr and "--embedded" not in done.stderr
    (run.state / "operator.token").mkdir()
    done = run("tokens", "--url", address(run), "--token", "wrong")
    assert done.returncode == 1 and "does not know this token" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.usefixtures("gateway")
def test_an_id_that_is_none_is_told_with_the_one_that_may_be_meant(run: Shell) -> None:
    page = made(run, "site")
    near = page["id"][:-1] + ("0" if page["id"][-1] != "0" else "1")
    for word, said in (
        (near, f"no token with the id {near!r}. Did you mean {page['id']!r}?"),
        ("nonsense", "no token with the id 'nonsense'. `handspan tokens` lists them"),
        ("site", f"'site' is a label, and several may have it. Name the id: {page['id']}."),
        ("../agents/General", "no token with the id '../agents/General'"),
    ):
        done = run("tokens", "revoke", word)
        assert (done.returncode, done.stdout) == (1, "") and said in done.stderr
    assert known(run)["site"]["revoked"] is None


@pytest.mark.usefixtures("gateway")
def test_a_gateway_that_refuses_for_another_reason_is_quoted(run: Shell) -> None:
    port = address(run).rpartition(":")[2]
    done = run("tokens", "--url", f"http://127.1:{port}", "--token", token(run))
    assert done.returncode == 1 and "gateway.hosts" in done.stderr and "operator" not in done.stderr


# What it is for.


@pytest.mark.usefixtures("gateway")
def test_a_new_token_is_alone_on_standard_output_and_works(run: Shell) -> None:
    done = run("tokens", "new", "my page")
    new = done.stdout.strip()
    assert done.returncode == 0 and done.stdout == f"{new}\n" and len(new) == 43 and new not in done.stderr
    page = known(run)["my page"]
    assert "shown this once" in done.stderr
    assert f'new HandspanClient({{ baseUrl: "{address(run)}", token: "TOKEN" }})' in done.stderr
    assert "in place of TOKEN here" in done.stderr and "…" not in done.stderr
    assert "gateway.origins" in done.stderr and "Authorization: Bearer" in done.stderr
    assert f"handspan tokens revoke {page['id']}" in done.stderr
    assert page["scopes"] == ["chat"] and page["last_seen"] is None and page["current"] is False
    asked = run("chat", "What time is it in Tokyo?", "--url", address(run), "--token", new)
    assert asked.returncode == 0 and "get_current_time: ok" in asked.stdout


@pytest.mark.usefixtures("gateway")
def test_scopes_are_as_they_were_asked_for_and_a_dangerous_one_is_told(run: Shell) -> None:
    bot = made(run, "bot", "--scope", "device", "--scope", "device")
    assert bot["scopes"] == ["device"] and bot["url"] == address(run) and bot["id"] == known(run)["bot"]["id"]
    with device(run, "--url", address(run), "--token", bot["token"]) as laptop:
        assert "Tools: laptop__device_info" in laptop.seen
    only_device = run("tokens", "new", "bot", "--scope", "device").stderr
    assert f"1 older token has this label too ({bot['id']})" in only_device
    assert "HandspanClient" not in only_device and "handspan device" in only_device
    done = run("tokens", "new", "second", "--scope", "admin")
    assert "it may do all that you may" in done.stderr
    assert run("tokens", "--url", address(run), "--token", done.stdout.strip()).returncode == 0


@pytest.mark.usefixtures("gateway")
def test_the_list_has_what_a_person_needs_and_never_a_token(run: Shell) -> None:
    new = made(run, "na\x1b[31mme")["token"]
    gone = made(run, "gone")
    assert run("tokens", "revoke", gone["id"]).returncode == 0
    done = run("tokens")
    head, operator, name = done.stdout.splitlines()
    assert head.split() == ["id", "label", "scopes", "made", "last", "seen"]
    assert "operator" in operator and operator.endswith("in use here")
    assert "na[31mme" in name and "never" in name and "\x1b" not in done.stdout
    assert new not in done.stdout and token(run) not in done.stdout + done.stderr
    assert "(1 more is revoked: --all)" in done.stderr
    narrow = run.on_screen("tokens", "--all", COLUMNS="80").splitlines()
    assert max(map(len, narrow)) <= 80 and gone["id"] in "".join(narrow)
    assert [line.endswith("in use here") for line in narrow].count(True) == 1
    assert gone["id"] in run("tokens", "--all").stdout and "revoked 2" in run("tokens", "--all").stdout
    assert "gone" not in known(run) and known(run, "--all")["gone"]["revoked"] is not None


@pytest.mark.usefixtures("gateway")
def test_a_revoked_token_opens_nothing_and_what_it_had_opened_is_closed(run: Shell) -> None:
    bot = made(run, "bot", "--scope", "device")
    with device(run, "--url", address(run), "--token", bot["token"]) as laptop:
        done = run("tokens", "revoke", bot["id"])
        assert done.returncode == 0 and f"The token {bot['id']} ('bot') is revoked" in done.stdout
        assert laptop.ended() == 1
    with contextlib.closing(Remote(address(run), bot["token"])) as remote, pytest.raises(RemoteRefused, match="token"):
        remote.get("/api/tools", JsonObject)
    again = run("tokens", "revoke", bot["id"])
    assert again.returncode == 0 and "was revoked already" in again.stdout
    told = json.loads(run("tokens", "revoke", "--json", bot["id"]).stdout)
    assert told == {"id": bot["id"], "label": "bot", "revoked": True, "changed": False}


def test_before_the_operators_token_is_revoked_a_person_is_asked(run: Shell) -> None:
    with serving(run):
        own = known(run)["operator"]["id"]
        for answer in ("n\n", ""):
            done = run("tokens", "revoke", own, given=answer)
            assert (done.returncode, done.stdout) == (1, "") and "no command gets in any more" in done.stderr
        second = made(run, "second", "--scope", "admin")
        there = ("--url", address(run), "--token", second["token"])
        done = run("tokens", "revoke", second["id"], *there, given="n\n")
        assert done.returncode == 1 and "the token that this command uses" in done.stderr
        assert "no command gets in" in run("tokens", "revoke", own, *there, given="n\n").stderr
        assert run("tokens", "revoke", own, given="y\n").returncode == 0
        done = run("tokens")
        assert done.returncode == 1 and "start the gateway again: it makes a new one" in done.stderr
        told = json.loads(run("tokens", "revoke", "--yes", "--json", second["id"], *there).stdout)
        assert told["changed"] is True
    with serving(run):
        assert known(run)["operator"]["id"] != own


def test_a_new_token_is_in_no_repr() -> None:
    assert "secret" not in repr(MadeToken("secret", "id", ("chat",), "page"))
