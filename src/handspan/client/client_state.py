"""The client's side of `protocol/ws.md`: frames in, actions out. No socket, no clock, no threads.

`ClientState` covers all connections of one client. It introduces the client, offers its tools and sends its messages;
`ClientCalls` has the calls. After a drop or a restart it knows what to send again.
"""

from typing import Final

import msgspec

from handspan.client.actions import (
    Action,
    DeliverFrame,
    SaveState,
    SendFrame,
    StartLogin,
)
from handspan.client.call_state import ClientCalls, LinkTerms
from handspan.client.chat_state import ChatState, Opening
from handspan.client.errors import MessageTooLarge
from handspan.client.memory import CallMemory
from handspan.client.sizes import FRAME_OVERHEAD, check_size
from handspan.client.tools import ClientTools
from handspan.core.values import Json
from handspan.wire.ws import ClientFrame, ServerFrame, offered_name
from handspan.wire.ws_chat_frames import Abort, AnswerFrame, MessageAccepted, Regenerate, Say
from handspan.wire.ws_frames import (
    Acknowledged,
    CallRequest,
    CancelFrame,
    Connect,
    Connected,
    DeviceNotes,
    ErrorFrame,
    FailureFrame,
    LoginStart,
    PermissionRequest,
    QuestionClosed,
    RegisterTools,
    ToolsRegistered,
    ToolsWithdrawn,
    TrustAnswer,
    TrustRequest,
    UnregisterTools,
    WireLimits,
)

