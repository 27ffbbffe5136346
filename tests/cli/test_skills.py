"""`handspan skills` (SPEC A3)."""

import json
import re
from pathlib import Path

import pytest

from tests.cli.shell import Shell

pytestmark = pytest.mark.outside

GREET = "---\nname: greet\ndescription: Greets people.\n---\nSay hello to {{who}}.\n"


@pytest.fixture
def run(tmp_path: Path) -> Shell:
    shell = Shell(tmp_path)
    folder = shell.workspace / ".handspan" / "skills" / "greet"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(GREET, encoding="utf-8")
    return shell


def test_what_is_not_there_is_told(run: Shell) -> None:
    for words in (("show", "nope"), ("enable", "nope", "--yes"), ("disable", "nope")):
        done = run("skills", *words)
        assert done.returncode == 1
        assert "nope" in done.stderr and "Traceback" not in done.stderr


def test_a_skill_of_the_workspace_is_off_until_a_person_has_seen_and_enabled_it(run: Shell) -> None:
    listed = {skill["name"]: skill for skill in json.loads(run("skills", "--json").stdout)}
    assert listed["greet"]["enabled"] is False and listed["summarise-file"]["enabled"] is True
    assert "off until a person enables it" in run("skills").stdout
    on_narrow = run.on_screen("skills", COLUMNS="40").splitlines()
    assert max(map(len, on_narrow)) <= 40 and sum(line.startswith(" " * 11) for line in on_narrow) > 1
    assert "Say hello" in run("skills", "show", "greet").stdout
    refused = run("skills", "enable", "greet", given="n\n")
    assert refused.returncode == 1 and "Say hello" in refused.stdout
    assert "can be used" in run("skills", "enable", "greet", given="y\n").stdout
    assert "already" in run("skills", "enable", "greet", "--yes").stdout
    assert run("skills").stdout.startswith("available  greet")


def test_the_tools_of_a_skill_are_shown(run: Shell) -> None:
    assert run("skills", "show", "greet").stdout.startswith("Tools while it is on: those of the agent\n\nSay hello")
    builtin = run("skills", "show", "summarise-file").stdout
    assert builtin.startswith("Tools while it is on: read_file, list_directory, read_artifact\n\nSummarise")
    assert "Tools while it is on" in run("skills", "enable", "greet", given="n\n").stdout
    listed = {skill["name"]: skill["allowed_tools"] for skill in json.loads(run("skills", "--json").stdout)}
    assert listed == {"greet": None, "summarise-file": ["read_file", "list_directory", "read_artifact"]}


def test_the_skill_of_the_page_can_be_used(run: Shell) -> None:
    page = (Path(__file__).parents[2] / "docs" / "agents.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"^```markdown\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    folder = run.workspace / ".handspan" / "skills" / "weekly-report"
    folder.mkdir()
    (folder / "SKILL.md").write_text(text, encoding="utf-8")
    shown = run("skills", "show", "weekly-report").stdout
    assert shown.startswith(
        "Tools while it is on: list_directory, read_file, write_file\n\nRead the notes of week {{week}}"
    )


def test_ctrl_c_at_the_question_ends_the_command_with_130(run: Shell) -> None:
    with run.at_terminal("skills", "enable", "greet") as terminal:
        terminal.until(r"Let agents follow 'greet'\? \[y/N\]: ")
        assert terminal.ended_by_ctrl_c() == 130
    assert run("skills").stdout.startswith("off        greet")


def test_a_changed_skill_is_off_again_and_disable_takes_it_back(run: Shell) -> None:
    run("skills", "enable", "greet", "--yes")
    file = run.workspace / ".handspan" / "skills" / "greet" / "SKILL.md"
    file.write_text(GREET.replace("hello", "goodbye"), encoding="utf-8")
    assert run("skills").stdout.startswith("off        greet")
    run("skills", "enable", "greet", "--yes")
    assert "can't be used any more" in run("skills", "disable", "greet").stdout
    assert run("skills").stdout.startswith("off        greet")
