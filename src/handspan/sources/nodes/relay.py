"""The connection of one client, as other nodes use it: their frames go to the client, its answers back to them.

One relay stands for one connection, and sends each call over it at most once. For a call that comes again, the relay
sends the answer again, if it has one. After a drop there is a new relay, and the client itself knows which calls it has
seen (ws.md 6.3).
"""

import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from msgspec import Struct

from handspan.core.errors import ToolError
from handspan.core.nodes import NodeLink
from handspan.sources.nodes.messages import FROM_CLIENT, FromClient, LargeFrames, ToClient, encode, is_large, read_head
from handspan.sources.ws.calls import RemoteCalls
from handspan.wire.ws import decode_client
from handspan.wire.ws import encode as encode_frame
from handspan.wire.ws_frames import FailureFrame, PermissionAnswer, ProgressFrame, ResultFrame

_MAX_ANSWERED: Final = 1000
"""Answers that are kept until the calling node has stored them. The oldest are forgotten first."""
_REPEAT_SECONDS: Final = 3.0


class RelayHost(Protocol):
    """The parts and limits that all relays of a node use."""

    @property
    def link(self) -> NodeLink: ...
    @property
    def frames(self) -> LargeFrames: ...
    @property
    def most_calls(self) -> int:
        """Calls of other nodes that one client may have open."""

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Do this work in a task of its own."""


class _CarriedCall(Struct):
    """A call of another node, with its answer."""

    id: str
    caller: str
    """The node that waits for the answer; empty while no node has asked for an answer that came early."""
    retry: int = 0
    """The number of the attempt: a call with a higher number is sent to the client again."""
    answer: bytes = b""
    """The client's answer, as a frame; empty while the call runs."""
    answered_at: float = 0.0
    """When the answer was last sent."""
    stored: str = ""
    """The artifact that holds a large answer."""


