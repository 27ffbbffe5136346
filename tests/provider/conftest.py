"""Folders and environments of providers."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def run_folder() -> Iterator[Path]:
    """A folder for sockets: its path is short, because addresses of sockets are."""
    folder = Path(tempfile.mkdtemp(prefix="cetp"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def environment(tmp_path: Path, run_folder: Path) -> dict[str, str]:
    """The variables of a person whose folders are empty."""
    return {
        "HOME": str(tmp_path),
        "XDG_RUNTIME_DIR": str(run_folder),
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "XDG_DATA_DIRS": str(tmp_path / "system"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "PATH": "/usr/bin:/bin",
    }
