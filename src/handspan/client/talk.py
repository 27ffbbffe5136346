"""The conversation's half of the client's state machine: which turn is open, and what happens in it. Pure.

With `events` a turn comes as the gateway's own events, numbered, each with its turn; `message_accepted` says which turn
answers a message. Without (an older gateway), its frames are read as events. Either way every turn that was begun ends
with one `Ended`, whatever becomes of the link.
"""

from typing import Final, TypeAlias, get_args

import msgspec

from handspan.client.actions import Happened
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
from handspan.wire.ws_frames import (
    AbortedFrame,
    CallNote,
    Chunk,
    ClientFrame,
    Done,
    ErrorFrame,
    EventFrame,
    GetRegisteredTools,
    MessageAccepted,
    QuestionFrame,
    Regenerate,
    RegisteredTools,
    ResultNote,
    Say,
    ServerFrame,
    SessionStart,
    ThinkingFrame,
)
from handspan.wire.ws_frames import QuestionClosed as ClosedFrame

Opening: TypeAlias = Say | Regenerate

_ABOUT_A_FRAME: Final = frozenset(("INVALID_JSON", "INVALID_FRAME", "UNKNOWN_MESSAGE_TYPE", "INVALID_ANSWER"))
"""Errors that are not about the turn."""
_MOST_COMPARED: Final = 900
_NOT_KNOWN: Final = (
    "The link dropped when a new answer was asked for, and nothing was heard of it since: look at the session before "
    "you ask again."
)
_FORGOTTEN: Final = (
    "The link dropped, and the gateway does not know this conversation's turn any more: look at the session, what it "
    "said until then is kept."
)
_CUT: Final = "The link dropped, and this gateway ends a turn with its link: say it again."
_KINDS: Final[dict[str, QuestionKind]] = {kind: kind for kind in get_args(QuestionKind)}


