"""Writes the chunks of one message in an order that every client takes: a part begins before it grows, and ends."""

from collections.abc import Callable
from typing import Final

from msgspec import UNSET, UnsetType

from handspan.core.calls import new_call_id
from handspan.core.values import Json, encode
from handspan.wire.ui_stream import (
    LAST_LINE,
    ApprovalChunk,
    FailedChunk,
    FileChunk,
    FinishChunk,
    FinishReason,
    FinishStepChunk,
    MessageMetadata,
    ReasoningDeltaChunk,
    ReasoningEndChunk,
    ReasoningStartChunk,
    ResetStepChunk,
    StartChunk,
    StartStepChunk,
    StoppedChunk,
    TextDeltaChunk,
    TextEndChunk,
    TextStartChunk,
    ToolDeniedChunk,
    ToolErrorChunk,
    ToolInputChunk,
    ToolInputDeltaChunk,
    ToolInputStartChunk,
    ToolOutputChunk,
    UiChunk,
    render_chunk,
)

_OURS: Final = True
"""`providerExecuted` and `dynamic` of our own tools: no client runs them, and none has types for them."""


class MessageWriter:
    """Writes one message. It begins with the first thing that is written."""

    def __init__(self, put: Callable[[bytes], None], message_id: str = "") -> None:
        """`put` takes one event of the stream. `message_id`: empty, and the client goes on with its last message."""
        self._put = put
        self.message_id = message_id
        self.has_begun = False
        self.is_over = False
        """Whether the message has its end: nothing more is written."""
        self._is_in_step = False
        self._text = ""
        """The id of the text that grows; empty: none does."""
        self._thinking = ""
        """The id of the thinking that grows; empty: none does."""

    def begin(self, *, in_step: bool = False) -> None:
        """Begin the message, if it has not begun. `in_step`: the client has a step that is not over."""
        if not self.has_begun and not self.is_over:
            self.has_begun = True
            self._is_in_step = self._is_in_step or in_step
            self._put(render_chunk(StartChunk(self.message_id or UNSET)))

    def begin_step(self) -> None:
        """Begin a round, after the end of the one before."""
        self.end_step()
        self._is_in_step = True
        self._write(StartStepChunk())

    def end_step(self) -> None:
        """End the round, if one is open."""
        self._end_parts()
        if self._is_in_step:
            self._is_in_step = False
            self._write(FinishStepChunk())

    def reset_step(self) -> None:
        """Take back what was told of the last round: it is told anew."""
        self._end_parts()
        self.begin(in_step=True)
        self._is_in_step = True
        self._write(ResetStepChunk())

    def text(self, text: str) -> None:
        """Write more of the answer."""
        if not self._text:
            self._begin_part()
            self._text = new_call_id()
            self._write(TextStartChunk(self._text))
        self._write(TextDeltaChunk(self._text, text))

    def thinking(self, text: str) -> None:
        """Write more of the model's thinking."""
        if not self._thinking:
            self._begin_part()
            self._thinking = new_call_id()
            self._write(ReasoningStartChunk(self._thinking))
        self._write(ReasoningDeltaChunk(self._thinking, text))

    def call(self, call_id: str, name: str, arguments: Json, *, is_own: bool) -> None:
        """Write a call. `is_own`: of the client's own tool, which the client runs."""
        self._begin_part()
        self._write(ToolInputChunk(call_id, name, arguments, _ours(is_own), dynamic=_ours(is_own)))

    def ask(self, question_id: str, call_id: str, reason: str) -> None:
        """Write that a person is asked whether this call may run. It has to be shown, by `call` or `show_call`."""
        self._write(ApprovalChunk(question_id, call_id, reason))

    def show_call(self, call_id: str, name: str, arguments: Json) -> None:
        """Write a call of the client's own tool that the client may not run yet."""
        self._begin_part()
        self._write(ToolInputStartChunk(call_id, name))
        self._write(ToolInputDeltaChunk(call_id, encode(arguments).decode()))

    def result(self, call_id: str, value: Json, *, is_own: bool = False, is_last: bool = True) -> None:
        """Write the result of a call, or what its tool reports so far."""
        preliminary = UNSET if is_last else True
        self._write(ToolOutputChunk(call_id, value, _ours(is_own), _ours(is_own), preliminary=preliminary))

    def failure(self, call_id: str, text: str, *, is_own: bool = False) -> None:
        """Write that a call has failed."""
        self._write(ToolErrorChunk(call_id, text, _ours(is_own), _ours(is_own)))

    def denial(self, call_id: str) -> None:
        """Write that a person has said no to a call."""
        self._write(ToolDeniedChunk(call_id))

    def file(self, url: str, media_type: str) -> None:
        """Write a file."""
        self._begin_part()
        self._write(FileChunk(url, media_type))

    def finish(self, reason: FinishReason, metadata: MessageMetadata, *, is_stopped: bool = False) -> None:
        """End the message."""
        self.end_step()
        if is_stopped:
            self._write(StoppedChunk())
        self._write(FinishChunk(reason, UNSET if metadata == MessageMetadata() else metadata))
        self._end()

    def fail(self, text: str) -> None:
        """End the message with an error."""
        self.end_step()
        self._write(FailedChunk(text))
        self._end()

    def _end(self) -> None:
        self._put(LAST_LINE)
        self.is_over = True

    def _begin_part(self) -> None:
        """End the part that grows; a part stands in a round."""
        self._end_parts()
        if not self._is_in_step:
            self.begin_step()

    def _end_parts(self) -> None:
        text, self._text = self._text, ""
        thinking, self._thinking = self._thinking, ""
        if text:
            self._write(TextEndChunk(text))
        if thinking:
            self._write(ReasoningEndChunk(thinking))

    def _write(self, chunk: UiChunk) -> None:
        self.begin()
        if not self.is_over:
            self._put(render_chunk(chunk))


def _ours(is_own: bool) -> bool | UnsetType:
    return UNSET if is_own else _OURS
