"""What one request hears of a run: messages in the order in which they happen, each once (graph.md 4.4, 4.5, 7)."""

import time
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from handspan.agent.conversation import Conversation
from handspan.agent.past_turns import last_turn
from handspan.agent.turn_events import Happening
from handspan.core.events import (
    CallFinished,
    CallProgress,
    CallStarted,
    Ended,
    EndReason,
    RoundBegan,
    TextArrived,
    ThinkingArrived,
)
from handspan.core.messages import AssistantMessage, CallPart, Message, UserMessage
from handspan.core.store import Ledger
from handspan.core.values import Json, JsonObject
from handspan.gateway.graph.results import is_of
from handspan.gateway.graph.shown import Numbers, Shower, arguments_of
from handspan.sources.graph import GraphTool
from handspan.wire.graph.answers import GraphMessage

MODEL: Final = "MAIN"
TOOLS: Final = "TOOL"
INTERRUPTED: Final = "Remote tool call - graph interrupted"


class Out(Protocol):
    """Where it is shown: an answer, a stream, a socket. Never blocks."""

    streams: bool
    """Whether it wants to hear of words as they come, and of what happens between messages."""

    def begin(self, thread: str, run: str, is_new: bool) -> None:
        """The run has begun in this thread, or goes on, under this id."""

    def message(self, message: GraphMessage, data: Json = None, metadata: JsonObject | None = None) -> None:
        """A message, whole or more of one."""

    def update(self, data: JsonObject) -> None:
        """Something happened."""

    def end(self) -> None:
        """What comes from now on is the last that this request shows."""