class ChatState:
    """One chat, across all its connections."""

    def __init__(self) -> None:
        self.session_id = ""
        self.last_event: int | None = None
        self.opening: Opening | None = None
        """What began the turn that is open; None when none is."""
        self._turn = ""
        """The turn that answers it, as soon as the gateway has said so."""
        self._joined: set[str] = set()
        """What was said into it, by id."""
        self._last_end: tuple[str, Ended] = ("", Ended("done"))
        """The turn that ended last, and how."""
        self._has_turns = False
        """The gateway says which turn answers a message."""
        self._is_heard = False
        self._is_asking = False
        self._echo = ""
        """The text of the error that ended the last turn, until it was told a second time, as an `error` frame."""
        self.questions: dict[str, Question] = {}
        """Those that are open, by id."""
        self._is_of_others = False
        """A turn runs that somebody else began."""
        self._is_behind = False
        """Ours waits for it to end."""

    def begin(self, frame: Opening) -> None:
        """A turn begins with this: at once, or when the turn of somebody else in this session has ended."""
        self.opening = frame
        self._turn = ""
        self._joined.clear()
        self._is_behind = self._is_of_others and not (isinstance(frame, Say) and frame.join)
        self._is_heard = False
        self._is_asking = False

    def join(self, frame: Say) -> None:
        """This is said into the turn that is open."""
        self._joined.add(frame.id)

    def heard(self, frame: ServerFrame, agreed: frozenset[str]) -> list[Happened]:
        """What this frame means for the conversation."""
        self._has_turns = "resume" in agreed
        match frame:
            case SessionStart(session_id=session_id):
                self.session_id = session_id
            case EventFrame():
                return self._event(frame)
            case MessageAccepted():
                return self._accepted(frame)
            case QuestionFrame():
                return self._question(QuestionAsked(self._read(frame)))
            case ClosedFrame(id=question_id):
                self.questions.pop(question_id, None)
            case ErrorFrame():
                return self._error(frame)
            case RegisteredTools() if self._is_asking:
                self._is_asking = False
                return [] if self._is_heard else self.lose(_NOT_KNOWN)
            case _ if "events" not in agreed:
                return self._read_old(frame)
        return []

    def drop(self, can_resume: bool, is_unsent: bool) -> list[Happened]:
        """The link is gone. A turn that was not even sent is not lost by that."""
        return [] if can_resume or is_unsent else self.lose(_CUT)

    def come_back(self, resumed: bool, is_unsent: bool, can_resume: bool) -> tuple[list[ClientFrame], list[Happened]]:
        """The link is there again: what to say, and what is known without asking."""
        if self.opening is None or is_unsent:
            return [], []
        if can_resume and _id_of(self.opening):  # ws.md 6.5: it is answered once, however often it is sent
            return [self.opening], []
        if not resumed:
            return [], self.lose(_FORGOTTEN)
        if self._is_heard:
            return [], []
        # Nothing came of `regenerate` yet, and it may have gone down with the link. What the gateway sends again comes
        # before the answer to this; when that answer is here and nothing else, nobody knows.
        self._is_asking = True
        return [GetRegisteredTools()], []

    def lose(self, why: str) -> list[Happened]:
        """The open turn is lost."""
        return self._end_own(Ended("error", why))

    def _end_own(self, ended: Ended) -> list[Happened]:
        """The open turn ends, whatever happens in those of others."""
        if self.opening is None:
            return []
        others, self._is_behind = self._is_behind, False
        end = self._end(ended)
        self._is_of_others = others
        return end

    def _event(self, frame: EventFrame) -> list[Happened]:
        if self.last_event is not None and frame.seq <= self.last_event:
            return []  # sent again, and known
        self.last_event = frame.seq
        try:
            event = msgspec.convert(frame.event, Event)
        except msgspec.ValidationError:  # an event of a newer gateway
            return []
        if isinstance(event, QuestionAsked):
            return self._question(event, frame.turn)
        if not isinstance(event, Ended):
            return self._happened(event, frame.turn)
        if event.reason == "pending":  # somebody else has the outcome of a call: the turn goes on when it is there
            return self._happened(event, frame.turn)
        self._last_end = (frame.turn, event)
        ended = self._end(event, frame.turn)
        self._echo = event.text if event.reason == "error" else ""
        return ended

    def _accepted(self, frame: MessageAccepted) -> list[Happened]:
        """Now it is known which events are the answer. They may be over, if it was said into the turn of others."""
        if not frame.id or frame.id != _id_of(self.opening):
            return []
        self._turn = frame.turn
        turn, ended = self._last_end
        return self._end(ended, turn) if turn == frame.turn else []

    def _question(self, asked: QuestionAsked, turn: str = "") -> list[Happened]:
        """A question is asked once, even if both an event and a frame of its own tell of it."""
        if asked.question.id in self.questions:
            return []
        self.questions[asked.question.id] = asked.question
        return self._happened(asked, turn)

    def _error(self, frame: ErrorFrame) -> list[Happened]:
        """A turn that was not begun, for this reason. One that failed has ended by then: the error is its echo."""
        if self._has_turns and _id_of(self.opening):  # then errors that are about it have its id
            return self._refused(frame)
        is_echo = bool(self._echo) and strip_invisible(self._echo)[:_MOST_COMPARED] == frame.message[:_MOST_COMPARED]
        if is_echo:
            self._echo = ""
        if is_echo or self.opening is None or frame.code in _ABOUT_A_FRAME:
            return []
        return self.lose(frame.message)

    def _refused(self, frame: ErrorFrame) -> list[Happened]:
        if frame.id != _id_of(self.opening) and frame.id not in self._joined:
            return []
        return self._end_own(Ended("aborted") if frame.code == "ABORTED" else Ended("error", frame.message))

    def _read_old(self, frame: ServerFrame) -> list[Happened]:
        match frame:
            case Chunk(content=text):
                return self._happened(TextArrived(text))
            case ThinkingFrame(content=text):
                return self._happened(ThinkingArrived(text))
            case CallNote(id=call_id, name=name, args=args):
                return self._happened(CallStarted(call_id, name, msgspec.json.encode(args).decode()))
            case ResultNote(id=call_id, name=name, output=output):
                return self._happened(CallFinished(call_id, name, "success", 0.0, output))
            case Done(full_response=text):
                return self._end(Ended("done", text))
            case AbortedFrame():
                return self._end(Ended("aborted"))
        return []

    def _read(self, frame: QuestionFrame) -> Question:
        kind = _KINDS.get(frame.kind, "approval")
        arguments, seconds = frame.arguments, frame.expires_ms / 1000
        owner = fingerprint = ""
        return Question(
            frame.id,
            kind,
            frame.call_id,
            frame.tool,
            arguments,
            frame.subject,
            owner,
            self.session_id,
            fingerprint,
            seconds,
            frame.schema,
            frame.action,
        )

    def _happened(self, event: Event, turn: str = "") -> list[Happened]:
        self._echo = ""
        if isinstance(event, RoundBegan) and event.number == 1:  # whatever ran before has ended
            self._is_behind = False
        is_own = self._is_own(turn)
        self._is_heard = self._is_heard or is_own
        # A question stays when nothing runs, and what waits for somebody does not run.
        self._is_of_others = not is_own and not isinstance(event, QuestionAsked | Ended)
        return [Happened(event, is_own)]

    def _is_own(self, turn: str) -> bool:
        """Whether what happens in this turn is the answer to what began ours."""
        if self.opening is None:
            return False
        if turn and self._has_turns and _id_of(self.opening):
            return turn == self._turn
        return not self._is_behind

    def _end(self, ended: Ended, turn: str = "") -> list[Happened]:
        self._is_of_others = False
        if not self._is_own(turn):  # now it is our turn
            self._is_behind = False
            return [Happened(ended, False)]
        self.opening = None
        self._is_heard = False
        self._echo = ""
        return [Happened(ended)]


def _id_of(opening: Opening | None) -> str:
    """The id under which it can be sent again without being said twice; empty when it has none."""
    return opening.id if isinstance(opening, Say) else ""
