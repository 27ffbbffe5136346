"""Commands for every day: backup and restore, completion, errors as JSON, artifacts, the journal as it grows (U2)."""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from handspan.config.example import example_file
from handspan.config.load import load_settings
from tests.cli.gateways import serving
from tests.cli.shell import COMMAND, Shell, json_lines
from tests.cli.test_chat import TIME


@pytest.mark.parametrize("is_served", [False, True])
@pytest.mark.outside
def test_a_backup_brings_everything_back(run: Shell, tmp_path: Path, is_served: bool) -> None:
    run.config('[agents.reader]\ntools = ["read_*"]\n')
    run.tool("dice", "from handspan import tool\n\n@tool\ndef roll() -> int:\n    'Roll.'\n    return 4\n")
    file = tmp_path / "saved.tar.gz"

    def use_and_save() -> None:
        session = json_lines(run("chat", "--json", TIME))[0]["id"]
        note = tmp_path / "note.txt"
        note.write_text("an artifact")
        run("artifacts", "add", str(note), "--session", session)
        assert "files" in run("backup", str(file)).stdout

    if is_served:
        with serving(run):
            use_and_save()
    else:
        use_and_save()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert run("backup", str(file)).returncode == 1, "no backup is overwritten"
    sessions = run("sessions", "--json").stdout
    refused = run("restore", str(file))
    assert refused.returncode == 1 and "--replace" in refused.stderr
    other = Shell(tmp_path / "other")
    other.home.mkdir()
    assert other("restore", str(file), "--json").returncode == 0
    assert other("sessions", "--json").stdout == sessions
    assert other("store", "check").returncode == 0
    assert json.loads(other("call", "roll").stdout)["result"] == 4
    assert "reader" in other("agents").stdout
    (artifact,) = json.loads(other("artifacts", "--json").stdout)
    assert other("artifacts", "get", artifact["id"]).stdout == "an artifact"
    assert stat.S_IMODE((other.state / "handspan.db").stat().st_mode) == 0o600
    again = other("restore", str(file), "--replace")
    assert again.returncode == 0 and "The state from before is in" in again.stdout
    assert list(other.state.parent.glob("handspan.before-*"))
    folder = other.home / ".config" / "handspan"
    (aside,) = folder.glob("before-*")
    assert f"The settings, tools and skills from before are in {str(aside)!r}." in again.stdout
    assert {str(path.relative_to(aside)) for path in aside.rglob("*.*")} == {"config.toml", "tools/dice.py"}
    assert [path.name for path in (folder / "tools").iterdir() if path.is_file()] == ["dice.py"]
    assert other("backup", str(tmp_path / "next.tar.gz")).returncode == 0
    with tarfile.open(tmp_path / "next.tar.gz") as archive:
        assert not [name for name in archive.getnames() if "before-" in name]


@pytest.mark.outside
def test_a_backup_has_what_is_behind_links(run: Shell, tmp_path: Path) -> None:
    run.config('[agents.reader]\ntools = ["read_*"]\n')
    run.tool("dice", "from handspan import tool\n\n@tool\ndef roll() -> int:\n    'Roll.'\n    return 4\n")
    folder, elsewhere, file = run.home / ".config" / "handspan", tmp_path / "elsewhere", tmp_path / "saved.tar.gz"
    elsewhere.mkdir()
    for name in ("config.toml", "tools"):
        (folder / name).rename(elsewhere / name)
        (folder / name).symlink_to(elsewhere / name)
    (elsewhere / "tools" / "loop").symlink_to(elsewhere / "tools")
    run("chat", TIME)
    assert run("backup", str(file)).returncode == 0
    other = Shell(tmp_path / "other")
    other.home.mkdir()
    assert other("restore", str(file)).returncode == 0
    assert json.loads(other("call", "roll").stdout)["result"] == 4
    assert "reader" in other("agents").stdout


def test_a_backup_takes_a_relative_settings_file_and_keeps_programs(run: Shell, tmp_path: Path) -> None:
    run.config('[agents.reader]\ntools = ["read_*"]\n')
    run.skill("sums", "read_file", "Add.")
    script = run.home / ".config" / "handspan" / "skills" / "sums" / "run.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    run("chat", TIME)
    file = tmp_path / "saved.tar.gz"
    config = os.path.relpath(run.home / ".config" / "handspan" / "config.toml", Path(__file__).parents[2])
    saved = run("backup", "--config", config, str(file))
    assert saved.returncode == 0, saved.stderr
    other = Shell(tmp_path / "other")
    (tmp_path / "disk").mkdir()
    other.state.parent.mkdir(parents=True)
    other.state.symlink_to(tmp_path / "disk")
    assert other("restore", str(file)).returncode == 0
    again = other("restore", "--replace", str(file))
    assert again.returncode == 0 and str(tmp_path / "disk.before-") in again.stdout
    assert "reader" in other("agents").stdout
    restored = other.home / ".config" / "handspan" / "skills" / "sums" / "run.sh"
    assert stat.S_IMODE(restored.stat().st_mode) == 0o700


