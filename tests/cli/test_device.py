"""`handspan device` as a person runs it: this computer's tools, through a real gateway (SPEC W8, W10, P2, U2)."""

import base64
import json
import os
import re
import signal
import stat
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from handspan.cli.device.consent import Choices, DeviceConsent, DeviceFile
from handspan.cli.device.phone import PhoneTools, phone_tools
from handspan.cli.device.tools import DeviceTool, device_tools
from handspan.client import PermissionQuestion
from handspan.client.context import CallContext
from handspan.client.results import Image
from handspan.core.errors import ConfigError, ToolError
from handspan.core.questions import Answer, Opened, Question, ignore_opened
from handspan.core.values import Arguments
from tests.cli.gateways import address, device, listed, program, serving, token
from tests.cli.shell import COMMAND, Shell, json_lines

pytestmark = pytest.mark.outside

ASKED = "take device info of my computer"
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class Calling:
    """`handspan call` that runs while somebody is asked."""

    def __init__(self, run: Shell, *words: str) -> None:
        self._done: subprocess.CompletedProcess[str]
        self._thread = threading.Thread(target=lambda: setattr(self, "_done", run("call", *words)))
        self._thread.start()

    def envelope(self) -> Any:
        self._thread.join(60)
        assert not self._thread.is_alive()
        return json_lines(self._done)[0]


def tools_of(tmp_path: Path, *programs: str, code: str = "exit 1", **environ: str) -> dict[str, DeviceTool]:
    """What a computer with these programs and no others has."""
    for name in programs:
        program(tmp_path / "bin", name, code)
    given = {"PATH": str(tmp_path / "bin"), **environ}
    return {tool.spec.name: tool for tool in device_tools(given, lambda _: None)}


def called(tool: DeviceTool, **arguments: str) -> Any:
    given: Arguments = dict(arguments)
    return tool.code(given, CallContext("c", tool.spec.name, given, lambda _: None, lambda: None))


# What goes wrong.


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 1, "No gateway serves the state folder"),
        (("--pair", "1234"), 2, "--pair needs --url"),
        (("--pair", "1234", "--url", "nonsense"), 2, "'nonsense' is no gateway's address"),
        (("--pair", "1234", "--url", "http://127.0.0.1:1"), 1, "The gateway at http://127.0.0.1:1 does not answer"),
        (("--url", "http://127.0.0.1:1"), 2, "wants a token: --token, or the variable HANDSPAN_TOKEN"),
        (("--allow", "everything"), 2, "'everything' is not one of"),
    ],
)
def test_what_can_not_be_is_told_with_a_remedy(run: Shell, words: tuple[str, ...], code: int, said: str) -> None:
    done = run("device", *words)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr and "Traceback" not in done.stderr


def test_a_wrong_token_ends_it_and_an_absent_gateway_is_waited_for(run: Shell) -> None:
    with serving(run):
        done = run("device", "--url", address(run), "--token", "wrong")
        url = address(run)
    assert done.returncode == 1 and f"The gateway at {url} does not know this token" in done.stderr
    assert "--token or the variable HANDSPAN_TOKEN" in done.stderr and "--pair" in done.stderr
    assert "Authorization" not in done.stderr
    with run.at_terminal("device", "--url", "http://127.0.0.1:1", "--token", "t") as terminal:
        terminal.until(r"No link to http://127\.0\.0\.1:1 \(Connection refused\): trying again in \d+ s")
        terminal.type("\x03")
        assert terminal.ended() == 0


def test_a_second_one_of_the_same_label_is_refused(run: Shell) -> None:
    with serving(run), device(run):
        done = run("device", "--label", "laptop")
        assert done.returncode == 1 and "A `handspan device` with the label 'laptop' runs on this" in done.stderr
        assert "state" not in done.stderr and done.stderr.endswith("or make this one another device with --label.\n")
        with device(run, label="desktop"):
            assert {"laptop__device_info", "desktop__device_info"} <= set(listed(run))


