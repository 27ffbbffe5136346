"""`handspan channels` as a person runs it: with a gateway that runs, and without one."""

import json
import subprocess

import pytest

from tests.cli.gateways import device, serving
from tests.cli.shell import COMMAND, Shell
from tests.cli.test_rich_chat import RICH

pytestmark = pytest.mark.outside

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


@pytest.mark.filterwarnings("ignore::DeprecationWarning:apprise")
def test_an_address_that_apprise_does_not_know_is_told_without_a_gateway_too(run: Shell) -> None:
    file = run.home / "apprise.toml"
    file.write_text('[channels.pigeon]\ntype = "apprise"\nurl = "pigeon://loft"\n', encoding="utf-8")
    done = run("channels", "--config", str(file))
    assert "failed" in done.stdout and "channels.pigeon.url is no address that Apprise knows" in done.stdout
    doctor = {one["what"]: one for one in json.loads(run("doctor", "--json", "--config", str(file)).stdout)}
    assert not doctor["channel pigeon"]["ok"] and "no address that Apprise knows" in doctor["channel pigeon"]["found"]


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


def test_what_is_sent_to_the_page_is_shown_by_a_device_at_a_terminal(run: Shell, config: str) -> None:
    words = ("channels", "test", "page", "all", "Dinner is ready.", "--config", config)
    with serving(run, "--config", config):
        with device(run, "--config", config) as laptop:
            assert run(*words).returncode == 0
            laptop.until(r"\x07\d\d:\d\d:\d\d Message on 'page': Dinner is ready\.")
        with device(run, "--config", config, "--json", until=r'"connected"') as laptop:
            assert run(*words).returncode == 0
            laptop.until(r'"type":"channel_message","channel":"page","chat_id":"all","content":"Dinner is ready."')
        command = [*COMMAND, "device", "--label", "log", "--config", config]
        with subprocess.Popen(command, env=run.environ(), stdout=subprocess.PIPE, encoding="utf-8") as unseen:
            try:
                assert unseen.stdout is not None and "Connected to" in unseen.stdout.readline()
                done = run(*words)
            finally:
                unseen.terminate()
        assert done.returncode == 1 and "No page of the person is in view" in done.stderr, "no person sees it"


def test_a_single_answer_and_its_json_show_what_the_agent_writes_to_the_person(run: Shell, config: str) -> None:
    said = '/message {"channel": "page", "chat_id": "all", "content": "Dinner is ready."}'
    done = run("chat", "--config", config, said)
    assert "Message on 'page': Dinner is ready.\n" in done.stderr and "Message on" not in done.stdout
    lines = [json.loads(line) for line in run("chat", "--config", config, "--json", said).stdout.splitlines()]
    message = {"type": "channel_message", "channel": "page", "chat_id": "all", "content": "Dinner is ready."}
    assert message in lines
