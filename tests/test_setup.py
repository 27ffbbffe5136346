"""What is installed when: for serving, for developing, and for the SDK alone. `make release-check` tries the wheels."""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
SDK = ROOT / "sdks" / "python" / "pyproject.toml"
LATE = ROOT / "src" / "handspan" / "core" / "late_imports.py"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The files that decide what is set up, as a fresh clone has them."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "setup", tmp_path / "scripts")
    return tmp_path


def steps(project: Path, target: str) -> list[str]:
    """The set-up that `make` would do before this target."""
    done = subprocess.run(["make", "-n", "-C", str(project), target], capture_output=True, text=True, check=True)
    return [line.split()[-1] for line in done.stdout.splitlines() if "scripts/setup" in line]


def test_serving_sets_up_what_it_needs_and_developing_adds_the_rest(project: Path) -> None:
    assert steps(project, "serve") == ["serve"] and steps(project, "check") == ["all"]
    (project / ".venv").mkdir()
    (project / ".venv" / ".serves").touch()
    assert steps(project, "serve") == [] and steps(project, "check") == ["all"]
    (project / ".venv" / ".ready").touch()
    assert steps(project, "check") == []


def test_a_set_up_of_another_name_is_refused(project: Path) -> None:
    script = project / "scripts" / "setup"
    done = subprocess.run([str(script), "server"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "setup: there is no server: say serve or all\n")
    assert not (project / ".venv").exists()


def test_the_sdk_alone_holds_the_rooms_of_the_client_and_needs_what_they_import() -> None:
    sdk, whole = (tomllib.loads(file.read_text(encoding="utf-8")) for file in (SDK, ROOT / "pyproject.toml"))
    included = sdk["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    sources = [(SDK.parent / name).resolve() for name in included]
    rooms = {source.name for source in sources if source.is_dir()}
    assert rooms == {"core", "wire", "client", "provider", "bridge"}
    names = {late_names().get(name, name) for source in sources for name in imported(source)}
    foreign = {name for name in names if name not in sys.stdlib_module_names}
    assert foreign - {"handspan"} == {name.split(">")[0].replace("-", "_") for name in dependencies(sdk)}
    assert dependencies(sdk) <= dependencies(whole), "the same versions as in the whole package"


def dependencies(project: dict[str, Any]) -> set[str]:
    return set(project["project"]["dependencies"])


def imported(source: Path) -> Iterator[str]:
    """The first parts of the names of all modules that these files import, also late: then their names in the table."""
    for file in [source] if source.suffix == ".py" else source.rglob("*.py"):
        if file.name == LATE.name:
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                yield from (alias.name.split(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module == "handspan.core.late_imports":
                yield from (alias.name for alias in node.names if alias.name in late_names())
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield node.module.split(".")[0]


@cache
def late_names() -> dict[str, str]:
    """The modules of the table of late imports: the name there, and the first part of the module's own name."""
    text = LATE.read_text(encoding="utf-8")
    return dict(re.findall(r'(?m)^    (\w+) = LateModule\("(\w+)', text))


def test_a_name_that_the_sdk_alone_does_not_have_says_where_it_is(tmp_path: Path) -> None:
    for name in ("__init__.py", "core", "wire", "client"):
        (tmp_path / "handspan").mkdir(exist_ok=True)
        (tmp_path / "handspan" / name).symlink_to(ROOT / "src" / "handspan" / name)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport handspan.client\nfrom handspan import Handspan"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip().endswith(
        "handspan.Handspan is not part of the SDK alone. The whole package has it: pip install handspan"
    )
