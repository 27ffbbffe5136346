"""The client's side of `protocol/ws.md`: frames in, frames and actions out. No socket, no clock, no threads.

A peer is a client across its connections. It introduces itself, offers its tools, lets each call run once, keeps
answers until they are acknowledged, and knows after a drop or a restart what to send again and what not to run again.
"""

from collections import deque
from typing import Final

import msgspec

from handspan.client.actions import Action, AskPerson, Keep, RunCall, Send, Shrink, StopCall, Tell, Watch
from handspan.client.faults import MessageTooLarge
from handspan.client.memory import MOST_IDS, CallMemory
from handspan.client.sizes import AROUND, check, cut, fits, longest_text, short
from handspan.client.talk import ChatState, Opening
from handspan.client.tools import ClientTool, Tools
from handspan.core.errors import ErrorCode
from handspan.core.names import SEPARATOR
from handspan.core.values import Json
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
    ErrorFrame,
    FailureFrame,
    MessageAccepted,
    PermissionAnswer,
    PermissionRequest,
    ProgressFrame,
    Regenerate,
    RegisterTools,
    ResultFrame,
    Say,
    ServerFrame,
    ToolsRegistered,
    UnregisterTools,
    WireLimits,
)

NO_CODE: Final = "No handler registered"
_MOST_OFFERED: Final = 256 * 1024
"""Bytes of tools in one frame: many large ones come in several."""


class _Call:
    """A call of this life that has not ended yet."""

    __slots__ = ("is_running", "is_settled", "request", "seconds", "tool")

    def __init__(self, request: CallRequest, tool: ClientTool) -> None:
        self.request = request
        self.tool = tool
        self.is_running = False
        self.is_settled = False
        """It is answered, or nobody waits for an answer; its code may still run."""
        own = tool.spec.timeout
        self.seconds = own if request.timeout_ms is None else request.timeout_ms / 1000


