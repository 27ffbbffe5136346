"""Calls that wait for one client. A dropped phone gets its calls again when it reconnects (ws.md 5, 6).

When a client disconnects for good, or has no capability `resume`, each of its calls ends: see `RemoteCalls.end`.

Each call is answered once. A peer is a client across its connections. While the link of a peer with `resume` is down,
its calls wait, and `open_link` sends them again. This module knows no sockets: frames go out through a callable.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from math import inf
from typing import Final, TypeAlias

from msgspec import Struct, field

from handspan.core.context import Deadline, Progress
from handspan.core.values import Arguments
from handspan.wire.ws import encode
from handspan.wire.ws_frames import (
    Acknowledged,
    CallRequest,
    CancelFrame,
    FailureFrame,
    LoginStart,
    ProgressFrame,
    ResultFrame,
)

Send: TypeAlias = Callable[[bytes], None]
"""Sends a frame over the link."""
ACK_DELAY: Final = 0.05
"""Seconds that acknowledgements are collected, to be sent in one frame."""
_MAX_ACKS: Final = 64
"""The most acknowledgements of one frame."""


class LostCall(Struct, frozen=True):
    """The outcome of a call whose answer will never come. `was_sent`: the client may have run the call."""

    was_sent: bool
    why: str


class IdleTimeout(Struct, frozen=True):
    """The outcome of a call that got neither an answer nor progress within the tool's own timeout."""

    seconds: float


Outcome: TypeAlias = ResultFrame | FailureFrame | LostCall | IdleTimeout


class RemoteCall(Struct, eq=False):
    """One call for a client, and the outcome that it waits for."""

    id: str
    name: str
    """The client's own name of the tool; empty for a call of an earlier process whose tool is not back yet."""
    arguments: Arguments
    deadline: Deadline | None
    report: Progress | None = None
    """Gets the progress of the call."""
    idle_seconds: float | None = None
    """The longest time without a progress report; None: no such limit."""
    outcome: asyncio.Future[Outcome] = field(default_factory=asyncio.Future)
    idle_until: float = 0.0
    """When `idle_seconds` are over, by `time.monotonic`."""
    was_sent: bool = False
    known_as: str = ""
    """For a call of an earlier process: the name by which models know its tool."""
    retry: int = 0
    """How often the person has logged in for this call."""
    is_in_login: bool = False
    """The client wants a login, and the person is asked. The call's clock stands still."""
    login_to_start: str = ""
    """The id of the question whose login the client has to start as soon as there is a link."""
    owner: str = ""
    """The owner for whom the call runs, if the client serves all owners."""

    def leave_login(self, deadline: Deadline | None) -> None:
        """Store that the person has logged in: the client runs the call again, until this deadline."""
        self.is_in_login = False
        self.login_to_start = ""
        self.deadline = deadline
        self.retry += 1

    def end(self, outcome: Outcome) -> bool:
        """Set the outcome. Return False when the call has an outcome already."""
        if self.outcome.done():
            return False
        self.outcome.set_result(outcome)
        return True


def _future_maker() -> Callable[[], asyncio.Future[Outcome]]:
    return asyncio.get_running_loop().create_future


