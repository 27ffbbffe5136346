"""Turns the events of a run into messages for one request: in their order, each once (graph.md 4.4, 4.5, 7)."""

import time
from collections.abc import Mapping
from typing import Final, Protocol

import msgspec
from msgspec import structs

from handspan.agent.conversation import Conversation
from handspan.agent.turn_events import QuestionOver, SessionEvent, last_turn
from handspan.core import events
from handspan.core.messages import AssistantMessage, UserMessage
from handspan.core.question_rights import person
from handspan.core.store import Ledger
from handspan.core.values import Json, JsonObject
from handspan.gateway.clients.chat_frames import question_frame
from handspan.gateway.graph.renderer import MessageNumbers, MessageRenderer
from handspan.gateway.runs.asked import calls_of, count_before_turn, find_asked_calls
from handspan.gateway.runs.client import RunClient
from handspan.gateway.runs.runs import RunPlace
from handspan.sources.graph import GraphTool
from handspan.wire.graph.answers import GraphMessage

MODEL: Final = "MAIN"
TOOLS: Final = "TOOL"
INTERRUPTED: Final = "Remote tool call - graph interrupted"


class RunOutput(Protocol):
    """Takes the messages of a run, for an answer, a stream or a socket. Its methods never block."""

    streams: bool
    """Whether the client gets text as it comes, and updates between messages."""

    def begin(self, thread: str, run: str, is_new: bool) -> None:
        """Note that the run begins or resumes in this thread, under this id."""

    def message(self, message: GraphMessage, data: Json = None, metadata: JsonObject | None = None) -> None:
        """Take a message, or the next piece of one."""

    def update(self, data: JsonObject) -> None:
        """Take an update on what the run does."""

    def question(self, data: JsonObject) -> None:
        """Take a question to the person, or its end. Only a client that shows questions gets it."""

    def end(self) -> None:
        """Note that the run has ended. Only its last messages follow."""


