"""The conversation's part of the client's state machine: which turn is open, and its events. No socket, no clock.

With the capability `events` the gateway sends numbered events, each with its turn, and `message_accepted` names the
turn that answers a message. An older gateway sends frames, which are read as events here. Every turn that was begun
ends with one `Ended`, also when the link drops.
"""

from typing import Final, TypeAlias, get_args

import msgspec

from handspan.client.actions import DeliverEvent
from handspan.core.events import (
    CallFinished,
    CallStarted,
    Ended,
    Event,
    QuestionAsked,
    RoundBegan,
    TextArrived,
    ThinkingArrived,
)
from handspan.core.questions import Question, QuestionKind
from handspan.core.values import strip_invisible
from handspan.wire.ws import ClientFrame, ServerFrame
from handspan.wire.ws_chat_frames import (
    AbortedFrame,
    CallNote,
    Chunk,
    Done,
    EventFrame,
    MessageAccepted,
    QuestionFrame,
    Regenerate,
    ResultNote,
    Say,
    SessionStart,
    ThinkingFrame,
)
from handspan.wire.ws_frames import ErrorFrame, GetRegisteredTools, RegisteredTools
from handspan.wire.ws_frames import QuestionClosed as ClosedFrame

Opening: TypeAlias = Say | Regenerate

_ABOUT_A_FRAME: Final = frozenset(("INVALID_JSON", "INVALID_FRAME", "UNKNOWN_MESSAGE_TYPE", "INVALID_ANSWER"))
"""Codes of errors that are not about the turn."""
_MAX_COMPARED: Final = 900
"""How many characters of an error are compared to see whether it is repeated."""
_OUTCOME_UNKNOWN: Final = (
    "The link dropped after a new answer was requested, and no event of it arrived: look at the session before you "
    "ask again."
)
_TURN_UNKNOWN: Final = (
    "The link dropped, and the gateway does not know this turn any more: look at the session, which has what was said "
    "until then."
)
_TURN_CUT: Final = "The link dropped, and this gateway ends a turn with its link: say it again."
_KINDS: Final[dict[str, QuestionKind]] = {kind: kind for kind in get_args(QuestionKind)}


