"""The calls of one client, across its connections (ws.md 5 and 6): frames and ends of calls in, actions out.

A call runs once. Its answer is kept until it is acknowledged: after a drop or a restart the state knows what to send
again, and what not to run again.
"""

from collections import deque
from typing import Final

import msgspec
from msgspec import Struct

from handspan.client.actions import (
    Action,
    AskPerson,
    RunCall,
    SaveState,
    SendFrame,
    SetTimeout,
    ShrinkAnswer,
    StopAsking,
    StopCall,
)
from handspan.client.memory import MAX_CALLS, CallMemory
from handspan.client.sizes import fits, max_text, shorten, shorten_error
from handspan.client.tools import ClientTool, ClientTools
from handspan.core.bounded import BoundedDict
from handspan.core.errors import ErrorCode
from handspan.core.names import SEPARATOR
from handspan.core.values import Json, round_seconds
from handspan.wire.ws_frames import (
    VERSION,
    CallRequest,
    CancelFrame,
    Connected,
    Decision,
    FailureFrame,
    PermissionAnswer,
    PermissionRequest,
    ProgressFrame,
    ResultFrame,
    WireLimits,
)

NO_CODE: Final = "No handler registered"


class LinkTerms(Struct):
    """Whether there is a link to the gateway, and what holds on it."""

    is_open: bool = False
    is_connected: bool = False
    """Whether the gateway has answered on this link."""
    greeting: Connected = Connected(VERSION, "")
    """The last answer of the gateway to `connect`."""
    capabilities: frozenset[str] = frozenset()
    """The capabilities that both ends have."""
    limits: WireLimits = WireLimits()

    def note_connected(self, greeting: Connected) -> None:
        """Note that the gateway has answered."""
        self.is_connected = True
        self.greeting = greeting
        self.capabilities = frozenset(greeting.capabilities)
        self.limits = greeting.limits or WireLimits()

    def can(self, capability: str) -> bool:
        """Whether the gateway has answered, and both ends have this capability."""
        return self.is_connected and capability in self.capabilities


class _OpenCall:
    """A call whose code has not ended yet."""

    __slots__ = ("is_running", "is_settled", "request", "seconds", "tool")

    def __init__(self, request: CallRequest, tool: ClientTool) -> None:
        self.request = request
        self.tool = tool
        self.is_running = False
        self.is_settled = False
        """The call is answered, or needs no answer; its code may still run."""
        own = tool.spec.timeout
        self.seconds = own if request.timeout_ms is None else request.timeout_ms / 1000
        """How long the call may take; None: any time."""


