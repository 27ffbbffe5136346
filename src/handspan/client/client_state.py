"""The client's side of `protocol/ws.md`: frames in, actions out. No socket, no clock, no threads.

`ClientState` covers all connections of one client. It introduces the client, offers its tools, runs each call once and
keeps answers until they are acknowledged. After a drop or a restart it knows what to send again, and what not to run
again.
"""

from collections import deque
from typing import Final

import msgspec

from handspan.client.actions import (
    Action,
    AskPerson,
    DeliverFrame,
    RunCall,
    SaveState,
    SendFrame,
    SetTimeout,
    ShrinkAnswer,
    StartLogin,
    StopAsking,
    StopCall,
)
from handspan.client.chat_state import ChatState, Opening
from handspan.client.errors import MessageTooLarge
from handspan.client.memory import MAX_CALLS, CallMemory
from handspan.client.sizes import FRAME_OVERHEAD, check_size, fits, max_text, shorten, shorten_error
from handspan.client.tools import ClientTool, ClientTools
from handspan.core.bounded import BoundedDict
from handspan.core.errors import ErrorCode
from handspan.core.names import SEPARATOR
from handspan.core.values import Json, round_seconds
from handspan.wire.ws import offered_name
from handspan.wire.ws_frames import (
    Abort,
    Acknowledged,
    AnswerFrame,
    CallRequest,
    CancelFrame,
    ClientFrame,
    Connect,
    Connected,
    Decision,
    DeviceNotes,
    ErrorFrame,
    FailureFrame,
    LoginStart,
    MessageAccepted,
    PermissionAnswer,
    PermissionRequest,
    ProgressFrame,
    QuestionClosed,
    Regenerate,
    RegisterTools,
    ResultFrame,
    Say,
    ServerFrame,
    ToolsRegistered,
    ToolsWithdrawn,
    TrustAnswer,
    TrustRequest,
    UnregisterTools,
    WireLimits,
)

NO_CODE: Final = "No handler registered"
_MAX_OFFERED: Final = 256 * 1024
"""Bytes of tools in one frame: more tools come in several frames."""


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


