"""What happens in a turn, as the frames that its fronts get (ws.md 3.2-3.8). Pure: no sockets, no clock."""

from typing import Final

import msgspec

from handspan.agent.turn_events import AnsweredBefore, Happening, MessageStored, Prompted, QuestionOver
from handspan.core.events import (
    CallFinished,
    CallStarted,
    Ended,
    QuestionAsked,
    TextArrived,
    ThinkingArrived,
    Titled,
    TurnFault,
)
from handspan.core.questions import FIRST_KINDS, Question, QuestionKind
from handspan.core.values import strip_invisible
from handspan.wire.ws import arguments_object
from handspan.wire.ws_frames import (
    AbortedFrame,
    CallNote,
    Chunk,
    ChunkReset,
    DebugPrompt,
    Done,
    ErrorFrame,
    EventFrame,
    FrameCode,
    QuestionClosed,
    QuestionFrame,
    ResultNote,
    ServerFrame,
    ThinkingFrame,
    TitleUpdated,
)

_MOST_ERROR: Final = 1000


class ChatFrames:
    """The frames of ClawSeed for the turns of one session, one after the other.

    A turn that waits (`pending`) is not over: what comes when it goes on belongs to it.
    """

    def __init__(self, *, questions: bool = False, all_kinds: bool = False, me: str = "") -> None:
        """`questions`: the client shows them, `all_kinds`: whatever they ask for. `me` goes with its answers."""
        self._extras = _Extras(questions, all_kinds, me)
        self._said: list[str] = []
        self._calls: dict[str, ResultNote | None] = {}
        """Of this round, in their order."""

    def frames(self, happening: Happening, turn: str = "") -> list[ServerFrame]:
        """What the client is sent for this; often nothing."""
        match happening:
            case TextArrived(text=text):
                self._said.append(text)
                return [Chunk(text)]
            case ThinkingArrived(text=text):
                return [ThinkingFrame(text)]
            case CallStarted(id=call_id, name=name, arguments=arguments):
                self._calls[call_id] = None
                return [CallNote(call_id, name, arguments_object(arguments))]
            case CallFinished():
                return self._finished(happening)
            case Ended():
                return self._ended(happening)
            case AnsweredBefore(ended=ended, text=text):
                self._said = [text]
                return self._ended(ended)
            case _:
                return self._extras.frames(happening)

    def _finished(self, event: CallFinished) -> list[ServerFrame]:
        """All results of a round, when the last one is there."""
        self._calls[event.id] = ResultNote(event.id, event.name, output_of(event.envelope))
        if None in self._calls.values():
            return []
        notes: list[ServerFrame] = [note for note in self._calls.values() if note is not None]
        self._calls.clear()
        return notes

    def _ended(self, ended: Ended) -> list[ServerFrame]:
        if ended.reason == "pending":
            return []
        said = "".join(self._said)
        self._said.clear()
        self._calls.clear()
        match ended.reason:
            case "aborted":
                return [AbortedFrame()]
            case "error":
                return [error_frame(ended)]
            case _:
                return [ChunkReset(), Done(said)]


class EventFrames:
    """`event` frames with growing numbers, for clients with the capability `events` (ws.md 3.7)."""

    def __init__(self, *, questions: bool = False, all_kinds: bool = False, me: str = "", seq: int = 0) -> None:
        """`seq` is the number of the last one that the client's earlier connections were sent."""
        self.seq = seq
        self._extras = _Extras(questions, all_kinds, me)

    def frames(self, happening: Happening, turn: str = "") -> list[ServerFrame]:
        """What the client is sent for this."""
        if isinstance(happening, AnsweredBefore):
            happening = happening.ended
        extras = self._extras.frames(happening)
        if isinstance(happening, Prompted | Titled | QuestionOver | MessageStored):
            return extras
        if isinstance(happening, QuestionAsked) and self._extras.hides(happening.question.kind):
            return extras
        self.seq += 1
        event = EventFrame(self.seq, msgspec.to_builtins(happening, str_keys=True), turn)
        if isinstance(happening, Ended) and happening.reason == "error":  # `error` stays as it is, and has the code
            return [event, error_frame(happening)]
        return [event, *extras]


class _Extras:
    """The frames that are the same in both forms."""

    def __init__(self, questions: bool, all_kinds: bool, me: str) -> None:
        self._questions = questions
        self._all_kinds = all_kinds
        self._me = me

    def hides(self, kind: QuestionKind) -> bool:
        """Whether the client hears nothing of such a question, because it does not know the kind (ws.md 3.8)."""
        return not self._all_kinds and kind not in FIRST_KINDS

    def frames(self, happening: Happening) -> list[ServerFrame]:
        match happening:
            case Prompted(messages=messages, estimated_tokens=tokens):
                return [DebugPrompt(messages, tokens)]
            case Titled(title=title):
                return [TitleUpdated(title)]
            case QuestionAsked(question=question) if self._questions and not self.hides(question.kind):
                return [question_frame(question)]
            case QuestionOver(id=question_id, kind=kind, by=by) if self._questions and not self.hides(kind):
                return [QuestionClosed(question_id, accepted=bool(by) and by == self._me)]
            case _:
                return []


def question_frame(question: Question) -> QuestionFrame:
    """The question as a client is asked it (ws.md 3.8)."""
    return QuestionFrame(
        question.id,
        question.kind,
        question.call_id,
        question.tool,
        dict(question.arguments),
        question.subject,
        int(question.expires_in * 1000),
        question.schema,
        question.action,
    )


def error_frame(ended: Ended) -> ErrorFrame:
    """Why a turn failed, for a person, with the code of ws.md 3.3."""
    message = strip_invisible(ended.text)
    shown = message if len(message) <= _MOST_ERROR else f"{message[: _MOST_ERROR - 1]}…"
    code: FrameCode = "AGENT_ERROR"
    if isinstance(ended.fault, TurnFault) and ended.fault.of == "model":
        code = "AUTH_ERROR" if ended.fault.code == "auth" else "PROVIDER_ERROR"
    return ErrorFrame(shown, code)


def output_of(envelope: str) -> str:
    """The text of a result, as ClawSeed shows it: a string as it is, other values as JSON, `Error: …` for an error."""
    told = msgspec.json.decode(envelope)
    if told["status"] != "success":
        return f"Error: {told['message']}"
    value = told["result"]
    if value is None and "attachments" in told:
        value = {"attachments": told["attachments"]}
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