class GraphListener:
    """Listens to the turn of one request, and writes its messages to a `RunOutput`."""

    def __init__(self, place: RunPlace, numbers: MessageNumbers, out: RunOutput, client: RunClient) -> None:
        """Questions that the person at the client may not answer are not sent."""
        self.place = place
        self._renderer = MessageRenderer(place.session)
        self._numbers = numbers
        self._out = out
        self._client = client
        self._conversation: Conversation | None = None
        self._tools: Mapping[str, GraphTool] = {}
        self._seen: int | None = None
        """How many messages of the thread are done: sent before, or not to be sent."""
        self._sent: set[str] = set()
        """The ids of the calls that the client was sent: open in an earlier answer, or with their result."""
        self._is_announced = False
        """Whether the update "invoking_graph" was sent."""
        self.run = ""
        self.resumed_run = ""
        """The id of the run that this request resumes; empty: it begins one."""
        self._waits = False
        """Whether the turn has ended with open calls."""
        self.open: list[str] = []
        """The ids of the calls that wait for the client."""

    def begin(self, conversation: Conversation, tools: Mapping[str, GraphTool]) -> None:
        """Note the conversation and the client's tools of the turn that begins."""
        self._conversation, self._tools = conversation, tools
        self._renderer.names = {name: tool.own_name for name, tool in tools.items()}
        if self.place.resumes:  # the answer before this one has sent all calls of the last reply
            self.resumed_run = last_turn(conversation.messages)
            self._sent = {call.id for call in calls_of(conversation.last)}

    def on_event(self, event: SessionEvent, turn: str) -> None:
        """Take one event of the turn: a listener of the session."""
        if not self.run:
            self.run = turn
            self._out.begin(self.place.session, turn, self.place.is_new)
            self._send_last_message()
        own_name = self._renderer.own_name
        match event:
            case events.TextArrived(text=text):
                self._send_text(text, thinking=False)
            case events.ThinkingArrived(text=text):
                self._send_text(text, thinking=True)
            case events.RoundBegan(number=number):
                self._send_new_messages()
                if not self._is_announced:
                    self._is_announced = True
                    self._update("invoking_graph", MODEL, step=number, max_steps=self._most_rounds)
                self._update("invoking_node", MODEL, step=number)
            case events.Compacted():
                about: JsonObject = {key: value for key, value in msgspec.to_builtins(event).items() if key != "type"}
                self._update("compacted", MODEL, **about)
            case events.CallStarted(id=call_id, name=name):
                self._send_new_messages()
                self._update("invoking_node", TOOLS, tool_name=own_name(name), tool_call_id=call_id)
            case events.CallProgress(id=call_id, name=name, value=value):
                self._update("tool_progress", TOOLS, tool_name=own_name(name), tool_call_id=call_id, value=value)
            case events.CallFinished(id=call_id, name=name):
                self._send_new_messages()
                self._send_result(event)
                self._update("node_invoked", TOOLS, tool_name=own_name(name), tool_call_id=call_id)
            case events.QuestionAsked(question=question) if person(self._client.who).may_answer(question):
                frame = question_frame(structs.replace(question, tool=own_name(question.tool)))
                self._out.question({"status": "question", "node": TOOLS, "question": msgspec.to_builtins(frame)})
            case QuestionOver(id=question_id):
                self._out.question({"status": "question_closed", "node": TOOLS, "question_id": question_id})
            case events.Ended(reason=reason):
                self._finish_turn(reason)

    def _send_last_message(self) -> None:
        """Begin the answer of a resumed run with the person's last message. Only without a stream (graph.md 4)."""
        if self.place.resumes and not self._out.streams and self._conversation is not None:
            messages = self._conversation.messages
            seq = count_before_turn(messages) + 1
            message = messages[seq - 1] if seq <= len(messages) else None
            if isinstance(message, UserMessage):
                self._out.message(self._renderer.user_message(self._numbers.of(seq), message, time.time()))

    def _finish_turn(self, reason: events.EndReason) -> None:
        self._out.end()
        self._send_new_messages()
        if self._conversation is None:
            return
        self._waits = reason == "pending"  # `suspend` sends the rest
        if not self._waits:
            self._update("graph_invoked", MODEL, reason=reason)

    def _update(self, status: str, node: str, **more: Json) -> None:
        if self._out.streams:
            self._out.update({"status": status, "node": node, **more})

    def _send_text(self, text: str, *, thinking: bool) -> None:
        if self._out.streams and self._conversation is not None:
            number = self._numbers.of(len(self._conversation.messages) + 1)
            self._out.message(self._renderer.delta(number, text, time.time(), thinking=thinking))

    def _send_result(self, finished: events.CallFinished) -> None:
        """Send the result of a call, unless the client knows it: from an earlier answer, or from itself."""
        if self._conversation is None:
            return
        is_echo = finished.id in self._sent  # its result came with this request: a stream repeats it (graph.md 7.3)
        if is_echo and not (self._out.streams and finished.name in self._tools):
            return
        self._sent.add(finished.id)
        for place, call in enumerate(calls_of(self._conversation.last)):
            if call.id == finished.id:
                number = self._numbers.of(len(self._conversation.messages) + 1)
                message = self._renderer.outcome(number, place, call, finished.envelope, at=time.time())
                status = "tool_result" if finished.status == "success" else "tool_failed"
                update: JsonObject = {"status": status, "node": TOOLS, "tool_name": self._renderer.own_name(call.name)}
                self._out.message(message, update, {"status": "invoking_graph"} if is_echo else None)

    def _send_new_messages(self) -> None:
        """Send the messages that the conversation has got since the last event."""
        if self._conversation is None:
            return
        messages = self._conversation.messages
        if self._seen is None:
            self._seen = len(messages) if self.place.resumes else count_before_turn(messages)
        for seq in range(self._seen + 1, len(messages) + 1):
            message, number = messages[seq - 1], self._numbers.of(seq)
            if isinstance(message, UserMessage):
                echo: JsonObject = {"status": "invoking_graph", "reason": "initial human message"}
                self._out.message(self._renderer.user_message(number, message, time.time()), None, echo)
            elif isinstance(message, AssistantMessage):
                self._out.message(self._renderer.reply(number, message, time.time()), None, {"node": MODEL})
                self._update("node_invoked", MODEL)
        self._seen = len(messages)

    async def suspend(self, ledger: Ledger) -> None:
        """Send each call that waits for the client, once (graph.md 4.5). Call this when the turn is over."""
        if not self._waits or self._conversation is None:
            return
        number = self._numbers.of(len(self._conversation.messages) + 1)
        asked = await find_asked_calls(self._conversation, self._tools, ledger, self._client, known=self._sent)
        for call in asked:
            self.open.append(call.record.id)
            data: JsonObject = {
                "status": "tool_result",
                "tool_name": call.name,
                "args": call.arguments,
                "tool_call_id": call.record.id,
                "node": TOOLS,
            }
            self._out.message(self._renderer.open_call(number, call.place, call.record, time.time()), data)
        self._update("graph_invoked", TOOLS, reason=INTERRUPTED)

    @property
    def _most_rounds(self) -> int | None:
        return None if self._conversation is None else self._conversation.limits.rounds