def test_a_tool_that_the_gateway_does_not_take_is_told(run: Shell) -> None:
    run.config('[gateway.remote]\ndeny = ["notify"]\n')
    with serving(run), run.at_terminal("device", "--label", "laptop") as laptop:
        told = laptop.until(r"The gateway does not take 'notify': [^\n]+")
        assert "Tools: laptop__device_info. " in told


def test_a_device_that_is_called_like_an_mcp_server_is_told_its_other_label_and_people_see_why(run: Shell) -> None:
    why = "Names that begin with 'laptop__' are for the MCP server 'laptop'. This device is called 'laptop_2' here."
    with serving(run), device(run) as laptop:
        run("mcp", "add", "laptop", "http://127.0.0.1:9/mcp")
        laptop.until(r"as 'laptop_2'. Tools: laptop_2__device_info")
        assert why in " ".join(laptop.until(r"is called 'laptop_2'\s+here\.").split())
        assert f"laptop_2: {why}" in " ".join(run("devices").stdout.split())
        said = " ".join(run("tools", "why", "laptop__device_info").stdout.split())
        assert "The name is reserved for the MCP server 'laptop'." in said


def test_a_device_is_told_its_other_label_once(run: Shell) -> None:
    with serving(run):
        run("mcp", "add", "laptop", "http://127.0.0.1:9/mcp")
        with run.at_terminal("device", "--label", "laptop") as laptop:
            shown = laptop.until(r"(?s)Connected to .*is called 'laptop_2'\s+here\.")
            assert shown.count("Names that begin with") == 1


# What it is for.


def test_a_question_in_the_chat_calls_the_tool_on_the_device_through_the_gateway(run: Shell) -> None:
    with serving(run), device(run) as laptop:
        assert "as 'laptop'. Tools: laptop__device_info, laptop__notify" in laptop.seen
        done = run("chat", ASKED)
        assert done.returncode == 0 and "[laptop__device_info: ok," in done.stdout
        assert f"host: {os.uname().nodename}" in done.stdout and f"cpus: {os.cpu_count()}" in done.stdout
        assert done.stderr == ""
        laptop.until(r"device_info: ok, [\d.]+ ms")
        laptop.type("\x03")
        assert laptop.ended() == 0 and "Traceback" not in laptop.seen
        assert "laptop__device_info" not in listed(run)


def test_killed_in_mid_call_and_started_again_the_call_is_healed(run: Shell) -> None:
    with serving(run):
        with device(run, HANDSPAN_DEVICE_INFO_DELAY="25") as laptop:
            chat = run.at_terminal("chat", "--json", ASKED)
            with chat as front:
                front.until(r'"call_progress"')  # the device is at it
                laptop.kill()
                with device(run) as again:
                    ended = front.until(r'"type":"ended"[^\n]*\n')
                    assert '"reason":"done"' in ended and f"host: {os.uname().nodename}" in ended
                    assert front.ended() == 0
                    if "device_info: ok" not in again.seen:  # it may come before the line that it is connected
                        again.until(r"device_info: ok")
        assert front.seen.count('"type":"call_finished"') == 1 and '"status":"success"' in front.seen


def test_a_gateway_that_is_killed_is_found_again_by_its_device(run: Shell) -> None:
    with serving(run) as gateway, device(run) as laptop:
        port = address(run).rpartition(":")[2]
        gateway.kill()
        laptop.until(r"No link to [^\n]*trying again in \d+ s")
        with run.at_terminal("serve", "--port", port, "--model", "offline"):
            laptop.until(r"Connected to [^\n]*as 'laptop'")
            assert run("call", "laptop__device_info").returncode == 0


