"""Our MCP server in the whole conformance suite, our client in a part of it; `make conformance` runs all (SPEC C4)."""

import pytest

from tests.conformance.__main__ import reason
from tests.conformance.suite import serve, try_client, try_server

pytestmark = pytest.mark.anyio


async def test_our_server_conforms_to_both_eras() -> None:
    with serve() as url:
        older = await try_server(url, "--requirements", "2025-11-25")
        newer = [one for one in await try_server(url, "--requirements", "2026-07-28") if not reason(one.scenario)]
    assert not [one for one in (*older, *newer) if not one.is_good or not one.passed]
    assert (sum(one.passed for one in older), sum(one.passed for one in newer)) == (84, 152)


async def test_our_client_conforms() -> None:
    outcomes = await try_client(["elicitation-sep1034-client-defaults", "auth/authorization-server-migration"])
    assert len(outcomes) == 2 and all(one.is_good and one.passed for one in outcomes), outcomes
