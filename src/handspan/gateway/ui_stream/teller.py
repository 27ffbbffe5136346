"""Tells a run as one message of the AI SDK: first what its client lacks of it, then each event (SPEC F5)."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, get_args

import msgspec
from msgspec import Struct, UnsetType

from handspan.agent.conversation import Conversation
from handspan.agent.order import earlier_calls
from handspan.agent.turn_events import QuestionOver, SessionEvent
from handspan.core import events
from handspan.core.children import asking_call
from handspan.core.errors import DenialCode
from handspan.core.messages import AssistantMessage, CallPart, Message, ResultsMessage, Text, Thinking
from handspan.core.questions import Question, find_waiting_note
from handspan.core.results import Attachment
from handspan.core.values import Json
from handspan.gateway.runs.client import RunClient
from handspan.gateway.runs.question_lines import question_line
from handspan.gateway.ui_stream.approvals import is_approval
from handspan.gateway.ui_stream.seen import NOTHING_SEEN, SeenMessage
from handspan.gateway.ui_stream.stored import StoredCall, metadata_of, persons, replies_to_last
from handspan.gateway.ui_stream.writer import MessageWriter
from handspan.sources.graph import GraphTool
from handspan.wire.ui_stream import FinishReason

_FINISH: Final[dict[events.EndReason, FinishReason]] = {
    "done": "stop",
    "length": "length",
    "refusal": "content-filter",
    "pending": "tool-calls",
}
"""Any other end is `other`."""
_DENIED: Final = frozenset(get_args(DenialCode))
_NO_RESULT: Final = "The run ended before this tool gave a result."


class _Told(Struct):
    """A call, as far as the client knows it."""

    name: str
    arguments: Json
    is_own: bool = False
    """Whether the client's own tool is called."""
    is_told: bool = False
    is_over: bool = False