def test_a_device_and_a_chat_follow_a_gateway_that_moves_to_another_port_and_to_https(run: Shell) -> None:
    with serving(run) as gateway, device(run) as laptop, run.at_terminal("chat", "--plain") as chat:
        chat.prompt()
        gateway.kill()
        laptop.until(r"No link to [^\n]*trying again in \d+ s")
        with serving(run, "--tls"):
            laptop.until(rf"Connected to {address(run)} as 'laptop'")
            chat.say(ASKED)
            chat.until(r"laptop__device_info: ok")


def test_a_device_takes_the_new_operator_token_of_its_state_folder(run: Shell) -> None:
    with serving(run) as gateway, device(run) as laptop:
        port = address(run).rpartition(":")[2]
        gateway.kill()
        laptop.until(r"No link to [^\n]*trying again in \d+ s")
        (run.state / "operator.token").unlink()
        with run.at_terminal("serve", "--port", port, "--model", "offline"):
            laptop.until(r"Connected to [^\n]*as 'laptop'")


# Permissions.


def test_the_person_is_asked_in_the_terminal_and_an_always_is_remembered(run: Shell) -> None:
    with serving(run), device(run) as laptop:
        calling = Calling(run, "laptop__notify", '{"text": "tea", "title": "Kitchen"}')
        laptop.until(
            r"The agent 'General' calls notify {\"text\":\"tea\",\"title\":\"Kitchen\"}\s+"
            r"It needs the permission 'notifications'. Grant it\?\s+"
            r"\[y\]es, this call; \[a\]lways; \[n\]o, not this call; or the word never\? "
        )
        laptop.say("n")
        laptop.until(r"notify wants 'notifications': denied")
        assert calling.envelope()["code"] == "permission_denied"
        calling = Calling(run, "laptop__notify", '{"text": "tea", "title": "Kitchen"}')
        laptop.until(r"never\? ")
        laptop.say("always")
        laptop.until("\x07[^\n]*Kitchen: tea")
        assert calling.envelope() == {"status": "success", "result": {"shown": "in the terminal"}}
    kept = run.state / "device-laptop.choices.json"
    assert json.loads(kept.read_text(encoding="utf-8"))["permissions"] == {"notifications": "always"}
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    with serving(run), device(run):  # a new life of both
        assert run("call", "laptop__notify", '{"text": "tea"}').returncode == 0


def test_the_caller_is_told_at_which_device_the_person_is_asked(run: Shell) -> None:
    with (
        serving(run),
        device(run) as laptop,
        run.at_terminal("call", "laptop__notify", '{"text": "tea"}') as calling,
    ):
        calling.until(r"Waiting for your answer on the device 'laptop': may 'laptop__notify' use the permission")
        laptop.until(r"never\? ")
        laptop.say("y")
        calling.until('"status":"success"')
        assert calling.ended() == 0
        again = Calling(run, "laptop__notify", '{"text": "tea"}')  # a yes was for that call alone
        laptop.until(r"never\? ")
        laptop.say("n")
        envelope = again.envelope()
        assert envelope["code"] == "permission_denied" and "--allow" not in envelope["message"]  # nothing to enable


def test_never_is_told_to_the_model_with_how_to_change_it(run: Shell) -> None:
    with serving(run), device(run) as laptop:
        calling = Calling(run, "laptop__notify", '{"text": "tea"}')
        laptop.until(r"never\? ")
        laptop.say("never")
        envelope = calling.envelope()
        assert envelope["code"] == "permission_denied_forever"
        assert "handspan device --allow notifications" in envelope["message"]
        assert re.search(r"its file /\S+\.json", envelope["message"])
    with serving(run), device(run, "--allow", "notifications"):
        assert run("call", "laptop__notify", '{"text": "tea"}').returncode == 0


