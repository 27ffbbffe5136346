"""The chunks of a Chat Completions stream, and the whole answer."""

import time
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from msgspec import UNSET

from handspan.core.calls import new_call_id
from handspan.core.events import CallFinished, EndReason
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.openai.envelope import error_bytes
from handspan.gateway.openai.usage import usage_view
from handspan.gateway.runs.chats import AskedTool, ChatEnd
from handspan.gateway.runs.usage import UsageMeter
from handspan.wire.openai.chat import (
    CalledFunction,
    ChatAnswer,
    ChatChunk,
    ChoiceView,
    ChunkChoice,
    Delta,
    Finish,
    ReplyView,
    ToolCallView,
)

_FINISH: Final[dict[EndReason, Finish]] = {"length": "length", "refusal": "content_filter", "pending": "tool_calls"}
"""Any other end is `stop`."""
_REFUSED: Final = "The model gave no answer of the form that was asked for."
_encode: Final = msgspec.json.Encoder().encode


class ChatChunks:
    """Writes the chunks of one stream. Implements `Sink`."""

    def __init__(self, put: Callable[[bytes], None], model: str, *, with_usage: bool) -> None:
        """`put` takes one event of the stream, without the empty line after it."""
        self._put = put
        self._id, self._created, self._model = f"chatcmpl-{new_call_id()}", int(time.time()), model
        self._with_usage = with_usage
        self.has_begun = False
        """Whether a chunk was written: from then on, an error is an event of the stream."""

    def text(self, text: str) -> None:
        """Write more of the answer."""
        self._write(Delta(content=text))

    def thinking(self, text: str) -> None:
        """Write more of the model's thinking."""
        self._write(Delta(reasoning_content=text))

    def comment(self, text: str) -> None:
        """Write a comment, once the stream has begun: clients skip it, and proxies see that the stream lives."""
        if self.has_begun:
            self._put(b": %b\n" % text.replace("\n", " ").replace("\r", " ").encode())

    def call_began(self, call_id: str, name: str, arguments: str, label: str) -> None:
        """Write a comment: no client of this API may see the call, for it would run it."""
        self.comment(f"{name} is at work")

    def call_ended(self, event: CallFinished) -> None:
        """Do nothing."""

    def finish(self, end: ChatEnd, meter: UsageMeter, *, has_form: bool) -> None:
        """Write the last chunks."""
        if not has_form:
            self._write(Delta(refusal=_REFUSED))
        if end.asked:
            self._write(Delta(tool_calls=call_views(end.asked, in_stream=True)))
        self._write(Delta(), finish=finish_of(end))
        if self._with_usage:
            view = usage_view(meter)
            usage = None if view is UNSET else view
            self._send(ChatChunk(self._id, self._created, self._model, [], usage=usage))
        self._put(b"data: [DONE]\n")

    def fail(self, refusal: Refusal) -> None:
        """Write an error, which ends the stream."""
        self._put(error_line(refusal))

    def _write(self, delta: Delta, finish: Finish | None = None) -> None:
        if not self.has_begun:
            self.has_begun = True
            self._write(Delta(role="assistant", content=""))
        choice = ChunkChoice(delta, finish)
        usage = None if self._with_usage else UNSET
        self._send(ChatChunk(self._id, self._created, self._model, [choice], usage=usage))

    def _send(self, chunk: ChatChunk) -> None:
        self._put(b"data: %b\n" % _encode(chunk))


class WholeAnswer:
    """Collects an answer. Implements `Sink`."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._thinking: list[str] = []

    def text(self, text: str) -> None:
        """Add more of the answer."""
        self._texts.append(text)

    def thinking(self, text: str) -> None:
        """Add more of the model's thinking."""
        self._thinking.append(text)

    def comment(self, text: str) -> None:
        """Do nothing."""

    def call_began(self, call_id: str, name: str, arguments: str, label: str) -> None:
        """Do nothing."""

    def call_ended(self, event: CallFinished) -> None:
        """Do nothing."""

    def encode(self, model: str, end: ChatEnd, meter: UsageMeter, *, has_form: bool) -> bytes:
        """Return the body of the answer."""
        text = "".join(self._texts)
        reply = ReplyView(
            text if text or not end.asked else None,
            refusal=None if has_form else _REFUSED,
            tool_calls=call_views(end.asked) if end.asked else UNSET,
            reasoning_content="".join(self._thinking) or UNSET,
        )
        choice = ChoiceView(reply, finish_of(end))
        view = usage_view(meter)
        return _encode(ChatAnswer(f"chatcmpl-{new_call_id()}", int(time.time()), model, [choice], usage=view))


def call_views(asked: Sequence[AskedTool], *, in_stream: bool = False) -> list[ToolCallView]:
    """Return the calls that the client has to run."""
    return [
        ToolCallView(one.id, CalledFunction(one.name, one.arguments), index=place if in_stream else UNSET)
        for place, one in enumerate(asked)
    ]


def finish_of(end: ChatEnd) -> Finish:
    """Return why the answer ended, in OpenAI's words."""
    if end.ended.reason == "pending" and not end.asked:
        return "stop"
    return _FINISH.get(end.ended.reason, "stop")


def error_line(refusal: Refusal) -> bytes:
    """Return an error as an event of the stream."""
    return b"data: %b\n" % error_bytes(refusal)
