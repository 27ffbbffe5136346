"""Every bus that there is: each has to keep the same promises."""

import pytest

from handspan.bus.memory import MemoryBus
from handspan.core.bus import Bus


@pytest.fixture(params=["memory", "memory, strict"])
def bus(request: pytest.FixtureRequest) -> Bus:
    """A bus without listeners."""
    return MemoryBus(strict=request.param == "memory, strict")