class RemoteCalls(Struct, eq=False):
    """The calls that one peer has not answered yet."""

    capabilities: frozenset[str]
    """The capabilities that both ends have."""
    dropped: int = 0
    """How many results came for no open call."""
    new_outcome: Callable[[], asyncio.Future[Outcome]] = field(default_factory=_future_maker)
    """Makes the future of a call. `asyncio.Future()` would look for its loop, which costs a system call."""
    is_stopping: bool = False
    """Whether the gateway is being stopped: the client gets that as the reason of cancellations (ws.md 5.8)."""
    _open: dict[str, RemoteCall] = {}
    _send: Send | None = None
    """Sends a frame over the link; None while the link is down."""
    _end_reason: str = ""
    """Why the peer will not return; empty while it may return."""
    _answered: set[str] = set()
    """The ids of calls that were answered and whose result is not stored yet."""
    _acks: list[str] = []
    """The ids of calls to acknowledge with the next frame."""
    _ack_timer: asyncio.TimerHandle | None = None
    _idle_timer: asyncio.TimerHandle | None = None
    _idle_check_at: float = inf
    """When the idle timer fires: the earliest end of a call that it watches."""

    @property
    def open(self) -> Mapping[str, RemoteCall]:
        """The calls that wait, by id."""
        return self._open

    def ask(self, call: RemoteCall) -> None:
        """Send the request, now or as soon as there is a link."""
        if self._end_reason:  # the client left after the engine found its tool
            call.end(LostCall(call.was_sent, self._end_reason))
            return
        self._open[call.id] = call
        if call.idle_seconds is not None:
            self._start_idle_timer(call)
        if self._send is not None and call.name:
            self._request(call, self._send)

    def ask_again(self, call_id: str) -> None:
        """Send this request once more, because it was lost on its way."""
        call = self._open.get(call_id)
        if call is not None and call.name and not call.is_in_login and not call.outcome.done() and self._send:
            self._request(call, self._send)

    def forget(self, call: RemoteCall) -> None:
        """Remove a call that has ended."""
        self._open.pop(call.id, None)

    def cancel(self, call: RemoteCall, reason: str) -> None:
        """Tell the client that the call was cancelled."""
        if call.was_sent and self._send is not None and "cancel" in self.capabilities:
            self._send(encode(CancelFrame(call.id, reason)))

    def find_loss(self, call: RemoteCall) -> LostCall | None:
        """Return how this call is lost if the peer will not return; None while the peer may return."""
        return LostCall(call.was_sent, self._end_reason) if self._end_reason else None

    def receive_answer(self, frame: ResultFrame | FailureFrame) -> bool:
        """Give the answer to its call. Return False when no open call has this id: the answer is dropped."""
        call = self._open.get(frame.call)
        if call is not None and not call.outcome.done():
            self._answered.add(call.id)
            if type(frame) is not FailureFrame or not self.wants_login(frame) or not _is_repeated(frame, call):
                call.outcome.set_result(frame)
            return True
        self.dropped += 1
        return False

    def receive_progress(self, frame: ProgressFrame) -> bool:
        """Report progress, and restart the tool's own timeout. Return False when no open call takes the progress."""
        call = self._open.get(frame.call)
        if call is None or call.outcome.done() or "progress" not in self.capabilities:
            return False
        if call.idle_seconds is not None:
            call.idle_until = time.monotonic() + call.idle_seconds
        if call.report is not None:
            call.report(frame.value)
        return True

    def acknowledge_stored(self, call_id: str) -> None:
        """Acknowledge the client's answer, now that the result of the call is stored; nothing if there was none."""
        if call_id in self._answered:
            self._answered.discard(call_id)
            self._acknowledge(call_id)

    def acknowledge(self, call_id: str) -> None:
        """Acknowledge an answer that is stored, or dropped for good: the client may forget it."""
        if call_id not in self._answered:  # the others are not stored yet: `acknowledge_stored` acknowledges them
            self._acknowledge(call_id)

    def acknowledge_later(self, call_id: str) -> None:
        """Let `acknowledge_stored` acknowledge an answer that came again before its result is stored."""
        self._answered.add(call_id)

    def _acknowledge(self, call_id: str) -> None:
        """Tell the client that a result is stored; several together, if it understands that."""
        if "ack_batch" not in self.capabilities:
            if self._send is not None:
                self._send(encode(Acknowledged(call_id)))
            return
        self._acks.append(call_id)
        if len(self._acks) >= _MAX_ACKS:
            self._send_acks()
        elif self._ack_timer is None:
            self._ack_timer = asyncio.get_running_loop().call_later(ACK_DELAY, self._send_acks)

    def resume_tool(self, known_as: str, own_name: str) -> None:
        """Send the calls of a tool that is back, which an earlier process of the gateway left open."""
        for call in self._open.values():
            if not call.name and call.known_as == known_as and not call.outcome.done():
                call.name = own_name
                if self._send is not None and not call.is_in_login:
                    self._request(call, self._send)

    # Logins (ws.md 5.13).

    def wants_login(self, answer: Outcome) -> bool:
        """Whether this answer keeps its call open, so that the person can log in."""
        return "login" in self.capabilities and type(answer) is FailureFrame and answer.code == "auth_required"

    def begin_login(self, call: RemoteCall) -> None:
        """Keep the call open while the person logs in. The call counts as not sent: the client did not run it."""
        call.is_in_login = True
        call.was_sent = False
        call.outcome = self.new_outcome()
        self._open[call.id] = call

    def start_login(self, call_id: str, question: str) -> bool:
        """Let the client start its login as soon as there is a link. Return False if the call waits for no login."""
        call = self._open.get(call_id)
        if call is None or not call.is_in_login:
            return False
        call.login_to_start = question
        self._start_login(call)
        return True

    def _start_login(self, call: RemoteCall) -> None:
        if call.login_to_start and self._send is not None:
            self._send(encode(LoginStart(call.login_to_start, call.id)))
            call.login_to_start = ""

    def retry(self, call: RemoteCall, deadline: Deadline | None) -> None:
        """Send the call again, because the person has logged in."""
        call.leave_login(deadline)
        if call.idle_seconds is not None:
            self._start_idle_timer(call)
        if self._send is not None and call.name:
            self._request(call, self._send)

    # The link.

    def open_link(self, send: Send) -> None:
        """Use this link, and send each call without an answer over it, even if the call was sent before."""
        self._send = send
        for call in self._open.values():
            if call.is_in_login:
                self._start_login(call)
            elif call.name and not call.outcome.done():
                self._request(call, send)

    def drop_link(self) -> None:
        """Forget the link, which has dropped. The calls stay open. The client sends unacknowledged answers again."""
        self._send = None
        self._acks.clear()
        if self._ack_timer is not None:
            self._ack_timer.cancel()
            self._ack_timer = None

    def end(self, why: str) -> None:
        """End every open call as lost, because the peer will not return."""
        self._end_reason = why
        self.drop_link()
        for call in tuple(self._open.values()):
            call.end(LostCall(call.was_sent, why))
        self._cancel_idle_timer()

    def _request(self, call: RemoteCall, send: Send) -> None:
        left = self._milliseconds_left(call) if "deadline" in self.capabilities else None
        send(encode(CallRequest(call.id, call.name, call.arguments, left, again=call.was_sent, retry=call.retry)))
        call.was_sent = True

    def _milliseconds_left(self, call: RemoteCall) -> int | None:
        """Return the milliseconds until the call times out; None if it does not."""
        end = None if call.deadline is None else call.deadline.at
        if call.idle_seconds is not None:
            end = call.idle_until if end is None else min(end, call.idle_until)
        return None if end is None else max(1, int((end - time.monotonic()) * 1000))

    def _send_acks(self) -> None:
        if self._ack_timer is not None:
            self._ack_timer.cancel()
            self._ack_timer = None
        acks, self._acks = self._acks, []
        if acks and self._send is not None:
            self._send(encode(Acknowledged(ids=acks)))

    # There is one timer for all calls: most calls have ended when it fires.

    def _start_idle_timer(self, call: RemoteCall) -> None:
        assert call.idle_seconds is not None
        call.idle_until = time.monotonic() + call.idle_seconds
        if call.idle_until < self._idle_check_at:
            self._set_idle_timer(call.idle_seconds, call.idle_until)

    def _set_idle_timer(self, seconds: float, at: float) -> None:
        self._cancel_idle_timer()
        self._idle_timer = asyncio.get_running_loop().call_later(seconds, self._check_idle_calls)
        self._idle_check_at = at

    def _cancel_idle_timer(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._idle_timer, self._idle_check_at = None, inf

    def _check_idle_calls(self) -> None:
        """End the calls of which nothing was heard for too long, and look again when the next one may be due."""
        self._cancel_idle_timer()
        now = time.monotonic()
        waiting = [call for call in self._open.values() if _is_timed(call)]
        for call in waiting:
            if call.idle_seconds is not None and call.idle_until <= now:
                call.end(IdleTimeout(call.idle_seconds))
                self.cancel(call, "timeout")
        later = [call.idle_until for call in waiting if not call.outcome.done()]
        if later:
            self._set_idle_timer(max(0.001, min(later) - now), min(later))


def _is_timed(call: RemoteCall) -> bool:
    """Whether the idle time of this call runs."""
    return call.idle_seconds is not None and not call.is_in_login and not call.outcome.done()


def _is_repeated(frame: FailureFrame, call: RemoteCall) -> bool:
    """Return whether the client repeats an earlier request for a login, because its link had dropped.

    If not, the call takes the client's count of logins.
    """
    if frame.retry < call.retry:
        return True
    call.retry = frame.retry  # an earlier process of the gateway may have sent the call more often
    return call.is_in_login
