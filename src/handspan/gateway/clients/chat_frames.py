"""The events of a turn as frames for chat clients (ws.md 3.2-3.8). Pure: no sockets, no clock."""

from typing import Final

import msgspec

from handspan.agent.turn_events import AnsweredBefore, MessageStored, Prompted, QuestionOver, SessionEvent
from handspan.core.events import (
    CallFinished,
    CallStarted,
    Ended,
    QuestionAsked,
    SessionChange,
    TextArrived,
    ThinkingArrived,
    Titled,
    TurnFault,
    WentBack,
)
from handspan.core.questions import FIRST_KINDS, Question, QuestionKind
from handspan.core.values import strip_invisible
from handspan.wire.ws import ServerFrame, arguments_object
from handspan.wire.ws_chat_frames import (
    AbortedFrame,
    CallNote,
    Chunk,
    ChunkReset,
    DebugPrompt,
    Done,
    EventFrame,
    QuestionFrame,
    ResultNote,
    ThinkingFrame,
    TitleUpdated,
    Versions,
)
from handspan.wire.ws_frames import ErrorFrame, FrameCode, QuestionClosed

_MAX_ERROR: Final = 1000


class ChatFrames:
    """Renders the events of one session's turns as plain frames: ClawSeed's, for clients without `events` (ws.md 3).

    A turn that waits (`pending`) is not over: its later events belong to it.
    """

    def __init__(
        self, *, questions: bool = False, all_kinds: bool = False, versions: bool = False, me: str = ""
    ) -> None:
        """`questions`: the client shows questions; `all_kinds`: of every kind; `versions`: versions. `me`: its id."""
        self._extras = _SharedFrames(questions=questions, all_kinds=all_kinds, me=me, versions=versions)
        self._text: list[str] = []
        self._calls: dict[str, ResultNote | None] = {}
        """The calls of this round in their order; None while a call has no result."""

    def frames(self, event: SessionEvent, turn: str = "") -> list[ServerFrame]:
        """Return the frames for this event; for many events none."""
        match event:
            case TextArrived(text=text):
                self._text.append(text)
                return [Chunk(text)]
            case ThinkingArrived(text=text):
                return [ThinkingFrame(text)]
            case CallStarted(id=call_id, name=name, arguments=arguments):
                self._calls[call_id] = None
                return [CallNote(call_id, name, arguments_object(arguments))]
            case CallFinished():
                return self._finish_call(event)
            case Ended():
                return self._end_turn(event)
            case AnsweredBefore(ended=ended, text=text):
                self._text = [text]
                return self._end_turn(ended)
            case _:
                return self._extras.frames(event)

    def _finish_call(self, event: CallFinished) -> list[ServerFrame]:
        """Return all results of the round once the last one is known."""
        self._calls[event.id] = ResultNote(event.id, event.name, output_of(event.envelope))
        if None in self._calls.values():
            return []
        notes: list[ServerFrame] = [note for note in self._calls.values() if note is not None]
        self._calls.clear()
        return notes

    def _end_turn(self, ended: Ended) -> list[ServerFrame]:
        """Return the frame that ends the turn. The whole text follows, so the text so far is dropped."""
        if ended.reason == "pending":
            return []
        text = "".join(self._text)
        self._text.clear()
        self._calls.clear()
        match ended.reason:
            case "aborted":
                return [AbortedFrame()]
            case "error":
                return [error_frame(ended)]
            case _:
                return [ChunkReset(), Done(text)]


class EventFrames:
    """Renders events as numbered `event` frames, for clients with the capability `events` (ws.md 3.7)."""

    def __init__(
        self, *, questions: bool = False, all_kinds: bool = False, versions: bool = False, me: str = "", seq: int = 0
    ) -> None:
        """`seq` is the number of the last event that the client got over an earlier connection."""
        self.seq = seq
        self._extras = _SharedFrames(questions=questions, all_kinds=all_kinds, me=me, versions=versions)

    def frames(self, event: SessionEvent, turn: str = "") -> list[ServerFrame]:
        """Return the frames for this event."""
        if isinstance(event, AnsweredBefore):
            event = event.ended
        extras = self._extras.frames(event)
        if isinstance(event, Prompted | SessionChange | QuestionOver | MessageStored):
            return extras
        if isinstance(event, QuestionAsked) and self._extras.hides(event.question.kind):
            return extras
        self.seq += 1
        frame = EventFrame(self.seq, msgspec.to_builtins(event, str_keys=True), turn)
        if isinstance(event, Ended) and event.reason == "error":  # the `error` frame has the code
            return [frame, error_frame(event)]
        return [frame, *extras]


class _SharedFrames:
    """Renders the events whose frames are the same for all clients."""

    def __init__(self, *, questions: bool, all_kinds: bool, me: str, versions: bool) -> None:
        self._versions = versions
        self._questions = questions
        self._all_kinds = all_kinds
        self._me = me

    def hides(self, kind: QuestionKind) -> bool:
        """Whether questions of this kind are hidden from the client, which does not know the kind (ws.md 3.8)."""
        return not self._all_kinds and kind not in FIRST_KINDS

    def frames(self, event: SessionEvent) -> list[ServerFrame]:
        """Return the frames that clients with and without events get for this event."""
        match event:
            case Prompted(messages=messages, estimated_tokens=tokens):
                return [DebugPrompt(messages, tokens)]
            case Titled(title=title):
                return [TitleUpdated(title)]
            case WentBack(length=length) if self._versions:
                return [Versions(length)]
            case QuestionAsked(question=question) if self._questions and not self.hides(question.kind):
                return [question_frame(question)]
            case QuestionOver(id=question_id, kind=kind, by=by) if self._questions and not self.hides(kind):
                return [QuestionClosed(question_id, accepted=bool(by) and by == self._me)]
            case _:
                return []


def question_frame(question: Question) -> QuestionFrame:
    """Return the frame that asks a client this question (ws.md 3.8)."""
    return QuestionFrame(
        question.id,
        question.kind,
        question.call_id,
        question.tool,
        arguments=dict(question.arguments),
        subject=question.subject,
        expires_ms=int(question.expires_in * 1000),
        schema=question.schema,
        action=question.action,
        agent=question.agent,
    )


def error_frame(ended: Ended) -> ErrorFrame:
    """Return the frame that says why a turn failed, with the code of ws.md 3.3."""
    message = strip_invisible(ended.text)
    text = message if len(message) <= _MAX_ERROR else f"{message[: _MAX_ERROR - 1]}…"
    code: FrameCode = "AGENT_ERROR"
    if isinstance(ended.fault, TurnFault) and ended.fault.of == "model":
        code = "AUTH_ERROR" if ended.fault.code == "auth" else "PROVIDER_ERROR"
    return ErrorFrame(text, code)


def output_of(envelope: str) -> str:
    """Return a result as ClawSeed shows it: a string as it is, other values as JSON, `Error: …` for an error."""
    fields = msgspec.json.decode(envelope)
    if fields["status"] != "success":
        return strip_invisible(f"Error: {fields['message']}")
    value = fields["result"]
    if value is None and "attachments" in fields:
        value = {"attachments": fields["attachments"]}
    return strip_invisible(value if isinstance(value, str) else msgspec.json.encode(value).decode())
