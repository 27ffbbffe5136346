"""The ledger in memory (SPEC E2, E8)."""

import pytest

from handspan.core.calls import UNKNOWN_TOOL, CallRecord
from handspan.core.errors import ToolError
from handspan.core.results import Failure, Success
from tests.memory_ledger import MemoryLedger

pytestmark = pytest.mark.anyio

DONE = Success("done", encoded=b"done")


def record(call_id: str = "call-1", size: int = 0) -> CallRecord:
    return CallRecord(call_id, "tool", UNKNOWN_TOOL, {}, "owner", "session", "agent", 0.0, size)


async def test_a_call_goes_through_its_states() -> None:
    ledger, call = MemoryLedger(), record()
    states: list[object] = [call.state]
    await ledger.accept(call)
    states.append(call.state)
    assert list(ledger.open_calls()) == [call]
    ledger.start(call)
    states.append(call.state)
    await ledger.suspend(call)
    states.append(call.state)
    assert await ledger.find("call-1") is call
    assert ledger.finish(call, DONE) is True
    assert [*states, call.state] == [None, "accepted", "started", "pending", "done"]
    assert call.result == DONE
    assert (list(ledger.open_calls()), list(ledger.journal())) == ([], [call])


async def test_a_second_result_is_refused_and_changes_nothing() -> None:
    ledger, call = MemoryLedger(), record()
    ledger.start(call)
    ledger.finish(call, DONE)
    assert ledger.finish(call, Failure("timeout", "late")) is False
    assert call.result == DONE


async def test_a_second_result_is_refused_even_when_the_first_was_forgotten() -> None:
    ledger, call = MemoryLedger(keep=1), record()
    ledger.start(call)
    ledger.finish(call, DONE)
    ledger.finish(record("call-2"), DONE)
    assert await ledger.find("call-1") is None
    assert ledger.finish(call, Failure("timeout", "late")) is False
    assert call.result == DONE


@pytest.mark.parametrize("state", ["open", "done"])
async def test_a_used_id_is_refused(state: str) -> None:
    ledger, call = MemoryLedger(), record()
    ledger.start(call)
    if state == "done":
        ledger.finish(call, DONE)
    with pytest.raises(ToolError, match="'call-1' was used before"):
        ledger.start(record())
    with pytest.raises(ToolError, match="'call-1' was used before"):
        await ledger.accept(record())


async def test_refusing_a_call_with_a_used_id_leaves_the_call_that_has_it_alone() -> None:
    ledger, running = MemoryLedger(), record()
    ledger.start(running)
    assert ledger.finish(record(), Failure("invalid_arguments", "used before")) is False
    assert list(ledger.open_calls()) == [running]
    assert ledger.finish(running, DONE) is True


async def test_a_call_that_was_refused_before_it_was_known_has_its_place_in_the_journal() -> None:
    ledger, call = MemoryLedger(), record()
    assert ledger.finish(call, Failure("tool_not_found", "no")) is True
    assert list(ledger.journal()) == [call]


async def test_the_journal_keeps_the_last_calls_by_number() -> None:
    ledger = MemoryLedger(keep=3)
    for number in range(5):
        ledger.finish(record(str(number)), DONE)
    assert [call.id for call in ledger.journal()] == ["2", "3", "4"]


async def test_the_journal_keeps_the_last_calls_by_size_and_never_forgets_open_ones() -> None:
    ledger, waiting = MemoryLedger(keep_bytes=100), record("waiting", 1000)
    ledger.start(waiting)
    for number in range(5):
        ledger.finish(record(str(number), 40), DONE)
    assert [call.id for call in ledger.journal()] == ["3", "4"]
    assert list(ledger.open_calls()) == [waiting]


async def test_one_result_larger_than_everything_that_is_kept_is_forgotten_at_once() -> None:
    ledger = MemoryLedger(keep_bytes=100)
    ledger.finish(record("huge", 1000), DONE)
    assert list(ledger.journal()) == []
    ledger.finish(record("small", 100), DONE)
    assert [call.id for call in ledger.journal()] == ["small"]
