"""The tests in this folder are about SQLite itself."""

import pytest

from tests.stores import CHOSEN


@pytest.fixture(autouse=True)
def backend(monkeypatch: pytest.MonkeyPatch) -> str:
    """No other database than this one."""
    monkeypatch.setenv(CHOSEN, "sqlite")
    return "sqlite"
