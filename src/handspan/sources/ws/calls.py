"""The open calls of one peer: asked once, answered once, whatever becomes of the link (ws.md 5, 6).

A peer is a client across its connections. While its link is down, its calls wait, if it said that it can come back;
they are asked again when it does. Nothing here knows sockets: frames go out through a callable, and come in by name.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from msgspec import Struct, field

from handspan.core.context import Deadline, Progress
from handspan.core.values import Arguments
from handspan.wire.ws import encode
from handspan.wire.ws_frames import Acknowledged, CallRequest, CancelFrame, FailureFrame, ProgressFrame, ResultFrame

Send: TypeAlias = Callable[[bytes], None]
ACK_DELAY: Final = 0.05
_MOST_ACKS: Final = 64


class Lost(Struct, frozen=True):
    """Nobody will answer any more. `was_sent`: the client may have run it."""

    was_sent: bool
    why: str


class Silent(Struct, frozen=True):
    """The tool's own time passed without a sign of life."""

    seconds: float


Outcome: TypeAlias = ResultFrame | FailureFrame | Lost | Silent


class RemoteCall(Struct, eq=False):
    """One request and the answer that it waits for."""

    id: str
    name: str
    """The client's own name of the tool; empty for a call of an earlier life whose tool is not back yet."""
    arguments: Arguments
    deadline: Deadline | None
    report: Progress | None = None
    idle: float | None = None
    """The tool's own seconds, which begin anew with each sign of life."""
    outcome: asyncio.Future[Outcome] = field(default_factory=asyncio.Future)
    idle_until: float = 0.0
    was_sent: bool = False
    known_as: str = ""
    """The name under which a tool of an earlier life will come back."""

    def end(self, outcome: Outcome) -> bool:
        """Give it this outcome; False when it has one."""
        if self.outcome.done():
            return False
        self.outcome.set_result(outcome)
        return True


