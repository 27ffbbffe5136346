"""The state machine finds planted faults: each promise is broken once, on purpose, and it must say so."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis.stateful import invariant

from handspan.gateway.ws import Connection
from handspan.sources.ws.calls import RemoteCalls
from handspan.wire.ws import encode
from handspan.wire.ws_frames import Acknowledged, CallRequest
from tests.chaos import walks
from tests.chaos.machine import Wire

RED, BLUE, PLAIN = range(3)


@pytest.fixture
def wire() -> Iterator[Wire]:
    """One with a fault, which its end may find too."""
    made = Wire()
    made.open()
    yield made
    with contextlib.suppress(AssertionError):
        made.teardown()


def promises(wire: Wire) -> None:
    wire.nothing_runs_twice()
    wire.results_are_what_was_answered_or_honest_failures()
    wire.what_was_acknowledged_is_kept()


def asked(wire: Wire) -> None:
    """Let the red device be called, and wait until it was asked: a busy disk takes its time."""
    wire.call(RED)
    for _ in range(1000):
        if wire.peers["red"].seen:
            return
        wire.hear()
    raise AssertionError("The device was not asked.")


def test_a_walk_through_everything_breaks_nothing() -> None:
    wire = Wire()
    wire.open()
    wire.call(RED)
    wire.drop(RED)
    wire.call_one_that_is_away(0)
    wire.come_back(0)
    wire.answer(0, 2)
    wire.call(PLAIN)
    wire.call(BLUE)
    wire.spoof(0)
    wire.restart({"red", "blue", "plain"})
    wire.answer_again(0)
    wire.call(BLUE)
    wire.give_up(0)
    wire.call(PLAIN)
    wire.answer_and_drop(0)
    promises(wire)
    wire.teardown()


def test_an_answer_of_somebody_else_that_counts_is_found(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    def anybody(self: Connection, peer: Any, frame: Any, size: int) -> None:
        assert [one.calls.receive_answer(frame) for one in self._doors.peers]

    monkeypatch.setattr(Connection, "_take_unexpected", anybody)
    asked(wire)
    wire.spoof(0)
    with pytest.raises(AssertionError, match="was answered"):
        promises(wire)


def test_a_call_that_is_asked_for_under_a_second_id_is_found(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    def under_another_id(self: RemoteCalls, call: Any, send: Any) -> None:
        send(encode(CallRequest(call.id[:-1] + "x", call.name, call.arguments)))

    asked(wire)
    wire.drop(RED)
    monkeypatch.setattr(RemoteCalls, "_request", under_another_id)
    wire.come_back(0)
    monkeypatch.undo()
    with pytest.raises(AssertionError, match=r"\('red 0', 2\)"):
        promises(wire)


def test_an_answer_that_is_acknowledged_and_not_kept_is_found(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    def acknowledged_at_once(self: RemoteCalls, frame: Any) -> bool:
        assert self._send is not None
        self._send(encode(Acknowledged(frame.call)))
        return True

    asked(wire)
    monkeypatch.setattr(RemoteCalls, "receive_answer", acknowledged_at_once)
    wire.answer(0, 1)
    monkeypatch.undo()
    with pytest.raises(AssertionError, match="is started"):
        promises(wire)
    wire.peers["red"].answered.clear()  # else nobody ever answers it, and the end waits for that


def test_a_call_that_was_sent_and_is_called_safe_to_retry_is_found(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    def forgets_that_it_was_sent(self: RemoteCalls, why: str) -> None:
        for call in self._open.values():
            call.was_sent = False
        monkeypatch.undo()
        self.end(why)

    monkeypatch.setattr(RemoteCalls, "end", forgets_that_it_was_sent)
    wire.call(PLAIN)
    for _ in range(1000):
        if not wire.ran:
            wire.hear()
    wire.drop(PLAIN)
    with pytest.raises(AssertionError, match="was run, and is said to be safe"):
        for _ in range(1000):
            promises(wire)
            wire.hear()


def test_a_promise_that_is_broken_once_and_never_again_is_told() -> None:
    """Hypothesis alone says only that something depends on time."""

    class BrokenOnce(Wire):
        times = 0

        @invariant()
        def is_kept_after_the_first_time(self) -> None:
            BrokenOnce.times += bool(self.calls)
            assert BrokenOnce.times != 1, "broken once"

    [*_, walked, problems] = walks.walk(BrokenOnce, 3, 2, 1)
    assert walked.value == 3 and problems.value > 0
    assert "broken once" in problems.examples[0] and "after: calls " in problems.examples[0]
