"""Every program of docs/embedding.md runs as it stands there, and passes a type checker."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import handspan
from handspan import Handspan, HandspanError

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "embedding.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
HEADINGS = [
    re.findall(r"^#+ (.+)$", PAGE[: PAGE.index(program)], re.MULTILINE)[-1].replace(" ", "_") for program in PROGRAMS
]


@pytest.mark.parametrize("program", PROGRAMS, ids=HEADINGS)
def test_a_program_runs_in_an_empty_folder_and_leaves_nothing(program: str, tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    keep = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    environment = {**keep, "HOME": str(tmp_path), "TMPDIR": str(tmp_path / "tmp")}
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done
    assert [name for _, folders, files in os.walk(tmp_path) for name in (*folders, *files)] == ["tmp"]


def test_the_programs_pass_the_strict_type_checker(tmp_path: Path) -> None:
    files = [tmp_path / f"program_{number}.py" for number in range(len(PROGRAMS))]
    for file, program in zip(files, PROGRAMS, strict=True):
        file.write_text(program, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), *map(str, files)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_every_error_of_the_page_is_imported_from_the_package() -> None:
    table = PAGE.split("| raised by |")[1].split("\n\n")[0]
    errors = {*re.findall(r" \| `(\w+)` \|", table)} - {"TimeoutError"}
    assert {"ConfigError", "AskFailed"} <= errors <= {*handspan.__all__}
    assert all(issubclass(getattr(handspan, name), HandspanError) for name in errors)


def test_every_option_is_explained() -> None:

    names = set(Handspan.__init__.__annotations__) - {"return"}
    assert names == set(re.findall(r"^\| `(\w+)` \|", PAGE.split("## Options")[1], re.MULTILINE))
