"""A state machine over the wire: a real gateway, real sockets, devices that do whatever comes.

Hypothesis chooses what happens; after every step the promises must hold (security.md 9): one result for every call,
nothing runs twice, an answer counts only from whom was asked, and what was acknowledged is still there, whatever
restarts.
"""

import asyncio
import contextlib
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

from hypothesis import strategies as st
from hypothesis.errors import HypothesisException
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from websockets.exceptions import ConnectionClosed

from handspan.core.values import JsonObject
from handspan.testing import FakeDevice, NotSaid, offer
from tests.chaos.gateways import InItsOwnProcess, InThisProcess, RestartableGateway
from tests.chaos.witness import StoredCall

_T = TypeVar("_T")
_PATIENCE: Final = 60.0
_MOMENT: Final = 0.02
_MAX_RESTARTS: Final = 3
_NEVER_ASKED: Final = ("tool_not_found", "tool_not_available", "disconnected", "interrupted")
LABELS: Final = ("red", "blue", "plain")
"""`plain` can't come back; the others can."""
_places = st.integers(0, 20)


class Peer:
    """A device, and what it knows."""

    def __init__(self, device: FakeDevice, label: str) -> None:
        self.device = device
        self.label = label
        self.resumes = label != "plain"
        self.resume: str | None = None
        self.is_up = False
        self.seen: dict[str, str] = {}
        """Calls that it was asked for and runs, by id; what they are for."""
        self.answered: dict[str, str] = {}
        """What it answered, by id."""

    @property
    def open_ids(self) -> list[str]:
        """Calls that it has and has not answered."""
        return [call_id for call_id in self.seen if call_id not in self.answered]


