"""Every case of a client, by its state machine alone and by the whole SDK over a real socket."""

from pathlib import Path

import pytest

from tests.vectors.cases import Case, cases
from tests.vectors.pure import PureClient
from tests.vectors.walking import walk
from tests.vectors.wired import wired_client

pytestmark = pytest.mark.anyio

CASES = dict(cases("device"))
ROWS_OF_A_CLIENT = set("abcdghkn")


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
async def test_state_machine_does_what_the_case_says(case: Case) -> None:
    await walk(case, PureClient(case))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
async def test_client_does_it_over_a_socket(case: Case, tmp_path: Path) -> None:
    async with wired_client(case, tmp_path) as player:
        await walk(case, player)


def test_every_row_that_a_client_sees_has_a_case() -> None:
    # d: a request that was lost with the link comes again; e, f, i, j, l, m are the gateway's alone.
    assert {row for case in CASES.values() for row in case.rows} == ROWS_OF_A_CLIENT


async def test_walk_fails_where_the_client_does_something_else() -> None:
    """The walk itself can fail: a case whose last step is wrong does."""
    case = CASES["calls: a call is answered with what the code returns"]
    wrong = Case(case.name, case.clauses, [*case.steps, {"runs": {"battery": 2}}], tools=case.tools)
    with pytest.raises(AssertionError, match="'battery': 2"):
        await walk(wrong, PureClient(wrong))