class Relay(Struct, eq=False):
    """Carries the calls of other nodes over one client's connection."""

    peer: str
    owner: str
    calls: RemoteCalls
    """The calls of this node to the client."""
    send: Callable[[bytes], None]
    """Sends a frame to the client."""
    host: RelayHost
    epoch: int = 0
    """The number of this connection in the database; 0 until its row is written."""
    callers: set[str] = set()
    """The nodes that have sent a frame to the client."""
    carried: dict[str, _CarriedCall] = {}
    """The calls of other nodes, until their answers are acknowledged."""
    _asked: dict[str, str] = {}
    """The node that asks each question, by the question's id. The person at the client answers them."""

    @property
    def is_awaited(self) -> bool:
        """Whether another node waits for the client."""
        return bool(self._asked) or self.has_calls

    @property
    def has_calls(self) -> bool:
        """Whether a call of another node waits for the client."""
        return any(call.caller and not call.answer for call in self.carried.values())

    # From other nodes.

    def deliver(self, message: ToClient, frame: bytes) -> None:
        """Send the frame of a message to the client, or note what it says."""
        sender, head = message.sender, read_head(frame)
        self.callers.add(sender)
        match head.type:
            case "tool_call_request":
                self._deliver_call(sender, head.id, head.retry, frame)
            case "result_acknowledged":
                for call_id in head.ids or (head.id,):
                    self._forget(call_id)
                    self.calls.acknowledge(call_id)
            case "permission_request":
                self._asked[head.id] = sender
                self.send(frame)
            case "question_closed":
                self._asked.pop(head.id, None)
                self.send(frame)
            case _:
                self.send(frame)

    def _deliver_call(self, sender: str, call_id: str, retry: int, frame: bytes) -> None:
        """Send a new call to the client. For a call that has come before, only send its answer again."""
        known = self.carried.get(call_id)
        if known is not None and known.retry >= retry:
            known.caller = sender
            if known.answer:
                self._respond(known)
            return
        running = sum(not call.answer for call in self.carried.values())
        if running >= self.host.most_calls:
            text = f"The client has {running} open calls of other nodes: try again when some have ended."
            self.refuse(sender, FailureFrame(id=call_id, error=text, code="busy"))
            return
        self.carried[call_id] = _CarriedCall(call_id, sender, retry)
        self.send(frame)

    def refuse(self, sender: str, failure: FailureFrame) -> None:
        """Send this failure as the answer to a call that is not run."""
        self._send_back(sender, encode_frame(failure))

    def knows(self, call_id: str, sender: str) -> bool:
        """Return whether this call has come. Send its answer once more, if there is one."""
        call = self.carried.get(call_id)
        if call is None:
            return False
        call.caller = sender
        if call.answer:
            self._respond(call)
        return True

    def repeat_answers(self) -> None:
        """Send answers again that no node has acknowledged for a while: the answer or its acknowledgement was lost."""
        before = time.monotonic() - _REPEAT_SECONDS
        for call in self.carried.values():
            if call.answer and call.caller and call.answered_at < before:
                self._respond(call)

    def release(self, call_id: str) -> ResultFrame | FailureFrame | bool:
        """Stop carrying the call of a lost node, because this node has taken it over.

        Return the call's answer; True while the client runs the call; False if it never came over this connection.
        """
        call = self._forget(call_id)
        if call is None or not call.answer:
            return call is not None
        answer = decode_client(call.answer)
        return answer if isinstance(answer, ResultFrame | FailureFrame) else True

    # From the client.

    def take_answer(self, frame: ResultFrame | FailureFrame) -> bool:
        """Pass on the client's answer to a call of another node. Return False when no other node has this call."""
        call = self.carried.get(frame.call)
        if call is None:
            return False
        call.answer = encode_frame(frame)
        self._respond(call)
        return True

    def keep_early(self, frame: ResultFrame | FailureFrame) -> None:
        """Keep the answer to a call of another node that has not yet asked for it over this connection."""
        if self.take_answer(frame):  # the node has asked meanwhile
            return
        retry, answer = frame.retry if isinstance(frame, FailureFrame) else 0, encode_frame(frame)
        self.carried[frame.call] = _CarriedCall(frame.call, "", retry, answer, answered_at=time.monotonic())
        self._forget_oldest()

    def take_progress(self, frame: ProgressFrame) -> bool:
        """Pass on the progress of a call of another node. Return False when no other node waits for this call."""
        call = self.carried.get(frame.call)
        if call is None or call.answer:
            return False
        self._send_back(call.caller, encode_frame(frame))
        return True

    def take_permission(self, frame: PermissionAnswer) -> bool:
        """Pass on the answer to a question of another node. Return False when no other node has asked it."""
        asker = self._asked.pop(frame.id, None)
        if asker is None:
            return False
        self._send_back(asker, encode_frame(frame))
        return True

    # Inside.

    def _respond(self, call: _CarriedCall) -> None:
        """Send the answer of a call to the node that waits for it, if that node is known."""
        call.answered_at = time.monotonic()
        if call.caller:
            if is_large(call.answer):
                self.host.start(self._send_stored(call))
            else:
                self._send_back(call.caller, call.answer)
        self._forget_oldest()

    def _forget_oldest(self) -> None:
        """Forget the oldest answered call, if there are too many."""
        if len(self.carried) > _MAX_ANSWERED + self.host.most_calls:
            oldest = next((call_id for call_id, call in self.carried.items() if call.answer), None)
            if oldest is not None:
                self._forget(oldest)

    def _forget(self, call_id: str) -> _CarriedCall | None:
        """Forget a call, and return it. Remove its stored answer: the other node does not need it any more."""
        call = self.carried.pop(call_id, None)
        if call is not None and call.stored:
            self.host.start(self.host.frames.remove(call.stored, self.owner))
        return call

    def _send_back(self, node: str, frame: bytes) -> None:
        self.host.link.send(node, FROM_CLIENT, encode(FromClient(self.owner, self.peer, frame)))

    async def _send_stored(self, call: _CarriedCall) -> None:
        """Store an answer that is too large for a message, and send its name. It is stored only once."""
        try:
            call.stored = call.stored or await self.host.frames.keep(call.answer, self.owner)
        except ToolError as error:
            text = f"The result is too large to be sent between nodes, and was not stored: {error.message}"
            self._send_back(call.caller, encode_frame(FailureFrame(id=call.id, error=text)))
            return
        message = FromClient(self.owner, self.peer, stored=call.stored, call=call.id)
        self.host.link.send(call.caller, FROM_CLIENT, encode(message))
