"""Every call has exactly one result, across crashes (SPEC E2, A2): a state machine compares the ledger with a model."""

import asyncio
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec import UNSET, Struct, structs

from handspan.core.calls import CallRecord
from handspan.core.errors import ToolError
from handspan.core.results import Failure, ToolResult, succeed
from tests.store.things import READS, WRITES, Clock, call, finished, question, started
from tests.stores import open_store
from tests.thoroughness import examples

IDS = st.sampled_from([f"c{number}" for number in range(6)])
RESULTS = st.sampled_from([succeed("one"), succeed({"two": 2}), Failure("busy", "three")])


class Known(Struct):
    """What the model knows of a call."""

    state: str
    read_only: bool
    result: ToolResult | None = None
    expires_at: float | None = None
    question_expires_at: float | None = None


class LedgerMachine(RuleBasedStateMachine):
    """Plays calls against a real store and a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.clock = Clock()
        self.known: dict[str, Known] = {}

    @initialize()
    def open(self) -> None:
        self.store = open_store(Path(self.folder.name) / "state", clock=self.clock)
        self.runner.run(self.store.open())

    def record(self, call_id: str) -> CallRecord:
        """The record as the engine would have it."""
        found = self.runner.run(self.store.ledger.find(call_id))
        return found if found is not None else call(call_id)

    @rule(call_id=IDS, asks=st.booleans())
    def accept(self, call_id: str, asks: bool) -> None:
        """A call waits; usually for a person."""
        if call_id in self.known:
            self.is_refused(self.store.ledger.accept(call(call_id, at=2000.0)))
            return
        self.known[call_id] = Known("accepted", read_only=False)
        if asks:
            self.runner.run(self.store.questions.ask(question(call_id)))
            self.known[call_id].question_expires_at = self.clock.now + 60
        self.runner.run(self.store.ledger.accept(call(call_id)))

    @rule(call_id=IDS, read_only=st.booleans())
    def start(self, call_id: str, read_only: bool) -> None:
        known = self.known.get(call_id)
        if known is None:
            self.known[call_id] = Known("started", read_only)
            self.runner.run(started(self.store.ledger, call(call_id, tool=READS if read_only else WRITES)))
        elif known.state == "accepted":
            known.state = "started"
            self.runner.run(started(self.store.ledger, self.record(call_id)))
        else:
            fresh = call(call_id, tool=READS if read_only else WRITES, at=2000.0)
            self.is_refused(started(self.store.ledger, fresh))

    @rule(call_id=IDS, seconds=st.sampled_from([None, 5.0, 50.0]))
    def suspend(self, call_id: str, seconds: float | None) -> None:
        known = self.known.get(call_id)
        if known is None or known.state != "started":
            return
        known.state = "pending"
        record = self.record(call_id)
        record.expires_at = known.expires_at = None if seconds is None else self.clock.now + seconds
        self.runner.run(self.store.ledger.suspend(record))

    @rule(call_id=IDS, result=RESULTS)
    def finish(self, call_id: str, result: ToolResult) -> None:
        known = self.known.get(call_id)
        is_first = known is None or known.state != "done"
        if known is None:
            known = self.known[call_id] = Known("done", read_only=False)
        assert self.runner.run(finished(self.store.ledger, self.record(call_id), result)) is is_first
        if is_first:
            known.state, known.result = "done", result

    @rule(call_id=IDS, result=RESULTS)
    def refuse_a_newcomer(self, call_id: str, result: ToolResult) -> None:
        """A call that is refused before the ledger knew it, perhaps with an id that is taken."""
        is_first = call_id not in self.known
        assert self.runner.run(finished(self.store.ledger, call(call_id, at=3000.0), result)) is is_first
        if is_first:
            self.known[call_id] = Known("done", read_only=False, result=result)

    @rule(seconds=st.sampled_from([1.0, 20.0, 100.0]))
    def time_passes(self, seconds: float) -> None:
        self.clock.now += seconds

    @precondition(lambda self: self.known)
    @rule()
    def crash(self) -> None:
        self.runner.run(self.store.close())
        self.open()
        recovery = self.runner.run(self.store.recover())
        for call_id, known in self.known.items():
            code = self.verdict(known)
            assert (call_id in recovery.repeatable) == (code == "unknown_outcome" and known.read_only)
            assert (call_id in recovery.waiting) == (code is None and known.state != "done")
            if code is not None:
                known.state = "done"
                known.result = self.result_with(call_id, code)

    @invariant()
    def ledger_and_model_agree(self) -> None:
        if not hasattr(self, "store"):
            return
        for call_id, known in self.known.items():
            record = self.runner.run(self.store.ledger.get(call_id, owner="ann"))
            assert record.state == known.state
            assert record.result == (UNSET if known.result is None else known.result)
        open_ids = {record.id for record in self.runner.run(self.store.ledger.open_calls(owner="ann"))}
        assert open_ids == {call_id for call_id, known in self.known.items() if known.state != "done"}

    def verdict(self, known: Known) -> str | None:
        """How recovery has to end this call; None when it is done or goes on."""
        now = self.clock.now
        match known:
            case Known(state="accepted", question_expires_at=None):
                return "interrupted"
            case Known(state="accepted", question_expires_at=float(at)) if at <= now:
                return "question_expired"
            case Known(state="started"):
                return "unknown_outcome"
            case Known(state="pending", expires_at=float(at)) if at <= now:
                return "timeout"
            case _:
                return None

    def result_with(self, call_id: str, code: str) -> ToolResult:
        result = self.record(call_id).result
        assert isinstance(result, Failure)
        assert result.code == code
        return structs.replace(result)

    def is_refused(self, attempt: object) -> None:
        try:
            self.runner.run(attempt)  # type: ignore[arg-type] # a coroutine
        except ToolError as refused:
            assert refused.code == "invalid_arguments"
        else:
            raise AssertionError("an id was used twice")

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.runner.run(self.store.close())
        self.runner.close()
        self.folder.cleanup()


def test_every_call_has_exactly_one_result_whatever_happens() -> None:
    run_state_machine_as_test(
        LedgerMachine, settings=settings(max_examples=examples(40), stateful_step_count=25, deadline=None)
    )