def test_without_a_terminal_nothing_is_granted_but_by_option(run: Shell) -> None:
    def answered(*words: str) -> tuple[str, list[Any]]:
        command = [*COMMAND, "device", "--label", "box", "--json", *words]
        process = subprocess.Popen(
            command, env=run.environ(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        try:
            assert json.loads(process.stdout.readline())["type"] == "connected"
            envelope = Calling(run, "box__notify", '{"text": "tea"}').envelope()
            process.send_signal(signal.SIGTERM)
            rest, _ = process.communicate(timeout=60)
        finally:
            process.kill()
        assert process.returncode == 0
        return envelope.get("code", "success"), [json.loads(line) for line in rest.splitlines()]

    with serving(run):
        code, lines = answered()
        assert code == "permission_denied"
        (asked,) = [line for line in lines if line["type"] == "permission"]
        assert asked["decision"] == "denied" and "--allow notifications" in asked["where"]
    with serving(run):
        assert answered("--allow", "notifications")[0] == "success"
        code, lines = answered("--yes")
        assert code == "success" and lines[-1] == {"type": "told", "text": "Ended."}


@pytest.mark.anyio
async def test_a_file_of_choices_that_is_broken_is_named(tmp_path: Path) -> None:
    file = DeviceFile(tmp_path / "device-x.choices.json")
    file.path.write_text("{", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"device-x\.choices\.json' is not what a device keeps"):
        await DeviceConsent(file, (), None).ask(PermissionQuestion("screen", "screenshot", "c"))
    file.path.unlink()
    file.path.symlink_to("elsewhere")
    with pytest.raises(ConfigError, match="can't be read"):
        file.read()
    with pytest.raises(ConfigError, match="can't be written"):
        DeviceFile(Path("/proc/nowhere/x.json")).write(Choices())
    assert "secret" not in repr(Choices(token="secret"))


@pytest.mark.anyio
async def test_what_was_said_for_good_is_asked_once(tmp_path: Path) -> None:
    class Person:
        def __init__(self) -> None:
            self.asked: list[str] = []

        async def ask(self, question: Question, opened: Opened = ignore_opened) -> Answer:
            opened()
            self.asked.append(question.subject)
            return {"screen": Answer("allow", always=True), "browser": Answer("deny_forever")}.get(
                question.subject, Answer("allow")
            )

    person = Person()
    consent = DeviceConsent(DeviceFile(tmp_path / "f.json"), ("notifications",), person)
    for permission in ("screen", "browser", "clipboard.read", "notifications") * 2:
        decision, where = await consent.ask(PermissionQuestion(permission, "tool", "c"))
        assert decision == ("deny_forever" if permission == "browser" else "allow")
        assert bool(where) == (decision != "allow")
    assert person.asked == ["screen", "browser", "clipboard.read", "clipboard.read"]


# Pairing.


def test_a_paired_device_needs_its_code_once(run: Shell, tmp_path: Path) -> None:
    with serving(run) as gateway:
        code = gateway.seen.partition("with the code ")[2][:14]
        elsewhere = Shell(tmp_path / "elsewhere")
        elsewhere.home.mkdir()
        url = address(run)
        refused = elsewhere("device", "--url", url, "--pair", "0000-0000-0000")
        assert refused.returncode == 1 and "This pairing code is wrong, used or too old" in refused.stderr
        with device(elsewhere, "--url", url, "--pair", code, label="phone") as paired:
            assert "phone__device_info" in listed(run)
            assert f"handspan device --url {url} --label phone" in " ".join(paired.seen.split())
        with device(elsewhere, label="phone", HANDSPAN_URL=url):
            assert run("call", "phone__device_info").returncode == 0
        (kept,) = elsewhere.state.glob("device-phone-*.choices.json")
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        assert json.loads(kept.read_text(encoding="utf-8"))["token"] not in ("", token(run))


def test_an_address_and_a_token_may_come_from_the_environment(run: Shell) -> None:
    elsewhere = Shell(run.home / "elsewhere")
    elsewhere.home.mkdir()
    with serving(run), device(elsewhere, HANDSPAN_URL=address(run), HANDSPAN_TOKEN=token(run)) as laptop:
        assert "laptop__device_info" in listed(run)
        assert token(run) not in laptop.seen


# What this computer can do.


def test_a_computer_without_a_screen_offers_what_it_has(tmp_path: Path) -> None:
    assert set(tools_of(tmp_path)) == {"device_info", "notify"}
    assert set(tools_of(tmp_path, "grim", "xclip", "scrot")) == {"device_info", "notify"}
    assert set(tools_of(tmp_path, BROWSER="lynx")) == {"device_info", "notify", "open_url"}


def test_a_computer_with_a_screen_offers_what_it_has_programs_for(tmp_path: Path) -> None:
    everything = {"device_info", "notify", "open_url", "screenshot", "clipboard", "set_clipboard"}
    assert set(tools_of(tmp_path, DISPLAY=":0")) == {"device_info", "notify", "open_url"}
    assert set(tools_of(tmp_path, "scrot", "xsel", DISPLAY=":0")) == everything
    assert "clipboard" not in tools_of(tmp_path / "w", "grim", "wl-paste", WAYLAND_DISPLAY="w")  # it could not copy
    tools = tools_of(tmp_path / "v", "grim", "wl-paste", "wl-copy", WAYLAND_DISPLAY="w")
    assert set(tools) == everything
    assert {name: tool.spec.permissions for name, tool in tools.items()} == {
        "device_info": (),
        "notify": ("notifications",),
        "open_url": ("browser",),
        "screenshot": ("screen",),
        "clipboard": ("clipboard.read",),
        "set_clipboard": ("clipboard.write",),
    }
    assert tools["device_info"].spec.annotations.read_only


def test_a_screenshot_comes_to_the_model_as_an_image(run: Shell, tmp_path: Path) -> None:
    (tmp_path / "screen.png").write_bytes(PNG)
    path = program(tmp_path / "bin", "grim", f'cp "{tmp_path}/screen.png" "$1"')
    with serving(run), device(run, "--allow", "screen", PATH=path, WAYLAND_DISPLAY="w") as laptop:
        done = run("call", "laptop__screenshot")
        assert done.returncode == 0, done.stdout
        (image,) = json_lines(done)[0]["attachments"]
        assert (image["kind"], image["media_type"]) == ("image", "image/png")
        laptop.until("screenshot: ok")


@pytest.mark.parametrize(
    ("code", "said"), [("echo no screen >&2; exit 3", "failed with 3: no screen"), ("true", "made no PNG")]
)
def test_a_screenshot_that_fails_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, said: str
) -> None:
    monkeypatch.setenv("PATH", program(tmp_path / "bin", "grim", code))
    tool = tools_of(tmp_path, WAYLAND_DISPLAY="w")["screenshot"]
    with pytest.raises(ToolError, match=said):
        called(tool)


def test_a_program_that_can_not_be_run_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", program(tmp_path / "bin", "grim", "true"))
    (tmp_path / "bin" / "grim").write_text("#!/nowhere/at/all\n", encoding="utf-8")
    with pytest.raises(ToolError, match="'grim' can't be run: No such file"):
        called(tools_of(tmp_path, WAYLAND_DISPLAY="w", HANDSPAN_DEVICE_INFO_DELAY="soon")["screenshot"])


def test_a_screenshot_has_the_bytes_that_the_program_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "screen.png").write_bytes(PNG)
    monkeypatch.setenv("PATH", program(tmp_path / "bin", "scrot", f'cp "{tmp_path}/screen.png" "$1"'))
    taken = called(tools_of(tmp_path, DISPLAY=":0")["screenshot"])
    assert isinstance(taken, Image) and taken.data == PNG