class Following:
    """Hears the turn of one request."""

    def __init__(self, shower: Shower, numbers: Numbers, out: Out, *, resumes: bool) -> None:
        self.shower = shower
        self._numbers = numbers
        self._out = out
        self._resumes = resumes
        self._conversation: Conversation | None = None
        self._lent: Mapping[str, GraphTool] = {}
        self._seen: int | None = None
        """How many messages of the thread need not be shown, or have been."""
        self._finished: set[str] = set()
        self._is_told = False
        """Whether it was said that the run begins, or goes on."""
        self.is_new = False
        self.run = ""
        self.waited = ""
        """The run that goes on, if this request goes on with one."""
        self._waits = False
        """Whether the turn has ended at calls that have no results."""
        self.open: list[str] = []
        """The calls that wait for the client."""

    @property
    def thread(self) -> str:
        """The thread of the run."""
        return self.shower.thread

    def equip(self, conversation: Conversation, lent: Mapping[str, GraphTool]) -> None:
        """The turn begins in this conversation, with these tools."""
        self._conversation, self._lent = conversation, lent
        self.shower.names = {name: tool.own_name for name, tool in lent.items()}
        if self._resumes:  # what the last answer has shown is not shown again
            self.waited = last_turn(conversation.messages)
            self._finished = {call.id for call in _calls(conversation.last)}

    def hear(self, happening: Happening, turn: str) -> None:
        """A listener of the session."""
        if not self.run:
            self.run = turn
            self._out.begin(self.thread, turn, self.is_new)
            self._greet()
        match happening:
            case TextArrived(text=text):
                self._words(text, thinking=False)
            case ThinkingArrived(text=text):
                self._words(text, thinking=True)
            case RoundBegan(number=number):
                self._catch_up()
                if not self._is_told:
                    self._is_told = True
                    self._update("invoking_graph", MODEL, step=number, max_steps=self._most_rounds)
                self._update("invoking_node", MODEL, step=number)
            case CallStarted(id=call_id, name=name):
                self._catch_up()
                self._update("invoking_node", TOOLS, tool_name=self._own(name), tool_call_id=call_id)
            case CallProgress(id=call_id, name=name, value=value):
                self._update("tool_progress", TOOLS, tool_name=self._own(name), tool_call_id=call_id, value=value)
            case CallFinished(id=call_id, name=name):
                self._catch_up()
                self._has_result(happening)
                self._update("node_invoked", TOOLS, tool_name=self._own(name), tool_call_id=call_id)
            case Ended(reason=reason):
                self._ended(reason)

    def _greet(self) -> None:
        """An answer that goes on begins with what the person said last; a stream echoes results instead, below."""
        if self._resumes and not self._out.streams and self._conversation is not None:
            messages = self._conversation.messages
            seq = _begin_of_turn(messages) + 1
            said = messages[seq - 1] if seq <= len(messages) else None
            if type(said) is UserMessage:
                self._out.message(self.shower.said(self._numbers.of(seq), said, time.time()))

    def _ended(self, reason: EndReason) -> None:
        self._out.end()
        self._catch_up()
        if self._conversation is None:
            return
        self._waits = reason == "pending"  # `suspend` tells the rest
        if not self._waits:
            self._update("graph_invoked", MODEL, reason=reason)

    def _update(self, status: str, node: str, **more: Json) -> None:
        if self._out.streams:
            self._out.update({"status": status, "node": node, **more})

    def _words(self, text: str, *, thinking: bool) -> None:
        if self._out.streams and self._conversation is not None:
            number = self._numbers.of(len(self._conversation.messages) + 1)
            self._out.message(self.shower.delta(number, text, time.time(), thinking=thinking))

    def _has_result(self, finished: CallFinished) -> None:
        if self._conversation is None:
            return
        is_echo = finished.id in self._finished
        if is_echo and not (self._out.streams and finished.name in self._lent):
            return
        self._finished.add(finished.id)
        for place, call in enumerate(_calls(self._conversation.last)):
            if call.id == finished.id:
                number = self._numbers.of(len(self._conversation.messages) + 1)
                message = self.shower.outcome(number, place, call, finished.envelope, time.time())
                status = "tool_result" if finished.status == "success" else "tool_failed"
                told: JsonObject = {"status": status, "node": TOOLS, "tool_name": self._own(call.name)}
                self._out.message(message, told, {"status": "invoking_graph"} if is_echo else None)

    def _catch_up(self) -> None:
        """Show the messages that the conversation has got meanwhile."""
        if self._conversation is None:
            return
        messages = self._conversation.messages
        if self._seen is None:
            self._seen = len(messages) if self._resumes else _begin_of_turn(messages)
        for seq in range(self._seen + 1, len(messages) + 1):
            message, number = messages[seq - 1], self._numbers.of(seq)
            if type(message) is UserMessage:
                echo: JsonObject = {"status": "invoking_graph", "reason": "initial human message"}
                self._out.message(self.shower.said(number, message, time.time()), None, echo)
            elif type(message) is AssistantMessage:
                self._out.message(self.shower.replied(number, message, time.time()), None, {"node": MODEL})
                self._update("node_invoked", MODEL)
        self._seen = len(messages)

    async def suspend(self, ledger: Ledger, client: str) -> None:
        """Ask the client, once for each call that waits for it (graph.md 4.5); for when the turn is over.

        The ledger has the calls as hooks and persons have left them, and of which nobody has to be asked any more.
        """
        if not self._waits or self._conversation is None:
            return
        number = self._numbers.of(len(self._conversation.messages) + 1)
        for place, call in enumerate(_calls(self._conversation.last)):
            record = None if call.id in self._finished else await ledger.find(call.id)
            if record is None or record.state != "pending" or not is_of(record, client):
                continue
            self.open.append(call.id)
            data: JsonObject = {
                "status": "tool_result",
                "tool_name": self._own(record.name),
                "args": arguments_of(record),
                "tool_call_id": call.id,
                "node": TOOLS,
            }
            self._out.message(self.shower.asked(number, place, record, time.time()), data)
        self._update("graph_invoked", TOOLS, reason=INTERRUPTED)

    @property
    def _most_rounds(self) -> int | None:
        return None if self._conversation is None else self._conversation.limits.rounds

    def _own(self, name: str) -> str:
        return self.shower.names.get(name, name)


def _calls(last: Message | None) -> tuple[CallPart, ...]:
    return last.calls if type(last) is AssistantMessage else ()


def _begin_of_turn(messages: Sequence[Message]) -> int:
    """How many messages come before what the person said last."""
    places = (place for place in range(len(messages), 0, -1) if type(messages[place - 1]) is UserMessage)
    return next(places, len(messages) + 1) - 1