def test_a_backup_is_restored_where_the_named_settings_file_is_not_there_yet(run: Shell, tmp_path: Path) -> None:
    run.config('[agents.reader]\ntools = ["read_*"]\n')
    run("chat", TIME)
    saved = tmp_path / "saved.tar.gz"
    run("backup", str(saved))
    new = Shell(tmp_path / "new")
    place = ("--state", str(tmp_path / "s"), "--config", str(tmp_path / "c" / "config.toml"))
    done = new("restore", str(saved), *place)
    assert done.returncode == 0, done.stderr
    assert "reader" in new("agents", *place).stdout
    assert len(json.loads(new("sessions", "--json", *place).stdout)) == 1
    by_name = new("restore", "--replace", str(saved), HANDSPAN_CONFIG=str(tmp_path / "d" / "config.toml"))
    assert by_name.returncode == 0 and (tmp_path / "d" / "config.toml").exists(), by_name.stderr


@pytest.mark.outside
def test_long_work_shows_at_a_terminal_how_far_it_is_and_in_a_pipe_nothing(run: Shell, tmp_path: Path) -> None:
    note, saved = tmp_path / "note.txt", tmp_path / "saved.tar.gz"
    note.write_bytes(b"x" * 600_000)
    with serving(run):
        assert re.search(r"Sending note.txt: \d+% of 600.0 kB", run.on_screen("artifacts", "add", str(note)))
        assert run("artifacts", "add", str(note)).stderr == ""
    assert re.search(r"Saving: \d+% of", run.on_screen("backup", str(saved)))
    restored = run.on_screen("restore", "--replace", str(saved))
    assert re.search(r"Checking: \d+% of.*Restoring: \d+% of", restored, re.DOTALL)
    assert restored.rstrip().endswith("`handspan store check` looks whether all fits together.")
    assert run("backup", str(tmp_path / "again.tar.gz")).stderr == ""


@pytest.mark.outside
def test_a_restore_is_refused_while_a_gateway_runs_and_for_other_files(run: Shell, tmp_path: Path) -> None:
    run("chat", TIME)
    file = tmp_path / "saved.tar.gz"
    run("backup", str(file))
    with serving(run):
        refused = run("restore", str(file), "--replace", "--json")
        error = json.loads(refused.stdout)["error"]
        assert refused.returncode == 1 and "serves the state folder" in error and "End it first" in error
        assert "--state" not in error, "another folder does not help here"
    (tmp_path / "text").write_text("no archive")
    assert "can't be put back" in run("restore", str(tmp_path / "text")).stderr
    half = tmp_path / "half.tar.gz"
    half.write_bytes(file.read_bytes()[:-2000])
    assert run("restore", str(half), "--replace").returncode == 1
    assert len(json.loads(run("sessions", "--json").stdout)) == 1, "nothing was moved aside"
    with tarfile.open(tmp_path / "foreign.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "text", "text")
    assert "no backup of Handspan" in run("restore", str(tmp_path / "foreign.tar.gz"), "--replace").stderr


def test_an_archive_that_leads_out_of_its_folders_writes_nothing_there(run: Shell, tmp_path: Path) -> None:
    run("chat", TIME)
    file = tmp_path / "saved.tar.gz"
    run("backup", str(file))
    hostile = tmp_path / "hostile.tar.gz"
    (tmp_path / "evil").write_text("evil")
    with tarfile.open(file) as good, tarfile.open(hostile, "w:gz") as bad:
        for member in good:
            bad.addfile(member, good.extractfile(member))
        for name in ("state/../../escaped", "config/x/../../../escaped", "elsewhere/escaped", "state"):
            bad.add(tmp_path / "evil", name)
        link = tarfile.TarInfo("state/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        bad.addfile(link)
    other = Shell(tmp_path / "home" / "other")
    other.home.mkdir(parents=True)
    assert other("restore", str(hostile)).returncode == 0
    assert not list(tmp_path.rglob("escaped")) and not (other.state / "link").exists()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("sessions", "show", "nope", "--json"), (1, "not_found"), "There is no session 'nope'"),
        (("sessions", "--json", "--limit", "x"), (2, "usage"), "not a valid integer"),
        (("tols", "--json"), (2, "usage"), "Did you mean 'tools'"),
        (("reload", "--json"), (1, "settings"), "No gateway serves"),
        (("chat", "--json", "--agent", "nope", "hi"), (1, "not_found"), "There is no agent 'nope'"),
    ],
)
def test_an_error_under_json_is_json(run: Shell, words: tuple[str, ...], code: tuple[int, str], said: str) -> None:
    done = run(*words)
    told = json.loads(done.stdout)
    assert (done.returncode, told["code"], done.stderr) == (*code, "")
    assert said in told["error"]


