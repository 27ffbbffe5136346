"""What every test may ask for."""

import faulthandler
import gc
import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest

from handspan.bus.memory import STRICT_VARIABLE
from handspan.core.context import ToolContext
from handspan.core.principals import OPERATOR
from handspan.core.values import Json
from tests.certificates import read_certificates_once
from tests.inside import stay_inside
from tests.scratch import keep_files_in_memory
from tests.stores import open_artifacts
from tests.thoroughness import IS_QUICK, choose_profile

_LONGEST_TEARDOWN = 300.0

os.environ[STRICT_VARIABLE] = "1"  # for gateways in processes of their own, too: only plain values may be in events
signal.signal(signal.SIGINT, signal.default_int_handler)  # a run in the background would ignore it, and all it starts
choose_profile()
keep_files_in_memory()
read_certificates_once()


def pytest_collection_finish() -> None:
    """Let the garbage collector look no more at what stays: the tests themselves, and the libraries that they load."""
    gc.collect()
    gc.freeze()
    if IS_QUICK:
        stay_inside()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None]:
    """End the process, and print all its stacks, when the teardown of a test hangs.

    pytest guards this no more after a failure: the time limit has passed, and `faulthandler_timeout` is off.
    """
    faulthandler.dump_traceback_later(_LONGEST_TEARDOWN, exit=True, file=2)
    yield


@pytest.fixture
def anyio_backend() -> str:
    """Async tests (marked `anyio`) run on asyncio, as the product does."""
    return "asyncio"


@pytest.fixture
def progress() -> list[Json]:
    """What the tool under test reported while it ran."""
    return []


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """An empty workspace folder."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def ctx(tmp_path: Path, workspace: Path, progress: list[Json]) -> ToolContext:
    """A context for running one tool by hand."""
    artifacts = open_artifacts(tmp_path / "artifacts")
    return ToolContext("call-1", OPERATOR, "session-1", None, progress.append, artifacts, workspace)
