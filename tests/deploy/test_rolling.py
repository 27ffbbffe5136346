"""Nodes are restarted one after the other behind the proxies of `deploy/cluster/`: no request fails (SPEC K6)."""

from pathlib import Path
from typing import Final

import pytest

from tests.deploy.rolling import Command, roll
from tests.deploy.test_balancing import caddy_command, nginx_command
from tests.deploy.test_files import needs

pytestmark = pytest.mark.anyio
CALLS: Final = 30
"""Requests that are answered after each stop and each start; more of them are in `tests/chaos`."""


@pytest.mark.parametrize(
    ("command", "file"),
    [
        pytest.param(nginx_command, "nginx.conf", id="nginx", marks=needs("nginx", "nginx-light")),
        pytest.param(caddy_command, "Caddyfile", id="caddy", marks=needs("caddy", "caddy")),
    ],
)
async def test_no_request_fails_while_nodes_are_restarted_behind_our_proxies_and_devices_move(
    tmp_path: Path, command: Command, file: str
) -> None:
    callers = await roll(tmp_path, command, file, 1, CALLS, phones=2)
    assert callers.failed == [] and callers.done >= CALLS * 6