class Wire(RuleBasedStateMachine):
    """Call, answer, answer twice, spoof, drop, come back, cancel, restart. Calls are known by what they are for."""

    make_gateway: Callable[[Path], RestartableGateway] = InThisProcess
    happened: ClassVar[Counter[str]] = Counter()
    """What happened in all walks, and how calls ended. `walks` gives each run one of its own."""
    broken: ClassVar[list[str]] = []
    """What broke a promise, and the walk to it. Hypothesis tries each again, and does not tell of one that depends on
    time: the next try breaks nothing, or something else."""

    def __init__(self) -> None:
        super().__init__()
        self.walked: list[str] = []
        """What happened in this walk."""
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory(prefix="wire-")
        self.gateway: RestartableGateway | None = None
        self.peers: dict[str, Peer] = {}
        self.calls: dict[str, asyncio.Task[JsonObject]] = {}
        self.owner: dict[str, str] = {}
        """The device of each call."""
        self.ran: Counter[str] = Counter()
        self.given_up: set[str] = set()
        """Calls whose caller does not wait any more."""
        self.survived: set[str] = set()
        """Calls that were open when the gateway was restarted."""
        self.acknowledged: dict[str, str] = {}
        """What was acknowledged, by id."""
        self.unchecked: set[str] = set()
        self.restarts = 0

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Do this now, within the time that anything may take."""
        return self.loop.run_until_complete(asyncio.wait_for(work, _PATIENCE))

    @initialize()
    def open(self) -> None:
        gateway = type(self).make_gateway(Path(self.folder.name))
        self.run(gateway.open())
        self.gateway = gateway
        self.peers = {label: Peer(FakeDevice(gateway.url, gateway.token), label) for label in LABELS}
        for peer in self.peers.values():
            self.run(self._arrive(peer))

    def teardown(self) -> None:
        self._note_failure(sys.exception())
        try:
            if self.gateway is not None:
                self._end(self.gateway)
        except Exception as error:
            self._note_failure(error)
            raise
        finally:
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()
            self.folder.cleanup()

    def _note_failure(self, error: BaseException | None) -> None:
        if isinstance(error, Exception) and not isinstance(error, HypothesisException):
            self.broken.append(f"{type(error).__name__}: {error}\n    after: {', '.join(self.walked)}")

    # What is there to choose from; `place` chooses.

    def _up(self) -> list[Peer]:
        return [peer for peer in self.peers.values() if peer.is_up]

    def _away(self) -> list[Peer]:
        return [peer for peer in self.peers.values() if not peer.is_up]

    def _waiting(self) -> list[tuple[Peer, str]]:
        return [(peer, call_id) for peer in self._up() for call_id in peer.open_ids]

    def _said(self) -> list[tuple[Peer, str]]:
        return [(peer, call_id) for peer in self._up() for call_id in peer.answered]

    def _of_others(self) -> list[tuple[Peer, str]]:
        others = [(peer, other) for peer in self._up() for other in self.peers.values() if other is not peer]
        return [(peer, call_id) for peer, other in others for call_id in other.seen]

    def _running(self) -> list[str]:
        return [key for key, task in self.calls.items() if not task.done()]

    # What happens. Links have their own time: a rule that can do nothing now does something else, so that what is
    # drawn next never depends on it.

    @rule(place=_places)
    def call(self, place: int) -> None:
        """Somebody calls a tool of a device that is there."""
        if up := self._up():
            self._call(_chosen(up, place).label)
        else:
            self.come_back(place)

    @rule(place=_places)
    def call_one_that_is_away(self, place: int) -> None:
        """Somebody calls a tool that was there a moment ago."""
        self._call(_chosen(self._away() or self._up(), place).label)

    @rule(place=_places, times=st.integers(1, 2))
    def answer(self, place: int, times: int) -> None:
        """A device answers one of its calls, perhaps twice."""
        if not (waiting := self._waiting()):
            return self.call(place)
        peer, call_id = _chosen(waiting, place)
        self._note("answers", peer.seen[call_id])
        self.run(self._answer(peer, call_id, times))

    @rule(place=_places)
    def answer_and_drop(self, place: int) -> None:
        """A device answers and is gone before anybody can say that it was heard."""
        if not (waiting := self._waiting()):
            return self.call(place)
        peer, call_id = _chosen(waiting, place)
        self._note("answers without a goodbye", peer.seen[call_id])
        self.run(self._answer_and_leave(peer, call_id))

    @rule(place=_places)
    def answer_again(self, place: int) -> None:
        """A device answers what it has answered before, and something else this time."""
        if not (said := self._said()):
            return self.answer(place, 1)
        peer, call_id = _chosen(said, place)
        self._note("second answers", peer.seen[call_id])
        self._say(peer, call_id, "another answer")

    @rule(place=_places)
    def spoof(self, place: int) -> None:
        """A device answers a call of another one."""
        if not (theirs := self._of_others()):
            return self.call(place)
        peer, call_id = _chosen(theirs, place)
        self._note("spoofed answers", peer.label)
        self._say(peer, call_id, "forged")

    @rule(place=_places)
    def drop(self, place: int) -> None:
        """A link goes."""
        if not (up := self._up()):
            return self.come_back(place)
        peer = _chosen(up, place)
        self._note("dropped links", peer.label)
        self.run(self._leave(peer))
        self.run(self._hear())

    @rule(place=_places)
    def come_back(self, place: int) -> None:
        """A device connects again, with its resume token where it has one."""
        if not (away := self._away()):
            return self.call(place)
        peer = _chosen(away, place)
        self._note("returns", peer.label)
        self.run(self._arrive(peer))
        self.run(self._hear())

    @rule(place=_places)
    def give_up(self, place: int) -> None:
        """Whoever called does not want it any more."""
        if not (running := self._running()):
            return self.call(place)
        key = _chosen(running, place)
        self._note("calls given up", key)
        self.given_up.add(key)
        self.calls[key].cancel()
        self.run(self._hear())

    @rule(returning=st.sets(st.sampled_from(LABELS)))
    def restart(self, returning: set[str]) -> None:
        """The gateway ends, another one begins on the same state, and some devices come back at once."""
        assert self.gateway is not None
        if self.restarts == _MAX_RESTARTS or not self._running():
            return self.call(len(returning))
        self._note("restarts", " ".join(sorted(returning)))
        self.restarts += 1
        self.survived |= {*self._running(), *self.given_up}
        self.run(self.gateway.restart())
        for peer in self.peers.values():
            self.run(self._leave(peer))
        for label in sorted(returning):
            self.run(self._arrive(self.peers[label]))
        self.unchecked |= self.acknowledged.keys()
        self.run(self._hear())

    def _call(self, label: str) -> None:
        assert self.gateway is not None
        key = f"{label} {len(self.calls)}"
        self._note("calls", key)
        self.owner[key] = label
        self.calls[key] = self.loop.create_task(self.gateway.call(key, f"{label}__work"))
        self.run(self._hear())

    def _say(self, peer: Peer, call_id: str, answer: str) -> None:
        self.run(peer.device.answer(call_id, answer))
        self.run(self._hear())

    def _note(self, what: str, which: str = "") -> None:
        self.happened[what] += 1
        self.walked.append(f"{what} {which}".rstrip())

    # The promises.

    @invariant()
    def nothing_runs_twice(self) -> None:
        assert all(count == 1 for count in self.ran.values()), self.ran.most_common(3)

    @invariant()
    def results_are_what_was_answered_or_honest_failures(self) -> None:
        for key, task in self.calls.items():
            if task.done() and not task.cancelled():
                self._is_honest(key, task.result())

    def _is_honest(self, key: str, result: JsonObject) -> None:
        peer = self.peers[self.owner[key]]
        match result.get("code"):
            case None:
                answers = [peer.answered.get(call_id) for call_id, what_for in peer.seen.items() if what_for == key]
                assert answers == [result["result"]], f"{key} was answered {answers} and has {result['result']!r}"
            case code if code in _NEVER_ASKED:
                assert not self.ran[key], f"{key} was run, and is said to be safe to call again: {code}"
            case "unknown_outcome":
                assert not peer.resumes or key in self.survived, f"{key} was given up too early"
            case "cancelled":
                assert key in self.given_up | self.survived, f"{key} was cancelled by nobody"
            case code:
                raise AssertionError(f"{key} ended as {code!r}: {result}")

    @invariant()
    def what_was_acknowledged_is_kept(self) -> None:
        while self.unchecked and self.gateway is not None:
            call_id = self.unchecked.pop()
            self._is_kept(call_id, self.run(self.gateway.look(call_id)))

    def _is_kept(self, call_id: str, call: StoredCall) -> None:
        assert call.state == "done" and call.envelope is not None, f"{call_id} is {call.state}"
        peer = next(peer for peer in self.peers.values() if call_id in peer.seen)
        key = peer.seen[call_id]
        if peer.resumes and key not in self.given_up | self.survived:
            assert call.envelope.get("result") == self.acknowledged[call_id], f"{key} has {call.envelope!r}"

    # What devices do.

    async def _arrive(self, peer: Peer) -> None:
        can = ("resume", "cancel", "deadline") if peer.resumes else ("cancel",)
        connected = await peer.device.connect(label=peer.label, capabilities=can, resume=peer.resume)
        assert connected["label"] == peer.label
        if peer.resumes:
            peer.resume = str(connected["resume_token"])
            for call_id, answer in peer.answered.items():  # ws.md 6.3
                if call_id not in self.acknowledged:
                    await peer.device.answer(call_id, answer)
        await peer.device.register(offer("work", timeout=60))
        peer.is_up = True

    async def _leave(self, peer: Peer) -> None:
        await peer.device.drop()
        peer.is_up = False
        if not peer.resumes:  # it knows nothing any more
            for call_id in peer.open_ids:
                peer.answered[call_id] = "nobody will ever hear this"

    async def _answer(self, peer: Peer, call_id: str, times: int = 1) -> None:
        peer.answered[call_id] = f"answer for {peer.seen[call_id]}"
        for _ in range(times):
            await peer.device.answer(call_id, peer.answered[call_id])
        await self._hear()

    async def _answer_and_leave(self, peer: Peer, call_id: str) -> None:
        peer.answered[call_id] = f"answer for {peer.seen[call_id]}"
        await peer.device.answer(call_id, peer.answered[call_id])
        await self._leave(peer)
        await self._hear()

    def hear(self) -> None:
        """Let everybody hear what was said."""
        self.run(self._hear())

    async def _hear(self) -> None:
        """Let everybody hear what was said: requests are run, acknowledgements noted."""
        await asyncio.sleep(_MOMENT)
        for peer in self.peers.values():
            await _pass_the_line(peer.device)
            while peer.device.unexpected("tool_call_request"):
                self._asked(peer, await peer.device.expect("tool_call_request"))
            while peer.device.unexpected("result_acknowledged"):
                call_id = str((await peer.device.expect("result_acknowledged"))["id"])
                if call_id in peer.answered and call_id not in self.acknowledged:
                    self.acknowledged[call_id] = peer.answered[call_id]
                    self.unchecked.add(call_id)

    def _asked(self, peer: Peer, request: JsonObject) -> None:
        args, call_id = request["args"], str(request["id"])
        assert isinstance(args, dict)
        key = str(args["for"])
        assert self.owner[key] == peer.label, f"{peer.label} was asked for {key}"
        self.happened["requests sent again"] += bool(request.get("again"))
        if call_id not in peer.seen:  # ws.md 6.3: ids that it has seen are dropped
            peer.seen[call_id] = key
            self.ran[key] += 1

    # The end.

    def _end(self, gateway: RestartableGateway) -> None:
        """Everybody comes back and answers everything; then every call must have its one result."""
        try:
            self.run(self._everybody_answers(gateway))
            self.results_are_what_was_answered_or_honest_failures()
            self.what_was_acknowledged_is_kept()
            self.nothing_runs_twice()
        finally:
            for task in self.calls.values():
                task.cancel()
            for peer in self.peers.values():
                self.run(peer.device.drop())
            journal = self.run(gateway.close())
        self._every_call_has_one_result(journal)

    async def _everybody_answers(self, gateway: RestartableGateway) -> None:
        for peer in self.peers.values():
            if not peer.is_up:
                await self._arrive(peer)
        while [task for task in self.calls.values() if not task.done()] or await gateway.open_calls():
            await self._hear()
            for peer in self.peers.values():
                for call_id in peer.open_ids:
                    await self._answer(peer, call_id)

    def _every_call_has_one_result(self, journal: dict[str, StoredCall]) -> None:
        for key, task in self.calls.items():
            if key not in journal:
                told = None if task.cancelled() else task.result()
                is_too_late = told is None or (told.get("code") == "interrupted" and key in self.survived)
                assert is_too_late and not self.ran[key], f"{key} was never written, and its caller was told {told}"
                continue
            assert journal[key].state == "done", f"{key} is {journal[key].state}"
            self.happened[f"  {(journal[key].envelope or {}).get('code', 'success')}"] += 1
            if not task.cancelled():
                assert journal[key].envelope == task.result(), f"{key}: {journal[key].envelope} and {task.result()}"


async def _pass_the_line(device: FakeDevice) -> None:
    """What the gateway sent before this has come, however busy the machine is: its frames keep their order."""
    with contextlib.suppress(NotSaid, ConnectionClosed):  # the gateway has ended the connection meanwhile
        if device.is_connected:
            await device.send({"type": "ping"})
            await device.expect("pong")


def _chosen(candidates: Sequence[_T], place: int) -> _T:
    return candidates[place % len(candidates)]


class KilledWire(Wire):
    """The same, with a gateway that is killed instead of ended."""

    make_gateway = InItsOwnProcess
