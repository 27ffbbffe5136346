"""Tells a run to a client that knows text, thinking and calls of its own tools, and nothing else."""

import re
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from handspan.agent.conversation import Conversation
from handspan.agent.final_answer import FINAL_ANSWER
from handspan.agent.turn_events import AnsweredBefore, QuestionOver, SessionEvent
from handspan.core import events
from handspan.core.questions import Question, asked_text
from handspan.core.values import strip_invisible
from handspan.gateway.runs.chats import ChatEnd
from handspan.gateway.runs.json_answers import JsonAnswer
from handspan.gateway.runs.question_lines import question_line
from handspan.gateway.runs.usage import UsageMeter
from handspan.registry.toolbox import Toolbox
from handspan.sources.graph import GraphTool

_ACTIVITY: Final = re.compile(r"<details>\n<summary>Used \d+ tools?</summary>\n\n.*?\n\n</details>\n*", re.DOTALL)
_LONGEST_SHOWN: Final = 300
"""Characters of arguments that an activity shows."""


class Sink(Protocol):
    """Where the words of a run go. Its methods never block."""

    def text(self, text: str) -> None:
        """Take more of the answer."""

    def thinking(self, text: str) -> None:
        """Take more of the model's thinking."""

    def comment(self, text: str) -> None:
        """Take a line that only keeps the connection busy."""

    def call_began(self, call_id: str, name: str, arguments: str, label: str) -> None:
        """Take a call of a tool of the gateway, which `label` brings."""

    def call_ended(self, event: events.CallFinished) -> None:
        """Take the result of such a call."""


class RunTeller:
    """Listens to a run for one request, and tells it to a sink. Implements `RunListener`."""

    def __init__(
        self,
        sink: Sink,
        meter: UsageMeter,
        *,
        page: str = "",
        tells_questions: bool = True,
        shows_activity: bool = False,
        answer: JsonAnswer | None = None,
    ) -> None:
        """`page`: where a person can answer questions. `tells_questions`: they are told when they come, for a stream.

        `shows_activity`: each round of the gateway's tools is a folded text. `answer`: the form of the answer."""
        self._sink, self.meter, self._page = sink, meter, page
        self._tells_questions, self._shows_activity, self._answer = tells_questions, shows_activity, answer
        self._box: Toolbox | None = None
        self._own: Mapping[str, GraphTool] = {}
        """The client's tools, by their names for models."""
        self._arguments: dict[str, str] = {}
        self._activity: list[str] = []
        self._is_apart = False
        """Whether the next text begins a new paragraph."""
        self._texts: list[str] = []
        self.has_run = False
        """Whether anything has come of the run: the same request again might do it twice."""
        self.question: Question | None = None
        """The question that waits for a person."""
        self.on_question: Callable[[], None] = _ignore
        """Is called when a question begins to wait."""

    @property
    def told(self) -> str:
        """The text so far."""
        return "".join(self._texts)

    def begin(self, conversation: Conversation, tools: Mapping[str, GraphTool]) -> None:
        """Note the client's tools: their calls are no activity of ours."""
        self._own, self._box = tools, conversation.box

    def _label(self, name: str) -> str:
        """Return where a tool comes from: the server, the plugin or the device, or its kind."""
        entry = None if self._box is None else self._box.find(name)
        return "handspan" if entry is None else entry.origin.name or entry.origin.kind

    def on_event(self, event: SessionEvent, turn: str) -> None:
        """Tell one event."""
        match event:
            case events.TextArrived(text=text):
                self._say(text)
            case events.ThinkingArrived(text=text):
                self._sink.thinking(text)
            case events.RoundBegan():
                self._end_activity()
                self._is_apart = bool(self._texts) and not self._texts[-1].endswith("\n\n")
            case events.CallStarted(id=call_id, name=name, arguments=arguments) if name not in self._own:
                self.has_run = True
                self._arguments[call_id] = arguments
                if name != FINAL_ANSWER:
                    self._sink.call_began(call_id, name, arguments, self._label(name))
            case events.CallFinished(name=name) if name not in self._own:
                self._sink.call_ended(event)
                self._note_activity(event)
            case events.QuestionAsked(question=question) if (
                question.call_id or question.session
            ):  # the run waits for it
                self._tell_question(question)
            case QuestionOver(id=question_id) if self.question is not None and self.question.id == question_id:
                self.question = None
            case events.UsageCounted():
                self.meter.add(event)
            case events.RetryComing() | events.RequestQueued():
                self._sink.comment("the model is asked again later")
            case AnsweredBefore(text=text) if not self._texts:
                self._say(text)
            case _:
                pass

    def finish(self, end: ChatEnd) -> bool:
        """Tell what is left at the end. Return False when the answer has not the wanted form."""
        self._end_activity()
        if self._answer is not None and end.ended.reason != "pending":
            answer = self._answer.read(end.ended.text)
            if answer is not None:
                self._put(answer)
            return answer is not None
        if not self._texts and end.ended.reason not in ("pending", "error"):
            self._say(end.ended.text)
        return True

    def _say(self, text: str) -> None:
        if not text:
            return
        self.has_run = True
        if self._answer is None:
            self._put(f"\n\n{text}" if self._is_apart else text)

    def _put(self, text: str) -> None:
        self._is_apart = False
        self._texts.append(text)
        self._sink.text(text)

    def _tell_question(self, question: Question) -> None:
        """Say in one line where a person can answer: this client can't show questions (SPEC F6)."""
        self.question = question
        if self._tells_questions and self._answer is None:
            self._put(f"{self._gap}{question_line(question, self._page)}\n\n")
        self.on_question()

    def leave_question(self, question: Question) -> None:
        """Say at the end of an answer that it waits for a person."""
        self._put(f"{self._gap}{question_line(question, self._page)}")

    def give_up_question(self, question: Question, seconds: float) -> None:
        """Say at the end of an answer that it has waited for a person in vain: nothing goes on, no answer counts."""
        asked = strip_invisible(" ".join(asked_text(question).split()))
        self._put(
            f"{self._gap}This waited {seconds:g} seconds for a person, who was asked: {asked} Then it was given up. To "
            "have time for an answer, send the request with the name of a chat (the header X-Chat-Id), or as a stream."
        )

    @property
    def _gap(self) -> str:
        return "\n\n" if self._texts else ""

    def _note_activity(self, event: events.CallFinished) -> None:
        if not self._shows_activity or self._answer is not None:
            return
        arguments = " ".join(strip_invisible(self._arguments.pop(event.id, "")).split())[:_LONGEST_SHOWN]
        shown = arguments.replace("`", "'").replace("<", "‹")
        outcome = "" if event.status == "success" else f" — {event.status}"
        self._activity.append(f"- `{event.name}` `{shown or '{}'}`{outcome} ({event.duration:.1f} s)")

    def _end_activity(self) -> None:
        """Tell the tools of the round that is over, as one folded block."""
        if not self._activity:
            return
        lines, self._activity = "\n".join(self._activity), []
        count = lines.count("\n") + 1
        summary = f"Used {count} tool{'s' if count > 1 else ''}"
        self._put(f"{self._gap}<details>\n<summary>{summary}</summary>\n\n{lines}\n\n</details>\n\n")


def without_activity(text: str) -> str:
    """Return a text that a client repeats, without the activities that were told in it."""
    return _ACTIVITY.sub("", text)


def _ignore() -> None:
    """The `on_question` of a stream."""
