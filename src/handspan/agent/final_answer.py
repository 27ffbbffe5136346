"""Answers of a wanted form: the model gives one by a last tool call, and the turn ends there."""

from collections.abc import AsyncIterator, Sequence
from typing import Final

from handspan.core.images import ImageReader
from handspan.core.messages import AssistantMessage, CallPart, Message, ResultsMessage, Text, UserMessage
from handspan.core.tool import READ_ONLY, ToolSpec
from handspan.core.values import JsonObject
from handspan.models.model import Model, ModelEvent, Projection, Replied, TextDelta

FINAL_ANSWER: Final = "final_answer"
"""The name of the tool that the model calls to give its answer."""
REMINDER: Final = f"Give your answer by calling the tool {FINAL_ANSWER!r}, and write nothing else."
MAX_TRIES: Final = 3
"""How many answers the model may try."""
NO_ANSWER: Final = "I could not give an answer of this form."
"""The text of a turn whose answers were all refused."""


def final_answer_spec(parameters: JsonObject) -> ToolSpec:
    """Return the tool whose arguments are the answer."""
    return ToolSpec(
        FINAL_ANSWER,
        "Give the answer to the person. Call it once, when everything else is done: its arguments are the answer, "
        "and nothing is said after it.",
        parameters,
        annotations=READ_ONLY,
    )


class WatchedProjection:
    """The projection of another model, which also watches for an accepted final answer."""

    def __init__(self, inner: Projection) -> None:
        self.inner = inner
        self._calls: tuple[CallPart, ...] = ()
        self._refusals = 0
        self.last_text: str | None = None
        """The text that ends the turn without another request; None: the model has to reply."""

    def append(self, message: Message) -> None:
        """Add a message. Raises `UnpairedCalls` when it can't follow the last one."""
        self.inner.append(message)
        self.last_text = None
        match message:
            case UserMessage():
                self._refusals = 0
            case AssistantMessage():
                self._calls = message.calls
            case ResultsMessage():
                self._read_results(message)

    def _read_results(self, message: ResultsMessage) -> None:
        for call, result in zip(self._calls, message.results, strict=True):
            if call.name == FINAL_ANSWER and not result.is_error:
                self.last_text = call.arguments
                return
            self._refusals += call.name == FINAL_ANSWER
        if self._refusals >= MAX_TRIES:
            self.last_text = NO_ANSWER

    def __len__(self) -> int:
        return len(self.inner)


class ModelWithFinalAnswer:
    """The same model. A turn whose final answer was accepted ends without another request to it."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def name(self) -> str:
        return self._model.name

    def projection(self, instructions: str = "") -> WatchedProjection:
        """Return an empty conversation in this model's format."""
        return WatchedProjection(self._model.projection(instructions))

    def reply(
        self, projection: Projection, specs: Sequence[ToolSpec], artifacts: ImageReader | None = None
    ) -> AsyncIterator[ModelEvent]:
        """Return what the model replies, or the text that is known already."""
        assert isinstance(projection, WatchedProjection), "a projection belongs to the model that made it"
        if projection.last_text is not None:
            return _reply_with(projection.last_text, self.name)
        return self._model.reply(projection.inner, specs, artifacts)


async def _reply_with(text: str, model: str) -> AsyncIterator[ModelEvent]:
    yield TextDelta(text)
    yield Replied(AssistantMessage((Text(text),), "end", model))


def strip_fence(text: str) -> str:
    """Return the text without the fence of three backticks around it."""
    stripped = text.strip()
    if not stripped.startswith("```"):
        return stripped
    return stripped.removeprefix("```").removeprefix("json").removesuffix("```").strip()