def test_what_is_copied_is_what_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    board = f'"{tmp_path}/board"'
    monkeypatch.setenv(
        "PATH", program(tmp_path / "bin", "xclip", f'if [ "$3" = -o ]; then cat {board}; else cat > {board}; fi')
    )
    tools = tools_of(tmp_path, DISPLAY=":0")
    assert called(tools["set_clipboard"], text="grüße\n") == {"copied": 6}
    assert called(tools["clipboard"]) == "grüße\n"


def test_a_notification_goes_to_the_screen_where_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = tmp_path / "said"
    monkeypatch.setenv("PATH", program(tmp_path / "bin", "notify-send", f'printf "%s|" "$@" > "{said}"'))
    tools = tools_of(tmp_path, DISPLAY=":0")
    assert called(tools["notify"], text="-v; tea") == {"shown": "on the screen"}
    assert said.read_text(encoding="utf-8") == "--|Handspan|-v; tea|"


def test_a_page_is_opened_and_nothing_else(run: Shell, tmp_path: Path) -> None:
    opened = tmp_path / "opened"
    program(tmp_path / "bin", "browser", f'printf "%s" "$1" > "{opened}"')
    browser = f"{tmp_path}/bin/browser %s"
    tool = tools_of(tmp_path, BROWSER=browser)["open_url"]
    for url in ("file:///etc/passwd", "javascript:alert(1)", "http://", "https://a b", "http://[", "http://a\x1b"):
        with pytest.raises(ToolError, match="no address of a web page"):
            called(tool, url=url)
    with serving(run), device(run, "--yes", BROWSER=browser):
        done = run("call", "laptop__open_url", '{"url": "https://example.com/?a=1&b=$(id)"}')
        assert done.returncode == 0, done.stdout
        with device(run, "--yes", label="other", BROWSER="false %s"):
            refused = run("call", "other__open_url", '{"url": "https://example.com/"}')
            assert "no browser that could be opened" in json_lines(refused)[0]["message"]
    assert opened.read_text(encoding="utf-8") == "https://example.com/?a=1&b=$(id)"


