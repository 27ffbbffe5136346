"""Sets of tools of clients over HTTP: how many are kept, and which."""

import pytest

from handspan.core.calls import ToolFacts
from handspan.core.principals import Origin
from handspan.core.results import Success
from handspan.core.store import MAX_TOOL_SETS, Store
from tests.store.things import call
from tests.waiting import soon

pytestmark = pytest.mark.anyio

ANN = "0123456789abcdef"


def of_set(set_id: str, client: str = ANN) -> ToolFacts:
    """A tool of this set."""
    return ToolFacts(Origin("browser", client, f"thread:{set_id}"), "1.0.0", True, True, "request")


async def bring(store: Store, first: int, count: int) -> None:
    """Let the client bring so many sets, one after the other."""
    for number in range(first, first + count):
        await soon(store.browser_tools.save(ANN, f"set{number}", b"[]"))


async def test_sets_beyond_the_limit_go_those_first_that_were_brought_first(store: Store) -> None:
    await soon(store.browser_tools.save(ANN, "", b"[1]"))
    await bring(store, 0, MAX_TOOL_SETS + 2)
    assert [await soon(store.browser_tools.find(ANN, f"set{number}")) for number in range(3)] == [None, None, b"[]"]
    assert await soon(store.browser_tools.find(ANN)) == b"[1]"


async def test_a_set_stays_while_a_call_of_it_is_open(store: Store) -> None:
    await bring(store, 0, MAX_TOOL_SETS)
    waiting, strangers = call(tool=of_set("set0")), call(tool=of_set("set1", client="another client"))
    for record in (waiting, strangers):
        await soon(store.ledger.suspend(record))
    await bring(store, MAX_TOOL_SETS, 2)
    assert [await soon(store.browser_tools.find(ANN, f"set{number}")) for number in range(3)] == [b"[]", None, b"[]"]
    finished = store.ledger.finish(waiting, Success("ok"))
    assert finished if isinstance(finished, bool) else await soon(finished)
    await bring(store, MAX_TOOL_SETS + 2, 1)
    assert await soon(store.browser_tools.find(ANN, "set0")) is None