class UiTeller:
    """Listens to a run for one request. Implements `RunListener`."""

    def __init__(
        self, writer: MessageWriter, client: RunClient, *, page: str = "", seen: SeenMessage = NOTHING_SEEN
    ) -> None:
        """`page`: where a person can answer questions. `seen`: what the client has of the message that goes on."""
        self._writer, self._client, self._page, self._seen = writer, client, page, seen
        self._conversation: Conversation | None = None
        self._own: Mapping[str, GraphTool] = {}
        """The client's tools, by their names for models."""
        self._calls: dict[str, _Told] = {
            **{one: _Told("", None, is_told=True) for one in seen.open_calls},
            **{one: _Told("", None, is_told=True, is_over=True) for one in seen.closed_calls},
        }
        self._questions: dict[str, Question] = {}
        """The open questions that the client can answer, by their calls."""
        self._asked_calls = set(seen.approvals)
        self._later: dict[str, Question] = {}
        """Open questions of calls that were not told yet, by these calls."""
        self._lines: set[str] = set()
        """Questions that were told as a line."""
        self._round = 0
        self._of_round: set[str] = set()
        """The calls of the round."""
        self._asked = 0
        """How many messages of the person the conversation had when the round began."""
        self._whole = 0
        """The client has the rounds up to this one."""
        self._whole_asked = 0
        """How many messages of the person there were then."""
        self._is_between = False
        """Whether a round may be at work of which no event came here: the turn runs on another node."""
        self._partial = 0
        """The round whose beginning did not come here; 0: none."""
        self._is_muted = False
        """Whether the client has the text of this round."""
        self._must_reset = False
        """Whether the client has a part of the round after those."""
        self._costs: list[float | UnsetType] = []
        self._files: dict[str, Sequence[Attachment]] = {}
        """Files of results by their calls."""
        self._is_waiting = False
        """Whether an earlier question has to be answered before this message."""
        self.suspended = asyncio.Event()
        """Set when nothing goes on before a person has answered."""

    @property
    def is_suspended(self) -> bool:
        """Whether a person has to answer before anything of the round goes on."""
        if self._is_waiting:
            return True
        waits = [call_id for call_id in self._questions if not self._calls[call_id].is_over]
        runs = (one for key, one in self._calls.items() if key not in self._questions and one.is_told)
        return bool(waits) and all(one.is_over or one.is_own for one in runs)

    @property
    def files(self) -> list[Attachment]:
        """The files of results that the client has not. They are told at the end of the stream."""
        return [
            file for call_id, files in self._files.items() if call_id not in self._seen.closed_calls for file in files
        ]

    # What is stored.

    def follow(self, conversation: Conversation | None) -> None:
        """Note the conversation of a turn that runs in this process already."""
        self._conversation = conversation

    def tell_stored(
        self, messages: Sequence[Message], calls: Mapping[str, StoredCall], questions: Sequence[Question], *, live: int
    ) -> None:
        """Tell what the client lacks of the answer to the person's last message.

        `live`: the number of the round that is told as it runs, after this; 0: none.
        """
        replies = replies_to_last(messages)
        self._whole = self._seen.count_whole([reply for reply, _ in replies])
        self._whole_asked = self._count_asked()
        self._must_reset = self._seen.is_last and len(self._seen.steps) > self._whole
        if self._whole:
            self._writer.begin(in_step=True)
        for number, (reply, results) in enumerate(replies[: live - 1] if live else replies, 1):
            self._begin_round(number)
            self._tell_reply(reply, calls)
            self._tell_results(results, reply, calls)
        self._is_between = not live
        self._tell_open_results(messages)
        for question in questions:
            self._tell_question(question)

    def _tell_reply(self, reply: AssistantMessage, calls: Mapping[str, StoredCall]) -> None:
        for part in reply.parts:
            match part:
                case Text(text=text) if text and not self._is_muted:
                    self._writer.text(text)
                case Thinking(text=text) if text and not self._is_muted:
                    self._writer.thinking(text)
                case CallPart(id=call_id, name=name, arguments=arguments):
                    own = calls[call_id].own_name if call_id in calls else ""
                    told = self._note_call(call_id, own or name, arguments, is_own=bool(own))
                    if not own or calls[call_id].envelope:  # what the client has to run is told at the end
                        self._tell_call(call_id, told)

    def _tell_results(
        self, results: ResultsMessage | None, reply: AssistantMessage, calls: Mapping[str, StoredCall]
    ) -> None:
        if results is not None:
            for result in results.results:
                self._tell_result(result.call_id, result.envelope, is_error=result.is_error)
                self._files[result.call_id] = result.attachments
            return
        for call in reply.calls:
            stored = calls.get(call.id)
            if stored is not None and stored.envelope:
                self._tell_result(call.id, stored.envelope, is_error=stored.status != "success", status=stored.status)

    # Events.

    def begin(self, conversation: Conversation, tools: Mapping[str, GraphTool]) -> None:
        """Note the conversation, and the client's tools: it runs their calls."""
        self._conversation, self._own = conversation, tools

    def on_event(self, event: SessionEvent, turn: str) -> None:
        """Tell one event."""
        match event:
            case events.TextArrived(text=text) if text:
                self._tell_text(text)
            case events.ThinkingArrived(text=text) if text and not self._is_muted:
                self._writer.thinking(text)
            case events.RoundBegan(number=number):
                self._begin_round(number)
            case events.CallStarted(id=call_id, name=name, arguments=arguments):
                self._begin_call(call_id, name, arguments)
            case events.CallProgress(id=call_id, value=value) if find_waiting_note(value) is None:
                self._tell_progress(call_id, value)
            case events.CallFinished(id=call_id, status=status, envelope=envelope):
                self._tell_result(call_id, envelope, is_error=status != "success", status=status)
            case events.QuestionAsked(question=question) if question.call_id or question.session:  # the run waits
                self._tell_question(question)
            case QuestionOver(id=question_id):
                for questions in (self._questions, self._later):
                    for key in [key for key, one in questions.items() if one.id == question_id]:
                        del questions[key]
            case events.UsageCounted(cost=cost):
                self._costs.append(cost)
            case _:
                pass
        if self.is_suspended:
            self.suspended.set()

    def _tell_text(self, text: str) -> None:
        if self._is_between:  # the beginning of this text did not come here
            self._begin_round(self._round + 1)
            self._partial = self._round
        if not self._is_muted:
            self._writer.text(text)

    def _begin_round(self, number: int) -> None:
        asked = self._count_asked()
        is_again = number == self._round and asked == self._asked
        self._round, self._asked = number, asked
        self._is_muted = number <= self._whole and asked == self._whole_asked
        self._is_between = False
        if self._is_muted:
            return
        if is_again or (self._must_reset and number == self._whole + 1):
            for call_id in self._of_round if is_again else self._seen.steps[number - 1].calls:
                self._calls.pop(call_id, None)
            self._must_reset = False
            self._writer.reset_step()
        else:
            self._writer.begin_step()
        self._of_round = set()

    def _count_asked(self) -> int:
        return 0 if self._conversation is None else len(persons(self._conversation.messages))

    def _begin_call(self, call_id: str, name: str, arguments: str) -> None:
        told = self._note_call(call_id, name, arguments, is_own=self._is_own(name))
        if not told.is_own and not self._is_held_back(call_id):
            self._tell_call(call_id, told)
        if (question := self._later.pop(call_id, None)) is not None:
            self._tell_question(question)

    def _note_call(self, call_id: str, name: str, arguments: str, *, is_own: bool) -> _Told:
        told = self._calls.setdefault(call_id, _Told("", None))
        self._of_round.add(call_id)
        told.name, told.arguments, told.is_own = name, read_json(arguments, {}), is_own
        return told

    def _is_own(self, name: str) -> bool:
        """Whether this is a tool of the client, also in a run that began with another request."""
        if name in self._own:
            return True
        entry = None if self._conversation is None else self._conversation.box.find(name)
        return entry is not None and (entry.origin.kind, entry.origin.name) == ("browser", self._client.id)

    def _is_held_back(self, call_id: str) -> bool:
        """Whether the call is told later: it waits for earlier ones of its round, or its tool is not known here."""
        last = None if self._conversation is None else self._conversation.last
        if self._conversation is None or not isinstance(last, AssistantMessage):
            return True
        places = [place for place, call in enumerate(last.calls) if call.id == call_id]
        return not places or bool(earlier_calls(last.calls, self._conversation.box)[places[0]])

    def _tell_call(self, call_id: str, told: _Told) -> None:
        if not told.is_told:
            told.is_told = True
            self._writer.call(call_id, told.name, told.arguments, is_own=told.is_own)

    def _tell_progress(self, call_id: str, value: Json) -> None:
        told = self._calls.get(call_id)
        if told is not None and told.name and not told.is_over and not told.is_own and call_id not in self._questions:
            self._tell_call(call_id, told)
            self._writer.result(call_id, value, is_last=False)

    def _tell_result(self, call_id: str, envelope: str, *, is_error: bool, status: str = "") -> None:
        told = self._calls.get(call_id)
        if told is None or told.is_over or not (told.name or told.is_told):
            return
        self._tell_call(call_id, told)
        told.is_over = True
        self._questions.pop(call_id, None)
        found = read_json(envelope, {})
        fields = found if isinstance(found, dict) else {}
        code = status or str(fields.get("code", ""))
        if not is_error:
            self._writer.result(call_id, fields.get("result"), is_own=told.is_own)
        elif code in _DENIED and call_id in self._asked_calls and code != "question_expired":
            self._writer.denial(call_id)
        else:
            self._writer.failure(call_id, str(fields.get("message", code)), is_own=told.is_own)

    def _tell_question(self, question: Question) -> None:
        """Ask the client, or say in one line where a person can answer (SPEC F6)."""
        told = self._calls.get(question.call_id)
        is_own = bool(question.call_id) and not asking_call(question.session)  # else another agent was asked, or money
        if told is None and is_own:
            self._later[question.call_id] = question
            return
        if told is not None and told.is_over:
            return
        if told is None or not is_approval(question, self._client.who):
            if question.id not in self._lines:
                self._lines.add(question.id)
                self._writer.text(question_line(question, self._page))
            return
        self._questions[question.call_id] = question
        self._asked_calls.add(question.call_id)
        told.name, told.is_told = told.name or question.tool, True
        if self._seen.approvals.get(question.call_id) == question.id:
            return
        if told.is_own:
            self._writer.show_call(question.call_id, told.name, dict(question.arguments))
        else:
            self._writer.call(question.call_id, told.name, dict(question.arguments), is_own=False)
        self._writer.ask(question.id, question.call_id, question.subject)

    def say_waiting(self, question: Question) -> None:
        """Say that an earlier question has to be answered first, and end the stream."""
        self._writer.text(question_line(question, self._page))
        self._is_waiting = True
        self.suspended.set()

    # The end.

    def tell_own_calls(self, asked: Sequence[tuple[str, str, str]]) -> None:
        """Tell the calls that the client has to run: the id, the client's name of the tool, and the arguments."""
        for call_id, name, arguments in asked:
            told = self._note_call(call_id, name, arguments, is_own=True)
            if call_id in self._asked_calls:
                told.is_told = False  # the client has to see that it may run now
            self._tell_call(call_id, told)

    def tell_rest(self, messages: Sequence[Message], calls: Mapping[str, StoredCall]) -> None:
        """Tell what is stored of the answer and was not told: its events may not have come here."""
        for number, (reply, results) in enumerate(replies_to_last(messages), 1):
            if number > self._round or number == self._round == self._partial:
                self._begin_round(number)
                self._tell_reply(reply, calls)
            self._tell_results(results, reply, calls)
        self._tell_open_results(messages)

    def _tell_open_results(self, messages: Sequence[Message]) -> None:
        """Tell the results of calls that the client knows, also of those before the person's last message."""
        for message in messages:
            for result in message.results if isinstance(message, ResultsMessage) else ():
                if result.call_id in self._calls and not self._calls[result.call_id].is_over:
                    self._tell_result(result.call_id, result.envelope, is_error=result.is_error)
                    self._files[result.call_id] = result.attachments

    def finish(self, ended: events.Ended, messages: Sequence[Message]) -> None:
        """Tell the end."""
        if ended.reason not in ("pending", "error"):
            for call_id, told in self._calls.items():
                if told.is_told and not told.is_over:
                    self._writer.failure(call_id, _NO_RESULT, is_own=told.is_own)
        if ended.reason == "error":
            self._writer.fail(ended.text or "The run failed.")
            return
        self._writer.finish(
            _FINISH.get(ended.reason, "other"), metadata_of(messages, self._costs), is_stopped=ended.reason == "aborted"
        )


def read_json(text: str, otherwise: Json) -> Json:
    """Return the value of this JSON text; `otherwise` for an empty one, and the text itself for a broken one."""
    if not text:
        return otherwise
    try:
        value: Json = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    return value
