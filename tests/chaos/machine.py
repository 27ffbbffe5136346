"""A state machine over the wire: a real gateway, real sockets, devices that do whatever comes.

Hypothesis chooses what happens; after every step the promises must hold (security.md 9): one result for every call, nothing
runs twice, an answer counts only from whom was asked, and what was acknowledged is still there, whatever restarts.
"""

import asyncio
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Final, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from handspan.core.calls import new_call_id
from handspan.core.results import Failure, Success, ToolResult, envelope
from handspan.core.values import JsonObject
from handspan.testing import FakeDevice, RunningGateway, offer
from handspan.testing.gateway import running_gateway
from tests.chaos.witness import kept

_T = TypeVar("_T")
PATIENCE: Final = 10.0
GRACE: Final = 30.0
LABELS: Final = ("red", "blue", "plain")
"""`plain` can't come back; the others can."""
_SINCE: Final = 0.02


class Peer:
    """A device, and what it knows."""

    def __init__(self, device: FakeDevice, label: str) -> None:
        self.device = device
        self.label = label
        self.resumes = label != "plain"
        self.resume: str | None = None
        self.is_up = False
        self.seen: set[str] = set()
        """Calls that it was asked for, and runs."""
        self.answered: dict[str, str] = {}
        """What it answered, by call."""

    @property
    def open_ids(self) -> list[str]:
        """Calls that it has and has not answered."""
        return sorted(self.seen - self.answered.keys())


