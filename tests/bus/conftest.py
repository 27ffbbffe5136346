"""Every bus that there is: each has to keep the same promises."""

from collections.abc import Iterator

import pytest

from handspan.bus.memory import MemoryBus
from handspan.bus.nats import NatsBus
from handspan.core.bus import Bus
from tests.nats_engine import NatsEngine, need_server


@pytest.fixture(params=["memory", "memory, strict", "nats", "nats, strict"])
def bus(request: pytest.FixtureRequest) -> Bus:
    """A bus without listeners. That of NATS is between nodes in `test_nats.py`; here it has only its own listeners."""
    kind, is_strict = request.param.partition(",")[0], "strict" in request.param
    return MemoryBus(strict=is_strict) if kind == "memory" else NatsBus(strict=is_strict)


@pytest.fixture(scope="module")
def engine() -> Iterator[NatsEngine]:
    """A running NATS server."""
    need_server()
    with NatsEngine() as server:
        yield server
