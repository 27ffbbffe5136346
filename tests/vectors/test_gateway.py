"""Every case of the gateway, by the real one."""

from pathlib import Path

import pytest

from handspan.testing import running_gateway
from tests.vectors.cases import Case, cases
from tests.vectors.gateway_player import GatewayPlayer

pytestmark = pytest.mark.anyio

CASES = dict(cases("gateway"))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
async def test_gateway_does_what_the_case_says(case: Case, tmp_path: Path) -> None:
    waits = any("grace" in step for step in case.steps)
    door = {"resume_grace": 0.2 if waits else 60.0}
    async with running_gateway(tmp_path, gateway=door, channels={"page": {}}) as gateway:
        await GatewayPlayer(gateway).walk(case)