class ClientState:
    """The state of one client."""

    def __init__(
        self,
        introduction: Connect,
        tools: Tools,
        memory: CallMemory,
        concurrency: int = 1,
        talk: ChatState | None = None,
    ) -> None:
        self._introduction = introduction
        self._tools = tools
        self.memory = memory
        self._talk = talk
        self._calls: dict[str, _Call] = {}
        self._room = concurrency
        """How many calls may begin now."""
        self._queue: deque[_Call] = deque()
        self._permissions: dict[str, PermissionAnswer | None] = {}
        self._unsent: list[ClientFrame] = []
        self._unaccepted: dict[str, Say] = {}
        """Messages that were sent, and may have gone down with the link."""
        self.is_open = False
        self.is_connected = False
        self.agreed: frozenset[str] = frozenset()
        self.limits = WireLimits()
        self.label = ""
        self.grace = 0.0
        """Seconds within which the gateway waits for it after a drop."""
        self.rejected: dict[str, str] = {}
        """Tools that the gateway did not take, and why."""

    # The link.

    def opened(self) -> list[Action]:
        """A link is up: say who is there and what it offers, without waiting (ws.md 1.5)."""
        self.is_open = True
        self.rejected.clear()
        last_event = None if self._talk is None else self._talk.last_event
        token = self.memory.resume_token or None
        hello = msgspec.structs.replace(self._introduction, resume=token, last_event=last_event if token else None)
        return [Send(hello), *self._offers([tool.offer() for tool in self._tools])]

    def dropped(self, unsent: list[ClientFrame]) -> list[Action]:
        """The link is gone, and these frames did not get away."""
        self.is_open = self.is_connected = False
        # Results are in the memory, and the rest is said anew on every link.
        self._unsent = [
            frame for frame in unsent if isinstance(frame, Say | Regenerate | Abort | AnswerFrame)
        ] + self._unsent
        can_resume = "resume" in self.agreed
        if not can_resume:  # ws.md 6.6: the gateway has ended its calls
            self._end_calls()
            self._unaccepted.clear()
        if self._talk is None:
            return []
        return [*self._talk.drop(can_resume, self._is_unsent(self._talk.opening))]

    def heard(self, frame: ServerFrame, now: float) -> list[Action]:
        """What to do about a frame. `now`: seconds since 1970."""
        match frame:
            case CallRequest():
                return self._requested(frame, now)
            case Acknowledged():
                return self._acknowledged([frame.id, *frame.ids], now)
            case CancelFrame():
                return self._cancelled(frame, now)
            case PermissionRequest():
                return self._permission(frame)
            case Connected():
                return self._connected(frame, now)
            case ToolsRegistered(rejected=rejected):
                self.rejected.update((one.name, one.reason) for one in rejected)
            case MessageAccepted(id=message_id) | ErrorFrame(id=message_id):
                self._unaccepted.pop(message_id, None)
        return [Tell(frame), *self._talked(frame)]

    def say(self, frame: ClientFrame) -> list[Action]:
        """Send this now, or as soon as the gateway is there."""
        if self._talk is not None and isinstance(frame, Say | Regenerate) and self._talk.opening is None:
            self._talk.begin(frame)
        elif self._talk is not None and isinstance(frame, Say):
            self._talk.join(frame)
        if isinstance(frame, Say) and frame.id:
            self._unaccepted[frame.id] = frame
        if self.is_connected:
            return [Send(frame)]
        self._unsent.append(frame)
        return []

    def give_up(self, why: str) -> list[Action]:
        """Nobody waits for the open turn any longer: what it would be about is not said any more."""
        if self._talk is None:
            return []
        self._unsent = [frame for frame in self._unsent if not isinstance(frame, Say | Regenerate)]
        self._unaccepted.clear()
        return [*self._talk.lose(why)]

    def _talked(self, frame: ServerFrame) -> list[Action]:
        if self._talk is None:
            return []
        opening, happened = self._talk.opening, self._talk.heard(frame, self.agreed)
        if isinstance(opening, Say) and self._talk.opening is None:  # answered: even by a gateway that accepts nothing
            self._unaccepted.pop(opening.id, None)
        return [*happened]

    # The tools.

    def changed(self, name: str) -> list[Action]:
        """A tool is new, or changed, or gone."""
        tool = self._tools.find(name)
        if not self.is_open:
            return []
        if tool is not None:
            return self._offers([tool.offer()])
        return [Send(UnregisterTools([name]))] if "unregister" in self.agreed else []

    # The calls.

    def finished(self, call_id: str, answer: ResultFrame | FailureFrame | None, now: float) -> list[Action]:
        """The code of a call has ended, with this answer, or stopped without one."""
        call = self._calls.pop(call_id)
        self._room += 1
        actions: list[Action] = []
        if not call.is_settled:
            if answer is not None:
                actions = self._answer(answer, now)
            else:
                self.memory.close(call_id, now)
        return [*actions, *self._start(now)]

    def progressed(self, call_id: str, value: Json) -> list[Action]:
        """The code of a call reports something."""
        call = self._calls.get(call_id)
        if call is None or call.is_settled or not self.is_connected or "progress" not in self.agreed:
            return []
        renewed = call.tool.spec.timeout or call.seconds  # ws.md 5.7: the tool's time begins anew
        watch: list[Action] = [] if call.seconds is None or renewed is None else [Watch(call_id, renewed)]
        return [Send(ProgressFrame(id=call_id, value=value)), *watch]

    def expired(self, call_id: str, now: float) -> list[Action]:
        """The time of a call is over."""
        call = self._calls.get(call_id)
        if call is None or call.is_settled:
            return []
        call.is_settled = True
        name, limit = call.request.name, f"{call.seconds:.3g} s"
        if not call.is_running:
            self._queue.remove(call)
            del self._calls[call_id]
            running = ", ".join(
                sorted({repr(other.request.name) for other in self._calls.values() if other.is_running})
            )
            text = f"Tool {name!r} could not begin within {limit}: this device is still busy with {running}."
            return self._answer(_fault(call_id, text, "busy"), now)
        text = f"Tool {name!r} did not finish within {limit}."
        return [StopCall(call_id, "timeout"), *self._answer(_fault(call_id, text, "timeout"), now)]

    def permitted(self, question_id: str, decision: Decision, how_to_enable: str) -> list[Action]:
        """The person has answered."""
        how = cut(how_to_enable, longest_text(self.limits))
        answer = self._permissions[question_id] = PermissionAnswer(question_id, decision, how)
        return [Send(answer)] if self.is_connected else []

    def shrunk(self, answer: ResultFrame | FailureFrame, now: float) -> list[Action]:
        """An answer that no message could hold has another form now."""
        return self._answer(answer, now) if self.memory.stage(answer.call) == "answered" else []

    # Frames.

    def _connected(self, frame: Connected, now: float) -> list[Action]:
        was_there = bool(self.memory.resume_token)
        self.is_connected = True
        self.agreed = frozenset(frame.capabilities)
        self.limits = frame.limits or WireLimits()
        self.label = frame.label
        self.grace = frame.grace_ms / 1000
        self.memory.resume_token = frame.resume_token
        if "resume" not in self.agreed:
            self._unaccepted.clear()
        actions: list[Action] = [Keep(), Tell(frame)]
        for answer in self.memory.unacknowledged():
            actions += self._answer_again(answer, now)
        again: list[ClientFrame] = []
        if self._talk is not None and was_there:
            is_unsent, can_resume = self._is_unsent(self._talk.opening), "resume" in self.agreed
            again, happened = self._talk.come_back(bool(frame.resumed), is_unsent, can_resume)
            actions += happened
        said = (*again, *self._maybe_lost(again), *self._unsent)
        self._unaccepted.update((one.id, one) for one in self._unsent if isinstance(one, Say) and one.id)
        self._unsent.clear()
        for one in said:
            actions += self._said(one, now)
        return actions

    def _answer_again(self, answer: ResultFrame | FailureFrame, now: float) -> list[Action]:
        """Send what an earlier link, or life, did not hear acknowledged (ws.md 6.3)."""
        if "resume" not in self.agreed:  # it was given to a gateway that has ended its call
            self.memory.close(answer.call, now)
            return []
        if fits(answer, self.limits):
            return [Send(answer)]
        # This gateway takes less than the one that it was made for; sent as it is, it would end every link.
        return self._answer(answer, now) if isinstance(answer, FailureFrame) else [Shrink(answer)]

    def _said(self, frame: ClientFrame, now: float) -> list[Action]:
        """Send what was said before it was known what this gateway takes, or refuse it in the gateway's place."""
        try:
            check(frame, self.limits)
        except MessageTooLarge as error:
            return self.heard(ErrorFrame(str(error), id=frame.id if isinstance(frame, Say) else ""), now)
        return [Send(frame)]

    def _maybe_lost(self, again: list[ClientFrame]) -> list[Say]:
        """The messages that have to be sent again besides these; the gateway takes none of them twice (ws.md 3.1)."""
        said = [*again, *self._unsent]
        return [one for one in self._unaccepted.values() if not any(one is other for other in said)]

    def _requested(self, frame: CallRequest, now: float) -> list[Action]:
        stage = self.memory.stage(frame.id)
        if frame.id in self._calls or (stage is not None and stage != "started"):  # ws.md 6.3
            return []
        tool = self._tools.find(frame.name)
        if stage is not None and not (tool is not None and tool.may_repeat):  # ws.md 6.4: started by an earlier life
            text = f"This device was restarted while it ran {frame.name!r}: nobody knows what came of it."
            return self._answer(_fault(frame.id, text, "unknown_outcome"), now)
        if tool is None:
            text = f"Tool {frame.name!r} is not available on this device.{self._tools.hint(frame.name)}"
            return self._answer(_fault(frame.id, text, "tool_not_found"), now)
        if self._tools.code(tool) is None:
            return self._answer(_fault(frame.id, NO_CODE), now)
        if problem := tool.problem(frame.args):
            return self._answer(_fault(frame.id, problem, "invalid_arguments"), now)
        call = self._calls[frame.id] = _Call(frame, tool)
        self._queue.append(call)
        watch: list[Action] = [] if call.seconds is None else [Watch(frame.id, call.seconds)]
        return [*watch, *self._start(now)]

    def _acknowledged(self, ids: list[str], now: float) -> list[Action]:
        known = [call_id for call_id in ids if self.memory.stage(call_id) == "answered"]
        for call_id in known:
            self.memory.close(call_id, now)
        return [Keep()] if known else []

    def _cancelled(self, frame: CancelFrame, now: float) -> list[Action]:
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

    def _permission(self, frame: PermissionRequest) -> list[Action]:
        if frame.id in self._permissions:  # asked again after a drop
            answer = self._permissions[frame.id]
            return [] if answer is None else [Send(answer)]
        while len(self._permissions) >= MOST_IDS:
            del self._permissions[next(iter(self._permissions))]
        self._permissions[frame.id] = None
        return [AskPerson(msgspec.structs.replace(frame, tool=self._own_name(frame.tool)))]

    # Steps.

    def _end_calls(self) -> None:
        """Nobody waits for any of them: those that have not begun never do."""
        self._queue.clear()
        for call_id, call in tuple(self._calls.items()):
            call.is_settled = True
            if not call.is_running:
                del self._calls[call_id]

    def _start(self, now: float) -> list[Action]:
        """Let calls begin while there is room."""
        actions: list[Action] = []
        while self._queue and self._room > 0:
            self._room -= 1
            call = self._queue.popleft()
            call.is_running = True
            self.memory.start(call.request.id, now)
            asks = bool(call.tool.spec.permissions) and "permissions" not in self.agreed
            actions.append(RunCall(call.request, not call.tool.may_repeat, asks))
        return actions

    def _answer(self, frame: ResultFrame | FailureFrame, now: float) -> list[Action]:
        """Keep the answer, then send it; when the link is down, it is sent by whoever comes back."""
        if isinstance(frame, FailureFrame):
            frame = short(frame, self.limits)
        self.memory.answer(frame, now)
        return [Keep(), Send(frame)] if self.is_connected else [Keep()]

    def _offers(self, offers: list[Json]) -> list[Action]:
        """These tools in as many frames as it takes. What no frame can hold would end every link."""
        frames: list[list[Json]] = []
        most = min(_MOST_OFFERED, self.limits.message_bytes - AROUND)
        room = 0
        for offer in offers:
            size = len(msgspec.json.encode(offer)) + 1
            if size > self.limits.message_bytes - AROUND:
                self.rejected[offered_name(offer)] = _too_large(size, self.limits)
                continue
            if size > room:
                frames.append([])
                room = most
            room -= size
            frames[-1].append(offer)
        return [Send(RegisterTools(tools)) for tools in frames]

    def _own_name(self, name: str) -> str:
        """The client's own name of a tool that the gateway knows with this device's label before it."""
        own = name.removeprefix(f"{self.label}{SEPARATOR}") if self.label else name
        return own if self._tools.find(own) is not None else name

    def _is_unsent(self, opening: Opening | None) -> bool:
        return opening is not None and any(frame is opening for frame in self._unsent)


def _too_large(size: int, limits: WireLimits) -> str:
    return f"It has {size} bytes, and the gateway takes {limits.message_bytes} bytes in one message: say less of it."


def _fault(call_id: str, text: str, code: ErrorCode | None = None) -> FailureFrame:
    return FailureFrame(id=call_id, error=text, code=code or "")