def test_the_variable_that_makes_a_call_slow_is_for_tests_and_no_setting(run: Shell) -> None:
    assert "HANDSPAN_DEVICE_INFO_DELAY" not in run("device", "--help").stdout
    assert run("tools", HANDSPAN_DEVICE_INFO_DELAY="x", HANDSPAN_URL="").returncode == 0


def test_a_terminal_does_not_answer_with_what_was_typed_before(run: Shell) -> None:
    with serving(run), device(run) as laptop:
        laptop.say("y")
        laptop.until("y\n")
        calling = Calling(run, "laptop__notify", '{"text": "tea"}')
        laptop.until(r"never\? ")
        laptop.say("n")
        assert calling.envelope()["code"] == "permission_denied"


# What a phone has.


def phone_of(tmp_path: Path, *programs: str, code: str = "exit 1") -> PhoneTools:
    """What a computer with these programs and no others has of a phone's tools."""
    for name in programs:
        program(tmp_path / "bin", name, code)
    return phone_tools({"PATH": str(tmp_path / "bin")}, tmp_path)


def test_what_the_computer_does_not_have_is_not_offered_and_told(run: Shell, tmp_path: Path) -> None:
    none = phone_of(tmp_path)
    assert none.tools == [] and len(none.missing) == 3
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "video0").touch()
    assert "install ffmpeg or fswebcam" in phone_of(tmp_path).missing[0]
    with serving(run), run.at_terminal("device", "--label", "laptop", PATH="/nowhere") as laptop:
        laptop.until("'contacts' is not offered: no address book was found")