_MAX_OFFERED: Final = 256 * 1024
"""Bytes of tools in one frame: more tools come in several frames."""


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
        self._chat = chat
        self.memory = memory
        self.link = LinkTerms()
        self.calls = ClientCalls(tools, memory, concurrency, self.link)
        self._trust: dict[str, TrustRequest] = {}
        """Questions of `ask_trust` that have no answer yet."""
        self._notes: DeviceNotes | None = None
        """What people should know about this device."""
        self._unsent: list[ClientFrame] = []
        """Frames that are sent when the gateway is connected."""
        self._unaccepted: dict[str, Say] = {}
        """Messages that were sent and not accepted yet: a drop may have lost them."""
        self.rejected: dict[str, str] = {}
        """Tools that the gateway did not take, or has taken away, and why."""
        self._unanswered_offers = 0
        """How many `register_tools` of this link wait for their `tools_registered`."""

    @property
    def is_ready(self) -> bool:
        """Whether the gateway is connected and has answered every offer of tools."""
        return self.link.is_connected and not self._unanswered_offers

    # The link.

    def open_link(self) -> list[Action]:
        """Note that a link is open: introduce the client and offer its tools, without waiting (ws.md 1.5)."""
        self.link.is_open = True
        self.rejected.clear()
        self._unanswered_offers = 0
        last_event = None if self._chat is None else self._chat.last_event
        token = self.memory.resume_token or None
        hello = msgspec.structs.replace(self._introduction, resume=token, last_event=last_event if token else None)
        return [SendFrame(hello), *self._offer_frames([tool.offer() for tool in self._tools])]

    def drop_link(self, unsent: list[ClientFrame]) -> list[Action]:
        """Note that the link has dropped, and these frames were not sent."""
        self.link.is_open = self.link.is_connected = False
        # Results are in the memory, and all other frames are made anew for every link.
        kept = (frame for frame in unsent if isinstance(frame, Say | Regenerate | Abort | AnswerFrame))
        self._unsent = [*kept, *self._unsent]
        can_resume = "resume" in self.link.capabilities
        if not can_resume:  # ws.md 6.6: the gateway has ended its calls
            self.calls.end_all()
            self._unaccepted.clear()
        if self._chat is None:
            return []
        return [*self._chat.drop_link(can_resume=can_resume, is_unsent=self._is_unsent(self._chat.opening))]

    def receive(self, frame: ServerFrame, now: float) -> list[Action]:
        """Return what to do about a frame of the gateway. `now`: seconds since 1970."""
        match frame:
            case CallRequest():
                return self.calls.receive_request(frame, now)
            case Acknowledged():
                return self.calls.receive_acknowledged([frame.id, *frame.ids], now)
            case CancelFrame():
                return self.calls.receive_cancel(frame, now)
            case PermissionRequest():
                return self.calls.receive_permission(frame)
            case QuestionClosed(id=question_id) if self.calls.has_asked(question_id):
                return self.calls.stop_asking([question_id])
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
        if self.link.is_connected:
            return [SendFrame(frame)]
        self._unsent.append(frame)
        return []

    def describe(self, notes: DeviceNotes) -> list[Action]:
        """Tell people about this device, on this link and on every later one."""
        self._notes = notes
        return [SendFrame(notes)] if self.link.can("about") else []

    def ask_trust(self, request: TrustRequest) -> list[Action]:
        """Ask the person whether they trust something, on every link until there is an answer."""
        self._trust[request.id] = request
        return [SendFrame(request)] if self.link.can("trust") else []

    def give_up(self, why: str) -> list[Action]:
        """End the open turn with this error; its messages are not sent any more."""
        if self._chat is None:
            return []
        self._unsent = [frame for frame in self._unsent if not isinstance(frame, Say | Regenerate)]
        self._unaccepted.clear()
        return [*self._chat.lose_turn(why)]

    def _receive_chat(self, frame: ServerFrame) -> list[Action]:
        """Give a frame to the conversation, and note that its message was answered."""
        if self._chat is None:
            return []
        opening, events = self._chat.opening, self._chat.receive(frame, self.link.capabilities)
        # The message was answered, also by a gateway without `message_accepted`.
        if isinstance(opening, Say) and self._chat.opening is None:
            self._unaccepted.pop(opening.id, None)
        return [*events]

    # The tools.

    def change_tool(self, name: str) -> list[Action]:
        """Note that a tool was added, replaced or removed."""
        tool = self._tools.find(name)
        if not self.link.is_open:
            return []
        if tool is not None:
            return self._offer_frames([tool.offer()])
        return [SendFrame(UnregisterTools([name]))] if "unregister" in self.link.capabilities else []

    # Frames.

    def _receive_connected(self, frame: Connected, now: float) -> list[Action]:
        """Note what this gateway can do, and send again what it may not have got before the link dropped."""
        was_connected = bool(self.memory.resume_token)
        self.link.note_connected(frame)
        self.memory.resume_token = frame.resume_token
        if not self.link.can("resume"):
            self._unaccepted.clear()
        actions = [SaveState(), DeliverFrame(frame), *self.calls.restore_link(resumed=bool(frame.resumed), now=now)]
        if self._notes is not None and self.link.can("about"):
            actions.append(SendFrame(self._notes))
        if self.link.can("trust"):
            actions += [SendFrame(request) for request in self._trust.values()]
        resent: list[ClientFrame] = []
        if self._chat is not None and was_connected:
            is_unsent, can_resume = self._is_unsent(self._chat.opening), self.link.can("resume")
            resent, events = self._chat.restore_link(
                resumed=bool(frame.resumed), is_unsent=is_unsent, can_resume=can_resume
            )
            actions += events
        frames = (*resent, *self._maybe_lost_messages(resent), *self._unsent)
        self._unaccepted.update((one.id, one) for one in self._unsent if isinstance(one, Say) and one.id)
        self._unsent.clear()
        for one in frames:
            actions += self._send_checked(one, now)
        return actions

    def _send_checked(self, frame: ClientFrame, now: float) -> list[Action]:
        """Send a frame that was queued before the gateway's limits were known.

        A frame that is too large is answered here with an `ErrorFrame`, in the gateway's place.
        """
        try:
            check_size(frame, self.link.limits)
        except MessageTooLarge as error:
            return self.receive(ErrorFrame(str(error), id=frame.id if isinstance(frame, Say) else ""), now)
        return [SendFrame(frame)]

    def _maybe_lost_messages(self, resent: list[ClientFrame]) -> list[Say]:
        """Return the messages to send again besides these; the gateway takes each of them once (ws.md 3.1)."""
        frames = [*resent, *self._unsent]
        return [one for one in self._unaccepted.values() if not any(one is other for other in frames)]

    def _offer_frames(self, offers: list[Json]) -> list[Action]:
        """Return as many frames as these tools need. A tool that fits into no frame is put into `rejected`."""
        frames: list[list[Json]] = []
        limit = min(_MAX_OFFERED, self.link.limits.message_bytes - FRAME_OVERHEAD)
        left = 0
        for offer in offers:
            size = len(msgspec.json.encode(offer)) + 1
            if size > self.link.limits.message_bytes - FRAME_OVERHEAD:
                self.rejected[offered_name(offer)] = _too_large(size, self.link.limits)
                continue
            if size > left:
                frames.append([])
                left = limit
            left -= size
            frames[-1].append(offer)
        self._unanswered_offers += len(frames)
        return [SendFrame(RegisterTools(tools)) for tools in frames]

    def _is_unsent(self, opening: Opening | None) -> bool:
        return opening is not None and any(frame is opening for frame in self._unsent)


def _too_large(size: int, limits: WireLimits) -> str:
    return f"It has {size} bytes, and the gateway takes {limits.message_bytes} bytes in one message: say less of it."