class RemoteCalls:
    """What one peer was asked and has not answered yet."""

    __slots__ = (
        "_ack_timer",
        "_acks",
        "_answered",
        "_idle_timer",
        "_is_over",
        "_open",
        "_send",
        "can",
        "dropped",
        "new_outcome",
    )

    def __init__(self, can: frozenset[str]) -> None:
        self.can = can
        """The capabilities that were agreed on."""
        self.dropped = 0
        """Results that nobody had asked for, or not any more."""
        self.new_outcome: Callable[[], asyncio.Future[Outcome]] = asyncio.get_running_loop().create_future
        """An outcome to wait for. A future that looks for its loop itself makes a system call."""
        self._open: dict[str, RemoteCall] = {}
        self._send: Send | None = None
        self._is_over = ""
        """Why the peer will not come back."""
        self._answered: set[str] = set()
        """Answered, and not kept yet."""
        self._acks: list[str] = []
        self._ack_timer: asyncio.TimerHandle | None = None
        self._idle_timer: asyncio.TimerHandle | None = None

    @property
    def open(self) -> Mapping[str, RemoteCall]:
        """The calls that wait, by id."""
        return self._open

    def ask(self, call: RemoteCall) -> None:
        """Send the request, now or as soon as the link is there."""
        if self._is_over:  # it left between the look for its tool and now
            call.end(Lost(False, self._is_over))
            return
        self._open[call.id] = call
        if call.idle is not None:
            self._keep_time(call)
        if self._send is not None and call.name:
            self._request(call, self._send)

    def forget(self, call: RemoteCall) -> None:
        """This call is over."""
        self._open.pop(call.id, None)

    def cancel(self, call: RemoteCall, reason: str) -> None:
        """Tell the client that nobody waits any more."""
        if call.was_sent and self._send is not None and "cancel" in self.can:
            self._send(encode(CancelFrame(call.id, reason)))

    def answered(self, frame: ResultFrame | FailureFrame) -> bool:
        """Take an answer. False: nobody waits for it; then it is acknowledged at once, and dropped."""
        call = self._open.get(frame.call)
        if call is not None and not call.outcome.done():
            call.outcome.set_result(frame)
            self._answered.add(call.id)
            return True
        self.dropped += 1
        return False

    def reported(self, frame: ProgressFrame) -> bool:
        """Show progress, and begin the tool's own time anew."""
        call = self._open.get(frame.call)
        if call is None or call.outcome.done() or "progress" not in self.can:
            return False
        if call.idle is not None:
            call.idle_until = time.monotonic() + call.idle
        if call.report is not None:
            call.report(frame.value)
        return True

    def finished(self, call_id: str) -> None:
        """The call has its one result, and it is kept. If that is what the client answered, it may forget it."""
        if call_id in self._answered:
            self._answered.discard(call_id)
            self._acknowledge(call_id)

    def acknowledge(self, call_id: str) -> None:
        """The result is kept, or dropped for good: the client may forget it."""
        if call_id not in self._answered:  # else it is a second copy, and the first is not kept yet: `finished` says it
            self._acknowledge(call_id)

    def _acknowledge(self, call_id: str) -> None:
        if "ack_batch" not in self.can:
            if self._send is not None:
                self._send(encode(Acknowledged(call_id)))
            return
        self._acks.append(call_id)
        if len(self._acks) >= _MOST_ACKS:
            self._send_acks()
        elif self._ack_timer is None:
            self._ack_timer = asyncio.get_running_loop().call_later(ACK_DELAY, self._send_acks)

    def named(self, known_as: str, own_name: str) -> None:
        """A tool is back: calls of it that an earlier life of this gateway left open are asked again."""
        for call in self._open.values():
            if not call.name and call.known_as == known_as and not call.outcome.done():
                call.name = own_name
                if self._send is not None:
                    self._request(call, self._send)

    # The link.

    def up(self, send: Send) -> None:
        """The link is there: what waits is asked, or asked again."""
        self._send = send
        for call in self._open.values():
            if call.name and not call.outcome.done():
                self._request(call, send)

    def down(self) -> None:
        """The link is gone; the calls stay open. Whoever resumes sends again what was not acknowledged."""
        self._send = None
        self._acks.clear()
        if self._ack_timer is not None:
            self._ack_timer.cancel()
            self._ack_timer = None

    def end(self, why: str) -> None:
        """The peer will not come back: every open call is lost."""
        self._is_over = why
        self.down()
        for call in tuple(self._open.values()):
            call.end(Lost(call.was_sent, why))
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None

    def _request(self, call: RemoteCall, send: Send) -> None:
        left = self._left(call) if "deadline" in self.can else None
        send(encode(CallRequest(call.id, call.name, call.arguments, left, call.was_sent)))
        call.was_sent = True

    def _left(self, call: RemoteCall) -> int | None:
        """Milliseconds until nobody waits any more."""
        end = None if call.deadline is None else call.deadline.at
        if call.idle is not None:
            end = call.idle_until if end is None else min(end, call.idle_until)
        return None if end is None else max(1, int((end - time.monotonic()) * 1000))

    def _send_acks(self) -> None:
        if self._ack_timer is not None:
            self._ack_timer.cancel()
            self._ack_timer = None
        acks, self._acks = self._acks, []
        if acks and self._send is not None:
            self._send(encode(Acknowledged(ids=acks)))

    # One timer for all of them: most calls are long over before it is looked at.

    def _keep_time(self, call: RemoteCall) -> None:
        assert call.idle is not None
        call.idle_until = time.monotonic() + call.idle
        if self._idle_timer is None:
            self._idle_timer = asyncio.get_running_loop().call_later(call.idle, self._look_at_the_clock)

    def _look_at_the_clock(self) -> None:
        self._idle_timer = None
        now = time.monotonic()
        waiting = [call for call in self._open.values() if call.idle is not None and not call.outcome.done()]
        for call in waiting:
            if call.idle is not None and call.idle_until <= now:
                call.end(Silent(call.idle))
                self.cancel(call, "timeout")
        later = [call.idle_until for call in waiting if not call.outcome.done()]
        if later:
            loop = asyncio.get_running_loop()
            self._idle_timer = loop.call_later(max(0.001, min(later) - now), self._look_at_the_clock)
