"""Tells a run in the events of AG-UI, in the order that its clients check."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import msgspec
from msgspec import UNSET, UnsetType

from handspan.agent.conversation import Conversation
from handspan.agent.turn_events import AnsweredBefore, QuestionOver, SessionEvent
from handspan.core import events
from handspan.core.calls import new_call_id
from handspan.core.children import asking_call
from handspan.core.messages import AssistantMessage, CallResult, Message, ResultsMessage, Usage, UserMessage
from handspan.core.principals import Principal
from handspan.core.question_rights import person
from handspan.core.questions import Question
from handspan.core.values import Json, JsonObject
from handspan.gateway.agui.client_thread import ClientThread, calls_in, reply_id, result_id
from handspan.gateway.agui.interrupts import as_interrupt, can_be_told
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.runs.chats import ChatEnd
from handspan.gateway.runs.question_lines import question_line
from handspan.sources.graph import GraphTool
from handspan.wire.agui import events as wire
from handspan.wire.agui.run_input import VERSION, RunInput


class AguiTeller:
    """Listens to a run for one request, and writes its stream. Implements `RunListener`."""

    def __init__(
        self,
        put: Callable[[bytes], None],
        given: RunInput,
        thread: ClientThread,
        *,
        who: Principal,
        page: str = "",
    ) -> None:
        """`put` takes one event, without the empty line after it. `who`: the client.

        `page`: where other people can answer.
        """
        self._put, self._given, self._thread, self._who, self._page = put, given, thread, who, page
        self._own = {tool.name: tool.name for tool in given.tools or ()}
        """The client's own names of its tools, by their names for models."""
        self._conversation: Conversation | None = None
        self._known: Sequence[Message] = ()
        """The messages, where the conversation is not in this process."""
        self._calls, self._results = set(thread.calls), set(thread.results)
        """The ids of calls, and of those whose results, that the client has."""
        self._at_work: dict[str, str] = {}
        """The names of calls without a result, by their ids."""
        self._asking: dict[str, str] = {}
        """The ids of open questions, by those of their calls."""
        self._reply = self._text = self._thinking = ""
        """The ids of the reply of the round, and of a text and a thinking that are open; empty: none."""
        self._is_shown = self._is_stored_round = False
        """Whether the client has the conversation so far, and whether that has the reply of the round."""
        self._has_said = False
        self._used: dict[str, list[Usage]] = {}
        self.has_begun = self.is_over = False
        """Whether the stream has begun, and whether it is complete: the run may go on."""
        self.asks = asyncio.Event()
        """Is set while a question is open."""
        self.only_asks = asyncio.Event()
        """Is set while the run can't go on without an answer."""

    # The run.

    def begin(self, conversation: Conversation, tools: Mapping[str, GraphTool]) -> None:
        """Note the conversation and the client's tools, and begin the stream."""
        self._conversation = conversation
        self._own |= {name: tool.own_name for name, tool in tools.items()}
        self._begin()

    def join(self, conversation: Conversation | None) -> None:
        """Note the conversation of a turn that has begun for another request."""
        self._conversation = self._conversation or conversation

    def show(self, messages: Sequence[Message]) -> None:
        """Begin the stream, and tell the client what it does not have of these messages."""
        self._begin()
        self._is_shown, self._known = True, messages
        for snapshot in self._thread.snapshots(messages, self._own_name):
            self._write(wire.Snapshot(snapshot))
        self._note_shown(messages)
        self._has_said = bool(messages) and isinstance(messages[-1], AssistantMessage) and not messages[-1].calls

    def on_event(self, event: SessionEvent, turn: str) -> None:
        """Tell one event."""
        if self.is_over:
            return
        match event:
            case events.RoundBegan():
                self._begin_round()
            case events.TextArrived(text=text) if text and not self._is_stored_round:
                self._say(text)
            case events.ThinkingArrived(text=text) if text and not self._is_stored_round:
                self._think(text)
            case events.CallStarted(id=call_id, name=name, arguments=arguments):
                self._at_work[call_id] = name
                self._tell_call(call_id, name, arguments)
            case events.CallProgress(id=call_id, name=name, value=value) if not self._own_name(name):
                self._tell_more("tool_progress", {"toolCallId": call_id, "value": value})
            case events.CallFinished(id=call_id, name=name, envelope=envelope):
                self._tell_result(call_id, name, envelope)
            case events.QuestionAsked(question=question) if question.call_id or question.session:  # the run waits
                self._note_question(question)
            case QuestionOver(id=question_id):
                self.note_open({call: one for call, one in self._asking.items() if one != question_id})
            case events.UsageCounted(model=model, usage=usage):
                self._used.setdefault(model, []).append(usage)
            case events.RetryComing() | events.RequestQueued() | events.ModelSwitched():
                self._tell_event(event)
            case events.Compacted() | events.BudgetLow():
                self._tell_event(event)
            case AnsweredBefore(text=text) if text and not self._has_said:
                self._say(text)
            case _:
                pass
        self._note_waiting()

    def tell_missed(self, messages: Sequence[Message]) -> None:
        """Tell the results of the last turn that no event has told."""
        results: list[CallResult] = []
        for message in messages:
            if isinstance(message, UserMessage):
                results = []
            elif isinstance(message, ResultsMessage):
                results += message.results
        for one in results:
            self._tell_result(one.call_id, one.name, one.envelope)

    # The end.

    def finish(self, end: ChatEnd) -> None:
        """Ask the client for its calls, and end the stream."""
        ended = end.ended
        if not self._has_said and ended.reason not in ("pending", "aborted") and ended.text:
            self._say(ended.text)
        self._close()
        for one in end.asked:
            self._write_call(one.id, one.name, one.arguments)
        knows = self._given.knows_new_words
        asked = [one.id for one in end.asked]
        outcome: wire.Outcome | UnsetType = wire.SuccessOutcome(asked if asked and knows else UNSET)
        if ended.reason == "aborted":
            outcome = wire.CancelledOutcome() if knows else UNSET
        self._finish(outcome)

    def interrupt(self, questions: Sequence[Question], messages: Sequence[Message]) -> None:
        """End the stream: the run waits for answers to these questions."""
        self._close()
        self._write(wire.Snapshot(self._thread.render(messages, self._own_name)))
        self._note_shown(messages)
        self._finish(wire.InterruptOutcome([as_interrupt(question, self._who, self._calls) for question in questions]))

    def fail(self, refusal: Refusal) -> None:
        """End the stream with an error."""
        if not self.is_over:
            self._put(wire.RunError(refusal.message, refusal.code, self._usage).encode())
            self.is_over = True

    def _finish(self, outcome: wire.Outcome | UnsetType) -> None:
        self._write(wire.RunFinished(self._given.thread_id, self._given.run_id, outcome, self._usage))
        self.is_over = True

    @property
    def _usage(self) -> list[wire.TokenUsage] | UnsetType:
        return [_add_up(model, used) for model, used in self._used.items()] or UNSET

    # Texts.

    def _begin(self) -> None:
        if not self.has_begun:
            self.has_begun = True
            self._put(wire.RunStarted(self._given.thread_id, self._given.run_id, VERSION).encode())

    def _begin_round(self) -> None:
        self._close()
        messages = self._messages
        if not self._is_shown and self._conversation is not None:
            self.show(messages)
        self._reply, self._has_said = "", False
        self._is_stored_round = bool(messages) and isinstance(messages[-1], AssistantMessage)

    @property
    def _messages(self) -> Sequence[Message]:
        return self._known if self._conversation is None else self._conversation.messages

    @property
    def _reply_id(self) -> str:
        """The id of the reply of this round."""
        if not self._reply:
            messages = self._messages
            has_reply = bool(messages) and isinstance(messages[-1], AssistantMessage)
            is_known = self._conversation is not None or has_reply
            self._reply = reply_id(messages, is_next=not has_reply) if is_known else new_call_id()
        return self._reply

    def _say(self, text: str) -> None:
        self._close_thinking()
        if not self._text:
            self._text = self._reply_id
            self._write(wire.TextStart(self._text, "assistant"))
        self._has_said = True
        self._write(wire.TextContent(self._text, text))

    def _think(self, text: str) -> None:
        if not self._thinking:
            self._thinking = f"thinking-{new_call_id()}"
            self._write(wire.ReasoningStart(self._thinking))
            self._write(wire.ReasoningMessageStart(self._thinking, "reasoning"))
        self._write(wire.ReasoningContent(self._thinking, text))

    def _close(self) -> None:
        self._close_thinking()
        if self._text:
            self._write(wire.TextEnd(self._text))
            self._text = ""

    def _close_thinking(self) -> None:
        if self._thinking:
            self._write(wire.ReasoningMessageEnd(self._thinking))
            self._write(wire.ReasoningEnd(self._thinking))
            self._thinking = ""

    # Calls.

    def _own_name(self, name: str) -> str:
        """Return the client's own name of its tool; empty for a tool of the gateway."""
        if name in self._own:
            return self._own[name]
        entry = None if self._conversation is None else self._conversation.box.find(name)
        return name if entry is not None and entry.origin.kind == "browser" else ""

    def _tell_call(self, call_id: str, name: str, arguments: str) -> None:
        """Tell a call of the gateway's tools. The client's own are told when the run is over: it runs them then."""
        if not self._own_name(name) and call_id not in self._calls:
            self._close()
            self._write_call(call_id, name, arguments or "{}")

    def _write_call(self, call_id: str, name: str, arguments: str) -> None:
        self._calls.add(call_id)
        self._write(wire.CallStart(call_id, name, self._reply_id))
        self._write(wire.CallArgs(call_id, arguments))
        self._write(wire.CallEnd(call_id))

    def _tell_result(self, call_id: str, name: str, envelope: str) -> None:
        self._at_work.pop(call_id, None)
        self._asking.pop(call_id, None)
        if self._own_name(name) or call_id in self._results:
            return
        self._tell_call(call_id, name, "")
        self._results.add(call_id)
        self._write(wire.CallOutcome(result_id(call_id), call_id, envelope, "tool"))

    # Questions.

    def _note_question(self, question: Question) -> None:
        is_own = not asking_call(question.session)  # another agent that was asked has its own chat
        if is_own and can_be_told(question) and person(self._who).may_answer(question):
            self._asking[question.call_id] = question.id
        else:  # another person or a device is asked: the stream stays open
            self._tell_more("question", {"text": question_line(question, self._page)})

    def note_open(self, asking: Mapping[str, str]) -> None:
        """Note which questions are open: their ids, by those of their calls."""
        self._asking = dict(asking)
        self._note_waiting()

    def _note_waiting(self) -> None:
        _set(self.asks, is_set=bool(self._asking))
        _set(self.only_asks, is_set=bool(self._asking) and self._asking.keys() >= self._at_work.keys())

    # All else.

    def _note_shown(self, messages: Sequence[Message]) -> None:
        for message in self._thread.render(messages, self._own_name):
            self._calls.update(calls_in(message))
            if "toolCallId" in message:
                self._results.add(str(message["toolCallId"]))

    def _tell_event(self, event: events.Event) -> None:
        told: dict[str, Json] = msgspec.to_builtins(event)
        self._tell_more(str(told.pop("type")), told)

    def _tell_more(self, name: str, value: JsonObject) -> None:
        self._write(wire.Custom(f"handspan.{name}", value))

    def _write(self, event: wire.AguiEvent) -> None:
        self._begin()
        self._put(event.encode())


def _set(event: asyncio.Event, *, is_set: bool) -> None:
    if is_set:
        event.set()
    else:
        event.clear()


def _add_up(model: str, used: Collection[Usage]) -> wire.TokenUsage:
    read, written = _sum(one.input for one in used), _sum(one.output for one in used)
    return wire.TokenUsage(
        model or "unknown",
        read,
        written,
        read + written if isinstance(read, int) and isinstance(written, int) else UNSET,
        reasoning_tokens=_sum(one.reasoning for one in used),
        cached_input_tokens=_sum(one.cached for one in used),
        cache_write_input_tokens=_sum(one.cache_written for one in used),
    )


def _sum(counts: Iterable[int | None]) -> int | UnsetType:
    """Return the sum; unset when one of the counts is unknown (SPEC M6)."""
    total = 0
    for count in counts:
        if count is None:
            return UNSET
        total += count
    return total
