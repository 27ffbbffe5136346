"""A gateway, and a desk: the folders of a person whose apps are bridged to it."""

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from handspan.testing import RunningGateway, running_gateway
from tests.bridge.desk import Desk


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[RunningGateway]:
    """A gateway whose calls of `…__hang` end soon."""
    timeouts = {"*__hang": 0.3}
    async with running_gateway(tmp_path / "gateway", tools={"timeouts": timeouts}) as running:
        yield running


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """A desk without apps."""
    run_folder = Path(tempfile.mkdtemp(prefix="cetp"))  # addresses of sockets are short
    desk = Desk(tmp_path / "home", run_folder)
    yield desk
    desk.end_programs()
    shutil.rmtree(run_folder)
