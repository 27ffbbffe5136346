"""What tests of tools may ask for."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def on_disk() -> Iterator[Path]:
    """A folder that a sandbox can see by its own path. `tmp_path` may be in /dev/shm, and a sandbox has its own one."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as path:
        yield Path(path).resolve()