class ClientState:
    """The state of one client, across its connections."""

    def __init__(
        self,
        introduction: Connect,
        tools: ClientTools,
        memory: CallMemory,
        concurrency: int = 1,
        chat: ChatState | None = None,
    ) -> None:
        self._introduction = introduction
        self._tools = tools
        self.memory = memory
        self._chat = chat
        self._calls: dict[str, _OpenCall] = {}
        self._free_slots = concurrency
        """How many more calls may run now."""
        self._queue: deque[_OpenCall] = deque()
        self._permissions: BoundedDict[str, PermissionAnswer | None] = BoundedDict(MAX_CALLS)
        """Permission questions of the gateway, by id, with their answers; None: the person has not answered yet."""
        self._trust: dict[str, TrustRequest] = {}
        """Questions of `ask_trust` that have no answer yet."""
        self.notes: DeviceNotes | None = None
        """What people should know about this device; set it by `describe`."""
        self._unsent: list[ClientFrame] = []
        """Frames that are sent when the gateway is connected."""
        self._unaccepted: dict[str, Say] = {}
        """Messages that were sent and not accepted yet: a drop may have lost them."""
        self.is_open = False
        """Whether a link is open."""
        self.is_connected = False
        """Whether the gateway has answered on this link."""
        self.capabilities: frozenset[str] = frozenset()
        """The capabilities that both ends have."""
        self.limits = WireLimits()
        self.label = ""
        self.notice = ""
        """Why the device does not have the label that it asked for; empty if it has."""
        self.grace = 0.0
        """Seconds for which the gateway waits for this client after a drop."""
        self.rejected: dict[str, str] = {}
        """Tools that the gateway did not take, or has taken away, and why."""
        self._unanswered_offers = 0
        """How many `register_tools` of this link wait for their `tools_registered`."""

    @property
    def is_ready(self) -> bool:
        """Whether the gateway is connected and has answered every offer of tools."""
        return self.is_connected and not self._unanswered_offers

    # The link.

    def open_link(self) -> list[Action]:
        """Note that a link is open: introduce the client and offer its tools, without waiting (ws.md 1.5)."""
        self.is_open = True
        self.rejected.clear()
        self._unanswered_offers = 0
        last_event = None if self._chat is None else self._chat.last_event
        token = self.memory.resume_token or None
        hello = msgspec.structs.replace(self._introduction, resume=token, last_event=last_event if token else None)
        return [SendFrame(hello), *self._offer_frames([tool.offer() for tool in self._tools])]

    def drop_link(self, unsent: list[ClientFrame]) -> list[Action]:
        """Note that the link has dropped, and these frames were not sent."""
        self.is_open = self.is_connected = False
        # Results are in the memory, and all other frames are made anew for every link.
        self._unsent = [
            frame for frame in unsent if isinstance(frame, Say | Regenerate | Abort | AnswerFrame)
        ] + self._unsent
        can_resume = "resume" in self.capabilities
        if not can_resume:  # ws.md 6.6: the gateway has ended its calls
            self._end_calls()
            self._unaccepted.clear()
        if self._chat is None:
            return []
        return [*self._chat.drop_link(can_resume, self._is_unsent(self._chat.opening))]

    def receive(self, frame: ServerFrame, now: float) -> list[Action]:
        """Return what to do about a frame of the gateway. `now`: seconds since 1970."""
        match frame:
            case CallRequest():
                return self._receive_request(frame, now)
            case Acknowledged():
                return self._receive_acknowledged([frame.id, *frame.ids], now)
            case CancelFrame():
                return self._receive_cancel(frame, now)
            case PermissionRequest():
                return self._receive_permission(frame)
            case QuestionClosed(id=question_id) if question_id in self._permissions:
                return self._stop_asking([question_id])
            case LoginStart(call_id=call_id):
                answer = self.memory.find_answer(call_id)
                return [StartLogin(frame, answer if isinstance(answer, FailureFrame) else None)]
            case TrustAnswer(id=question_id):
                self._trust.pop(question_id, None)
            case Connected():
                return self._receive_connected(frame, now)
            case ToolsRegistered(rejected=rejected):
                self._unanswered_offers -= 1
                self.rejected.update((one.name, one.reason) for one in rejected)
            case ToolsWithdrawn(tools=withdrawn):
                self.rejected.update((one.name, one.reason) for one in withdrawn)
            case MessageAccepted(id=message_id) | ErrorFrame(id=message_id):
                self._unaccepted.pop(message_id, None)
        return [DeliverFrame(frame), *self._receive_chat(frame)]

    def send(self, frame: ClientFrame) -> list[Action]:
        """Send this frame now, or as soon as the gateway is connected."""
        if self._chat is not None and isinstance(frame, Say | Regenerate) and self._chat.opening is None:
            self._chat.begin_turn(frame)
        elif self._chat is not None and isinstance(frame, Say):
            self._chat.join_turn(frame)
        if isinstance(frame, Say) and frame.id:
            self._unaccepted[frame.id] = frame
        if self.is_connected:
            return [SendFrame(frame)]
        self._unsent.append(frame)
        return []

    def describe(self, notes: DeviceNotes) -> list[Action]:
        """Tell people about this device, on this link and on every later one."""
        self.notes = notes
        return [SendFrame(notes)] if self.is_connected and "about" in self.capabilities else []

    def ask_trust(self, request: TrustRequest) -> list[Action]:
        """Ask the person whether they trust something, on every link until there is an answer."""
        self._trust[request.id] = request
        return [SendFrame(request)] if self.is_connected and "trust" in self.capabilities else []

    def give_up(self, why: str) -> list[Action]:
        """End the open turn with this error; its messages are not sent any more."""
        if self._chat is None:
            return []
        self._unsent = [frame for frame in self._unsent if not isinstance(frame, Say | Regenerate)]
        self._unaccepted.clear()
        return [*self._chat.lose_turn(why)]

    def _receive_chat(self, frame: ServerFrame) -> list[Action]:
        if self._chat is None:
            return []
        opening, events = self._chat.opening, self._chat.receive(frame, self.capabilities)
        # The message was answered, also by a gateway without `message_accepted`.
        if isinstance(opening, Say) and self._chat.opening is None:
            self._unaccepted.pop(opening.id, None)
        return [*events]

    # The tools.

    def change_tool(self, name: str) -> list[Action]:
        """Note that a tool was added, replaced or removed."""
        tool = self._tools.find(name)
        if not self.is_open:
            return []
        if tool is not None:
            return self._offer_frames([tool.offer()])
        return [SendFrame(UnregisterTools([name]))] if "unregister" in self.capabilities else []

    # The calls.

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
        if call is None or call.is_settled or not self.is_connected or "progress" not in self.capabilities:
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
        how = shorten(how_to_enable, max_text(self.limits))
        answer = self._permissions[question_id] = PermissionAnswer(question_id, decision, how)
        return [SendFrame(answer)] if self.is_connected else []

    def replace_answer(self, answer: ResultFrame | FailureFrame, now: float) -> list[Action]:
        """Send this smaller form of an answer that did not fit into a message."""
        return self._store_answer(answer, now) if self.memory.stage(answer.call) == "answered" else []

    # Frames.

    def _receive_connected(self, frame: Connected, now: float) -> list[Action]:
        was_connected = bool(self.memory.resume_token)
        self.is_connected = True
        self.capabilities = frozenset(frame.capabilities)
        self.limits = frame.limits or WireLimits()
        self.label = frame.label
        self.notice = frame.notice
        self.grace = frame.grace_ms / 1000
        self.memory.resume_token = frame.resume_token
        if "resume" not in self.capabilities:
            self._unaccepted.clear()
        actions: list[Action] = [SaveState(), DeliverFrame(frame)]
        if not frame.resumed:  # the gateway does not know what the old link asked, and asks again where it has to
            actions += self._stop_asking(list(self._permissions))
        for answer in self.memory.unacknowledged_answers():
            actions += self._resend_answer(answer, now)
        if self.notes is not None and "about" in self.capabilities:
            actions.append(SendFrame(self.notes))
        if "trust" in self.capabilities:
            actions += [SendFrame(request) for request in self._trust.values()]
        resent: list[ClientFrame] = []
        if self._chat is not None and was_connected:
            is_unsent, can_resume = self._is_unsent(self._chat.opening), "resume" in self.capabilities
            resent, events = self._chat.restore_link(bool(frame.resumed), is_unsent, can_resume)
            actions += events
        frames = (*resent, *self._maybe_lost_messages(resent), *self._unsent)
        self._unaccepted.update((one.id, one) for one in self._unsent if isinstance(one, Say) and one.id)
        self._unsent.clear()
        for one in frames:
            actions += self._send_checked(one, now)
        return actions

    def _resend_answer(self, answer: ResultFrame | FailureFrame, now: float) -> list[Action]:
        """Send an answer that an earlier link or process sent without an acknowledgement (ws.md 6.3)."""
        if "resume" not in self.capabilities:  # the gateway that asked for it has ended its call
            self.memory.close(answer.call, now)
            return []
        if fits(answer, self.limits):
            return [SendFrame(answer)]
        # The limits of this gateway are lower than those of the earlier one: it would close every link on this answer.
        return self._store_answer(answer, now) if isinstance(answer, FailureFrame) else [ShrinkAnswer(answer)]

    def _send_checked(self, frame: ClientFrame, now: float) -> list[Action]:
        """Send a frame that was queued before the gateway's limits were known.

        A frame that is too large is answered here with an `ErrorFrame`, in the gateway's place.
        """
        try:
            check_size(frame, self.limits)
        except MessageTooLarge as error:
            return self.receive(ErrorFrame(str(error), id=frame.id if isinstance(frame, Say) else ""), now)
        return [SendFrame(frame)]

    def _maybe_lost_messages(self, resent: list[ClientFrame]) -> list[Say]:
        """Return the messages to send again besides these; the gateway takes each of them once (ws.md 3.1)."""
        frames = [*resent, *self._unsent]
        return [one for one in self._unaccepted.values() if not any(one is other for other in frames)]

    def _receive_request(self, frame: CallRequest, now: float) -> list[Action]:
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

    def _receive_acknowledged(self, ids: list[str], now: float) -> list[Action]:
        known = [call_id for call_id in ids if self.memory.stage(call_id) == "answered"]
        for call_id in known:
            self.memory.close(call_id, now)
        return [SaveState()] if known else []

    def _receive_cancel(self, frame: CancelFrame, now: float) -> list[Action]:
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

    def _receive_permission(self, frame: PermissionRequest) -> list[Action]:
        if frame.id in self._permissions:  # asked again after a drop
            answer = self._permissions[frame.id]
            return [] if answer is None else [SendFrame(answer)]
        self._permissions[frame.id] = None
        return [AskPerson(msgspec.structs.replace(frame, tool=self._own_name(frame.tool)))]

    def _stop_asking(self, question_ids: list[str]) -> list[Action]:
        """Take back the questions of these that have no answer yet: their calls have ended (ws.md 5.9)."""
        unanswered = [one for one in question_ids if self._permissions[one] is None]
        for question_id in unanswered:
            del self._permissions[question_id]
        return [StopAsking(question_id) for question_id in unanswered]

    # Calls and tools.

    def _end_calls(self) -> None:
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
            asks_person = bool(call.tool.spec.permissions) and "permissions" not in self.capabilities
            actions.append(RunCall(call.request, not call.tool.may_repeat, asks_person))
        return actions

    def _store_answer(self, frame: ResultFrame | FailureFrame, now: float) -> list[Action]:
        """Store the answer and send it. Without a link it is sent after the next connect."""
        if isinstance(frame, FailureFrame):
            frame = shorten_error(frame, self.limits)
        self.memory.answer(frame, now)
        return [SaveState(), SendFrame(frame)] if self.is_connected else [SaveState()]

    def _offer_frames(self, offers: list[Json]) -> list[Action]:
        """Return as many frames as these tools need. A tool that fits into no frame is put into `rejected`."""
        frames: list[list[Json]] = []
        limit = min(_MAX_OFFERED, self.limits.message_bytes - FRAME_OVERHEAD)
        left = 0
        for offer in offers:
            size = len(msgspec.json.encode(offer)) + 1
            if size > self.limits.message_bytes - FRAME_OVERHEAD:
                self.rejected[offered_name(offer)] = _too_large(size, self.limits)
                continue
            if size > left:
                frames.append([])
                left = limit
            left -= size
            frames[-1].append(offer)
        self._unanswered_offers += len(frames)
        return [SendFrame(RegisterTools(tools)) for tools in frames]

    def _own_name(self, name: str) -> str:
        """Return the client's own name of a tool that the gateway knows with this device's label before it."""
        own = name.removeprefix(f"{self.label}{SEPARATOR}") if self.label else name
        return own if self._tools.find(own) is not None else name

    def _is_unsent(self, opening: Opening | None) -> bool:
        return opening is not None and any(frame is opening for frame in self._unsent)


def _too_large(size: int, limits: WireLimits) -> str:
    return f"It has {size} bytes, and the gateway takes {limits.message_bytes} bytes in one message: say less of it."


def _fault(call_id: str, text: str, code: ErrorCode | None = None) -> FailureFrame:
    return FailureFrame(id=call_id, error=text, code=code or "")
