"""What every test of the command line may ask for."""

from pathlib import Path

import pytest

from tests.cli.shell import Shell


@pytest.fixture
def run(tmp_path: Path) -> Shell:
    """The command, with a home of its own."""
    return Shell(tmp_path)