def test_the_seeds_tools_have_the_seeds_parameters(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "video0").touch()
    offered = {tool.spec.name: tool.spec for tool in phone_of(tmp_path, "ffmpeg", "khard", "gpspipe").tools}
    assert {name: (spec.parameters, spec.permissions) for name, spec in offered.items()} == {
        "camera": (
            {"type": "object", "properties": {"quality": {"type": "string", "enum": ["low", "high"]}}, "required": []},
            ("camera",),
        ),
        "contacts": (
            {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
            ("contacts",),
        ),
        "sensors": (
            {
                "type": "object",
                "properties": {"type": {"type": "string", "enum": ["accelerometer", "gyroscope", "gps"]}},
                "required": ["type"],
            },
            ("sensors",),
        ),
    }
    info = tools_of(tmp_path)["device_info"].spec
    assert info.parameters == {"type": "object", "properties": {}, "required": []}


def test_a_photo_has_the_size_that_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "video0").touch()
    code = 'size=$4; while [ $# -gt 1 ]; do shift; done; printf "\\377\\330%s" "$size" > "$1"'
    monkeypatch.setenv("PATH", program(tmp_path / "bin", "fswebcam", code))
    (camera,) = phone_tools({"PATH": str(tmp_path / "bin")}, tmp_path).tools
    taken = called(camera, quality="high")
    assert isinstance(taken, Image) and taken.data == b"\xff\xd81920x1080"
    assert called(camera).data == b"\xff\xd8640x480"


def test_contacts_that_fit_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = 'printf "searching for %s\\nann@example.com\\tAnn Lee\\thome\\n" "$2"'
    monkeypatch.setenv("PATH", program(tmp_path / "bin", "abook", answer))
    (contacts,) = phone_tools({"PATH": str(tmp_path / "bin")}, tmp_path).tools
    assert called(contacts, query="ann") == {"contacts": [{"address": "ann@example.com", "name": "Ann Lee"}], "more": 0}
    program(tmp_path / "bin", "abook", "echo Not found >&2; exit 1")
    assert called(contacts, query="nobody") == {"contacts": [], "more": 0}


def test_contacts_of_a_mac_are_asked_for_by_a_script_that_no_query_becomes_part_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    answer = 'while [ "$1" != -- ]; do shift; done; printf "ann@example.com\\t%s of %d\\n" "$2" $#'
    monkeypatch.setenv("PATH", program(tmp_path / "bin", "osascript", answer))
    (contacts,) = phone_tools({"PATH": str(tmp_path / "bin")}, tmp_path).tools
    (found,) = called(contacts, query="-e beep")["contacts"]
    assert found == {"address": "ann@example.com", "name": "-e beep of 2"}
    program(
        tmp_path / "bin", "osascript", "echo 'Not authorized to send Apple events to Contacts. (-1743)' >&2; exit 1"
    )
    with pytest.raises(ToolError, match="Privacy & Security") as refused:
        called(contacts, query="ann")
    assert refused.value.code == "permission_denied"
    program(tmp_path / "bin", "osascript", "echo 'syntax error' >&2; exit 1")
    with pytest.raises(ToolError, match="syntax error"):
        called(contacts, query="ann")


def test_sensors_are_read_and_a_missing_one_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "sys" / "bus" / "iio" / "devices" / "iio:device0"
    folder.mkdir(parents=True)
    for name, value in {"x_raw": "100", "y_raw": "-50", "z_raw": "1000", "scale": "0.01"}.items():
        (folder / f"in_accel_{name}").write_text(value, encoding="ascii")
    report = '{"class":"VERSION"}\n{"class":"TPV","lat":52.5,"lon":13.4,"alt":34.0}'
    monkeypatch.setenv("PATH", program(tmp_path / "bin", "gpspipe", f"echo '{report}'"))
    (sensors,) = phone_tools({"PATH": str(tmp_path / "bin")}, tmp_path).tools
    moved = called(sensors, type="accelerometer")
    assert moved == {"type": "accelerometer", "x": 1.0, "y": -0.5, "z": 10.0, "unit": "m/s²"}
    assert called(sensors, type="gps") == {"type": "gps", "latitude": 52.5, "longitude": 13.4, "altitude": 34.0}
    with pytest.raises(ToolError, match="no gyroscope: it has accelerometer and gps"):
        called(sensors, type="gyroscope")