class ChatState:
    """One chat, across all its connections."""

    def __init__(self, session_id: str = "") -> None:
        self.session_id = session_id
        self.last_event: int | None = None
        """The number of the last event that arrived."""
        self.opening: Opening | None = None
        """The frame that began the open turn; None when no turn is open."""
        self._turn = ""
        """The id of the open turn, once the gateway has named it."""
        self._joined: set[str] = set()
        """The ids of the messages that joined the open turn."""
        self._last_end: tuple[str, Ended] = ("", Ended("done"))
        """The id and the end of the turn that ended last."""
        self._names_turns = False
        """Whether the gateway names the turn that answers a message."""
        self._has_events = False
        """The open turn has had an event."""
        self._is_probing = False
        """An answer to `get_registered_tools` will tell whether the gateway got `regenerate`."""
        self._turn_error = ""
        """The error that ended the last turn, until the gateway repeats it as an `error` frame."""
        self.questions: dict[str, Question] = {}
        """The open questions, by id."""
        self._other_turn_runs = False
        """A turn of another client runs."""
        self._waits_for_other = False
        """The own turn waits until the turn of the other client has ended."""

    def begin_turn(self, frame: Opening) -> None:
        """Begin a turn with this frame, or queue it behind the turn of another client."""
        self.opening = frame
        self._turn = ""
        self._joined.clear()
        self._waits_for_other = self._other_turn_runs and not (isinstance(frame, Say) and frame.join)
        self._has_events = False
        self._is_probing = False

    def join_turn(self, frame: Say) -> None:
        """Note that this message joins the open turn."""
        self._joined.add(frame.id)

    def receive(self, frame: ServerFrame, capabilities: frozenset[str]) -> list[DeliverEvent]:
        """Return the events that this frame means for the conversation."""
        self._names_turns = "resume" in capabilities
        match frame:
            case SessionStart(session_id=session_id):
                self.session_id = session_id
            case EventFrame():
                return self._receive_event(frame)
            case MessageAccepted():
                return self._receive_accepted(frame)
            case QuestionFrame():
                return self._receive_question(QuestionAsked(self._read_question(frame)))
            case ClosedFrame(id=question_id):
                self.questions.pop(question_id, None)
            case ErrorFrame():
                return self._receive_error(frame)
            case RegisteredTools() if self._is_probing:
                self._is_probing = False
                return [] if self._has_events else self.lose_turn(_OUTCOME_UNKNOWN)
            case _ if "events" not in capabilities:
                return self._read_legacy_frame(frame)
        return []

    def drop_link(self, *, can_resume: bool, is_unsent: bool) -> list[DeliverEvent]:
        """Note that the link has dropped. A turn whose opening was not sent yet is not lost."""
        return [] if can_resume or is_unsent else self.lose_turn(_TURN_CUT)

    def restore_link(
        self, *, resumed: bool, is_unsent: bool, can_resume: bool
    ) -> tuple[list[ClientFrame], list[DeliverEvent]]:
        """Note that the link is back. Return the frames to send, and the events that are certain already."""
        if self.opening is None or is_unsent:
            return [], []
        if can_resume and _id_of(self.opening):  # ws.md 6.5: a message is answered once, even if it is sent again
            return [self.opening], []
        if not resumed:
            return [], self.lose_turn(_TURN_UNKNOWN)
        if self._has_events:
            return [], []
        # The drop may have lost `regenerate`. The gateway sends missed events before it answers this frame: an answer
        # without any event means that the outcome is unknown.
        self._is_probing = True
        return [GetRegisteredTools()], []

    def lose_turn(self, why: str) -> list[DeliverEvent]:
        """End the open turn with this error."""
        return self._end_own_turn(Ended("error", why))

    def _end_own_turn(self, ended: Ended) -> list[DeliverEvent]:
        """End the open turn. The turn of another client goes on."""
        if self.opening is None:
            return []
        other_runs, self._waits_for_other = self._waits_for_other, False
        end = self._end_turn(ended)
        self._other_turn_runs = other_runs
        return end

    def _receive_event(self, frame: EventFrame) -> list[DeliverEvent]:
        """Return what an event means here: nothing if it came before, or if this version does not know it."""
        if self.last_event is not None and frame.seq <= self.last_event:
            return []  # a repeated event
        self.last_event = frame.seq
        try:
            event = msgspec.convert(frame.event, Event)
        except msgspec.ValidationError:  # an event of a newer gateway
            return []
        if isinstance(event, QuestionAsked):
            return self._receive_question(event, frame.turn)
        if not isinstance(event, Ended) or event.reason == "pending":  # a pending turn goes on later
            return self._deliver(event, frame.turn)
        self._last_end = (frame.turn, event)
        ended = self._end_turn(event, frame.turn)
        self._turn_error = event.text if event.reason == "error" else ""
        return ended

    def _receive_accepted(self, frame: MessageAccepted) -> list[DeliverEvent]:
        """Note which turn answers the message. The turn may be over if the message joined that of another client."""
        if not frame.id or frame.id != _id_of(self.opening):
            return []
        self._turn = frame.turn
        turn, ended = self._last_end
        return self._end_turn(ended, turn) if turn == frame.turn else []

    def _receive_question(self, asked: QuestionAsked, turn: str = "") -> list[DeliverEvent]:
        """Return the question, once: an event and a frame of its own may both bring it."""
        if asked.question.id in self.questions:
            return []
        self.questions[asked.question.id] = asked.question
        return self._deliver(asked, turn)

    def _receive_error(self, frame: ErrorFrame) -> list[DeliverEvent]:
        """End a turn that the gateway refused. The error of a turn that has failed comes twice: skip the second."""
        if self._names_turns and _id_of(self.opening):  # an error about the message has its id
            return self._receive_refusal(frame)
        message = frame.message[:_MAX_COMPARED]
        is_repeated = bool(self._turn_error) and strip_invisible(self._turn_error)[:_MAX_COMPARED] == message
        if is_repeated:
            self._turn_error = ""
        if is_repeated or self.opening is None or frame.code in _ABOUT_A_FRAME:
            return []
        return self.lose_turn(frame.message)

    def _receive_refusal(self, frame: ErrorFrame) -> list[DeliverEvent]:
        if frame.id != _id_of(self.opening) and frame.id not in self._joined:
            return []
        return self._end_own_turn(Ended("aborted") if frame.code == "ABORTED" else Ended("error", frame.message))

    def _read_legacy_frame(self, frame: ServerFrame) -> list[DeliverEvent]:
        """Return the event of a frame that older gateways send in place of events."""
        match frame:
            case Chunk(content=text):
                return self._deliver(TextArrived(text))
            case ThinkingFrame(content=text):
                return self._deliver(ThinkingArrived(text))
            case CallNote(id=call_id, name=name, args=args):
                return self._deliver(CallStarted(call_id, name, msgspec.json.encode(args).decode()))
            case ResultNote(id=call_id, name=name, output=output):
                return self._deliver(CallFinished(call_id, name, "success", 0.0, envelope=output))
            case Done(full_response=text):
                return self._end_turn(Ended("done", text))
            case AbortedFrame():
                return self._end_turn(Ended("aborted"))
        return []

    def _read_question(self, frame: QuestionFrame) -> Question:
        """Return the question of a frame that older gateways send."""
        kind, seconds = _KINDS.get(frame.kind, "approval"), frame.expires_ms / 1000
        return Question(
            frame.id,
            kind,
            frame.call_id,
            frame.tool,
            arguments=frame.arguments,
            subject=frame.subject,
            owner="",  # the gateway does not send the owner and the fingerprint
            session=self.session_id,
            fingerprint="",
            expires_in=seconds,
            schema=frame.schema,
            action=frame.action,
        )

    def _deliver(self, event: Event, turn: str = "") -> list[DeliverEvent]:
        """Return the event for the program, and note whether a turn of another client runs."""
        self._turn_error = ""
        if isinstance(event, RoundBegan) and event.number == 1:  # the turn before it has ended
            self._waits_for_other = False
        is_own = self._is_own(turn)
        self._has_events = self._has_events or is_own
        # A question outlives its turn, and a turn that waits for an answer does not run.
        self._other_turn_runs = not is_own and not isinstance(event, QuestionAsked | Ended)
        return [DeliverEvent(event, is_own)]

    def _is_own(self, turn: str) -> bool:
        """Whether this turn answers the frame that began the open turn."""
        if self.opening is None:
            return False
        if turn and self._names_turns and _id_of(self.opening):
            return turn == self._turn
        return not self._waits_for_other

    def _end_turn(self, ended: Ended, turn: str = "") -> list[DeliverEvent]:
        """Note that this turn has ended: the open turn, or one of another client."""
        self._other_turn_runs = False
        if not self._is_own(turn):  # the own turn can begin now
            self._waits_for_other = False
            return [DeliverEvent(ended, is_own=False)]
        self.opening = None
        self._has_events = False
        self._turn_error = ""
        return [DeliverEvent(ended)]


def _id_of(opening: Opening | None) -> str:
    """Return the id with which the gateway recognises a repeated message; empty when it has none."""
    return opening.id if isinstance(opening, Say) else ""
