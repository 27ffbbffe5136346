"""The fixtures of the engine's tests."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engine.engine_kit import EngineKit, left_behind

MakeKit = Callable[..., EngineKit]


@pytest.fixture
async def make_kit(tmp_path: Path) -> AsyncIterator[MakeKit]:
    """Makes kits, and closes them after the test. No task may be left behind."""
    kits: list[EngineKit] = []

    def make(**options: Any) -> EngineKit:
        kits.append(EngineKit(tmp_path, **options))
        return kits[-1]

    yield make
    for kit in kits:
        await kit.engine.close()
        assert not kit.engine.watchdog._is_busy(), "a call still has a slot"
    assert left_behind() == []


@pytest.fixture
def kit(make_kit: MakeKit) -> EngineKit:
    """A kit with default options."""
    return make_kit()