@pytest.mark.outside
def test_the_version_in_every_way(run: Shell) -> None:
    version = json.loads(run("version", "--json").stdout)["version"]
    assert run("version").stdout == f"handspan {version}\n"
    module = subprocess.run(
        [COMMAND[0], "-m", "handspan", "version"],
        env=run.environ(),
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=True,
    )
    assert module.stdout == f"handspan {version}\n"


def completions(run: Shell, *words: str) -> list[str]:
    done = subprocess.run(
        COMMAND,
        env=run.environ(
            _HANDSPAN_COMPLETE="bash_complete", COMP_WORDS=" ".join(["handspan", *words]), COMP_CWORD=str(len(words))
        ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


@pytest.mark.outside
def test_a_shell_completes_commands_tools_agents_and_sessions(run: Shell) -> None:
    session = json_lines(run("chat", "--json", TIME))[0]["id"]
    assert completions(run, "sess") == ["sessions"]
    assert completions(run, "call", "get_") == ["get_current_time"]
    assert completions(run, "chat", "--agent", "Ge") == ["General"]
    assert completions(run, "sessions", "show", session[:4]) == [session]
    assert "last" in completions(run, "chat", "--session", "l")
    assert completions(run, "skills", "show", "summ") == ["summarise-file"]
    run.config("nonsense = 1\n")
    assert completions(run, "call", "get_") == [], "settings that can't be used are no noise in a shell"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.outside
def test_each_shell_takes_its_script_and_gets_names_from_it(run: Shell, tmp_path: Path, shell: str) -> None:
    script = tmp_path / "script"
    done = run("completion", shell, PATH=os.environ["PATH"])
    assert done.returncode == 0 and f"_HANDSPAN_COMPLETE={shell}_complete" in done.stdout
    script.write_text(done.stdout)
    if shutil.which(shell):  # not every computer has all three
        subprocess.run([shell, "-n", str(script)], check=True, timeout=60)
    count = "get_" if shell == "fish" else "2"  # fish hands the word itself over
    words = {"COMP_WORDS": "handspan call get_", "COMP_CWORD": count, "_HANDSPAN_COMPLETE": f"{shell}_complete"}
    assert "get_current_time" in run.started(**words).stdout


@pytest.mark.outside
def test_fish_shows_the_whole_description_of_a_name(run: Shell, tmp_path: Path) -> None:
    said = "Add two numbers, and return their sum, rounded."
    run.tool("adding", f'from handspan import tool\n\n@tool\ndef adding(a: int) -> int:\n    "{said}"\n    return a\n')
    script = run("completion", "fish").stdout
    words = {"COMP_WORDS": "handspan call addi", "COMP_CWORD": "addi", "_HANDSPAN_COMPLETE": "fish_complete"}
    (line,) = run.started(**words).stdout.splitlines()
    assert line == f"plain,adding\t{said}" and '(string split -m 1 "," $completion)' in script
    if shutil.which("fish"):  # not every computer has it
        file = tmp_path / "handspan.fish"
        file.write_text(script)
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "handspan").symlink_to(Path(sys.executable).with_name("handspan"))
        shown = subprocess.run(
            ["fish", "--no-config", "-c", f"source {file}; complete -C 'handspan call addi'"],
            env=run.environ(PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}"),
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=True,
        )
        assert shown.stdout == f"adding\t{said}\n", shown.stderr


@pytest.mark.outside
def test_the_journal_is_followed_as_calls_end(run: Shell) -> None:
    assert "there is nothing to follow" in run("calls", "--follow").stderr
    with serving(run):
        run("call", "get_current_time")
        with run.at_terminal("calls", "--follow", "--json") as terminal:
            terminal.until(r'"tool":"get_current_time"')
            assert run("call", "list_directory", '{"path": "."}').returncode == 0
            terminal.until(r'"tool":"list_directory"[^\n]*"status":"success"')
            assert run("call", "read_file", '{"path": "missing"}').returncode == 1
            terminal.until(r'"status":"file_not_found"')
            terminal.type("\x03")
            assert terminal.ended() == 130


def test_a_call_is_shown_in_full_and_filters_hold(run: Shell) -> None:
    run("call", "get_current_time", '{"timezone": "Asia/Tokyo"}')
    run("call", "read_file", '{"path": "missing"}')

    def listed(*words: str) -> list[Any]:
        found: list[Any] = json.loads(run("calls", "--json", *words).stdout)
        return found

    unknown = run("calls", "--status", "nope")
    assert unknown.returncode == 2 and "'nope' is not one of 'success', 'error', 'open'" in unknown.stderr
    (failed,) = listed("--status", "error", "--origin", "builtin", "--since", "today")
    assert failed["tool"] == "read_file"
    assert listed("--until", "2020-01-01") == [] and len(listed("--since", "2020-01-01T12:00")) == 2
    shown = run("calls", "show", failed["id"]).stdout
    assert '"path": "missing"' in shown and "status:" in shown and "file_not_found" in shown
    assert run("calls", "--since", "soon").returncode == 2


def test_the_example_of_a_settings_file_changes_nothing_and_each_line_of_it_can_be_used(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(example_file(), encoding="utf-8")
    environ = {"HOME": str(tmp_path)}
    defaults = load_settings(None, environ)
    assert load_settings(file, environ) == defaults
    used, is_named = [], False
    for line in example_file().splitlines():
        if line.startswith("#["):
            is_named = ".NAME" in line
        if line.startswith("#") and line[1:2] not in ("", " ") and not is_named:
            used.append(line[1:])
    file.write_text("\n".join(used), encoding="utf-8")
    assert len(used) > 60 and load_settings(file, environ) == defaults


def test_config_says_where_the_file_is_and_whether_it_can_be_used(run: Shell, tmp_path: Path) -> None:
    path = run("config", "path").stdout.strip()
    assert path == str(run.home / ".config" / "handspan" / "config.toml")
    assert run("config", "check").returncode == 0
    run.config("gateway.port = 70000\n")
    assert run("config", "check").returncode == 1 and "gateway.port" in run("config", "check").stderr
    good = tmp_path / "good.toml"
    good.write_text("gateway.port = 7000\n")
    assert json.loads(run("config", "check", str(good), "--json").stdout) == {"file": str(good), "ok": True}
    run.config("")
    shown = run("config", "show", "tools.sandbox").stdout
    assert "tools.sandbox.network" in shown and "gateway.port" not in shown
    assert run("config", "show", "tools.nope").returncode == 2


@pytest.mark.outside
def test_sessions_are_exported_and_found(run: Shell, tmp_path: Path) -> None:
    run("chat", TIME)
    markdown = run("sessions", "export", "last").stdout
    assert markdown.startswith(f"# {TIME}\n") and "**Call of get_current_time**" in markdown
    file = tmp_path / "session.json"
    assert run("sessions", "export", "last", "--json", "-o", str(file)).returncode == 0
    assert json.loads(file.read_text())["session"]["name"] == TIME
    assert run("sessions", "export", "last", "-o", str(file)).returncode == 1
    (found,) = json.loads(run("sessions", "search", "tokyo", "--json").stdout)
    assert found["session"]["name"] == TIME
    assert run("sessions", "delete", "last").returncode == 0
    assert json.loads(run("sessions", "--json").stdout) == []


@pytest.mark.outside
def test_an_exported_session_has_the_texts_that_were_sent_with_its_messages(run: Shell, tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("milk\n```\neggs\n")
    assert run("chat", "--attach", str(notes), "hello").returncode == 0
    expected = "## You\n\nhello\n\n[file: notes.txt]\n\n````\nmilk\n```\neggs\n````\n"
    assert expected in run("sessions", "export", "last").stdout
    assert expected in run("sessions", "show", "last").stdout
    assert list(json.loads(run("sessions", "export", "last", "--json").stdout)["texts"].values()) == [notes.read_text()]


@pytest.mark.outside
def test_a_narrow_terminal_shortens_ids_and_texts_and_keeps_every_column(run: Shell) -> None:
    run("chat", TIME)
    (call,) = json.loads(run("calls", "--json").stdout)
    (session,) = json.loads(run("sessions", "--json").stdout)
    heading, row = run.on_screen("calls", "--embedded", COLUMNS="80").splitlines()[-2:]
    assert heading.split() == ["id", "tool", "origin", "agent", "model", "status", "at", "took"]
    assert row.startswith(f"{call['id'][:8]}… ") and " success " in row and " ms" in row and len(row) <= 80
    listed = run.on_screen("sessions", COLUMNS="60").splitlines()[-1]
    assert listed.startswith(f"{session['session_id'][:8]}…") and session["name"][:8] in listed and len(listed) <= 60
    setting = next(line for line in run.on_screen("config", COLUMNS="60").splitlines() if line.startswith("workspace"))
    assert re.fullmatch(r"workspace +/\S+…  default", setting) and len(setting) <= 60
    assert call["id"] in run("calls").stdout, "a pipe gets all"
    for words, whole in ((("calls", "show"), call["id"]), (("sessions", "show"), session["session_id"])):
        assert run(*words, f"{whole[:8]}…").returncode == run(*words, whole[:8]).returncode == 0
        assert run(*words, whole[:7]).returncode == 1, "too little to be sure"