class ClientCalls:
    """The calls of one client, and what the person here is asked for them."""

    def __init__(self, tools: ClientTools, memory: CallMemory, concurrency: int, link: LinkTerms) -> None:
        self.memory = memory
        self.link = link
        self._tools = tools
        self._calls: dict[str, _OpenCall] = {}
        self._free_slots = concurrency
        """How many more calls may run now."""
        self._queue: deque[_OpenCall] = deque()
        self._permissions: BoundedDict[str, PermissionAnswer | None] = BoundedDict(MAX_CALLS)
        """Permission questions of the gateway, by id, with their answers; None: the person has not answered yet."""

    # Frames of the gateway.

    def receive_request(self, frame: CallRequest, now: float) -> list[Action]:
        """Run this call, unless it must not run again; a call that can't run is answered."""
        stage = self.memory.stage(frame.id)
        if frame.retry > self.memory.retry(frame.id) and stage == "answered":  # ws.md 5.13: this retry is new
            stage = None
        if frame.id in self._calls or (stage is not None and stage != "started"):  # ws.md 6.3
            return []
        tool = self._tools.find(frame.name)
        if stage is not None and not (tool is not None and tool.may_repeat):  # ws.md 6.4: started by an earlier process
            text = f"This device was restarted while it ran {frame.name!r}: its outcome is unknown."
            return self._store_answer(_fault(frame.id, text, "unknown_outcome"), now)
        if tool is None:
            text = f"Tool {frame.name!r} is not available on this device.{self._tools.hint(frame.name)}"
            return self._store_answer(_fault(frame.id, text, "tool_not_found"), now)
        if self._tools.code(tool) is None:
            return self._store_answer(_fault(frame.id, NO_CODE), now)
        if error := tool.argument_error(frame.args):
            return self._store_answer(_fault(frame.id, error, "invalid_arguments"), now)
        call = self._calls[frame.id] = _OpenCall(frame, tool)
        self._queue.append(call)
        timeout: list[Action] = [] if call.seconds is None else [SetTimeout(frame.id, call.seconds)]
        return [*timeout, *self._start_calls(now)]

    def receive_acknowledged(self, ids: list[str], now: float) -> list[Action]:
        """Forget the answers of these calls: the gateway has stored them."""
        known = [call_id for call_id in ids if self.memory.stage(call_id) == "answered"]
        for call_id in known:
            self.memory.close(call_id, now)
        return [SaveState()] if known else []

    def receive_cancel(self, frame: CancelFrame, now: float) -> list[Action]:
        """Stop a call whose caller waits no longer."""
        call = self._calls.get(frame.id)
        if call is None or call.is_settled:
            return []
        call.is_settled = True
        self.memory.close(frame.id, now)
        if call.is_running:
            return [StopCall(frame.id, frame.reason)]
        self._queue.remove(call)
        del self._calls[frame.id]
        return []

    def receive_permission(self, frame: PermissionRequest) -> list[Action]:
        """Ask the person here for a permission, once."""
        if frame.id in self._permissions:  # asked again after a drop
            answer = self._permissions[frame.id]
            return [] if answer is None else [SendFrame(answer)]
        self._permissions[frame.id] = None
        return [AskPerson(msgspec.structs.replace(frame, tool=self._own_name(frame.tool)))]

    def has_asked(self, question_id: str) -> bool:
        """Whether the gateway has asked the person here this question."""
        return question_id in self._permissions

    def stop_asking(self, question_ids: list[str]) -> list[Action]:
        """Take back the questions of these that have no answer yet: their calls have ended (ws.md 5.9)."""
        unanswered = [one for one in question_ids if self._permissions[one] is None]
        for question_id in unanswered:
            del self._permissions[question_id]
        return [StopAsking(question_id) for question_id in unanswered]

    # The code of calls.

    def finish_call(self, call_id: str, answer: ResultFrame | FailureFrame | None, now: float) -> list[Action]:
        """Note that the code of a call has ended, with this answer; None when it was stopped."""
        call = self._calls.pop(call_id)
        self._free_slots += 1
        actions: list[Action] = []
        if not call.is_settled:
            if answer is not None:
                actions = self._store_answer(answer, now)
            else:
                self.memory.close(call_id, now)
        return [*actions, *self._start_calls(now)]

    def report_progress(self, call_id: str, value: Json) -> list[Action]:
        """Note that the code of a call reports a value."""
        call = self._calls.get(call_id)
        if call is None or call.is_settled or not self.link.can("progress"):
            return []
        renewed = call.tool.spec.timeout or call.seconds  # ws.md 5.7: progress restarts the timeout
        timeout: list[Action] = [] if call.seconds is None or renewed is None else [SetTimeout(call_id, renewed)]
        return [SendFrame(ProgressFrame(id=call_id, value=value)), *timeout]

    def expire_call(self, call_id: str, now: float) -> list[Action]:
        """Note that the call has timed out."""
        call = self._calls.get(call_id)
        if call is None:
            return []
        if call.is_settled:  # the link dropped without `resume`: the call's code may still hold a slot
            return [StopCall(call_id, "timeout")] if call.is_running else []
        call.is_settled = True
        name, limit = call.request.name, round_seconds(call.seconds or 0.0)
        if not call.is_running:
            self._queue.remove(call)
            del self._calls[call_id]
            running = ", ".join(
                sorted({repr(other.request.name) for other in self._calls.values() if other.is_running})
            )
            text = f"Tool {name!r} could not begin within {limit}: this device is still busy with {running}."
            return self._store_answer(_fault(call_id, text, "busy"), now)
        text = f"Tool {name!r} did not finish within {limit}."
        return [StopCall(call_id, "timeout"), *self._store_answer(_fault(call_id, text, "timeout"), now)]

    def answer_permission(self, question_id: str, decision: Decision, how_to_enable: str) -> list[Action]:
        """Note that the person has answered a permission question."""
        how = shorten(how_to_enable, max_text(self.link.limits))
        answer = self._permissions[question_id] = PermissionAnswer(question_id, decision, how)
        return [SendFrame(answer)] if self.link.is_connected else []

    def replace_answer(self, answer: ResultFrame | FailureFrame, now: float) -> list[Action]:
        """Send this smaller form of an answer that did not fit into a message."""
        return self._store_answer(answer, now) if self.memory.stage(answer.call) == "answered" else []

    # The link.

    def restore_link(self, *, resumed: bool, now: float) -> list[Action]:
        """Note that the gateway has answered: send answers again that an earlier link or process has sent."""
        # A gateway that does not know what the old link asked asks again where it has to.
        actions = [] if resumed else self.stop_asking(list(self._permissions))
        for answer in self.memory.unacknowledged_answers():
            actions += self._resend_answer(answer, now)
        return actions

    def _resend_answer(self, answer: ResultFrame | FailureFrame, now: float) -> list[Action]:
        """Send an answer that an earlier link or process sent without an acknowledgement (ws.md 6.3)."""
        if "resume" not in self.link.capabilities:  # the gateway that asked for it has ended its call
            self.memory.close(answer.call, now)
            return []
        if fits(answer, self.link.limits):
            return [SendFrame(answer)]
        # The limits of this gateway are lower than those of the earlier one: it would close every link on this answer.
        return self._store_answer(answer, now) if isinstance(answer, FailureFrame) else [ShrinkAnswer(answer)]

    def end_all(self) -> None:
        """Settle all calls: the gateway has ended them. Calls in the queue never begin."""
        self._queue.clear()
        for call_id, call in tuple(self._calls.items()):
            call.is_settled = True
            if not call.is_running:
                del self._calls[call_id]

    def _start_calls(self, now: float) -> list[Action]:
        """Start queued calls while there are free slots."""
        actions: list[Action] = []
        while self._queue and self._free_slots > 0:
            self._free_slots -= 1
            call = self._queue.popleft()
            call.is_running = True
            self.memory.start(call.request.id, now, call.request.retry)
            asks_person = bool(call.tool.spec.permissions) and "permissions" not in self.link.capabilities
            actions.append(RunCall(call.request, not call.tool.may_repeat, asks_person))
        return actions

    def _store_answer(self, frame: ResultFrame | FailureFrame, now: float) -> list[Action]:
        """Store the answer and send it. Without a link it is sent after the next connect."""
        if isinstance(frame, FailureFrame):
            frame = shorten_error(frame, self.link.limits)
        self.memory.answer(frame, now)
        return [SaveState(), SendFrame(frame)] if self.link.is_connected else [SaveState()]

    def _own_name(self, name: str) -> str:
        """Return the client's own name of a tool that the gateway knows with this device's label before it."""
        label = self.link.greeting.label
        own = name.removeprefix(f"{label}{SEPARATOR}") if label else name
        return own if self._tools.find(own) is not None else name


def _fault(call_id: str, text: str, code: ErrorCode | None = None) -> FailureFrame:
    return FailureFrame(id=call_id, error=text, code=code or "")
