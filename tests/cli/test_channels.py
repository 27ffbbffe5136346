"""`handspan channels` as a person runs it: with a gateway that runs, and without one."""

import json

import pytest

from tests.cli.gateways import serving
from tests.cli.shell import Shell
from tests.cli.test_rich_chat import RICH

CHANNELS = """
[channels.page]
[channels.telegram]
token = "env:NO_SUCH_TOKEN"
[channels.hook]
type = "webhook"
url = "http://127.0.0.1:9/"
secret = "a secret of more than sixteen"
allow = ["ada"]
"""


@pytest.fixture
def config(run: Shell) -> str:
    file = run.home / "channels.toml"
    file.write_text(CHANNELS, encoding="utf-8")
    return str(file)


def test_without_a_channel_the_list_is_empty_and_a_name_is_unknown(run: Shell) -> None:
    assert json.loads(run("channels", "--json").stdout) == []
    for words in (("test", "pigeon", "1"), ("pair", "pigeon", "1"), ("unpair", "pigeon", "1")):
        done = run("channels", *words)
        assert done.returncode == 1 and "There is no channel 'pigeon'" in done.stderr, done.stderr


def test_the_list_says_what_works_and_what_does_not(run: Shell, config: str) -> None:
    done = run("channels", "--config", config)
    assert done.returncode == 0, done.stderr
    rows = {line.split()[0]: line for line in done.stdout.splitlines() if line}
    assert "failed" in rows["telegram"] and "ready" in rows["hook"] and "ada" in rows["hook"]
    assert "telegram: channels.telegram.token: the environment variable 'NO_SUCH_TOKEN' is not set" in done.stdout
    doctor = json.loads(run("doctor", "--json", "--config", config).stdout)
    found = {one["what"]: one for one in doctor if one["what"].startswith("channel ")}
    assert {name: one["ok"] for name, one in found.items()} == {
        "channel page": True,
        "channel telegram": False,
        "channel hook": True,
    }


def test_a_message_that_is_not_delivered_is_an_error(run: Shell, config: str) -> None:
    done = run("channels", "test", "hook", "ada", "--config", config)
    assert done.returncode == 1 and "not delivered" in done.stderr and "refused" in done.stderr
    done = run("channels", "test", "page", "--config", config)
    assert done.returncode == 1 and "No page of the person is in view" in done.stderr
    done = run("channels", "test", "pages", "--config", config)
    assert done.returncode == 1 and "Did you mean 'page'? The channels are: page, telegram, hook." in done.stderr


def test_people_are_paired_and_unpaired_at_a_gateway_that_runs(run: Shell, config: str) -> None:
    with serving(run, "--config", config):
        done = run("channels", "pair", "hook", "bob", "--as", "Bob", "--config", config)
        assert done.stdout == "bob may write on the channel 'hook' now.\n", done.stderr
        listed = {one["name"]: one for one in json.loads(run("channels", "--json", "--config", config).stdout)}
        assert [(one["sender"], one["name"]) for one in listed["hook"]["senders"]] == [("bob", "Bob")]
        refused = run("channels", "pair", "page", "bob", "--config", config)
        assert refused.returncode == 1 and "No person can write to an agent on 'page'" in refused.stderr
        done = run("channels", "unpair", "hook", "bob", "--config", config)
        assert done.stdout == "bob may write on the channel 'hook' no more.\n"
        assert run("channels", "unpair", "hook", "bob", "--config", config).returncode == 1


@pytest.mark.parametrize("terminal", [RICH, {"TERM": "dumb"}], ids=("rich", "plain"))
def test_what_is_sent_to_the_page_is_shown_above_the_prompt_of_a_chat(
    run: Shell, config: str, terminal: dict[str, str]
) -> None:
    with serving(run, "--config", config), run.at_terminal("chat", "--config", config, **terminal) as chat:
        chat.until("> ")
        chat.type("unfinished")
        chat.until("unfinished")
        sent = run("channels", "test", "page", "all", "Dinner is ready.", "--config", config)
        assert sent.stdout == "The channel 'page' delivered a message to 'all'.\n", sent.stderr
        chat.until(r"Message on 'page':.{0,20}Dinner is ready\.")
        chat.until("> .{0,40}unfinished")
        chat.type("\x15\x04")
        assert chat.ended() == 0


def test_a_single_answer_and_its_json_show_what_the_agent_writes_to_the_person(run: Shell, config: str) -> None:
    said = '/message {"channel": "page", "chat_id": "all", "content": "Dinner is ready."}'
    done = run("chat", "--config", config, said)
    assert "Message on 'page': Dinner is ready.\n" in done.stderr and "Message on" not in done.stdout
    lines = [json.loads(line) for line in run("chat", "--config", config, "--json", said).stdout.splitlines()]
    message = {"type": "channel_message", "channel": "page", "chat_id": "all", "content": "Dinner is ready."}
    assert message in lines
