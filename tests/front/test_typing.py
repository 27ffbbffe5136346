"""Type checkers see the functions that `@tool` decorates, and the types of answers: mypy and pyright both."""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("typed_program.py")
WRONG = {number for number, line in enumerate(PROGRAM.read_text().splitlines(), 1) if line.endswith("# wrong")}


def test_mypy_sees_the_types_of_a_program(tmp_path: Path) -> None:
    command = ["mypy", "--strict", "--no-error-summary", "--cache-dir", str(tmp_path), str(PROGRAM)]
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert {int(number) for number in re.findall(r":(\d+): error:", done.stdout)} == WRONG, done.stdout + done.stderr


def test_pyright_sees_the_types_of_a_program(tmp_path: Path) -> None:
    settings = tmp_path / "pyrightconfig.json"
    rules = {"typeCheckingMode": "standard", "include": [str(PROGRAM)], "extraPaths": [str(ROOT / "src")]}
    settings.write_text(json.dumps(rules))
    command = ["basedpyright", "--outputjson", "--project", str(settings), "--pythonpath", sys.executable]
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)["generalDiagnostics"]
    errors = {one["range"]["start"]["line"] + 1 for one in found if one["severity"] == "error"}
    assert errors == WRONG, json.dumps(found, indent=1)
