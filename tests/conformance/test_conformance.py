"""Our MCP server in the whole conformance suite, our client in a part of it; `make conformance` runs all (SPEC C4)."""

import pytest

from tests.conformance.__main__ import gateway_reason, reason
from tests.conformance.suite import serve, try_client, try_server

pytestmark = pytest.mark.anyio


async def test_our_server_conforms_to_both_eras() -> None:
    with serve() as url:
        older = await try_server(url, "--requirements", "2025-11-25")
        newer = [one for one in await try_server(url, "--requirements", "2026-07-28") if not reason(one.scenario)]
    assert not [one for one in (*older, *newer) if not one.is_good or not one.passed]
    assert (sum(one.passed for one in older), sum(one.passed for one in newer)) == (84, 152)


async def test_the_door_of_a_gateway_conforms() -> None:
    with serve("gateway") as url:
        outcomes = await try_server(url, "--requirements", "2025-11-25")
    required = [one for one in outcomes if not gateway_reason(one.scenario)]
    assert not [one for one in required if not one.is_good or not one.passed]
    assert {"tools-call-image", "tools-call-elicitation", "prompts-get-with-args"} <= {one.scenario for one in required}


async def test_our_client_conforms() -> None:
    outcomes = await try_client(["elicitation-sep1034-client-defaults", "auth/authorization-server-migration"])
    assert len(outcomes) == 2 and all(one.is_good and one.passed for one in outcomes), outcomes
