"""Every case of the gateway, by the real one."""

from pathlib import Path
from typing import Any

import pytest

from handspan.testing import running_gateway
from tests.vectors.cases import Case, cases
from tests.vectors.gateway_player import GatewayPlayer

pytestmark = pytest.mark.anyio

CASES = dict(cases("gateway"))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
async def test_gateway_does_what_the_case_says(case: Case, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"resume_grace": 0.2} if any("grace" in step for step in case.steps) else {}
    if case.settings:
        settings["limits"] = case.settings
    async with running_gateway(tmp_path, gateway=settings) as gateway:
        await GatewayPlayer(gateway).walk(case)
