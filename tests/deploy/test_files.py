"""The files in `deploy/` are accepted by the programs that read them, and a gateway behind a proxy works."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from handspan.config.load import load_settings
from tests.docs.repository import ROOT
from tests.waiting import WAIT

DEPLOY: Final = ROOT / "deploy"


def needs(program: str, package: str) -> pytest.MarkDecorator:
    """Skip where this program is not there, and say how it comes."""
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"needs {program}: apt-get install {package}")


def run(*words: str) -> str:
    """What a program printed; it has to succeed."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=WAIT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@needs("systemd-analyze", "systemd")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    text = (DEPLOY / "handspan.service").read_text(encoding="utf-8")
    (program,) = re.findall(r"^ExecStart=(\S+) serve$", text, re.MULTILINE)
    unit = tmp_path / "handspan.service"
    unit.write_text(text.replace(program, shutil.which("env") or ""), encoding="utf-8")  # it looks for the program
    assert "handspan.service" not in run("systemd-analyze", "verify", str(unit))


@needs("caddy", "caddy")
def test_caddy_takes_its_file() -> None:
    said = run("caddy", "validate", "--adapter", "caddyfile", "--config", f"{DEPLOY}/Caddyfile")
    assert "Valid configuration" in said


@pytest.mark.parametrize("name", ["handspan.service", "Containerfile"])
def test_variables_are_settings(name: str, tmp_path: Path) -> None:
    text = (DEPLOY / name).read_text(encoding="utf-8")
    variables = dict(re.findall(r"\b(HANDSPAN_\w+)=(\S+)", text))
    assert {"HANDSPAN_STATE", "HANDSPAN_WORKSPACE"} <= variables.keys()
    settings = load_settings(None, {"HOME": str(tmp_path), **variables})
    assert str(settings.state) == variables["HANDSPAN_STATE"]


def test_what_the_container_copies_is_in_a_checkout() -> None:
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    named = " ".join(re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE)).split()
    assert named and not [name for name in named if not (ROOT / name).exists()]
