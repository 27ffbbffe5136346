"""How long `make serve` takes on a machine that has nothing of ours: from the command to the gateway's first line."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

from bench.figures import Figure

ROOT = Path(__file__).parents[1]
_PERSONAL = ("HANDSPAN_", "XDG_", "VIRTUAL_ENV", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE")


async def measure(folder: Path) -> Iterable[Figure]:
    """`serve_setup_s`. It depends on the package index, so it is printed beside a wish, and is no line."""
    project = folder / "fresh"
    _copy_tracked(project)
    seconds, packages = _serve(project, folder / "home")
    return [Figure("serve_setup_s", seconds, f"s, {packages} packages", target=40)]


def _copy_tracked(project: Path) -> None:
    names = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, check=True).stdout
    for name in filter(None, names.decode().split("\0")):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, project / name)


def _serve(project: Path, home: Path) -> tuple[float, int]:
    """The seconds to the first line of the gateway itself, and the number of packages that were installed."""
    home.mkdir()
    command = ["make", "--no-print-directory", "-C", str(project), "serve"]
    began = time.perf_counter()
    with subprocess.Popen(
        command, env=_environment(home), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, process_group=0
    ) as process:
        assert process.stdout is not None
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith("Page"):
                break
        seconds = time.perf_counter() - began
        os.killpg(process.pid, signal.SIGTERM)
        process.stdout.read()
    if not lines or not lines[-1].startswith("Page"):
        raise RuntimeError(f"`make serve` did not come to serve: {''.join(lines)}")
    return seconds, sum(line.startswith(" + ") for line in lines)


def _environment(home: Path) -> dict[str, str]:
    """An empty home without caches. How packages are reached on this machine stays in force."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_PERSONAL)}
    pip = Path(os.environ.get("PIP_CONFIG_FILE") or Path.home() / ".config" / "pip" / "pip.conf")
    return {**kept, "HOME": str(home), "HANDSPAN_GATEWAY__PORT": "0", "PIP_CONFIG_FILE": str(pip)}