class Wire(RuleBasedStateMachine):
    """Register, call, answer, answer twice, spoof, drop, come back, cancel, restart."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory(prefix="wire-")
        self.tasks: dict[str, asyncio.Task[ToolResult]] = {}
        self.owner: dict[str, str] = {}
        """Whom each call was for."""
        self.ran: Counter[str] = Counter()
        self.cancelled: set[str] = set()
        self.survived: set[str] = set()
        """Calls that were open when the gateway was restarted."""
        self.acknowledged: dict[str, str] = {}
        self.number = 0

    def run(self, work: Any) -> Any:
        """Do this now, within the time that anything may take."""
        return self.loop.run_until_complete(asyncio.wait_for(work, PATIENCE))

    @initialize()
    def open(self) -> None:
        self.context = running_gateway(Path(self.folder.name), gateway={"resume_grace": GRACE})
        self.gateway: RunningGateway = self.run(self.context.__aenter__())
        self.peers = {label: Peer(FakeDevice(self.gateway.url, self.gateway.token), label) for label in LABELS}
        for peer in self.peers.values():
            self.run(self._arrive(peer))

    def teardown(self) -> None:
        try:
            if hasattr(self, "gateway"):
                self._end()
        finally:
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()
            self.folder.cleanup()

    # What happens.

    @rule(label=st.sampled_from(LABELS))
    def call(self, label: str) -> None:
        """Somebody calls a tool of this device."""
        call_id = new_call_id()
        self.owner[call_id] = label
        self.tasks[call_id] = self.loop.create_task(self.gateway.call_as(call_id, f"{label}__work", {"for": call_id}))
        self.run(self._hear())

    @rule(label=st.sampled_from(LABELS), place=st.integers(0, 20), times=st.integers(1, 2))
    def answer(self, label: str, place: int, times: int) -> None:
        """The device answers one of its calls, perhaps twice."""
        peer = self.peers[label]
        if peer.is_up and peer.open_ids:
            call_id = peer.open_ids[place % len(peer.open_ids)]
            peer.answered[call_id] = f"answer to {call_id}"
            for _ in range(times):
                self.run(peer.device.answer(call_id, peer.answered[call_id]))
            self.run(self._hear())

    @rule(label=st.sampled_from(LABELS), place=st.integers(0, 20))
    def answer_again(self, label: str, place: int) -> None:
        """The device answers something that it has answered, and something else this time."""
        peer = self.peers[label]
        if peer.is_up and peer.answered:
            call_id = sorted(peer.answered)[place % len(peer.answered)]
            self.run(peer.device.answer(call_id, "another answer"))
            self.run(self._hear())

    @rule(label=st.sampled_from(LABELS), place=st.integers(0, 20))
    def spoof(self, label: str, place: int) -> None:
        """The device answers a call of another one."""
        peer = self.peers[label]
        others = sorted(id for id, whose in self.owner.items() if whose != label)
        if peer.is_up and others:
            self.run(peer.device.answer(others[place % len(others)], "forged"))
            self.run(self._hear())

    @rule(label=st.sampled_from(LABELS))
    def drop(self, label: str) -> None:
        """The link goes."""
        peer = self.peers[label]
        if peer.is_up:
            self.run(self._leave(peer))
            self.run(self._hear())

    @rule(label=st.sampled_from(LABELS))
    def come_back(self, label: str) -> None:
        """The device connects again, with its resume token where it has one."""
        peer = self.peers[label]
        if not peer.is_up:
            self.run(self._arrive(peer))
            self.run(self._hear())

    @rule(place=st.integers(0, 20))
    def cancel(self, place: int) -> None:
        """Whoever called does not want it any more."""
        running = sorted(id for id, task in self.tasks.items() if not task.done())
        if running:
            call_id = running[place % len(running)]
            self.cancelled.add(call_id)
            self.tasks[call_id].cancel()
            self.run(self._hear())

    @precondition(lambda self: self.number < 3)
    @rule()
    def restart(self) -> None:
        """The gateway ends in order, and another one begins on the same state."""
        self.number += 1
        self.survived |= {id for id, task in self.tasks.items() if not task.done()}
        self.run(self.gateway.restart())
        for peer in self.peers.values():
            self.run(self._leave(peer))
        self.run(self._hear())

    # The promises.

    @invariant()
    def nothing_runs_twice(self) -> None:
        assert all(count == 1 for count in self.ran.values()), self.ran.most_common(3)

    @invariant()
    def a_result_is_what_was_answered_or_an_honest_failure(self) -> None:
        for call_id, task in self.tasks.items():
            if not task.done() or task.cancelled():
                continue
            peer, result = self.peers[self.owner[call_id]], task.result()
            if isinstance(result, Success):
                assert result.value == peer.answered[call_id], f"{call_id}: {result.value!r}"
            else:
                self._is_honest(call_id, peer, result)

    def _is_honest(self, call_id: str, peer: Peer, result: Failure) -> None:
        match result.code:
            case "tool_not_found" | "tool_not_available" | "disconnected":
                assert self.ran[call_id] == 0, f"{call_id} was run, and is said to be safe to retry"
            case "unknown_outcome":
                assert not peer.resumes or call_id in self.survived, f"{call_id} was given up too early"
            case "cancelled":
                assert call_id in self.cancelled | self.survived, f"{call_id} was cancelled by nobody"
            case _:
                raise AssertionError(f"{call_id} ended as {result!r}")

    @invariant()
    def what_was_acknowledged_is_kept(self) -> None:
        if hasattr(self, "gateway"):
            journal = kept(self.run(self.gateway.journal()))
            for call_id, answer in self.acknowledged.items():
                call = journal[call_id]
                assert call.state == "done" and call.envelope is not None, f"{call_id} is {call.state}"
                if call_id not in self.cancelled | self.survived and self.peers[self.owner[call_id]].resumes:
                    assert call.envelope.get("result") == answer, f"{call_id} has {call.envelope!r}"

    # What devices do.

    async def _arrive(self, peer: Peer) -> None:
        can = ("resume", "cancel", "deadline") if peer.resumes else ("cancel",)
        connected = await peer.device.connect(label=peer.label, capabilities=can, resume=peer.resume)
        assert connected["label"] == peer.label
        if peer.resumes:
            peer.resume = str(connected["resume_token"])
            for call_id, answer in peer.answered.items():
                if call_id not in self.acknowledged:
                    await peer.device.answer(call_id, answer)
        await peer.device.register(offer("work", timeout=60))
        peer.is_up = True

    async def _leave(self, peer: Peer) -> None:
        await peer.device.drop()
        peer.is_up = False
        if not peer.resumes:  # it forgets what it was asked
            peer.seen = set(peer.answered)

    async def _hear(self) -> None:
        """Let everybody hear what was said: requests are run, acknowledgements noted."""
        for _ in range(3):
            await asyncio.sleep(_SINCE / 3)
        for peer in self.peers.values():
            for request in peer.device.unexpected("tool_call_request"):
                self._asked(peer, await peer.device.expect("tool_call_request", id=request["id"]))
            for ack in peer.device.unexpected("result_acknowledged"):
                await peer.device.expect("result_acknowledged", id=ack["id"])
                if ack["id"] in peer.answered:
                    self.acknowledged[str(ack["id"])] = peer.answered[str(ack["id"])]

    def _asked(self, peer: Peer, request: JsonObject) -> None:
        call_id = str(request["id"])
        assert self.owner.get(call_id) == peer.label, f"{peer.label} was asked for a call of another device"
        if call_id not in peer.seen:  # ws.md 6.3: ids that it has seen are dropped
            peer.seen.add(call_id)
            self.ran[call_id] += 1

    # The end.

    def _end(self) -> None:
        """Everybody comes back and answers everything; then every call must have its one result."""
        try:
            for peer in self.peers.values():
                if not peer.is_up:
                    self.run(self._arrive(peer))
            self.run(self._hear())
            for peer in self.peers.values():
                for call_id in peer.open_ids:
                    peer.answered[call_id] = f"answer to {call_id}"
                    self.run(peer.device.answer(call_id, peer.answered[call_id]))
            self.run(self._ended())
            self.a_result_is_what_was_answered_or_an_honest_failure()
            self._every_call_has_one_result()
        finally:
            for peer in self.peers.values():
                self.run(peer.device.drop())
            self.run(self.context.__aexit__(None, None, None))

    async def _ended(self) -> None:
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)

    def _every_call_has_one_result(self) -> None:
        self.run(self._settled())
        journal = kept(self.run(self.gateway.journal()))
        for call_id, task in self.tasks.items():
            if call_id not in journal:
                assert task.cancelled() and not self.ran[call_id], f"{call_id} was never written"
                continue
            assert journal[call_id].state == "done", f"{call_id} is {journal[call_id].state}"
            if not task.cancelled() and task.exception() is None:
                assert journal[call_id].envelope == envelope(task.result())

    async def _settled(self) -> None:
        async with asyncio.timeout(PATIENCE):
            while any(call.state != "done" for call in kept(await self.gateway.journal()).values()):
                await asyncio.sleep(0.01)
