"""A state machine over two nodes: devices move, messages are lost, nodes die, and every call has its one result."""

import asyncio
import random
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any
from unittest import mock

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from handspan.core.calls import new_call_id
from handspan.core.results import Failure, Success
from handspan.sources.nodes.probes import Probes
from handspan.sources.nodes.relay import Relay
from handspan.sources.ws.calls import RemoteCall
from tests.memory_ledger import MemoryLedger
from tests.nodes.two_nodes import GRACE, LEASE, InstantLoop, PlayedDevice, PlayedNats, PlayedNode, PlayedRows
from tests.thoroughness import examples

_FATES = st.lists(st.sampled_from(("lose", "double", "delay", "pass")), min_size=1, max_size=12)
_MAX_KILLS = 2
_NEVER_SENT = frozenset(("disconnected", "tool_not_found", "tool_not_available", "busy"))


class TwoNodes(RuleBasedStateMachine):
    """Two slots for nodes, two devices, and calls from either node."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = InstantLoop()
        self.clock = mock.patch("time.monotonic", self.loop.time)
        self.clock.start()
        self.folder = Path(tempfile.mkdtemp(prefix="two-nodes-"))
        self.nats, self.rows, self.ledger = PlayedNats(), PlayedRows(), MemoryLedger()
        self.nodes: list[PlayedNode | None] = [None, None]
        self.devices = [PlayedDevice("red"), PlayedDevice("blue")]
        self.calls: dict[str, tuple[PlayedNode, PlayedDevice, asyncio.Task[Any]]] = {}
        self.cancelled: set[str] = set()
        self.kills = self.starts = 0

    def run(self, work: Any) -> Any:
        """Do this on the loop, and let everything happen that can happen at once."""

        async def all_of_it() -> Any:
            result = await work
            await asyncio.sleep(0.01)
            return result

        return self.loop.run_until_complete(all_of_it())

    async def _start(self, slot: int) -> None:
        self.starts += 1
        node = PlayedNode(f"node{slot}-{self.starts}", self.nats, self.rows, self.ledger, self.folder)
        self.nodes[slot] = node
        await node.open()

    def _running(self) -> list[str]:
        return [key for key, (_, _, task) in self.calls.items() if not task.done()]

    def _living(self) -> list[PlayedNode]:
        return [node for node in self.nodes if node is not None]

    # What happens.

    @initialize()
    def open(self) -> None:
        for slot in (0, 1):
            self.run(self._start(slot))
        for slot, device in enumerate(self.devices):
            self.connect(device, self.nodes[slot])
        self.pass_time(1.5)

    def connect(self, device: PlayedDevice, node: PlayedNode | None) -> None:
        async def work() -> None:
            assert node is not None
            device.connect(node)

        self.run(work())

    @rule(which=st.integers(0, 1), slot=st.integers(0, 1))
    def move(self, which: int, slot: int) -> None:
        """A device connects to a node; an older connection may still be there."""
        node = self.nodes[slot]
        if node is not None:
            self.connect(self.devices[which], node)

    @rule(which=st.integers(0, 1))
    def drop(self, which: int) -> None:
        """A device loses its connection."""

        async def work() -> None:
            self.devices[which].drop()

        self.run(work())

    @rule(which=st.integers(0, 1), slot=st.integers(0, 1))
    def call(self, which: int, slot: int) -> None:
        """A tool of a device is called from a node."""
        node, device = self.nodes[slot], self.devices[which]
        if node is None:
            return
        if device.socket is None:
            self.connect(device, self._living()[-1])
            self.pass_time(1.5)
        key = f"call {len(self.calls)}"

        async def work() -> None:
            self.calls[key] = (
                node,
                device,
                asyncio.create_task(node.call(new_call_id(), f"{device.label}__work", {"for": key})),
            )

        self.run(work())

    @rule(which=st.integers(0, 1), place=st.integers(0, 5))
    def answer(self, which: int, place: int) -> None:
        """A device answers a call, connected or not."""
        device = self.devices[which]
        if waiting := device.open_calls:

            async def work() -> None:
                device.answer(waiting[place % len(waiting)])

            self.run(work())

    @rule(place=st.integers(0, 5))
    def cancel(self, place: int) -> None:
        """A caller is cancelled."""
        if running := self._running():
            key = running[place % len(running)]
            self.cancelled.add(key)
            self.calls[key][2].cancel()
            self.run(asyncio.sleep(0))

    @rule(fates=_FATES)
    def disturb(self, fates: list[str]) -> None:
        """The next messages between the nodes are lost, doubled or late."""
        self.nats.fates.extend(fates)

    @rule(seconds=st.floats(0.1, 4.0))
    def pass_time(self, seconds: float) -> None:
        """Some time passes."""
        self.run(asyncio.sleep(seconds))

    @precondition(lambda self: self.kills < _MAX_KILLS and None not in self.nodes and self._running())
    @rule(slot=st.integers(0, 1))
    def kill(self, slot: int) -> None:
        """A node dies, with its calls and connections. Its lease is over a little later."""
        node = self.nodes[slot]
        assert node is not None
        self.kills += 1
        self.nodes[slot] = None

        async def work() -> None:
            await node.kill()
            for device in self.devices:
                if device.socket is not None and device.socket.node is node:
                    device.socket = None
                    device.note_loss()
            asyncio.get_running_loop().call_later(LEASE, self.rows.declare_lost, node.name)

        for key, (caller, _, task) in self.calls.items():
            if caller is node and not task.done():
                self.cancelled.add(key)  # its caller is gone: no one is told
                task.cancel()
        self.run(work())

    @precondition(lambda self: None in self.nodes)
    @rule()
    def start(self) -> None:
        """A node is started again, under a new id."""
        self.run(self._start(self.nodes.index(None)))

    # What has to be true.

    @invariant()
    def nothing_runs_twice(self) -> None:
        ran = sum((device.ran for device in self.devices), Counter[str]())
        assert all(count == 1 for count in ran.values()), ran.most_common(3)

    @rule(slot=st.integers(0, 1), seconds=st.sampled_from((0.0, 0.5, 3.0)))
    def slow_down_rows(self, slot: int, seconds: float) -> None:
        """The database takes its time with what one node writes."""
        node = self.nodes[slot]
        if node is not None:
            node.book.delay = seconds

    @invariant()
    def the_newest_connection_counts(self) -> None:
        assert not any(device.was_sent_away for device in self.devices)

    @invariant()
    def results_say_what_happened(self) -> None:
        for key, (_, device, task) in self.calls.items():
            if task.done() and key not in self.cancelled:
                self._check(key, device, task.result())

    def _check(self, key: str, device: PlayedDevice, result: object) -> None:
        match result:
            case Success(value=value):
                assert value == f"done: {key}" and value in device.answers.values()
            case Failure(code=code, message=text) if code in _NEVER_SENT:
                assert not device.ran[key], f"{key} was run, and is said to be safe to call again: {text}"
            case Failure(code="unknown_outcome", message=text):
                device_away = device.longest_away
                if device.away_since is not None:
                    device_away = max(device_away, self.loop.time() - device.away_since)
                assert device_away >= GRACE - 1, f"{key} was given up after {device_away} s: {text}"
            case other:
                raise AssertionError(f"{key} ended as {other}")

    def teardown(self) -> None:
        """At the end all parts are well: every call gets its result, and nothing waits."""
        try:
            if self.starts:
                self._end()
        finally:
            self.close()

    def close(self) -> None:
        """Let nothing of it stay; twice does no harm."""
        if self.loop.is_closed():
            return
        for node in self._living():
            self.run(node.kill())
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.run(asyncio.sleep(0))
        self.clock.stop()
        self.loop.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end(self) -> None:
        self.nats.fates.clear()
        for node in self._living():
            node.book.delay = 0.0
        while None in self.nodes:
            self.run(self._start(self.nodes.index(None)))
        self.pass_time(LEASE + 1)
        for slot, device in enumerate(self.devices):
            if device.socket is None:
                self.connect(device, self.nodes[slot])
        for _ in range(30):
            for device in self.devices:
                if device.socket is None:
                    self.connect(device, self.nodes[0])
            for which in (0, 1):
                while self.devices[which].open_calls:
                    self.answer(which, 0)
            self.pass_time(2.0)
            if all(task.done() for _, _, task in self.calls.values()) and not self._waiting():
                break
        assert not self._running(), f"{self._running()} have no result"
        assert not self._waiting(), f"something waits at the end: {self._waiting()}"
        self.nothing_runs_twice()
        self.results_say_what_happened()
        for node in self._living():
            assert {"red__work", "blue__work"} <= node.tools, f"{node.name} lists {node.tools}"
        unheard = [device.unacknowledged - self._of_lost_callers() for device in self.devices]
        assert not any(unheard), f"answers that no node has acknowledged: {unheard}"

    def _waiting(self) -> list[str]:
        return [call for node in self._living() for call in node.waiting()]

    def _of_lost_callers(self) -> set[str]:
        """Calls whose node died: in this machine no other one takes them over."""
        lost = self.cancelled
        return {call for device in self.devices for call, key in device.seen.items() if key in lost}


def _walk(machine: TwoNodes) -> None:
    """The shortest way past a lost request, a lost answer, a doubled request and a move in mid-call."""
    machine.open()
    machine.disturb(["lose"])
    machine.call(0, 1)  # its request is lost
    machine.pass_time(4)
    machine.answer(0, 0)
    machine.call(0, 1)
    machine.disturb(["lose", "lose", "lose"])
    machine.answer(0, 0)  # this answer is lost
    machine.disturb(["double"])
    machine.call(1, 0)
    machine.move(1, 0)
    machine.answer(1, 0)
    machine.pass_time(4)


def test_a_walk_past_every_fault_ends_with_a_result_for_each_call() -> None:
    machine = TwoNodes()
    _walk(machine)
    machine.nothing_runs_twice()
    machine.teardown()
    results = [task.result() for _, _, task in machine.calls.values()]
    assert len(results) == 3 and all(type(one) is Success for one in results)


def test_a_connection_that_is_entered_late_does_not_replace_a_newer_one() -> None:
    machine = TwoNodes()
    machine.open()
    machine.slow_down_rows(0, 3.0)
    machine.move(1, 0)
    machine.move(1, 1)  # the device is at this node before the database knows of the other one
    machine.pass_time(4)
    machine.the_newest_connection_counts()
    machine.call(1, 0)
    machine.answer(1, 0)
    machine.teardown()
    assert [type(task.result()) for _, _, task in machine.calls.values()] == [Success]


def test_an_answer_that_comes_while_its_call_is_taken_over_is_not_lost() -> None:
    machine = TwoNodes()
    machine.open()
    node, device = machine.nodes[0], machine.devices[0]
    machine.call(0, 1)
    machine.drop(0)
    machine.answer(0, 0)
    assert node is not None

    async def come_back() -> Any:
        device.connect(node)  # it sends the answer, and the node looks for its call
        taken_over = RemoteCall(next(iter(device.answers)), "", {}, None)
        assert device.socket is not None
        device.socket.peer.calls.ask(taken_over)
        return await asyncio.wait_for(taken_over.outcome, GRACE)

    assert machine.run(come_back()).output == "done: call 0"
    machine.close()


def _leave_lost(probes: Probes, *_: object) -> None:
    """Repair nothing."""


def _forget_answers(relay: Relay, call_id: str, sender: str) -> bool:
    return call_id in relay.carried


def _send_again(relay: Relay, sender: str, call_id: str, retry: int, frame: bytes) -> None:
    named = msgspec.json.encode({**msgspec.json.decode(frame), "id": new_call_id()})
    for one in (frame, named):
        relay.send(one)


@pytest.mark.parametrize(
    ("owner", "name", "fault", "says"),
    [
        (Probes, "_repair", _leave_lost, "have no result"),
        (Relay, "knows", _forget_answers, "have no result"),
        (Relay, "_deliver_call", _send_again, "2"),
    ],
    ids=["lost requests are not sent again", "lost answers are not sent again", "a call runs twice"],
)
def test_the_machine_finds_a_planted_fault(
    monkeypatch: pytest.MonkeyPatch, owner: type, name: str, fault: Any, says: str
) -> None:
    monkeypatch.setattr(owner, name, fault)
    monkeypatch.setattr(Relay, "repeat_answers", lambda relay: None)
    machine = TwoNodes()
    with pytest.raises(AssertionError, match=says):
        _walk(machine)
        machine.nothing_runs_twice()
        machine.teardown()
    machine.close()


@pytest.mark.hypothesis
def test_every_call_between_two_nodes_has_one_result_whatever_happens_to_them() -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")  # noqa: T201 - shown when the test fails
    chosen = settings(
        max_examples=examples(60), stateful_step_count=30, suppress_health_check=list(HealthCheck), deadline=None
    )
    run_state_machine_as_test(TwoNodes, settings=chosen)
