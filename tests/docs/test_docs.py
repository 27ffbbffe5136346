"""The pages of `docs/`: each is in the table of contents, and its commands, programs and settings are real."""

import json
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Final

import click
import pytest
from scripts import troubleshooting_page

from handspan.cli.main import handspan
from handspan.client import Client
from handspan.config.load import load_settings
from handspan.core.error_help import ERROR_HELP
from handspan.core.errors import ERROR_TYPES
from tests.cli.shell import Shell
from tests.docs.repository import ROOT

DOCS: Final = sorted((ROOT / "docs").glob("*.md"))
PAGES: Final = [*DOCS, ROOT / "README.md", ROOT / "SECURITY.md", ROOT / "sdks" / "typescript" / "README.md"]
BLOCK: Final = re.compile(r"^ *```(\w+)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
COMMAND: Final = re.compile(r"`(handspan [a-z][^`]*)`")
NAMES: Final = ("handspan writer PID", "handspan reader PID", "handspan lease PID")
"""No commands: how PostgreSQL sees our connections."""
RUN: Final = ("start.md", "own_tools.md", "agents.md", "models.md")
"""Pages whose commands are run; of the others every command and option is looked up."""
NOT_RUN: Final = ("make ", "uvx ", "pipx ", "pip ", "export ")
"""How commands begin that install something: `make release-check` tries these."""


def blocks(page: Path, *languages: str) -> Iterator[str]:
    """The blocks of a page in these languages, without the indentation of a list."""
    for language, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        if language in languages:
            indent = len(text) - len(text.lstrip(" "))
            yield "\n".join(line[indent:] for line in text.splitlines())


def steps(page: Path) -> Iterator[tuple[str, str]]:
    """Each command of a page's console blocks, and what the page shows as its output."""
    for block in blocks(page, "console"):
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = step.partition("\n")
            yield re.split(r"\s{2,}#", command)[0].strip(), shown.strip()


def commands(page: Path) -> Iterator[str]:
    """Every command of ours on a page: in console blocks, and in running text."""
    yield from (command for command, _ in steps(page) if command.startswith("handspan "))
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    yield from (" ".join(found.split()) for found in COMMAND.findall(text) if found not in NAMES)


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_every_page_is_in_the_table_of_contents(page: Path) -> None:
    contents = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    assert page.name == "README.md" or f"({page.name})" in contents


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_and_option_exists(page: Path) -> None:
    assert [problem for text in commands(page) if (problem := problem_of(text))] == []


def problem_of(text: str) -> str:
    """What is wrong with a command; empty if nothing is."""
    words = list(takewhile(lambda word: word not in ("|", ">", "--"), shlex.split(text)[1:]))
    found: click.Command = handspan
    known: set[str] = set()
    context = click.Context(found)
    while True:
        known |= {name for one in found.get_params(context) for name in (*one.opts, *one.secondary_opts)}
        is_group = isinstance(found, click.Group)
        words = words[1:] if words and words[0] in known and not is_group else words
        if not (is_group and words and re.fullmatch(r"[a-z][a-z-]*", words[0])):
            break
        inner = found.get_command(context, words[0]) if isinstance(found, click.Group) else None
        if inner is None:
            return f"{text}: there is no command {words[0]!r}"
        found, words = inner, words[1:]
    wrong = [word for word in words if re.match(r"--?[a-z]", word) and word.partition("=")[0] not in known]
    return f"{text}: there is no option {wrong[0]!r}" if wrong else ""


@pytest.fixture
def run(tmp_path: Path) -> Shell:
    """The command, with a home of its own."""
    return Shell(tmp_path)


@pytest.mark.parametrize("page", RUN)
def test_commands_work_and_print_what_is_shown(run: Shell, page: str) -> None:
    file = ROOT / "docs" / page
    for number, program in enumerate(blocks(file, "python")):
        run.tool(f"page{number}", program)
    ran = 0
    for command, shown in steps(file):
        if command.startswith(NOT_RUN):
            continue
        done = run(*shlex.split(command)[1:], OLLAMA_HOST="127.0.0.1:1")
        # `doctor` ends with 1 where something is missing on this machine.
        assert done.returncode in ((0, 1) if "doctor" in command else (0,)), (command, done.stdout, done.stderr)
        if shown:
            assert re.fullmatch(re.escape(shown).replace("…", ".*"), done.stdout.strip()), (command, done.stdout)
        ran += 1
    assert ran


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_settings_of_a_page_can_be_used(page: Path, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    for text in blocks(page, "toml"):
        tomllib.loads(text)
        file.write_text(text, encoding="utf-8")
        assert load_settings(file, {"HOME": str(tmp_path)}).state.is_absolute()


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_shell_lines_and_programs_can_be_read(page: Path) -> None:
    for text in blocks(page, "sh"):
        subprocess.run(["bash", "-n", "-c", text], check=True, timeout=60)
    for text in blocks(page, "python"):
        compile(text, page.name, "exec")
    for text in blocks(page, "json"):
        assert json.loads(text)


def test_the_device_of_the_page_is_one() -> None:
    (program,) = blocks(ROOT / "docs" / "devices.md", "python")
    namespace: dict[str, object] = {"__name__": "lamp"}
    exec(program, namespace)
    assert isinstance(namespace["lamp"], Client)


def test_every_error_code_has_its_remedy_on_the_page() -> None:
    assert list(ERROR_HELP) == list(ERROR_TYPES)
    assert troubleshooting_page.PAGE.read_text(encoding="utf-8") == troubleshooting_page.page(), "Run `make docs`."
